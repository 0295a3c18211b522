/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.c - two hosts with two networks between them, for tests */
#include "tests/integration/rails/hosts.h"
#include "base/clock.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/netns.h"
#include "tests/lib/stat.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

const char *hosts_backend = "tcp";

/* ---- beginning and end ---- */

static void make_engine(struct hosts *h)
{
	struct te_config *config;

	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(
		te_config_set(config, "backends", hosts_backend, NULL, 0), 0);
	assert_int_equal(te_config_set(config, "ofi.provider", "tcp", NULL, 0),
			 0);
	assert_int_equal(
		te_config_set(config, "ofi.devices", "rail0 rail1", NULL, 0),
		0);
	assert_int_equal(te_config_set(config, "insecure", "true", NULL, 0), 0);
	assert_int_equal(
		te_config_set(config, "tcp.devices", "rail0 rail1", NULL, 0),
		0);
	assert_int_equal(te_engine_create(config, "10.99.0.1", &h->engine), 0);
	te_config_destroy(config);
}

static void start_owner(struct hosts *h, const char *thread)
{
	char length[32];
	const char *const args[] = {length, "peer0 peer1", thread,
				    hosts_backend, NULL};

	snprintf(length, sizeof(length), "%zu", REGION_LEN);
	h->owner = test_process_start("rails_owner", args);
	assert_non_null(test_process_line(h->owner, "netns", WAIT_MS));
	hosts_join(h, 0);
	hosts_join(h, 1);
}

static void open_segment(struct hosts *h)
{
	const char *line = test_process_line(h->owner, "owner ", WAIT_MS);

	assert_non_null(line);
	assert_int_equal(
		sscanf(line, "owner %127s %" SCNu64, h->name, &h->remote), 2);
	assert_int_equal(
		te_segment_open(h->engine, h->name, WAIT_MS, &h->segment), 0);
}

static int set_up(void **state, const char *thread)
{
	static struct hosts h;
	size_t i;

	h = (struct hosts){.op = TE_WRITE};
	*state = &h;
	start_owner(&h, thread);
	make_engine(&h);
	open_segment(&h);
	assert_int_equal(te_batch_create(h.engine, N_PIECES, &h.batch), 0);
	h.local = malloc(REGION_LEN);
	assert_non_null(h.local);
	for (i = 0; i < REGION_LEN; i++)
		h.local[i] = (uint8_t)(i * 2654435761u >> 13);
	return 0;
}

int hosts_set_up(void **state)
{
	return set_up(state, "on");
}

int hosts_set_up_driven(void **state)
{
	return set_up(state, "off");
}

/* The interfaces go with the owner's namespace, but not at once. */
int hosts_tear_down(void **state)
{
	struct hosts *h = *state;

	te_batch_destroy(h->batch);
	te_engine_destroy(h->engine);
	free(h->local);
	test_process_end(h->owner);
	test_netns_run(0, "ip link del rail0 2>&-; ip link del rail1 2>&-");
	return 0;
}

bool hosts_enter(void)
{
	const char *why;

	if (test_netns_enter(&why)) {
		printf("skipped: %s\n", why);
		return false;
	}
	if (test_netns_run(0, "ip link add rail9 type veth peer name peer9 && "
			      "tc qdisc add dev rail9 root tbf rate 1mbit "
			      "burst 16k latency 20ms && ip link del rail9")) {
		printf("skipped: no virtual interfaces or no tbf here\n");
		return false;
	}
	return true;
}

/* ---- transfers ---- */

void hosts_submit(struct hosts *h, uint32_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		struct iovec piece = {h->local + i * PIECE, PIECE};
		struct te_request req = {.op = h->op,
					 .segment = h->segment,
					 .remote = h->remote + i * PIECE,
					 .pieces = &piece,
					 .n_pieces = 1,
					 .timeout_ms = 2 * WAIT_MS};

		assert_int_equal(te_batch_submit(h->batch, &req, 1), 0);
	}
}

struct some {
	struct hosts *h;
	uint32_t want;
};

static bool some_done(void *arg)
{
	struct te_completion c[64];
	const struct some *some = arg;
	int i, n = te_batch_poll(some->h->batch, c, 64);

	for (i = 0; i < n; i++)
		assert_int_equal(c[i].error, 0);
	some->h->n_done += (uint32_t)n;
	return some->h->n_done >= some->want;
}

void hosts_await(struct hosts *h, uint32_t want)
{
	struct some some = {h, want};

	assert_true(test_wait_until(some_done, &some, WAIT_MS));
}

void hosts_again(struct hosts *h)
{
	assert_int_equal(te_batch_reset(h->batch), 0);
	h->n_done = 0;
}

static uint32_t crc_with_zeros(const uint8_t *bytes, size_t len, size_t zeros)
{
	static const uint8_t none[PIECE];
	uint32_t crc = te_crc32c(0, bytes, len);

	for (; zeros; zeros -= PIECE)
		crc = te_crc32c(crc, none, PIECE);
	return crc;
}

void hosts_expect_bytes(struct hosts *h, uint32_t n)
{
	size_t len = (size_t)n * PIECE;
	char want[32];
	const char *line;

	test_process_signal(h->owner, SIGUSR1);
	line = test_process_line(h->owner, "crc ", WAIT_MS);
	assert_non_null(line);
	snprintf(want, sizeof(want), "crc %u",
		 crc_with_zeros(h->local, len, REGION_LEN - len));
	assert_non_null(strstr(line, want));
}

/* ---- counters ---- */

uint64_t hosts_stat(struct hosts *h, const char *name, const char *label)
{
	return test_stat(h->engine, name, label);
}

uint64_t hosts_sent(struct hosts *h, const char *rail)
{
	char label[32];

	snprintf(label, sizeof(label), "%s/%s", hosts_backend, rail);
	return hosts_stat(h, "te_rail_sent_bytes_total", label);
}

/* ---- trouble ---- */

void hosts_toggle(struct hosts *h)
{
	test_process_signal(h->owner, SIGUSR2);
	assert_non_null(test_process_line(h->owner, "rails ", WAIT_MS));
}

void hosts_set_link(struct hosts *h, int network, bool ours, bool up)
{
	pid_t pid = ours ? 0 : test_process_pid(h->owner);

	assert_int_equal(test_netns_run(pid, "ip link set %s%d %s",
					ours ? "rail" : "peer", network,
					up ? "up" : "down"),
			 0);
}

void hosts_remove(int network)
{
	assert_int_equal(test_netns_run(0, "ip link del rail%d", network), 0);
}

void hosts_join(struct hosts *h, int network)
{
	assert_true(test_netns_join(test_process_pid(h->owner), network,
				    network ? SLOW_MBIT : FAST_MBIT));
}

void hosts_silence(int network)
{
	assert_int_equal(test_netns_run(0,
					"ip neigh replace 10.99.%d.2 lladdr "
					"02:00:00:00:00:99 dev rail%d nud "
					"permanent",
					network, network),
			 0);
}

/*
 * Classic BPF: a random number above what is kept is dropped. A filter at the
 * receiver, for what its own queue drops a sender knows at once.
 */
static bool lose_at(pid_t pid, const char *side, int network,
		    unsigned int percent)
{
	const uint32_t from = 0xfffff000u + 56; /* SKF_AD_OFF, _RANDOM */
	const uint32_t keep = UINT32_MAX / 100 * (100 - percent);

	if (!percent)
		return !test_netns_run(pid, "tc qdisc del dev %s%d clsact",
				       side, network);
	return !test_netns_run(pid,
			       "tc qdisc add dev %s%d clsact && "
			       "tc filter add dev %s%d ingress prio 1 "
			       "protocol all bpf da bytecode "
			       "'4,32 0 0 %u,53 0 1 %u,6 0 0 2,6 0 0 0'",
			       side, network, side, network, from, keep);
}

bool hosts_lose(struct hosts *h, int network, unsigned int percent)
{
	return lose_at(0, "rail", network, percent) &&
	       lose_at(test_process_pid(h->owner), "peer", network, percent);
}

/* A filter of @side that drops the frames whose TCP port at @offset is @port. */
static bool drop_port(pid_t pid, const char *side, int network,
		      unsigned int offset, unsigned int port)
{
	test_netns_run(pid, "tc qdisc add dev %s%d clsact 2>&-", side, network);
	return !test_netns_run(pid,
			       "tc filter add dev %s%d ingress prio %u "
			       "protocol all bpf da bytecode "
			       "'4,40 0 0 %u,21 0 1 %u,6 0 0 2,6 0 0 "
			       "4294967295'",
			       side, network, port, offset, port);
}

bool hosts_forget(struct hosts *h, int network)
{
	const unsigned int from = 34, to = 36; /* the ports in a frame of TCP */
	const char *control = strrchr(h->name, ':') + 1;
	unsigned int net, mine, theirs, n = 0;
	char line[256];
	bool made;
	FILE *f = fopen("/proc/self/net/tcp", "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*d: 01%2x630A:%x %*8x:%x 01", &net, &mine,
			   &theirs) != 3 ||
		    (int)net != network || (int)theirs == atoi(control))
			continue;
		made = drop_port(0, "rail", network, to, mine);
		if (!made && !n)
			break;
		n++;
		assert_true(made);
		assert_true(drop_port(test_process_pid(h->owner), "peer",
				      network, from, mine));
	}
	assert_true(n || !feof(f)); /* there is one, or no filter for it */
	fclose(f);
	return n > 0;
}

/* ---- all pieces ---- */

void hosts_begin(struct hosts *h)
{
	hosts_submit(h, N_PIECES);
	hosts_await(h, N_PIECES / 8);
}

void hosts_finish(struct hosts *h)
{
	hosts_await(h, N_PIECES);
	hosts_expect_bytes(h, N_PIECES);
}

void hosts_await_use(struct hosts *h, const char *rail)
{
	uint64_t before = hosts_sent(h, rail);
	uint64_t until = tei_now_ms() + WAIT_MS;

	while (hosts_sent(h, rail) == before) {
		assert_true(tei_now_ms() < until);
		hosts_again(h);
		hosts_submit(h, N_PIECES);
		hosts_await(h, N_PIECES);
	}
}
