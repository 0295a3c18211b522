/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - a master as a process, and clients of it in the test */
#include "tests/store/pool.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define N_ARGS_MAX  24
#define PATIENCE_MS 30000

const char *const pool_patient[] = {"--client_ttl", "100s", NULL};

struct starting {
	struct pool *pool;
	const char *const *args;
	const char *line; /* that it says once it serves */
};

/* Also what can only fail again: it has ended. */
static bool has_started(void *arg)
{
	struct starting *s = arg;
	struct pool *pool = s->pool;

	pool->master = test_process_start("mooncake_master", s->args);
	s->line = test_process_line(
		pool->master, "Master service started on port", POOL_START_MS);
	if (s->line || !strstr(test_process_output(pool->master), "in use"))
		return true;
	pool_stop(pool);
	return false;
}

/* A port that somebody else has for a moment is tried again. */
static void start(struct pool *pool, const char *port, const char *const *extra)
{
	const char *args[N_ARGS_MAX] = {
		"--port",         port,        "--rpc_address",  "127.0.0.1",
		"--metrics_host", "127.0.0.1", "--metrics_port", "0"};
	struct starting s = {.pool = pool, .args = args};
	size_t n = 8, i;

	for (i = 0; extra && extra[i]; i++)
		args[n++] = extra[i];
	assert_true(test_wait_until(has_started, &s, POOL_START_MS));
	assert_non_null(s.line);
	(void)snprintf(pool->address, sizeof(pool->address), "127.0.0.1:%d",
		       atoi(strstr(s.line, "port ") + 5));
}

void pool_start(struct pool *pool, const char *const *extra)
{
	start(pool, "0", extra);
}

void pool_restart(struct pool *pool, const char *const *extra)
{
	char port[16];

	(void)snprintf(port, sizeof(port), "%s",
		       strchr(pool->address, ':') + 1);
	start(pool, port, extra);
}

void pool_kill(struct pool *pool)
{
	test_process_signal(pool->master, SIGKILL);
	test_process_end(pool->master);
	pool->master = NULL;
}

void pool_stop(struct pool *pool)
{
	test_process_end(pool->master);
	pool->master = NULL;
}

struct te_store *pool_client(const struct pool *pool, uint64_t bytes)
{
	return pool_hasty_client(pool, bytes, PATIENCE_MS, PATIENCE_MS);
}

struct te_store *pool_hasty_client(const struct pool *pool, uint64_t bytes,
				   uint32_t call_ms, uint32_t replica_ms)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = call_ms,
		.replica_timeout_ms = replica_ms,
		.setup_timeout_ms = POOL_START_MS,
		.master = pool->address,
		.segment_bytes = bytes,
	};
	struct te_store *store = NULL;

	assert_int_equal(te_store_setup(&config, &store), 0);
	return store;
}

struct test_process *pool_owner(const struct pool *pool, const char *bytes)
{
	return pool_owner_at(pool, "127.0.0.1", bytes);
}

struct test_process *pool_owner_at(const struct pool *pool, const char *host,
				   const char *bytes)
{
	const char *const args[] = {"--port",
				    "0",
				    "--host",
				    host,
				    "--metadata_server",
				    "P2PHANDSHAKE",
				    "--master_server_address",
				    pool->address,
				    "--global_segment_size",
				    bytes,
				    NULL};
	struct test_process *owner =
		test_process_start("mooncake_client", args);

	assert_non_null(test_process_line(owner, " serves ", POOL_START_MS));
	return owner;
}

struct te_store_key pool_key(const char *name)
{
	return (struct te_store_key){.bytes = name,
				     .len = (uint32_t)strlen(name)};
}

int pool_put_as(struct te_store *store, const char *key, const void *bytes,
		size_t len, const struct te_store_replicate *how)
{
	const struct te_store_key k = pool_key(key);
	const struct iovec piece = {(void *)(uintptr_t)bytes, len};
	const struct te_store_value v = {.pieces = &piece, .n_pieces = 1};
	int result = 1;

	(void)te_store_put(store, &k, &v, 1, how, &result);
	return result;
}

int pool_put(struct te_store *store, const char *key, const void *bytes,
	     size_t len)
{
	return pool_put_as(store, key, bytes, len, NULL);
}

struct te_store_replicate pool_several(uint32_t n)
{
	return (struct te_store_replicate){
		.size = sizeof(struct te_store_replicate), .replica_num = n};
}

int pool_replicas(struct te_store *store, const char *key,
		  struct te_store_replica out[POOL_REPLICAS])
{
	const struct te_store_key k = pool_key(key);
	size_t n = POOL_REPLICAS;
	int result;

	(void)te_store_replicas(store, &k, 1, &result, out, &n);
	assert_true(result < 0 || n == (size_t)result);
	return result;
}

void pool_put_twice(struct te_store *store, const char *key, const void *bytes,
		    size_t len)
{
	const struct te_store_replicate how = pool_several(2);
	const struct te_store_key name = pool_key(key);
	struct te_store_replica at[POOL_REPLICAS];
	int result;

	for (;;) {
		assert_int_equal(pool_put_as(store, key, bytes, len, &how), 0);
		if (pool_replicas(store, key, at) == 2)
			return;
		(void)te_store_remove(store, &name, 1, 1, &result);
	}
}

int64_t pool_get(struct te_store *store, const char *key, void *room,
		 size_t len)
{
	const struct te_store_key k = pool_key(key);
	const struct iovec piece = {room, len};
	const struct te_store_value v = {.pieces = &piece, .n_pieces = 1};
	int64_t result = 0;

	(void)te_store_get(store, &k, &v, 1, &result);
	return result;
}

static uint8_t byte_of(uint64_t id, size_t at)
{
	return (uint8_t)((id * 0x9e3779b97f4a7c15ull + at * 131) >> 7);
}

void pool_fill(uint8_t *bytes, size_t len, uint64_t id)
{
	size_t i;

	for (i = 0; i < len; i++)
		bytes[i] = byte_of(id, i);
}

bool pool_is_filled(const uint8_t *bytes, size_t len, uint64_t id)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (bytes[i] != byte_of(id, i))
			return false;
	return true;
}

uint64_t pool_capacity(struct te_store *store)
{
	struct te_store_pool figures;

	if (te_store_pool(store, &figures))
		return UINT64_MAX;
	return figures.capacity_bytes;
}

struct capacity {
	struct te_store *store;
	uint64_t bytes;
};

static bool has_capacity(void *arg)
{
	const struct capacity *wanted = arg;

	return pool_capacity(wanted->store) == wanted->bytes;
}

void pool_await_capacity(struct te_store *store, uint64_t bytes)
{
	struct capacity wanted = {store, bytes};

	assert_true(test_wait_until(has_capacity, &wanted, POOL_START_MS));
}
