/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crew.c - one process of a mixed load: its clients and their threads
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "base/thread.h"
#include "perf/lib/cluster.h"
#include "perf/lib/pattern.h"
#include "perf/lib/reference.h"
#include "perf/lib/worker.h"
#include "perf/store-perf/mixer.h"

#define SPARE_BYTES (4u << 20) /* places of values in the source differ by it */

struct crew {
	struct mix_share *share;
	struct mix_bytes source;
	struct te_store **store; /* store[n_stores] */
	struct mixer *mixer;     /* mixer[n_mixers] */
	uint64_t n_stores, n_mixers;
};

/* ---- set-up ---- */

static int make_source(struct crew *c)
{
	uint64_t len = c->share->plan.max_size + SPARE_BYTES;

	c->source.at = tei_map_touched(len);
	if (!c->source.at)
		return -ENOMEM;
	c->source.len = len;
	tei_pattern_fill(c->source.at, len, c->share->plan.seed, 0);
	return 0;
}

static int add_client(struct crew *c, uint64_t client, uint64_t cache)
{
	const struct mix_plan *plan = &c->share->plan;
	struct te_store_config config = {
		.master = plan->master,
		.host = plan->host,
		.location_cache_entries = (uint32_t)cache,
	};
	struct te_store **store = &c->store[c->n_stores];
	int rc = tei_pool_join_as(
		&config, *plan->backends ? plan->backends : NULL, store);

	if (rc)
		return rc;
	c->n_stores++;
	if (te_store_register(*store, c->source.at, c->source.len))
		return -ENOMEM;
	for (uint64_t t = 0; !rc && t < plan->threads; t++)
		rc = mixer_open(&c->mixer[c->n_mixers++], c->share, &c->source,
				*store, client * plan->threads + t);
	return rc;
}

static int crew_init(struct crew *c, const struct options *o)
{
	const struct mix_plan *plan;
	uint64_t n;
	int rc = mix_share_open((int)o->share_fd, &c->share);

	if (rc)
		return rc;
	plan = &c->share->plan;
	if (o->index >= plan->clients)
		return -EINVAL;
	n = (plan->clients - o->index + plan->processes - 1) / plan->processes;
	c->store = tei_calloc(n, sizeof(*c->store));
	c->mixer = tei_calloc(n * plan->threads, sizeof(*c->mixer));
	if (!c->store || !c->mixer)
		return -ENOMEM;
	rc = make_source(c);
	for (uint64_t i = o->index; !rc && i < plan->clients;
	     i += plan->processes)
		rc = add_client(c, i, o->location_cache);
	return rc;
}

static void crew_fini(struct crew *c)
{
	while (c->n_mixers)
		mixer_close(&c->mixer[--c->n_mixers]);
	while (c->n_stores) {
		struct te_store *store = c->store[--c->n_stores];

		te_store_unregister(store, c->source.at);
		te_store_close(store);
	}
	if (c->source.at)
		munmap(c->source.at, c->source.len);
	tei_free(c->mixer);
	tei_free(c->store);
	mix_share_close(c->share);
}

/* ---- work ---- */

/* Run @fn in a thread for each mixer. -errno: some have not been started. */
static int on_all(struct crew *c, void *(*fn)(void *))
{
	uint64_t n = 0;
	int rc = 0;

	while (!rc && n < c->n_mixers) {
		rc = tei_thread_start(&c->mixer[n].thread, "mixer", fn,
				      &c->mixer[n]);
		n += !rc;
	}
	while (n)
		pthread_join(c->mixer[--n].thread, NULL);
	return rc;
}

static void add_stats(struct crew *c)
{
	struct te_store_stats stats;

	for (uint64_t i = 0; i < c->n_stores; i++) {
		te_store_stats(c->store[i], &stats);
		atomic_fetch_add(&c->share->put_retries, stats.put_retries);
		atomic_fetch_add(&c->share->location_hits, stats.location_hits);
		atomic_fetch_add(&c->share->location_misses,
				 stats.location_misses);
	}
}

static int work(struct crew *c)
{
	int rc;

	tei_worker_say("ready");
	if (!tei_worker_hear("fill"))
		return 0;
	rc = c->share->plan.prefill ? on_all(c, mixer_fill) : 0;
	if (rc)
		return rc;
	tei_worker_say("filled");
	if (!tei_worker_hear("go"))
		return 0;
	rc = on_all(c, mixer_run);
	if (rc)
		return rc;
	add_stats(c);
	tei_worker_say("done");
	(void)tei_worker_hear("end"); /* or the end of the input */
	return 0;
}

int crew_main(const struct options *o)
{
	struct crew c = {0};
	int rc = crew_init(&c, o);

	if (!rc)
		rc = work(&c);
	if (rc)
		fprintf(stderr, "store-perf: worker %" PRIu64 ": %s\n",
			o->index, strerror(-rc));
	crew_fini(&c);
	return rc ? 1 : 0;
}
