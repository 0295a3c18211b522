/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cohort.h - requests of one submission that begin and time out together
 *
 * Requests that stand side by side in a batch and go to the same life and
 * epoch of one peer with one deadline, and all or none with TE_FAIL_SILENT. What
 * every request would otherwise pay for, an entry in the heap of deadlines and
 * one in the peer's list, is paid once for all of them.
 *
 * A cohort is active from its begin until the last of its requests is final;
 * the batch, and with it the cohort, stays until then and to the end of that
 * round. Threads: filled by submit, then the token.
 */
#ifndef TE_TRANSFER_COHORT_H
#define TE_TRANSFER_COHORT_H

#include <stdint.h>

#include "base/list.h"
#include "te/worker/worker.h"

struct tei_peer;
struct tei_request;

struct tei_cohort {
	struct tei_request *first; /* first[n] */
	uint32_t n, n_live;        /* n_live: not final yet */
	uint64_t begun_at;         /* ns */
	uint64_t doubted_at;       /* ns: its peer was first seen silent */
	struct tei_due due;        /* the deadline, or a look before it */
	struct tei_list of_peer;   /* peer->w.active */
};

/* Begin all of its requests. */
void tei_cohort_begin(struct tei_cohort *cohort);
/* One of its requests has become final. */
void tei_cohort_ended_one(struct tei_cohort *cohort);
/* Those that have begun and are not final; @fn may end any of them. */
void tei_cohort_each(struct tei_cohort *cohort,
		     void (*fn)(struct tei_request *r, int err), int err);

#endif
