/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simulate.h - what a pool of given size would have hit, by policy
 */
#ifndef PERF_POLICY_SIMULATE_H
#define PERF_POLICY_SIMULATE_H

#include <stddef.h>
#include <stdint.h>

#include "tests/bench/policy/workload.h"

enum tei_sim_kind { TEI_SIM_LRU, TEI_SIM_CLOCK, TEI_SIM_POLICY, TEI_SIM_KINDS };

struct tei_sim_result {
	uint64_t hits, hit_bytes, bytes; /* bytes: of all accesses */
	uint64_t ghosts, ghost_bytes;    /* most of them, POLICY only */
	uint64_t ns;                     /* that it took */
};

/*
 * Each access to a key that is not there puts it there, and evicts until it
 * fits into @capacity bytes; larger ones pass by. POLICY is the store's. The
 * clock is read at begin and end: @now_ns. -ENOMEM.
 */
int tei_simulate(const struct tei_workload *w, enum tei_sim_kind kind,
		 uint64_t capacity, uint64_t (*now_ns)(void),
		 struct tei_sim_result *out);

#endif
