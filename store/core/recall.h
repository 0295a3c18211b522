/* SPDX-License-Identifier: Apache-2.0 */
/* recall.h - what owners may still bring from lives before this one */
#ifndef STORE_CORE_RECALL_H
#define STORE_CORE_RECALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tei_core;
struct tei_tenant;

#define TEI_RECALL_PARTS 64u

/* Hashes of one range. */
struct tei_recall_part {
	uint64_t *at;     /* at[room], owned; 0: free, else each at its place or
		       * in the next that was free */
	uint32_t n, room; /* a power of two, or 0 */
};

/* Which keys are not to come back from lives before this one. */
struct tei_recall {
	bool open; /* owners may still bring others */
	uint64_t from_ms;
	size_t n;                                      /* hashes */
	struct tei_recall_part part[TEI_RECALL_PARTS]; /* by the first bits */
};

void tei_core_recall_init(struct tei_core *core);
void tei_core_recall_fini(struct tei_core *core);
size_t tei_core_recall_bytes(const struct tei_core *core);
/* The key of that hash was changed here: older values do not come back. */
void tei_core_renounce(struct tei_core *core, uint64_t hash);
/* It soon will be: start to load what that touches. */
void tei_core_renounce_soon(const struct tei_core *core, uint64_t hash);
/* All that @t had before, too. */
void tei_core_renounce_all(struct tei_core *core, struct tei_tenant *t);
/* Whether @t's key, which is not here, may be brought by an owner. */
bool tei_core_recalls(const struct tei_core *core, const struct tei_tenant *t,
		      uint64_t hash);
void tei_core_recall_tick(struct tei_core *core);

#endif
