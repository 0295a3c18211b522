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

/* Reads the rails as they are now, up to RAILS_MAX. */
void rails_read(struct te_engine *engine, struct rails *out);
/* Returns the bytes that rail @i moved between two readings of one engine. */
uint64_t rails_moved(const struct rails *before, const struct rails *after,
		     size_t i);
/* Sets @out to the bytes that each rail moved between two readings. */
void rails_since(const struct rails *before, const struct rails *after,
		 struct rails *out);
/* Adds bytes of the same engine's rails; an empty @to gets its rails. */
void rails_add(struct rails *to, const struct rails *more);
uint64_t rails_sum(const struct rails *r);
/* Returns the backend of the rail with the most bytes, or "": nothing moved. */
const char *rails_carrier(const struct rails *r);
/*
 * Says on stderr why a NIC that is near a part of @memory, by this machine's
 * topology, is of no use though others like it are rails, for each such NIC.
 */
void rails_warn_unused(const struct rails *r, const struct side *memory);

#endif
