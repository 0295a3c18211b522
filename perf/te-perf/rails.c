/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rails.c - which rails of an engine have carried how much
 */
#include "perf/te-perf/rails.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define STATS_ROOM 4096

static struct rail_bytes *rail_of(struct rails *r, const char *name)
{
	for (size_t i = 0; i < r->n; i++)
		if (!strcmp(r->v[i].name, name))
			return &r->v[i];
	if (r->n == RAILS_MAX)
		return NULL;
	snprintf(r->v[r->n].name, sizeof(r->v[r->n].name), "%s", name);
	r->v[r->n].bytes = 0;
	return &r->v[r->n++];
}

static void add(struct rails *r, const struct te_stat *stat)
{
	struct rail_bytes *rail;

	if (strcmp(stat->name, "te_rail_sent_bytes_total") &&
	    strcmp(stat->name, "te_rail_received_bytes_total"))
		return;
	rail = rail_of(r, stat->label);
	if (rail)
		rail->bytes += stat->value;
}

void rails_read(struct te_engine *engine, struct rails *out)
{
	struct te_stat *stats = tei_calloc(STATS_ROOM, sizeof(*stats));
	size_t n = STATS_ROOM;

	out->n = 0;
	if (!stats)
		return;
	if (!te_engine_stats(engine, stats, &n))
		for (size_t i = 0; i < n && i < STATS_ROOM; i++)
			add(out, &stats[i]);
	tei_free(stats);
}

uint64_t rails_moved(const struct rails *before, const struct rail_bytes *rail)
{
	for (size_t i = 0; i < before->n; i++)
		if (!strcmp(before->v[i].name, rail->name))
			return rail->bytes - before->v[i].bytes;
	return rail->bytes;
}

void rails_since(const struct rails *before, const struct rails *after,
		 struct rails *out)
{
	*out = *after;
	for (size_t i = 0; i < out->n; i++)
		out->v[i].bytes = rails_moved(before, &after->v[i]);
}

void rails_add(struct rails *to, const struct rails *more)
{
	struct rail_bytes *rail;

	for (size_t i = 0; i < more->n; i++) {
		rail = rail_of(to, more->v[i].name);
		if (rail)
			rail->bytes += more->v[i].bytes;
	}
}

uint64_t rails_sum(const struct rails *r)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < r->n; i++)
		sum += r->v[i].bytes;
	return sum;
}

void rails_carrier(const struct rails *r, char out[32])
{
	uint64_t most = 0;

	out[0] = 0;
	for (size_t i = 0; i < r->n; i++) {
		if (r->v[i].bytes <= most)
			continue;
		most = r->v[i].bytes;
		snprintf(out, 32, "%.*s", (int)strcspn(r->v[i].name, "/"),
			 r->v[i].name);
	}
}
