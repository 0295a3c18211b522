/* SPDX-License-Identifier: Apache-2.0 */
/* link.c - links: opened, used, broken, dropped; how many a rail may have */
#include "te/transfer/link.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "te/core/engine.h"
#include "te/region/region.h"
#include "te/transfer/health.h"
#include "te/transfer/parts.h"
#include "te/transfer/peer.h"
#include "te/transfer/transfer.h"
#include "te/worker/worker.h"

#define TURN (100 * TEI_NS_PER_MS)

static struct te_engine *engine_of(const struct tei_rail_box *box)
{
	return box->rail.core->engine;
}

static bool is_idle(const struct tei_link *link)
{
	return !link->out.n_posted && !link->out.n_ready;
}

/* ---- who gives way ---- */

void tei_slots_retire(struct tei_link *link)
{
	if (link->out.retiring)
		return;
	link->out.retiring = true;
	link->rail->n_retiring++;
	TEI_COUNT(link->engine, links_retired);
	LOG_DEBUG("peer %s: endpoint %llu on %s retires", link->out.peer->name,
		  (unsigned long long)link->number, link->rail->name);
	tei_slots_idle(link);
}

static bool comes_before(const struct tei_link *a, const struct tei_link *b)
{
	if (is_idle(a) != is_idle(b))
		return is_idle(a);
	if (is_idle(a))
		return a->out.moved_at < b->out.moved_at;
	return a->out.up_at < b->out.up_at;
}

/* NULL: none has had its turn; *again: when the first one will. */
static struct tei_link *next_to_go(const struct tei_rail_box *box,
				   uint64_t *again)
{
	uint64_t now = box->worker->now;
	struct tei_link *first = NULL;

	tei_list_for_each (node, &box->links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, of_rail);
		uint64_t end = link->out.up_at + TURN;

		if (link->ep.target || link->out.state != TEI_LINK_UP ||
		    link->out.retiring)
			continue;
		if (now < end) {
			*again = end < *again ? end : *again;
			continue;
		}
		if (!first || comes_before(link, first))
			first = link;
	}
	return first;
}

static uint64_t limit_of(const struct tei_rail_box *box)
{
	uint64_t limit = engine_of(box)->config.endpoints;
	uint64_t of_rail = box->rail.endpoints;

	return of_rail && of_rail < limit ? of_rail : limit;
}

/* More want an endpoint than there is room for once those that go are gone. */
static bool is_crowded(const struct tei_rail_box *box)
{
	return box->n_out + box->n_waiting > limit_of(box) + box->n_retiring;
}

/* Closes a link for each that waits for its place; later where none may go. */
static void make_room(struct tei_rail_box *box)
{
	struct tei_worker *w = box->worker;
	uint64_t again = UINT64_MAX;

	tei_due_clear(w, &box->turn);
	while (is_crowded(box)) {
		struct tei_link *link = next_to_go(box, &again);

		if (!link)
			break;
		tei_slots_retire(link);
	}
	if (again != UINT64_MAX && is_crowded(box))
		tei_due_set(w, &box->turn, again);
}

static void turn_ended(struct tei_due *due)
{
	make_room(TEI_CONTAINER(due, struct tei_rail_box, turn));
}

void tei_slots_init(struct tei_rail_box *box)
{
	tei_list_init(&box->waiting);
	box->turn.fn = turn_ended;
}

void tei_slots_fini(struct tei_rail_box *box)
{
	tei_due_clear(box->worker, &box->turn);
}

/* The backend has no room for one more, whatever the setting: make some. */
static void slots_short(struct tei_rail_box *box)
{
	uint64_t again = UINT64_MAX;
	struct tei_link *link;

	if (box->n_retiring)
		return;
	link = next_to_go(box, &again);
	if (link)
		tei_slots_retire(link);
}

/* ---- who waits ---- */

/*
 * Tells whether @peer may open an endpoint on @rail now. False: another one is
 * made to give way, and the peer is run when there is room.
 */
static bool slots_let(struct tei_peer_work *peer, uint32_t rail)
{
	struct tei_rail_box *box = peer->worker->rails[rail];
	struct tei_pair *pair = &peer->pairs[rail];

	if (box->n_out < limit_of(box))
		return true;
	if (!tei_list_empty(&pair->slot))
		return false;
	pair->peer = peer;
	tei_list_add_tail(&box->waiting, &pair->slot);
	box->n_waiting++;
	make_room(box);
	return false;
}

/*
 * Runs peers that wait, the first one first; each asks again if it still wants
 * one.
 */
static void run_waiting(struct tei_rail_box *box)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&box->waiting)))
		tei_peer_run(tei_list_entry(node, struct tei_pair, slot)->peer);
	box->n_waiting = 0;
}

static void slots_opened(struct tei_link *link)
{
	link->rail->n_out++;
}

static void slots_up(struct tei_link *link)
{
	link->out.up_at = link->rail->worker->now;
	if (link->rail->n_waiting)
		make_room(link->rail);
}

void tei_slots_idle(struct tei_link *link)
{
	if (link->out.retiring && is_idle(link))
		tei_link_break(link, -ECANCELED);
}

static void slots_closed(struct tei_link *link)
{
	struct tei_rail_box *box = link->rail;

	box->n_out--;
	box->n_retiring -= link->out.retiring;
	run_waiting(box);
}

/* ---- links as initiator: opened, used, broken, dropped ---- */

struct tei_link *tei_link_make(struct te_engine *engine,
			       struct tei_rail_box *rail)
{
	struct tei_link *link;

	link = tei_calloc(1, sizeof(*link) + rail->rail.ops->endpoint_size);
	if (!link)
		return NULL;
	link->engine = engine;
	link->rail = rail;
	link->ep.rail = &rail->rail;
	link->ep.link = link;
	tei_list_init(&link->link);
	tei_list_init(&link->of_rail);
	tei_list_init(&link->broken);
	tei_list_init(&link->out.copying);
	tei_list_init(&link->out.ready);
	tei_list_init(&link->out.posted);
	tei_list_init(&link->out.limbo);
	tei_list_init(&link->out.asked);
	tei_list_init(&link->in.droppers);
	return link;
}

void tei_link_free(struct tei_link *link)
{
	assert(!link || !tei_heap_has(&link->out.due.node));
	assert(!link || !tei_heap_has(&link->out.part.node));
	assert(!link || !tei_heap_has(&link->in.due.node));
	tei_free(link);
}

/* ---- opening ---- */

static void answered(struct tei_call *call);

static void set_up(struct tei_link *link, struct tei_peer_work *peer,
		   struct tei_pair *pair)
{
	struct tei_worker *w = peer->worker;

	link->number = ++w->next_number | (uint64_t)w->index << 56;
	link->out.peer = peer;
	link->out.pair = pair;
	link->out.life = peer->life;
	link->out.remote_pos = pair->remote_pos;
	link->out.remote_rail = pair->remote_rail;
	link->out.state = TEI_LINK_ASKING;
	link->out.moved_at = w->now;
	link->out.due.fn = tei_link_due;
	link->out.ask.fn = link->engine->transfer->messages->connect;
	link->out.answer.fn = answered;
	link->ep.epoch = peer->epoch;
	link->ep.peer = peer->address;
	tei_address_set_port(&link->ep.peer, 0);
}

static void self_connect(struct tei_link *link);

void tei_link_open(struct tei_peer_work *peer, uint32_t rail)
{
	struct te_engine *engine = peer->engine;
	struct tei_rail_box *box = engine->worker->rails[rail];
	const struct tei_backend_ops *ops = box->rail.ops;
	struct tei_pair *pair = &peer->pairs[rail];
	struct tei_link *link;
	int rc = -ENOMEM;

	/* Closing: nobody would close it, with its worker ended. */
	if (box->rail.closing || !slots_let(peer, rail))
		return;
	link = tei_link_make(engine, box);
	if (!link)
		goto fail;
	set_up(link, peer, pair);
	link->out.address_len = TEI_BLOB_MAX;
	rc = ops->endpoint_open(&link->ep, link->out.address,
				&link->out.address_len);
	if (rc)
		goto fail;
	link->open = true;
	tei_list_add_tail(&box->links, &link->of_rail);
	slots_opened(link);
	tei_list_add_tail(&peer->links, &link->link);
	pair->link = link;
	if (peer->self)
		self_connect(link);
	else
		tei_loop_post(engine->loop, &link->out.ask);
	return;

fail:
	tei_link_free(link);
	if (rc == -ENOBUFS)
		slots_short(box);
	tei_health_refused(peer, rail, rc);
}

/* The owner's half is there, or is not to be had. Token. */
static void answered(struct tei_call *call)
{
	struct tei_link *link =
		TEI_CONTAINER(call, struct tei_link, out.answer);
	struct tei_worker *w = link->rail->worker;
	int err = link->out.err;

	link->out.accepted = !err || link->out.unanswered;
	link->out.state = TEI_LINK_CONNECTING;
	if (!err)
		err = link->out.doomed;
	if (!err)
		err = link->ep.rail->ops->endpoint_connect(
			&link->ep, link->out.address, link->out.address_len);
	if (!err) {
		tei_endpoint_up(&link->ep);
		return;
	}
	if (err == -EINPROGRESS)
		err = tei_due_set(w, &link->out.due,
				  w->now +
					  link->engine->config.connect_timeout *
						  TEI_NS_PER_MS);
	if (err)
		tei_link_break(link, err);
}

static void self_connected(struct tei_link *link, int err)
{
	link->out.err = err;
	answered(&link->out.answer);
}

/* The target's half is of use from now on. */
static void has_met(struct tei_link *link)
{
	atomic_store_explicit(&link->in.up, true, memory_order_relaxed);
}

void tei_endpoint_up(struct tei_endpoint *ep)
{
	struct tei_link *link = ep->link;
	struct tei_worker *w = link->rail->worker;

	if (ep->target) {
		tei_due_clear(w, &link->in.due);
		has_met(link);
		return;
	}
	if (link->out.state != TEI_LINK_CONNECTING)
		return;
	link->out.state = TEI_LINK_UP;
	link->out.was_up = true;
	tei_health_overdue(link, false);
	slots_up(link);
	tei_due_clear(w, &link->out.due);
	if (link->out.peer->n_up++)
		tei_links_watch_again(link->out.peer);
	TEI_COUNT(link->engine, links_up);
	LOG_DEBUG("peer %s: endpoint %llu up on %s", link->out.peer->name,
		  (unsigned long long)link->number, link->rail->name);
	tei_peer_run(link->out.peer);
}

void tei_endpoint_down(struct tei_endpoint *ep, int err)
{
	tei_link_break(ep->link, err);
}

/* ---- the end ---- */

void tei_link_break(struct tei_link *link, int why)
{
	struct tei_worker *w = link->rail->worker;

	if (!link->open || link->flushing || !tei_list_empty(&link->broken))
		return;
	if (!link->ep.target && link->out.state == TEI_LINK_ASKING) {
		link->out.doomed = why; /* control has it just now */
		return;
	}
	if (!link->ep.target && link->out.state >= TEI_LINK_BROKEN)
		return; /* it is just being closed */
	link->why = why;
	tei_list_add_tail(&w->broken, &link->broken);
	if (link->ep.target)
		return;
	if (link->out.state == TEI_LINK_UP)
		link->out.peer->n_up--;
	link->out.state = TEI_LINK_BROKEN;
	LOG_DEBUG("peer %s: endpoint %llu on %s: %s", link->out.peer->name,
		  (unsigned long long)link->number, link->rail->name,
		  strerror(-why));
}

/*
 * Flush its endpoint, once. True: that is over. False: it is put into
 * worker.broken again when it is.
 */
static bool link_flush(struct tei_link *link)
{
	int why = link->why ? link->why : -ECANCELED;

	if (!link->flushing) {
		link->flushing = true;
		link->flushed = !link->ep.rail->ops->flush(&link->ep, why);
	}
	return link->flushed;
}

void tei_endpoint_flushed(struct tei_endpoint *ep)
{
	struct tei_link *link = ep->link;

	assert(link->flushing && !link->flushed);
	link->flushed = true;
	if (ep->target && link->in.self_of)
		link = link->in.self_of;
	if (tei_list_empty(&link->broken))
		tei_list_add_tail(&link->rail->worker->broken, &link->broken);
}

/* Returns until when somebody is interested in the drop: the last deadline. */
static uint64_t drop_until(const struct tei_link *link)
{
	uint64_t until = 0;

	tei_list_for_each (node, &link->out.limbo) {
		struct tei_work *work =
			tei_list_entry(node, struct tei_work, of_link);

		if (work->request->deadline > until)
			until = work->request->deadline;
	}
	return until;
}

static void retire(struct tei_link *link)
{
	assert(tei_list_empty(&link->out.limbo));
	tei_list_del(&link->link);
	tei_link_free(link);
}

/* The owner has dropped it, or is not there any more. Token. */
static void dropped(struct tei_call *call)
{
	struct tei_link *link =
		TEI_CONTAINER(call, struct tei_link, out.answer);

	if (!link->out.err) {
		tei_health_blame(link, link->why);
		tei_works_quiet(link);
	} else {
		tei_works_lost(link);
	}
	retire(link);
}

static void ask_drop(struct tei_link *link)
{
	link->out.state = TEI_LINK_DROPPING;
	link->out.drop_until = drop_until(link);
	link->out.ask.fn = link->engine->transfer->messages->drop;
	link->out.answer.fn = dropped;
	TEI_COUNT(link->engine, drops_asked);
	tei_loop_post(link->engine->loop, &link->out.ask);
}

/*
 * Links that end because we or the owner want it so say nothing of the way
 * between them, and may be opened again at once.
 */
static void assess(struct tei_link *link, bool confirms)
{
	bool wanted = link->why == -ESTALE || link->why == -ECANCELED;

	if (!(wanted && link->out.was_up))
		tei_health_hold(link);
	if (!confirms && link->out.peer->up)
		tei_health_blame(link, link->why);
}

/* The owner has a half of it, and its word is needed that it is dropped. */
static bool must_confirm(const struct tei_link *link)
{
	const struct tei_peer_work *peer = link->out.peer;

	return link->out.accepted && !link->out.settled && !peer->self &&
	       link->out.life == peer->life;
}

static void fail_fast(struct tei_link *link)
{
	if (tei_is_lost(link->why))
		tei_peer_fail_fast(link->out.peer, link->why);
}

/* Sends slices that the link has not posted over others, at once. */
static void part_with(struct tei_link *link)
{
	struct tei_worker *w = link->rail->worker;
	struct tei_pair *pair = link->out.pair;

	tei_works_of_broken(link);
	tei_due_clear(w, &link->out.due);
	tei_due_clear(w, &link->out.part);
	if (pair->link == link)
		pair->link = NULL;
	assess(link, must_confirm(link));
	fail_fast(link);
	tei_peer_run(link->out.peer);
}

static bool flush_halves(struct tei_link *link)
{
	struct tei_link *mate = link->out.mate;
	bool flushed = link_flush(link);

	return (!mate || link_flush(mate)) && flushed;
}

static void self_close(struct tei_link *link);
static void own_link_closed(struct te_engine *engine);

static void close_initiator(struct tei_link *link)
{
	bool first = !link->flushing, flushed = flush_halves(link);

	if (first)
		part_with(link);
	if (!flushed)
		return;
	assert(!link->out.n_posted);
	if (!first) /* what has come back since */
		fail_fast(link);
	link->ep.rail->ops->endpoint_close(&link->ep);
	link->open = false;
	tei_list_del(&link->of_rail);
	slots_closed(link);
	TEI_COUNT(link->engine, links_down);
	if (link->out.mate) {
		self_close(link);
		tei_works_quiet(link);
		own_link_closed(link->engine);
	}
	if (must_confirm(link))
		ask_drop(link);
	else
		retire(link);
}

static void target_close(struct tei_link *link);

bool tei_links_close_broken(struct tei_worker *w)
{
	struct tei_list *node;
	bool any = false;

	while ((node = tei_list_pop(&w->broken))) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, broken);

		if (link->ep.target)
			target_close(link);
		else
			close_initiator(link);
		any = true;
	}
	return any;
}

void tei_peer_end_links(struct tei_peer_work *peer)
{
	tei_peer_abort_all(peer, -ECANCELED);
	tei_links_close_broken(peer->worker);
	tei_list_for_each_safe (node, tmp, &peer->links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);

		link->out.accepted = false; /* nobody is left to ask */
		if (!link->open) {
			retire(link);
		} else if (!link->flushing) {
			link->why = -ECANCELED;
			if (link->out.state == TEI_LINK_UP)
				peer->n_up--;
			link->out.state = TEI_LINK_BROKEN;
			close_initiator(link);
		}
	}
}

/* ---- links as target, on the worker's side ---- */

/*
 * Control hands a link over by in.open, gets it back by in.done (open or not)
 * and at last by in.gone. A drop that meets a closed link says so by in.late,
 * so that control frees the link only when no call of it is queued any more.
 */

/* The other half may be slow to come, but not for ever. */
#define CONNECT_STEPS 2

static void never_came(struct tei_due *due)
{
	tei_link_break(TEI_CONTAINER(due, struct tei_link, in.due), -ETIMEDOUT);
}

static int connect_half(struct tei_link *link)
{
	struct tei_worker *w = link->rail->worker;
	int rc;

	rc = link->ep.rail->ops->endpoint_connect(&link->ep, link->in.address,
						  link->in.address_len);
	if (!rc)
		has_met(link);
	if (rc != -EINPROGRESS)
		return rc;
	link->in.due.fn = never_came;
	return tei_due_set(
		w, &link->in.due,
		w->now + CONNECT_STEPS * link->engine->config.connect_timeout *
				 TEI_NS_PER_MS);
}

/* Closes this half of a link that is flushed. */
static void close_half(struct tei_link *link)
{
	link->ep.rail->ops->endpoint_close(&link->ep);
	link->open = false;
	if (!link->in.self_of)
		link->rail->worker->n_inbound--;
	tei_list_del(&link->of_rail);
	tei_list_del(&link->broken);
	tei_due_clear(link->rail->worker, &link->in.due);
}

static int target_open_half(struct tei_link *link)
{
	uint8_t mine[TEI_BLOB_MAX];
	size_t len = sizeof(mine);
	int rc;

	if (link->rail->dead)
		return -EIO;
	link->ep.target = true;
	rc = link->ep.rail->ops->endpoint_open(&link->ep, mine, &len);
	if (rc)
		return rc;
	link->open = true;
	if (!link->in.self_of)
		link->rail->worker->n_inbound++;
	tei_list_add_tail(&link->rail->links, &link->of_rail);
	rc = connect_half(link);
	if (rc) {
		bool flushed = link_flush(link);

		assert(flushed); /* it never was connected */
		close_half(link);
		return rc;
	}
	memcpy(link->in.address, mine, len);
	link->in.address_len = len;
	return 0;
}

void tei_target_open(struct tei_call *call)
{
	struct tei_link *link = TEI_CONTAINER(call, struct tei_link, in.open);

	link->in.err = target_open_half(link);
	tei_loop_post(link->engine->loop, &link->in.done);
}

void tei_target_drop(struct tei_call *call)
{
	struct tei_link *link = TEI_CONTAINER(call, struct tei_link, in.drop);
	int rc;

	if (!link->open) {
		tei_loop_post(link->engine->loop, &link->in.late);
		return;
	}
	atomic_store_explicit(&link->in.drop_ran, true, memory_order_relaxed);
	if (link->flushing)
		return; /* closed soon, which says the same */
	rc = link->ep.rail->ops->drop(&link->ep);
	if (rc != -EINPROGRESS)
		tei_link_break(link, rc ? rc : -ESTALE);
}

static void target_close_half(struct tei_link *link)
{
	if (link->open)
		close_half(link);
}

static void target_close(struct tei_link *link)
{
	if (link->in.self_of) {
		tei_link_break(link->in.self_of, link->why);
		return;
	}
	if (!link_flush(link))
		return;
	LOG_DEBUG("inbound peer: endpoint %llu on %s: %s",
		  (unsigned long long)link->number, link->rail->name,
		  strerror(-link->why));
	close_half(link);
	tei_loop_post(link->engine->loop, &link->in.gone);
}

/* Tells, as target, whether the epoch it was opened for still holds. */
static bool link_epoch_holds(const struct tei_link *link)
{
	return link->ep.epoch == atomic_load(link->in.epoch_now);
}

/* ---- both halves are ours ---- */

static int open_mate(struct tei_link *link, struct tei_link *mate)
{
	struct te_engine *engine = link->engine;
	int rc;

	mate->in.epoch_now = engine->transfer->own_epoch;
	mate->in.self_of = link;
	mate->number = link->number;
	mate->ep.epoch = link->ep.epoch;
	atomic_init(&mate->groups, ~(tei_group_mask)0);
	mate->in.address_len = link->out.address_len;
	memcpy(mate->in.address, link->out.address, link->out.address_len);
	rc = target_open_half(mate);
	if (rc)
		return rc;
	link->out.address_len = mate->in.address_len;
	memcpy(link->out.address, mate->in.address, mate->in.address_len);
	return 0;
}

static void self_connect(struct tei_link *link)
{
	struct tei_link *mate = tei_link_make(link->engine, link->rail);
	int rc = -ENOMEM;

	if (mate) {
		rc = open_mate(link, mate);
		if (rc)
			tei_link_free(mate);
		else
			link->out.mate = mate;
	}
	self_connected(link, rc);
}

static bool is_being_closed(const struct te_engine *engine)
{
	const struct tei_worker *w = engine->worker;

	/* Rails of the engine to itself are the first worker's. */
	for (uint32_t i = 0; i < w->n_own; i++) {
		tei_list_for_each (node, &w->own[i]->links) {
			const struct tei_link *link =
				tei_list_entry(node, struct tei_link, of_rail);

			if (!link->ep.target && link->out.mate &&
			    link->flushing)
				return true;
		}
	}
	return false;
}

static void own_link_closed(struct te_engine *engine)
{
	struct tei_list *ends = &engine->transfer->own_ends, *node;

	if (tei_list_empty(ends) || is_being_closed(engine))
		return;
	while ((node = tei_list_pop(ends)))
		tei_loop_post(
			engine->loop,
			&tei_list_entry(node, struct tei_own_end, link)->done);
}

void tei_own_links_await(struct te_engine *engine, struct tei_own_end *end)
{
	tei_list_init(&end->link);
	tei_list_add_tail(&engine->transfer->own_ends, &end->link);
	own_link_closed(engine);
}

static void self_close(struct tei_link *link)
{
	struct tei_link *mate = link->out.mate;

	link->out.mate = NULL;
	target_close_half(mate);
	tei_link_free(mate);
}

/* ---- whether a peer may touch a range, and that it just does ---- */

static int check_pin(const struct tei_region *region, struct tei_link *link,
		     const void *key, size_t key_len, uint32_t access)
{
	const struct tei_key *right = region->key[link->rail->rail.index];

	if (!right || key_len != right->len ||
	    memcmp(key, right->bytes, key_len))
		return -EFAULT;
	if (region->group >= 0 &&
	    !(atomic_load_explicit(&link->groups, memory_order_relaxed) >>
		      region->group &
	      1))
		return -EACCES;
	if (access & ~region->access)
		return -EACCES;
	if (!link_epoch_holds(link))
		return -ESTALE;
	return 0;
}

struct tei_mutex *tei_link_pin_lock(const struct tei_link *link)
{
	struct tei_regions *r = link->engine->regions;

	return &r->pin_locks[link->rail->worker->index].mu;
}

int tei_region_pin(struct tei_endpoint *ep, const void *key, size_t key_len,
		   uint64_t address, uint64_t length, uint32_t access,
		   void **local, uint64_t *pin)
{
	struct tei_link *link = ep->link;
	struct tei_regions *r = link->engine->regions;
	struct tei_mutex *mu = tei_link_pin_lock(link);
	struct tei_region *region;
	bool doubted = false, copied = false;
	int rc = -EFAULT;

	tei_mutex_lock(mu);
	region = tei_regions_find(r, address);
	if (region && length <= region->length &&
	    address - region->addr <= region->length - length)
		rc = check_pin(region, link, key, key_len, access);
	if (!rc) {
		region->pins[link->rail->worker->index].n++;
		link->n_pins++;
		doubted = atomic_load_explicit(&region->doubted,
					       memory_order_relaxed);
		copied = tei_region_is_copied(region, ep->rail);
	}
	tei_mutex_unlock(mu);
	if (doubted &&
	    !tei_is_usable(address, length, access & TE_ACCESS_REMOTE_WRITE)) {
		tei_region_unpin(ep, (uintptr_t)region);
		rc = -EFAULT;
	}
	if (rc) {
		TEI_COUNT(link->engine, refused_pins);
		return rc;
	}
	*local = (void *)(uintptr_t)address;
	*pin = (uintptr_t)region;
	return copied ? TEI_PIN_COPIED : 0;
}

void tei_region_unpin(struct tei_endpoint *ep, uint64_t pin)
{
	struct tei_region *region = (struct tei_region *)(uintptr_t)pin;
	struct tei_link *link = ep->link;
	struct tei_region_pins *pins = &region->pins[link->rail->worker->index];
	struct tei_mutex *mu = tei_link_pin_lock(link);
	bool awaited;

	tei_mutex_lock(mu);
	assert(pins->n && link->n_pins);
	pins->n--;
	link->n_pins--;
	awaited = !pins->n && !region->shown;
	tei_mutex_unlock(mu);
	if (awaited) /* the region may be gone by now */
		tei_regions_unpinned(link->engine->regions);
}

void tei_region_doubt(struct tei_endpoint *ep, uint64_t pin)
{
	struct tei_region *region = (struct tei_region *)(uintptr_t)pin;

	(void)ep;
	if (!atomic_exchange_explicit(&region->doubted, true,
				      memory_order_relaxed))
		LOG_WARN("region 0x%" PRIx64 " of %" PRIu64
			 " bytes: some of its memory is not there any more: "
			 "peers that need it get EFAULT",
			 region->addr, region->length);
}
