/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pins.h - memory of a client that is pinned for GPUs, and how much of it
 *
 * Threads: any.
 */
#ifndef STORE_CLIENT_PINS_H
#define STORE_CLIENT_PINS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tes_pins {
	uint64_t max; /* bytes; 0: none are */
	/* Relaxed: a sum that nothing else depends on. */
	_Atomic uint64_t used;
};

/* @mib: te_store_config.pin_mib. */
void tes_pins_init(struct tes_pins *pins, uint32_t mib);
/*
 * Pins memory that was just mapped, if that is wanted; a line says how much
 * is, or why it is not. @what: begins that line. Blocks: while its pages are
 * committed. True: it is pinned, to be undone by tes_pins_remove().
 */
bool tes_pins_add(struct tes_pins *pins, const char *what, void *addr,
		  uint64_t bytes);
/* Unpins memory, before it is unmapped. */
void tes_pins_remove(struct tes_pins *pins, void *addr, uint64_t bytes);

#endif
