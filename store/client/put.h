/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put.h - the inside of a put: call, chunk, round, pipeline
 *
 *   call      what the caller asks for
 *   chunk     keys of a call that go in one message; has one thread and one
 *             arena, and runs in rounds until no key is left to try again
 *   round     the keys of a chunk that are to be tried, in one pipeline or two
 *   pipeline  start at the master -> write to the owners -> end at the master
 *
 *   put.c       calls, chunks, rounds, and the start
 *   put_write.c the writes, and the end
 *   put_parts.c puts in parts, which keep what is between start and end
 *
 * Each step of a pipeline is begun and awaited apart, so that two pipelines
 * overlap. From its begin to its await a step owns the memory of the round.
 */
#ifndef STORE_CLIENT_PUT_H
#define STORE_CLIENT_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/client/client.h"
#include "store/client/layout.h"

/* The caller's arguments, none of them owned. */
struct tes_put_call {
	struct te_store *store;
	const struct te_store_key *keys;      /* keys[n] */
	const struct te_store_value *values;  /* values[n]; NULL: drafts are
						made, only headers written */
	const uint64_t *sizes;                /* then: sizes[n], in bytes */
	const struct te_store_replicate *how; /* NULL: defaults */
	bool upsert;
	int *results; /* results[n] */
	size_t n;
};

/* A key of the chunk. */
struct tes_put_item {
	uint64_t size, digest;
	uint8_t tries;
	uint32_t same; /* 1 + index of the same key before it; 0: none */
};

struct tes_put_chunk {
	struct tes_put_call call;   /* its arrays begin at the chunk's keys */
	const char *const *groups;  /* groups[call.n] or NULL */
	struct tes_work *work;      /* of the first pipeline, too */
	struct tes_put_item *items; /* items[call.n] */
	uint32_t *todo, *next;      /* items of this round, of the next one */
	size_t n_todo, n_next;
	size_t n_full;          /* of next: the pool was full */
	uint32_t retry_ms;      /* when a full pool may have space; 0: not */
	uint64_t full_since_ns; /* 0: not full yet */
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

/* A key of the pipeline; its place is that of the reply's columns. */
struct tes_put_entry {
	uint32_t item;
	bool accepted; /* has extents; the master waits for its end */
	bool again;    /* failed for now: start it once more */
	bool no_crc;
	uint32_t written, quiet; /* masks of replicas */
	uint64_t generation;
	struct tes_layout layout;
	struct tes_put_extent *extents; /* as in layout */
};

struct tes_put_pipeline {
	struct tes_put_chunk *chunk;
	struct tes_work *work;
	const uint32_t *todo; /* todo[n]: items */
	uint32_t *next;       /* next[n_next]: items to try again; room: n */
	size_t n, n_next;
	size_t n_full;                 /* of next: the pool was full */
	size_t n_accepted;             /* by the master, at the start */
	size_t n_there;                /* keys that existed already */
	uint32_t retry_ms;             /* as in the chunk */
	struct tes_put_entry *entries; /* entries[n] */
	struct tes_places places;
	struct tes_store_asked asked; /* the call under way */
	Store__PutStart *ask;         /* as it was sent */
	Store__PutStartReply *start;
	struct tes_put_ending *ending; /* put_write.c's; NULL: none is asked */
	uint64_t epoch;                /* of the generations */
	uint64_t t0;                   /* before the start was sent */
	int code;      /* not 0: the start failed, no extents are ours */
	int posted;    /* a negative errno: no write began */
	bool in_parts; /* more writes than one batch takes */
};

/*
 * Runs all keys of @call. Returns TE_STORE_INVALID_PARAMS (nothing is done), or
 * the first of the results that is not 0. Blocks.
 */
int tes_put_run(const struct tes_put_call *call);

/*
 * Notes that the master may be about to begin, or have begun, puts of these
 * keys that nobody writes, or whose end it is not told. (put.c)
 */
void tes_put_note_lost(const struct tes_put_pipeline *p);

/* Writes the extents of accepted keys. Threads: the caller's. */
void tes_put_write_begin(struct tes_put_pipeline *p);
/* Waits for the writes; sets written and quiet of each entry. */
void tes_put_write_await(struct tes_put_pipeline *p);
/* Tells the master which replicas of the accepted entries were written. */
void tes_put_end_begin(struct tes_put_pipeline *p);
/* Sets the results of accepted keys; those worth another try are in next. */
void tes_put_end_await(struct tes_put_pipeline *p);

/*
 * Makes drafts of accepted keys whose headers are written: no end is due for
 * them. (put_parts.c)
 */
void tes_put_keep(struct tes_put_pipeline *p);

/* The mask of all replicas of @layout, which has some. */
static inline uint32_t tes_put_all(const struct tes_layout *layout)
{
	return UINT32_MAX >> (TES_REPLICAS_MAX - layout->n_replicas);
}

static inline void tes_put_set_result(struct tes_put_pipeline *p, uint32_t item,
				      int code)
{
	p->chunk->call.results[item] = code;
}

/* Tries @item once more in the next round. */
static inline void tes_put_again(struct tes_put_pipeline *p, uint32_t item)
{
	p->next[p->n_next++] = item;
}

#endif
