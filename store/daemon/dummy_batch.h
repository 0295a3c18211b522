/* SPDX-License-Identifier: Apache-2.0 */
/* dummy_batch.h - one batch for the daemon, being put together */
#ifndef STORE_DAEMON_DUMMY_BATCH_H
#define STORE_DAEMON_DUMMY_BATCH_H

#include "store/daemon/dummy.h"

#define TES_BATCH_ARENA_MAX  (64u << 20)
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
 * Keys that hold become the batch's; @results of the others are -600. @values
 * may be NULL; a key whose value does not hold does not either. 0, -1.
 */
int tes_batch_add_keys(struct tes_dummy_batch *b,
		       const struct te_store_key *keys, size_t n,
		       const struct te_store_value *values, int64_t *results);
/* Room for @n items of @n_pieces in all. 0, -1. */
int tes_batch_add_items(struct tes_dummy_batch *b, size_t n, size_t n_pieces);
void tes_batch_add_item(struct tes_dummy_batch *b, const struct iovec *pieces,
			uint32_t n, uint64_t bytes);
/*
 * Lend the items, ask, await the answers. 0 or the code of all; the loan is
 * the caller's to end in any case.
 */
int tes_batch_ask(struct tes_dummy_batch *b);

#endif
