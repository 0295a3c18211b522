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
struct tei_put_item {
	uint64_t size, digest;
	uint8_t tries;
	uint32_t same; /* 1 + index of the same key before it; 0: none */
};

enum tei_put_fate {
	TEI_PUT_NOT_SENT, /* nothing can arrive */
	TEI_PUT_SENT,     /* a request of the batch */
	TEI_PUT_WRITTEN,  /* in the owner's memory */
	TEI_PUT_QUIET,    /* not written, nothing can arrive any more */
	TEI_PUT_LOUD,     /* something may still arrive */
};

/* What becomes of one extent. */
struct tei_put_extent {
	uint32_t request; /* SENT: index in the batch */
	uint8_t fate;     /* enum tei_put_fate */
};

/* A key of the round; its place is that of the reply's columns. */
struct tei_put_entry {
	uint32_t item;
	bool accepted; /* we have extents and owe the master an end */
	bool again;    /* not for good: worth another start */
	bool no_crc;
	uint32_t written, quiet; /* masks of replicas */
	uint64_t generation;
	struct tei_layout layout;
	struct tei_put_extent *extents; /* as in layout */
};

struct tei_put {
	struct te_store *store;
	struct tei_work *work;
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
	struct tei_put_item *items; /* items[n] */
	uint32_t *todo, *next;      /* items of this round, of the next one */
	size_t n_todo, n_next;
	size_t n_full;              /* of next: the pool was full */
	size_t n_accepted, n_there; /* of this round */
	uint32_t retry_ms;
	uint64_t full_since_ns; /* 0: not full yet */

	/* Of the round. */
	struct tei_put_entry *entries; /* entries[n_todo] */
	struct tei_places places;
	struct tei_store_asked asked; /* the call under way */
	Store__PutStart *ask;         /* as it was sent */
	Store__PutStartReply *start;
	struct tei_put_ending *ending; /* put_end.c's; NULL: none is asked */
	uint64_t epoch;                /* of the generations */
	uint64_t t0;                   /* before the start was sent */
	int code;                      /* the start failed; nothing is ours */
	int posted;                    /* a negative errno: no write began */
	bool in_parts;                 /* more writes than begin at a time */
};

/* Between these two the memory of the round is not ours. */
void tei_put_start(struct tei_put *put);
/* Fills entries, or sets code. */
void tei_put_started(struct tei_put *put);
/*
 * "There already" may mean that the same key stands earlier in this very
 * call: then its outcome is ours too. Only worth asking when some keys of the
 * round were accepted and others were there.
 */
void tei_put_find_same(const struct tei_put *lanes, size_t n_lanes);
/* Write the extents of what was accepted. */
void tei_put_write(struct tei_put *put, struct tei_places *places);
/* Wait for that, and judge. */
void tei_put_written(struct tei_put *put, struct tei_places *places);
/* Between these two the memory of the round is not ours. */
void tei_put_end(struct tei_put *put);
/* Sets the results of what was accepted; keys worth it are in next. */
void tei_put_ended(struct tei_put *put);

/* The mask of all replicas of @layout, which has some. */
static inline uint32_t tei_put_all(const struct tei_layout *layout)
{
	return UINT32_MAX >> (TEI_REPLICAS_MAX - layout->n_replicas);
}

/* ---- drafts (put_open.c) ---- */

/* What was accepted and has its headers becomes a draft, and owes no end. */
void tei_put_keep(struct tei_put *put, const struct tei_places *places);

/* ---- rounds (put.c) ---- */

/*
 * Runs all keys of a put whose fields up to n are set, but for work and groups.
 * Returns -600 (nothing is done), or the first of the results that is not 0.
 */
int tei_put_run(const struct tei_put *all);

static inline void tei_put_again(struct tei_put *put, uint32_t item)
{
	put->next[put->n_next++] = item;
}

#endif
