/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walks.c - what goes through all objects in small steps
 */
#include <errno.h>
#include <stdio.h>

#include "tests/bench/core-perf/driver.h"
#include "tests/bench/core-perf/parts.h"

#define BUCKETS 128 /* of the table, at a time */

static void count(const struct tes_core_key *key, void *arg)
{
	uint64_t *n = arg;

	(void)key;
	++*n;
}

static void add(struct figures *f, const char *what, const struct driver *d,
		uint64_t ns, uint64_t n)
{
	figures_add(f, "ms", (double)d->worst_ns / 1e6,
		    "longest step, %s, %ju objects", what, (uintmax_t)n)
		->most = 5;
	figures_add(f, "s", (double)ns / 1e9, "all of it, %s", what);
}

static void list_keys(struct driver *d, struct figures *f)
{
	uint64_t n = 0, all = 0;
	size_t cursor = 0;
	bool more = true;

	d->worst_ns = 0;
	while (more) {
		uint64_t start = driver_cpu_ns(), ns;

		more = tes_core_keys(d->core, NULL, &cursor, BUCKETS, count,
				     &n);
		ns = driver_cpu_ns() - start;
		all += ns;
		if (ns > d->worst_ns)
			d->worst_ns = ns;
	}
	add(f, "keys listed", d, all, n);
}

static bool none(const void *key, size_t len, void *arg, unsigned int *cost)
{
	(void)key;
	(void)len;
	(void)arg;
	(void)cost;
	return false;
}

/* Remove all that @match means (NULL: all), in ticks. */
static void remove_all(struct driver *d, tes_core_match_fn *match,
		       const char *what, struct figures *f)
{
	struct tes_event ev = {.type = TES_EVENT_REMOVE_ALL, .session = WRITER};
	struct tes_event tick = {.type = TES_EVENT_TICK};
	uint64_t before = d->busy_ns, n = driver_figures(d).objects;

	ev.u.remove_all.force = true;
	ev.u.remove_all.match = match;
	d->worst_ns = 0;
	driver_step(d, &ev);
	while (tes_core_busy(d->core))
		driver_step(d, &tick);
	add(f, what, d, d->busy_ns - before, n);
}

int measure_walks(const struct options *o, struct figures *f)
{
	struct driver d;

	if (driver_init(&d, (o->objects + BATCH) * driver_room(o->value_size)))
		return -ENOMEM;
	driver_fill(&d, 0, o->objects, o->value_size, "fill");
	list_keys(&d, f);
	remove_all(&d, none, "none of all removed", f);
	remove_all(&d, NULL, "all removed", f);
	driver_fini(&d);
	return 0;
}
