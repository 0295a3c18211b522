/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_drops.c - peers whose links do not end, or end by themselves
 *
 * The peer is a plain socket. The backend confirms no drop till it is told to,
 * as shared memory does, where the peer itself has a say in it; and it loses
 * what it is told to lose.
 */
#include <string.h>
#include <unistd.h>

#include "te/control/control.h"
#include "te/control/inbound.h"
#include "te/core/control.pb-c.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/alone.h"
#include "tests/unit/te/fake.h"
#include "tests/unit/te/raw.h"

#define LINK    7
#define N_DROPS 1000

static int set_up(void **state)
{
	(void)state;
	te_log_set_level(0);
	fake_reset();
	return alone_open(NULL);
}

static int tear_down(void **state)
{
	fake_reset();
	return alone_close(state);
}

/* The id of the next frame is not asked for: answers come in order. */
static void await_answer(int fd, int type)
{
	uint8_t body[4096];
	size_t len = sizeof(body);

	assert_int_equal(raw_receive(fd, body, &len), type);
}

static void make_link(int fd, uint64_t epoch)
{
	uint8_t address[8] = {0}, body[4096];
	Te__Connect m = TE__CONNECT__INIT;
	size_t len = sizeof(body);
	Te__Connected *answer;

	m.backend = (char *)(uintptr_t) "fake";
	m.endpoint = LINK;
	m.epoch = epoch;
	m.address.data = address;
	m.address.len = sizeof(address);
	raw_send_message(fd, TE__CONTROL_TYPE__CONTROL_CONNECT, 1, &m.base);
	assert_int_equal(raw_receive(fd, body, &len),
			 TE__CONTROL_TYPE__CONTROL_CONNECT);
	answer = te__connected__unpack(NULL, len, body);
	assert_non_null(answer);
	assert_int_equal(answer->status, 0);
	te__connected__free_unpacked(answer, NULL);
}

static void ask_for_drops(int fd, unsigned int n)
{
	Te__Probe probe = TE__PROBE__INIT;
	Te__Drop drop = TE__DROP__INIT;

	drop.endpoint = LINK;
	for (unsigned int i = 0; i < n; i++)
		raw_send_message(fd, TE__CONTROL_TYPE__CONTROL_DROP, 2 + i,
				 &drop.base);
	raw_send_message(fd, TE__CONTROL_TYPE__CONTROL_PROBE, 2 + n,
			 &probe.base);
	await_answer(fd, TE__CONTROL_TYPE__CONTROL_PROBE);
}

static void drops_of_a_link_do_not_pile_up(void **state)
{
	uint8_t who[TE_INCARNATION_LEN] = "one that insists";
	Te__Probe probe = TE__PROBE__INIT;
	uint64_t epoch;
	int fd;

	(void)state;
	atomic_store(&fake.hold_drop, true);
	fd = raw_greet(engine, who, &epoch);
	make_link(fd, epoch);
	ask_for_drops(fd, N_DROPS);
	atomic_store(&fake.hold_drop, false);
	fake_wake();
	await_answer(fd, TE__CONTROL_TYPE__CONTROL_DROP);
	raw_send_message(fd, TE__CONTROL_TYPE__CONTROL_PROBE, 1, &probe.base);
	await_answer(fd, TE__CONTROL_TYPE__CONTROL_PROBE);
	close(fd);
}

static void each_connection_is_told_of_the_end(void **state)
{
	uint8_t who[TE_INCARNATION_LEN] = "two connections";
	uint64_t epoch;
	int fd[3];

	(void)state;
	atomic_store(&fake.hold_drop, true);
	for (int i = 0; i < 3; i++)
		fd[i] = raw_greet(engine, who, &epoch);
	make_link(fd[0], epoch);
	for (int i = 0; i < 3; i++)
		ask_for_drops(fd[i], 2);
	close(fd[0]); /* and takes its question along */
	atomic_store(&fake.hold_drop, false);
	fake_wake();
	for (int i = 1; i < 3; i++) {
		await_answer(fd[i], TE__CONTROL_TYPE__CONTROL_DROP);
		close(fd[i]);
	}
}

/* ---- a link that the owner loses ---- */

static bool is_over(void *arg)
{
	(void)arg;
	return test_stat(engine, "te_endpoint_drops_served_total", NULL) > 0;
}

/* Connected, with a link that is lost by now. */
static int lose_link(uint64_t features)
{
	uint8_t who[TE_INCARNATION_LEN] = "of any age", nonce[32] = {1};
	Te__Hello hello;
	uint64_t epoch;
	int fd;

	raw_fill_hello(&hello, who, nonce);
	hello.features = features;
	fd = raw_greet_with(engine, &hello, &epoch);
	make_link(fd, epoch);
	atomic_store(&fake.lose_targets, 1);
	fake_wake();
	assert_true(test_wait_until(is_over, NULL, RIG_WAIT_MS));
	return fd;
}

static void who_heeds_it_is_told_of_a_lost_link(void **state)
{
	uint8_t body[64];
	size_t len = sizeof(body);
	int fd = lose_link(TEI_CONTROL_GONE);
	Te__Gone *m;

	(void)state;
	assert_int_equal(raw_receive(fd, body, &len),
			 TE__CONTROL_TYPE__CONTROL_GONE);
	m = te__gone__unpack(NULL, len, body);
	assert_non_null(m);
	assert_int_equal(m->endpoint, LINK);
	te__gone__free_unpacked(m, NULL);
	close(fd);
}

/* An older engine ends the connection at a type that it does not know. */
static void who_does_not_know_it_is_not_told_of_a_lost_link(void **state)
{
	Te__Probe probe = TE__PROBE__INIT;
	int fd = lose_link(0);

	(void)state;
	raw_send_message(fd, TE__CONTROL_TYPE__CONTROL_PROBE, 2, &probe.base);
	await_answer(fd, TE__CONTROL_TYPE__CONTROL_PROBE);
	close(fd);
}

/* ---- peers that leave their links behind ---- */

static int set_up_hasty(void **state)
{
	static const char *const hasty[] = {"connect_timeout", "200ms", NULL};

	(void)state;
	te_log_set_level(0);
	fake_reset();
	return alone_open(hasty);
}

static void links_of_who_does_not_come_back_are_ended(void **state)
{
	uint8_t who[TE_INCARNATION_LEN] = "one that dies";
	uint64_t epoch;
	int fd = raw_greet(engine, who, &epoch);

	(void)state;
	make_link(fd, epoch);
	close(fd);
	assert_true(test_wait_until(is_over, NULL, RIG_WAIT_MS));
}

/* ---- links that are asked for ---- */

/* Asks for LINK and another one; returns how many are gone, in gone[2]. */
static size_t ask_for_links(int fd, uint64_t gone[2])
{
	uint64_t numbers[2] = {LINK, LINK + 1};
	Te__Probe m = TE__PROBE__INIT, *answer;
	uint8_t body[64];
	size_t n, len = sizeof(body);

	m.endpoint = numbers;
	m.n_endpoint = 2;
	raw_send_message(fd, TE__CONTROL_TYPE__CONTROL_PROBE, 2, &m.base);
	assert_int_equal(raw_receive(fd, body, &len),
			 TE__CONTROL_TYPE__CONTROL_PROBE);
	answer = te__probe__unpack(NULL, len, body);
	assert_non_null(answer);
	n = answer->n_endpoint;
	assert_true(n <= 2);
	memcpy(gone, answer->endpoint, n * sizeof(gone[0]));
	te__probe__free_unpacked(answer, NULL);
	return n;
}

static void who_asks_for_links_hears_which_are_gone(void **state)
{
	uint8_t who[TE_INCARNATION_LEN] = "one that doubts";
	uint64_t epoch, gone[2];
	int fd = raw_greet(engine, who, &epoch);

	(void)state;
	make_link(fd, epoch);
	assert_int_equal(ask_for_links(fd, gone), 1);
	assert_int_equal(gone[0], LINK + 1);
	atomic_store(&fake.lose_targets, 1);
	fake_wake();
	assert_true(test_wait_until(is_over, NULL, RIG_WAIT_MS));
	assert_int_equal(ask_for_links(fd, gone), 2);
	assert_int_equal(gone[0], LINK);
	close(fd);
}

/* The one that left after it has lost its link by the end. */
static void links_of_who_comes_back_are_kept(void **state)
{
	uint8_t who[TE_INCARNATION_LEN] = "one that lives";
	uint64_t epoch, gone[2];
	int fd = raw_greet(engine, who, &epoch);

	(void)state;
	make_link(fd, epoch);
	close(fd);
	fd = raw_greet(engine, who, &epoch);
	links_of_who_does_not_come_back_are_ended(NULL);
	assert_int_equal(
		test_stat(engine, "te_endpoint_drops_served_total", NULL), 1);
	assert_int_equal(ask_for_links(fd, gone), 1);
	assert_int_equal(gone[0], LINK + 1);
	close(fd);
}

static void who_asks_for_more_links_than_it_may_have_is_refused(void **state)
{
	uint64_t numbers[TEI_INBOUND_LINKS_MAX + 1];
	uint8_t who[TE_INCARNATION_LEN] = "one that doubts";
	Te__Probe m = TE__PROBE__INIT;
	int fd = raw_greet(engine, who, NULL);

	(void)state;
	for (uint64_t i = 0; i < TEST_COUNT(numbers); i++)
		numbers[i] = i;
	m.endpoint = numbers;
	m.n_endpoint = TEST_COUNT(numbers);
	raw_send_message(fd, TE__CONTROL_TYPE__CONTROL_PROBE, 2, &m.base);
	raw_await_close(fd);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define HASTY(test) \
	cmocka_unit_test_setup_teardown(test, set_up_hasty, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(drops_of_a_link_do_not_pile_up),
		TEST(each_connection_is_told_of_the_end),
		TEST(who_heeds_it_is_told_of_a_lost_link),
		TEST(who_does_not_know_it_is_not_told_of_a_lost_link),
		HASTY(links_of_who_does_not_come_back_are_ended),
		HASTY(links_of_who_comes_back_are_kept),
		TEST(who_asks_for_links_hears_which_are_gone),
		TEST(who_asks_for_more_links_than_it_may_have_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
