/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wakeup.c - how long it takes until a thread that is woken runs
 *
 * What is measured here depends on the host and on who else is busy: zero, not
 * known, is an answer like others.
 */
#include "base/wakeup.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"

#define SLACK   77000ul /* ns, of this thread's timers */
#define CHILD_S 300u

static void the_median_counts(void **state)
{
	struct tei_wakeup w = {0};
	uint64_t late = 10000;

	(void)state;
	for (unsigned int i = 1; i < TEI_WAKEUP_SAMPLES; i++)
		assert_int_equal(tei_wakeup_count(&w, late * i), 0);
	assert_int_equal(tei_wakeup_count(&w, 0),
			 late * (TEI_WAKEUP_SAMPLES / 2));
}

static void sleeps_held_up_by_others_do_not_count(void **state)
{
	struct tei_wakeup w = {0};

	(void)state;
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(tei_wakeup_count(&w, TEI_WAKEUP_MOST + 1), 0);
	for (unsigned int i = 1; i < TEI_WAKEUP_SAMPLES; i++)
		assert_int_equal(tei_wakeup_count(&w, TEI_WAKEUP_MOST), 0);
	assert_int_equal(tei_wakeup_count(&w, TEI_WAKEUP_MOST + 1), 0);
	assert_int_equal(tei_wakeup_count(&w, 0), TEI_WAKEUP_MOST);
}

/* No clock is so exact, but 0 would be "not known". */
static void none_is_late_by_nothing(void **state)
{
	struct tei_wakeup w = {0};

	(void)state;
	for (unsigned int i = 1; i < TEI_WAKEUP_SAMPLES; i++)
		assert_int_equal(tei_wakeup_count(&w, 0), 0);
	assert_int_equal(tei_wakeup_count(&w, 0), 1);
}

static void a_simulated_clock_has_no_wake_ups(void **state)
{
	struct tei_clock clock = {.now = 1};

	(void)state;
	tei_clock_set(&clock);
	assert_true(tei_wakeup_measure(-1));
	tei_clock_set(NULL);
	assert_false(tei_wakeup_done());
	assert_int_equal(tei_wakeup_ns(), 0);
}

/* Who has something else to do does not sleep on; timers are as they were. */
static void a_readable_fd_ends_the_measurement(void **state)
{
	int fd = eventfd(1, EFD_NONBLOCK);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(prctl(PR_SET_TIMERSLACK, SLACK, 0ul, 0ul, 0ul), 0);
	for (int i = 0; i < 100; i++)
		assert_false(tei_wakeup_measure(fd));
	assert_int_equal(prctl(PR_GET_TIMERSLACK, 0ul, 0ul, 0ul, 0ul), SLACK);
	assert_int_equal(tei_wakeup_ns(), 0);
	close(fd);
}

static void *measure(void *arg)
{
	for (int i = 0; i < 10; i++)
		(void)tei_wakeup_measure(-1);
	return arg;
}

static _Atomic bool begun;

static void *measure_all(void *arg)
{
	atomic_store(&begun, true);
	while (!tei_wakeup_measure(-1))
		; /* it gives up after some */
	return arg;
}

/* Forks while another thread measures, most likely. Returns the exit status. */
static int measure_in_a_child(void)
{
	int status = 1;
	pthread_t other;
	pid_t pid;

	(void)alarm(CHILD_S);
	if (pthread_create(&other, NULL, measure_all, NULL))
		return 1;
	while (!atomic_load(&begun))
		;
	pid = fork();
	if (!pid) {
		(void)alarm(CHILD_S);
		(void)measure_all(NULL);
		_exit(!tei_wakeup_done());
	}
	if (pid > 0 && waitpid(pid, &status, 0) != pid)
		status = 1;
	return pthread_join(other, NULL) || status;
}

/* In processes of their own: nothing is measured in this one. */
static void a_child_goes_on_measuring(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	for (int i = 0; i < 4; i++) {
		pid = fork();
		assert_true(pid >= 0);
		if (!pid)
			_exit(measure_in_a_child());
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

static void many_threads_measure_once(void **state)
{
	pthread_t others[4];
	uint64_t wakeup;

	(void)state;
	assert_false(tei_wakeup_done());
	for (size_t i = 0; i < TEST_COUNT(others); i++)
		assert_int_equal(
			pthread_create(&others[i], NULL, measure, NULL), 0);
	for (size_t i = 0; i < TEST_COUNT(others); i++)
		assert_int_equal(pthread_join(others[i], NULL), 0);
	while (!tei_wakeup_measure(-1))
		; /* it gives up after some */
	wakeup = tei_wakeup_ns();
	assert_true(tei_wakeup_done() && wakeup <= TEI_WAKEUP_MOST);
	measure(NULL);
	assert_int_equal(tei_wakeup_ns(), wakeup);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_median_counts),
		cmocka_unit_test(sleeps_held_up_by_others_do_not_count),
		cmocka_unit_test(none_is_late_by_nothing),
		cmocka_unit_test(a_simulated_clock_has_no_wake_ups),
		cmocka_unit_test(a_readable_fd_ends_the_measurement),
		cmocka_unit_test(a_child_goes_on_measuring),
		cmocka_unit_test(many_threads_measure_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
