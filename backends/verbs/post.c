/* SPDX-License-Identifier: Apache-2.0 */
/*
 * post.c - slices to work requests, lane by lane
 *
 * A slice that was taken stands in its bundle's queue until all of it is
 * posted. It is cut where a key of either side ends and where the device has no
 * room for another local piece; each part goes to the lane with the least under
 * way. What is built for a lane is linked and posted with one doorbell; the
 * last of it is signalled, and one in SIGNAL_EVERY before. Local memory that is
 * not registered goes inline or by way of a bounce block.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "backends/verbs/verbs.h"
#include "base/log.h"

/*
 * Table of causes, a row per status of a work completion.
 *
 * An endpoint that goes down with -ESTALE says nothing about the way it used:
 * the core opens another at once. Any error breaks the queue pair, also that of
 * a request which was wrong in itself.
 */

#define ROW(status_, slice_, endpoint_, fault_, text_) \
	[IBV_WC_##status_] = {(slice_), (endpoint_), (fault_), (text_)}

#define NONE    VERBS_FAULT_NONE
#define REQUEST VERBS_FAULT_REQUEST
#define DEVICE  VERBS_FAULT_DEVICE
#define PATH    VERBS_FAULT_PATH
#define PEER    VERBS_FAULT_PEER

static const struct verbs_cause causes[] = {
	ROW(SUCCESS, 0, 0, NONE, "success"),
	ROW(LOC_LEN_ERR, -EMSGSIZE, -ESTALE, REQUEST,
	    "longer than the port allows"),
	ROW(LOC_QP_OP_ERR, -EIO, -EIO, DEVICE,
	    "the device cannot do this work request"),
	ROW(LOC_EEC_OP_ERR, -EIO, -EIO, DEVICE,
	    "end-to-end context of the device failed"),
	ROW(LOC_PROT_ERR, -EFAULT, -ESTALE, REQUEST,
	    "local memory is not registered (any more)"),
	ROW(WR_FLUSH_ERR, -ECONNRESET, -ECONNRESET, NONE,
	    "flushed: its queue pair is in error"),
	ROW(MW_BIND_ERR, -EIO, -EIO, DEVICE, "memory window not bound"),
	ROW(BAD_RESP_ERR, -EPROTO, -EPROTO, PATH,
	    "an answer that fits no request"),
	ROW(LOC_ACCESS_ERR, -EFAULT, -ESTALE, REQUEST,
	    "local memory may not be written"),
	ROW(REM_INV_REQ_ERR, -EREMOTEIO, -EREMOTEIO, PEER,
	    "the peer's device refused the request"),
	ROW(REM_ACCESS_ERR, -EACCES, -ESTALE, REQUEST,
	    "the peer's device refused key, range or access"),
	ROW(REM_OP_ERR, -EREMOTEIO, -EREMOTEIO, PEER,
	    "the peer's device could not do it"),
	ROW(RETRY_EXC_ERR, -ETIMEDOUT, -ETIMEDOUT, PATH,
	    "no acknowledgement: link or peer is gone"),
	ROW(RNR_RETRY_EXC_ERR, -EREMOTEIO, -EREMOTEIO, PEER,
	    "the peer was never ready to receive"),
	ROW(LOC_RDD_VIOL_ERR, -EIO, -EIO, DEVICE,
	    "reliable datagram domain violated"),
	ROW(REM_INV_RD_REQ_ERR, -EREMOTEIO, -EREMOTEIO, PEER,
	    "the peer refused a reliable datagram"),
	ROW(REM_ABORT_ERR, -EREMOTEIO, -EREMOTEIO, PEER,
	    "the peer's device aborted it"),
	ROW(INV_EECN_ERR, -EIO, -EIO, DEVICE, "no such end-to-end context"),
	ROW(INV_EEC_STATE_ERR, -EIO, -EIO, DEVICE,
	    "end-to-end context in a wrong state"),
	ROW(FATAL_ERR, -EIO, -EIO, DEVICE, "fatal error of the device"),
	ROW(RESP_TIMEOUT_ERR, -ETIMEDOUT, -ETIMEDOUT, PATH,
	    "no answer in time"),
	ROW(GENERAL_ERR, -EIO, -EIO, DEVICE, "error of the device"),
	ROW(TM_ERR, -EIO, -EIO, DEVICE, "tag matching failed"),
	ROW(TM_RNDV_INCOMPLETE, -EIO, -EIO, DEVICE,
	    "tag matching did not complete"),
};

static const struct verbs_cause unknown = {-EIO, -EIO, DEVICE,
					   "unknown status"};

const struct verbs_cause *tei_verbs_cause(enum ibv_wc_status status)
{
	size_t place = (size_t)status;

	if (place >= sizeof(causes) / sizeof(causes[0]) || !causes[place].text)
		return &unknown;
	return &causes[place];
}

const char *tei_verbs_fault_name(enum verbs_fault fault)
{
	switch (fault) {
	case NONE:
		return "none";
	case REQUEST:
		return "request";
	case DEVICE:
		return "device";
	case PATH:
		return "path";
	case PEER:
		return "peer";
	}
	return "unknown";
}

/*
 * Completions to slices.
 *
 * A lane's work is done in order, so a completion of success stands for all
 * before it that were not signalled, and an error for those before it as well:
 * they would have failed first. The first error breaks the bundle. What a slice
 * itself did wrong is reported at once; all else that comes back is held until
 * the core, which has heard that the endpoint is down, calls flush(). From then
 * on each slice is reported when nothing of it is posted any more.
 */

/* ---- slices ---- */

void tei_verbs_slice_end(struct tei_slice *slice, int err)
{
	struct verbs_rail *rail = verbs_rail(slice->ep->rail);

	if (rail->watched == slice)
		rail->watched = NULL;
	tei_rdma_slice_end(slice, err, &rail->regions.table);
}

static void end_or_hold(struct verbs_bundle *bundle, struct tei_slice *slice)
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

/*
 * Ends a work request that is not posted any more; @good: the bytes that it
 * reads have come. -EFAULT: the memory to copy them to is unmapped.
 */
static int verbs_work_end(struct verbs_rail *rail, struct verbs_work *work,
			  bool good)
{
	int rc = 0;

	tei_rdma_uses_end(&work->uses);
	if (!work->block.bytes)
		return 0;
	if (work->read && good)
		rc = tei_rdma_block_empty(&work->block, work->slice,
					  work->length);
	tei_bounce_give(&rail->bounce, work->block.bytes);
	return rc;
}

/* Ends the oldest work request of the lane. @wc: its error, or NULL. */
static void finish_work(struct verbs_lane *lane, const struct ibv_wc *wc)
{
	struct verbs_work *work = &lane->works[lane->head++ & lane->mask];
	struct tei_slice *slice = work->slice;
	struct verbs_slice *s = verbs_slice(slice);
	int rc;

	rc = verbs_work_end(lane->bundle->rail, work, !wc);
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
		s->err = rc; /* the rest of it is reported so, too */
	if (!--s->n_works && !s->queued)
		end_or_hold(lane->bundle, slice);
}

static void break_bundle(struct verbs_lane *lane, const struct ibv_wc *wc)
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

/* Goes on after a completion: posts more, or ends what was broken. */
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
static void take_completion(struct verbs_rail *rail, const struct ibv_wc *wc)
{
	uint32_t tag = (uint32_t)(wc->wr_id >> 32);
	uint32_t number = (uint32_t)wc->wr_id;
	struct verbs_lane *lane = rail->tagged[tag % VERBS_TAGS];

	if (!lane || lane->tag != tag ||
	    number - lane->head >= lane->tail - lane->head)
		return;
	while (lane->head != number)
		finish_work(lane, NULL);
	if (wc->status != IBV_WC_SUCCESS)
		break_bundle(lane, wc);
	finish_work(lane, wc->status == IBV_WC_SUCCESS ? NULL : wc);
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
		LOG_ERROR("rail %s: polling its completion queue failed",
			  rail->port.name);
		return -EIO;
	}
	for (int i = 0; i < n; i++)
		take_completion(rail, &rail->wcs[i]);
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
			finish_work(lane, &lost);
	}
	if (!tei_list_empty(&rail->waiting))
		tei_verbs_kick(rail); /* they may have room now */
}

#define SIGNAL_EVERY 16u

enum cut {
	CUT_ONE,    /* a work request was built */
	CUT_NONE,   /* no lane has room, or all blocks are in use */
	CUT_FAILED, /* the slice is out of the queue */
	CUT_GPU,    /* not by the processor: nothing was built */
};

/* ---- what a work request carries ---- */

/* The lane with the least under way that has room; NULL: none has. */
static struct verbs_lane *choose_lane(struct verbs_bundle *bundle, bool read)
{
	struct verbs_lane *best = NULL;

	for (uint32_t i = 0; i < bundle->n_used; i++) {
		struct verbs_lane *lane = &bundle->lanes[i];

		if (lane->tail - lane->head == bundle->depth ||
		    (read && lane->n_reads == bundle->reads_max))
			continue;
		if (!best || lane->bytes < best->bytes)
			best = lane;
	}
	return best;
}

static uint64_t next_piece(const struct tei_slice *slice, uint64_t *addr)
{
	return tei_rdma_piece_at(slice, &verbs_slice(slice)->cursor, addr);
}

static void add_piece(struct ibv_send_wr *wr, struct verbs_work *work,
		      uint64_t addr, uint64_t n, uint32_t lkey)
{
	wr->sg_list[wr->num_sge++] = (struct ibv_sge){
		.addr = addr, .length = (uint32_t)n, .lkey = lkey};
	work->length += (uint32_t)n;
	verbs_slice(work->slice)->cursor.in_piece += n;
}

/* Inline memory is copied by the post: it needs no key, but must be mapped. */
static enum cut gather_inline(struct verbs_rail *rail, uint64_t limit,
			      struct ibv_send_wr *wr, struct verbs_work *work)
	TEI_REQUIRES(rail->regions.table.mu)
{
	while (work->length < limit &&
	       (uint32_t)wr->num_sge < rail->port.room.sge) {
		uint64_t addr, n = next_piece(work->slice, &addr);

		n = tei_rdma_least(n, limit - work->length);
		if (tei_rdma_is_readable(&rail->regions.table, addr, n)) {
			add_piece(wr, work, addr, n, 0);
			continue;
		}
		if (!tei_rdma_is_gpu(&rail->regions.table, addr))
			return CUT_FAILED;
		if (!wr->num_sge)
			return CUT_GPU;
		break; /* the next work request has it */
	}
	wr->send_flags = IBV_SEND_INLINE;
	return CUT_ONE;
}

/* False: it begins with memory that is not registered (any more). */
static bool gather_registered(struct verbs_rail *rail, uint64_t limit,
			      uint32_t max_sge, struct ibv_send_wr *wr,
			      struct verbs_work *work)
	TEI_REQUIRES(rail->regions.table.mu)
{
	while (work->length < limit && (uint32_t)wr->num_sge < max_sge) {
		uint64_t addr, room, n = next_piece(work->slice, &addr);
		struct rdma_region *region =
			tei_rdma_region_find(&rail->regions.table, addr);
		uint32_t lkey;

		if (!region)
			return wr->num_sge > 0;
		if (!tei_rdma_use(&rail->regions.table, &work->uses, region))
			return true;
		lkey = tei_verbs_region_key(region, addr, &room);
		n = tei_rdma_least(tei_rdma_least(n, room),
				   limit - work->length);
		add_piece(wr, work, addr, n, lkey);
	}
	return true;
}

/* Has a block stand in for memory; ring_lane() fills it. */
static enum cut gather_block(struct verbs_rail *rail, uint64_t limit,
			     struct ibv_send_wr *wr, struct verbs_work *work)
	TEI_REQUIRES(rail->regions.table.mu)
{
	uint64_t length;
	int rc = tei_rdma_block_take(&rail->regions.table, &rail->bounce,
				     work->slice,
				     &verbs_slice(work->slice)->cursor, limit,
				     &work->block, &length);

	if (rc)
		return rc == -EAGAIN ? CUT_NONE : CUT_FAILED;
	work->length = (uint32_t)length;
	wr->num_sge = 1;
	wr->sg_list[0] = (struct ibv_sge){.addr = (uintptr_t)work->block.bytes,
					  .length = work->length,
					  .lkey = rail->bounce_mr->lkey};
	return CUT_ONE;
}

/*
 * Adds local memory of the next @limit bytes to @wr, as far as it has room, and
 * moves the slice's place on.
 */
static enum cut gather_pieces(struct verbs_rail *rail, uint64_t inline_max,
			      uint64_t limit, struct ibv_send_wr *wr,
			      struct verbs_work *work)
	TEI_REQUIRES(rail->regions.table.mu)
{
	const struct verbs_room *most = &rail->port.room;
	enum cut how = CUT_GPU;

	if (!work->read && limit <= inline_max)
		how = gather_inline(rail, limit, wr, work);
	if (how != CUT_GPU)
		return how;
	if (!gather_registered(rail, limit,
			       work->read ? most->sge_read : most->sge, wr,
			       work))
		return gather_block(rail, limit, wr, work);
	return CUT_ONE;
}

/* ---- chains ---- */

static void append(struct verbs_rail *rail, struct verbs_lane *lane,
		   struct ibv_send_wr *wr, const struct verbs_work *work)
	TEI_REQUIRES(rail->regions.table.mu)
{
	struct verbs_slice *s = verbs_slice(work->slice);

	wr->wr_id = (uint64_t)lane->tag << 32 | lane->tail;
	lane->works[lane->tail++ & lane->mask] = *work;
	lane->bytes += work->length;
	lane->n_reads += work->read;
	lane->bundle->n_posted++;
	s->at += work->length;
	s->n_works++;
	if (++lane->n_silent == SIGNAL_EVERY) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		lane->n_silent = 0;
	}
	if (lane->first)
		lane->last->next = wr;
	else
		lane->first = wr;
	lane->last = wr;
	rail->n_chain++;
}

/* Takes back what was not taken, from @bad on: as if it had not been built. */
static void take_back(struct verbs_lane *lane, const struct ibv_send_wr *bad,
		      int err)
{
	struct verbs_bundle *bundle = lane->bundle;

	while (lane->tail != (uint32_t)bad->wr_id) {
		struct verbs_work *work =
			&lane->works[--lane->tail & lane->mask];
		struct verbs_slice *s = verbs_slice(work->slice);

		(void)verbs_work_end(bundle->rail, work, false);
		lane->bytes -= work->length;
		lane->n_reads -= work->read;
		bundle->n_posted--;
		s->err = err;
		s->waits = true;
		if (!--s->n_works && !s->queued)
			tei_list_add_tail(&bundle->held, &work->slice->link);
	}
}

/* Copies writes into bounce blocks; without a lock, as it may take long. */
static void fill_blocks(struct verbs_lane *lane)
{
	for (const struct ibv_send_wr *wr = lane->first; wr; wr = wr->next) {
		const struct verbs_work *work =
			&lane->works[(uint32_t)wr->wr_id & lane->mask];

		if (work->block.bytes && !work->read)
			tei_rdma_block_fill(&work->block, work->slice,
					    work->length);
	}
}

/*
 * A device that refuses a work request has lost count: nothing to go on with.
 */
static void ring_lane(struct verbs_bundle *bundle, struct verbs_lane *lane)
{
	struct verbs_rail *rail = bundle->rail;
	struct ibv_send_wr *bad = NULL;
	int rc;

	fill_blocks(lane);
	lane->last->send_flags |= IBV_SEND_SIGNALED;
	lane->n_silent = 0;
	rc = tei_verbs_error(
		rail->port.api->post_send(lane->qp, lane->first, &bad));
	if (rc) {
		LOG_WARN("rail %s: queue pair %u takes no work: %s",
			 rail->port.name, lane->qp->qp_num, strerror(-rc));
		take_back(lane, bad ? bad : lane->first, -EIO);
		tei_verbs_bundle_break(bundle, -EIO);
	}
	lane->first = lane->last = NULL;
}

static void ring(struct verbs_bundle *bundle)
{
	for (uint32_t i = 0; i < bundle->n_used; i++) {
		if (bundle->lanes[i].first)
			ring_lane(bundle, &bundle->lanes[i]);
	}
	bundle->rail->n_chain = 0;
	tei_bounce_tell(&bundle->rail->bounce, bundle->rail->port.name);
}

/* ---- cutting ---- */

static void leave_queue(struct verbs_bundle *bundle, struct tei_slice *slice)
{
	tei_list_del(&slice->link);
	verbs_slice(slice)->queued = false;
	bundle->n_queue--;
}

/* Fails a slice; its work requests that are posted have to come back first. */
static void refuse_slice(struct verbs_bundle *bundle, struct tei_slice *slice,
			 int err)
{
	struct verbs_slice *s = verbs_slice(slice);

	leave_queue(bundle, slice);
	s->err = err;
	if (s->n_works)
		return;
	tei_list_add_tail(&bundle->rail->refused, &slice->link);
	tei_verbs_kick(bundle->rail);
}

static enum cut cut_one(struct verbs_rail *rail, struct verbs_bundle *bundle,
			struct tei_slice *slice)
	TEI_REQUIRES(rail->regions.table.mu)
{
	struct verbs_slice *s = verbs_slice(slice);
	bool read = slice->op == TEI_READ;
	struct verbs_lane *lane = choose_lane(bundle, read);
	struct ibv_send_wr *wr = &rail->chain[rail->n_chain];
	struct verbs_work work = {.slice = slice, .read = read};
	enum cut how;
	uint64_t room;
	uint32_t rkey;

	if (!lane)
		return CUT_NONE;
	if (!tei_verbs_key_at(&s->key, slice->remote + s->at, &rkey, &room)) {
		refuse_slice(bundle, slice, -EFAULT);
		return CUT_FAILED;
	}
	*wr = (struct ibv_send_wr){
		.sg_list = rail->sges[rail->n_chain],
		.opcode = read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.wr.rdma = {.remote_addr = slice->remote + s->at,
			    .rkey = rkey}};
	room = tei_rdma_least(tei_rdma_least(slice->length - s->at, room),
			      rail->port.room.message);
	how = gather_pieces(rail, bundle->inline_max, room, wr, &work);
	if (how == CUT_FAILED)
		refuse_slice(bundle, slice, -EFAULT);
	if (how != CUT_ONE)
		return how;
	append(rail, lane, wr, &work);
	if (s->at == slice->length)
		leave_queue(bundle, slice);
	return CUT_ONE;
}

/* False: there is no room for more. */
static bool build(struct verbs_bundle *bundle)
{
	struct verbs_rail *rail = bundle->rail;
	bool room = true;

	tei_rdma_regions_lock(&rail->regions.table);
	while (room && rail->n_chain < VERBS_CHAIN_MAX &&
	       !tei_list_empty(&bundle->queue)) {
		struct tei_slice *slice = tei_list_entry(
			bundle->queue.next, struct tei_slice, link);

		room = cut_one(rail, bundle, slice) != CUT_NONE;
	}
	tei_rdma_regions_unlock(&rail->regions.table);
	return room;
}

void tei_verbs_pump(struct verbs_bundle *bundle)
{
	bool room = true;

	while (room && bundle->state == VERBS_BUNDLE_UP &&
	       !tei_list_empty(&bundle->queue)) {
		room = build(bundle);
		ring(bundle);
	}
	tei_list_del(&bundle->waiting);
	if (bundle->state == VERBS_BUNDLE_UP && !tei_list_empty(&bundle->queue))
		tei_list_add_tail(&bundle->rail->waiting, &bundle->waiting);
}

/* ---- the ops ---- */

/*
 * Tells whether it can be carried: without blocks, memory that would need one
 * is left to another backend, as are checksums that no processor may compute.
 */
static bool is_carried(struct verbs_rail *rail, const struct tei_slice *slice)
	TEI_REQUIRES(rail->regions.table.mu)
{
	return (rail->bounce.n ||
		tei_rdma_has_all(&rail->regions.table, slice)) &&
	       !tei_rdma_wants_crc_of_gpu(&rail->regions.table, slice);
}

static void enqueue(struct verbs_bundle *bundle, struct tei_slice *slice)
	TEI_REQUIRES(bundle->rail->regions.table.mu)
{
	struct verbs_slice *s = verbs_slice(slice);

	*s = (struct verbs_slice){.cursor = {.in_piece = slice->skip},
				  .queued = true};
	tei_list_add_tail(&bundle->queue, &slice->link);
	bundle->n_queue++;
	if (!is_carried(bundle->rail, slice) ||
	    (slice->op == TEI_READ && !bundle->reads_max))
		refuse_slice(bundle, slice, -EOPNOTSUPP);
	else if (tei_verbs_key_decode(slice->key, slice->key_len, &s->key))
		refuse_slice(bundle, slice, -EFAULT);
}

int tei_verbs_post(struct tei_endpoint *ep, struct tei_slice *const slices[],
		   int n)
{
	struct verbs_bundle *bundle = verbs_endpoint(ep)->bundle;
	int taken = 0;

	if (!bundle || bundle->state != VERBS_BUNDLE_UP)
		return -ECONNRESET;
	tei_rdma_regions_lock(&bundle->rail->regions.table);
	while (taken < n && bundle->n_queue < VERBS_QUEUE_MAX)
		enqueue(bundle, slices[taken++]);
	tei_rdma_regions_unlock(&bundle->rail->regions.table);
	tei_verbs_pump(bundle);
	return taken;
}

/* Posted work cannot be called back, only its queue pair ended: see flush(). */
void tei_verbs_cancel(struct tei_endpoint *ep, struct tei_slice *slice)
{
	struct verbs_bundle *bundle = verbs_endpoint(ep)->bundle;
	struct verbs_rail *rail = bundle->rail;
	struct verbs_slice *s = verbs_slice(slice);

	rail->watched = slice;
	if (s->n_works)
		(void)tei_verbs_poll(rail, VERBS_POLL_MAX);
	if (!rail->watched)
		return; /* it has ended by itself */
	if (s->queued)
		leave_queue(bundle, slice);
	s->canceled = true;
	if (s->n_works) {
		tei_verbs_bundle_break(bundle, -ECANCELED);
		return;
	}
	tei_list_del(&slice->link); /* refused or held */
	tei_verbs_slice_end(slice, -ECANCELED);
}
