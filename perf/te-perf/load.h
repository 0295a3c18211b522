/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - threads that submit batches for a while, and what came of it
 */
#ifndef PERF_TE_PERF_LOAD_H
#define PERF_TE_PERF_LOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <te/te.h>

#include "perf/lib/histogram.h"
#include "perf/lib/shuffle.h"
#include "perf/te-perf/locations.h"
#include "perf/te-perf/series.h"

#define LOAD_BATCH_MAX   65536
#define LOAD_THREADS_MAX 256
#define LOAD_RATE_MAX    1000000000ull
#define LOAD_ERRORS      8 /* kinds of error that are told apart */
#define LOAD_NEVER_LATE  INT64_MIN
/* Bytes that a hot thread stays within; larger requests have one place. */
#define LOAD_HOT_LEN (1u << 20)
#define LOAD_SHIFTS  64 /* unaligned: bytes that a slot is longer by */

/*
 * Threads walk over slots, one a request, each over its own; at the end they
 * start over. A slot is a place on either side: where a side has several parts,
 * slots take them by turns. With @hot threads stay within their first slots.
 * With @random they take their slots in an order that looks random, each once
 * before any is taken again. With @unaligned no request begins at an even
 * address, on either side.
 */
struct load {
	struct te_engine *engine; /* not owned */
	te_segment_id segment;
	struct side local, remote; /* places for a batch of each thread */
	uint64_t size;
	uint32_t batch, n_threads;
	uint32_t read_share;  /* percent of the requests: 0 write, 100 read */
	uint32_t timeout_ms;  /* of a request; 0: the engine's default */
	uint64_t duration_ms; /* 0: until load_end() */
	uint64_t rate; /* batches a second of all threads; 0: closed loop */
	/*
	 * NULL, or the time of an event, UINT64_MAX until it has happened: then
	 * the load ends after_event_ns after it, and begins a batch after it.
	 */
	const _Atomic uint64_t *event_ns;
	uint64_t after_event_ns;
	uint64_t pause_ns; /* of sleep before each batch */
	bool hot, random, unaligned;
	bool notify;     /* send messages; do not write or read */
	bool stamp;      /* make the bytes new before each write of a slot */
	bool keep_going; /* count requests that fail, and go on */
	bool probe;      /* also write 8 urgent bytes, behind the first parts */
};

struct load_error {
	int error;
	uint64_t n;
};

struct load_result {
	uint64_t requests, elapsed_ns; /* requests: those that went well */
	uint64_t gap_ns; /* longest time without a request that went well */
	/*
	 * Ns after its deadline (below 0: before it) at which the latest batch
	 * with a failure ended; LOAD_NEVER_LATE: none, or no timeout is set.
	 */
	int64_t late_ns;
	struct load_error errors[LOAD_ERRORS];
	/*
	 * Ns from submit, or from when the batch was due, to its end. Batches
	 * with a failure do not count.
	 */
	struct tei_histogram latency;
	uint64_t behind; /* batches that were due by the end and not begun */
	struct tei_histogram probe; /* of urgent requests */
	/* Each thread has used so many slots, the first in its order. */
	uint64_t slots[LOAD_THREADS_MAX];
};

/* Adds counts of kinds of error; what has no room counts with the last kind. */
void load_add_errors(struct load_error to[LOAD_ERRORS],
		     const struct load_error from[LOAD_ERRORS]);

/*
 * Runs a load, and fills @series meanwhile. -errno of the first request that
 * failed (unless keep_going), or of threads and memory. Blocks: to its end.
 */
int load_run(const struct load *l, struct series *series,
	     struct load_result *out);

/* Ends all loads: each thread after its batch in flight. Threads: any. */
void load_end(void);
/* Has the first SIGINT call load_end(), the second end the process. Set-up. */
void load_end_at_interrupt(void);
/* Tells whether load_end() has been called. */
bool load_is_ended(void);

/* ---- the geometry of slots ---- */

/* Returns the bytes from one slot to the next: whole words, for patterns. */
static inline uint64_t load_stride(const struct load *l)
{
	return (l->size + (l->unaligned ? LOAD_SHIFTS : 0) + 7) & ~7ull;
}

/* Returns how many slots each thread has. */
static inline uint64_t load_share(const struct load *l)
{
	uint64_t ours = side_places(&l->local, load_stride(l));
	uint64_t theirs = side_places(&l->remote, load_stride(l));

	return (ours < theirs ? ours : theirs) / l->n_threads;
}

/* Returns how many slots a thread walks over, one at each location at least. */
static inline uint64_t load_slots(const struct load *l)
{
	uint64_t all = load_share(l), few = LOAD_HOT_LEN / load_stride(l);

	if (!l->hot)
		return all;
	if (few > l->batch)
		few = l->batch;
	if (few < l->local.n)
		few = l->local.n;
	if (few < l->remote.n)
		few = l->remote.n;
	return few < all ? few : all;
}

/* Returns the slot that a thread uses as number @i of its load_slots(). */
static inline uint64_t load_slot(const struct load *l, uint64_t n_slots,
				 uint64_t i)
{
	return l->random ? tei_shuffle(n_slots, i) : i;
}

/* Returns the place of a slot, of a thread that has load_share() slots. */
static inline uint64_t load_place(uint64_t share, uint32_t thread,
				  uint64_t slot)
{
	return share * thread + slot;
}

/*
 * Returns how far behind the begin of a place its bytes begin. With @unaligned
 * that is an odd number; at half of the places both sides have the same one.
 */
static inline uint64_t load_shift(const struct load *l, const struct side *side,
				  uint64_t place)
{
	uint64_t step = side == &l->remote ? 14 : 10;

	return l->unaligned ? (place * step & (LOAD_SHIFTS - 1)) | 1 : 0;
}

/* Returns the position of a place's bytes; @side is one of @l. */
static inline uint64_t load_position(const struct load *l,
				     const struct side *side, uint64_t place)
{
	return side_place(side, load_stride(l), place) +
	       load_shift(l, side, place);
}

/* Tells whether a slot is read, each time; the others are written. */
static inline bool load_reads(const struct load *l, uint64_t slot)
{
	return (slot + 1) * l->read_share / 100 != slot * l->read_share / 100;
}

#endif
