/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload.h - accesses to simulate: of a trace, or made up
 */
#ifndef PERF_POLICY_WORKLOAD_H
#define PERF_POLICY_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/lib/trace.h"

struct tei_workload {
	uint32_t *key;  /* key[n]: 0 .. n_keys - 1, in order of access */
	uint64_t *size; /* size[n_keys]: bytes */
	size_t n, n_keys;
};

/* The blocks of @t in their order, @size bytes each. -ENOMEM. */
int tei_workload_of_trace(const struct tei_trace *t, uint64_t size,
			  struct tei_workload *out);
/*
 * @n accesses, the same every time. zipf: @n_keys keys by popularity; shift:
 * the same, and a quarter of the popular ones are others after each tenth;
 * scan: the same, and now and then a tenth as many keys are read just once;
 * loop: @n_keys keys in turn. -ENOMEM, -EINVAL: no such kind.
 */
int tei_workload_make(const char *kind, size_t n, size_t n_keys, uint64_t size,
		      struct tei_workload *out);
/* Sizes from a quarter of @size to 64 times as much, spread evenly by log. */
void tei_workload_mix_sizes(struct tei_workload *w, uint64_t size);
/* Bytes of a key on average. */
double tei_workload_mean(const struct tei_workload *w);
void tei_workload_free(struct tei_workload *w);

#endif
