/* SPDX-License-Identifier: Apache-2.0 */
/* test_loop.c - threads, and the loop that takes closures from them */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define N_THREADS   4
#define N_CALLS     2000
#define DEADLINE_MS 60000

static _Atomic int n_run;

struct numbered {
	struct tei_call call;
	int thread, number;
	bool taken;
};

static int last_number[N_THREADS]; /* loop thread only */

static void check_order(struct tei_call *call)
{
	struct numbered *n = TEI_CONTAINER(call, struct numbered, call);

	assert_int_equal(n->number, last_number[n->thread]++);
	atomic_fetch_add(&n_run, 1);
}

static struct tei_loop *loop;
static struct numbered calls[N_THREADS][N_CALLS];

static void *post_all(void *arg)
{
	struct numbered *mine = arg;

	for (int i = 0; i < N_CALLS; i++)
		mine[i].taken = tei_loop_post(loop, &mine[i].call);
	return NULL;
}

static void start_posters(pthread_t threads[N_THREADS])
{
	atomic_store(&n_run, 0);
	for (int t = 0; t < N_THREADS; t++) {
		last_number[t] = 0;
		for (int i = 0; i < N_CALLS; i++)
			calls[t][i] = (struct numbered){.call.fn = check_order,
							.thread = t,
							.number = i};
		assert_int_equal(tei_thread_start(&threads[t], "poster",
						  post_all, calls[t]),
				 0);
	}
}

static bool all_run(void *arg)
{
	(void)arg;
	return atomic_load(&n_run) == N_THREADS * N_CALLS;
}

static void closures_of_each_thread_run_in_order(void **state)
{
	pthread_t threads[N_THREADS];

	(void)state;
	assert_int_equal(tei_loop_create("test", &loop), 0);
	start_posters(threads);
	for (int t = 0; t < N_THREADS; t++)
		pthread_join(threads[t], NULL);
	assert_true(test_wait_until(all_run, NULL, DEADLINE_MS));
	tei_loop_stop(loop);
	tei_loop_stop(loop);
	tei_loop_destroy(loop);
}

static void stop_neither_loses_nor_delays_an_accepted_closure(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++) {
		pthread_t threads[N_THREADS];
		int n_taken = 0, n_at_stop;

		assert_int_equal(tei_loop_create("test", &loop), 0);
		start_posters(threads);
		tei_loop_stop(loop);
		n_at_stop = atomic_load(&n_run);
		for (int t = 0; t < N_THREADS; t++)
			pthread_join(threads[t], NULL);
		for (int t = 0; t < N_THREADS; t++)
			for (int i = 0; i < N_CALLS; i++)
				n_taken += calls[t][i].taken;
		assert_int_equal(n_at_stop, n_taken);
		assert_int_equal(atomic_load(&n_run), n_taken);
		tei_loop_destroy(loop);
	}
}

struct spinner {
	pthread_t thread;
	int rc;
};

static void *run_spinning(void *arg)
{
	struct spinner *s = arg;

	s->rc = tei_loop_run(loop);
	return NULL;
}

static void a_loop_that_spins_runs_all_and_stops(void **state)
{
	pthread_t threads[N_THREADS];
	struct spinner s = {.rc = -1};

	(void)state;
	assert_int_equal(tei_loop_create_bare(&loop), 0);
	tei_loop_spin(loop, 50 * TEI_NS_PER_US);
	assert_int_equal(
		tei_thread_start(&s.thread, "spinner", run_spinning, &s), 0);
	start_posters(threads);
	for (int t = 0; t < N_THREADS; t++)
		pthread_join(threads[t], NULL);
	assert_true(test_wait_until(all_run, NULL, DEADLINE_MS));
	tei_loop_stop(loop);
	pthread_join(s.thread, NULL);
	assert_int_equal(s.rc, 0);
	tei_loop_destroy(loop);
}

static void note_thread(void *arg)
{
	assert_true(tei_loop_is_mine(loop));
	*(pthread_t *)arg = pthread_self();
}

static void nested_do(void *arg)
{
	assert_true(tei_loop_do(loop, note_thread, arg));
}

static void do_runs_on_the_loop_and_waits(void **state)
{
	pthread_t on;

	(void)state;
	assert_int_equal(tei_loop_create("test", &loop), 0);
	assert_false(tei_loop_is_mine(loop));
	assert_true(tei_loop_do(loop, nested_do, &on));
	assert_false(pthread_equal(on, pthread_self()));
	tei_loop_stop(loop);
	assert_false(tei_loop_do(loop, note_thread, &on));
	tei_loop_destroy(loop);
	tei_loop_destroy(NULL);
}

struct ticks {
	struct tei_timer *once, *often;
	int n_once, n_often;
};

static void on_once(void *arg)
{
	struct ticks *t = arg;

	t->n_once++;
	tei_timer_stop(t->once);
	t->once = NULL;
}

static void on_often(void *arg)
{
	struct ticks *t = arg;

	if (++t->n_often < 5)
		return;
	tei_timer_stop(t->often);
	t->often = NULL;
	tei_loop_stop(loop); /* bare: asks run() to return */
}

static void timers_fire_and_stop_inside_their_own_callback(void **state)
{
	struct ticks t = {0};

	(void)state;
	assert_int_equal(tei_loop_create_bare(&loop), 0);
	assert_true(tei_loop_is_mine(loop));
	t.once = tei_timer_start(loop, 0, false, on_once, &t);
	t.often = tei_timer_start(loop, 1, true, on_often, &t);
	assert_int_equal(tei_loop_run(loop), 0);
	assert_int_equal(t.n_once, 1);
	assert_int_equal(t.n_often, 5);
	tei_timer_stop(NULL);
	tei_loop_destroy(loop);
}

static void bare_loop_runs_what_was_posted_even_if_never_run(void **state)
{
	struct numbered n = {.call.fn = check_order};

	(void)state;
	atomic_store(&n_run, 0);
	last_number[0] = 0;
	assert_int_equal(tei_loop_create_bare(&loop), 0);
	assert_true(tei_loop_post(loop, &n.call));
	tei_loop_destroy(loop);
	assert_int_equal(atomic_load(&n_run), 1);
}

static void create_survives_any_failure(void **state)
{
	static const struct {
		enum tei_fault kind;
		int rc;
	} kinds[] = {{TEI_FAULT_ALLOC, -ENOMEM},
		     {TEI_FAULT_SOCKET, -EMFILE},
		     {TEI_FAULT_THREAD, -EAGAIN}};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
		struct test_faults f = {kinds[i].kind, 0};

		while (test_faults_next(&f)) {
			int rc = tei_loop_create("test", &loop);

			if (rc == 0)
				tei_loop_destroy(loop);
			assert_int_equal(
				rc, tei_fault_struck(f.kind) ? kinds[i].rc : 0);
		}
		assert_true(f.n > 1);
	}
}

static void *no_signal_gets_through(void *arg)
{
	sigset_t now;

	pthread_sigmask(SIG_SETMASK, NULL, &now);
	*(bool *)arg = sigismember(&now, SIGTERM) && sigismember(&now, SIGPIPE);
	return NULL;
}

static void threads_block_signals_and_leave_ours_alone(void **state)
{
	sigset_t before, after;
	bool blocked = false;
	pthread_t thread;

	(void)state;
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(tei_thread_start(&thread, "test",
					  no_signal_gets_through, &blocked),
			 0);
	pthread_join(thread, NULL);
	assert_true(blocked);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_int_equal(sigismember(&before, SIGTERM),
			 sigismember(&after, SIGTERM));
}

static void condition_wait_ends_at_its_deadline(void **state)
{
	struct tei_mutex mu;
	struct tei_cond cond;
	uint64_t deadline = tei_now_ns() + 2000000;

	(void)state;
	tei_mutex_init(&mu);
	tei_cond_init(&cond);
	tei_mutex_lock(&mu);
	while (tei_cond_wait(&cond, &mu, deadline))
		;
	assert_true(tei_now_ns() >= deadline);
	assert_false(tei_cond_wait(&cond, &mu, 0));
	tei_mutex_unlock(&mu);
	tei_cond_signal(&cond);
	tei_cond_broadcast(&cond);
	tei_cond_fini(&cond);
	tei_mutex_fini(&mu);
}

static _Atomic bool nudged;

static void note_nudge(struct tei_call *call)
{
	(void)call;
	atomic_store(&nudged, false);
}

/* Wakes the loop, which measures before it sleeps, and not for long each time. */
static bool wakeups_are_known(void *call)
{
	if (!atomic_exchange(&nudged, true))
		assert_true(tei_loop_post(loop, call));
	return tei_wakeup_done();
}

static void a_loop_that_would_sleep_measures_wake_ups(void **state)
{
	struct tei_call call = {.fn = note_nudge};

	(void)state;
	assert_false(tei_wakeup_done());
	assert_int_equal(tei_loop_create("test", &loop), 0);
	assert_true(test_wait_until(wakeups_are_known, &call, DEADLINE_MS));
	tei_loop_stop(loop);
	tei_loop_destroy(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_loop_that_would_sleep_measures_wake_ups),
		cmocka_unit_test(a_loop_that_spins_runs_all_and_stops),
		cmocka_unit_test(closures_of_each_thread_run_in_order),
		cmocka_unit_test(
			stop_neither_loses_nor_delays_an_accepted_closure),
		cmocka_unit_test(do_runs_on_the_loop_and_waits),
		cmocka_unit_test(
			timers_fire_and_stop_inside_their_own_callback),
		cmocka_unit_test(
			bare_loop_runs_what_was_posted_even_if_never_run),
		cmocka_unit_test(create_survives_any_failure),
		cmocka_unit_test(threads_block_signals_and_leave_ours_alone),
		cmocka_unit_test(condition_wait_ends_at_its_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
