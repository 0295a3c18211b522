/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rails.h - which rails of an engine have carried how much, and which nothing
 */
#ifndef PERF_TE_PERF_RAILS_H
#define PERF_TE_PERF_RAILS_H

#include <stddef.h>
#include <stdint.h>
#include <te/te.h>

#include "perf/te-perf/locations.h"

#define RAILS_MAX 16

struct rail_bytes {
	char name[32];    /* "tcp/0" */
	char backend[16]; /* "tcp" */
	uint64_t speed_bps;
	int32_t numa_node; /* -1: unknown */
	uint32_t state;    /* enum te_rail_state */
	uint32_t unmatched_peers;
	uint64_t bytes; /* sent and received */
};

/* Rails of one engine, always in the same order. */
struct rails {
	size_t n;
	struct rail_bytes v[RAILS_MAX];
};

/* Reads the rails as they are now; the first RAILS_MAX of them. */
void rails_read(struct te_engine *engine, struct rails *out);
/* Bytes that rail @i has moved between two looks at the same engine. */
uint64_t rails_moved(const struct rails *before, const struct rails *after,
		     size_t i);
/* Bytes moved between two readings. */
void rails_since(const struct rails *before, const struct rails *after,
		 struct rails *out);
/* Add bytes of the same engine's rails; an empty @to gets its rails. */
void rails_add(struct rails *to, const struct rails *more);
uint64_t rails_sum(const struct rails *r);
/* Backend of the rail with the most bytes, "tcp"; "" when nothing moved. */
const char *rails_carrier(const struct rails *r);
/*
 * A line to stderr for each NIC that is near a part of @memory, by this
 * machine's topology, and of no use though others like it are rails: why.
 */
void rails_warn_unused(const struct rails *r, const struct side *memory);

#endif
