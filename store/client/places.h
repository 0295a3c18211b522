/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places.h - the owners that one round deals with
 *
 * Opened when the first key needs them. Places are named by index; they may
 * move when one is added.
 */
#ifndef STORE_CLIENT_PLACES_H
#define STORE_CLIENT_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "store/client/owners.h"
#include "store/proto/store.pb-c.h"

struct tes_work;

struct tes_places {
	struct tes_place *at; /* at[n], in the round's arena */
	size_t n, room;
	struct tei_arena *arena;   /* not owned */
	struct tes_owners *owners; /* not owned */
	uint32_t timeout_ms;       /* of a first contact */
	uint64_t deadline_ns;      /* of all of them */
	uint32_t report_only_ms;   /* of each run, see tes_work_run() */
	uint64_t probe_from_ns;    /* in the run under way */
};

struct tes_place {
	const char *name;           /* not owned */
	const uint8_t *incarnation; /* not owned; NULL: malformed */
	struct tes_owner *owner;    /* NULL: not open (yet) */
	bool tried, gone;
	bool stale;            /* a write under epoch was refused */
	bool rank_known;       /* for readers: */
	uint8_t rank;          /* 0 is best */
	int error;             /* why it cannot be opened */
	unsigned int n_silent; /* probes in a row without an answer */
	uint32_t n_done;       /* requests, when we looked last */
	bool waits;            /* for one that has not ended since */
	uint64_t epoch, since_ns;
};

void tes_places_init(struct tes_places *places, struct tes_owners *owners,
		     struct tes_work *work, uint32_t timeout_ms,
		     uint64_t deadline_ns);
void tes_places_fini(struct tes_places *places);
/* Adds the segments of a reply in order, from place @places->n on. -ENOMEM. */
int tes_places_add(struct tes_places *places, Store__Segment *const *segments,
		   size_t n);
/* Adds an owner that is open already; *@index is its place. -ENOMEM. */
int tes_places_add_owner(struct tes_places *places, struct tes_owner *owner,
			 uint32_t *index);
/*
 * An owner that has ended our epoch tells us the next one. Wait for that, a
 * moment at most, so that the next try is not refused for the same reason.
 */
void tes_places_await_epochs(struct tes_places *places);
/* 0, or why that owner cannot be used. Blocks as tes_owners_get(). */
int tes_places_open(struct tes_places *places, size_t index);

#endif
