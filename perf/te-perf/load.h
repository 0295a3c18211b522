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
	 * Time of an event; UINT64_MAX as long as it has not happened, or NULL.
	 * The load goes on for after_event_ns after it, and begins a batch
	 * after it.
	 */
	const _Atomic uint64_t *event_ns;
	uint64_t after_event_ns;
	uint64_t pause_ns; /* sleep before each batch */
	bool hot, random, unaligned;
	bool notify;     /* messages instead of writes and reads */
	bool stamp;      /* each write of a slot has other bytes */
	bool keep_going; /* count requests that fail, and go on */
	bool probe;      /* urgent 8-byte writes beside, behind first parts */
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
	/* Slots used by each thread, for the comparison: the first in order. */
	uint64_t slots[LOAD_THREADS_MAX];
};

/* Adds counts of kinds of error; what has no room counts with the last kind. */
void load_add_errors(struct load_error to[LOAD_ERRORS],
		     const struct load_error from[LOAD_ERRORS]);

/*
 * Run it; @series is filled while it runs. -errno of the first request that
 * failed (unless keep_going), or of threads and memory.
 */
int load_run(const struct load *l, struct series *series,
	     struct load_result *out);

/* Ends each thread of each load after the batch that is then on. Threads: any. */
void load_end(void);
/* Lets the first SIGINT do so; the second ends the process. Set-up only. */
void load_end_at_interrupt(void);
/* Tells whether either has ended the loads. */
bool load_is_ended(void);

/* ---- the geometry of slots ---- */

/* Distance of one slot to the next: whole words, as patterns want it. */
static inline uint64_t load_stride(const struct load *l)
{
	return (l->size + (l->unaligned ? LOAD_SHIFTS : 0) + 7) & ~7ull;
}

/* Slots of each thread, where it walks over all. */
static inline uint64_t load_share(const struct load *l)
{
	uint64_t ours = side_places(&l->local, load_stride(l));
	uint64_t theirs = side_places(&l->remote, load_stride(l));

	return (ours < theirs ? ours : theirs) / l->n_threads;
}

/* Slots that a thread walks over: hot ones, too, are at each location. */
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

/* Number @i of a thread's slots, load_slots() of them, in order of their use. */
static inline uint64_t load_slot(const struct load *l, uint64_t n_slots,
				 uint64_t i)
{
	return l->random ? tei_shuffle(n_slots, i) : i;
}

/* A slot's place, of a thread that has load_share() slots. */
static inline uint64_t load_place(uint64_t share, uint32_t thread,
				  uint64_t slot)
{
	return share * thread + slot;
}

/*
 * Where the bytes of a place begin, from where it does itself on. They do so at
 * any odd address, at half of the places as far from a word on both sides.
 */
static inline uint64_t load_shift(const struct load *l, const struct side *side,
				  uint64_t place)
{
	uint64_t step = side == &l->remote ? 14 : 10;

	return l->unaligned ? (place * step & (LOAD_SHIFTS - 1)) | 1 : 0;
}

/* The position of a place's bytes; @side is that of @l. */
static inline uint64_t load_position(const struct load *l,
				     const struct side *side, uint64_t place)
{
	return side_place(side, load_stride(l), place) +
	       load_shift(l, side, place);
}

/* Tells whether a slot is read; the others are written. The same each time. */
static inline bool load_reads(const struct load *l, uint64_t slot)
{
	return (slot + 1) * l->read_share / 100 != slot * l->read_share / 100;
}

#endif
