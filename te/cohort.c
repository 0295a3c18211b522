/* SPDX-License-Identifier: Apache-2.0 */
/* cohort.c - requests that begin and time out together */
#include "te/cohort.h"

#include <errno.h>

#include "te/batch.h"
#include "te/engine.h"
#include "te/peer.h"
#include "te/request.h"

void tei_cohort_each(struct tei_cohort *cohort,
		     void (*fn)(struct tei_request *r, int err), int err)
{
	uint32_t i;

	for (i = 0; i < cohort->n && cohort->n_live; i++) {
		struct tei_request *r = &cohort->first[i];

		if (r->begun && !tei_request_is_final(r))
			fn(r, err);
	}
}

static void deadline_passed(struct tei_due *due)
{
	tei_cohort_each(TEI_CONTAINER(due, struct tei_cohort, due),
			tei_request_abort, -ETIMEDOUT);
}

static void refuse_for_memory(struct tei_request *r, int err)
{
	r->provider_code = ENOMEM;
	tei_request_refuse(r, err);
}

/*
 * Also without news: what submit has read under the lock is announced a moment
 * after it was written there.
 */
static bool is_behind(const struct tei_request *r)
{
	const struct tei_peer *peer = r->peer;

	return atomic_load_explicit(&peer->news, memory_order_acquire) !=
		       peer->w.news ||
	       r->life != peer->w.life ||
	       (r->epoch && r->epoch != peer->w.epoch);
}

void tei_cohort_begin(struct tei_cohort *cohort)
{
	struct tei_request *first = cohort->first;
	struct tei_peer *peer = first->peer;
	/* A callback has submitted it while its batch was being cancelled. */
	bool closing = atomic_load_explicit(&first->batch->closing,
					    memory_order_relaxed);
	uint32_t i;
	int rc;

	/* First: it ends the active ones that the news have made stale. */
	if (is_behind(first))
		tei_peer_sync(peer);
	if (peer->self)
		tei_peer_sync_self(peer);
	tei_list_add_tail(&peer->w.active, &cohort->of_peer);
	cohort->due.fn = deadline_passed;
	rc = tei_due_set(&peer->engine->worker, &cohort->due, first->deadline);
	for (i = 0; i < cohort->n; i++) {
		struct tei_request *r = &first[i];

		r->begun = true;
		if (rc)
			refuse_for_memory(r, -EIO);
		else if (closing || atomic_load_explicit(&r->canceled,
							 memory_order_relaxed))
			tei_request_refuse(r, -ECANCELED);
		else
			tei_request_admit(r);
	}
}

void tei_cohort_ended_one(struct tei_cohort *cohort)
{
	struct tei_peer *peer = cohort->first->peer;

	if (--cohort->n_live)
		return;
	tei_due_clear(&peer->engine->worker, &cohort->due);
	tei_list_del(&cohort->of_peer);
	if (tei_list_empty(&peer->w.active))
		tei_peer_update_want(peer);
}
