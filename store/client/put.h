/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put.h - the inside of a put: one chunk of keys, round by round
 *
 *   put.c  rounds: start -> write -> end, again for keys that may yet succeed
 *   put_start.c  asks the master for extents
 *   put_write.c  writes them
 *   put_end.c    tells the master what is there
 *
 * Each of the three steps is begun and then ended, so that several lanes of a
 * round can be under way.
 */
#ifndef STORE_CLIENT_PUT_H
#define STORE_CLIENT_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/client/client.h"
#include "store/client/layout.h"

/* A key of the chunk. */
struct tes_put_item {
	uint64_t size, digest;
	uint8_t tries;
	uint32_t same; /* 1 + index of the same key before it; 0: none */
};

enum tes_put_fate {
	TES_PUT_NOT_SENT, /* nothing can arrive */
	TES_PUT_SENT,     /* a request of the batch */
	TES_PUT_WRITTEN,  /* in the owner's memory */
	TES_PUT_QUIET,    /* not written, nothing can arrive any more */
	TES_PUT_LOUD,     /* something may still arrive */
};

/* Progress of one extent. */
struct tes_put_extent {
	uint32_t request; /* SENT: index in the batch */
	uint8_t fate;     /* enum tes_put_fate */
};

/* A key of the round; its place is that of the reply's columns. */
struct tes_put_entry {
	uint32_t item;
	bool accepted; /* we have extents and owe the master an end */
	bool again;    /* not for good: worth another start */
	bool no_crc;
	uint32_t written, quiet; /* masks of replicas */
	uint64_t generation;
	struct tes_layout layout;
	struct tes_put_extent *extents; /* as in layout */
};

struct tes_put {
	struct te_store *store;
	struct tes_work *work;
	const struct te_store_key *keys;      /* keys[n] */
	const struct te_store_value *values;  /* values[n]; NULL: only the
						* headers are written, and
						* drafts are made */
	const uint64_t *sizes;                /* then: sizes[n] */
	const struct te_store_replicate *how; /* NULL: nothing special */
	const char *const *groups;            /* groups[n] or NULL */
	bool upsert;
	int *results; /* results[n] */
	size_t n;
	struct tes_put_item *items; /* items[n] */
	uint32_t *todo, *next;      /* items of this round, of the next one */
	size_t n_todo, n_next;
	size_t n_full;              /* of next: the pool was full */
	size_t n_accepted, n_there; /* of this round */
	uint32_t retry_ms;
	uint64_t full_since_ns; /* 0: not full yet */

	/* State of the current round. */
	struct tes_put_entry *entries; /* entries[n_todo] */
	struct tes_places places;
	struct tes_store_asked asked; /* the call under way */
	Store__PutStart *ask;         /* as it was sent */
	Store__PutStartReply *start;
	struct tes_put_ending *ending; /* put_end.c's; NULL: none is asked */
	uint64_t epoch;                /* of the generations */
	uint64_t t0;                   /* before the start was sent */
	int code;                      /* the start failed; nothing is ours */
	int posted;                    /* a negative errno: no write began */
	bool in_parts;                 /* more writes than begin at a time */
};

/* Write the extents of what was accepted. */
void tes_put_write(struct tes_put *put, struct tes_places *places);
/* Wait for that, and judge. */
void tes_put_written(struct tes_put *put, struct tes_places *places);
/* Between these two the memory of the round is not ours. */
void tes_put_end(struct tes_put *put);
/* Sets the results of what was accepted; keys worth it are in next. */
void tes_put_ended(struct tes_put *put);

/* The mask of all replicas of @layout, which has some. */
static inline uint32_t tes_put_all(const struct tes_layout *layout)
{
	return UINT32_MAX >> (TES_REPLICAS_MAX - layout->n_replicas);
}

/* ---- drafts (put_open.c) ---- */

/*
 * Keys that were accepted and have their headers become drafts: no end is due.
 */
void tes_put_keep(struct tes_put *put, const struct tes_places *places);

/* ---- rounds (put.c) ---- */

/*
 * Runs all keys of a put whose fields up to n are set, but for work and groups.
 * Returns -600 (nothing is done), or the first of the results that is not 0.
 */
int tes_put_run(const struct tes_put *all);

static inline void tes_put_again(struct tes_put *put, uint32_t item)
{
	put->next[put->n_next++] = item;
}

#endif
