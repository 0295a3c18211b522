/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - a master as a process, and clients of it in the test
 */
#ifndef TESTS_STORE_POOL_H
#define TESTS_STORE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/store.h>

#include "tests/lib/process.h"

#define POOL_START_MS 60000
#define WRITER_ID     6 /* pool_fill() of what store_writer puts as a whole */

struct pool {
	struct test_process *master;
	char address[32]; /* of the master */
};

/* For pools whose members only seem to be silent, on a crowded machine. */
extern const char *const pool_patient[];

/* @extra: more arguments of the master, ends with NULL; or NULL. */
void pool_start(struct pool *pool, const char *const *extra);
/* Again on the same port, after it was killed. */
void pool_restart(struct pool *pool, const char *const *extra);
void pool_kill(struct pool *pool);
void pool_stop(struct pool *pool);

/*
 * A client that lends @bytes; fails the test when it cannot join. Its calls
 * wait as long as a crowded machine may want.
 */
struct te_store *pool_client(const struct pool *pool, uint64_t bytes);
/* One that gives up the master and owners after so long. */
struct te_store *pool_hasty_client(const struct pool *pool, uint64_t bytes,
				   uint32_t call_ms, uint32_t replica_ms);
/* An owner as a process of its own; @bytes as its flag takes them. */
struct test_process *pool_owner(const struct pool *pool, const char *bytes);
/* The same, whose engine is reached at @host. */
struct test_process *pool_owner_at(const struct pool *pool, const char *host,
				   const char *bytes);

/* One value in one piece. */
int pool_put(struct te_store *store, const char *key, const void *bytes,
	     size_t len);
int64_t pool_get(struct te_store *store, const char *key, void *room,
		 size_t len);
struct te_store_key pool_key(const char *name);
int pool_put_as(struct te_store *store, const char *key, const void *bytes,
		size_t len, const struct te_store_replicate *how);
/* A config that only asks for so many replicas. */
struct te_store_replicate pool_several(uint32_t n);
/* With two owners, though one may have seemed silent at first. */
void pool_put_twice(struct te_store *store, const char *key, const void *bytes,
		    size_t len);
/* Where @key lies; returns how many replicas it has, or a code. */
#define POOL_REPLICAS 3
int pool_replicas(struct te_store *store, const char *key,
		  struct te_store_replica out[POOL_REPLICAS]);
/* Bytes that only this id has. */
void pool_fill(uint8_t *bytes, size_t len, uint64_t id);
bool pool_is_filled(const uint8_t *bytes, size_t len, uint64_t id);
uint64_t pool_capacity(struct te_store *store);
/* Until the pool has exactly that capacity; fails the test after a minute. */
void pool_await_capacity(struct te_store *store, uint64_t bytes);

#endif
