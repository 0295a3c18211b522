/* SPDX-License-Identifier: Apache-2.0 */
/* fastest.c - turns of several ways, and the least of their medians */
#include "base/fastest.h"

#include <stddef.h>

#include "base/median.h"

#define PS_PER_NS 1000u
#define PS_PER_S  1000000000000ull
#define SHIFT     3u /* between rounds: no way always gets the same place */

_Static_assert(TEI_FASTEST_SAMPLES <= TEI_MEDIAN_MOST, "a median takes them");
_Static_assert(offsetof(struct tei_fastest, timing) / TEI_CACHE_LINE >
		       offsetof(struct tei_fastest, speed) / TEI_CACHE_LINE,
	       "what all read is apart from what a turn writes");
_Static_assert(sizeof(struct tei_fastest) % TEI_CACHE_LINE == 0,
	       "neighbours in an array share no line");

/* Relaxed, here and below: a hint, to which nothing else belongs. */
unsigned int tei_fastest_chosen(const struct tei_fastest *fastest)
{
	return atomic_load_explicit(&fastest->chosen, memory_order_relaxed);
}

uint64_t tei_fastest_speed(const struct tei_fastest *fastest)
{
	return atomic_load_explicit(&fastest->speed, memory_order_relaxed);
}

int tei_fastest_begin(struct tei_fastest *fastest, unsigned int n_ways)
{
	unsigned int turn;

	if (atomic_load_explicit(&fastest->timing, memory_order_relaxed) ||
	    atomic_exchange_explicit(&fastest->timing, true,
				     memory_order_acquire))
		return -1;
	turn = fastest->n_turns++;
	return (int)((turn + turn / n_ways * SHIFT) % n_ways);
}

static uint32_t median_cost(const struct tei_fastest_way *way)
{
	return tei_median_of(way->cost, TEI_FASTEST_SAMPLES);
}

uint64_t tei_fastest_speed_of(const struct tei_fastest *fastest,
			      unsigned int way)
{
	const struct tei_fastest_way *w = &fastest->ways[way];

	return w->n < TEI_FASTEST_SAMPLES ? 0 : PS_PER_S / median_cost(w);
}

static void choose_way(struct tei_fastest *fastest, unsigned int n_ways)
{
	uint32_t least = UINT32_MAX;
	unsigned int best = 0;

	for (unsigned int i = 0; i < n_ways; i++) {
		uint32_t cost = median_cost(&fastest->ways[i]);

		if (cost < least) {
			least = cost;
			best = i;
		}
	}
	atomic_store_explicit(&fastest->chosen, best, memory_order_relaxed);
	atomic_store_explicit(&fastest->speed, PS_PER_S / least,
			      memory_order_relaxed);
}

static void add_sample(struct tei_fastest *fastest, unsigned int way,
		       unsigned int n_ways, uint64_t cost)
{
	struct tei_fastest_way *w = &fastest->ways[way];

	if (cost == 0)
		cost = 1;
	w->cost[w->n % TEI_FASTEST_SAMPLES] =
		cost < UINT32_MAX ? (uint32_t)cost : UINT32_MAX - 1;
	w->n++;
	if (w->n == TEI_FASTEST_SAMPLES)
		fastest->n_full++;
	if (fastest->n_full == n_ways)
		choose_way(fastest, n_ways);
}

bool tei_fastest_end(struct tei_fastest *fastest, unsigned int way,
		     unsigned int n_ways, uint64_t bytes, uint64_t ns,
		     bool clean)
{
	bool counts = clean && bytes && ns;

	if (counts)
		add_sample(fastest, way, n_ways, ns * PS_PER_NS / bytes);
	atomic_store_explicit(&fastest->timing, false, memory_order_release);
	return counts;
}
