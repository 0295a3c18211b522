/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space.c - the allocator alone: how full it gets, and what it takes
 *
 * Each mix fills a space until it is refused for the first time; then, so
 * often as rounds say, a twentieth of what lies there goes by chance and the
 * space is filled again until it is refused.
 */
#include <errno.h>
#include <math.h>

#include "base/chance.h"
#include "base/mem.h"
#include "base/slab.h"
#include "perf/lib/report.h"
#include "store/core/space.h"
#include "tests/bench/core-perf/driver.h"
#include "tests/bench/core-perf/parts.h"

#define GIB        ((uint64_t)1 << 30)
#define LEAST_LOG2 5  /* 32 B */
#define MOST_LOG2  25 /* 32 MiB */

/* The next size, not rounded; @i counts. */
typedef uint64_t size_fn(uint64_t *chance, uint64_t i);

static uint64_t power(uint64_t *chance)
{
	return (uint64_t)1 << (LEAST_LOG2 +
			       tei_chance(chance) %
				       (MOST_LOG2 - LEAST_LOG2 + 1));
}

static uint64_t powers(uint64_t *chance, uint64_t i)
{
	(void)i;
	return power(chance);
}

static uint64_t less_17(uint64_t *chance, uint64_t i)
{
	(void)i;
	return power(chance) - 17;
}

static uint64_t plus_17(uint64_t *chance, uint64_t i)
{
	(void)i;
	return power(chance) + 17;
}

static uint64_t tenth_less(uint64_t *chance, uint64_t i)
{
	(void)i;
	return power(chance) * 9 / 10;
}

static uint64_t tenth_more(uint64_t *chance, uint64_t i)
{
	(void)i;
	return power(chance) * 11 / 10;
}

static uint64_t any(uint64_t *chance, uint64_t i)
{
	(void)i;
	return 1 + tei_chance(chance) % ((uint64_t)1 << MOST_LOG2);
}

static uint64_t paired(uint64_t *chance, uint64_t i)
{
	(void)chance;
	return i % 2 ? 643 * 1024 : 3120 * 1024;
}

static uint64_t kv_mixed(uint64_t *chance, uint64_t i)
{
	uint64_t x = tei_chance(chance) % 10;

	(void)i;
	if (x < 7)
		return 4096;
	return x < 9 ? 256 * 1024 : 3120 * 1024;
}

static const struct mix {
	const char *name;
	size_fn *size;
	uint64_t bytes; /* of the space */
} mixes[] = {
	{"2^n", powers, 64 * GIB},
	{"2^n - 17", less_17, 64 * GIB},
	{"2^n + 17", plus_17, 64 * GIB},
	{"0.9 x 2^n", tenth_less, 64 * GIB},
	{"1.1 x 2^n", tenth_more, 64 * GIB},
	{"any up to 32 MiB", any, 64 * GIB},
	{"3.12 MB and 643 KB", paired, 1024 * GIB},
	{"4 KB 70, 256 KB 20, 3.12 MB 10 %", kv_mixed, 256 * GIB},
};

struct bench {
	const struct mix *mix;
	struct tei_slab nodes;
	struct tes_space space;
	struct tes_extent **live; /* live[n] */
	size_t n, room;
	uint64_t chance, takes, take_ns, gives, give_ns;
	double first, worst, sum;
};

static int grow(struct bench *b)
{
	size_t room = b->room ? b->room * 2 : 1 << 16;
	struct tes_extent **live;

	if (b->n < b->room)
		return 0;
	live = tei_realloc(b->live, room * sizeof(struct tes_extent *));
	if (!live)
		return -ENOMEM;
	b->live = live;
	b->room = room;
	return 0;
}

#define CHUNK 256 /* takes between two looks at the clock */

/* Until the first refusal. */
static int fill(struct bench *b)
{
	bool refused = false;

	while (!refused) {
		uint64_t start = driver_cpu_ns();

		for (int i = 0; !refused && i < CHUNK; i++) {
			uint64_t size = b->mix->size(&b->chance, b->takes++);
			struct tes_extent *e;

			if (grow(b) < 0)
				return -ENOMEM;
			size = (size + TES_SPACE_UNIT - 1) / TES_SPACE_UNIT *
			       TES_SPACE_UNIT;
			e = tes_space_take(&b->space, size, b);
			if (e)
				b->live[b->n++] = e;
			else
				refused = true;
		}
		b->take_ns += driver_cpu_ns() - start;
	}
	return 0;
}

static double fullness(const struct bench *b)
{
	return (double)b->space.used / (double)b->space.size;
}

static void give_some(struct bench *b)
{
	uint64_t start = driver_cpu_ns();
	size_t n = b->n / 20;

	for (size_t i = 0; i < n; i++) {
		size_t at = (size_t)(tei_chance(&b->chance) % b->n);

		tes_space_give(&b->space, b->live[at]);
		b->live[at] = b->live[--b->n];
	}
	b->give_ns += driver_cpu_ns() - start;
	b->gives += n;
}

static int churn(struct bench *b, uint64_t rounds)
{
	struct tei_progress bar;
	int rc = fill(b);

	b->first = b->worst = fullness(b);
	tei_progress_begin(&bar, b->mix->name);
	for (uint64_t i = 0; !rc && i < rounds; i++) {
		tei_progress_show(&bar, i, rounds);
		give_some(b);
		rc = fill(b);
		b->sum += fullness(b);
		if (fullness(b) < b->worst)
			b->worst = fullness(b);
	}
	tei_progress_end(&bar);
	return rc;
}

static double bare_ns(void)
{
	enum { N = 1 << 18 };
	void **p = tei_calloc(N, sizeof(*p));
	uint64_t start = driver_cpu_ns(), ns;

	if (!p)
		return 0;
	for (size_t i = 0; i < N; i++)
		p[i] = tei_malloc(64);
	for (size_t i = 0; i < N; i++)
		tei_free(p[i]);
	ns = driver_cpu_ns() - start;
	tei_free(p);
	return (double)ns / N;
}

static void add(struct figures *f, const struct bench *b, uint64_t rounds)
{
	const char *name = b->mix->name;
	struct figure *r;

	figures_add(f, "%", 100 * b->first, "%s: first full", name)->least = 96;
	if (rounds) {
		figures_add(f, "%", 100 * b->sum / (double)rounds, "%s: later",
			    name);
		figures_add(f, "%", 100 * b->worst, "%s: worst", name);
	}
	r = figures_add(f, "ns", (double)b->take_ns / (double)b->takes,
			"%s: take", name);
	r->most = 150;
	r->beside = "malloc and free of a node";
	r->raw = bare_ns();
	if (b->gives)
		figures_add(f, "ns", (double)b->give_ns / (double)b->gives,
			    "%s: give", name);
}

static int measure(const struct mix *mix, uint64_t rounds, struct figures *f)
{
	struct bench b = {.mix = mix, .chance = 1};
	int rc;

	tei_slab_init(&b.nodes, sizeof(struct tes_extent), 1024);
	rc = tes_space_init(&b.space, &b.nodes, mix->bytes);
	if (!rc) {
		rc = churn(&b, rounds);
		add(f, &b, rounds);
		tes_space_fini(&b.space);
	}
	tei_slab_fini(&b.nodes);
	tei_free(b.live);
	return rc;
}

int measure_space(const struct options *o, struct figures *f)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof(mixes) / sizeof(*mixes); i++)
		rc = measure(&mixes[i], o->space_rounds, f);
	return rc;
}
