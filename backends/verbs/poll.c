/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poll.c - completions to slices
 *
 * A lane's work is done in order, so a completion of success stands for all
 * before it that were not signalled, and an error for those before it as well:
 * they would have failed first. The first error breaks the bundle. What a slice
 * itself did wrong is told at once; all else that comes back is held until the
 * core, which has heard that the endpoint is down, calls flush(). From then on
 * each slice is told when nothing of it is posted any more.
 */
#include "backends/verbs/verbs.h"

#include <errno.h>

#include "base/log.h"

/* ---- slices ---- */

static bool is_readable(struct verbs_regions *regions, const void *addr,
			uint64_t length)
{
	bool readable;

	tei_verbs_regions_lock(regions);
	readable = tei_verbs_is_readable(regions, (uintptr_t)addr, length);
	tei_verbs_regions_unlock(regions);
	return readable;
}

/* The checksum of what has passed; the memory is still the slice's. */
static int take_crc(struct verbs_regions *regions, struct tei_slice *slice)
{
	uint64_t from = slice->skip + slice->crc_from, rest = slice->crc_len;

	for (uint32_t i = 0; i < slice->n_iov && rest; i++) {
		const struct iovec *piece = &slice->iov[i];
		const uint8_t *at;
		uint64_t n;

		if (from >= piece->iov_len) {
			from -= piece->iov_len;
			continue;
		}
		n = piece->iov_len - from;
		if (n > rest)
			n = rest;
		at = (uint8_t *)piece->iov_base + from;
		if (!is_readable(regions, at, n))
			return -EFAULT;
		slice->crc = tei_crc32c_raw(slice->crc, at, n);
		rest -= n;
		from = 0;
	}
	return 0;
}

void tei_verbs_slice_end(struct tei_slice *slice, int err)
{
	struct tei_rail *base = slice->ep->rail;
	struct verbs_rail *rail = verbs_rail(base);

	if (rail->watched == slice)
		rail->watched = NULL;
	if (!err && slice->crc_len)
		err = take_crc(&rail->regions, slice);
	if (err) {
		tei_slice_done(slice, err, 0);
		return;
	}
	if (slice->op == TEI_READ)
		base->received_bytes += slice->length;
	else
		base->sent_bytes += slice->length;
	tei_slice_done(slice, 0, slice->length);
}

static void settle(struct verbs_bundle *bundle, struct tei_slice *slice)
{
	const struct verbs_slice *s = verbs_slice(slice);

	if (s->canceled)
		tei_verbs_slice_end(slice, -ECANCELED);
	else if (!s->waits)
		tei_verbs_slice_end(slice, s->err);
	else if (bundle->flushed)
		tei_verbs_slice_end(slice, bundle->err);
	else
		tei_list_add_tail(&bundle->held, &slice->link);
}

/* ---- work requests ---- */

int tei_verbs_work_end(struct verbs_rail *rail, struct verbs_work *work,
		       bool good)
{
	const struct tei_slice *slice = work->slice;
	int rc = 0;

	for (int i = 0; i < VERBS_USES && work->uses[i]; i++)
		tei_verbs_region_done(work->uses[i]);
	if (!work->block)
		return 0;
	if (work->read && good)
		rc = tei_verbs_bounce_empty(work->block,
					    slice->iov + work->piece,
					    work->in_piece, work->length);
	tei_verbs_bounce_give(&rail->bounce, work->block);
	return rc;
}

/* The oldest of the lane is done; @wc: NULL: with success. */
static void finish(struct verbs_lane *lane, const struct ibv_wc *wc)
{
	struct verbs_work *work = &lane->works[lane->head++ & lane->mask];
	struct tei_slice *slice = work->slice;
	struct verbs_slice *s = verbs_slice(slice);
	int rc;

	rc = tei_verbs_work_end(lane->bundle->rail, work, !wc);
	lane->bytes -= work->length;
	lane->n_reads -= work->read;
	lane->bundle->n_posted--;
	if (wc && !s->err) {
		const struct verbs_cause *cause = tei_verbs_cause(wc->status);

		s->err = cause->slice;
		s->waits = cause->fault != VERBS_FAULT_REQUEST;
		slice->provider_code = (int32_t)wc->status;
	}
	if (rc && !s->err)
		s->err = rc; /* what is left of it is told as that, too */
	if (!--s->n_works && !s->queued)
		settle(lane->bundle, slice);
}

static void fail(struct verbs_lane *lane, const struct ibv_wc *wc)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	const struct verbs_cause *cause = tei_verbs_cause(wc->status);
	struct verbs_bundle *bundle = lane->bundle;

	if (bundle->state != VERBS_BUNDLE_UP)
		return;
	if (tei_log_allowed(&limit))
		LOG_WARN("rail %s: queue pair %u: %s (fault: %s, status %d, "
			 "vendor %u)",
			 bundle->rail->port.name, wc->qp_num, cause->text,
			 tei_verbs_fault_name(cause->fault), (int)wc->status,
			 wc->vendor_err);
	tei_verbs_bundle_break(bundle, cause->endpoint);
}

/* What follows from a completion. */
static void look_after(struct verbs_bundle *bundle)
{
	struct verbs_rail *rail = bundle->rail;

	if (bundle->state == VERBS_BUNDLE_ENDING) {
		if (bundle->n_posted || !bundle->ep)
			return;
		tei_list_del(&bundle->waiting);
		tei_list_add_tail(&rail->drained, &bundle->waiting);
	} else if (!tei_list_empty(&bundle->queue) &&
		   tei_list_empty(&bundle->waiting)) {
		tei_list_add_tail(&rail->waiting, &bundle->waiting);
	}
}

/*
 * A queue may still hold completions of queue pairs that are destroyed: their
 * tag is nobody's, or their number not under way.
 */
static void take(struct verbs_rail *rail, const struct ibv_wc *wc)
{
	uint32_t tag = (uint32_t)(wc->wr_id >> 32);
	uint32_t number = (uint32_t)wc->wr_id;
	struct verbs_lane *lane = rail->tagged[tag % VERBS_TAGS];

	if (!lane || lane->tag != tag ||
	    number - lane->head >= lane->tail - lane->head)
		return;
	while (lane->head != number)
		finish(lane, NULL);
	if (wc->status != IBV_WC_SUCCESS)
		fail(lane, wc);
	finish(lane, wc->status == IBV_WC_SUCCESS ? NULL : wc);
	look_after(lane->bundle);
}

int tei_verbs_poll(struct verbs_rail *rail, int budget)
{
	int n = rail->n_wcs;

	if (rail->cq_dead)
		return -EIO;
	rail->n_wcs = 0;
	if (budget > VERBS_POLL_MAX)
		budget = VERBS_POLL_MAX;
	if (!n)
		n = rail->port.api->poll_cq(rail->cq, budget < 1 ? 1 : budget,
					    rail->wcs);
	if (n < 0) {
		rail->cq_dead = true;
		LOG_ERROR("rail %s: its completion queue is dead",
			  rail->port.name);
		return -EIO;
	}
	for (int i = 0; i < n; i++)
		take(rail, &rail->wcs[i]);
	return n;
}

/* ---- the end ---- */

void tei_verbs_give_up(struct verbs_bundle *bundle)
{
	static const struct ibv_wc lost = {.status = IBV_WC_WR_FLUSH_ERR};
	struct verbs_rail *rail = bundle->rail;

	if (!bundle->n_posted)
		return;
	/* Others will have the room of what the queue still holds of it. */
	while (tei_verbs_poll(rail, VERBS_POLL_MAX) > 0)
		;
	if (bundle->n_posted)
		LOG_DEBUG("rail %s: %u work requests did not come back",
			  rail->port.name, bundle->n_posted);
	for (uint32_t i = 0; i < bundle->n_lanes; i++) {
		struct verbs_lane *lane = &bundle->lanes[i];

		while (lane->head != lane->tail)
			finish(lane, &lost);
	}
	if (!tei_list_empty(&rail->waiting))
		tei_verbs_kick(rail); /* they may have room now */
}
