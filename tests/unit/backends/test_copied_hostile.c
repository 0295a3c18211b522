/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_copied_hostile.c - peers that break the rules of tcp where the target's
 * memory is a GPU's: they are cut off, and leave nothing behind
 */
#include <sys/socket.h>
#include <unistd.h>

#include <te/te.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/raw.h"

#define AT   ((uintptr_t)raw_memory + RAW_OPEN_AT)
#define ROOM ((uint64_t)1 << 20)

static const char *const short_stall[] = {"tcp.stall_timeout=50ms", NULL};

/* A connection as a peer has it, and the target's side of it. */
static int fd;
static struct fake_link target_link;
static struct tei_endpoint *target;

static int set_up(void **state)
{
	struct tcp_address address;

	fake_copies = 8;
	fake_copy_room = ROOM;
	fake_copy_fails = false;
	raw_settings = short_stall;
	if (raw_set_up(state))
		return -1;
	target = raw_open_half(&target_link, true, &address);
	fd = raw_dial_known(&address);
	return 0;
}

/* Nothing is left of the peer, and others are served. */
static int tear_down(void **state)
{
	int rc;

	close(fd);
	raw_close_half(target);
	assert_int_equal(fake_pins(), 0);
	assert_true(fake_copy_room == ROOM);
	raw_serves_honest_peers();
	rc = raw_tear_down(state);
	fake_copies = 0;
	raw_settings = NULL;
	return rc;
}

static void put(uint8_t op, uint8_t flags, uint64_t id, uint64_t offset,
		uint64_t length)
{
	const struct tcp_frame f = {.op = op,
				    .flags = flags,
				    .id = id,
				    .key = raw_region,
				    .address = AT,
				    .offset = offset,
				    .length = length,
				    .epoch = fake_epoch};
	uint8_t bytes[TCP_HEAD_LEN];

	tei_tcp_frame_encode(&f, bytes);
	raw_put(fd, bytes, sizeof(bytes));
}

static void await_received(uint64_t bytes)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;

	while (raw_rail.rail->received_bytes < bytes && tei_now_ms() < end)
		raw_turn();
	assert_true(raw_rail.rail->received_bytes == bytes);
}

static void await_cut_off(void)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;

	while (!target_link.n_down && tei_now_ms() < end)
		raw_turn();
	assert_int_equal(target_link.n_down, 1);
}

/* Memory was taken for the first WRITE of the burst that is one too many. */
static void who_never_ends_its_writes_is_cut_off(void **state)
{
	(void)state;
	for (uint64_t id = 1; id <= TCP_WINDOW; id++) {
		put(TCP_WRITE, 0, id, 0, 1);
		raw_put(fd, "x", 1);
		await_received(id);
	}
	assert_int_equal(target_link.n_down, 0);
	put(TCP_WRITE, TCP_MORE, TCP_WINDOW, 1, 30000);
	put(TCP_WRITE, 0, TCP_WINDOW + 1, 0, 30000);
	await_cut_off();
}

static void ids_of_reads_rise(void **state)
{
	(void)state;
	put(TCP_READ, 0, 5, 0, 1000);
	put(TCP_READ, 0, 5, 0, 2000);
	await_cut_off();
}

static void who_takes_nothing_is_cut_off(void **state)
{
	(void)state;
	for (uint64_t id = 1; id <= 100; id++)
		put(TCP_READ, 0, id, 0, 60000);
	await_cut_off();
}

/* Its frame waits for room when the connection is reset. */
static void who_leaves_while_it_waits_is_forgotten(void **state)
{
	const struct linger now = {.l_onoff = 1};

	(void)state;
	assert_int_equal(
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	fake_copy_room = 0;
	put(TCP_WRITE, TCP_LAST, 1, 0, 30000);
	for (int i = 0; i < 10; i++)
		raw_turn();
	close(fd);
	fd = -1;
	await_cut_off();
	fake_copy_room = ROOM;
}

#define TEST(test_) cmocka_unit_test_setup_teardown(test_, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(who_never_ends_its_writes_is_cut_off),
		TEST(ids_of_reads_rise),
		TEST(who_takes_nothing_is_cut_off),
		TEST(who_leaves_while_it_waits_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
