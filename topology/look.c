/* SPDX-License-Identifier: Apache-2.0 */
/* look.c - looking at a picture that is finished */
#include <errno.h>
#include <string.h>

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
