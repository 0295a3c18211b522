/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figures.h - what came of a replay, for people and machines
 */
#ifndef PERF_TE_REPLAY_FIGURES_H
#define PERF_TE_REPLAY_FIGURES_H

#include <te/store.h>

#include "perf/lib/percentiles.h"
#include "perf/lib/trace.h"
#include "perf/te-replay/options.h"
#include "perf/te-replay/share.h"

struct figures {
	const struct tally *sum;  /* of all clients; not owned */
	const struct tally *each; /* each[n_clients]; not owned */
	double seconds;
	uint64_t block_bytes, n_clients, n_tenants;
	double hit_ratio, lru_hit_ratio, ideal_hit_ratio; /* of blocks */
	double token_hit_ratio;
	uint64_t kept_blocks; /* of which the LRU of lru_hit_ratio has room */
	struct te_store_pool pool;
	uint64_t evicted_objects, evicted_bytes; /* during the replay */
	uint64_t master_rss;                     /* 0: unknown */
	double idle_percent; /* of a core, the busiest process; < 0: unknown */
};

/* Derives all ratios from the other members, which have been set. -ENOMEM. */
int figures_derive(struct figures *f, const struct tei_trace *t);
/* Adds the latencies of each kind of call. */
void figures_percentiles(const struct figures *f, struct tei_percentiles *p);
/* Prints all to stdout, as asked for. -ENOMEM, -EIO. */
int figures_report(const struct figures *f, const struct options *o,
		   const char *trace);

#endif
