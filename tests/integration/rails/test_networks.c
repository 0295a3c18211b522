/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_networks.c - two hosts with two networks between them
 *
 * Real interfaces, real sockets, limits of 400 and 200 Mbit/s. Every write
 * goes to its own place, and at the end the owner's checksum must be that of
 * all the bytes.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <te/te.h>

#include "base/clock.h"
#include "tests/lib/netns.h"
#include "tests/lib/process.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define MIB ((size_t)1 << 20)
#if defined(__SANITIZE_THREAD__)
#define REGION_LEN (16 * MIB) /* what it carries is several times slower */
#else
#define REGION_LEN (96 * MIB)
#endif
#define PIECE     (256 * 1024)
#define N_PIECES  (REGION_LEN / PIECE)
#define WAIT_MS   40000
#define FAST_MBIT 400u
#define SLOW_MBIT 200u
#define SKIP      77

struct hosts {
	struct test_process *owner;
	struct te_engine *engine;
	te_segment_id segment;
	char name[128]; /* of the owner */
	uint64_t remote;
	uint8_t *local;
	struct te_batch *batch;
};

static void make_engine(struct hosts *h)
{
	struct te_config *config;

	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(te_config_set(config, "backends", "tcp", NULL, 0), 0);
	assert_int_equal(te_config_set(config, "insecure", "true", NULL, 0), 0);
	assert_int_equal(
		te_config_set(config, "tcp.devices", "rail0 rail1", NULL, 0),
		0);
	assert_int_equal(te_engine_create(config, "10.99.0.1", &h->engine), 0);
	te_config_destroy(config);
}

static void open_hosts(struct hosts *h)
{
	char length[32];
	const char *const args[] = {length, "peer0 peer1", NULL};
	const char *line;
	pid_t pid;
	size_t i;

	snprintf(length, sizeof(length), "%zu", REGION_LEN);
	h->owner = test_process_start("rails_owner", args);
	assert_non_null(test_process_line(h->owner, "netns", WAIT_MS));
	pid = test_process_pid(h->owner);
	assert_true(test_netns_join(pid, 0, FAST_MBIT));
	assert_true(test_netns_join(pid, 1, SLOW_MBIT));
	make_engine(h);
	line = test_process_line(h->owner, "owner ", WAIT_MS);
	assert_non_null(line);
	assert_int_equal(
		sscanf(line, "owner %127s %" SCNu64, h->name, &h->remote), 2);
	assert_int_equal(
		te_segment_open(h->engine, h->name, WAIT_MS, &h->segment), 0);
	assert_int_equal(te_batch_create(h->engine, N_PIECES, &h->batch), 0);
	h->local = malloc(REGION_LEN);
	assert_non_null(h->local);
	for (i = 0; i < REGION_LEN; i++)
		h->local[i] = (uint8_t)(i * 2654435761u >> 13);
}

static int set_up(void **state)
{
	static struct hosts h;

	h = (struct hosts){0};
	*state = &h;
	open_hosts(&h);
	return 0;
}

/* The interfaces go with the owner's namespace, but not at once. */
static int tear_down(void **state)
{
	struct hosts *h = *state;

	te_batch_destroy(h->batch);
	te_engine_destroy(h->engine);
	free(h->local);
	test_process_end(h->owner);
	test_netns_run(0, "ip link del rail0 2>&-; ip link del rail1 2>&-");
	return 0;
}

static void submit_all(struct hosts *h)
{
	size_t i;

	for (i = 0; i < N_PIECES; i++) {
		struct iovec piece = {h->local + i * PIECE, PIECE};
		struct te_request req = {.op = TE_WRITE,
					 .segment = h->segment,
					 .remote = h->remote + i * PIECE,
					 .pieces = &piece,
					 .n_pieces = 1};

		assert_int_equal(te_batch_submit(h->batch, &req, 1), 0);
	}
}

struct some {
	struct te_batch *batch;
	uint32_t n, want;
};

static bool some_done(void *arg)
{
	struct te_completion c[64];
	struct some *some = arg;
	int i, n = te_batch_poll(some->batch, c, 64);

	for (i = 0; i < n; i++)
		assert_int_equal(c[i].error, 0);
	some->n += (uint32_t)n;
	return some->n >= some->want;
}

static void await(struct some *some, uint32_t want)
{
	some->want = want;
	assert_true(test_wait_until(some_done, some, WAIT_MS));
}

static void expect_all_bytes(struct hosts *h)
{
	char want[32];
	const char *line;

	test_process_signal(h->owner, SIGUSR1);
	line = test_process_line(h->owner, "crc ", WAIT_MS);
	assert_non_null(line);
	snprintf(want, sizeof(want), "crc %u",
		 te_crc32c(0, h->local, REGION_LEN));
	assert_non_null(strstr(line, want));
}

static uint64_t stat_of(struct hosts *h, const char *name, const char *label)
{
	struct te_stat stats[256];
	size_t i, n = 256;

	assert_int_equal(te_engine_stats(h->engine, stats, &n), 0);
	for (i = 0; i < n && i < 256; i++) {
		if (!strcmp(stats[i].name, name) &&
		    !strcmp(stats[i].label, label))
			return stats[i].value;
	}
	return 0;
}

static uint64_t sent_by(struct hosts *h, const char *rail)
{
	return stat_of(h, "te_rail_sent_bytes_total", rail);
}

/* ---- tests ---- */

static void both_networks_carry_their_share(void **state)
{
	struct some some = {0};
	struct hosts *h = *state;
	uint64_t fast, slow;

	submit_all(h);
	some.batch = h->batch;
	await(&some, N_PIECES);
	expect_all_bytes(h);
	fast = sent_by(h, "tcp/rail0");
	slow = sent_by(h, "tcp/rail1");
	assert_true(fast + slow >= REGION_LEN);
	/* 2 : 1 when nothing else runs; never one alone. */
	assert_true(slow > REGION_LEN / 8 && fast > slow);
}

static void link_that_goes_down_costs_no_byte_and_comes_back(void **state)
{
	struct some some = {0};
	struct hosts *h = *state;
	uint64_t before;

	submit_all(h);
	some.batch = h->batch;
	await(&some, N_PIECES / 8);
	assert_int_equal(test_netns_run(0, "ip link set rail1 down"), 0);
	await(&some, N_PIECES);
	expect_all_bytes(h);

	before = sent_by(h, "tcp/rail1");
	assert_int_equal(test_netns_run(0, "ip link set rail1 up"), 0);
	while (sent_by(h, "tcp/rail1") == before) {
		assert_int_equal(te_batch_reset(h->batch), 0);
		some.n = 0;
		submit_all(h);
		await(&some, N_PIECES);
	}
	expect_all_bytes(h);
}

/* Frames go to an address that nobody has: no event tells of it. */
static void silence(int network)
{
	assert_int_equal(test_netns_run(0,
					"ip neigh replace 10.99.%d.2 lladdr "
					"02:00:00:00:00:99 dev rail%d nud "
					"permanent",
					network, network),
			 0);
}

static void silent_network_costs_no_byte(void **state)
{
	struct some some = {0};
	struct hosts *h = *state;

	submit_all(h);
	some.batch = h->batch;
	await(&some, N_PIECES / 8);
	silence(1);
	await(&some, N_PIECES);
	expect_all_bytes(h);
}

/* The owner's name is an address of the first network. */
static void control_follows_a_link_that_is_up(void **state)
{
	struct some some = {0};
	struct hosts *h = *state;

	submit_all(h);
	some.batch = h->batch;
	await(&some, N_PIECES / 8);
	assert_int_equal(test_netns_run(0, "ip link set rail0 down"), 0);
	await(&some, N_PIECES);
	expect_all_bytes(h);
	assert_true(stat_of(h, "te_control_rerouted_total", "") > 0);
	assert_int_equal(test_netns_run(0, "ip link set rail0 up"), 0);
}

static void control_leaves_a_network_that_is_silent(void **state)
{
	struct hosts *h = *state;

	assert_int_equal(te_peer_probe(h->engine, h->name, WAIT_MS, NULL), 0);
	silence(0);
	assert_int_equal(te_peer_probe(h->engine, h->name, WAIT_MS, NULL), 0);
	assert_int_equal(stat_of(h, "te_control_rerouted_total", ""), 1);
	assert_int_equal(te_peer_probe(h->engine, h->name, WAIT_MS, NULL), 0);
	assert_int_equal(stat_of(h, "te_control_rerouted_total", ""), 1);
}

static void silent_network_that_control_uses_costs_no_byte(void **state)
{
	struct some some = {0};
	struct hosts *h = *state;

	submit_all(h);
	some.batch = h->batch;
	await(&some, N_PIECES / 8);
	silence(0);
	await(&some, N_PIECES);
	expect_all_bytes(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(both_networks_carry_their_share,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			link_that_goes_down_costs_no_byte_and_comes_back,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(silent_network_costs_no_byte,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			control_follows_a_link_that_is_up, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			control_leaves_a_network_that_is_silent, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			silent_network_that_control_uses_costs_no_byte, set_up,
			tear_down),
	};
	const char *why;

	if (test_netns_enter(&why)) {
		printf("skipped: %s\n", why);
		return SKIP;
	}
	if (test_netns_run(0, "ip link add rail9 type veth peer name peer9 && "
			      "tc qdisc add dev rail9 root tbf rate 1mbit "
			      "burst 16k latency 20ms && ip link del rail9")) {
		printf("skipped: no virtual interfaces or no tbf here\n");
		return SKIP;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
