/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h - which worker drives which rail
 *
 * Rails of one NUMA node go to one worker, so that its threads and memory are
 * near. Where more workers are asked for, or fewer, the rails of each tier are
 * dealt out in the order of their nodes: each worker has as many as another,
 * give or take one, and as few nodes as may be.
 *
 * Only the first worker stages memory of GPUs. So where that is what all rails
 * need, and nobody has asked for several workers, there is one.
 *
 * Threads: any. Pure.
 */
#ifndef TE_WORKER_PLACE_H
#define TE_WORKER_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct tei_rail_place {
	int node;      /* NUMA node of its device; -1: unknown */
	uint32_t tier; /* of its backend */
	bool kept;     /* belongs to the first worker, whatever its node */
	bool stages; /* the machine has GPUs, whose memory it does not reach */
	uint32_t worker; /* out */
};

/*
 * Sets the worker of each of rails[n]. @wanted: workers, 1 to @most; 0: one for
 * each node that has rails that are not kept, or one if all of these stage.
 * Returns how many workers there are, 1 at least and @wanted at most: each of
 * them has a rail.
 */
uint32_t tei_place_rails(struct tei_rail_place *rails, uint32_t n,
			 uint32_t wanted, uint32_t most);

/*
 * Returns how often a device is opened, one of @n_devices that several workers
 * may drive, so that each of @n_workers has a rail.
 */
static inline uint32_t tei_place_copies(uint32_t n_devices, uint32_t n_workers)
{
	if (!n_devices)
		return 1;
	return (n_workers + n_devices - 1) / n_devices;
}

#endif
