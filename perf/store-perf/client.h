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
	bool shares; /* its store, which is another's */
	struct buffer buffer;
	char *memory; /* memory_len, registered: of buffer */
	uint64_t memory_len;
	uint32_t batch;
	/* State of the row that is being measured: */
	char prefix[48];
	size_t prefix_len;
	uint64_t value_size, stride, n_slots;
	uint64_t next_put;            /* keys 0 .. next_put - 1 have been put */
	uint64_t next_get;            /* get and exist walk 0 .. n_slots - 1 */
	struct tei_schedule schedule; /* of calls; a closed loop at first */
	/* Room for one batch. */
	char (*key_text)[80];
	struct te_store_key *keys;
	struct iovec *pieces;
	struct te_store_value *values;
	int *codes;
	int64_t *sizes;
	/* What client_open() took; joining: 0 with the store of another. */
	uint64_t join_ns, register_ns;
	/* Results; reset by client_begin(). */
	uint64_t n_done, n_missed, n_failed;
	int last_code;                /* of a failed key */
	struct tei_histogram latency; /* ns of a batch, as schedule counts */
};

struct client_place {
	const char *master, *host;
	const char *backends; /* of its engine; NULL: all */
	int node;             /* of its memory */
	bool unaligned;       /* values at odd addresses */
};

/*
 * Join the pool, or call through the store of @other, which is closed later.
 * -errno, said on stderr; nothing is left then.
 */
int client_open(struct client *c, const struct client_place *place,
		uint64_t memory_len, uint32_t batch,
		const struct client *other);
void client_close(struct client *c);

/*
 * Begin a row: other values and keys that were never used. @n_slots values fit
 * into the memory.
 */
void client_begin(struct client *c, const char *prefix, uint64_t value_size,
		  uint64_t n_slots);
/* Fill the memory with the pattern of @seed. */
void client_fill(struct client *c, uint64_t seed);
/* Forget what was counted so far. */
void client_reset(struct client *c);
/* Put the next @most keys, at most a batch. False: as client_batch(). */
bool client_put_some(struct client *c, uint64_t most);
/*
 * Run a batch of @op. False: a key of it failed, with last_code, and none
 * succeeded; a key that is not there has not failed.
 */
bool client_batch(struct client *c, enum client_op op);
/* Remove keys 0 .. n_slots - 1. */
void client_remove_all(struct client *c);
/*
 * Compare a sample with the pattern of @seed: of the memory after gets, else
 * of what the pool has of the last puts. Returns the bytes that differ.
 */
uint64_t client_check(struct client *c, enum client_op op, uint64_t seed);

#endif
