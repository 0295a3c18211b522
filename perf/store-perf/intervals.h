/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intervals.h - what a load of store-perf does over time: rates and gaps of
 * each interval
 *
 * Threads: those that call the pool note what has ended, one thread takes the
 * points.
 */
#ifndef PERF_STORE_PERF_INTERVALS_H
#define PERF_STORE_PERF_INTERVALS_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Counts since the load began; may lie in memory that processes share. */
struct pace {
	_Alignas(64) _Atomic uint64_t keys, bytes; /* that went well */
	_Atomic uint64_t last_ns; /* end of a call of which a key went well */
	_Atomic uint64_t gap_ns;  /* the longest without one since a point */
};

void pace_begin(struct pace *p, uint64_t now_ns);
/* Notes that a call has ended at @now_ns, @keys of which went well. */
void pace_note(struct pace *p, uint64_t now_ns, uint64_t keys, uint64_t bytes);

struct interval_point {
	double end_s; /* since the load began */
	double gb_per_s, keys_per_s;
	double gap_ms; /* longest time in it without a call that went well */
};

struct intervals {
	uint64_t interval_ns; /* 0: no points */
	bool print;           /* each point as a line on stdout */
	bool keep;            /* them for intervals_json() */

	struct pace *pace; /* not owned */
	uint64_t start_ns, begin_ns, keys, bytes;
	size_t n, room;
	struct interval_point *points; /* points[n] */
};

/* Forgets all points; a load begins, as told by @pace. */
void intervals_begin(struct intervals *s, struct pace *pace, uint64_t now_ns);
/*
 * Takes a point if one is due at @now_ns. Returns for how many ms to sleep
 * until the next, 1 .. @most_ms.
 */
int intervals_look(struct intervals *s, uint64_t now_ns, int most_ms);
/*
 * Takes the last point, of an interval that is shorter, but a tenth at least.
 */
void intervals_end(struct intervals *s, uint64_t now_ns);
/* Returns a new array of the points; NULL: no memory. */
json_t *intervals_json(const struct intervals *s);
void intervals_fini(struct intervals *s);

#endif
