/* SPDX-License-Identifier: Apache-2.0 */
/*
 * series.h - what a load does over time: intervals, gaps, progress
 *
 * Threads: workers call series_completed(), the thread that runs the load the
 * rest; any reads counted.
 */
#ifndef PERF_TE_PERF_SERIES_H
#define PERF_TE_PERF_SERIES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/lib/report.h"
#include "perf/te-perf/rails.h"

struct series_point {
	double end_s; /* since the load began */
	double gb_per_s, ops_per_s;
	double gap_ms; /* longest time in it without a completed batch */
	uint64_t rail_bytes[RAILS_MAX]; /* in the order of series->rails */
};

struct series {
	uint64_t interval_ns; /* 0: no points */
	bool print;           /* each point as a line on stdout */
	bool last_only;       /* no point but the last is kept */
	struct te_engine *engine;
	struct tei_progress *progress; /* or NULL; done_ms of total_ms */
	uint64_t done_ms, total_ms;

	uint64_t start_ns, size;
	size_t n, room;
	struct series_point *points; /* points[n] */
	struct rails rails;          /* at the last point */
	_Atomic uint64_t last_ns;    /* of a completed batch */
	_Atomic uint64_t gap_ns;     /* the longest so far */
	_Atomic uint64_t interval_gap_ns;
	_Atomic uint64_t counted; /* by series_watch() at its last look */
};

/* Returns how many requests have ended well so far, or that it is all over. */
typedef uint64_t series_count_fn(void *arg);
#define SERIES_STOP UINT64_MAX

/* Forgets all points, as a load of requests of @size begins. */
void series_begin(struct series *s, uint64_t now_ns, uint64_t size);
/* Notes that a batch has ended at @now_ns of which a request went well. */
void series_completed(struct series *s, uint64_t now_ns);
/* Takes points until @end_ns or until @count says so. */
void series_watch(struct series *s, uint64_t end_ns, series_count_fn *count,
		  void *arg);
/* Returns the longest time without such a batch, up to @end_ns. */
uint64_t series_gap_ns(struct series *s, uint64_t end_ns);
void series_fini(struct series *s);

#endif
