/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lru.c - what an LRU cache of given size would have hit in a trace
 *
 * Ids are replaced by their rank among the distinct ids, so that the list of
 * recency is two arrays of ranks. Rank n is the list's head: next[n] is the
 * most recent block, prev[n] the least recent one.
 */
#include "perf/lib/lru.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

#define ABSENT SIZE_MAX

struct lru {
	uint64_t *ids; /* ids[n]: distinct, sorted */
	size_t n;
	size_t *prev, *next; /* [n + 1]; prev ABSENT: not in the cache */
	uint64_t used;
};

static void lru_fini(struct lru *c)
{
	tei_free(c->ids);
	tei_free(c->prev);
	tei_free(c->next);
}

static int lru_init(struct lru *c, const struct tei_trace *t)
{
	memset(c, 0, sizeof(*c));
	c->ids = tei_trace_distinct(t, &c->n);
	c->prev = tei_malloc((c->n + 1) * sizeof(*c->prev));
	c->next = tei_malloc((c->n + 1) * sizeof(*c->next));
	if (!c->ids || !c->prev || !c->next) {
		lru_fini(c);
		return -ENOMEM;
	}
	for (size_t i = 0; i < c->n; i++)
		c->prev[i] = ABSENT;
	c->prev[c->n] = c->next[c->n] = c->n;
	return 0;
}

static void take_out(struct lru *c, size_t rank)
{
	c->next[c->prev[rank]] = c->next[rank];
	c->prev[c->next[rank]] = c->prev[rank];
	c->prev[rank] = ABSENT;
	c->used--;
}

static void put_first(struct lru *c, size_t rank)
{
	size_t head = c->n;

	c->next[rank] = c->next[head];
	c->prev[rank] = head;
	c->prev[c->next[head]] = rank;
	c->next[head] = rank;
	c->used++;
}

static bool lru_touch(struct lru *c, uint64_t id, uint64_t capacity)
{
	size_t rank = tei_trace_rank(c->ids, c->n, id);
	bool hit = c->prev[rank] != ABSENT;

	if (hit)
		take_out(c, rank);
	put_first(c, rank);
	if (c->used > capacity)
		take_out(c, c->prev[c->n]);
	return hit;
}

int tei_lru_hits(const struct tei_trace *t, uint64_t capacity,
		 uint64_t *out_hits)
{
	uint64_t hits = 0;
	struct lru c;
	int rc = lru_init(&c, t);

	if (rc)
		return rc;
	for (size_t i = 0; i < t->n_ids; i++)
		hits += lru_touch(&c, t->ids[i], capacity);
	lru_fini(&c);
	*out_hits = hits;
	return 0;
}
