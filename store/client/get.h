/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get.h - the inside of a get: one chunk of keys, round by round
 *
 *   get.c  rounds: find -> read, again for keys that were not where they were
 *          found
 *   get_find.c  where objects lie: remembered, or from the master
 *   get_read.c  one replica after the other, until one verifies
 *   get_plan.c  the requests for a replica, and what they must have brought
 *   get_hot.c  bytes that we have already
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
	TES_GET_LOCATION, /* remembered: a hint */
};

/* A key of the round. */
struct tes_get_entry {
	uint32_t item;  /* of the chunk */
	uint8_t source; /* enum tes_get_source */
	bool open;      /* found, and neither read nor given up */
	bool late;      /* read, but its headers are yet to be looked at */
	bool no_crc;
	bool again;      /* its last replica was silent in haste */
	bool unverified; /* its bytes may be another's in parts */
	bool held;       /* its lease is to stay: somebody has pinned it */
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

struct tes_get {
	struct te_store *store;
	struct tes_work *work;
	const struct te_store_key *keys;     /* keys[n] */
	const struct te_store_value *values; /* values[n]; NULL: see below */
	int64_t *results;                    /* results[n] */
	/* Instead of values: memory is made, or ranges are read. */
	struct te_store_buffer **buffers;    /* buffers[n] or NULL */
	const struct tes_get_ranges *ranges; /* or NULL */
	bool fresh; /* what is remembered is not good enough */
	size_t n;
	uint64_t deadline_ns;
	uint32_t lease_ms;     /* as the last look-up said */
	uint8_t *lookups;      /* lookups[n] of each key */
	uint32_t *todo, *next; /* [n] */
	size_t n_todo, n_next;

	bool hurry; /* of the run: it does not wait for silent owners */

	/* State of the current round. */
	struct tes_get_entry *entries; /* entries[n_todo] */
	struct tes_places places;
};

/*
 * A code within the client: ranges of this object are good only when all of it
 * is read and its CRC holds.
 */
#define TES_GET_WHOLE (-1000000)

/* ---- rounds (get.c) ---- */

/* All of a chunk whose first fields, up to n, are set. */
void tes_get_chunk(struct tes_get *get);
/*
 * Ask where the n keys of a chunk lie, for results of its own. It does not
 * release what it finds. -ENOMEM: nothing is to be ended.
 */
int tes_get_look_up(struct tes_get *get);
/* End that: entries, places and results are void. */
void tes_get_looked_up(struct tes_get *get);
void tes_get_set_code(struct tes_get *get, uint32_t item, int code);

/* ---- finding (get_find.c) ---- */

/* The entry has been read from where the master said: remember it. */
void tes_get_remember(struct tes_get *get, struct tes_get_entry *entry);
/* Pin where it lies, by the replica that was chosen. -ENOMEM. */
int tes_get_hold(struct tes_get *get, struct tes_get_entry *entry);
/* Drops the cached location of @entry, which proved to be wrong. */
void tes_get_forget(struct tes_get *get, const struct tes_get_entry *entry);
/* The leases of this round's look-up yield to eviction again. */
void tes_get_release(struct tes_get *get);

/* ---- reading (get_read.c) ---- */

/* Read what was found. Keys that may be elsewhere by now are in next. */
void tes_get_read(struct tes_get *get);
/* Choose a replica whose owner can be reached. -EHOSTUNREACH: there is none. */
int tes_get_reach(struct tes_get *get, struct tes_get_entry *entry);

/* ---- bytes that we have (get_hot.c) ---- */

/* Counts a read of the entry's key; sets entry->hot if its bytes are cached. */
void tes_get_warm(struct tes_get *get, struct tes_get_entry *entry);
/* They are not wanted. */
void tes_get_cool(struct tes_get *get, struct tes_get_entry *entry);
/* Copy them where they shall go; there is room. */
void tes_get_copy(struct tes_get *get, struct tes_get_entry *entry);
/* All of it was just read from elsewhere: keep it, if it is worth that. */
void tes_get_keep(struct tes_get *get, const struct tes_get_entry *entry);

/* ---- requests (get_plan.c) ---- */

#endif
