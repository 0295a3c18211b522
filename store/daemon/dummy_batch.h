/* SPDX-License-Identifier: Apache-2.0 */
/* dummy_batch.h - one batch for the daemon, being put together */
#ifndef STORE_DAEMON_DUMMY_BATCH_H
#define STORE_DAEMON_DUMMY_BATCH_H

#include "store/daemon/dummy.h"

#define TES_BATCH_ARENA_MAX  (64u << 20)
#define TES_DUMMY_SLACK_MS   500         /* besides the calls to the master */
#define TES_BATCH_COPY_BYTES (32u << 20) /* unless one value has more */

struct tes_dummy_batch {
	struct tes_dummy *dummy;
	uint16_t type;
	struct tei_arena *arena;
	Agent__Batch msg;
	uint32_t *which; /* which[n]: keys that are sent; NULL: not yet */
	size_t n;        /* answers that are due */
	struct tes_loan loan;
	int64_t *answers; /* answers[n], in the arena */
};

/*
 * Adds the valid ones of keys[n] to @b; sets results[i] of the others to
 * TE_STORE_INVALID_PARAMS. values[n] may be NULL; a key with an invalid value
 * is invalid. 0, or TE_STORE_INTERNAL_ERROR: no memory in the arena.
 */
int tes_dummy_batch_add_keys(struct tes_dummy_batch *b,
			     const struct te_store_key *keys, size_t n,
			     const struct te_store_value *values,
			     int64_t *results);

#endif
