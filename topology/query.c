/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.c - read a finished topology
 *
 * CPUs for driving a NIC: the cores of a NUMA node are dealt out in runs to the
 * NICs of the node that are not down, so that two drivers do not share a core,
 * nor a core's cache, unless there are more NICs than cores. Virtual and slow
 * NICs take no share from the others; asked for, they get one as if they were
 * the only one such.
 */
#include <errno.h>
#include <numaif.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "topology/topo.h"

static uint32_t count_packages(const struct te_topo *t)
{
	uint32_t i, k, n = 0;

	for (i = 0; i < t->n_nodes; i++) {
		for (k = 0; k < i; k++) {
			if (t->nodes[k].package == t->nodes[i].package)
				break;
		}
		n += k == i && t->nodes[i].package >= 0;
	}
	return n;
}

void te_topo_machine(const struct te_topo *t, struct te_topo_machine *out)
{
	uint32_t i;

	*out = (struct te_topo_machine){
		.model = t->model,
		.n_packages = count_packages(t),
		.n_nodes = t->n_nodes,
		.n_cpus = t->n_cpus,
		.n_nics = t->n_nics,
		.n_memories = t->n_memories,
		.n_notes = t->n_notes,
	};
	for (i = 0; i < t->n_nodes; i++) {
		out->n_cores += t->nodes[i].n_cores;
		out->bytes += t->nodes[i].bytes;
	}
	for (i = 0; i < t->n_memories; i++)
		out->n_gpus += t->memories[i].kind == TE_TOPO_CUDA ||
			       t->memories[i].kind == TE_TOPO_HIP;
}

int te_topo_node(const struct te_topo *t, uint32_t index,
		 struct te_topo_node *out)
{
	const struct tei_topo_node *node;

	if (index >= t->n_nodes)
		return -ENOENT;
	node = &t->nodes[index];
	*out = (struct te_topo_node){
		.number = node->number,
		.package = node->package,
		.bytes = node->bytes,
		.n_cores = node->n_cores,
		.n_cpus = node->n_cpus,
	};
	return 0;
}

uint32_t te_topo_node_distance(const struct te_topo *t, int32_t from,
			       int32_t to)
{
	const struct tei_topo_node *a = tei_topo_node_of(t, from);
	const struct tei_topo_node *b = tei_topo_node_of(t, to);

	if (!a || !b)
		return 0;
	return a->distance[b - t->nodes];
}

int te_topo_node_cpus(const struct te_topo *t, int32_t number, uint32_t *cpus,
		      size_t *n)
{
	size_t room = *n;
	uint32_t i;

	if (!tei_topo_node_of(t, number))
		return -ENOENT;
	*n = 0;
	for (i = 0; i < t->n_cpus; i++) {
		if (t->cpus[i].node != number)
			continue;
		if (*n < room)
			cpus[*n] = t->cpus[i].number;
		++*n;
	}
	return 0;
}

static struct te_topo_pci show_pci(const struct tei_topo_pci *pci)
{
	return (struct te_topo_pci){
		.bus_id = pci->bus_id,
		.path = pci->path,
		.width = pci->width,
		.max_width = pci->max_width,
		.mtps = pci->mtps,
		.max_mtps = pci->max_mtps,
		.path_bps = pci->path_bps,
	};
}

int te_topo_nic(const struct te_topo *t, uint32_t index,
		struct te_topo_nic *out)
{
	const struct tei_topo_nic *nic;

	if (index >= t->n_nics)
		return -ENOENT;
	nic = &t->nics[index];
	*out = (struct te_topo_nic){
		.name = nic->name,
		.interface = nic->interface,
		.rdma = nic->rdma,
		.model = nic->model,
		.rdma_port = nic->rdma_port,
		.kind = nic->kind,
		.state = nic->state,
		.numa_node = nic->numa_node,
		.speed_bps = nic->speed_bps,
		.pci = show_pci(&nic->pci),
		.is_virtual = nic->is_virtual,
	};
	return 0;
}

int te_topo_memory(const struct te_topo *t, uint32_t index,
		   struct te_topo_memory *out)
{
	const struct tei_topo_memory *m;

	if (index >= t->n_memories)
		return -ENOENT;
	m = &t->memories[index];
	*out = (struct te_topo_memory){
		.name = m->name,
		.model = m->model,
		.kind = m->kind,
		.numa_node = m->numa_node,
		.bytes = m->bytes,
		.pci = show_pci(&m->pci),
	};
	return 0;
}

int te_topo_find_nic(const struct te_topo *t, const char *name, uint32_t *index)
{
	const struct tei_topo_nic *nic = tei_topo_nic_named(t, name);

	if (!nic)
		return -ENOENT;
	*index = (uint32_t)(nic - t->nics);
	return 0;
}

int te_topo_find_memory(const struct te_topo *t, const char *location,
			uint32_t *index)
{
	uint32_t i;

	for (i = 0; i < t->n_memories; i++) {
		if (strcmp(t->memories[i].name, location) == 0) {
			*index = i;
			return 0;
		}
	}
	return -ENOENT;
}

static bool prefers(const struct tei_topo_memory *m, uint32_t nic)
{
	uint32_t i;

	for (i = 0; i < m->n_preferred; i++) {
		if (m->rails[i] == nic)
			return true;
	}
	return false;
}

int te_topo_distance(const struct te_topo *t, uint32_t memory, uint32_t nic,
		     struct te_topo_distance *out)
{
	if (memory >= t->n_memories || nic >= t->n_nics)
		return -ENOENT;
	tei_topo_measure(t, &t->memories[memory], &t->nics[nic], out);
	out->preferred = prefers(&t->memories[memory], nic);
	return 0;
}

int te_topo_rails(const struct te_topo *t, uint32_t memory, uint32_t *nics,
		  size_t *n, size_t *n_preferred)
{
	const struct tei_topo_memory *m;
	size_t i;

	if (memory >= t->n_memories)
		return -ENOENT;
	m = &t->memories[memory];
	for (i = 0; i < m->n_rails && i < *n; i++)
		nics[i] = m->rails[i];
	*n = m->n_rails;
	*n_preferred = m->n_preferred;
	return 0;
}

int te_topo_note(const struct te_topo *t, uint32_t index,
		 struct te_topo_note *out)
{
	if (index >= t->n_notes)
		return -ENOENT;
	*out = t->notes[index];
	return 0;
}

/* The place of @nic among those of its node, and how many they are. */
static void share_of(const struct te_topo *t, uint32_t nic, uint32_t *place,
		     uint32_t *n)
{
	const struct tei_topo_nic *own = &t->nics[nic];
	uint64_t best = tei_topo_fastest(t);
	uint32_t i;

	*place = 0;
	*n = 1;
	for (i = 0; i < t->n_nics; i++) {
		const struct tei_topo_nic *other = &t->nics[i];

		if (i == nic || other->numa_node != own->numa_node ||
		    other->state == TE_TOPO_DOWN ||
		    tei_topo_is_minor(other, best))
			continue;
		++*n;
		*place += i < nic;
	}
}

static bool is_usable(const struct tei_topo_cpu *cpu, int32_t node)
{
	return cpu->allowed && (node < 0 || cpu->node == node);
}

/* Tells whether @cpu is the first of its core that can be used. */
static bool opens_core(const struct te_topo *t, uint32_t cpu, int32_t node)
{
	uint32_t i;

	for (i = 0; i < cpu; i++) {
		if (t->cpus[i].core == t->cpus[cpu].core &&
		    is_usable(&t->cpus[i], node))
			return false;
	}
	return true;
}

/* The place of each CPU's core among the cores that can be used. */
static uint32_t number_cores(const struct te_topo *t, int32_t node,
			     uint16_t places[TEI_TOPO_CPUS_MAX])
{
	uint32_t i, k, n = 0;

	for (i = 0; i < t->n_cpus; i++) {
		if (!is_usable(&t->cpus[i], node))
			continue;
		if (opens_core(t, i, node)) {
			places[i] = (uint16_t)n++;
			continue;
		}
		for (k = 0; t->cpus[k].core != t->cpus[i].core ||
			    !is_usable(&t->cpus[k], node);
		     k++)
			;
		places[i] = places[k];
	}
	return n;
}

/*
 * Tells whether core @core of @n_cores is dealt to share @share of @n_shares.
 */
static bool is_dealt(uint32_t core, uint32_t n_cores, uint32_t share,
		     uint32_t n_shares)
{
	if (n_shares > n_cores)
		return core == share % n_cores;
	return core >= share * n_cores / n_shares &&
	       core < (share + 1) * n_cores / n_shares;
}

int te_topo_worker_cpus(const struct te_topo *t, uint32_t nic, uint32_t *cpus,
			size_t *n)
{
	uint16_t places[TEI_TOPO_CPUS_MAX];
	uint32_t place = 0, n_shares = 1, n_cores, i;
	size_t room = *n;
	int32_t node;

	if (nic >= t->n_nics)
		return -ENOENT;
	node = t->nics[nic].numa_node;
	n_cores = number_cores(t, node, places);
	if (!n_cores) { /* none of its own node: any is better than none */
		node = -1;
		n_cores = number_cores(t, node, places);
	}
	if (!n_cores) {
		*n = 0;
		return 0;
	}
	if (node >= 0)
		share_of(t, nic, &place, &n_shares);
	*n = 0;
	for (i = 0; i < t->n_cpus; i++) {
		if (!is_usable(&t->cpus[i], node) ||
		    !is_dealt(places[i], n_cores, place, n_shares))
			continue;
		if (*n < room)
			cpus[*n] = t->cpus[i].number;
		++*n;
	}
	return 0;
}

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
