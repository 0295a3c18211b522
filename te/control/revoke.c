/* SPDX-License-Identifier: Apache-2.0 */
/*
 * revoke.c - te_peer_revoke(), te_peer_revoke_wait()
 *
 * Threads: the public calls wait on their callers' threads for closures that
 * run on the control thread and with the drive token.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "te/control/control.h"
#include "te/control/inbound.h"
#include "te/control/peer.h"
#include "te/core/engine.h"
#include "te/transfer/link.h"
#include "te/transfer/transfer.h"
#include "te/worker/worker.h"

#define DEFAULT_MS 2000u

/* A call that revokes: lies on its stack, and in inbound.revokes meanwhile. */
struct revocation {
	struct tei_list link;
	struct tei_call start, own;        /* to control, to the worker */
	struct tei_own_end own_end;        /* its call: back to control */
	struct tei_call forget, forgotten; /* the same, when time is over */
	struct te_engine *engine;
	const uint8_t *incarnation; /* NULL: all */
	bool anew;        /* else what was revoked before is waited for */
	bool own_pending; /* our own links to ourselves are being closed */
	bool forgetting;  /* forget is under way */
	bool abandoned;   /* the caller waits only until nobody has it */
	bool done;        /* guarded by engine->mu */
	struct tei_cond cond;
};

/* Links of an epoch that has ended. Control. */
static bool inbound_has_old_links(const struct tei_inbound_peer *inbound)
{
	uint64_t epoch = atomic_load(&inbound->epoch);

	tei_list_for_each (node, &inbound->links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);

		if (!link->in.is_gone && link->ep.epoch < epoch)
			return true;
	}
	return false;
}

void tei_inbound_peer_settle(struct tei_inbound_peer *inbound)
{
	uint64_t epoch = atomic_load(&inbound->epoch);

	if (inbound->announced_epoch == epoch || inbound_has_old_links(inbound))
		return;
	inbound->announced_epoch = epoch;
	tei_list_for_each (node, &inbound->conns) {
		tei_control_revoked(
			tei_list_entry(node, struct tei_inbound_conn, of_peer),
			epoch);
	}
}

static void raise_epoch(struct tei_inbound_peer *inbound, uint64_t epoch)
{
	atomic_store(&inbound->epoch, epoch);
	tei_list_for_each (node, &inbound->links) {
		tei_inbound_peer_drop_link(
			tei_list_entry(node, struct tei_link, link));
	}
	tei_inbound_peer_settle(inbound);
}

/* ---- those of an incarnation, or everybody ---- */

/*
 * A walk over all, though only few may be meant: an incarnation may have any
 * number of peers, whoever claims it, and is revoked seldom.
 */
struct sweep {
	const uint8_t *incarnation; /* NULL: of any */
	uint64_t highest;
	bool old_links;
};

static bool is_meant(const struct tei_inbound_peer *inbound,
		     const struct sweep *sweep)
{
	return !sweep->incarnation ||
	       !memcmp(inbound->id.incarnation, sweep->incarnation,
		       TE_INCARNATION_LEN);
}

static void find_highest(struct tei_hash_node *node, void *arg)
{
	struct tei_inbound_peer *inbound =
		TEI_CONTAINER(node, struct tei_inbound_peer, node);
	uint64_t epoch = atomic_load(&inbound->epoch);
	struct sweep *sweep = arg;

	if (is_meant(inbound, sweep) && epoch > sweep->highest)
		sweep->highest = epoch;
}

static void raise_one(struct tei_hash_node *node, void *arg)
{
	struct tei_inbound_peer *inbound =
		TEI_CONTAINER(node, struct tei_inbound_peer, node);
	const struct sweep *sweep = arg;

	if (is_meant(inbound, sweep))
		raise_epoch(inbound, sweep->highest);
}

static void look_for_links(struct tei_hash_node *node, void *arg)
{
	const struct tei_inbound_peer *inbound =
		TEI_CONTAINER(node, struct tei_inbound_peer, node);
	struct sweep *sweep = arg;

	if (is_meant(inbound, sweep) && inbound_has_old_links(inbound))
		sweep->old_links = true;
}

static void walk_inbound(struct te_engine *engine, tei_hash_fn *fn,
			 struct sweep *sweep)
{
	size_t cursor = 0;

	while (tei_hash_walk(&engine->control->inbound.table, &cursor, 1024, fn,
			     sweep))
		;
}

void tei_revoke_all(struct te_engine *engine)
{
	struct tei_inbound_peers *g = &engine->control->inbound;
	struct sweep sweep = {.highest = g->floor};

	walk_inbound(engine, find_highest, &sweep);
	sweep.highest++;
	g->floor = sweep.highest;
	walk_inbound(engine, raise_one, &sweep);
}

/* ---- ourselves ---- */

static struct tei_peer *own_peer(struct te_engine *engine)
{
	struct tei_peer *own = NULL;

	tei_mutex_lock(&engine->mu);
	tei_list_for_each (node, &engine->peers) {
		struct tei_peer *peer =
			tei_list_entry(node, struct tei_peer, link);

		if (peer->self)
			own = peer;
	}
	tei_mutex_unlock(&engine->mu);
	return own;
}

static void own_done(struct tei_call *call)
{
	struct revocation *r =
		TEI_CONTAINER(call, struct revocation, own_end.done);

	r->own_pending = false;
	tei_revokes_check(r->engine);
}

/*
 * Stops using the old links, and closes them: right here, unless copies into
 * memory of a GPU are under way. With the token.
 */
static void end_own(struct tei_call *call)
{
	struct revocation *r = TEI_CONTAINER(call, struct revocation, own);
	struct tei_peer *peer = own_peer(r->engine);

	if (peer)
		tei_peer_sync(&peer->works[0]);
	tei_links_close_broken(r->engine->worker);
	tei_own_links_await(r->engine, &r->own_end);
}

static void forgotten(struct tei_call *call)
{
	struct revocation *r =
		TEI_CONTAINER(call, struct revocation, forgotten);

	r->forgetting = r->own_pending = false;
	tei_revokes_check(r->engine);
}

/* Has nobody wait for them any more. With the token, after end_own(). */
static void forget_own(struct tei_call *call)
{
	struct revocation *r = TEI_CONTAINER(call, struct revocation, forget);

	tei_list_del(&r->own_end.link);
	/* Behind own_done(), if that has been posted. */
	tei_loop_post(r->engine->loop, &r->forgotten);
}

static void await_own(struct revocation *r)
{
	r->own_pending = true;
	r->own.fn = end_own;
	r->own_end.done.fn = own_done;
	tei_worker_post(r->engine->worker, &r->own);
}

static void revoke_own(struct revocation *r)
{
	struct tei_inbound_peer *self = &r->engine->control->inbound.self;
	uint64_t epoch = atomic_load(&self->epoch) + 1;
	struct tei_peer *peer;

	atomic_store(&self->epoch, epoch);
	peer = own_peer(r->engine);
	if (peer)
		tei_peer_tell_epoch(peer, epoch);
}

/*
 * Tells whether it is of this engine. By another name than its own an engine is
 * an inbound peer of itself, too.
 */
static bool is_own(const struct revocation *r)
{
	return !r->incarnation ||
	       !memcmp(r->incarnation, r->engine->incarnation,
		       TE_INCARNATION_LEN);
}

/* ---- the call ---- */

static bool is_complete(struct revocation *r)
{
	struct sweep sweep = {.incarnation = r->incarnation};

	if (r->own_pending || r->forgetting)
		return false;
	if (r->abandoned)
		return true;
	walk_inbound(r->engine, look_for_links, &sweep);
	return !sweep.old_links;
}

static void end(struct revocation *r)
{
	struct te_engine *engine = r->engine;

	tei_list_del(&r->link);
	tei_mutex_lock(&engine->mu);
	r->done = true;
	tei_cond_signal(&r->cond); /* under mu: it is on a stack */
	tei_mutex_unlock(&engine->mu);
}

void tei_revokes_check(struct te_engine *engine)
{
	tei_list_for_each_safe (node, tmp, &engine->control->inbound.revokes) {
		struct revocation *r =
			tei_list_entry(node, struct revocation, link);

		if (is_complete(r))
			end(r);
	}
}

/* The one without a secret keeps the epoch for those who come later. */
static void revoke_one(struct te_engine *engine, const uint8_t *incarnation)
{
	struct sweep sweep = {.incarnation = incarnation};
	struct tei_inbound_id bare = {0};

	memcpy(bare.incarnation, incarnation, TE_INCARNATION_LEN);
	if (!tei_inbound_peer_get(engine, &bare)) {
		tei_revoke_all(engine); /* no memory for just one */
		return;
	}
	walk_inbound(engine, find_highest, &sweep);
	sweep.highest++;
	walk_inbound(engine, raise_one, &sweep);
}

static void revoke(struct revocation *r)
{
	struct te_engine *engine = r->engine;

	TEI_COUNT(engine, revocations);
	if (r->incarnation)
		revoke_one(engine, r->incarnation);
	else
		tei_revoke_all(engine);
	if (is_own(r))
		revoke_own(r);
}

static void start_revocation(struct tei_call *call)
{
	struct revocation *r = TEI_CONTAINER(call, struct revocation, start);

	tei_list_add_tail(&r->engine->control->inbound.revokes, &r->link);
	if (r->anew)
		revoke(r);
	if (is_own(r))
		await_own(r);
	tei_revokes_check(r->engine);
}

/* Gives up at the deadline. The worker may hold our call a little longer. */
static void abandon(void *arg)
{
	struct revocation *r = arg;

	if (r->done)
		return; /* only this thread sets it */
	r->abandoned = true;
	if (r->own_pending) {
		r->forgetting = true;
		r->forget.fn = forget_own;
		r->forgotten.fn = forgotten;
		tei_worker_post(r->engine->worker, &r->forget);
	}
	tei_revokes_check(r->engine);
}

static bool await_revocation(struct revocation *r, uint64_t until)
{
	struct te_engine *engine = r->engine;
	bool done;

	tei_mutex_lock(&engine->mu);
	while (!r->done &&
	       tei_worker_await(engine->worker, &r->cond, &engine->mu, until))
		;
	done = r->done;
	tei_mutex_unlock(&engine->mu);
	return done;
}

static int run_revocation(struct revocation *r, uint32_t timeout_ms)
{
	struct te_engine *engine = r->engine;
	uint64_t ms = timeout_ms ? timeout_ms : DEFAULT_MS;
	bool done;

	tei_list_init(&r->link);
	tei_cond_init(&r->cond);
	r->start.fn = start_revocation;
	done = tei_loop_post(engine->loop, &r->start) &&
	       await_revocation(r, tei_now_ns() + ms * TEI_NS_PER_MS);
	if (!done && tei_loop_do(engine->loop, abandon, r)) {
		await_revocation(r, UINT64_MAX);
		done = !r->abandoned;
	}
	tei_cond_fini(&r->cond);
	return done ? 0 : -ETIMEDOUT;
}

int te_peer_revoke(struct te_engine *engine,
		   const uint8_t incarnation[TE_INCARNATION_LEN],
		   uint32_t timeout_ms)
{
	struct revocation r = {
		.engine = engine,
		.incarnation = incarnation,
		.anew = true,
	};

	return tei_engine_alive(engine) ? run_revocation(&r, timeout_ms)
					: -ESTALE;
}

int te_peer_revoke_wait(struct te_engine *engine,
			const uint8_t incarnation[TE_INCARNATION_LEN],
			uint32_t timeout_ms)
{
	struct revocation r = {.engine = engine, .incarnation = incarnation};

	return tei_engine_alive(engine) ? run_revocation(&r, timeout_ms)
					: -ESTALE;
}
