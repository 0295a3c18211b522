/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nics.h - NICs that are near a memory and carried nothing, and why
 */
#ifndef PERF_LIB_NICS_H
#define PERF_LIB_NICS_H

#include <stddef.h>
#include <stdint.h>
#include <te/topo.h>

/* Work of a rail; its name is "verbs/mlx5_0/1". */
struct tei_nic_rail {
	const char *name;
	uint32_t state; /* enum te_rail_state */
	uint32_t unmatched_peers;
	uint64_t bytes;
};

/*
 * Why NIC @nic of @topo was of no use to memory of NUMA node @node, in words:
 * that it is down, no rail, or matches none of the peer's. NULL: it was of use,
 * is no RDMA NIC or not near the memory, nothing is known against it, or no
 * rail of @rails[n] is an RDMA NIC. Pure.
 */
const char *tei_nic_why_unused(const struct te_topo *topo, uint32_t nic,
			       int32_t node, const struct tei_nic_rail *rails,
			       size_t n);

/*
 * Returns the NUMA node of the page at @addr, which has been touched; -1:
 * unknown.
 */
int32_t tei_nic_node_at(const void *addr);

#endif
