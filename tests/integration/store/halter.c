/* SPDX-License-Identifier: Apache-2.0 */
/*
 * halter.c - a client that stands still in the middle of a put or a get
 *
 * usage: store_halter MASTER WHAT KEY SIZE POINT [page]
 *
 * WHAT is put, get, ranges, session, cached, buffers or hot, POINT start, middle
 * or end. Prints "ready" once it knows the owner (cached, session: and where KEY
 * is), waits for SIGUSR1, does it, "halted" at the point, and after SIGCONT
 * "done CODE BYTES STALE": CODE is the call's result, with hot that of a second
 * one like it; BYTES is "old" when all of them are those of WRITER_ID, "new" when
 * of HALTER_NEW_ID, "none" when there are none, else "other"; STALE counts
 * requests that owners refused as late. With "page" the middle is where the
 * process itself touches half of the value.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/store/halt.h"
#include "tests/lib/stat.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define N_RANGES 8u

struct halter {
	struct te_store *store;
	const char *key;
	uint8_t *bytes; /* bytes[size], whole pages; not where it is a buffer */
	uint64_t size;
	struct te_store_buffer *buffer;
};

static uint64_t n_stale(struct te_store *store)
{
	return test_stat(te_store_engine(store), "te_requests_failed_total",
			 "stale");
}

struct meeting {
	struct te_store *store;
	const char *name;
	int code;
};

static bool has_put(void *arg)
{
	struct meeting *m = arg;

	m->code = pool_put(m->store, m->name, "x", 1);
	return m->code != TE_STORE_TRANSFER_FAIL;
}

/*
 * An object of our own: then the owner's connection is there. To connect may
 * take longer than puts may here, where the machine is slow.
 */
static int meet_owner(const struct halter *h)
{
	struct te_store_key key;
	struct meeting m = {.store = h->store};
	char name[64];
	int code;

	(void)snprintf(name, sizeof(name), "meet/%s", h->key);
	key = pool_key(name);
	m.name = name;
	(void)test_wait_until(has_put, &m, POOL_START_MS);
	code = m.code;
	if (!code)
		(void)te_store_remove(h->store, &key, 1, 1, &code);
	return code;
}

/* ---- what it does ---- */

/* Pinned: in a full pool it would be what goes first. */
static int64_t put(struct halter *h)
{
	struct te_store_replicate how = pool_several(1);

	how.flags = TE_STORE_HARD_PIN;
	return pool_put_as(h->store, h->key, h->bytes, h->size, &how);
}

static int64_t get(struct halter *h)
{
	return pool_get(h->store, h->key, h->bytes, h->size);
}

static int64_t get_ranges(struct halter *h)
{
	const struct te_store_key key = pool_key(h->key);
	struct te_store_range ranges[N_RANGES];
	int64_t results[N_RANGES], sum = 0;
	uint64_t part = h->size / N_RANGES;

	for (uint32_t i = 0; i < N_RANGES; i++)
		ranges[i] = (struct te_store_range){
			.offset = i * part,
			.addr = h->bytes + i * part,
			.length = i + 1 < N_RANGES ? part : h->size - i * part,
		};
	(void)te_store_get_ranges(h->store, &key, 1, ranges, N_RANGES, results);
	for (uint32_t i = 0; i < N_RANGES; i++) {
		if (results[i] < 0)
			return results[i];
		sum += results[i];
	}
	return sum;
}

static int64_t get_buffer(struct halter *h)
{
	const struct te_store_key key = pool_key(h->key);
	int64_t result = 0;

	(void)te_store_get_buffers(h->store, &key, 1, &h->buffer, &result);
	return result;
}

static int open_session(struct halter *h)
{
	const struct te_store_key key = pool_key(h->key);
	int result = 1;

	(void)te_store_get_open(h->store, &key, 1, &result);
	return result;
}

static int read_once(struct halter *h)
{
	int64_t got = get(h);

	memset(h->bytes, 0, h->size);
	return got == (int64_t)h->size ? 0 : (int)got - 1;
}

/* What the first one was late with may have been kept. */
static int64_t get_again(struct halter *h)
{
	(void)get(h);
	memset(h->bytes, 0, h->size);
	return get(h);
}

static const struct kind {
	const char *name;
	int (*prepare)(struct halter *h); /* 0: fine; or NULL */
	int64_t (*run)(struct halter *h);
} kinds[] = {
	{"put", NULL, put},           {"get", NULL, get},
	{"ranges", NULL, get_ranges}, {"session", open_session, get},
	{"cached", read_once, get},   {"buffers", NULL, get_buffer},
	{"hot", NULL, get_again},
};

static const struct kind *kind_named(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	return NULL;
}

/* ---- the program ---- */

static enum halt_point point_named(const char *name)
{
	if (!strcmp(name, "start"))
		return HALT_START;
	return strcmp(name, "middle") ? HALT_END : HALT_MIDDLE;
}

static const char *judge(const struct halter *h, int64_t got)
{
	const uint8_t *bytes = h->bytes;

	if (got < 0)
		return "none";
	if (h->buffer)
		bytes = te_store_buffer_data(h->buffer);
	if ((uint64_t)got != h->size)
		return "other";
	if (pool_is_filled(bytes, h->size, WRITER_ID))
		return "old";
	return pool_is_filled(bytes, h->size, HALTER_NEW_ID) ? "new" : "other";
}

static int run(struct halter *h, const struct kind *kind, const char *point,
	       bool page)
{
	int code = meet_owner(h);
	int64_t got;

	if (!code && kind->prepare)
		code = kind->prepare(h);
	if (code) {
		printf("failed %d\n", code);
		return 1;
	}
	if (kind->run == put)
		pool_fill(h->bytes, h->size, WRITER_ID);
	printf("ready\n");
	fflush(stdout);
	halt_await(SIGUSR1);
	halt_at(point_named(point));
	if (page)
		halt_at_page(h->bytes + h->size / 2 / HALT_PAGE * HALT_PAGE);
	got = kind->run(h);
	printf("done %lld %s %llu\n", (long long)got,
	       kind->run == put ? "none" : judge(h, got),
	       (unsigned long long)n_stale(h->store));
	fflush(stdout);
	te_store_buffer_free(h->buffer);
	return 0;
}

int main(int argc, char **argv)
{
	struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = POOL_START_MS,
		.replica_timeout_ms = POOL_START_MS,
		.setup_timeout_ms = POOL_START_MS,
	};
	const struct kind *kind = argc < 6 ? NULL : kind_named(argv[2]);
	struct halter h = {0};
	int code;

	if (!kind)
		return 2;
	halt_init();
	config.master = argv[1];
	h.size = strtoull(argv[4], NULL, 10);
	if (!strcmp(kind->name, "cached"))
		config.location_cache_entries = 16;
	if (!strcmp(kind->name, "hot")) {
		config.hot_cache_bytes = 4 * h.size;
		config.hot_cache_threshold = 1;
	}
	h.key = argv[3];
	h.bytes =
		aligned_alloc(HALT_PAGE, (h.size / HALT_PAGE + 1) * HALT_PAGE);
	code = h.bytes ? te_store_setup(&config, &h.store) : -1;
	if (code) {
		printf("failed %d\n", code);
		free(h.bytes);
		return 1;
	}
	code = run(&h, kind, argv[5], argc > 6);
	te_store_close(h.store);
	free(h.bytes);
	return code;
}
