/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_follow.c - answer on the core from which the question came
 *
 * One thread, bound to a core, asks by a connection of this host; the one of
 * the test answers, and is put on another core again and again until it has
 * been moved.
 */
#include "base/follow.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"

#define QUESTIONS 200u /* many more than there are looks before a move */
#define TRIES     50 /* the scheduler may move it away before it is looked at */

static cpu_set_t may;
static size_t asker_cpu, other_cpu;
static int asker, answerer; /* sockets */
static uint64_t now;

static bool bind_to(size_t cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

static void unbind(void)
{
	assert_int_equal(sched_setaffinity(0, sizeof(may), &may), 0);
}

static void *ask(void *arg)
{
	char c;

	if (!bind_to(asker_cpu))
		return arg;
	do
		c = send(asker, "?", 1, MSG_NOSIGNAL) == 1 &&
		    recv(asker, &c, 1, 0) == 1;
	while (c);
	return NULL;
}

static void connect_two(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len),
			 0);
	asker = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(asker, (struct sockaddr *)&at, len), 0);
	answerer = accept(listener, NULL, NULL);
	assert_true(answerer >= 0);
	close(listener);
}

/* False: there is nowhere to go to, or the system forbids it. */
static bool has_cores(void)
{
	size_t cpu, n = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(may), &may), 0);
	for (cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++) {
		if (!CPU_ISSET(cpu, &may))
			continue;
		other_cpu = asker_cpu;
		asker_cpu = cpu;
		n++;
	}
	now = tei_now_ns();
	return n == 2 && !sched_setaffinity(0, sizeof(may), &may);
}

/*
 * Answers from another core, having been awake for @awake ns each time; @bound:
 * it may use no other. True: it was moved at last, or would have been.
 */
static bool answers(struct tei_follow *follow, uint64_t awake, bool bound)
{
	char c;

	for (uint32_t i = 0; i < QUESTIONS; i++) {
		int cpu;

		assert_int_equal(recv(answerer, &c, 1, 0), 1);
		assert_true(bind_to(other_cpu));
		if (!bound)
			unbind();
		now += TEI_NS_PER_MS;
		cpu = tei_follow_look(follow, answerer, awake, now);
		if (cpu >= 0) {
			assert_int_equal(cpu, asker_cpu);
			tei_follow_move(follow, cpu);
			return true;
		}
		assert_int_equal(send(answerer, "!", 1, 0), 1);
	}
	return false;
}

static bool run(uint64_t awake, bool bound, int *cpu)
{
	struct tei_follow follow = {0};
	pthread_t thread;
	cpu_set_t left;
	bool moved;

	connect_two();
	assert_int_equal(pthread_create(&thread, NULL, ask, NULL), 0);
	moved = answers(&follow, awake, bound);
	*cpu = sched_getcpu();
	assert_int_equal(sched_getaffinity(0, sizeof(left), &left), 0);
	if (bound)
		assert_int_equal(CPU_COUNT(&left), 1);
	else
		assert_true(CPU_EQUAL(&left, &may));
	assert_false(follow.forbidden);
	unbind();
	close(answerer);
	pthread_join(thread, NULL);
	close(asker);
	return moved;
}

static void it_moves_to_the_core_of_who_asks(void **state)
{
	int cpu;

	(void)state;
	if (!has_cores())
		skip();
	for (int i = 0; i < TRIES; i++) {
		assert_true(run(1000, false, &cpu));
		if (cpu == (int)asker_cpu)
			return;
	}
	fail_msg("it was never seen on core %zu", asker_cpu);
}

static void it_stays_on_the_cores_that_it_may_use(void **state)
{
	int cpu;

	(void)state;
	if (!has_cores())
		skip();
	assert_true(run(1000, true, &cpu));
	assert_int_equal(cpu, other_cpu);
}

static void it_stays_where_an_answer_takes_long(void **state)
{
	int cpu;

	(void)state;
	if (!has_cores())
		skip();
	assert_false(run(TEI_NS_PER_MS, false, &cpu));
}

static void sockets_that_are_no_connection_are_left_alone(void **state)
{
	struct tei_follow follow = {0};
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	for (uint32_t i = 0; i < QUESTIONS; i++)
		assert_int_equal(tei_follow_look(&follow, pair[0], 1, now), -1);
	close(pair[0]);
	close(pair[1]);
	for (uint32_t i = 0; i < QUESTIONS; i++)
		assert_int_equal(tei_follow_look(&follow, pair[0], 1, now), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_moves_to_the_core_of_who_asks),
		cmocka_unit_test(it_stays_on_the_cores_that_it_may_use),
		cmocka_unit_test(it_stays_where_an_answer_takes_long),
		cmocka_unit_test(sockets_that_are_no_connection_are_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
