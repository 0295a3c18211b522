/* SPDX-License-Identifier: Apache-2.0 */
/* epoch.h - lives of the master */
#ifndef STORE_CORE_EPOCH_H
#define STORE_CORE_EPOCH_H

#include <stdbool.h>
#include <stdint.h>

struct tes_core;

/* A life of the master; ours may have had several numbers. */
struct tes_epoch {
	uint64_t number;
	bool ours;
};

/* The index of @epoch; 0: it cannot be one, there are too many, no memory. */
uint16_t tes_core_epoch_index(struct tes_core *core, uint64_t epoch);
/*
 * Somebody knows of @epoch: ours is later. What was put under ours stays, but
 * ends of puts that were begun under it come too late.
 */
void tes_core_epoch_exceed(struct tes_core *core, uint64_t epoch);
int tes_core_epochs_init(struct tes_core *core);

#endif
