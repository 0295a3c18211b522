/* SPDX-License-Identifier: Apache-2.0 */
/* inbound_peer.c - the table of guests, and their links' way through it */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/frame.h"
#include "base/log.h"
#include "base/mem.h"
#include "te/common/engine.h"
#include "te/control/control.h"
#include "te/control/inbound.h"
#include "te/control/peer.h"
#include "te/notify/inbox.h"
#include "te/region/region.h"
#include "te/transfer/link.h"
#include "te/transfer/transfer.h"
#include "te/worker/worker.h"

static void guest_init(struct tei_guest *guest, const uint8_t *incarnation,
		       uint64_t epoch)
{
	memcpy(guest->incarnation, incarnation, TE_INCARNATION_LEN);
	atomic_init(&guest->epoch, epoch);
	guest->told = epoch;
	tei_list_init(&guest->links);
	tei_list_init(&guest->visitors);
	tei_list_init(&guest->absent);
}

int tei_guests_init(struct te_engine *engine)
{
	struct tei_guests *g = &engine->control->guests;

	g->floor = TEI_EPOCH_FIRST;
	tei_list_init(&g->visitors);
	tei_list_init(&g->absent);
	tei_list_init(&g->revokes);
	guest_init(&g->self, engine->incarnation, g->floor);
	engine->transfer->own_epoch = &g->self.epoch;
	if (tei_random(&g->seed, sizeof(g->seed)))
		return -EIO;
	return tei_hash_init(&g->table);
}

/* Strangers choose incarnations; the seed is one they cannot choose. */
static uint64_t hash_of(const struct te_engine *engine,
			const uint8_t *incarnation)
{
	return XXH3_64bits_withSeed(incarnation, TE_INCARNATION_LEN,
				    engine->control->guests.seed);
}

struct tei_guest *tei_guest_find(struct te_engine *engine,
				 const uint8_t incarnation[TE_INCARNATION_LEN])
{
	struct tei_hash_node *node;

	node = tei_hash_first(&engine->control->guests.table,
			      hash_of(engine, incarnation));
	for (; node;
	     node = tei_hash_next(&engine->control->guests.table, node)) {
		struct tei_guest *guest =
			TEI_CONTAINER(node, struct tei_guest, node);

		if (!memcmp(guest->incarnation, incarnation,
			    TE_INCARNATION_LEN))
			return guest;
	}
	return NULL;
}

static void guest_free(struct te_engine *engine, struct tei_guest *guest)
{
	struct tei_guests *g = &engine->control->guests;

	if (!tei_list_empty(&guest->absent))
		g->n_absent--;
	tei_list_del(&guest->absent);
	if (guest->taken)
		g->n_losses++;
	tei_account_leave(engine->inbox, guest->account);
	tei_hash_remove(&g->table, &guest->node);
	tei_free(guest);
}

static bool is_here(const struct tei_guest *guest)
{
	/* Not n_links: a link that is gone may still await its last call. */
	return !tei_list_empty(&guest->links) ||
	       !tei_list_empty(&guest->visitors);
}

static void forget(struct tei_hash_node *node, void *arg)
{
	struct te_engine *engine = arg;
	struct tei_guest *guest = TEI_CONTAINER(node, struct tei_guest, node);

	if (!is_here(guest))
		guest_free(engine, guest);
}

/*
 * Too many guests that were revoked and left. Above the new floor there is
 * nobody, so who comes back is not given an epoch that was ended.
 */
static void make_room(struct te_engine *engine)
{
	size_t cursor = 0;

	LOG_WARN("engine %s: %u guests remembered, their epochs are ended",
		 engine->name, TEI_GUESTS_MAX);
	tei_revoke_all(engine);
	while (tei_hash_walk(&engine->control->guests.table, &cursor, 1024,
			     forget, engine))
		;
}

struct tei_guest *tei_guest_get(struct te_engine *engine,
				const uint8_t incarnation[TE_INCARNATION_LEN])
{
	struct tei_guest *guest = tei_guest_find(engine, incarnation);

	if (guest)
		return guest;
	if (engine->control->guests.table.n_nodes >= TEI_GUESTS_MAX)
		make_room(engine);
	guest = tei_calloc(1, sizeof(*guest));
	if (!guest)
		return NULL;
	guest_init(guest, incarnation, engine->control->guests.floor);
	tei_hash_insert(&engine->control->guests.table, &guest->node,
			hash_of(engine, incarnation));
	return guest;
}

/* Strangers can make many: those who left first are forgotten then. */
static void remember(struct te_engine *engine, struct tei_guest *guest)
{
	struct tei_guests *g = &engine->control->guests;
	struct tei_guest *first;

	tei_list_add_tail(&g->absent, &guest->absent);
	if (++g->n_absent <= TEI_ABSENT_MAX)
		return;
	first = tei_list_entry(g->absent.next, struct tei_guest, absent);
	if (atomic_load(&first->epoch) == g->floor) {
		guest_free(engine, first);
	} else { /* revoked since: that must not be forgotten */
		tei_list_del(&first->absent);
		g->n_absent--;
	}
}

void tei_guest_release(struct te_engine *engine, struct tei_guest *guest)
{
	if (is_here(guest) || guest == &engine->control->guests.self ||
	    atomic_load(&guest->epoch) != engine->control->guests.floor ||
	    !tei_list_empty(&guest->absent))
		return;
	if (guest->taken)
		remember(engine, guest);
	else
		guest_free(engine, guest);
}

void tei_guest_came(struct tei_visitor *visitor, struct tei_guest *guest)
{
	visitor->guest = guest;
	tei_list_add_tail(&guest->visitors, &visitor->of_guest);
	if (tei_list_empty(&guest->absent))
		return;
	tei_list_del(&guest->absent);
	visitor->engine->control->guests.n_absent--;
}

/* ---- links ---- */

struct tei_link *tei_guest_link(struct tei_guest *guest, uint64_t number)
{
	tei_list_for_each (node, &guest->links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);

		if (link->number == number && !link->in.is_gone)
			return link;
	}
	return NULL;
}

void tei_guest_drop_link(struct tei_link *link)
{
	if (link->in.dropping || link->in.is_gone)
		return;
	link->in.dropping = true;
	tei_worker_post(link->engine->worker, &link->in.drop);
}

static void link_free(struct tei_link *link)
{
	tei_list_del(&link->link);
	tei_link_free(link);
}

static void end_droppers(struct tei_link *link)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&link->in.droppers))) {
		struct tei_dropper *dropper =
			tei_list_entry(node, struct tei_dropper, link);

		if (dropper->visitor)
			tei_control_dropped(dropper->visitor, dropper->id);
		tei_free(dropper);
	}
}

/* Nothing can come by it any more: whoever waited for that is told. */
static void is_gone(struct tei_link *link)
{
	struct te_engine *engine = link->engine;
	struct tei_guest *guest = link->in.guest;

	link->in.is_gone = true;
	guest->n_links--;
	TEI_COUNT(engine, drops_served);
	tei_guest_settle(guest);
	end_droppers(link);
	tei_revokes_check(engine);
	/* A drop that is still queued will say so by late. */
	if (!link->in.dropping ||
	    atomic_load_explicit(&link->in.drop_ran, memory_order_relaxed)) {
		link_free(link);
		tei_guest_release(engine, guest);
	}
}

void tei_guest_link_gone(struct tei_call *call)
{
	is_gone(TEI_CONTAINER(call, struct tei_link, in.gone));
}

void tei_guest_link_late(struct tei_call *call)
{
	struct tei_link *link = TEI_CONTAINER(call, struct tei_link, in.late);
	struct te_engine *engine = link->engine;
	struct tei_guest *guest = link->in.guest;

	link_free(link);
	tei_guest_release(engine, guest);
}

void tei_guest_link_done(struct tei_call *call)
{
	struct tei_link *link = TEI_CONTAINER(call, struct tei_link, in.done);

	tei_control_connected(link);
	if (link->in.err)
		is_gone(link);
}

void tei_guest_update_groups(struct tei_visitor *visitor)
{
	tei_list_for_each (node, &visitor->guest->links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);

		if (link->in.visitor == visitor)
			atomic_store_explicit(&link->groups, visitor->groups,
					      memory_order_relaxed);
	}
}

void tei_guest_visitor_left(struct tei_visitor *visitor)
{
	tei_list_for_each (node, &visitor->guest->links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);

		if (link->in.visitor == visitor)
			link->in.visitor = NULL;
		tei_list_for_each (at, &link->in.droppers) {
			struct tei_dropper *dropper =
				tei_list_entry(at, struct tei_dropper, link);

			if (dropper->visitor == visitor)
				dropper->visitor = NULL;
		}
	}
}

/* ---- a group whose place will be another one's ---- */

struct forgetting {
	struct te_engine *engine;
	tei_group_mask keep;
};

static void forget_of_guest(struct tei_hash_node *node, void *arg)
{
	struct tei_guest *guest = TEI_CONTAINER(node, struct tei_guest, node);
	const struct forgetting *f = arg;

	tei_list_for_each (at, &guest->links) {
		struct tei_link *link =
			tei_list_entry(at, struct tei_link, link);

		atomic_fetch_and_explicit(&link->groups, f->keep,
					  memory_order_relaxed);
	}
}

static void forget_group(void *arg)
{
	struct forgetting *f = arg;
	struct tei_guests *g = &f->engine->control->guests;
	size_t cursor = 0;

	tei_list_for_each (node, &g->visitors) {
		tei_list_entry(node, struct tei_visitor, link)->groups &=
			f->keep;
	}
	while (tei_hash_walk(&g->table, &cursor, 1024, forget_of_guest, f))
		;
}

void tei_guests_forget_group(struct te_engine *engine, unsigned int place)
{
	struct forgetting f = {engine, ~((tei_group_mask)1 << place)};

	/* False: the engine is being destroyed, and nobody is connected. */
	(void)tei_loop_do(engine->loop, forget_group, &f);
}

/* ---- links that hold up the removal of a region ---- */

static void drop_pinning(struct tei_hash_node *node, void *arg)
{
	struct te_engine *engine = arg;
	struct tei_guest *guest = TEI_CONTAINER(node, struct tei_guest, node);

	tei_list_for_each (at, &guest->links) {
		struct tei_link *link =
			tei_list_entry(at, struct tei_link, link);
		bool pins;

		tei_mutex_lock(&engine->regions->mu);
		pins = link->n_pins != 0;
		tei_mutex_unlock(&engine->regions->mu);
		if (pins)
			tei_guest_drop_link(link);
	}
}

static void drop_all_pinning(void *arg)
{
	struct te_engine *engine = arg;
	size_t cursor = 0;

	while (tei_hash_walk(&engine->control->guests.table, &cursor, 1024,
			     drop_pinning, engine))
		;
}

void tei_guests_drop_pinning(struct te_engine *engine)
{
	tei_loop_do(engine->loop, drop_all_pinning, engine);
}

/* ---- the end ---- */

static void break_links(struct tei_hash_node *node, void *arg)
{
	const struct tei_guest *guest =
		TEI_CONTAINER(node, struct tei_guest, node);

	(void)arg;
	tei_list_for_each (at, &guest->links) {
		tei_link_break(tei_list_entry(at, struct tei_link, link),
			       -ECANCELED);
	}
}

void tei_guests_break_links(struct te_engine *engine)
{
	size_t cursor = 0;

	while (tei_hash_walk(&engine->control->guests.table, &cursor, 1024,
			     break_links, NULL))
		;
}

static void free_guest(struct tei_hash_node *node, void *arg)
{
	struct te_engine *engine = arg;
	struct tei_guest *guest = TEI_CONTAINER(node, struct tei_guest, node);
	struct tei_list *at;

	while ((at = tei_list_pop(&guest->links))) {
		struct tei_link *link =
			tei_list_entry(at, struct tei_link, link);

		assert(!link->open);
		link->in.visitor = NULL;
		end_droppers(link);
		tei_link_free(link);
	}
	guest_free(engine, guest);
}

void tei_guests_fini(struct te_engine *engine)
{
	struct tei_hash *table = &engine->control->guests.table;

	/* A table that shrinks meanwhile shows some only to the next walk. */
	while (table->n_nodes) {
		size_t cursor = 0;

		tei_hash_walk(table, &cursor, SIZE_MAX, free_guest, engine);
	}
	tei_hash_fini(&engine->control->guests.table);
	tei_account_leave(engine->inbox, engine->control->guests.self.account);
	engine->control->guests.self.account = NULL;
}

/* ---- te_peer_revoke(), te_peer_revoke_wait() ---- */

#define DEFAULT_MS 2000u

/* On the stack of the call, in guests.revokes meanwhile. */
struct revocation {
	struct tei_list link;
	struct tei_call start, own; /* to control, to the worker */
	struct tei_call own_done;   /* back to control */
	struct te_engine *engine;
	const uint8_t *incarnation; /* NULL: all */
	bool anew;        /* else what was revoked before is waited for */
	bool own_pending; /* our own link to ourselves is being closed */
	bool abandoned;   /* the caller waits only until nobody has it */
	bool done;        /* guarded by engine->mu */
	struct tei_cond cond;
};

bool tei_guest_has_old_links(const struct tei_guest *guest)
{
	uint64_t epoch = atomic_load(&guest->epoch);

	tei_list_for_each (node, &guest->links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);

		if (!link->in.is_gone && link->ep.epoch < epoch)
			return true;
	}
	return false;
}

void tei_guest_settle(struct tei_guest *guest)
{
	uint64_t epoch = atomic_load(&guest->epoch);

	if (guest->told == epoch || tei_guest_has_old_links(guest))
		return;
	guest->told = epoch;
	tei_list_for_each (node, &guest->visitors) {
		tei_control_revoked(
			tei_list_entry(node, struct tei_visitor, of_guest),
			epoch);
	}
}

static void raise_epoch(struct tei_guest *guest, uint64_t epoch)
{
	atomic_store(&guest->epoch, epoch);
	tei_list_for_each (node, &guest->links) {
		tei_guest_drop_link(
			tei_list_entry(node, struct tei_link, link));
	}
	tei_guest_settle(guest);
}

/* ---- everybody ---- */

struct sweep {
	uint64_t highest;
	bool old_links;
};

static void find_highest(struct tei_hash_node *node, void *arg)
{
	struct tei_guest *guest = TEI_CONTAINER(node, struct tei_guest, node);
	uint64_t epoch = atomic_load(&guest->epoch);
	struct sweep *sweep = arg;

	if (epoch > sweep->highest)
		sweep->highest = epoch;
}

static void raise_one(struct tei_hash_node *node, void *arg)
{
	const struct sweep *sweep = arg;

	raise_epoch(TEI_CONTAINER(node, struct tei_guest, node),
		    sweep->highest);
}

static void look_for_links(struct tei_hash_node *node, void *arg)
{
	struct sweep *sweep = arg;

	if (tei_guest_has_old_links(
		    TEI_CONTAINER(node, struct tei_guest, node)))
		sweep->old_links = true;
}

static void walk(struct te_engine *engine, tei_hash_fn *fn, struct sweep *sweep)
{
	size_t cursor = 0;

	while (tei_hash_walk(&engine->control->guests.table, &cursor, 1024, fn,
			     sweep))
		;
}

void tei_revoke_all(struct te_engine *engine)
{
	struct tei_guests *g = &engine->control->guests;
	struct sweep sweep = {.highest = g->floor};

	walk(engine, find_highest, &sweep);
	sweep.highest++;
	g->floor = sweep.highest;
	walk(engine, raise_one, &sweep);
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
	struct revocation *r = TEI_CONTAINER(call, struct revocation, own_done);

	r->own_pending = false;
	tei_revokes_check(r->engine);
}

/* With the token: stop using the old link, and close it right here. */
static void end_own(struct tei_call *call)
{
	struct revocation *r = TEI_CONTAINER(call, struct revocation, own);
	struct tei_peer *peer = own_peer(r->engine);

	if (peer)
		tei_peer_sync(peer);
	tei_links_close_broken(r->engine->worker);
	tei_loop_post(r->engine->loop, &r->own_done);
}

static void revoke_own(struct revocation *r)
{
	struct tei_guest *self = &r->engine->control->guests.self;
	uint64_t epoch = atomic_load(&self->epoch) + 1;
	struct tei_peer *peer;

	atomic_store(&self->epoch, epoch);
	peer = own_peer(r->engine);
	if (peer)
		tei_peer_tell_epoch(peer, epoch);
	r->own_pending = true;
	r->own.fn = end_own;
	r->own_done.fn = own_done;
	tei_worker_post(r->engine->worker, &r->own);
}

/* ---- the call ---- */

static bool is_complete(struct revocation *r)
{
	struct sweep sweep = {0};
	struct tei_guest *guest;

	if (r->own_pending)
		return false;
	if (r->abandoned)
		return true;
	if (!r->incarnation) {
		walk(r->engine, look_for_links, &sweep);
		return !sweep.old_links;
	}
	guest = tei_guest_find(r->engine, r->incarnation);
	return !guest || !tei_guest_has_old_links(guest);
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
	tei_list_for_each_safe (node, tmp, &engine->control->guests.revokes) {
		struct revocation *r =
			tei_list_entry(node, struct revocation, link);

		if (is_complete(r))
			end(r);
	}
}

static void revoke_one(struct te_engine *engine, const uint8_t *incarnation)
{
	struct tei_guest *guest = tei_guest_get(engine, incarnation);

	if (guest)
		raise_epoch(guest, atomic_load(&guest->epoch) + 1);
	else
		tei_revoke_all(engine); /* no memory for just one */
}

static void revoke(struct revocation *r)
{
	struct te_engine *engine = r->engine;

	TEI_COUNT(engine, revocations);
	if (r->incarnation)
		revoke_one(engine, r->incarnation);
	else
		tei_revoke_all(engine);
	/* By another name than its own an engine is a guest of itself, too. */
	if (!r->incarnation ||
	    !memcmp(r->incarnation, engine->incarnation, TE_INCARNATION_LEN))
		revoke_own(r);
}

static void start(struct tei_call *call)
{
	struct revocation *r = TEI_CONTAINER(call, struct revocation, start);

	tei_list_add_tail(&r->engine->control->guests.revokes, &r->link);
	if (r->anew)
		revoke(r);
	tei_revokes_check(r->engine);
}

/* Time is over. The worker may still have a call of ours, but not for long. */
static void abandon(void *arg)
{
	struct revocation *r = arg;

	if (r->done)
		return; /* only this thread sets it */
	r->abandoned = true;
	tei_revokes_check(r->engine);
}

static bool await(struct revocation *r, uint64_t until)
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

static int run(struct revocation *r, uint32_t timeout_ms)
{
	struct te_engine *engine = r->engine;
	uint64_t ms = timeout_ms ? timeout_ms : DEFAULT_MS;
	bool done;

	tei_list_init(&r->link);
	tei_cond_init(&r->cond);
	r->start.fn = start;
	done = tei_loop_post(engine->loop, &r->start) &&
	       await(r, tei_now_ns() + ms * TEI_NS_PER_MS);
	if (!done && tei_loop_do(engine->loop, abandon, r)) {
		await(r, UINT64_MAX);
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

	return tei_engine_alive(engine) ? run(&r, timeout_ms) : -ESTALE;
}

int te_peer_revoke_wait(struct te_engine *engine,
			const uint8_t incarnation[TE_INCARNATION_LEN],
			uint32_t timeout_ms)
{
	struct revocation r = {.engine = engine, .incarnation = incarnation};

	return tei_engine_alive(engine) ? run(&r, timeout_ms) : -ESTALE;
}
