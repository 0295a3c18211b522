/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remove.c - objects and replicas that users remove
 *
 * An object of a suspect owner is removed too, so that it does not come back
 * when the owner does. Readers that are still at work notice by generation and
 * checksum that the bytes are no longer theirs; a reader that asks an owner
 * later finds no header (fence.c, burials).
 *
 * A remove_all looks at the whole table in slices, one a tick, so that nobody
 * waits for it; objects that are put meanwhile may stay or go. Its reply comes
 * when the walk has ended and owners have buried what it took out.
 */
#include "store/core/remove.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/core/codes.h"
#include "store/core/epoch.h"
#include "store/core/evict.h"
#include "store/core/fence.h"
#include "store/core/object.h"
#include "store/core/replica.h"
#include "store/core/reply.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/step.h"
#include "store/core/tenant.h"

/* Walks at a time; more are not worth the memory. */
#define WALKS_MAX 64

#define REMOVE_COST 8 /* where looking at an object is 1 */
/* Objects of one place in the table that a walk has matched; more are rare,
 * and are matched in one slice. */
#define MATCHED_MAX 32

/* Finds the object at @key and reserves its burial; or returns why not. */
static int32_t find_removable(struct tes_step *step,
			      const struct tes_core_key *key, uint64_t hash,
			      bool force, struct tes_object **out)
{
	struct tes_core *core = step->core;
	uint16_t tenant = step->session->tenant->index;
	struct tes_waiter *waiter;
	struct tes_object *o;

	if (!tes_core_key_valid(key))
		return CODE_ARGUMENT;
	o = tes_core_object_now(core,
				tes_core_object_find(core, tenant, key, hash));
	if (!o || tes_core_object_gone(o))
		return CODE_NOT_FOUND;
	if (o->state == TES_OBJECT_BUILDING)
		return CODE_NOT_READY;
	if (o->flags & TES_OBJECT_BUSY)
		return CODE_TASK;
	if (!force && tes_core_leased(core, o))
		return CODE_LEASED;
	waiter = tes_core_step_waiter(step);
	if (!waiter || tes_core_bury_reserve(core, o, waiter) < 0)
		return CODE_INTERNAL;
	*out = o;
	return CODE_OK;
}

static int32_t remove_one(struct tes_step *step, const struct tes_core_key *key,
			  uint64_t hash)
{
	bool force = step->ev->u.remove.force;
	struct tes_object *o;
	int32_t code = find_removable(step, key, hash, force, &o);

	if (!code)
		tes_core_bury(step->core, o, step->waiter);
	/* An owner may yet bring a key that is not here. */
	if (!code || code == CODE_NOT_FOUND)
		tes_core_tombstone(step->core, hash);
	return code;
}

/* Answers each key of the event by @answer_key. */
static int answer_keys(struct tes_step *step,
		       int32_t (*answer_key)(struct tes_step *,
					     const struct tes_core_key *,
					     uint64_t))
{
	const struct tes_event *ev = step->ev;
	uint16_t tenant = step->session->tenant->index;
	uint64_t hashes[TES_CORE_PREFETCH];

	for (size_t i = step->from; i < step->to; i++) {
		size_t at = i % TES_CORE_PREFETCH;

		if (!at)
			tes_core_objects_prefetch(step->core, tenant,
						  &ev->keys[i], step->to - i,
						  hashes);
		step->reply->u.reply.status[i] =
			answer_key(step, &ev->keys[i], hashes[at]);
	}
	return 0;
}

int tes_core_on_remove(struct tes_step *step)
{
	return answer_keys(step, remove_one);
}

static bool is_on_segment(const struct tes_extent *e, const char *segment)
{
	if (!tes_core_extent_there(e))
		return false;
	return !*segment ||
	       strcmp(tes_core_extent_mount(e)->name, segment) == 0;
}

/* Free the replicas on @segment; false: there are none. */
static bool clear_replicas(struct tes_step *step, struct tes_object *o)
{
	struct tes_core *core = step->core;
	const char *segment = step->ev->u.replica_clear.segment;
	struct tes_extent *e = o->extents;
	bool any = false;

	while (e) {
		uint8_t replica = e->replica;
		bool it = is_on_segment(e, segment);

		while (e && e->replica == replica)
			e = e->next;
		if (it)
			tes_core_bury_replica(core, o, replica, step->waiter);
		any |= it;
	}
	if (tes_core_object_gone(o)) {
		tes_core_tombstone(core, o->node.hash);
		tes_core_object_drop(core, o);
	} else if (any) {
		tes_core_requeue(core, o);
	}
	return any;
}

static int32_t clear_one(struct tes_step *step, const struct tes_core_key *key,
			 uint64_t hash)
{
	struct tes_object *o;
	int32_t code = find_removable(step, key, hash, false, &o);
	uint16_t writer;

	if (code)
		return code;
	writer = tes_core_object_writer(o);
	if (writer && writer != tes_core_client_number(step->session))
		return CODE_NOT_YOURS;
	return clear_replicas(step, o) ? CODE_OK : CODE_NO_REPLICA;
}

int tes_core_on_replica_clear(struct tes_step *step)
{
	return answer_keys(step, clear_one);
}

/* ---- remove_all: a walk over the whole table ---- */

/* Walk of a remove_all. */
struct tes_walk {
	struct tei_list link; /* core's walks */
	tes_session_id session;
	uint64_t cookie, removed;
	size_t cursor;
	struct tes_tenant *tenant;
	bool force, done;
	struct tes_waiter *waiter; /* counts what is to be buried */
	tes_core_match_fn *match;
	void *arg;
	/*
	 * Objects at the cursor that did not match; others may be left there.
	 * Addresses are only compared: another object may have one later.
	 */
	const struct tes_object *matched[MATCHED_MAX];
	size_t n_matched;
};

/* Slice of a walk. */
struct walk_slice {
	struct tes_core *core;
	struct tes_walk *walk;
	unsigned int spent, share;
	bool postponed; /* something at the cursor is left for the next slice */
};

static bool was_matched(const struct tes_walk *w, const struct tes_object *o)
{
	for (size_t i = 0; i < w->n_matched; i++)
		if (w->matched[i] == o)
			return true;
	return false;
}

/*
 * Matches may cost much, so each is a slice of its own once the share is spent.
 * Objects that did not match are not matched again in the next slice.
 */
static bool is_match(struct walk_slice *s, const struct tes_object *o)
{
	struct tes_walk *w = s->walk;

	if (!w->match)
		return true;
	if (was_matched(w, o))
		return false;
	if (s->spent >= s->share && w->n_matched < MATCHED_MAX) {
		s->postponed = true;
		return false;
	}
	if (w->match(o->key, o->key_len, w->arg, &s->spent))
		return true;
	if (w->n_matched < MATCHED_MAX)
		w->matched[w->n_matched++] = o;
	return false;
}

static void remove_if_meant(struct tei_hash_node *node, void *arg)
{
	struct walk_slice *s = arg;
	struct tes_walk *w = s->walk;
	struct tes_object *o = TEI_CONTAINER(node, struct tes_object, node);

	s->spent++;
	if (o->tenant != w->tenant->index || o->state != TES_OBJECT_READY ||
	    tes_core_object_gone(o) || (o->flags & TES_OBJECT_BUSY) ||
	    (!w->force && tes_core_leased(s->core, o)))
		return;
	if (!is_match(s, o))
		return;
	if (tes_core_bury_reserve(s->core, o, w->waiter) == 0) {
		w->removed++;
		tes_core_tombstone(s->core, node->hash);
		tes_core_bury(s->core, o, w->waiter);
		s->spent += REMOVE_COST;
	}
}

/* True: the walk has not seen all yet, and owners keep up with burials. */
static bool may_advance(const struct tes_walk *w)
{
	return !w->done && w->waiter->graves < TES_CORE_WALK_GRAVES;
}

/* Looks at one place in the table, or at the rest of it. Returns the cost. */
static unsigned int walk_on(struct tes_core *core, struct tes_walk *w,
			    unsigned int share)
{
	struct walk_slice s = {core, w, 1, share, false};
	size_t cursor = w->cursor;
	bool more =
		tei_hash_walk(&core->objects, &cursor, 1, remove_if_meant, &s);

	if (s.postponed)
		return s.spent;
	w->n_matched = 0;
	w->cursor = cursor;
	w->done = !more;
	return s.spent;
}

/* Walks take turns, so that a long one does not delay the others. */
void tes_core_walks_tick(struct tes_core *core, unsigned int *budget)
{
	for (size_t n = core->n_walks; n && *budget; n--) {
		struct tes_walk *w =
			tei_list_entry(core->walks.next, struct tes_walk, link);
		unsigned int share = *budget / (unsigned int)n + 1;

		tei_list_del(&w->link);
		tei_list_add_tail(&core->walks, &w->link);
		while (may_advance(w) && share) {
			unsigned int spent = walk_on(core, w, share);

			tes_core_spend(&share, spent);
			tes_core_spend(budget, spent);
		}
	}
}

bool tes_core_walking(const struct tes_core *core)
{
	tei_list_for_each (link, &core->walks)
		if (may_advance(tei_list_entry(link, struct tes_walk, link)))
			return true;
	return false;
}

static void end_walk(struct tes_core *core, struct tes_walk *w)
{
	tei_list_del(&w->link);
	core->n_walks--;
	w->tenant->users--;
	core->idle_tenants = true;
	core->heap_bytes -= sizeof(*w);
	tei_free(w->waiter);
	tei_free(w);
}

void tes_core_walks_free(struct tes_core *core)
{
	while (!tei_list_empty(&core->walks))
		end_walk(core, tei_list_entry(core->walks.next, struct tes_walk,
					      link));
}

void tes_core_walks_flush(struct tes_core *core, struct tes_actions *out)
{
	tei_list_for_each_safe (link, next, &core->walks) {
		struct tes_walk *w =
			tei_list_entry(link, struct tes_walk, link);
		struct tes_action *a;

		if (!w->done || w->waiter->left)
			continue;
		if (tes_core_actions_reserve(out, 1) < 0)
			return;
		a = tes_core_action_add(out, TES_ACTION_REPLY, w->session);
		a->cookie = w->cookie;
		a->u.reply.of = TES_EVENT_REMOVE_ALL;
		a->u.reply.removed = w->removed;
		end_walk(core, w);
	}
}

/* Finds the tenant whose objects are meant; NULL: there is no such tenant. An
 * operator may remove what is left of one that has no quota any more. */
static struct tes_tenant *tenant_of_walk(const struct tes_core *core,
					 const struct tes_event *ev)
{
	const struct tes_session *s;

	if (!ev->session)
		return tes_core_tenant_find(core, ev->u.remove_all.tenant);
	s = tes_core_session_find(core, ev->session);
	return s && s->tenant->registered ? s->tenant : NULL;
}

/* 0, or why there can be no walk of @session now. */
static int32_t refuse_walk(const struct tes_core *core, tes_session_id session,
			   const struct tes_tenant *tenant)
{
	if (session && !tes_core_session_find(core, session))
		return CODE_NO_CLIENT;
	if (!tenant)
		return CODE_NO_TENANT;
	tei_list_for_each (link, &core->walks)
		if (tei_list_entry(link, struct tes_walk, link)->session ==
		    session)
			return CODE_ARGUMENT;
	return core->n_walks < WALKS_MAX ? CODE_OK : CODE_INTERNAL;
}

int tes_core_on_remove_all(struct tes_step *step)
{
	struct tes_core *core = step->core;
	const struct tes_event *ev = step->ev;
	struct tes_tenant *tenant = tenant_of_walk(core, ev);
	struct tes_walk *w = NULL;

	step->code = refuse_walk(core, ev->session, tenant);
	if (!step->code) {
		w = tei_calloc(1, sizeof(*w));
		if (w)
			w->waiter = tes_core_waiter_new(ev, 0);
		step->code = w && w->waiter ? CODE_OK : CODE_INTERNAL;
	}
	if (step->code) {
		tei_free(w);
		return tes_core_reply(step);
	}
	if (step->session)
		tes_core_session_seen(core, step->session);
	w->session = ev->session;
	w->tenant = tenant;
	tenant->users++;
	w->cookie = ev->cookie;
	w->force = ev->u.remove_all.force;
	w->match = ev->u.remove_all.match;
	if (!w->match)
		tes_core_tombstone_all(core, tenant);
	w->arg = ev->u.remove_all.arg;
	tei_list_add_tail(&core->walks, &w->link);
	core->n_walks++;
	core->heap_bytes += sizeof(*w);
	return 0;
}
