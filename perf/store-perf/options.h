/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - settings of store-perf
 */
#ifndef PERF_STORE_PERF_OPTIONS_H
#define PERF_STORE_PERF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "perf/lib/report.h"

#define OPTIONS_VALUE_MAX (1ull << 34) /* bytes of a value of a mix */

struct options {
	char *location, *remote_location; /* of clients', of owners' memory */
	char *op, *value_size, *master, *host, *backends, *role, *histogram;
	uint64_t batch, clients, threads, owners, duration, working_set,
		pool_bytes, rate, interval;
	bool reference, json, csv, pin, unaligned, first_call;
	/* Settings of a mixed load. */
	char *mix, *popularity;
	double theta;
	uint64_t processes, keys, seed, count, warm_up, retries;
	uint64_t location_cache;
	bool prefill, fill, verify;
	uint64_t share_fd, index; /* of a worker process */
	/* Derived from them: */
	int node, remote_node; /* or TEI_NODE_ANY */
	uint64_t sizes[TEI_SIZES_MAX];
	uint64_t
		slots[TEI_SIZES_MAX]; /* keys of each thread with such values */
	int n_sizes;
	uint64_t memory_each; /* bytes that each thread's values take */
	uint64_t own_pool;    /* bytes of the own pool */
};

/*
 * Checks what is of both kinds of load, derives their nodes, and sets the
 * interval of one without an end. -EINVAL, said on stderr.
 */
int options_check(struct options *o);
/*
 * Derives what a load of one kind of call needs. -EINVAL, -ENOMEM: a setting is
 * wrong, said on stderr.
 */
int options_derive(struct options *o);

#endif
