/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grants.h - keys that hold for one endpoint (FI_MR_ENDPOINT)
 *
 * Where a provider binds keys to endpoints, each inbound endpoint has its own
 * key of each chunk of each region that peers may reach: a grant. Taking back
 * the grants of an endpoint fences one peer and no other. The core publishes
 * one blob of a region for all peers, so both sides make the key of a chunk
 * from the blob and from the token of the endpoint (wire.h).
 *
 * Threads: any, by a lock that is held while the provider is asked.
 */
#ifndef OFI_GRANTS_H
#define OFI_GRANTS_H

#include <stdint.h>

#include "backends/ofi/nic.h"
#include "backends/rdma/range.h"
#include "base/list.h"
#include "base/thread.h"

struct ofi_grants {
	struct ofi_nic *nic; /* not owned */
	struct tei_mutex mu; /* lock 24 */
	/* Guarded by mu. */
	struct tei_list regions; /* ofi_shared.link */
	struct tei_list inbound; /* ofi_inbound.link */
};

/* A region that peers may reach. Fields but the lists stay as they are. */
struct ofi_shared {
	struct tei_list link;    /* ofi_grants.regions; guarded by its mu */
	struct tei_list grants;  /* of_region; guarded by ofi_grants.mu */
	struct rdma_range range; /* range.n: all chunks of the region */
	uint64_t rights;
	uint64_t secret; /* of the first one; each next one has 1 more */
};

/* An endpoint that peers reach them by. */
struct ofi_inbound {
	struct tei_list link;   /* ofi_grants.inbound; guarded by its mu */
	struct tei_list grants; /* of_inbound; guarded by ofi_grants.mu */
	struct fid_ep *fid;     /* enabled; not owned */
	uint8_t token[OFI_TOKEN_LEN];
};

void tei_ofi_grants_init(struct ofi_grants *grants, struct ofi_nic *nic);
void tei_ofi_grants_fini(struct ofi_grants *grants); /* nothing is left in it */

/*
 * Makes the keys of a region at every endpoint, now and later, and sets its
 * secret; or of an endpoint, and sets its token. Returns 0, or an error of the
 * provider, of FI_E*, negative, which is not logged: then nothing is made. The
 * memory of regions is registered already, so it does not take long.
 */
int tei_ofi_share(struct ofi_grants *grants, struct ofi_shared *region);
int tei_ofi_admit(struct ofi_grants *grants, struct ofi_inbound *inbound);

/*
 * Takes all its keys back, and has none made any more. -EBUSY: the provider
 * keeps some, logged; to be tried again. Does nothing if there are none.
 */
int tei_ofi_unshare(struct ofi_grants *grants, struct ofi_shared *region);
int tei_ofi_exclude(struct ofi_grants *grants, struct ofi_inbound *inbound);
/* The same, leaving to the provider what it keeps. */
void tei_ofi_forget_region(struct ofi_grants *grants,
			   struct ofi_shared *region);
void tei_ofi_forget_inbound(struct ofi_grants *grants,
			    struct ofi_inbound *inbound);

/* Initialises the lists of either, so that all calls above may be made. */
void tei_ofi_shared_init(struct ofi_shared *region);
void tei_ofi_inbound_init(struct ofi_inbound *inbound);

#endif
