/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - clients that are there, silent, or gone
 *
 * A session's list names what can end it: `live` silence of suspect_ms (an
 * unanswered probe makes it suspect even before that), `silent` silence of
 * client_ttl_ms, `left` (its connection closed) a while in which nobody has
 * taken it over; a client that gave up on a stalled master is back by then.
 * `idle` is `left` of who lent nothing then, and may have to make room. Each
 * list is in order of time, so expiring looks at its head only.
 *
 * Probes. A reader that gets no answer from an owner reports it. Nobody's
 * report makes an owner suspect, only its own silence: the core probes the
 * owner on its heartbeat connection, where data never waits, and an owner that
 * does not answer in time is suspect until its next sign of life. So reports
 * cost a healthy owner one message, however many there are. Time in which the
 * master itself did not look is not the owner's: after such a gap everybody who
 * was probed has the whole time once more.
 *
 * Operators learn of owners that change their state: of the state at the end of
 * a step, not of what came and went within it.
 */

#include "store/core/session.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/core/codes.h"
#include "store/core/epoch.h"
#include "store/core/fence.h"
#include "store/core/object.h"
#include "store/core/replica.h"
#include "store/core/reply.h"
#include "store/core/state.h"
#include "store/core/step.h"
#include "store/core/task.h"
#include "store/core/tenant.h"

/* ---- which session ---- */

uint16_t tes_core_client_number(const struct tes_session *s)
{
	unsigned int begin =
		(unsigned int)s->client_id[0] << 8 | s->client_id[1];

	return (uint16_t)(1 + begin % UINT16_MAX);
}

struct tes_session *tes_core_session_find(const struct tes_core *core,
					  tes_session_id id)
{
	struct tei_hash_node *n = tei_hash_first(
		&core->sessions, tes_core_hash(core, &id, sizeof(id)));

	for (; n; n = tei_hash_next(&core->sessions, n)) {
		struct tes_session *s =
			TEI_CONTAINER(n, struct tes_session, by_id);

		if (s->id == id)
			return s;
	}
	return NULL;
}

size_t tes_core_mounted(const struct tes_core *core, tes_session_id session)
{
	struct tes_session *s = tes_core_session_find(core, session);
	size_t n = 0;

	if (!s)
		return 0;
	tei_list_for_each (link, &s->mounts)
		n += !tei_list_entry(link, struct tes_mount, link)->dropping;
	return n;
}

static struct tes_session *find_client(const struct tes_core *core,
				       const uint8_t *client_id)
{
	struct tei_hash_node *n =
		tei_hash_first(&core->clients,
			       tes_core_hash(core, client_id, TES_CORE_ID_LEN));

	for (; n; n = tei_hash_next(&core->clients, n)) {
		struct tes_session *s =
			TEI_CONTAINER(n, struct tes_session, by_client);

		if (memcmp(s->client_id, client_id, TES_CORE_ID_LEN) == 0)
			return s;
	}
	return NULL;
}

/* ---- names ---- */

static bool are_of_one_engine(const struct tes_session *a,
			      const struct tes_session *b)
{
	return memcmp(a->incarnation, b->incarnation, TES_CORE_ID_LEN) == 0;
}

/*
 * True: @a goes before @b. The later one does, unless it is young: then who had
 * the name in a life before that was still to come back.
 */
static bool goes_before(const struct tes_core_hold *a,
			const struct tes_core_hold *b)
{
	if (!a->n || !b->n)
		return a->n;
	if (a->life == b->life)
		return a->n > b->n;
	return a->epoch < b->epoch ? b->young
				   : a->epoch > b->epoch && !a->young;
}

/* True: @a is back, who goes before @b under @name. */
static bool comes_back_to(const struct tes_core *core,
			  const struct tes_session *a,
			  const struct tes_session *b, const char *name)
{
	static const struct tes_core_hold none;

	if (!tes_core_is_young(core) || strcmp(a->engine, name) != 0)
		return false;
	return goes_before(&a->held,
			   strcmp(b->engine, name) == 0 ? &b->held : &none);
}

struct tes_session *tes_core_name_owner(const struct tes_core *core,
					const struct tes_session *s,
					const char *name)
{
	const struct tes_mount *m = tes_core_mount_named(core, name);

	for (; m; m = tes_core_mount_namesake(m))
		if (m->owner->state == TES_SESSION_LIVE &&
		    !are_of_one_engine(m->owner, s) &&
		    !comes_back_to(core, s, m->owner, name))
			return m->owner;
	return NULL;
}

static void displace_mount(struct tes_core *core, struct tes_mount *m)
{
	struct tes_session *s = m->owner;

	tes_core_mount_drop(core, m);
	s->displaced = true;
	if (tei_list_empty(&s->changed))
		tei_list_add_tail(&core->changed, &s->changed);
}

void tes_core_name_claim(struct tes_core *core, const struct tes_mount *m)
{
	struct tes_mount *other = tes_core_mount_named(core, m->name), *next;

	for (; other; other = next) {
		next = tes_core_mount_namesake(other);
		other->claimed = core->claims;
		if (!are_of_one_engine(m->owner, other->owner) &&
		    (other->serial > m->serial ||
		     comes_back_to(core, m->owner, other->owner, m->name)))
			displace_mount(core, other);
	}
}

/* The first mount under the name of the session's engine; NULL: none. */
static const struct tes_mount *own_mount(const struct tes_session *s)
{
	tei_list_for_each (link, &s->mounts) {
		const struct tes_mount *m =
			tei_list_entry(link, struct tes_mount, link);

		if (!m->dropping && strcmp(m->name, s->engine) == 0)
			return m;
	}
	return NULL;
}

/* False: it has only what a silent owner may come back to. */
static bool holds_name(const struct tes_core *core, const struct tes_session *s)
{
	const struct tes_mount *own = own_mount(s);
	const struct tes_mount *m;

	if (!own)
		return false;
	m = tes_core_mount_named(core, s->engine);
	for (; m != own; m = tes_core_mount_namesake(m))
		if (!are_of_one_engine(m->owner, s))
			return false;
	return true;
}

struct tes_core_hold tes_core_name_hold(struct tes_core *core,
					tes_session_id session)
{
	static const struct tes_core_hold none;
	struct tes_session *s = tes_core_session_find(core, session);
	bool young = tes_core_is_young(core);

	if (!s || tei_list_empty(&s->mounts))
		return none;
	if (s->hold.n && s->hold.young == young)
		return s->hold;
	/* The proven hold is worth more, and would be lost for it. */
	if (young && s->held.n)
		return none;
	if (!holds_name(core, s))
		return none;
	s->hold =
		(struct tes_core_hold){.n = ++core->name_holds, .young = young};
	return s->hold;
}

/* ---- states ---- */

static bool lends_memory(const struct tes_session *s)
{
	tei_list_for_each (link, &s->mounts)
		if (!tei_list_entry(link, struct tes_mount, link)->dropping)
			return true;
	return false;
}

/* Notes that the state of @s, if it lends memory, has changed. */
static void note_owner_state(struct tes_core *core, struct tes_session *s)
{
	if (!lends_memory(s) || !tei_list_empty(&s->changed))
		return;
	tei_list_add_tail(&core->changed, &s->changed);
}

/*
 * The owner @s is back: its names are its own again. Mounts are in the order of
 * their serials, so the first of a name claims all that the next ones would: no
 * mount is looked at twice, in whatever order an owner has named its own.
 */
static void claim_names(struct tes_core *core, struct tes_session *s)
{
	core->claims++;
	tei_list_for_each (link, &s->mounts) {
		struct tes_mount *m =
			tei_list_entry(link, struct tes_mount, link);

		if (!m->dropping && m->claimed != core->claims)
			tes_core_name_claim(core, m);
	}
}

/* Sets the state; it alone decides whether mounts count as usable. */
static void set_state(struct tes_core *core, struct tes_session *s,
		      enum tes_session_state state)
{
	bool was = s->state == TES_SESSION_LIVE;
	bool is = state == TES_SESSION_LIVE;

	if (s->state != state)
		note_owner_state(core, s);
	s->state = (uint8_t)state;
	if (was == is)
		return;
	tei_list_for_each (link, &s->mounts) {
		struct tes_mount *m =
			tei_list_entry(link, struct tes_mount, link);

		if (m->dropping)
			continue;
		tes_core_mount_count(core, m, is ? 1 : -1);
		if (is)
			tei_list_splice_tail(&core->back, &m->parked);
	}
	if (!is)
		return;
	claim_names(core, s);
	tei_list_splice_tail(&core->back, &core->parked);
	tes_core_forget_no_room(core);
}

static void move_to_list(struct tei_list *list, struct tes_session *s)
{
	tei_list_del(&s->age);
	tei_list_add_tail(list, &s->age);
}

/* Ends a probe: the session has shown that it lives, or cannot be probed. */
static void cancel_probe(struct tes_session *s)
{
	tei_list_del(&s->probing);
}

/* SUSPECT, until the next sign of life. */
static void suspect_session(struct tes_core *core, struct tes_session *s)
{
	if (s->state == TES_SESSION_LIVE)
		core->figures.suspects++;
	set_state(core, s, TES_SESSION_SUSPECT);
	tes_core_fences_excuse(core, s);
}

static void make_live(struct tes_core *core, struct tes_session *s)
{
	if (s->state == TES_SESSION_SUSPECT)
		core->figures.suspects--;
	set_state(core, s, TES_SESSION_LIVE);
	s->left = false;
	s->seen_ms = core->now_ms;
	move_to_list(&core->live, s);
}

void tes_core_session_seen(struct tes_core *core, struct tes_session *s)
{
	if (s->left)
		return;
	make_live(core, s);
}

/* ---- a client joins ---- */

static void assign_id(struct tes_core *core, struct tes_session *s,
		      tes_session_id id)
{
	s->id = id;
	s->joined_generation = core->generation;
	tei_hash_insert(&core->sessions, &s->by_id,
			tes_core_hash(core, &id, sizeof(id)));
}

static size_t session_bytes(const struct tes_session *s)
{
	return sizeof(*s) + strlen(s->engine) + 1;
}

/* Number of the client's machine; an unknown one is the client's own. */
static uint64_t host_of(const struct tes_core *core, const struct tes_event *ev)
{
	if (ev->u.join.host && ev->u.join.host_len)
		return tes_core_hash(core, ev->u.join.host,
				     ev->u.join.host_len);
	return tes_core_hash(core, ev->u.join.client_id, TES_CORE_ID_LEN);
}

static struct tes_session *new_session(struct tes_core *core,
				       const struct tes_event *ev,
				       struct tes_tenant *tenant)
{
	const char *engine = ev->u.join.engine ? ev->u.join.engine : "";
	size_t len = strlen(engine);
	struct tes_session *s = tei_calloc(1, sizeof(*s) + len + 1);

	if (!s)
		return NULL;
	tei_list_init(&s->age);
	tei_list_init(&s->close);
	tei_list_init(&s->changed);
	tei_list_init(&s->notices);
	tei_list_init(&s->mounts);
	tei_list_init(&s->builds);
	tei_list_init(&s->fences);
	tei_list_init(&s->probing);
	tei_list_init(&s->tasks);
	tei_list_init(&s->asked);
	s->executes = ev->u.join.executes;
	s->buries = ev->u.join.buries;
	s->probes = ev->u.join.probes;
	memcpy(s->client_id, ev->u.join.client_id, TES_CORE_ID_LEN);
	memcpy(s->incarnation, ev->u.join.incarnation, TES_CORE_ID_LEN);
	memcpy(s->engine, engine, len + 1);
	s->host = host_of(core, ev);
	s->source = ev->u.join.source;
	s->held = ev->u.join.held;
	s->tenant = tenant;
	tenant->users++;
	core->heap_bytes += session_bytes(s);
	return s;
}

static void add_session(struct tes_core *core, struct tes_session *s,
			tes_session_id id)
{
	assign_id(core, s, id);
	tei_hash_insert(&core->clients, &s->by_client,
			tes_core_hash(core, s->client_id, TES_CORE_ID_LEN));
	tei_hash_insert(&core->incarnations, &s->by_incarnation,
			tes_core_hash(core, s->incarnation, TES_CORE_ID_LEN));
	core->figures.sessions++;
	make_live(core, s);
}

static void leave_tenant(struct tes_core *core, struct tes_session *s)
{
	s->tenant->users--;
	core->idle_tenants = true;
}

/* Gives the same process on a new connection what it had. */
static void take_over(struct tes_core *core, struct tes_session *s,
		      tes_session_id id, struct tes_tenant *tenant,
		      struct tes_actions *out)
{
	tenant->users++;
	leave_tenant(core, s);
	s->tenant = tenant;
	if (!s->left)
		tes_core_action_add(out, TES_ACTION_CLOSE, s->id);
	tei_hash_remove(&core->sessions, &s->by_id);
	assign_id(core, s, id);
	make_live(core, s);
	cancel_probe(s);
	s->beating = false;
	s->evicted.n = 0;
	tes_core_fences_restart(core, s);
}

static struct tes_session *oldest_session(const struct tei_list *list)
{
	if (tei_list_empty(list))
		return NULL;
	return tei_list_entry(list->next, struct tes_session, age);
}

/*
 * From so many sessions on a new one ends one of those that left and lend
 * nothing, so hellos that nobody stands behind do not use up the sessions of
 * others: the rest have a connection or a segment each, and of both there are
 * 4096 at most. The oldest of the same source goes, for who comes and goes all
 * the time has many; only where none is among the first ROOM_LOOKS, another's.
 */
#define MANY_SESSIONS 6144u
#define ROOM_LOOKS    512u

static void make_room(struct tes_core *core, const struct tes_session *comer)
{
	struct tes_session *goes = oldest_session(&core->idle);
	unsigned int looks = 0;

	if (!goes || core->figures.sessions < MANY_SESSIONS)
		return;
	tei_list_for_each (link, &core->idle) {
		struct tes_session *s =
			tei_list_entry(link, struct tes_session, age);

		if (s->source == comer->source) {
			goes = s;
			break;
		}
		if (++looks == ROOM_LOOKS)
			break;
	}
	tes_core_session_end(core, goes);
}

/* Goes on above the epoch that the client knows of, if it is believed. */
static int32_t take_epoch(struct tes_core *core, const struct tes_event *ev)
{
	int rc = 0;

	if (ev->u.join.believed)
		rc = tes_core_epoch_exceed(core, ev->u.join.epoch);
	if (!rc)
		return CODE_OK;
	if (rc == -EAGAIN)
		return CODE_NOT_NOW;
	return rc == -EINVAL ? CODE_ARGUMENT : CODE_INTERNAL;
}

int tes_core_on_join(struct tes_step *step)
{
	struct tes_core *core = step->core;
	const struct tes_event *ev = step->ev;
	struct tes_session *old, *s;
	struct tes_tenant *tenant;
	struct tes_action *reply;
	bool is_back;

	/* Reserves the reply, and the end of the connection before. */
	if (tes_core_actions_reserve(step->out, 2) < 0 ||
	    tes_core_reply(step) < 0)
		return -ENOMEM;
	reply = step->reply;
	if (!ev->session || !ev->u.join.client_id || !ev->u.join.incarnation ||
	    step->session) {
		reply->u.reply.code = CODE_ARGUMENT;
		return 0;
	}
	tenant = tes_core_tenant_get(core, ev->u.join.tenant);
	if (!tenant) {
		reply->u.reply.code = CODE_INTERNAL;
		return 0;
	}
	old = find_client(core, ev->u.join.client_id);
	is_back = old && memcmp(old->incarnation, ev->u.join.incarnation,
				TES_CORE_ID_LEN) == 0;
	reply->u.reply.code = take_epoch(core, ev);
	if (reply->u.reply.code)
		return 0;
	if (is_back) {
		take_over(core, old, ev->session, tenant, step->out);
		return 0;
	}
	s = new_session(core, ev, tenant);
	if (!s) {
		reply->u.reply.code = CODE_INTERNAL;
		return 0;
	}
	if (old)
		tes_core_session_end(core, old);
	make_room(core, s);
	add_session(core, s, ev->session);
	return 0;
}

/* ---- heartbeats; the connection closes ---- */

/* Fences travel where heartbeats come from; before that they are lost. */
int tes_core_on_heartbeat(struct tes_step *step)
{
	struct tes_core *core = step->core;
	struct tes_session *s = step->session;

	cancel_probe(s);
	if (s->left || (s->beating && !step->ev->u.heartbeat.fresh))
		return 0;
	s->evicted.n = 0;
	s->beating = true;
	tes_core_fences_resend(core, s);
	tes_core_tasks_resend(core, s);
	tei_list_for_each (link, &s->mounts)
		tes_core_resync(core,
				tei_list_entry(link, struct tes_mount, link));
	return 0;
}

int tes_core_on_leave(struct tes_step *step)
{
	struct tes_core *core = step->core;
	struct tes_session *s = step->session;

	if (s->left)
		return 0;
	suspect_session(core, s);
	cancel_probe(s);
	s->left = true;
	s->beating = false;
	s->evicted.n = 0; /* a resync will follow */
	s->seen_ms = core->now_ms;
	move_to_list(tei_list_empty(&s->mounts) ? &core->idle : &core->left, s);
	return 0;
}

/* ---- owners that may be silent are probed ---- */

static struct tes_session *session_at(struct tei_list *link)
{
	return tei_list_entry(link, struct tes_session, probing);
}

/* True: @s can be probed, and was not just now. */
static bool may_probe(const struct tes_core *core, const struct tes_session *s)
{
	if (!s->probes || !s->beating || s->state != TES_SESSION_LIVE ||
	    !tei_list_empty(&s->probing))
		return false;
	return !s->probe ||
	       s->probe_ms + TES_CORE_PROBE_EVERY_MS <= core->now_ms;
}

void tes_core_session_doubt(struct tes_core *core, struct tes_session *s)
{
	if (may_probe(core, s))
		tei_list_add_tail(&core->unprobed, &s->probing);
}

int tes_core_on_report(struct tes_step *step)
{
	struct tes_core *core = step->core;
	const uint8_t *life = step->ev->u.report.incarnation;
	struct tei_hash_node *n;

	core->figures.reports_total++;
	if (!life)
		return 0;
	n = tei_hash_first(&core->incarnations,
			   tes_core_hash(core, life, TES_CORE_ID_LEN));
	for (; n; n = tei_hash_next(&core->incarnations, n)) {
		struct tes_session *s =
			TEI_CONTAINER(n, struct tes_session, by_incarnation);

		if (memcmp(s->incarnation, life, TES_CORE_ID_LEN) == 0)
			tes_core_session_doubt(core, s);
	}
	return 0;
}

int tes_core_on_probed(struct tes_step *step)
{
	struct tes_session *s = step->session;

	if (s->probe == step->ev->u.probed.probe)
		cancel_probe(s);
	return 0;
}

static void end_late_probes(struct tes_core *core)
{
	while (!tei_list_empty(&core->probed)) {
		struct tes_session *s = session_at(core->probed.next);
		uint64_t from = s->probe_ms;

		if (from < core->gap_ms)
			from = core->gap_ms;
		if (from + TES_CORE_PROBE_MS > core->now_ms)
			return;
		tei_list_del(&s->probing);
		core->figures.probes_failed_total++;
		suspect_session(core, s);
	}
}

void tes_core_probes_flush(struct tes_core *core, struct tes_actions *out)
{
	while (!tei_list_empty(&core->unprobed)) {
		struct tes_session *s = session_at(core->unprobed.next);

		if (tes_core_actions_reserve(out, 1) < 0)
			return;
		s->probe++;
		s->probe_ms = core->now_ms;
		tes_core_action_add(out, TES_ACTION_PROBE, s->id)->u.probe =
			s->probe;
		tei_list_del(&s->probing);
		tei_list_add_tail(&core->probed, &s->probing);
		core->figures.probes_total++;
	}
}

/* ---- the end ---- */

void tes_core_session_end(struct tes_core *core, struct tes_session *s)
{
	struct tei_list *link;

	if (s->state == TES_SESSION_GONE)
		return;
	if (s->state == TES_SESSION_SUSPECT)
		core->figures.suspects--;
	set_state(core, s, TES_SESSION_GONE);
	core->figures.sessions--;
	tei_hash_remove(&core->sessions, &s->by_id);
	tei_hash_remove(&core->clients, &s->by_client);
	tei_hash_remove(&core->incarnations, &s->by_incarnation);
	cancel_probe(s);
	move_to_list(&core->gone, s);
	tei_list_add_tail(&core->closes, &s->close);
	/* Drops the last first: so nothing behind it has to move up. */
	for (link = s->mounts.prev; link != &s->mounts; link = link->prev)
		tes_core_mount_drop(
			core, tei_list_entry(link, struct tes_mount, link));
	tes_core_fences_abandon(core, s);
}

void tes_core_session_free(struct tes_core *core, struct tes_session *s)
{
	tes_core_fences_free(core, s);
	tes_core_tasks_leave(s);
	tei_list_del(&s->age);
	tei_list_del(&s->close);
	tei_list_del(&s->changed);
	tei_list_del(&s->notices);
	leave_tenant(core, s);
	core->heap_bytes -= session_bytes(s);
	tei_free(s);
}

/* ---- in time ---- */

static void expire_left(struct tes_core *core, struct tei_list *list)
{
	const struct tes_core_config *c = &core->config;
	uint64_t left_ms = c->left_ms ? c->left_ms : c->suspect_ms;
	struct tes_session *s;

	while ((s = oldest_session(list)) &&
	       s->seen_ms + left_ms <= core->now_ms)
		tes_core_session_end(core, s);
}

static void expire_sessions(struct tes_core *core)
{
	const struct tes_core_config *c = &core->config;
	uint64_t now = core->now_ms;
	struct tes_session *s;

	while ((s = oldest_session(&core->live)) &&
	       s->seen_ms + c->suspect_ms <= now) {
		suspect_session(core, s);
		move_to_list(&core->silent, s);
	}
	while ((s = oldest_session(&core->silent)) &&
	       s->seen_ms + c->client_ttl_ms <= now)
		tes_core_session_end(core, s);
	expire_left(core, &core->left);
	expire_left(core, &core->idle);
}

/* False: no memory for a fence, try again later. */
static bool settle_builds(struct tes_core *core, struct tes_session *s,
			  unsigned int *budget)
{
	while (*budget && !tei_list_empty(&s->builds)) {
		--*budget;
		if (tes_core_discard(core, tei_list_entry(s->builds.next,
							  struct tes_object,
							  link)) < 0)
			return false;
	}
	return true;
}

void tes_core_sessions_tick(struct tes_core *core, unsigned int *budget)
{
	end_late_probes(core);
	expire_sessions(core);
	tei_list_for_each_safe (link, next, &core->gone) {
		struct tes_session *s =
			tei_list_entry(link, struct tes_session, age);

		if (!*budget || !settle_builds(core, s, budget))
			return;
		if (tei_list_empty(&s->builds) && tei_list_empty(&s->mounts) &&
		    tei_list_empty(&s->close))
			tes_core_session_free(core, s);
	}
}

/* ---- actions ---- */

static void report_owner(const struct tes_core *core, struct tes_session *s,
			 struct tes_actions *out)
{
	struct tes_action *a =
		tes_core_action_add(out, TES_ACTION_OWNER, s->id);

	a->u.owner.engine = s->engine;
	a->u.owner.left = s->left;
	a->u.owner.silent_ms = core->now_ms - s->seen_ms;
	if (s->displaced) {
		a->u.owner.news = TES_OWNER_DISPLACED;
		s->displaced = false;
		return;
	}
	switch ((enum tes_session_state)s->state) {
	case TES_SESSION_LIVE:
		a->u.owner.news = TES_OWNER_BACK;
		break;
	case TES_SESSION_SUSPECT:
		a->u.owner.news = TES_OWNER_SILENT;
		break;
	case TES_SESSION_GONE:
		a->u.owner.news = TES_OWNER_GONE;
		break;
	}
}

static void flush_owner_states(struct tes_core *core, struct tes_actions *out)
{
	while (!tei_list_empty(&core->changed)) {
		struct tes_session *s = tei_list_entry(
			core->changed.next, struct tes_session, changed);

		if (tes_core_actions_reserve(out, 1) < 0)
			return;
		report_owner(core, s, out);
		tei_list_del(&s->changed);
	}
}

void tes_core_sessions_flush(struct tes_core *core, struct tes_actions *out)
{
	flush_owner_states(core, out);
	while (!tei_list_empty(&core->closes)) {
		struct tes_session *s = tei_list_entry(
			core->closes.next, struct tes_session, close);

		if (tes_core_actions_reserve(out, 1) < 0)
			return;
		tes_core_action_add(out, TES_ACTION_CLOSE, s->id);
		tei_list_del(&s->close);
	}
}
