/* SPDX-License-Identifier: Apache-2.0 */
/* notes.c - what is wrong with a machine, or looks so, in words */
#include <string.h>

#include "topology/topo.h"

static double gbit(uint64_t bps)
{
	return (double)bps / 1e9;
}

static void note_link(struct te_topo *t, const struct tei_topo_nic *nic)
{
	if (nic->state == TE_TOPO_DOWN && !nic->is_virtual)
		tei_topo_add_note(t, TE_TOPO_NOTE_LINK, "%s: the port is down",
				  nic->name);
}

static void note_pcie(struct te_topo *t, const struct tei_topo_nic *nic)
{
	const struct tei_topo_pci *pci = &nic->pci;

	if (nic->state == TE_TOPO_DOWN)
		return;
	if (pci->width && pci->width < pci->max_width)
		tei_topo_add_note(t, TE_TOPO_NOTE_PCIE,
				  "%s: PCIe runs with x%u of x%u lanes",
				  nic->name, pci->width, pci->max_width);
	if (pci->mtps && pci->mtps < pci->max_mtps)
		tei_topo_add_note(t, TE_TOPO_NOTE_PCIE,
				  "%s: PCIe runs at %g of %g GT/s", nic->name,
				  pci->mtps / 1e3, pci->max_mtps / 1e3);
	if (pci->path_bps && nic->speed_bps > pci->path_bps)
		tei_topo_add_note(t, TE_TOPO_NOTE_PCIE,
				  "%s: PCIe carries %.0f of the port's %.0f "
				  "Gbit/s",
				  nic->name, gbit(pci->path_bps),
				  gbit(nic->speed_bps));
}

/* What hangs on one host bridge is in one node: two of them cannot be right. */
static void note_contradiction(struct te_topo *t, const char *name_a,
			       const struct tei_topo_pci *a, int32_t node_a,
			       const char *name_b, const struct tei_topo_pci *b,
			       int32_t node_b)
{
	uint32_t common = 0, differ;

	if (node_a < 0 || node_b < 0 || node_a == node_b || !*a->path ||
	    !*b->path)
		return;
	tei_topo_pci_compare(a->path, b->path, &common, &differ);
	if (common)
		tei_topo_add_note(t, TE_TOPO_NOTE_AFFINITY,
				  "%s and %s: one PCIe host bridge, but NUMA "
				  "nodes %d and %d",
				  name_a, name_b, node_a, node_b);
}

static void note_contradictions(struct te_topo *t)
{
	uint32_t i, k;

	for (i = 0; i < t->n_nics; i++) {
		const struct tei_topo_nic *nic = &t->nics[i];

		for (k = 0; k < i; k++)
			note_contradiction(t, t->nics[k].name, &t->nics[k].pci,
					   t->nics[k].numa_node, nic->name,
					   &nic->pci, nic->numa_node);
		for (k = 0; k < t->n_memories; k++)
			note_contradiction(t, t->memories[k].name,
					   &t->memories[k].pci,
					   t->memories[k].numa_node, nic->name,
					   &nic->pci, nic->numa_node);
	}
}

/* Only where every distance is known can a GPU be said to lack a NIC. */
static void note_lonely(struct te_topo *t, const struct tei_topo_memory *m)
{
	struct te_topo_distance d;

	if (m->kind == TE_TOPO_HOST || m->given || !m->n_preferred)
		return;
	tei_topo_measure(t, m, &t->nics[m->rails[0]], &d);
	if (d.near == TE_TOPO_NEAR_FAR)
		tei_topo_add_note(t, TE_TOPO_NOTE_AFFINITY,
				  "%s: no NIC that is up is in its socket",
				  m->name);
}

void tei_topo_write_notes(struct te_topo *t)
{
	uint32_t i;

	for (i = 0; i < t->n_nics; i++) {
		note_link(t, &t->nics[i]);
		note_pcie(t, &t->nics[i]);
	}
	for (i = 0; i < t->n_memories; i++)
		note_lonely(t, &t->memories[i]);
	note_contradictions(t);
}
