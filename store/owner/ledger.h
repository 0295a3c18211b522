/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.h - what an owner does for the objects in its segments
 *
 * The master reports which objects were committed and which are to be buried;
 * a master that was started anew is offered the objects that the ledger lists.
 * Headers in memory decide: an object is offered only if its headers still name
 * it.
 *
 * Burying voids headers, which is safe because the master gives the space to
 * nobody before the owner confirms. All other calls only drop entries.
 *
 * Threads: commits and burials on the loop, mounting and offering on the
 * helper.
 */
#ifndef STORE_OWNER_LEDGER_H
#define STORE_OWNER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/thread.h"
#include "store/owner/inventory.h"

struct te_store;
struct tes_segment;
struct tes_master_link;
struct tei_frame;

struct tes_ledger {
	struct tei_mutex mu;            /* lock 49 */
	struct tes_inventory inventory; /* guarded by mu */
	/* The helper's. */
	bool mounted;  /* at some master, or one may have it */
	uint64_t seed; /* of digests: which master that was, the last one */
	bool offering; /* and that one has not got everything yet */
};

void tes_ledger_init(struct tes_ledger *ledger, uint64_t bytes);
/* The caller has taken the segment off every list; entries are freed. */
void tes_ledger_fini(struct tes_ledger *ledger);

/* ---- the loop's: pushes of the master ---- */

void tes_ledger_on_committed(struct tes_master_link *link,
			     const struct tei_frame *f);
void tes_ledger_on_bury(struct tes_master_link *link,
			const struct tei_frame *f);

/* ---- the helper's ---- */

/*
 * Tells whether @segment is to be mounted as offering: it was mounted before.
 */
bool tes_ledger_offers(const struct tes_segment *segment);
/* The master that it was mounted at. Its epoch may grow; its seed, which is
 * drawn by chance, is its alone. */
struct tes_ledger_master {
	uint64_t generation; /* of the link to it */
	uint64_t epoch, digest_seed;
	bool kept;  /* it had the segment, and what was put there */
	bool slept; /* we stood still since we heard from the one before, for
		     * longer than that one waited for us */
};
/*
 * The answer to a mount did not come: that master may have it, and have put
 * objects there by the time that it is mounted again, also at another one.
 */
void tes_ledger_doubt(struct tes_segment *segment, uint64_t digest_seed);
/*
 * @segment is mounted: offer what there is, or forget it if that master has
 * given us up meanwhile, or the one before has. A store code, of the call that
 * failed; then it has to be mounted again.
 */
int tes_ledger_mounted(struct te_store *store, struct tes_segment *segment,
		       const struct tes_ledger_master *master);

#endif
