/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rails.h - which rails of an engine have carried how much
 */
#ifndef PERF_TE_PERF_RAILS_H
#define PERF_TE_PERF_RAILS_H

#include <stddef.h>
#include <stdint.h>
#include <te/te.h>

#define RAILS_MAX 16

struct rail_bytes {
	char name[32];  /* "tcp/0" */
	uint64_t bytes; /* sent and received */
};

struct rails {
	size_t n;
	struct rail_bytes v[RAILS_MAX];
};

/* From the counters of the engine; none when there is no memory. */
void rails_read(struct te_engine *engine, struct rails *out);
/* Bytes that @rail has moved since @before was read. */
uint64_t rails_moved(const struct rails *before, const struct rail_bytes *rail);
/* The counters of @after less those of @before. */
void rails_since(const struct rails *before, const struct rails *after,
		 struct rails *out);
void rails_add(struct rails *to, const struct rails *more);
uint64_t rails_sum(const struct rails *r);
/* Backend of the rail with the most bytes, "tcp"; "" when nothing moved. */
void rails_carrier(const struct rails *r, char out[32]);

#endif
