/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_client.c - a client of a pool, told by a case of the lab what to do
 *
 * usage: store_client MASTER HOST PREFERRED
 *
 * Its engine is configured by the environment. It reads one order a line and
 * answers each with a line of words and numbers in turn:
 *
 *   put       - put the values, one by one. "put 0", or what the first said that
 *               is not stored with all its replicas
 *   get       - get all but the largest, compare every byte. "got ...", below
 *   get RAIL  - get all; if the largest comes by that rail, says "moving" first,
 *               in the middle of it
 *
 * Some values have two replicas, one has one, on the owner PREFERRED. It is got by
 * a call of its own, at the same time. Each put puts other bytes in their place.
 *
 * "got": right, wrong (compared), missed (-704), failed (-800), unknown (-900, -901:
 * no master), others (any other code); spared (right, of those with two replicas),
 * spare (how many those are); ms of limit, how long these took of what they may,
 * alone, the same of the other one; bytes by each rail that there is.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <te/store.h>

#include "base/clock.h"
#include "perf/lib/pattern.h"
#include "tests/lib/wait.h"

#define KIB (1024u)
#define MIB (1024u * KIB)

/* Long ones: a machine of the lab is slow, and the host has other work. */
#define CALL_MS    10000u
#define REPLICA_MS 15000u
#define SETUP_MS   60000u

/*
 * More than comes from the owner of "single" if "large" is read from the other
 * one. Of an odd number of values with two replicas one is in turn.
 */
#define MOVING_BYTES (5 * MIB / 2)
#define RAILS_MAX    8

/* clang-format off */
static const struct value {
	const char *key;
	uint64_t size;
	uint32_t replicas;
} values[] = {
	{"large", 16 * MIB, 2},
	{"small", 4 * KIB, 2},
	{"odd", 5 * KIB - 13, 2},
	{"page", 64 * KIB, 2},
	{"block", 1 * MIB, 2},
	{"single", 2 * MIB, 1},
};
/* clang-format on */
#define N_VALUES (sizeof(values) / sizeof(values[0]))
#define N_SPARE  (N_VALUES - 1) /* all but "single" */

struct client {
	struct te_store *store;
	const char *preferred;
	uint64_t n_puts; /* which bytes the values have */
	uint8_t *memory[N_VALUES];
};

static uint64_t seed_of(const struct client *c, size_t i)
{
	return c->n_puts * N_VALUES + i;
}

static struct te_store_key key_of(size_t i)
{
	return (struct te_store_key){.bytes = values[i].key,
				     .len = (uint32_t)strlen(values[i].key)};
}

/* ---- rails ---- */

struct rails {
	struct te_rail_info at[RAILS_MAX];
	size_t n;
};

static void look_at_rails(struct client *c, struct rails *rails)
{
	rails->n = RAILS_MAX;
	if (te_engine_rails(te_store_engine(c->store), rails->at, &rails->n))
		abort();
}

/* What came by rail i since @before. */
static uint64_t came_by(const struct rails *now, const struct rails *before,
			size_t i)
{
	return now->at[i].received_bytes - before->at[i].received_bytes;
}

/* ---- put ---- */

/* A put may store fewer. */
static bool has_replicas(struct client *c, size_t i)
{
	const struct te_store_key key = key_of(i);
	int n = 0;
	size_t room = 0;

	(void)te_store_replicas(c->store, &key, 1, &n, NULL, &room);
	return n == (int)values[i].replicas;
}

/* 0; a code; 1: stored, with fewer replicas than asked for. */
static int put_one(struct client *c, size_t i)
{
	const struct te_store_key key = key_of(i);
	const struct iovec piece = {c->memory[i], values[i].size};
	const struct te_store_value value = {.pieces = &piece, .n_pieces = 1};
	const struct te_store_replicate how = {
		.size = sizeof(how),
		.replica_num = values[i].replicas,
		.preferred_segments = &c->preferred,
		.n_preferred_segments = 1,
	};
	int code = 1;

	tei_pattern_fill(c->memory[i], values[i].size, seed_of(c, i), 0);
	(void)te_store_upsert(c->store, &key, &value, 1, &how, &code);
	return code || has_replicas(c, i) ? code : 1;
}

static void put(struct client *c)
{
	int code = 0;

	c->n_puts++;
	for (size_t i = 0; i < N_VALUES && !code; i++)
		code = put_one(c, i);
	printf("put %d\n", code);
}

/* ---- get ---- */

/* One call, by a thread of its own. */
struct call {
	struct client *client;
	size_t from, to; /* of the values */
	int64_t results[N_VALUES];
	uint64_t took_ms;
	atomic_bool over; /* released by run_call(), acquired by has_moved() */
	pthread_t thread;
};

struct get {
	struct client *client;
	const char *rail; /* say so once it moves bytes; NULL: do not */
	struct rails before;
	struct call spare, alone; /* those with two replicas; the other one */
	bool moving;
};

static void *run_call(void *arg)
{
	struct call *c = arg;
	struct te_store_key keys[N_VALUES];
	struct te_store_value room[N_VALUES];
	struct iovec pieces[N_VALUES];
	uint64_t start = tei_now_ns();

	for (size_t i = c->from; i < c->to; i++) {
		keys[i] = key_of(i);
		pieces[i] =
			(struct iovec){c->client->memory[i], values[i].size};
		room[i] = (struct te_store_value){.pieces = &pieces[i],
						  .n_pieces = 1};
	}
	(void)te_store_get(c->client->store, &keys[c->from], &room[c->from],
			   c->to - c->from, &c->results[c->from]);
	c->took_ms = (tei_now_ns() - start) / TEI_NS_PER_MS;
	atomic_store_explicit(&c->over, true, memory_order_release);
	return NULL;
}

static void start(struct call *c)
{
	for (size_t i = c->from; i < c->to; i++)
		memset(c->client->memory[i], 0, values[i].size);
	if (pthread_create(&c->thread, NULL, run_call, c))
		abort();
}

static bool has_moved(void *arg)
{
	struct get *g = arg;
	struct rails now;

	look_at_rails(g->client, &now);
	for (size_t i = 0; i < now.n; i++)
		if (!strcmp(now.at[i].name, g->rail) &&
		    came_by(&now, &g->before, i) >= MOVING_BYTES)
			g->moving = true;
	return g->moving ||
	       atomic_load_explicit(&g->spare.over, memory_order_acquire);
}

static bool is_right(const struct client *c, size_t i)
{
	return tei_pattern_wrong(c->memory[i], values[i].size, seed_of(c, i),
				 0) == 0;
}

struct sums {
	unsigned int right, wrong, missed, failed, unknown, others;
};

static void judge_one(const struct client *c, size_t i, int64_t result,
		      struct sums *sums)
{
	if (result >= 0 &&
	    (result != (int64_t)values[i].size || !is_right(c, i)))
		sums->wrong++;
	else if (result >= 0)
		sums->right++;
	else if (result == TE_STORE_OBJECT_NOT_FOUND)
		sums->missed++;
	else if (result == TE_STORE_TRANSFER_FAIL)
		sums->failed++;
	else if (result == TE_STORE_RPC_FAIL || result == TE_STORE_RPC_TIMEOUT)
		sums->unknown++;
	else
		sums->others++;
}

static void judge(const struct call *c, struct sums *sums)
{
	for (size_t i = c->from; i < c->to; i++)
		judge_one(c->client, i, c->results[i], sums);
}

static void print_result(const struct get *g)
{
	struct sums sums = {0};
	unsigned int spared;
	struct rails now;

	judge(&g->spare, &sums);
	spared = sums.right;
	judge(&g->alone, &sums);
	printf("got right %u wrong %u missed %u failed %u unknown %u others %u "
	       "spared %u spare %zu ms %" PRIu64 " limit %u alone %" PRIu64,
	       sums.right, sums.wrong, sums.missed, sums.failed, sums.unknown,
	       sums.others, spared, g->spare.to - g->spare.from,
	       g->spare.took_ms, CALL_MS + REPLICA_MS, g->alone.took_ms);
	look_at_rails(g->client, &now);
	for (size_t i = 0; i < now.n; i++)
		printf(" %s %" PRIu64, now.at[i].name,
		       came_by(&now, &g->before, i));
	printf("\n");
}

static void get(struct client *c, const char *rail)
{
	struct get g = {.client = c, .rail = rail};

	g.spare =
		(struct call){.client = c, .from = rail ? 0 : 1, .to = N_SPARE};
	g.alone = (struct call){.client = c, .from = N_SPARE, .to = N_VALUES};
	look_at_rails(c, &g.before);
	start(&g.spare);
	start(&g.alone);
	if (rail && test_wait_until(has_moved, &g, CALL_MS + REPLICA_MS) &&
	    g.moving) {
		printf("moving\n");
		(void)fflush(stdout);
	}
	(void)pthread_join(g.spare.thread, NULL);
	(void)pthread_join(g.alone.thread, NULL);
	print_result(&g);
}

/* ---- orders ---- */

static void obey(struct client *c, char *order)
{
	order[strcspn(order, "\n")] = '\0';
	if (!strcmp(order, "put"))
		put(c);
	else if (!strcmp(order, "get"))
		get(c, NULL);
	else if (!strncmp(order, "get ", 4))
		get(c, order + 4);
	else
		printf("what is %s?\n", order);
	(void)fflush(stdout);
}

/*
 * By default a queue pair has 7 retries, which rxe takes for ever, unlike other
 * devices. So it has fewer, but longer ones: the machines stand still at times.
 * Few reads are in flight, for a slow cable.
 */
static struct te_config *engine_config(void)
{
	struct te_config *config;

	if (te_config_create(&config) ||
	    te_config_set(config, "verbs.retries", "6", NULL, 0) ||
	    te_config_set(config, "verbs.timeout", "16", NULL, 0) ||
	    te_config_set(config, "verbs.reads", "4", NULL, 0))
		abort();
	return config;
}

static int begin(struct client *c, const char *master, const char *host)
{
	struct te_config *engine = engine_config();
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = CALL_MS,
		.replica_timeout_ms = REPLICA_MS,
		.setup_timeout_ms = SETUP_MS,
		.master = master,
		.host = host,
		.engine_config = engine,
	};
	int code = te_store_setup(&config, &c->store);

	te_config_destroy(engine);
	return code;
}

int main(int argc, char **argv)
{
	struct client client = {.n_puts = 0};
	char order[256];
	int code;

	if (argc != 4)
		return 2;
	client.preferred = argv[3];
	for (size_t i = 0; i < N_VALUES; i++) {
		client.memory[i] = malloc(values[i].size);
		if (!client.memory[i])
			abort();
	}
	code = begin(&client, argv[1], argv[2]);
	while (!code && fgets(order, sizeof(order), stdin))
		obey(&client, order);
	te_store_close(client.store);
	for (size_t i = 0; i < N_VALUES; i++)
		free(client.memory[i]);
	return code ? 1 : 0;
}
