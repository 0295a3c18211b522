/* SPDX-License-Identifier: Apache-2.0 */
/* place.c - memory of a place that the caller names: a GPU, a NUMA node */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <te/te.h>

#include "base/log.h"
#include "base/mem.h"
#include "te/core/engine.h"
#include "te/region/memory.h"

#define NODES_MAX 1024 /* as of Linux */
#define WORD_BITS (8 * (int)sizeof(unsigned long))

void tei_memory_bind(const struct tei_memory *memory)
{
	unsigned long nodes[NODES_MAX / WORD_BITS] = {0};

	nodes[memory->node / WORD_BITS] = 1ul << memory->node % WORD_BITS;
	if (syscall(SYS_mbind, memory->addr, memory->length, MPOL_PREFERRED,
		    nodes, NODES_MAX + 1, 0))
		LOG_INFO("memory of cpu:%d is of the node that touches it "
			 "first: mbind: %s",
			 memory->node, strerror(errno));
}

/* Tells whether the process leaves it to us where its pages come from. */
static bool is_policy_open(void)
{
	int mode = MPOL_DEFAULT;

	return !syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) &&
	       mode == MPOL_DEFAULT;
}

void tei_memory_prefer(int node)
{
	static _Thread_local enum { NEW, OPEN, FIXED } policy;
	static _Thread_local int last = -1;
	unsigned long nodes[NODES_MAX / WORD_BITS] = {0};

	if (policy == NEW)
		policy = is_policy_open() ? OPEN : FIXED;
	if (policy == FIXED || node == last || node >= NODES_MAX)
		return;
	if (node >= 0)
		nodes[node / WORD_BITS] = 1ul << node % WORD_BITS;
	/* Only a wish: pages of another node do as well. */
	if (!syscall(SYS_set_mempolicy,
		     node < 0 ? MPOL_DEFAULT : MPOL_PREFERRED,
		     node < 0 ? NULL : nodes, node < 0 ? 0 : NODES_MAX + 1))
		last = node;
}

int tei_memory_node(void)
{
	unsigned int cpu, node;

	return syscall(SYS_getcpu, &cpu, &node, NULL) ? -1 : (int)node;
}

void tei_memory_leave_gpu(struct tei_memory *memory)
{
	const struct tei_gpu_named *gpu = &memory->gpu;

	if (memory->of_gpu)
		gpu->ops->free(gpu->runtime, gpu->number,
			       (uintptr_t)memory->addr);
	else if (gpu->ops)
		gpu->ops->unpin(gpu->runtime, gpu->number, memory->addr);
}

static int alloc_gpu(const struct tei_gpu_named *gpu, uint64_t length,
		     struct tei_memory **out, char *why)
{
	struct tei_memory *memory = tei_calloc(1, sizeof(*memory));
	uint64_t addr = 0;
	int rc = -ENOMEM;

	(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "out of memory");
	if (memory)
		rc = gpu->ops->alloc(gpu->runtime, gpu->number, length, &addr,
				     why);
	if (rc) {
		tei_free(memory);
		return rc;
	}
	*memory = (struct tei_memory){
		.addr = (void *)(uintptr_t)addr,
		.length = length,
		.asked = length,
		.fd = -1,
		.node = -1,
		.of_gpu = true,
		.gpu = *gpu,
	};
	*out = memory;
	return 0;
}

/* The node that "cpu:N" names. -EINVAL: it is no such name; -ENODEV: no node. */
static int node_in(const char *location, int *node, char *why)
{
	char path[64], *end = NULL;
	long number = -1;

	if (!strncmp(location, "cpu:", 4) && isdigit(location[4]))
		number = strtol(location + 4, &end, 10);
	if (!end || end == location + 4 || *end || number < 0 ||
	    number >= NODES_MAX) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "location: \"%.40s\" is neither \"cpu:N\" nor "
			       "of a GPU",
			       location);
		return -EINVAL;
	}
	(void)snprintf(path, sizeof(path), "/sys/devices/system/node/node%ld",
		       number);
	if (number && access(path, F_OK)) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "this host has no NUMA node %ld", number);
		return -ENODEV;
	}
	*node = (int)number;
	return 0;
}

static int alloc_node(struct te_engine *engine, uint64_t length,
		      const char *location, struct tei_memory **out, char *why)
{
	struct tei_memory *memory;
	int node, rc = node_in(location, &node, why);

	if (rc)
		return rc;
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "out of memory");
	rc = tei_memory_map(engine, length, node, &memory);
	if (rc)
		return rc;
	rc = tei_gpus_pin(engine, memory->addr, memory->length, &memory->gpu,
			  why);
	if (rc) {
		tei_memory_drop(memory);
		return rc;
	}
	*out = memory;
	return 0;
}

int te_memory_alloc_at(struct te_engine *engine, uint64_t length,
		       const char *location, void **out)
{
	char why[TEI_RUNTIME_WHY_LEN] = "";
	struct tei_gpu_named gpu;
	struct tei_memory *memory = NULL;
	int rc;

	if (tei_location_is_any(location))
		return te_memory_alloc(engine, length, out);
	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!length || length > TE_LENGTH_MAX || !out)
		return -EINVAL;
	rc = tei_gpu_find(engine, location, &gpu, why);
	if (!rc)
		rc = gpu.ops ? alloc_gpu(&gpu, length, &memory, why)
			     : alloc_node(engine, length, location, &memory,
					  why);
	if (rc) {
		LOG_WARN("engine %s: no %" PRIu64 " bytes of %.40s: %s",
			 engine->name, length, location, why);
		return rc;
	}
	*out = tei_memory_keep(engine, memory);
	return 0;
}
