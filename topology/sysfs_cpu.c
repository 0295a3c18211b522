/* SPDX-License-Identifier: Apache-2.0 */
/* sysfs_cpu.c - NUMA nodes and CPUs, from devices/system */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topology/sysfs.h"

#define NODES "devices/system/node"
#define CPUS  "devices/system/cpu"

/* The number behind @prefix; -1: the name is another. */
static int32_t number_of(const char *name, const char *prefix, int32_t max)
{
	size_t len = strlen(prefix);
	char *end;
	long n;

	if (strncmp(name, prefix, len) != 0 || !name[len] ||
	    strspn(name + len, "0123456789") != strlen(name + len))
		return -1;
	errno = 0;
	n = strtol(name + len, &end, 10);
	return errno || n >= max ? -1 : (int32_t)n;
}

/* ---- CPUs ---- */

struct adding {
	struct tei_sysfs *s;
	int32_t node;
	uint32_t core;
};

static int add_cpu(uint32_t number, void *arg)
{
	struct adding *a = arg;
	struct tei_topo_cpu *cpu;
	int rc;

	cpu = tei_topo_add_cpu(a->s->t, number, &rc);
	if (!cpu)
		return tei_sysfs_full(a->s, rc, "CPUs");
	cpu->node = a->node;
	return 0;
}

static int note_core(uint32_t number, void *arg)
{
	struct adding *a = arg;
	uint32_t i;

	for (i = 0; i < a->s->t->n_cpus; i++) {
		if (a->s->t->cpus[i].number == number)
			a->s->t->cpus[i].core = a->core;
	}
	return 0;
}

/* Which CPUs are threads of one core; those already known are not asked. */
static void find_cores(struct tei_sysfs *s)
{
	struct adding a = {.s = s};
	char text[TEI_SYSFS_TEXT];
	uint32_t i;

	for (i = 0; i < s->t->n_cpus; i++) {
		const struct tei_topo_cpu *cpu = &s->t->cpus[i];

		if (cpu->core != cpu->number)
			continue;
		a.core = cpu->number;
		if (!tei_sysfs_text(s, text, sizeof(text),
				    CPUS "/cpu%u/topology/thread_siblings_list",
				    cpu->number))
			(void)tei_topo_parse_list(text, TEI_TOPO_CPUS_MAX,
						  note_core, &a);
	}
}

/* The CPUs that are left to this process, by cgroup, taskset and the like. */
static void find_allowed(struct tei_sysfs *s)
{
	size_t size = CPU_ALLOC_SIZE(TEI_TOPO_CPUS_MAX);
	cpu_set_t *set = tei_calloc(1, size);
	uint32_t i;

	if (!set)
		return; /* a bound that is not known binds nobody */
	if (!sched_getaffinity(0, size, set)) {
		for (i = 0; i < s->t->n_cpus; i++) {
			struct tei_topo_cpu *cpu = &s->t->cpus[i];

			cpu->allowed = CPU_ISSET_S(cpu->number, size, set);
		}
	}
	tei_free(set);
}

/* ---- nodes ---- */

/* "Node 0 MemTotal:       65782308 kB" */
static uint64_t bytes_of(struct tei_sysfs *s, int32_t node)
{
	char text[TEI_SYSFS_TEXT];
	unsigned long long kib;

	if (tei_sysfs_text(s, text, sizeof(text), NODES "/node%d/meminfo",
			   node) ||
	    sscanf(text, "Node %*u MemTotal: %llu kB", &kib) != 1 ||
	    kib >= 1ull << 50)
		return 0;
	return kib * 1024;
}

static int add_cpus(struct tei_sysfs *s, int32_t node, const char *list)
{
	struct adding a = {.s = s, .node = node};
	int rc = tei_topo_parse_list(list, TEI_TOPO_CPUS_MAX, add_cpu, &a);

	if (rc == -EBADMSG) {
		tei_topo_add_note(s->t, TE_TOPO_NOTE_SKIPPED,
				  "cpu:%d: its list of CPUs makes no sense",
				  node);
		rc = 0;
	}
	return rc;
}

static int add_memory(struct tei_sysfs *s, const struct tei_topo_node *node)
{
	struct tei_topo_memory *m;
	int rc;

	m = tei_topo_add_memory(s->t, &rc);
	if (!m)
		return tei_sysfs_full(s, rc, "memories");
	snprintf(m->name, sizeof(m->name), "cpu:%d", node->number);
	m->kind = TE_TOPO_HOST;
	m->numa_node = node->number;
	m->bytes = node->bytes;
	return 0;
}

static int add_node(struct tei_sysfs *s, int32_t number, const char *cpulist)
{
	struct tei_topo_node *node;
	int rc;

	node = tei_topo_add_node(s->t, number, &rc);
	if (!node)
		return tei_sysfs_full(s, rc, "NUMA nodes");
	node->bytes = bytes_of(s, number);
	rc = add_memory(s, node);
	return rc ? rc : add_cpus(s, number, cpulist);
}

static int each_node(struct tei_sysfs *s, const char *name)
{
	int32_t number = number_of(name, "node", TEI_TOPO_NODE_NUMBERS);
	char list[TEI_SYSFS_TEXT];

	if (number < 0)
		return 0;
	(void)tei_sysfs_text(s, list, sizeof(list), NODES "/%s/cpulist", name);
	return add_node(s, number, list);
}

/* A kernel without NUMA: all there is makes one node. */
static int add_only_node(struct tei_sysfs *s)
{
	char list[TEI_SYSFS_TEXT];

	(void)tei_sysfs_text(s, list, sizeof(list), CPUS "/online");
	return add_node(s, 0, list);
}

/* The i-th word is the distance to the i-th node, in order of numbers. */
static void find_distances(struct tei_sysfs *s, struct tei_topo_node *node)
{
	char text[TEI_SYSFS_TEXT], *at = text, *end;
	uint32_t i;

	if (tei_sysfs_text(s, text, sizeof(text), NODES "/node%d/distance",
			   node->number))
		return;
	for (i = 0; i < s->t->n_nodes; i++) {
		unsigned long value = strtoul(at, &end, 10);

		if (end == at || value > 255)
			return;
		node->distance[i] = (uint16_t)value;
		at = end;
	}
}

/* The package of a node is that of its first CPU. */
static void find_package(struct tei_sysfs *s, struct tei_topo_node *node)
{
	int64_t package = -1;
	uint32_t i;

	for (i = 0; i < s->t->n_cpus; i++) {
		if (s->t->cpus[i].node != node->number)
			continue;
		package = tei_sysfs_number(
			s, -1, CPUS "/cpu%u/topology/physical_package_id",
			s->t->cpus[i].number);
		break;
	}
	if (package >= 0 && package < TEI_TOPO_NODE_NUMBERS)
		node->package = (int32_t)package;
}

int tei_sysfs_add_nodes(struct tei_sysfs *s)
{
	int rc = tei_sysfs_each(s, NODES, each_node);
	uint32_t i;

	if (!rc && !s->t->n_nodes)
		rc = add_only_node(s);
	if (rc)
		return rc;
	for (i = 0; i < s->t->n_nodes; i++) {
		find_distances(s, &s->t->nodes[i]);
		find_package(s, &s->t->nodes[i]);
	}
	find_cores(s);
	if (s->live)
		find_allowed(s);
	return 0;
}
