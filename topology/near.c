/* SPDX-License-Identifier: Apache-2.0 */
/*
 * near.c - how far a memory is from a NIC, and which NICs serve it
 *
 * A GPU is near a NIC when their PCIe paths meet early: then bytes go from one
 * to the other without the CPU's memory. All else is a matter of NUMA nodes.
 * Hops of PCIe count only below one host bridge; beyond it they say nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topology/topo.h"

#define SLOW_SHARE 8 /* slower than the fastest NIC by this: not preferred */

/* ---- one pair ---- */

static uint32_t near_of_nodes(const struct te_topo *t, int32_t a, int32_t b)
{
	const struct tei_topo_node *x, *y;

	if (a < 0 || b < 0)
		return TE_TOPO_NEAR_UNKNOWN;
	if (a == b)
		return TE_TOPO_NEAR_NODE;
	x = tei_topo_node_of(t, a);
	y = tei_topo_node_of(t, b);
	if (x && y && x->package >= 0 && x->package == y->package)
		return TE_TOPO_NEAR_SOCKET;
	return TE_TOPO_NEAR_FAR;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a ? a : b; /* 0 is unknown */
	return a < b ? a : b;
}

static uint64_t rate_of(const struct tei_topo_memory *m,
			const struct tei_topo_nic *nic)
{
	uint64_t rate = least(nic->speed_bps, nic->pci.path_bps);

	return rate ? least(rate, m->pci.path_bps) : 0;
}

void tei_topo_measure(const struct te_topo *t, const struct tei_topo_memory *m,
		      const struct tei_topo_nic *nic,
		      struct te_topo_distance *out)
{
	uint32_t common = 0;

	*out = (struct te_topo_distance){
		.near = near_of_nodes(t, m->numa_node, nic->numa_node),
		.numa = te_topo_node_distance(t, m->numa_node, nic->numa_node),
		.rate_bps = rate_of(m, nic),
	};
	if (*m->pci.path && *nic->pci.path)
		tei_topo_pci_compare(m->pci.path, nic->pci.path, &common,
				     &out->pci_hops);
	if (common)
		out->near =
			common > 1 ? TE_TOPO_NEAR_SWITCH : TE_TOPO_NEAR_ROOT;
}

/* ---- all NICs of one memory ---- */

struct place {
	struct te_topo_distance d;
	uint64_t speed_bps;
	uint16_t nic;
	bool minor; /* virtual or slow: never preferred while others are up */
};

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* Whether two places are equally good, as far as distance goes. */
static int by_distance(const struct place *x, const struct place *y)
{
	int order = compare(x->d.near, y->d.near);

	if (!order && x->d.near == TE_TOPO_NEAR_SWITCH)
		order = compare(x->d.pci_hops, y->d.pci_hops);
	if (!order && x->d.near > TE_TOPO_NEAR_NODE)
		order = compare(x->d.numa, y->d.numa);
	return order;
}

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int order = compare(x->minor, y->minor);

	if (!order)
		order = by_distance(x, y);
	if (!order) /* the faster first */
		order = compare(y->speed_bps, x->speed_bps);
	return order ? order : compare(x->nic, y->nic);
}

uint64_t tei_topo_fastest(const struct te_topo *t)
{
	uint64_t best = 0;
	uint32_t i;

	for (i = 0; i < t->n_nics; i++) {
		if (t->nics[i].state != TE_TOPO_DOWN &&
		    t->nics[i].speed_bps > best)
			best = t->nics[i].speed_bps;
	}
	return best;
}

bool tei_topo_is_minor(const struct tei_topo_nic *nic, uint64_t best)
{
	return nic->is_virtual ||
	       (nic->speed_bps && nic->speed_bps < best / SLOW_SHARE);
}

/* Fills places[] with the NICs that are not down, best first. */
static uint32_t fill(const struct te_topo *t, const struct tei_topo_memory *m,
		     uint64_t best, struct place *places)
{
	uint32_t i, n = 0;

	for (i = 0; i < t->n_nics; i++) {
		const struct tei_topo_nic *nic = &t->nics[i];
		struct place *place = &places[n];

		if (nic->state == TE_TOPO_DOWN)
			continue;
		n++;
		tei_topo_measure(t, m, nic, &place->d);
		place->nic = (uint16_t)i;
		place->speed_bps = nic->speed_bps;
		place->minor =
			nic->is_virtual ||
			(nic->speed_bps && nic->speed_bps < best / SLOW_SHARE);
	}
	qsort(places, n, sizeof(*places), by_place);
	return n;
}

static int rank_one(const struct te_topo *t, struct tei_topo_memory *m,
		    uint64_t best, struct place *places)
{
	uint16_t list[TEI_TOPO_NICS_MAX];
	uint32_t n = fill(t, m, best, places), preferred = 0, i;

	for (i = 0; i < n; i++) {
		list[i] = places[i].nic;
		if (preferred == i && places[i].minor == places[0].minor &&
		    by_distance(&places[0], &places[i]) == 0)
			preferred = i + 1;
	}
	return tei_topo_give_rails(m, list, n, preferred);
}

int tei_topo_rank(struct te_topo *t)
{
	uint64_t best = tei_topo_fastest(t);
	struct place *places = tei_calloc(t->n_nics + 1, sizeof(*places));
	int rc = places ? 0 : -ENOMEM;
	uint32_t i;

	for (i = 0; !rc && i < t->n_memories; i++) {
		if (!t->memories[i].given)
			rc = rank_one(t, &t->memories[i], best, places);
	}
	tei_free(places);
	return rc;
}
