/* SPDX-License-Identifier: Apache-2.0 */
/* nics.c - NICs that are near a memory and carried nothing, and why */
#include "perf/lib/nics.h"

#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <te/te.h>

/* "mlx5_0" and "mlx5_0/1" of the NIC, behind the name of the backend. */
static bool is_of(const struct tei_nic_rail *rail,
		  const struct te_topo_nic *nic)
{
	const char *device = strchr(rail->name, '/');
	size_t len = strlen(nic->rdma);

	if (!len || !device || strncmp(++device, nic->rdma, len) != 0)
		return false;
	return !device[len] || device[len] == '/';
}

static const struct tei_nic_rail *rail_of(const struct te_topo_nic *nic,
					  const struct tei_nic_rail *rails,
					  size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (is_of(&rails[i], nic))
			return &rails[i];
	}
	return NULL;
}

static bool has_rdma_rail(const struct te_topo *topo,
			  const struct tei_nic_rail *rails, size_t n)
{
	struct te_topo_nic nic;

	for (uint32_t i = 0; !te_topo_nic(topo, i, &nic); i++) {
		if (rail_of(&nic, rails, n))
			return true;
	}
	return false;
}

static const char *why_unused(const struct te_topo_nic *nic,
			      const struct tei_nic_rail *rail)
{
	if (nic->state == TE_TOPO_DOWN || (rail && rail->state == TE_RAIL_DOWN))
		return "its port is down";
	if (!rail)
		return "it is filtered out by the settings, or cannot be used "
		       "(te-doctor says why)";
	if (rail->unmatched_peers)
		return "it matches no rail of the peer: another network or "
		       "kind of link, or verbs.peers says so";
	if (rail->state == TE_RAIL_PAUSED)
		return "it is paused, since it has failed";
	return NULL;
}

const char *tei_nic_why_unused(const struct te_topo *topo, uint32_t nic,
			       int32_t node, const struct tei_nic_rail *rails,
			       size_t n)
{
	const struct tei_nic_rail *rail;
	struct te_topo_nic it;

	if (te_topo_nic(topo, nic, &it) || !*it.rdma || node < 0 ||
	    it.numa_node != node || !has_rdma_rail(topo, rails, n))
		return NULL;
	rail = rail_of(&it, rails, n);
	return rail && rail->bytes ? NULL : why_unused(&it, rail);
}

int32_t tei_nic_node_at(const void *addr)
{
	uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
	void *page = (void *)((uintptr_t)addr & ~mask);
	int node = -1;

	if (syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0))
		return -1;
	return node < 0 ? -1 : node;
}
