/* SPDX-License-Identifier: Apache-2.0 */
/* test_clock.c - under a simulated clock nothing sleeps and time is ours */
#include "base/clock.h"

#include "base/loop.h"
#include "base/thread.h"
#include "tests/lib/test.h"

struct ours {
	struct tei_clock clock;
	unsigned int n_idle;
};

/* Nothing to do for anybody: straight on to what comes first. */
static void idle(struct tei_clock *clock, uint64_t until)
{
	uint64_t due;

	((struct ours *)clock)->n_idle++;
	if (tei_loops_turn())
		return;
	due = tei_loops_due();
	if (due > until)
		due = until;
	if (due > atomic_load(&clock->now))
		atomic_store(&clock->now, due);
}

static struct ours ours = {.clock.idle = idle};

static int set_up(void **state)
{
	(void)state;
	atomic_store(&ours.clock.now, 1000 * TEI_NS_PER_S);
	ours.n_idle = 0;
	tei_clock_set(&ours.clock);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tei_clock_set(NULL);
	return 0;
}

static void time_stands_still_until_it_is_moved(void **state)
{
	(void)state;
	assert_int_equal(tei_now_ns(), 1000 * TEI_NS_PER_S);
	assert_int_equal(tei_now_ms(), 1000000);
	atomic_store(&ours.clock.now, 1001 * TEI_NS_PER_S);
	assert_int_equal(tei_now_ms(), 1001000);
}

static void condition_lets_time_pass_instead_of_sleeping(void **state)
{
	uint64_t until = tei_now_ns() + 3600 * TEI_NS_PER_S;
	struct tei_mutex mu;
	struct tei_cond cond;

	(void)state;
	tei_mutex_init(&mu);
	tei_cond_init(&cond);
	tei_mutex_lock(&mu);
	assert_false(tei_cond_wait(&cond, &mu, until));
	tei_mutex_unlock(&mu);
	assert_int_equal(tei_now_ns(), until);
	assert_int_equal(ours.n_idle, 1);
	tei_cond_fini(&cond);
	tei_mutex_fini(&mu);
}

struct note {
	struct tei_call call;
	char *at;
	char word;
};

static char words[16];

static void write_down(struct tei_call *call)
{
	struct note *note = TEI_CONTAINER(call, struct note, call);

	*note->at = note->word;
}

static void write_x(void *arg)
{
	*(char *)arg = 'x';
}

static void loop_is_turned_by_its_only_thread(void **state)
{
	struct note note = {.call.fn = write_down, .at = words, .word = 'a'};
	struct tei_loop *loop;

	(void)state;
	assert_int_equal(tei_loop_create("none", &loop), 0);
	assert_true(tei_loop_is_mine(loop));
	assert_false(tei_loops_turn());
	assert_true(tei_loop_post(loop, &note.call));
	assert_int_equal(words[0], 0);
	assert_true(tei_loops_turn());
	assert_int_equal(words[0], 'a');
	/* do() comes behind what was posted. */
	note.word = 'b';
	assert_true(tei_loop_post(loop, &note.call));
	assert_true(tei_loop_do(loop, write_x, words));
	assert_int_equal(words[0], 'x');
	tei_loop_stop(loop);
	tei_loop_destroy(loop);
	assert_false(tei_loops_turn());
}

static void timers_are_due_by_the_clock(void **state)
{
	uint64_t begin = tei_now_ns();
	struct tei_timer *late, *soon;
	char first = 0, second = 0;
	struct tei_loop *loop;

	(void)state;
	assert_int_equal(tei_loop_create("none", &loop), 0);
	late = tei_timer_start(loop, 7200000, false, write_x, &second);
	soon = tei_timer_start(loop, 3600000, true, write_x, &first);
	assert_true(late && soon);
	assert_false(tei_loops_turn());
	assert_int_equal(tei_loops_due(), begin + 3600 * TEI_NS_PER_S);
	atomic_store(&ours.clock.now, tei_loops_due());
	assert_true(tei_loops_turn());
	assert_int_equal(first, 'x');
	assert_int_equal(second, 0);
	tei_timer_stop(soon);
	assert_int_equal(tei_loops_due(), begin + 7200 * TEI_NS_PER_S);
	tei_timer_stop(late);
	assert_int_equal(tei_loops_due(), UINT64_MAX);
	tei_loop_destroy(loop);
}

#define WITH_CLOCK(test) \
	cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_CLOCK(time_stands_still_until_it_is_moved),
		WITH_CLOCK(condition_lets_time_pass_instead_of_sleeping),
		WITH_CLOCK(loop_is_turned_by_its_only_thread),
		WITH_CLOCK(timers_are_due_by_the_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
