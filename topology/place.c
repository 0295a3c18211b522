/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.c - which CPUs should drive a NIC
 *
 * The cores of a NUMA node are dealt out in runs to the NICs of the node that
 * are not down, so that two drivers do not share a core, nor a core's cache,
 * unless there are more NICs than cores. Virtual and slow NICs take no share
 * from the others; asked for, they get one as if they were the only one such.
 */
#include <errno.h>

#include "topology/topo.h"

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

/* Whether @cpu is the first of its core that can be used. */
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

/* Whether core @core of @n_cores is dealt to share @share of @n_shares. */
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
