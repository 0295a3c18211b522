/* SPDX-License-Identifier: Apache-2.0 */
/* test_turns.c - who gets the memory of the inbox that all senders share */
#include "te/control/control.h"
#include "te/notify/inbox.h"
#include "tests/unit/te/inbox.h"

static const char *const hasty[] = {SMALL, "1s", NULL};

/* Two of these fit, of three senders. */
static void say_long(int fd, uint64_t first, uint64_t taken)
{
	struct frame f;

	fill(&f, first, 1, TE_NOTIFY_MAX);
	raw_send_message(fd, NOTIFY, 7, &f.m.base);
	hear_notified(fd, 0, taken);
}

static void hear_room(int fd)
{
	size_t len = sizeof(body);

	assert_int_equal(raw_receive(fd, body, &len), ROOM);
}

static void greet_three(int fd[3])
{
	uint8_t who[3][16] = {{1}, {2}, {3}};

	for (int i = 0; i < 3; i++) {
		fd[i] = raw_greet(engine, who[i], NULL);
		say_long(fd[i], 1, i < 2);
	}
}

static void close_three(const int fd[3])
{
	for (int i = 0; i < 3; i++)
		close(fd[i]);
}

static void memory_of_all_messages_is_bounded(void **state)
{
	int fd[3];

	(void)state;
	greet_three(fd);
	take_one();
	hear_room(fd[2]);
	say_long(fd[2], 1, 1);
	close_three(fd);
}

static void who_waits_for_memory_is_not_overtaken(void **state)
{
	int fd[3];

	(void)state;
	greet_three(fd);
	take_one();
	say_long(fd[0], 2, 1); /* it is the third one's turn */
	hear_room(fd[2]);
	say_long(fd[2], 1, 1);
	take_one();
	hear_room(fd[0]);
	say_long(fd[0], 2, 2);
	close_three(fd);
}

static void count_inbound(void *arg)
{
	*(int *)arg = 0;
	tei_list_for_each (node, &engine->control->inbound.conns)
		++*(int *)arg;
}

static bool two_are_left(void *arg)
{
	assert_true(tei_loop_do(engine->loop, count_inbound, arg));
	return *(int *)arg == 2;
}

/* Though it is remembered, for it has been heard before. */
static void who_leaves_gives_up_its_turn(void **state)
{
	uint8_t who[16] = {9};
	int fd[3], fourth = raw_greet(engine, who, NULL), n;

	(void)state;
	tell(fourth, 1, 1, 1);
	take_one();
	greet_three(fd);
	close(fd[2]);
	say_long(fourth, 2, 1);
	take_one();
	hear_room(fourth);
	close(fourth);
	assert_true(test_wait_until(two_are_left, &n, RIG_WAIT_MS));
	say_long(fd[0], 2, 2);
	close(fd[0]);
	close(fd[1]);
}

static uint64_t say_and_hear(int fd, uint64_t first)
{
	uint8_t answer[64];
	size_t len = sizeof(answer);
	Te__Notified *m;
	struct frame f;
	uint64_t taken;

	fill(&f, first, 1, TE_NOTIFY_MAX);
	raw_send_message(fd, NOTIFY, 7, &f.m.base);
	assert_int_equal(raw_receive(fd, answer, &len), NOTIFY);
	m = te__notified__unpack(NULL, len, answer);
	assert_non_null(m);
	taken = m->taken;
	te__notified__free_unpacked(m, NULL);
	return taken;
}

static void who_does_not_use_its_turn_holds_nobody_up_for_long(void **state)
{
	int fd[3];

	(void)state;
	te_engine_destroy(engine);
	engine = rig_engine(hasty);
	greet_three(fd);
	take_one();
	hear_room(fd[2]);
	while (say_and_hear(fd[0], 2) != 2)
		hear_room(fd[0]);
	close_three(fd);
}

/* However short their messages: each has an account, too. */
static void memory_of_many_senders_is_bounded(void **state)
{
	size_t most = 196608 / sizeof(struct tei_account), n = 0;
	uint8_t who[16] = {45};
	bool taken = true;

	(void)state;
	for (uint32_t i = 0; taken && n <= most; i++) {
		uint8_t answer[64];
		size_t len = sizeof(answer);
		struct frame f;
		int fd;

		memcpy(who + 1, &i, sizeof(i));
		fd = raw_greet(engine, who, NULL);
		fill(&f, 1, 1, 1);
		raw_send_message(fd, NOTIFY, 7, &f.m.base);
		assert_int_equal(raw_receive(fd, answer, &len), NOTIFY);
		taken = len > 0; /* the number taken is 1, not 0 */
		n += taken;
		close(fd);
	}
	assert_false(taken);
	assert_true(n > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINE(memory_of_all_messages_is_bounded),
		WITH_ENGINE(who_waits_for_memory_is_not_overtaken),
		WITH_ENGINE(who_leaves_gives_up_its_turn),
		WITH_ENGINE(who_does_not_use_its_turn_holds_nobody_up_for_long),
		WITH_ENGINE(memory_of_many_senders_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
