/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.c - the ops of an endpoint, both halves */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "backends/verbs/verbs.h"
#include "base/log.h"
#include "base/mem.h"

/*
 * The lanes of an endpoint: made, connected, destroyed.
 *
 * A lane of an initiator reserves room for all its work in the rail's
 * completion queue, since flushed work comes back request by request. A
 * target's lanes post nothing.
 */

#define MIN_RNR_TIMER 12 /* 0.64 ms; nobody sends, so it never runs */
#define HOP_LIMIT     64

/* ---- made ---- */

/* Completions name their lane by it; 0 is none. */
static bool tag(struct verbs_rail *rail, struct verbs_lane *lane)
{
	for (uint32_t i = 0; i < VERBS_TAGS; i++) {
		uint32_t next = ++rail->next_tag;

		if (!next || rail->tagged[next % VERBS_TAGS])
			continue;
		rail->tagged[next % VERBS_TAGS] = lane;
		lane->tag = next;
		return true;
	}
	return false;
}

static int make_works(struct verbs_rail *rail, struct verbs_lane *lane)
{
	uint32_t depth = rail->port.offer.depth;

	lane->works = tei_calloc(depth, sizeof(struct verbs_work));
	if (!lane->works)
		return -ENOMEM;
	lane->mask = depth - 1;
	return tag(rail, lane) ? 0 : -ENOBUFS;
}

static int make_queue_pair(struct verbs_rail *rail, struct verbs_lane *lane)
{
	struct verbs_port *port = &rail->port;
	bool target = lane->bundle->target;
	struct ibv_qp_init_attr attr = {
		.qp_context = lane,
		.send_cq = rail->cq,
		.recv_cq = rail->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = target ? 1 : port->offer.depth,
			.max_recv_wr = 1,
			.max_send_sge = target ? 1 : port->room.sge,
			.max_recv_sge = 1,
			.max_inline_data = target ? 0 : port->room.inline_max},
	};

	lane->qp = port->api->create_qp(rail->pd, &attr);
	if (!lane->qp && attr.cap.max_inline_data) {
		/* Some devices have no inline data, and say so only here. */
		attr.cap.max_inline_data = 0;
		lane->qp = port->api->create_qp(rail->pd, &attr);
		if (lane->qp)
			port->room.inline_max = 0;
	}
	if (!lane->qp)
		return tei_verbs_error(-1);
	/* Another lane, or the port's next look, may have wished for more. */
	if (lane->bundle->inline_max > attr.cap.max_inline_data)
		lane->bundle->inline_max = attr.cap.max_inline_data;
	return 0;
}

static int make_lane(struct verbs_rail *rail, struct verbs_bundle *bundle,
		     struct verbs_lane *lane)
{
	int rc = 0;

	lane->bundle = bundle;
	if (getrandom(&lane->psn, sizeof(lane->psn), 0) != sizeof(lane->psn))
		return -EIO;
	lane->psn &= VERBS_NUMBER_MAX;
	if (!bundle->target)
		rc = make_works(rail, lane);
	if (!rc)
		rc = make_queue_pair(rail, lane);
	return rc;
}

static int reserve_completions(struct verbs_bundle *bundle)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct verbs_rail *rail = bundle->rail;
	uint32_t room = rail->port.offer.lanes * rail->port.offer.depth;

	if (bundle->target)
		return 0;
	if (room > rail->room) {
		if (tei_log_allowed(&limit))
			LOG_WARN("rail %s: no room for the completions of "
				 "another endpoint: raise verbs.completions",
				 rail->port.name);
		return -ENOBUFS;
	}
	rail->room -= room;
	bundle->room = room;
	return 0;
}

/* The room that it has reserved is not used any more. Token. */
static void verbs_bundle_give_room(struct verbs_bundle *bundle)
{
	bundle->rail->room += bundle->room;
	bundle->room = 0;
}

static void describe(const struct verbs_bundle *bundle,
		     struct verbs_address *mine)
{
	const struct verbs_port *port = &bundle->rail->port;

	*mine = (struct verbs_address){
		.link = port->link,
		.lid = port->link == VERBS_LINK_IB ? port->attr.lid : 0,
		.gid = port->gid.gid,
		.offer = bundle->offer,
	};
	for (uint32_t i = 0; i < bundle->n_lanes; i++) {
		mine->lanes[i].number = bundle->lanes[i].qp->qp_num;
		mine->lanes[i].psn = bundle->lanes[i].psn;
	}
}

static void verbs_bundle_end(struct verbs_bundle *bundle);

/*
 * Queue pairs for the offer of the port, and what the other half must know.
 * -ENOBUFS: no completions left to reserve. On error nothing stays allocated.
 */
static int verbs_bundle_make(struct verbs_rail *rail, struct tei_endpoint *ep,
			     struct verbs_bundle **out,
			     struct verbs_address *mine)
{
	struct verbs_bundle *bundle = tei_calloc(1, sizeof(*bundle));
	int rc;

	if (!bundle)
		return -ENOMEM;
	bundle->rail = rail;
	bundle->ep = ep;
	bundle->target = ep->target;
	bundle->offer = rail->port.offer;
	bundle->inline_max = rail->port.room.inline_max;
	tei_list_init(&bundle->link);
	tei_list_init(&bundle->waiting);
	tei_list_init(&bundle->queue);
	tei_list_init(&bundle->held);
	rail->n_bundles++;
	rc = reserve_completions(bundle);
	while (!rc && bundle->n_lanes < rail->port.offer.lanes)
		rc = make_lane(rail, bundle, &bundle->lanes[bundle->n_lanes++]);
	if (!rc) {
		describe(bundle, mine);
		*out = bundle;
		return 0;
	}
	LOG_DEBUG("rail %s: queue pair: %s", rail->port.name, strerror(-rc));
	bundle->ep = NULL;
	verbs_bundle_end(bundle);
	return rc;
}

/* ---- connected ---- */

static uint8_t least(uint32_t a, uint32_t b)
{
	return (uint8_t)(a < b ? a : b);
}

/* Agrees on limits with the other half's address; @bundle is MADE. */
static void verbs_bundle_agree(struct verbs_bundle *bundle,
			       const struct verbs_address *theirs)
{
	const struct verbs_port *port = &bundle->rail->port;
	const struct verbs_config *config = port->config;
	struct verbs_offer agreed;

	tei_verbs_agree(&bundle->offer, &theirs->offer, &agreed);
	bundle->n_used = agreed.lanes;
	bundle->depth = agreed.depth;
	/*
	 * A second read waits behind each one, so that polling leaves no gap.
	 */
	bundle->reads_max = 2 * agreed.reads_out;
	bundle->their_mtu = theirs->offer.mtu;
	memcpy(bundle->theirs, theirs->lanes, sizeof(bundle->theirs));
	bundle->way = (struct ibv_qp_attr){
		.path_mtu = tei_verbs_mtu_of(agreed.mtu),
		.max_rd_atomic = (uint8_t)agreed.reads_out,
		.max_dest_rd_atomic = (uint8_t)agreed.reads_in,
		.min_rnr_timer = MIN_RNR_TIMER,
		.timeout = least((uint32_t)config->timeout, 31),
		.retry_cnt = least((uint32_t)config->retries, 7),
		.rnr_retry = 7,
		.pkey_index = (uint16_t)config->pkey_index,
		.port_num = port->number,
		.qp_access_flags = bundle->target
					   ? IBV_ACCESS_REMOTE_READ |
						     IBV_ACCESS_REMOTE_WRITE
					   : 0,
		.ah_attr = {.is_global = 1,
			    .port_num = port->number,
			    .dlid = theirs->lid,
			    .sl = (uint8_t)config->service_level,
			    .grh = {.dgid = theirs->gid,
				    .sgid_index = (uint8_t)port->gid.index,
				    .hop_limit = HOP_LIMIT,
				    .traffic_class =
					    (uint8_t)config->traffic_class}},
	};
}

static int step_lane(const struct verbs_bundle *bundle, struct verbs_lane *lane,
		     struct ibv_qp_attr *attr, enum ibv_qp_state state,
		     int mask)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	int rc;

	if (atomic_load_explicit(&bundle->abandoned, memory_order_relaxed))
		return -ECANCELED;
	attr->qp_state = state;
	rc = tei_verbs_error(bundle->rail->port.api->modify_qp(
		lane->qp, attr, mask | IBV_QP_STATE));
	if (rc && tei_log_allowed(&limit)) /* the peer's numbers may be why */
		LOG_WARN("rail %s: queue pair %u to %s: %s",
			 bundle->rail->port.name, lane->qp->qp_num,
			 state == IBV_QPS_INIT  ? "init"
			 : state == IBV_QPS_RTR ? "ready to receive"
						: "ready to send",
			 strerror(-rc));
	return rc;
}

/*
 * Serving needs no more than ready to receive. What fails here says nothing of
 * the peer, whose control connection works: -ENXIO.
 */
static int connect_lane(const struct verbs_bundle *bundle, uint32_t i,
			struct verbs_lane *lane)
{
	struct ibv_qp_attr attr = bundle->way;
	int rc;

	attr.dest_qp_num = bundle->theirs[i].number;
	attr.rq_psn = bundle->theirs[i].psn;
	attr.sq_psn = lane->psn;
	rc = step_lane(bundle, lane, &attr, IBV_QPS_INIT,
		       IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (!rc)
		rc = step_lane(bundle, lane, &attr, IBV_QPS_RTR,
			       IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN |
				       IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER);
	if (!rc && !bundle->target)
		rc = step_lane(bundle, lane, &attr, IBV_QPS_RTS,
			       IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				       IBV_QP_MAX_QP_RD_ATOMIC);
	return !rc || rc == -ECANCELED ? rc : -ENXIO;
}

int tei_verbs_bundle_connect(struct verbs_bundle *bundle)
{
	int rc = 0;

	for (uint32_t i = 0; i < bundle->n_used && !rc; i++)
		rc = connect_lane(bundle, i, &bundle->lanes[i]);
	return rc;
}

/* ---- ended ---- */

/* All lanes, if one is in error: none serves or sends any more. */
static void stop(struct verbs_bundle *bundle)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	for (uint32_t i = 0; i < bundle->n_lanes; i++) {
		if (bundle->lanes[i].qp) /* a device that is gone refuses */
			(void)bundle->rail->port.api->modify_qp(
				bundle->lanes[i].qp, &attr, IBV_QP_STATE);
	}
}

/* Counts and logs, once, that the queue pairs cannot be destroyed (@err), or
 * can again (0). */
static void set_stuck(struct verbs_bundle *bundle, int err)
{
	struct verbs_rail *rail = bundle->rail;

	if (atomic_load_explicit(&bundle->stuck, memory_order_relaxed) == !!err)
		return;
	atomic_store_explicit(&bundle->stuck, err != 0, memory_order_relaxed);
	if (err) {
		rail->base->stuck_endpoints++;
		LOG_ERROR("rail %s: queue pairs are not destroyed, and what "
			  "they use stays in use: %s",
			  rail->port.name, strerror(-err));
	} else {
		rail->base->stuck_endpoints--;
		LOG_WARN("rail %s: queue pairs are destroyed after all",
			 rail->port.name);
	}
}

/*
 * Tells whether the device was taken out: the kernel then answers EIO for ever,
 * and ends its queue pairs by itself: it has by the second try.
 */
static bool was_taken_out(const struct verbs_bundle *bundle, int err)
{
	return err == -EIO &&
	       atomic_load_explicit(&bundle->rail->gone,
				    memory_order_relaxed) &&
	       atomic_load_explicit(&bundle->stuck, memory_order_relaxed);
}

bool tei_verbs_bundle_destroy(struct verbs_bundle *bundle)
{
	int err = 0;

	stop(bundle);
	for (uint32_t i = 0; i < bundle->n_lanes; i++) {
		struct verbs_lane *lane = &bundle->lanes[i];
		int rc = 0;

		if (lane->qp)
			rc = tei_verbs_error(
				bundle->rail->port.api->destroy_qp(lane->qp));
		if (!rc)
			lane->qp = NULL;
		else if (!was_taken_out(bundle, rc))
			err = rc;
	}
	set_stuck(bundle, err);
	return !err;
}

void tei_verbs_bundle_free(struct verbs_bundle *bundle)
{
	struct verbs_rail *rail = bundle->rail;

	assert(!bundle->n_posted && tei_list_empty(&bundle->queue) &&
	       tei_list_empty(&bundle->held));
	for (uint32_t i = 0; i < bundle->n_lanes; i++) {
		struct verbs_lane *lane = &bundle->lanes[i];

		rail->n_left += lane->qp != NULL;
		if (lane->tag)
			rail->tagged[lane->tag % VERBS_TAGS] = NULL;
		tei_free(lane->works);
	}
	tei_list_del(&bundle->link);
	tei_list_del(&bundle->waiting);
	verbs_bundle_give_room(bundle);
	rail->n_bundles--;
	tei_free(bundle);
}

/*
 * Hands it over to be destroyed; progress() frees it. Nothing of it is posted,
 * or it is flushed. Token.
 */
static void verbs_bundle_end(struct verbs_bundle *bundle)
{
	assert(!bundle->n_posted || bundle->flushed);
	if (!bundle->flushed)
		tei_list_del(&bundle->waiting);
	if (!bundle->n_posted) /* the next one need not wait for that */
		verbs_bundle_give_room(bundle);
	if (bundle->state == VERBS_BUNDLE_CONNECTING) {
		atomic_store_explicit(&bundle->abandoned, true,
				      memory_order_relaxed);
		return; /* ended when it is handed back */
	}
	if (bundle->state == VERBS_BUNDLE_ENDING)
		return;
	tei_list_del(&bundle->link);
	bundle->state = VERBS_BUNDLE_ENDING;
	tei_verbs_hand_over(bundle);
}

void tei_verbs_bundle_break(struct verbs_bundle *bundle, int err)
{
	struct verbs_rail *rail = bundle->rail;

	if (bundle->state != VERBS_BUNDLE_UP || bundle->flushed)
		return;
	bundle->state = VERBS_BUNDLE_BROKEN;
	bundle->err = err;
	tei_list_del(&bundle->waiting);
	tei_list_add_tail(&rail->broken, &bundle->link);
	tei_verbs_kick(rail);
}

int tei_verbs_endpoint_open(struct tei_endpoint *base, void *addr, size_t *len)
{
	struct verbs_rail *rail = verbs_rail(base->rail);
	struct verbs_address mine;
	struct verbs_bundle *bundle;
	int rc;

	if (!rail->link_up)
		return -ENETDOWN;
	rc = tei_verbs_rail_measure(rail);
	if (rc)
		return rc;
	rc = verbs_bundle_make(rail, base, &bundle, &mine);
	if (rc)
		return rc;
	rc = tei_verbs_address_encode(&mine, addr, len);
	if (rc) {
		bundle->ep = NULL;
		verbs_bundle_end(bundle);
		return rc;
	}
	verbs_endpoint(base)->bundle = bundle;
	return 0;
}

int tei_verbs_endpoint_connect(struct tei_endpoint *base, const void *addr,
			       size_t len)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct verbs_rail *rail = verbs_rail(base->rail);
	struct verbs_bundle *bundle = verbs_endpoint(base)->bundle;
	struct verbs_address theirs;
	const char *fault = tei_verbs_address_decode(addr, len, &theirs);

	if (!fault && theirs.link != rail->port.link)
		fault = "another kind of link";
	if (fault) {
		base->rail->bad_frames++;
		if (tei_log_allowed(&limit))
			LOG_WARN("rail %s: a peer's address is refused: %s",
				 rail->port.name, fault);
		return -EPROTO;
	}
	verbs_bundle_agree(bundle, &theirs);
	bundle->state = VERBS_BUNDLE_CONNECTING;
	tei_verbs_hand_over(bundle);
	return -EINPROGRESS;
}

void tei_verbs_endpoint_way(const struct tei_endpoint *base, char *out,
			    size_t room)
{
	const struct verbs_bundle *bundle = verbs_endpoint(base)->bundle;
	const struct verbs_port *port = &bundle->rail->port;
	char here[VERBS_GID_TEXT_LEN], there[VERBS_GID_TEXT_LEN];

	tei_verbs_gid_text(&port->gid.gid, here);
	tei_verbs_gid_text(&bundle->way.ah_attr.grh.dgid, there);
	(void)snprintf(out, room,
		       "GID %u %s to %s, MTU %u (%u here, %u there), %u queue "
		       "pairs",
		       port->gid.index, here, there,
		       tei_verbs_mtu_bytes(bundle->way.path_mtu),
		       bundle->offer.mtu, bundle->their_mtu, bundle->n_used);
}

/* Takes the bundle from its endpoint, which hears nothing of it any more. */
static struct tei_endpoint *part_with(struct verbs_bundle *bundle)
{
	struct tei_endpoint *ep = bundle->ep;

	bundle->ep = NULL;
	verbs_endpoint(ep)->bundle = NULL;
	return ep;
}

void tei_verbs_flushed(struct verbs_bundle *bundle)
{
	verbs_bundle_give_room(bundle);
	tei_endpoint_flushed(part_with(bundle));
}

/* Ends a bundle whose queue pairs are destroyed. */
static void ended(struct verbs_bundle *bundle)
{
	tei_verbs_give_up(bundle);
	if (bundle->ep && bundle->flushed)
		tei_verbs_flushed(bundle);
	else if (bundle->ep && bundle->confirm)
		tei_endpoint_down(part_with(bundle), -ESTALE);
	tei_verbs_bundle_free(bundle);
}

void tei_verbs_handed_back(struct verbs_bundle *bundle)
{
	struct tei_endpoint *ep = bundle->ep;

	if (bundle->state == VERBS_BUNDLE_ENDING) {
		ended(bundle);
		return;
	}
	bundle->state = VERBS_BUNDLE_UP;
	if (atomic_load_explicit(&bundle->abandoned, memory_order_relaxed))
		verbs_bundle_end(bundle);
	else if (bundle->err)
		tei_verbs_bundle_break(bundle, bundle->err);
	else
		tei_endpoint_up(ep);
}

/*
 * The queue pairs are destroyed before it is confirmed: then no driver lets
 * anything more of theirs into memory.
 */
int tei_verbs_drop(struct tei_endpoint *base)
{
	struct verbs_bundle *bundle = verbs_endpoint(base)->bundle;

	if (!bundle)
		return 0;
	bundle->confirm = true;
	verbs_bundle_end(bundle);
	return -EINPROGRESS;
}

/* ---- the end ---- */

static void end_all(struct tei_list *slices, int err)
{
	struct tei_list *node;

	while ((node = tei_list_pop(slices))) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);

		tei_verbs_slice_end(slice, err);
	}
}

static void end_refused(struct tei_endpoint *base, int err)
{
	struct verbs_rail *rail = verbs_rail(base->rail);

	tei_list_for_each_safe (node, tmp, &rail->refused) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);

		if (slice->ep != base)
			continue;
		tei_list_del(node);
		tei_verbs_slice_end(slice, err);
	}
}

/*
 * Ends queued slices; those that are posted in part have to come back first. A
 * slice keeps the error of what it did wrong itself: another endpoint would
 * break by it as well.
 */
static void end_queued(struct verbs_bundle *bundle, int err)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&bundle->queue))) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);
		struct verbs_slice *s = verbs_slice(slice);

		s->queued = false;
		s->waits |= !s->err;
		if (!s->n_works)
			tei_verbs_slice_end(slice, s->waits ? err : s->err);
	}
	bundle->n_queue = 0;
}

/*
 * An initiator with nothing posted is quiet at once; a target only when its
 * queue pairs are destroyed.
 */
static bool is_quiet(const struct verbs_bundle *bundle)
{
	return bundle->state == VERBS_BUNDLE_MADE ||
	       (!bundle->target && !bundle->n_posted);
}

int tei_verbs_flush(struct tei_endpoint *base, int err)
{
	struct verbs_bundle *bundle = verbs_endpoint(base)->bundle;

	end_refused(base, err);
	if (!bundle)
		return 0;
	bundle->flushed = true;
	if (bundle->state != VERBS_BUNDLE_CONNECTING)
		bundle->err = err; /* else the thread sets it */
	if (bundle->state == VERBS_BUNDLE_BROKEN)
		tei_list_del(&bundle->link);
	tei_list_del(&bundle->waiting);
	end_queued(bundle, err);
	end_all(&bundle->held, err);
	if (bundle->n_posted) /* done meanwhile? */
		(void)tei_verbs_poll(bundle->rail, VERBS_POLL_MAX);
	if (is_quiet(bundle))
		return 0;
	tei_list_add_tail(&bundle->rail->flushing, &bundle->waiting);
	verbs_bundle_end(bundle);
	return -EINPROGRESS;
}

static struct verbs_bundle *first_stuck(const struct verbs_rail *rail)
{
	tei_list_for_each (node, &rail->flushing) {
		struct verbs_bundle *bundle =
			tei_list_entry(node, struct verbs_bundle, waiting);

		if (atomic_load_explicit(&bundle->stuck, memory_order_relaxed))
			return bundle;
	}
	return NULL;
}

void tei_verbs_leave_stuck(struct verbs_rail *rail)
{
	struct verbs_bundle *bundle;

	/* Anew each time: others may drain meanwhile. */
	while ((bundle = first_stuck(rail))) {
		if (bundle->n_posted)
			LOG_ERROR("rail %s: memory of %u work requests may "
				  "still be written to",
				  rail->port.name, bundle->n_posted);
		tei_verbs_give_up(bundle);
		tei_list_del(&bundle->waiting); /* or it has drained by that */
		tei_verbs_flushed(bundle);
	}
}

void tei_verbs_endpoint_close(struct tei_endpoint *base)
{
	struct verbs_bundle *bundle = verbs_endpoint(base)->bundle;

	if (!bundle)
		return;
	(void)part_with(bundle);
	verbs_bundle_end(bundle);
}
