/* SPDX-License-Identifier: Apache-2.0 */
/*
 * series.c - what a load does over time: intervals, gaps, progress
 */
#include "perf/te-perf/series.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "perf/lib/peak.h"
#include "perf/lib/sleep.h"

#define LOOK_NS (100 * TEI_NS_PER_MS)

void series_begin(struct series *s, uint64_t now_ns, uint64_t size)
{
	s->n = 0;
	s->start_ns = now_ns;
	s->size = size;
	if (s->engine)
		rails_read(s->engine, &s->rails);
	atomic_store(&s->last_ns, now_ns);
	atomic_store(&s->gap_ns, 0);
	atomic_store(&s->interval_gap_ns, 0);
}

void series_completed(struct series *s, uint64_t now_ns)
{
	uint64_t last = atomic_exchange_explicit(&s->last_ns, now_ns,
						 memory_order_relaxed);

	/* A thread that ended later may be the first to get here. */
	if (now_ns <= last)
		return;
	tei_peak_raise(&s->gap_ns, now_ns - last);
	tei_peak_raise(&s->interval_gap_ns, now_ns - last);
}

uint64_t series_gap_ns(struct series *s, uint64_t end_ns)
{
	uint64_t last = atomic_load(&s->last_ns), gap = atomic_load(&s->gap_ns);

	return end_ns > last && end_ns - last > gap ? end_ns - last : gap;
}

/* ---- points ---- */

static struct series_point *new_point(struct series *s)
{
	size_t room = s->room ? s->room * 2 : 64;
	struct series_point *more;

	if (s->last_only)
		s->n = 0;
	if (s->n == s->room) {
		more = tei_realloc(s->points, room * sizeof(*more));
		if (!more)
			return NULL;
		s->points = more;
		s->room = room;
	}
	return &s->points[s->n++];
}

static void print_point(const struct series *s, const struct series_point *p)
{
	double sum = 0;

	printf("%8.2f s  %7.2f GB/s  %10.0f requests/s  gap %.1f ms", p->end_s,
	       p->gb_per_s, p->ops_per_s, p->gap_ms);
	for (size_t i = 0; i < s->rails.n; i++)
		sum += (double)p->rail_bytes[i];
	for (size_t i = 0; s->rails.n > 1 && i < s->rails.n; i++)
		printf("  %s %.0f %%", s->rails.v[i].name,
		       sum > 0 ? 100 * (double)p->rail_bytes[i] / sum : 0.0);
	putchar('\n');
	fflush(stdout);
}

static void rails_of_point(struct series *s, struct series_point *p)
{
	struct rails before = s->rails;

	memset(p->rail_bytes, 0, sizeof(p->rail_bytes));
	if (!s->engine)
		return;
	rails_read(s->engine, &s->rails);
	for (size_t i = 0; i < s->rails.n; i++)
		p->rail_bytes[i] = rails_moved(&before, &s->rails, i);
}

static void take_point(struct series *s, uint64_t begin_ns, uint64_t now_ns,
		       uint64_t requests)
{
	struct series_point *p = new_point(s);
	double ns = (double)(now_ns - begin_ns);
	uint64_t last = atomic_load(&s->last_ns), gap, open;

	if (!p)
		return;
	gap = atomic_exchange(&s->interval_gap_ns, 0);
	open = now_ns > last ? now_ns - last : 0; /* and still open */
	if (open > gap)
		gap = open;
	p->end_s = (double)(now_ns - s->start_ns) / 1e9;
	p->ops_per_s = (double)requests / ns * 1e9;
	p->gb_per_s = (double)(requests * s->size) / ns;
	p->gap_ms = (double)gap / 1e6;
	rails_of_point(s, p);
	if (s->print)
		print_point(s, p);
}

static void show_progress(struct series *s, uint64_t now_ns)
{
	if (s->progress)
		tei_progress_show(s->progress,
				  s->done_ms + (now_ns - s->start_ns) /
						       TEI_NS_PER_MS,
				  s->total_ms);
}

static uint64_t earlier_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void series_watch(struct series *s, uint64_t end_ns, series_count_fn *count,
		  void *arg)
{
	uint64_t now = s->start_ns, begin = now, counted = 0, done;
	uint64_t tick = s->interval_ns ? now + s->interval_ns : end_ns;

	while (now < end_ns) {
		tei_sleep_until(
			earlier_of(earlier_of(tick, end_ns), now + LOOK_NS));
		now = tei_now_ns();
		show_progress(s, now);
		done = count(arg);
		if (done == SERIES_STOP)
			return;
		atomic_store(&s->counted, done);
		if (!s->interval_ns || (now < tick && now < end_ns))
			continue;
		take_point(s, begin, now, done - counted);
		counted = done;
		begin = now;
		tick += s->interval_ns;
	}
}

void series_fini(struct series *s)
{
	tei_free(s->points);
	s->points = NULL;
	s->n = s->room = 0;
}
