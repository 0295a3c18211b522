/* SPDX-License-Identifier: Apache-2.0 */
/*
 * post.c - slices to work requests, lane by lane
 *
 * A slice that was taken stands in its bundle's queue until all of it is posted.
 * It is cut where a key of either side ends and where the device has no room for
 * another local piece; each part goes to the lane with the least under way. What
 * is built for a lane is linked and posted with one doorbell; the last of it is
 * signalled, and one in SIGNAL_EVERY before. Local memory that is not registered
 * goes inline or by way of a bounce block.
 */
#include "backends/verbs/verbs.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mapped.h"

#define SIGNAL_EVERY 16u

enum cut {
	CUT_ONE,    /* a work request was built */
	CUT_NONE,   /* no lane has room, or all blocks are in use */
	CUT_FAILED, /* the slice is out of the queue */
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

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

/* False: it names as many regions as it may. */
static bool add_use(struct verbs_work *work, struct verbs_region *region)
{
	for (int i = 0; i < VERBS_USES; i++) {
		if (work->uses[i] == region)
			return true;
		if (!work->uses[i]) {
			work->uses[i] = region;
			return true;
		}
	}
	return false;
}

/* Bytes of local memory in one piece, from the slice's place on; >= 1. */
static uint64_t piece_at(const struct tei_slice *slice, uint64_t *addr)
{
	struct verbs_slice *s = verbs_slice(slice);

	while (s->in_piece == slice->iov[s->piece].iov_len) {
		s->piece++;
		s->in_piece = 0;
	}
	*addr = (uintptr_t)slice->iov[s->piece].iov_base + s->in_piece;
	return slice->iov[s->piece].iov_len - s->in_piece;
}

static void add_piece(struct ibv_send_wr *wr, struct verbs_work *work,
		      uint64_t addr, uint64_t n, uint32_t lkey)
{
	wr->sg_list[wr->num_sge++] = (struct ibv_sge){
		.addr = addr, .length = (uint32_t)n, .lkey = lkey};
	work->length += (uint32_t)n;
	verbs_slice(work->slice)->in_piece += n;
}

/* It is copied when it is posted: it needs no key, but has to be there. */
static enum cut gather_inline(struct verbs_rail *rail, uint64_t limit,
			      struct ibv_send_wr *wr, struct verbs_work *work)
	TEI_REQUIRES(rail->regions.mu)
{
	while (work->length < limit &&
	       (uint32_t)wr->num_sge < rail->port.room.sge) {
		uint64_t addr, n = piece_at(work->slice, &addr);

		n = least(n, limit - work->length);
		if (!tei_verbs_is_readable(&rail->regions, addr, n))
			return CUT_FAILED;
		add_piece(wr, work, addr, n, 0);
	}
	wr->send_flags = IBV_SEND_INLINE;
	return CUT_ONE;
}

/* False: it begins with memory that is not registered (any more). */
static bool gather_registered(struct verbs_rail *rail, uint64_t limit,
			      uint32_t max_sge, struct ibv_send_wr *wr,
			      struct verbs_work *work)
	TEI_REQUIRES(rail->regions.mu)
{
	while (work->length < limit && (uint32_t)wr->num_sge < max_sge) {
		uint64_t addr, room, n = piece_at(work->slice, &addr);
		struct verbs_region *region =
			tei_verbs_region_find(&rail->regions, addr);
		uint32_t lkey;

		if (!region)
			return wr->num_sge > 0;
		if (!add_use(work, region))
			return true;
		lkey = tei_verbs_region_key(region, addr, &room);
		n = least(least(n, room), limit - work->length);
		add_piece(wr, work, addr, n, lkey);
	}
	return true;
}

/*
 * Up to the next piece that is registered. The copy is made by ring_lane(), of what
 * is seen here to be there.
 */
static enum cut gather_block(struct verbs_rail *rail, uint64_t limit,
			     struct ibv_send_wr *wr, struct verbs_work *work)
	TEI_REQUIRES(rail->regions.mu)
{
	struct verbs_slice *s = verbs_slice(work->slice);
	uint64_t addr, n;

	if (!rail->bounce.n)
		return CUT_FAILED;
	work->block = tei_verbs_bounce_take(&rail->bounce);
	if (!work->block)
		return CUT_NONE;
	work->piece = s->piece;
	work->in_piece = s->in_piece;
	limit = least(limit, VERBS_BLOCK_LEN);
	while (work->length < limit) {
		n = piece_at(work->slice, &addr);
		if (work->length && !s->in_piece &&
		    tei_verbs_region_find(&rail->regions, addr))
			break;
		n = least(n, limit - work->length);
		if (!work->read && !tei_is_there(addr, n, false)) {
			tei_verbs_bounce_give(&rail->bounce, work->block);
			return CUT_FAILED;
		}
		work->length += (uint32_t)n;
		s->in_piece += n;
	}
	wr->num_sge = 1;
	wr->sg_list[0] = (struct ibv_sge){.addr = (uintptr_t)work->block,
					  .length = work->length,
					  .lkey = rail->bounce.mr->lkey};
	return CUT_ONE;
}

/*
 * Local memory of the next @limit bytes into @wr, as far as it has room. The
 * slice's place is moved on.
 */
static enum cut gather(struct verbs_rail *rail, uint64_t inline_max,
		       uint64_t limit, struct ibv_send_wr *wr,
		       struct verbs_work *work) TEI_REQUIRES(rail->regions.mu)
{
	const struct verbs_room *most = &rail->port.room;

	if (!work->read && limit <= inline_max)
		return gather_inline(rail, limit, wr, work);
	if (!gather_registered(rail, limit,
			       work->read ? most->sge_read : most->sge, wr,
			       work))
		return gather_block(rail, limit, wr, work);
	return CUT_ONE;
}

/* ---- chains ---- */

static void append(struct verbs_rail *rail, struct verbs_lane *lane,
		   struct ibv_send_wr *wr, const struct verbs_work *work)
	TEI_REQUIRES(rail->regions.mu)
{
	struct verbs_slice *s = verbs_slice(work->slice);

	for (int i = 0; i < VERBS_USES && work->uses[i]; i++)
		tei_verbs_region_use(&rail->regions, work->uses[i]);
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

/* From @bad on nothing was taken: as if it had not been built. */
static void take_back(struct verbs_lane *lane, const struct ibv_send_wr *bad,
		      int err)
{
	struct verbs_bundle *bundle = lane->bundle;

	while (lane->tail != (uint32_t)bad->wr_id) {
		struct verbs_work *work =
			&lane->works[--lane->tail & lane->mask];
		struct verbs_slice *s = verbs_slice(work->slice);

		(void)tei_verbs_work_end(bundle->rail, work, false);
		lane->bytes -= work->length;
		lane->n_reads -= work->read;
		bundle->n_posted--;
		s->err = err;
		s->waits = true;
		if (!--s->n_works && !s->queued)
			tei_list_add_tail(&bundle->held, &work->slice->link);
	}
}

/* What goes by way of a block; no lock is held, as it may take a while. */
static void fill_blocks(struct verbs_lane *lane)
{
	for (const struct ibv_send_wr *wr = lane->first; wr; wr = wr->next) {
		const struct verbs_work *work =
			&lane->works[(uint32_t)wr->wr_id & lane->mask];

		if (work->block && !work->read)
			tei_verbs_bounce_fill(work->block,
					      work->slice->iov + work->piece,
					      work->in_piece, work->length);
	}
}

static void tell_of_bouncing(struct verbs_rail *rail)
{
	if (rail->bounce.told || rail->bounce.n_free == rail->bounce.n)
		return;
	rail->bounce.told = true;
	LOG_INFO("rail %s: local memory is not registered and so is copied: "
		 "register it for full speed",
		 rail->port.name);
}

/* A device that refuses a work request has lost count: nothing to go on with. */
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
	tell_of_bouncing(bundle->rail);
}

/* ---- cutting ---- */

static void leave_queue(struct verbs_bundle *bundle, struct tei_slice *slice)
{
	tei_list_del(&slice->link);
	verbs_slice(slice)->queued = false;
	bundle->n_queue--;
}

/* It cannot be done; what of it is under way has to come back first. */
static void refuse(struct verbs_bundle *bundle, struct tei_slice *slice,
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
			struct tei_slice *slice) TEI_REQUIRES(rail->regions.mu)
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
		refuse(bundle, slice, -EFAULT);
		return CUT_FAILED;
	}
	*wr = (struct ibv_send_wr){
		.sg_list = rail->sges[rail->n_chain],
		.opcode = read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.wr.rdma = {.remote_addr = slice->remote + s->at,
			    .rkey = rkey}};
	room = least(least(slice->length - s->at, room),
		     rail->port.room.message);
	how = gather(rail, bundle->inline_max, room, wr, &work);
	if (how == CUT_FAILED)
		refuse(bundle, slice, -EFAULT);
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

	tei_verbs_regions_lock(&rail->regions);
	while (room && rail->n_chain < VERBS_CHAIN_MAX &&
	       !tei_list_empty(&bundle->queue)) {
		struct tei_slice *slice = tei_list_entry(
			bundle->queue.next, struct tei_slice, link);

		room = cut_one(rail, bundle, slice) != CUT_NONE;
	}
	tei_verbs_regions_unlock(&rail->regions);
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

/* Whether all of its local memory is registered here. */
static bool is_ours(struct verbs_rail *rail, const struct tei_slice *slice)
	TEI_REQUIRES(rail->regions.mu)
{
	uint64_t rest = slice->length, skip = slice->skip;

	for (uint32_t i = 0; i < slice->n_iov && rest; i++) {
		uint64_t addr = (uintptr_t)slice->iov[i].iov_base + skip;
		uint64_t n = least(slice->iov[i].iov_len - skip, rest);

		rest -= n;
		while (n) {
			const struct verbs_region *region =
				tei_verbs_region_find(&rail->regions, addr);
			uint64_t there;

			if (!region)
				return false;
			there = least(region->base + region->length - addr, n);
			addr += there;
			n -= there;
		}
		skip = 0;
	}
	return true;
}

static void enqueue(struct verbs_bundle *bundle, struct tei_slice *slice)
	TEI_REQUIRES(bundle->rail->regions.mu)
{
	struct verbs_slice *s = verbs_slice(slice);

	*s = (struct verbs_slice){.in_piece = slice->skip, .queued = true};
	tei_list_add_tail(&bundle->queue, &slice->link);
	bundle->n_queue++;
	if ((!bundle->rail->bounce.n && !is_ours(bundle->rail, slice)) ||
	    (slice->op == TEI_READ && !bundle->reads_max))
		refuse(bundle, slice, -EOPNOTSUPP);
	else if (tei_verbs_key_decode(slice->key, slice->key_len, &s->key))
		refuse(bundle, slice, -EFAULT);
}

int tei_verbs_post(struct tei_endpoint *ep, struct tei_slice *const slices[],
		   int n)
{
	struct verbs_bundle *bundle = verbs_endpoint(ep)->bundle;
	int taken = 0;

	if (!bundle || bundle->state != VERBS_BUNDLE_UP)
		return -ECONNRESET;
	tei_verbs_regions_lock(&bundle->rail->regions);
	while (taken < n && bundle->n_queue < VERBS_QUEUE_MAX)
		enqueue(bundle, slices[taken++]);
	tei_verbs_regions_unlock(&bundle->rail->regions);
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
