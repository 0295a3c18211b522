/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.c - NUMA nodes for memory of benchmarks and of the servers they start
 *
 * By the policy of the thread, which processes that it starts inherit. Memory
 * that is allocated with a policy of its own (te_memory_alloc_at()) is not
 * affected.
 */
#include "perf/lib/node.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PREFIX     "cpu:"
#define WORD_BITS  (8 * (int)sizeof(unsigned long))
#define NODES_MAX  (TEI_NODE_WORDS * WORD_BITS)
#define NUMBER_LEN 4 /* digits, the most */

/* The kernel takes one bit less than it is told. */
static int set_policy(int mode, const unsigned long *nodes)
{
	return syscall(SYS_set_mempolicy, mode, nodes,
		       nodes ? NODES_MAX + 1 : 0)
		       ? -errno
		       : 0;
}

int tei_node_begin(int node, struct tei_node_policy *old)
{
	unsigned long nodes[TEI_NODE_WORDS] = {0};

	*old = (struct tei_node_policy){.node = node};
	if (node < 0)
		return 0;
	if (node >= NODES_MAX)
		return -EINVAL;
	if (syscall(SYS_get_mempolicy, &old->mode, old->nodes, NODES_MAX + 1,
		    NULL, 0))
		return -errno;
	nodes[node / WORD_BITS] = 1ul << node % WORD_BITS;
	return set_policy(MPOL_PREFERRED, nodes);
}

void tei_node_end(const struct tei_node_policy *old)
{
	if (old->node >= 0)
		(void)set_policy(old->mode,
				 old->mode == MPOL_DEFAULT ? NULL : old->nodes);
}

static int refuse_node(const char *program, const char *setting,
		       const char *text, const char *why)
{
	fprintf(stderr, "%s: %s: \"%s\": %s\n", program, setting, text, why);
	return -EINVAL;
}

int tei_node_parse(const char *program, const char *setting, const char *text,
		   int *out)
{
	struct tei_node_policy old;
	const char *number;
	size_t n_digits;
	int node, rc;

	*out = TEI_NODE_ANY;
	if (!text || !strcmp(text, "*"))
		return 0;
	number = text + strlen(PREFIX);
	n_digits = strncmp(text, PREFIX, strlen(PREFIX))
			   ? 0
			   : strspn(number, "0123456789");
	if (!n_digits || n_digits > NUMBER_LEN || number[n_digits])
		return refuse_node(program, setting, text,
				   "should be cpu:N or *");
	node = (int)strtol(number, NULL, 10);
	rc = tei_node_begin(node, &old);
	if (rc)
		return refuse_node(program, setting, text,
				   rc == -EINVAL ? "there is no such node"
						 : strerror(-rc));
	tei_node_end(&old);
	*out = node;
	return 0;
}
