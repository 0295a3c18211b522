/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.h - NUMA nodes for memory of benchmarks and of the servers they start
 *
 * Threads: those whose memory it is about.
 */
#ifndef PERF_LIB_NODE_H
#define PERF_LIB_NODE_H

#define TEI_NODE_ANY   (-1)
#define TEI_NODE_WORDS 16 /* of a mask of nodes */

/*
 * Reads "cpu:1", as te_memory_alloc_at() names a node, or "*" or NULL: any.
 * -EINVAL: it is another text, or no node that the process may use; said on
 * stderr by @setting's name.
 */
int tei_node_parse(const char *program, const char *setting, const char *text,
		   int *out);

/* A thread's policy as it was. */
struct tei_node_policy {
	int node, mode;
	unsigned long nodes[TEI_NODE_WORDS];
};

/*
 * Until _end(), memory that the calling thread touches first, and all memory of
 * processes that it starts, is of @node as far as that has room. Any node: as
 * before. -errno.
 */
int tei_node_begin(int node, struct tei_node_policy *old);
void tei_node_end(const struct tei_node_policy *old);

#endif
