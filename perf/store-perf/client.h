/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - one client of the pool and its batches
 *
 * Keys are numbers. Key k has its value in slot k modulo the slots of the
 * client's memory, whose bytes are a pattern; so what comes back can be
 * checked without remembering anything.
 *
 * Threads: one per client at a time.
 */
#ifndef PERF_STORE_PERF_CLIENT_H
#define PERF_STORE_PERF_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <te/store.h>

#include "perf/lib/histogram.h"
#include "perf/lib/schedule.h"
#include "perf/store-perf/buffer.h"

enum client_op { CLIENT_PUT, CLIENT_GET, CLIENT_EXIST };

struct client {
	struct te_store *store;
	bool shares; /* the store belongs to another client */
	struct buffer buffer;
	char *memory; /* memory[memory_len] of buffer, registered */
	uint64_t memory_len;
	uint32_t batch;
	/* client_begin() sets what follows for each row. */
	char prefix[48];
	size_t prefix_len;
	uint64_t value_size, stride, n_slots;
	uint64_t next_put;            /* keys 0 .. next_put - 1 have been put */
	uint64_t next_get;            /* get and exist walk 0 .. n_slots - 1 */
	struct tei_schedule schedule; /* of calls; a closed loop at first */
	/* Arrays of one batch, [batch] each. */
	char (*key_text)[80];
	struct te_store_key *keys;
	struct iovec *pieces;
	struct te_store_value *values;
	int *codes;
	int64_t *sizes;
	/* client_open() has taken so long; join_ns: 0 with another's store. */
	uint64_t join_ns, register_ns;
	/* client_begin() and client_reset() set what follows to 0. */
	uint64_t n_done, n_missed, n_failed; /* keys */
	int last_code;                       /* of the last key that failed */
	struct tei_histogram latency; /* ns of a batch, from when it was due */
};

struct client_place {
	const char *master, *host;
	const char *backends; /* the engine's setting; NULL: as without it */
	int node;             /* NUMA node of the memory */
	bool unaligned;       /* values lie at odd addresses */
};

/*
 * Joins the pool, or with @other calls through that one's store, which has to
 * be closed later. -errno, said on stderr; then nothing is left to be closed.
 */
int client_open(struct client *c, const struct client_place *place,
		uint64_t memory_len, uint32_t batch,
		const struct client *other);
void client_close(struct client *c);

/*
 * Begins a row of keys that were never used, by @prefix. The memory has room
 * for @n_slots values.
 */
void client_begin(struct client *c, const char *prefix, uint64_t value_size,
		  uint64_t n_slots);
/* Fills the memory with the pattern of @seed. */
void client_fill(struct client *c, uint64_t seed);
/* Sets all results to 0. */
void client_reset(struct client *c);
/*
 * Puts the next @most keys, a batch at most. Returns what client_batch() does.
 */
bool client_put_some(struct client *c, uint64_t most);
/*
 * Runs a batch of @op. Returns false if a key failed, with last_code, and none
 * succeeded; a key that is not there has not failed.
 */
bool client_batch(struct client *c, enum client_op op);
/* Removes keys 0 .. n_slots - 1. */
void client_remove_all(struct client *c);
/*
 * Compares a sample with the pattern of @seed: after gets of the memory, else
 * of the values that the pool has of the last puts. Returns how many bytes
 * differ.
 */
uint64_t client_check(struct client *c, enum client_op op, uint64_t seed);

#endif
