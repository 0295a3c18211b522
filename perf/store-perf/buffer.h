/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer.h - memory of a client, where and how the settings want it
 */
#ifndef PERF_STORE_PERF_BUFFER_H
#define PERF_STORE_PERF_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

/* All zero is none. */
struct buffer {
	char *at; /* len bytes */
	uint64_t len;
	void *map;
	uint64_t map_len;
};

/*
 * Maps and touches @len bytes, 1 or more, of NUMA node @node (TEI_NODE_ANY).
 * They begin at a page, or with @unaligned at an odd address. -ENOMEM, or what
 * the system says about the node.
 */
int buffer_open(struct buffer *b, uint64_t len, int node, bool unaligned);
void buffer_close(struct buffer *b);

#endif
