/* SPDX-License-Identifier: Apache-2.0 */
/* epoch.h - lives of the master */
#ifndef STORE_CORE_EPOCH_H
#define STORE_CORE_EPOCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tes_core;
struct tes_tenant;

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

/* recall.h - what owners may still bring from lives before this one */

#define TES_RECALL_PARTS 64u

/* Hashes of one range. */
struct tes_recall_part {
	uint64_t *at;     /* at[room], owned; 0: free, else each at its place or
		       * in the next that was free */
	uint32_t n, room; /* a power of two, or 0 */
};

/* Which keys are not to come back from lives before this one. */
struct tes_recall {
	bool open; /* owners may still bring others */
	uint64_t from_ms;
	size_t n;                                      /* hashes */
	struct tes_recall_part part[TES_RECALL_PARTS]; /* by the first bits */
};

void tes_core_recall_init(struct tes_core *core);
void tes_core_recall_fini(struct tes_core *core);
size_t tes_core_recall_bytes(const struct tes_core *core);
/* The key of that hash was changed here: older values do not come back. */
void tes_core_renounce(struct tes_core *core, uint64_t hash);
/* It soon will be: start to load what that touches. */
void tes_core_renounce_soon(const struct tes_core *core, uint64_t hash);
/* All that @t had before, too. */
void tes_core_renounce_all(struct tes_core *core, struct tes_tenant *t);
/* Whether @t's key, which is not here, may be brought by an owner. */
bool tes_core_recalls(const struct tes_core *core, const struct tes_tenant *t,
		      uint64_t hash);
void tes_core_recall_tick(struct tes_core *core);

#endif
