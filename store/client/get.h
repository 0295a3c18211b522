/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get.h - the inside of a get: one chunk of keys, round by round
 *
 *   get.c      rounds: look up -> read, again for keys that had moved; cached
 *              locations; the local cache
 *   get_read.c one replica after the other, until one verifies
 */
#ifndef STORE_CLIENT_GET_H
#define STORE_CLIENT_GET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/client/client.h"
#include "store/client/layout.h"

enum tes_get_source {
	TES_GET_NOWHERE,  /* not found: the result says why */
	TES_GET_MASTER,   /* a look-up of this call, whose lease is ours */
	TES_GET_LOCATION, /* a cached location: a hint */
};

/* A key of the round. */
struct tes_get_entry {
	uint32_t item;  /* of the chunk */
	uint8_t source; /* enum tes_get_source */
	bool open;      /* found, and neither read nor given up */
	bool late;      /* read, but its headers are not checked yet */
	bool no_crc;
	bool again;      /* its last replica was silent: wait for it */
	bool unverified; /* its bytes may be another's in parts */
	bool held;       /* its location is pinned: the lease stays */
	uint64_t size, generation, gen_epoch, digest;
	uint64_t lease_until_ns;
	struct tes_layout layout;
	uint32_t tried;   /* mask of replicas */
	uint32_t first;   /* of layout: the replica that is being read */
	uint32_t n;       /* extents of it; 0: none is chosen */
	uint32_t request; /* the first one, of n_requests */
	uint32_t n_requests;
	struct tes_hot_value *hot; /* a reference: its bytes; or NULL */
};

/* The ranges of key k are those of order[starts[k] .. starts[k + 1] - 1]. */
struct tes_get_ranges {
	const struct te_store_range *all;
	const uint32_t *order;
	const uint32_t *starts;
	int64_t *results; /* of all */
};

/* Keys of a call that go in one message. Set all up to n, zero the rest. */
struct tes_get_chunk {
	struct te_store *store;
	const struct te_store_key *keys;     /* keys[n] */
	const struct te_store_value *values; /* values[n]; NULL: see below */
	int64_t *results;                    /* results[n] */
	/* Instead of values: buffers are allocated, or ranges are read. */
	struct te_store_buffer **buffers;    /* buffers[n] or NULL */
	const struct tes_get_ranges *ranges; /* or NULL */
	bool fresh; /* ask the master: cached locations do not count */
	size_t n;
	/* Set by the functions below. */
	struct tes_work *work;
	uint64_t deadline_ns;
	uint32_t lease_ms;     /* as the last look-up said */
	uint8_t *lookups;      /* lookups[n]: of each key */
	uint32_t *todo, *next; /* items of this round, of the next one */
	size_t n_todo, n_next;
};

/* The keys of a chunk that are looked up and read together. */
struct tes_get_round {
	struct tes_get_chunk *chunk;
	struct tes_get_entry *entries; /* entries[n] */
	size_t n;
	struct tes_places places;
	bool fail_silent; /* of the batch under way: owners that are silent
			     lose their requests, other replicas are left */
};

/*
 * A code within the client: ranges of this object are good only when all of it
 * is read and its CRC holds.
 */
#define TES_GET_WHOLE (-1000000)

/* ---- chunks and rounds (get.c) ---- */

/* Reads all keys of a chunk and sets their results. Blocks. */
void tes_get_chunk_run(struct tes_get_chunk *chunk);
/*
 * Looks up the keys of @chunk at the master without a read. Leases are kept
 * until tes_get_release(). @results: codes[chunk->n], or NULL. -ENOMEM: there
 * is nothing to end, and each code is TE_STORE_INTERNAL_ERROR.
 */
int tes_look_up(struct tes_get_chunk *chunk, struct tes_get_round *round,
		int *results);
/* Frees what tes_look_up() made: entries, places and results. */
void tes_look_up_end(struct tes_get_round *round);
/* Sets the result of an item, and those of its ranges. */
void tes_get_set_code(struct tes_get_chunk *chunk, uint32_t item, int code);

/* ---- look-up (get.c) ---- */

/* Caches the location of an entry that was read from where the master said. */
void tes_get_remember(struct tes_get_round *round, struct tes_get_entry *entry);
/* Pins the location of the replica that was chosen. -ENOMEM. */
int tes_get_hold(struct tes_get_round *round, struct tes_get_entry *entry);
/* Drops the cached location of @entry, which proved to be wrong. */
void tes_get_forget(struct tes_get_round *round,
		    const struct tes_get_entry *entry);
/* Ends the leases of this round's look-up, so that eviction may go on. */
void tes_get_release(struct tes_get_round *round);

/* ---- reads (get_read.c) ---- */

/* Reads what was found. Keys that may be elsewhere by now are in next. */
void tes_get_read(struct tes_get_round *round);
/* Chooses a replica whose owner is reachable. -EHOSTUNREACH: none is. */
int tes_get_reach(struct tes_get_round *round, struct tes_get_entry *entry);

/* ---- the local cache (get.c) ---- */

/* Counts a read of the entry's key; sets entry->hot if its bytes are cached. */
void tes_get_warm(struct tes_get_round *round, struct tes_get_entry *entry);
/* Puts the reference entry->hot back. */
void tes_get_cool(struct tes_get_round *round, struct tes_get_entry *entry);
/* Copies the cached bytes to the caller's memory; there is room. */
void tes_get_copy(struct tes_get_round *round, struct tes_get_entry *entry);
/* Caches an object that was just read from elsewhere, if it is worth that. */
void tes_get_keep(struct tes_get_round *round,
		  const struct tes_get_entry *entry);

#endif
