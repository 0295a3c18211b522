/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - what follows from the settings of a load of one kind of call */
#include "perf/store-perf/options.h"

#include <errno.h>
#include <stdio.h>

#include "perf/lib/cluster.h"
#include "perf/lib/node.h"
#include "perf/lib/reference.h"
#include "perf/lib/report.h"
#include "perf/lib/room.h"

#define PROGRAM             "store-perf"
#define OWNER_BYTES_MIN     (1u << 20)
#define ENDLESS_INTERVAL_MS 1000

int options_check(struct options *o)
{
	const char *wrong = NULL;
	int rc;

	if (o->csv && o->json)
		wrong = "csv: not together with json";
	else if (!o->duration && o->count)
		wrong = "count: not together with a duration of 0, which has "
			"no end";
	else if (o->first_call && o->mix)
		wrong = "first_call: not of a mix";
	else if (o->remote_location && o->master)
		wrong = "remote_location: a running pool has its memory "
			"already";
	if (wrong)
		fprintf(stderr, PROGRAM ": %s\n", wrong);
	if (!o->duration && !o->interval)
		o->interval = ENDLESS_INTERVAL_MS;
	if (wrong)
		return -EINVAL;
	rc = tei_node_parse(PROGRAM, "location", o->location, &o->node);
	return rc ? rc
		  : tei_node_parse(PROGRAM, "remote_location",
				   o->remote_location, &o->remote_node);
}

/* Derives how many keys each thread has with values of the size. */
static int derive_slots(struct options *o, int i)
{
	uint64_t threads = o->clients * o->threads, size = o->sizes[i];
	uint64_t fit = o->working_set / threads / tei_pool_extent_bytes(size);
	bool few = o->keys && o->keys / threads < fit;
	char text[24];

	o->slots[i] = few ? o->keys / threads : fit;
	if (o->slots[i] >= o->batch)
		return 0;
	fprintf(stderr,
		PROGRAM ": %s: a batch of values of %s for each thread does "
			"not fit, give more\n",
		few ? "keys" : "working_set", tei_text_bytes(size, text));
	return -EINVAL;
}

/* Derives the memory of threads and pool; the most that any row needs. */
static void derive_memory(struct options *o)
{
	uint64_t threads = o->clients * o->threads, each, pool = 0;

	o->memory_each = 0;
	for (int i = 0; i < o->n_sizes; i++) {
		each = o->slots[i] * ((o->sizes[i] + 7) & ~7ull);
		if (each > o->memory_each)
			o->memory_each = each;
		each = o->slots[i] * tei_pool_extent_bytes(o->sizes[i]);
		if (each * threads > pool)
			pool = each * threads;
	}
	o->memory_each = (o->memory_each + 4095) & ~4095ull;
	o->own_pool = pool + pool / 4;
	if (o->own_pool < o->owners * OWNER_BYTES_MIN)
		o->own_pool = o->owners * OWNER_BYTES_MIN;
	if (o->pool_bytes)
		o->own_pool = o->pool_bytes;
}

/* Returns the most objects that a row has in the own pool at a time. */
static uint64_t most_objects(const struct options *o)
{
	uint64_t threads = o->clients * o->threads, most = 0;

	for (int i = 0; i < o->n_sizes; i++) {
		uint64_t n = o->own_pool / tei_pool_extent_bytes(o->sizes[i]);

		if (n > 2 * o->slots[i] * threads) /* see warm_keys() */
			n = 2 * o->slots[i] * threads;
		if (n > most)
			most = n;
	}
	return most;
}

/* Tells whether this host has the memory for threads, pool and all objects. */
static bool memory_fits(const struct options *o)
{
	uint64_t objects = o->master ? 0 : most_objects(o);
	uint64_t need = o->clients * o->threads * o->memory_each +
			objects * TEI_ROOM_OBJECT_BYTES;
	char what[80], count[32];

	if (!o->master)
		need += o->own_pool;
	if (o->first_call)
		need += o->memory_each;
	if (o->reference)
		need += TEI_REFERENCE_SETS * o->working_set;
	snprintf(what, sizeof(what), "up to %s keys in the own pool take",
		 tei_text_count(objects, count));
	return tei_room_fits(PROGRAM, what, need,
			     "give a smaller --working-set or --pool-bytes, "
			     "or --keys");
}

int options_derive(struct options *o)
{
	int n = tei_sizes_parse(PROGRAM, "value_size", o->value_size,
				o->working_set, o->sizes);

	if (n < 0)
		return n;
	o->n_sizes = n;
	if (n > 1 && !o->duration) {
		fprintf(stderr, PROGRAM ": duration: 0, which has no end, is "
					"for one value_size\n");
		return -EINVAL;
	}
	for (int i = 0; i < n; i++)
		if (derive_slots(o, i))
			return -EINVAL;
	derive_memory(o);
	return memory_fits(o) ? 0 : -ENOMEM;
}
