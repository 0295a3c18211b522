/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects.c - a pool of many objects: puts, questions, memory
 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/chance.h"
#include "base/mem.h"
#include "perf/lib/report.h"
#include "tests/bench/core-perf/driver.h"
#include "tests/bench/core-perf/parts.h"

static double each(uint64_t ns, uint64_t n)
{
	return n ? (double)ns / (double)n : 0;
}

static uint64_t resident(void)
{
	unsigned long total, pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f)
		return 0;
	if (fscanf(f, "%lu %lu", &total, &pages) != 2)
		pages = 0;
	fclose(f);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- the bare system beside it ---- */

/* ns of malloc() and free() of what an object and an extent take. */
static double bare_put(void)
{
	enum { N = 1 << 17 };
	void **p = tei_calloc(2 * N, sizeof(*p));
	uint64_t start = driver_cpu_ns(), ns;

	if (!p)
		return 0;
	for (size_t i = 0; i < 2 * N; i++)
		p[i] = tei_malloc(i % 2 ? 64 : 160);
	for (size_t i = 0; i < 2 * N; i++)
		tei_free(p[i]);
	ns = driver_cpu_ns() - start;
	tei_free(p);
	malloc_trim(0); /* what it left is not the core's */
	return each(ns, N);
}

static volatile uint64_t sink;

/* ns of XXH3 a key. */
static double bare_hash(void)
{
	static struct batch b;
	uint64_t start, sum = 0;

	for (size_t i = 0; i < BATCH; i++)
		batch_name(&b, i, i);
	start = driver_cpu_ns();
	for (size_t round = 0; round < 2000; round++)
		for (size_t i = 0; i < BATCH; i++)
			sum += XXH3_64bits_withSeed(b.text[i], KEY, round);
	sink = sum;
	return each(driver_cpu_ns() - start, 2000 * BATCH);
}

/* ---- questions ---- */

struct asked {
	uint64_t exist_ns, lookup_ns, release_ns, n;
};

static uint64_t timed(struct driver *d, struct batch *b,
		      enum tes_event_type type)
{
	uint64_t before = d->busy_ns;

	driver_ask(d, b, type);
	return d->busy_ns - before;
}

static void ask(struct driver *d, const struct options *o, uint64_t n_keys,
		struct asked *out)
{
	static struct batch b;
	struct tei_progress bar;
	uint64_t chance = 1;

	*out = (struct asked){0};
	tei_progress_begin(&bar, "ask");
	while (out->n < o->asked) {
		for (size_t i = 0; i < BATCH; i++)
			batch_name(&b, i, tei_chance(&chance) % n_keys);
		/* Each in its turn meets cold memory, as from many clients. */
		switch (out->n / BATCH % 2) {
		case 0:
			out->exist_ns += timed(d, &b, TES_EVENT_EXIST);
			break;
		default:
			out->lookup_ns += timed(d, &b, TES_EVENT_LOOKUP);
			out->release_ns += timed(d, &b, TES_EVENT_RELEASE);
		}
		out->n += BATCH;
		tei_progress_show(&bar, out->n, o->asked);
	}
	tei_progress_end(&bar);
}

static void add_ns(struct figures *f, double ns, const char *what,
		   uint64_t n_keys, double most, double hash)
{
	struct figure *r = figures_add(f, "ns a key", ns, "%s, %ju objects",
				       what, (uintmax_t)n_keys);

	r->most = most;
	r->beside = "XXH3 of the keys";
	r->raw = hash;
}

static void measure_asking(struct driver *d, const struct options *o,
			   uint64_t n_keys, struct figures *f)
{
	double hash = bare_hash();
	struct asked a;

	ask(d, o, n_keys, &a);
	add_ns(f, each(a.exist_ns, a.n / 2), "exist of 128", n_keys, 100, hash);
	add_ns(f, each(a.lookup_ns, a.n / 2), "look-up of 128", n_keys, 0,
	       hash);
	add_ns(f, each(a.release_ns, a.n / 2), "release of 128", n_keys, 0,
	       hash);
}

/* ---- puts and memory ---- */

static void add_puts(struct figures *f, const char *what, size_t n, uint64_t ns,
		     double bare)
{
	struct figure *r =
		figures_add(f, "M objects/s",
			    ns ? (double)n * 1e3 / (double)ns : 0, "%s", what);

	r->least = 1;
	r->beside = "malloc and free of as much";
	r->raw = bare > 0 ? 1e3 / bare : 0;
}

static void fill(struct driver *d, const struct options *o, double bare,
		 struct figures *f)
{
	struct tes_core_figures all;
	uint64_t before = d->busy_ns;
	size_t n = driver_fill(d, 0, o->objects, o->value_size, "fill");

	add_puts(f, "put start and end, into room", n, d->busy_ns - before,
		 bare);
	all = driver_figures(d);
	figures_add(f, "bytes an object",
		    (double)all.metadata_bytes / (double)all.objects,
		    "metadata beside the key, %ju objects",
		    (uintmax_t)all.objects)
		->most = 200;
}

/* As many puts as there are objects evict them all, again and again. */
static void cycle(struct driver *d, const struct options *o, double bare,
		  struct figures *f)
{
	for (uint64_t i = 1; i <= o->cycles; i++) {
		struct tes_core_figures all;
		uint64_t before = d->busy_ns;
		double rss, own;
		size_t n = driver_fill(d, i * o->objects, (i + 1) * o->objects,
				       o->value_size, "fill and evict");

		if (i == 1)
			add_puts(f, "put start and end, evicting", n,
				 d->busy_ns - before, bare);
		all = driver_figures(d);
		rss = (double)resident() / (double)all.objects;
		own = (double)all.metadata_bytes / (double)all.objects;
		figures_add(f, "bytes an object", own,
			    "metadata after cycle %ju", (uintmax_t)i)
			->most = 200;
		figures_add(f, "bytes an object", rss,
			    "resident with keys, cycle %ju", (uintmax_t)i);
	}
}

static uint64_t rounded(uint64_t n)
{
	return (n + BATCH - 1) / BATCH * BATCH;
}

int measure_objects(const struct options *o, struct figures *f)
{
	uint64_t n = rounded(o->objects);
	struct options all = *o;
	double bare = bare_put();
	struct driver d;

	all.objects = n;
	if (driver_init(&d, n * driver_room(o->value_size)))
		return -ENOMEM;
	fill(&d, &all, bare, f);
	measure_asking(&d, &all, n, f);
	d.worst_ns = 0;
	cycle(&d, &all, bare, f);
	figures_add(f, "ms", (double)d.worst_ns / 1e6,
		    "longest step of puts at a full pool")
		->most = 5;
	driver_fini(&d);
	return 0;
}
