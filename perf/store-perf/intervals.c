/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intervals.c - what a load of store-perf does over time: rates and gaps of
 * each interval
 */
#include "perf/store-perf/intervals.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "perf/lib/fields.h"
#include "perf/lib/peak.h"

/* ---- what has ended ---- */

void pace_begin(struct pace *p, uint64_t now_ns)
{
	atomic_store(&p->keys, 0);
	atomic_store(&p->bytes, 0);
	atomic_store(&p->gap_ns, 0);
	atomic_store(&p->last_ns, now_ns);
}

void pace_note(struct pace *p, uint64_t now_ns, uint64_t keys, uint64_t bytes)
{
	uint64_t last;

	if (!keys)
		return;
	atomic_fetch_add_explicit(&p->keys, keys, memory_order_relaxed);
	atomic_fetch_add_explicit(&p->bytes, bytes, memory_order_relaxed);
	last = atomic_exchange_explicit(&p->last_ns, now_ns,
					memory_order_relaxed);
	/* A thread that ended later may be the first to get here. */
	if (now_ns > last)
		tei_peak_raise(&p->gap_ns, now_ns - last);
}

/* ---- points ---- */

void intervals_begin(struct intervals *s, struct pace *pace, uint64_t now_ns)
{
	s->pace = pace;
	s->start_ns = s->begin_ns = now_ns;
	s->keys = s->bytes = 0;
	s->n = 0;
}

static void keep_point(struct intervals *s, const struct interval_point *p)
{
	size_t room = s->room ? s->room * 2 : 64;
	struct interval_point *more;

	if (s->n == s->room) {
		more = tei_realloc(s->points, room * sizeof(*more));
		if (!more)
			return;
		s->points = more;
		s->room = room;
	}
	s->points[s->n++] = *p;
}

static void print_point(const struct interval_point *p)
{
	printf("%8.2f s  %7.2f GB/s  %10.0f keys/s  gap %.1f ms\n", p->end_s,
	       p->gb_per_s, p->keys_per_s, p->gap_ms);
	fflush(stdout);
}

static double gap_ms(struct intervals *s, uint64_t now_ns)
{
	uint64_t gap = atomic_exchange(&s->pace->gap_ns, 0);
	uint64_t last = atomic_load(&s->pace->last_ns);

	if (now_ns > last && now_ns - last > gap) /* and still open */
		gap = now_ns - last;
	return (double)gap / 1e6;
}

static void take_point(struct intervals *s, uint64_t now_ns)
{
	uint64_t keys = atomic_load(&s->pace->keys);
	uint64_t bytes = atomic_load(&s->pace->bytes);
	double ns = (double)(now_ns - s->begin_ns);
	struct interval_point p = {
		.end_s = (double)(now_ns - s->start_ns) / 1e9,
		.gb_per_s = (double)(bytes - s->bytes) / ns,
		.keys_per_s = (double)(keys - s->keys) / ns * 1e9,
		.gap_ms = gap_ms(s, now_ns),
	};

	s->keys = keys;
	s->bytes = bytes;
	s->begin_ns = now_ns;
	if (s->print)
		print_point(&p);
	if (s->keep)
		keep_point(s, &p);
}

int intervals_look(struct intervals *s, uint64_t now_ns, int most_ms)
{
	uint64_t since, left_ms;

	if (!s->interval_ns || now_ns < s->start_ns)
		return most_ms;
	since = now_ns - s->start_ns;
	if (since / s->interval_ns >
	    (s->begin_ns - s->start_ns) / s->interval_ns)
		take_point(s, now_ns);
	left_ms = (s->interval_ns - since % s->interval_ns) / TEI_NS_PER_MS;
	return left_ms < (uint64_t)most_ms ? (int)left_ms + 1 : most_ms;
}

void intervals_end(struct intervals *s, uint64_t now_ns)
{
	if (s->interval_ns && now_ns > s->begin_ns + s->interval_ns / 10)
		take_point(s, now_ns);
}

json_t *intervals_json(const struct intervals *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->n; i++) {
		const struct interval_point *p = &s->points[i];
		const struct tei_field fields[] = {
			TEI_REAL("end_s", p->end_s),
			TEI_REAL("gb_per_s", p->gb_per_s),
			TEI_REAL("keys_per_s", p->keys_per_s),
			TEI_REAL("gap_ms", p->gap_ms),
		};

		tei_json_append(
			&list,
			tei_fields_json(fields,
					sizeof(fields) / sizeof(*fields)));
	}
	return list;
}

void intervals_fini(struct intervals *s)
{
	tei_free(s->points);
	s->points = NULL;
	s->n = s->room = 0;
}
