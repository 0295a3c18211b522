/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.h - a GPU's memory as dma-bufs, for devices that access it themselves
 *
 * A range is exported once for all NICs, as a whole where the driver can, else
 * chunk by chunk. Who has registered it closes the descriptors: registered
 * memory stays the NIC's without them.
 *
 * Threads: any; an export is of one thread.
 */
#ifndef TE_DEVICE_EXPORT_H
#define TE_DEVICE_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "te/device/device.h"

struct tei_export_piece {
	uint64_t addr, length; /* whole pages */
	int fd;                /* its first byte is at addr */
};

struct tei_export {
	uint32_t n, room;
	struct tei_export_piece *pieces; /* pieces[n], by address; 0: refused */
	bool by_address;                 /* NICs can register it by address */
	/* Reason for which there is no piece, and what to do. */
	char why[TEI_RUNTIME_WHY_LEN];
	const char *how; /* where it is not by_address; static */
};

/*
 * Exports the memory that tei_memory_find() has found to be a GPU's. A refusal
 * is an export without pieces. Returns 0, -ENOMEM. Blocks: for the driver.
 */
int tei_export_make(struct te_engine *engine, uint64_t addr, uint64_t length,
		    const struct tei_memory_found *found,
		    struct tei_export *out);
/* Closes the descriptors. */
void tei_export_free(struct tei_export *exported);

#endif
