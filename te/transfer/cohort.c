/* SPDX-License-Identifier: Apache-2.0 */
/* cohort.c - requests that begin and time out together */
#include "te/transfer/cohort.h"

#include <errno.h>

#include "base/clock.h"
#include "te/common/engine.h"
#include "te/transfer/batch.h"
#include "te/transfer/peer.h"
#include "te/transfer/request.h"
#include "te/worker/worker.h"

#define GRACE (10 * TEI_NS_PER_MS) /* for what has come but is not seen yet */

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

/* ---- its end ---- */

/* We ourselves are not silent, only busy. */
static bool heeds_silence(const struct tei_cohort *cohort)
{
	const struct tei_request *first = cohort->first;

	return first->flags & TE_FAIL_SILENT && !first->peer->self;
}

/* Since when nothing has come of its peer. */
static uint64_t silent_since(const struct tei_cohort *cohort)
{
	uint64_t moved = cohort->first->peer->w.moved_at;

	return moved > cohort->begun_at ? moved : cohort->begun_at;
}

static uint64_t patience_of(const struct tei_cohort *cohort)
{
	return cohort->first->peer->engine->config.suspect_after *
	       TEI_NS_PER_MS;
}

/*
 * Looked at twice, with a round of progress in between: it may be that this
 * process was not run for a while.
 */
static bool is_silent(struct tei_cohort *cohort, uint64_t now)
{
	if (!heeds_silence(cohort) ||
	    now - silent_since(cohort) < patience_of(cohort)) {
		cohort->doubted_at = 0;
		return false;
	}
	if (!cohort->doubted_at)
		cohort->doubted_at = now;
	return now - cohort->doubted_at >= GRACE;
}

static uint64_t next_look(const struct tei_cohort *cohort)
{
	uint64_t at = silent_since(cohort) + patience_of(cohort);
	uint64_t deadline = cohort->first->deadline;

	if (cohort->doubted_at)
		at = cohort->doubted_at + GRACE;
	return heeds_silence(cohort) && at < deadline ? at : deadline;
}

static void look(struct tei_due *due)
{
	struct tei_cohort *cohort = TEI_CONTAINER(due, struct tei_cohort, due);
	struct tei_worker *w = cohort->first->peer->engine->worker;

	if (w->now >= cohort->first->deadline)
		tei_cohort_each(cohort, tei_request_abort, -ETIMEDOUT);
	else if (is_silent(cohort, w->now))
		tei_cohort_each(cohort, tei_request_abort, -EHOSTDOWN);
	else /* into the heap that it has just left */
		tei_due_set(w, due, next_look(cohort));
}

/* ---- its beginning ---- */

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
	cohort->begun_at = peer->engine->worker->now;
	cohort->due.fn = look;
	rc = tei_due_set(peer->engine->worker, &cohort->due, next_look(cohort));
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
	tei_due_clear(peer->engine->worker, &cohort->due);
	tei_list_del(&cohort->of_peer);
	if (tei_list_empty(&peer->w.active))
		tei_peer_update_want(peer);
}
