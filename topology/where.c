/* SPDX-License-Identifier: Apache-2.0 */
/* where.c - the NUMA node of a piece of memory */
#include <errno.h>
#include <numaif.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "topology/topo.h"

#define BITS_PER_WORD (8 * sizeof(unsigned long))

/* The first node that the mapping's policy allows. -1: it does not say. */
static int32_t node_of_policy(void *page)
{
	unsigned long mask[TEI_TOPO_NODE_NUMBERS / BITS_PER_WORD] = {0};
	int mode;
	size_t i;

	if (get_mempolicy(&mode, mask, TEI_TOPO_NODE_NUMBERS, page,
			  MPOL_F_ADDR))
		return -1;
	if (mode != MPOL_BIND && mode != MPOL_PREFERRED)
		return -1;
	for (i = 0; i < TEI_TOPO_NODE_NUMBERS / BITS_PER_WORD; i++) {
		if (mask[i])
			return (int32_t)(i * BITS_PER_WORD) +
			       __builtin_ctzl(mask[i]);
	}
	return -1;
}

static int32_t node_of_thread(void)
{
	unsigned int cpu, node;

	return getcpu(&cpu, &node) ? 0 : (int32_t)node;
}

int32_t tei_topo_node_at(const void *addr)
{
	uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *page = (void *)((uintptr_t)addr & ~(size - 1));
	int status = -ENOENT;
	int32_t node;

	/* Without nodes to move to, it only says where the page is. */
	if (!move_pages(0, 1, &page, NULL, &status, 0) && status >= 0)
		return status;
	node = node_of_policy(page);
	return node >= 0 ? node : node_of_thread();
}
