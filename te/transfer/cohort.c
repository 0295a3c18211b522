/* SPDX-License-Identifier: Apache-2.0 */
/* cohort.c - requests that begin and time out together, and how they part */
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "te/core/engine.h"
#include "te/transfer/link.h"
#include "te/transfer/peer.h"
#include "te/transfer/request.h"
#include "te/worker/worker.h"

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

struct tei_request *tei_cohort_resting(const struct tei_cohort *cohort)
{
	for (uint32_t i = 0; i < cohort->n; i++)
		if (!tei_request_is_final(&cohort->first[i]) &&
		    tei_request_rests(&cohort->first[i]))
			return &cohort->first[i];
	return NULL;
}

bool tei_cohort_is_at_rest(const struct tei_cohort *cohort)
{
	for (uint32_t i = 0; i < cohort->n; i++)
		if (!tei_request_is_final(&cohort->first[i]) &&
		    !tei_request_rests(&cohort->first[i]))
			return false;
	return true;
}

struct tei_cohort *tei_cohort_cut(struct tei_cohort *cohort, uint32_t n)
{
	struct tei_request *first = &cohort->first[n];
	struct tei_cohort *rest = &first->batch->cohorts[first->index];

	*rest = (struct tei_cohort){.first = first,
				    .n = cohort->n - n,
				    .begun_at = cohort->begun_at,
				    .doubted_at = cohort->doubted_at,
				    .at = atomic_load(&cohort->at),
				    .moves_since = cohort->moves_since,
				    .n_moves = cohort->n_moves};
	tei_list_init(&rest->of_peer);
	for (uint32_t i = 0; i < rest->n; i++) {
		rest->n_live += !tei_request_is_final(&first[i]);
		atomic_store_explicit(&first[i].cohort, rest,
				      memory_order_release);
	}
	cohort->n = n;
	cohort->n_live -= rest->n_live;
	return rest;
}

/* ---- moves to other workers ---- */

#define MOVES_MAX 64u /* in a second: workers may differ for a moment */

bool tei_cohort_may_move(const struct tei_cohort *cohort, uint64_t now)
{
	return cohort->n_moves < MOVES_MAX ||
	       now >= cohort->moves_since + TEI_NS_PER_S;
}

void tei_cohort_count_move(struct tei_cohort *cohort, uint64_t now)
{
	if (now >= cohort->moves_since + TEI_NS_PER_S) {
		cohort->moves_since = now;
		cohort->n_moves = 0;
	}
	cohort->n_moves++;
	cohort->doubted_at = 0;
}

/* ---- whether its peer is silent ---- */

#define GRACE (10 * TEI_NS_PER_MS) /* for what has come but is not seen yet */

/* Returns when something last came of the owner, to any worker, in ns. */
static uint64_t last_moved_at(const struct tei_peer_work *peer)
{
	uint64_t last = 0;

	for (uint32_t i = 0; i < peer->engine->n_workers; i++) {
		uint64_t at = atomic_load_explicit(&peer->of->works[i].moved_at,
						   memory_order_relaxed);

		last = at > last ? at : last;
	}
	return last;
}

/* Leaves this engine itself out: it is never silent, only busy. */
static bool heeds_silence(const struct tei_cohort *cohort)
{
	const struct tei_request *first = cohort->first;

	return first->flags & TE_FAIL_SILENT && !first->peer->self;
}

/* Tells whether it owes nothing yet: all that is for it waits for copies. */
static bool is_kept_waiting(const struct tei_peer_work *peer)
{
	bool copying = !tei_list_empty(&peer->starving);

	tei_list_for_each (node, &peer->links) {
		const struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);

		if (link->out.n_posted)
			return false;
		copying |= !tei_list_empty(&link->out.copying);
	}
	return copying;
}

/* Returns since when nothing has come of its peer, which owes something. */
static uint64_t silent_since(const struct tei_cohort *cohort)
{
	const struct tei_peer_work *peer = cohort->first->peer;
	uint64_t moved = last_moved_at(peer);

	if (moved < cohort->begun_at)
		moved = cohort->begun_at;
	/* Rounds of other workers may have begun after this one. */
	if (is_kept_waiting(peer) || moved > peer->worker->now)
		moved = peer->worker->now;
	return moved;
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
bool tei_cohort_is_silent(struct tei_cohort *cohort, uint64_t now)
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

uint64_t tei_cohort_next_look(const struct tei_cohort *cohort)
{
	uint64_t deadline = cohort->first->deadline, at;

	if (!heeds_silence(cohort))
		return deadline;
	at = cohort->doubted_at ? cohort->doubted_at + GRACE
				: silent_since(cohort) + patience_of(cohort);
	return at < deadline ? at : deadline;
}
