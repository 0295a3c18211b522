/* SPDX-License-Identifier: Apache-2.0 */
/* inbound.c - inbound connections, and the links of the peers behind them */
#include "te/control/inbound.h"

#include <errno.h>
#include <string.h>

#include "base/frame.h"
#include "base/log.h"
#include "base/mem.h"
#include "te/control/control.h"
#include "te/control/peer.h"
#include "te/core/control.pb-c.h"
#include "te/core/engine.h"
#include "te/notify/inbox.h"
#include "te/region/description.h"
#include "te/region/region.h"
#include "te/transfer/link.h"
#include "te/transfer/transfer.h"
#include "te/worker/worker.h"

/*
 * Too many inbound peers that were revoked and left. Above the new floor there
 * is nobody, so who comes back is not given an epoch that was ended.
 */
static void make_room(struct te_engine *engine)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_allowed(&limit))
		LOG_WARN("engine %s: %u inbound peers remembered, their "
			 "epochs are ended",
			 engine->name, TEI_INBOUND_PEERS_MAX);
	tei_revoke_all(engine);
	tei_inbound_peers_forget(engine);
}

struct tei_inbound_peer *tei_inbound_peer_get(struct te_engine *engine,
					      const struct tei_inbound_id *id)
{
	struct tei_inbound_peer *inbound = tei_inbound_peer_find(engine, id);

	if (inbound)
		return inbound;
	if (engine->control->inbound.table.n_nodes >= TEI_INBOUND_PEERS_MAX)
		make_room(engine);
	return tei_inbound_peer_add(engine, id);
}

/* The inbound connection is the inbound peer's from now on. */
static void inbound_came(struct tei_inbound_conn *conn,
			 struct tei_inbound_peer *inbound)
{
	conn->inbound = inbound;
	tei_timer_stop(inbound->alone);
	inbound->alone = NULL;
	tei_list_add_tail(&inbound->conns, &conn->of_peer);
	if (tei_list_empty(&inbound->absent))
		return;
	tei_list_del(&inbound->absent);
	conn->engine->control->inbound.n_absent--;
}

/* ---- links ---- */

static struct tei_link *inbound_link(struct tei_inbound_peer *inbound,
				     uint64_t number)
{
	tei_list_for_each (node, &inbound->links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);

		if (link->number == number && !link->in.is_gone)
			return link;
	}
	return NULL;
}

void tei_inbound_peer_drop_link(struct tei_link *link)
{
	if (link->in.dropping || link->in.is_gone)
		return;
	link->in.dropping = true;
	tei_worker_post(link->rail->worker, &link->in.drop);
}

/* Steps of a connection in which a peer without one may come back. */
#define ALONE_STEPS 15u

static void nobody_came(void *arg)
{
	struct tei_inbound_peer *inbound = arg;

	tei_timer_stop(inbound->alone);
	inbound->alone = NULL;
	tei_list_for_each (node, &inbound->links)
		tei_inbound_peer_drop_link(
			tei_list_entry(node, struct tei_link, link));
}

/*
 * The last connection of a peer has left, which may have died. One that lives
 * needs no connection while its links work, and finds them ended if it comes
 * back late: it opens others.
 */
static void await_return(struct te_engine *engine,
			 struct tei_inbound_peer *inbound)
{
	if (!engine->control->server || tei_list_empty(&inbound->links) ||
	    !tei_list_empty(&inbound->conns))
		return;
	inbound->alone = tei_timer_start(
		engine->loop, ALONE_STEPS * engine->config.connect_timeout,
		false, nobody_came, inbound);
	if (!inbound->alone) /* no memory */
		nobody_came(inbound);
}

static void link_free(struct tei_link *link)
{
	tei_list_del(&link->link);
	tei_link_free(link);
}

static void control_dropped(struct tei_inbound_conn *v, uint64_t id);

static void end_droppers(struct tei_link *link)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&link->in.droppers))) {
		struct tei_dropper *dropper =
			tei_list_entry(node, struct tei_dropper, link);

		control_dropped(dropper->conn, dropper->id);
		tei_free(dropper);
	}
}

/*
 * Tells the initiator of a link that ended though nobody asked for it: its own
 * half may not notice, and what it has posted would wait for its deadline. An
 * initiator that does not hear of it, since its connection is another by now or
 * would end by a type that it does not know, asks when the link is silent.
 */
static void tell_gone(const struct tei_link *link)
{
	const struct tei_inbound_conn *v = link->in.conn;
	Te__Gone m = TE__GONE__INIT;

	if (!v || !(v->features & TEI_CONTROL_GONE) || link->in.dropping ||
	    link->in.err)
		return;
	m.endpoint = link->number;
	m.wanted = link->why == -ESTALE;
	(void)tei_frame_send(v->conn, TE__CONTROL_TYPE__CONTROL_GONE, 0, 0,
			     &m.base);
}

/* Ends a link over which nothing can arrive any more; tells who waits. */
static void is_gone(struct tei_link *link)
{
	struct te_engine *engine = link->engine;
	struct tei_inbound_peer *inbound = link->in.inbound;

	tell_gone(link);
	link->in.is_gone = true;
	inbound->n_links--;
	TEI_COUNT(engine, drops_served);
	tei_inbound_peer_settle(inbound);
	end_droppers(link);
	tei_revokes_check(engine);
	/* A drop that is still queued will say so by late. */
	if (!link->in.dropping ||
	    atomic_load_explicit(&link->in.drop_ran, memory_order_relaxed)) {
		link_free(link);
		tei_inbound_peer_release(engine, inbound);
	}
}

void tei_inbound_peer_link_gone(struct tei_call *call)
{
	is_gone(TEI_CONTAINER(call, struct tei_link, in.gone));
}

void tei_inbound_peer_link_late(struct tei_call *call)
{
	struct tei_link *link = TEI_CONTAINER(call, struct tei_link, in.late);
	struct te_engine *engine = link->engine;
	struct tei_inbound_peer *inbound = link->in.inbound;

	link_free(link);
	tei_inbound_peer_release(engine, inbound);
}

static void control_connected(struct tei_link *link);

static void inbound_link_done(struct tei_call *call)
{
	struct tei_link *link = TEI_CONTAINER(call, struct tei_link, in.done);

	control_connected(link);
	if (link->in.err)
		is_gone(link);
}

/* The inbound connection's groups have changed: its links get them too. */
static void inbound_update_groups(struct tei_inbound_conn *conn)
{
	tei_list_for_each (node, &conn->inbound->links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);

		if (link->in.conn == conn)
			atomic_store_explicit(&link->groups, conn->groups,
					      memory_order_relaxed);
	}
}

static struct tei_dropper *find_dropper(const struct tei_link *link,
					const struct tei_inbound_conn *conn)
{
	tei_list_for_each (node, &link->in.droppers) {
		struct tei_dropper *dropper =
			tei_list_entry(node, struct tei_dropper, link);

		if (dropper->conn == conn)
			return dropper;
	}
	return NULL;
}

/* Makes no link point to the inbound connection any more. */
static void forget_conn_of_links(struct tei_inbound_conn *conn)
{
	tei_list_for_each (node, &conn->inbound->links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);
		struct tei_dropper *dropper;

		if (link->in.conn == conn)
			link->in.conn = NULL;
		dropper = find_dropper(link, conn);
		if (dropper) {
			tei_list_del(&dropper->link);
			tei_free(dropper);
		}
	}
}

/* ---- a group whose place will be another one's ---- */

struct forgetting {
	struct te_engine *engine;
	tei_group_mask keep;
};

static void forget_of_peer(struct tei_hash_node *node, void *arg)
{
	struct tei_inbound_peer *inbound =
		TEI_CONTAINER(node, struct tei_inbound_peer, node);
	const struct forgetting *f = arg;

	tei_list_for_each (at, &inbound->links) {
		struct tei_link *link =
			tei_list_entry(at, struct tei_link, link);

		atomic_fetch_and_explicit(&link->groups, f->keep,
					  memory_order_relaxed);
	}
}

static void forget_group(void *arg)
{
	struct forgetting *f = arg;
	struct tei_inbound_peers *g = &f->engine->control->inbound;
	size_t cursor = 0;

	tei_list_for_each (node, &g->conns) {
		tei_list_entry(node, struct tei_inbound_conn, link)->groups &=
			f->keep;
	}
	while (tei_hash_walk(&g->table, &cursor, 1024, forget_of_peer, f))
		;
}

void tei_inbound_peers_forget_group(struct te_engine *engine,
				    unsigned int place)
{
	struct forgetting f = {engine, ~((tei_group_mask)1 << place)};

	/* False: the engine is being destroyed, and nobody is connected. */
	(void)tei_loop_do(engine->loop, forget_group, &f);
}

/* ---- links that hold up the removal of a region ---- */

static void drop_pinning(struct tei_hash_node *node, void *arg)
{
	struct tei_inbound_peer *inbound =
		TEI_CONTAINER(node, struct tei_inbound_peer, node);

	(void)arg;
	tei_list_for_each (at, &inbound->links) {
		struct tei_link *link =
			tei_list_entry(at, struct tei_link, link);
		struct tei_mutex *mu = tei_link_pin_lock(link);
		bool pins;

		tei_mutex_lock(mu);
		pins = link->n_pins != 0;
		tei_mutex_unlock(mu);
		if (pins)
			tei_inbound_peer_drop_link(link);
	}
}

static void drop_all_pinning(void *arg)
{
	struct te_engine *engine = arg;
	size_t cursor = 0;

	while (tei_hash_walk(&engine->control->inbound.table, &cursor, 1024,
			     drop_pinning, NULL))
		;
}

void tei_inbound_peers_drop_pinning(struct te_engine *engine)
{
	tei_loop_do(engine->loop, drop_all_pinning, engine);
}

/* ---- links, when the engine ends ---- */

static void break_links(struct tei_hash_node *node, void *arg)
{
	const struct tei_inbound_peer *inbound =
		TEI_CONTAINER(node, struct tei_inbound_peer, node);

	(void)arg;
	tei_list_for_each (at, &inbound->links) {
		tei_link_break(tei_list_entry(at, struct tei_link, link),
			       -ECANCELED);
	}
}

void tei_inbound_peers_break_links(struct te_engine *engine)
{
	size_t cursor = 0;

	while (tei_hash_walk(&engine->control->inbound.table, &cursor, 1024,
			     break_links, NULL))
		;
}

static void stop_waiting(struct tei_hash_node *node, void *arg)
{
	struct tei_inbound_peer *inbound =
		TEI_CONTAINER(node, struct tei_inbound_peer, node);

	(void)arg;
	tei_timer_stop(inbound->alone);
	inbound->alone = NULL;
}

void tei_inbound_peers_stop_waiting(struct te_engine *engine)
{
	size_t cursor = 0;

	while (tei_hash_walk(&engine->control->inbound.table, &cursor, 1024,
			     stop_waiting, NULL))
		;
}

/* ---- answers ---- */

#define BACKLOG_MAX      ((size_t)32 << 20) /* of what it does not read */
#define PUSH_BACKLOG_MAX ((size_t)64 << 10)

void tei_inbound_conn_reply(struct tei_inbound_conn *v,
			    const struct tei_frame *to,
			    const ProtobufCMessage *m)
{
	/* A broken connection is reported by down(); without memory, end it. */
	if (tei_frame_reply(v->conn, to, m) == -ENOMEM)
		tei_frame_refuse_for_now(v->conn, "out of memory");
}

/* ---- hello ---- */

static void refuse_hello(struct tei_inbound_conn *v, const struct tei_frame *f,
			 uint32_t status, const char *why)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	Te__Hello m = TE__HELLO__INIT;
	char from[TEI_NAME_LEN_MAX + 1];

	TEI_COUNT(v->engine, refused_hello);
	tei_address_text(tei_frame_peer(v->conn), from);
	if (tei_log_allowed(&limit))
		LOG_WARN("control: hello of %s: %s", from, why);
	m.version = TEI_CONTROL_VERSION;
	m.status = status;
	m.why = (char *)(uintptr_t)why; /* only read */
	tei_inbound_conn_reply(v, f, &m.base);
	if (status == TEI_STATUS_BUSY)
		tei_frame_refuse_for_now(v->conn, why);
	else
		tei_frame_refuse(v->conn, why);
}

static const char *what_is_wrong(const struct tei_inbound_conn *v,
				 const Te__Hello *m, uint32_t *status)
{
	*status = TEI_STATUS_BAD;
	if (v->inbound)
		return "hello was said before";
	if (m->version != TEI_CONTROL_VERSION) {
		*status = TEI_STATUS_VERSION;
		return "this engine speaks version 1 of the control protocol";
	}
	if (m->incarnation.len != TE_INCARNATION_LEN)
		return "an incarnation has 16 bytes";
	if (m->nonce.len != TEI_NONCE_LEN)
		return "a nonce has 32 bytes";
	if (m->peer_secret.len && m->peer_secret.len != TEI_PEER_SECRET_LEN)
		return "a peer secret has 32 bytes";
	return NULL;
}

static int answer_hello(struct tei_inbound_conn *v, const struct tei_frame *f)
{
	struct te_engine *engine = v->engine;
	Te__Hello m = TE__HELLO__INIT;
	struct tei_group_set groups;
	int rc;

	tei_regions_groups(engine->regions, &groups);
	rc = tei_control_proofs(engine, &groups, &v->challenge, 'o', &m.groups);
	if (rc < 0)
		return rc;
	m.n_groups = (size_t)rc;
	m.version = TEI_CONTROL_VERSION;
	m.name = engine->name;
	m.incarnation.data = engine->incarnation;
	m.incarnation.len = TE_INCARNATION_LEN;
	m.nonce.data = v->challenge.owner_nonce;
	m.nonce.len = TEI_NONCE_LEN;
	m.epoch = v->inbound->announced_epoch;
	m.notify_taken = v->inbound->taken;
	m.notify_losses = engine->control->inbound.n_losses;
	tei_inbound_conn_reply(v, f, &m.base);
	return 0;
}

/*
 * Takes the name that receivers of a notification read, so no more than a name;
 * who is another one has not ours.
 */
static void take_name(struct tei_inbound_conn *v, const char *name)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct te_engine *engine = v->engine;
	char host[TEI_HOST_LEN_MAX + 1], from[TEI_NAME_LEN_MAX + 1];
	uint16_t port;

	if (!strcmp(name, engine->name) &&
	    memcmp(v->challenge.initiator, engine->incarnation,
		   TE_INCARNATION_LEN) != 0) {
		TEI_COUNT(engine, refused_name);
		tei_address_text(tei_frame_peer(v->conn), from);
		if (tei_log_allowed(&limit))
			LOG_WARN("control: hello of %s: it claims our own name "
				 "%s: served without a name",
				 from, name);
		return;
	}
	if (strlen(name) < sizeof(v->name) &&
	    !tei_name_split(name, host, &port))
		memcpy(v->name, name, strlen(name) + 1);
}

/*
 * The inbound peer of the hello, found or made; the connection is its from now
 * on. Connections are counted by what others cannot say.
 */
static int join_peer(struct tei_inbound_conn *v, const Te__Hello *m)
{
	struct tei_inbound_peer *inbound;
	struct tei_inbound_id id = {0};

	memcpy(id.incarnation, m->incarnation.data, TE_INCARNATION_LEN);
	if (m->peer_secret.len)
		memcpy(id.secret, m->peer_secret.data, TEI_PEER_SECRET_LEN);
	inbound = tei_inbound_peer_get(v->engine, &id);
	if (!inbound)
		return -ENOMEM;
	inbound_came(v, inbound);
	tei_frame_name(v->conn,
		       m->peer_secret.len ? id.secret : id.incarnation);
	return 0;
}

static void hello(struct tei_inbound_conn *v, const struct tei_frame *f)
{
	struct te_engine *engine = v->engine;
	uint32_t status;
	const char *why;
	Te__Hello *m;

	m = te__hello__unpack(&engine->control->arena.pb, f->len, f->body);
	if (!m) {
		tei_frame_bad(v->conn, "unreadable hello");
		return;
	}
	why = what_is_wrong(v, m, &status);
	if (why) {
		refuse_hello(v, f, status, why);
		return;
	}
	memcpy(v->challenge.initiator, m->incarnation.data, TE_INCARNATION_LEN);
	memcpy(v->challenge.initiator_nonce, m->nonce.data, TEI_NONCE_LEN);
	memcpy(v->challenge.owner, engine->incarnation, TE_INCARNATION_LEN);
	if (tei_random(v->challenge.owner_nonce, TEI_NONCE_LEN)) {
		refuse_hello(v, f, TEI_STATUS_BUSY, "no random bytes");
		return;
	}
	v->features = m->features;
	take_name(v, m->name);
	if (join_peer(v, m) || answer_hello(v, f))
		tei_frame_refuse_for_now(v->conn, "out of memory");
}

/* ---- prove, describe ---- */

/*
 * Returns the groups shown that this engine has, too, and whose proof is right.
 */
static tei_group_mask check_proofs(struct tei_inbound_conn *v)
{
	struct te_engine *engine = v->engine;
	struct tei_group_set groups;
	tei_group_mask mask = 0;
	unsigned int i;
	int place;

	tei_regions_groups(engine->regions, &groups);
	for (i = 0; i < v->n_proofs; i++) {
		struct tei_shown_proof *shown = &v->proofs[i];

		place = tei_group_by_tag(&groups, shown->tag);
		if (place < 0 || shown->wrong || (v->groups >> place & 1))
			continue;
		if (tei_group_verify(&groups.group[place], &v->challenge, 'i',
				     shown->proof)) {
			mask |= (tei_group_mask)1 << place;
		} else {
			shown->wrong = true; /* work and count only once */
			TEI_COUNT(engine, refused_proof);
		}
	}
	return mask;
}

static bool update_groups(struct tei_inbound_conn *v)
{
	tei_group_mask more = check_proofs(v);

	if (!more)
		return false;
	v->groups |= more;
	inbound_update_groups(v);
	return true;
}

/* Answer @to, or push when it is NULL. */
static void describe(struct tei_inbound_conn *v, const struct tei_frame *to)
{
	Te__Description m = TE__DESCRIPTION__INIT;
	struct te_engine *engine = v->engine;
	int rc;

	if (tei_frame_backlog(v->conn) > BACKLOG_MAX) {
		tei_frame_refuse_for_now(v->conn, "answers are not being read");
		return;
	}
	tei_arena_reset(&engine->control->arena);
	rc = tei_describe(engine, v->groups, &engine->control->arena, &m);
	m.epoch_ending =
		atomic_load(&v->inbound->epoch) != v->inbound->announced_epoch;
	if (!rc && to)
		rc = tei_frame_reply(v->conn, to, &m.base);
	else if (!rc)
		rc = tei_frame_send(v->conn, TE__CONTROL_TYPE__CONTROL_REGIONS,
				    0, 0, &m.base);
	if (rc == -ENOMEM)
		tei_frame_refuse_for_now(v->conn, "out of memory");
	else if (rc == -EMSGSIZE)
		tei_frame_refuse(v->conn, "the description is too long");
	v->announced_version = m.version;
}

bool tei_inbound_conn_push(struct tei_inbound_conn *v)
{
	uint64_t version = atomic_load_explicit(&v->engine->regions->version,
						memory_order_acquire);

	if (!v->inbound)
		return true;
	update_groups(v);
	if (!v->announced_version || v->announced_version == version)
		return true;
	if (tei_frame_backlog(v->conn) > PUSH_BACKLOG_MAX)
		return false;
	describe(v, NULL);
	return true;
}

static bool proofs_are_formed(const Te__Prove *m)
{
	size_t i;

	if (m->n_groups > TEI_GROUPS_MAX)
		return false;
	for (i = 0; i < m->n_groups; i++) {
		if (m->groups[i]->tag.len != TEI_GROUP_TAG_LEN ||
		    m->groups[i]->proof.len != TEI_GROUP_PROOF_LEN)
			return false;
	}
	return true;
}

static int keep_proofs(struct tei_inbound_conn *v, const Te__Prove *m)
{
	struct tei_shown_proof *proofs;
	size_t i;

	proofs = tei_calloc(m->n_groups + 1, sizeof(*proofs));
	if (!proofs)
		return -ENOMEM;
	for (i = 0; i < m->n_groups; i++) {
		memcpy(proofs[i].tag, m->groups[i]->tag.data,
		       TEI_GROUP_TAG_LEN);
		memcpy(proofs[i].proof, m->groups[i]->proof.data,
		       TEI_GROUP_PROOF_LEN);
	}
	tei_free(v->proofs);
	v->proofs = proofs;
	v->n_proofs = (unsigned int)m->n_groups;
	return 0;
}

static void prove(struct tei_inbound_conn *v, const struct tei_frame *f)
{
	Te__Proved answer = TE__PROVED__INIT;
	bool changed;
	Te__Prove *m;

	m = te__prove__unpack(&v->engine->control->arena.pb, f->len, f->body);
	if (!m || !proofs_are_formed(m)) {
		tei_frame_bad(v->conn, "unreadable proofs");
		return;
	}
	if (keep_proofs(v, m)) {
		tei_frame_refuse_for_now(v->conn, "out of memory");
		return;
	}
	changed = update_groups(v);
	answer.accepted = (uint32_t)__builtin_popcountll(v->groups);
	tei_inbound_conn_reply(v, f, &answer.base);
	if (changed && v->announced_version)
		describe(v, NULL);
}

/* ---- probe, revoked ---- */

/* Keeps, of the endpoints asked for, those of which there is no half. */
static void keep_gone(struct tei_inbound_peer *inbound, Te__Probe *m)
{
	size_t i, n = 0;

	for (i = 0; i < m->n_endpoint; i++) {
		if (!inbound_link(inbound, m->endpoint[i]))
			m->endpoint[n++] = m->endpoint[i];
	}
	m->n_endpoint = n;
}

static void probe(struct tei_inbound_conn *v, const struct tei_frame *f)
{
	Te__Probe *m;

	m = te__probe__unpack(&v->engine->control->arena.pb, f->len, f->body);
	if (!m || m->n_endpoint > TEI_INBOUND_LINKS_MAX) {
		tei_frame_bad(v->conn, "unreadable probe");
		return;
	}
	keep_gone(v->inbound, m);
	tei_inbound_conn_reply(v, f, &m->base);
}

void tei_control_revoked(struct tei_inbound_conn *v, uint64_t epoch)
{
	Te__Revoked m = TE__REVOKED__INIT;

	m.epoch = epoch;
	if (tei_frame_send(v->conn, TE__CONTROL_TYPE__CONTROL_REVOKED, 0, 0,
			   &m.base) == -ENOMEM)
		tei_frame_refuse_for_now(v->conn, "out of memory");
}

/* ---- connect ---- */

static struct tei_rail_box *find_rail(struct te_engine *engine,
				      const Te__Connect *m)
{
	struct tei_rail_box *box;

	if (m->rail >= engine->worker->n_rails)
		return NULL;
	box = engine->worker->rails[m->rail];
	if (strcmp(box->rail.ops->name, m->backend) ||
	    (box->rail.ops->caps & TEI_CAP_SELF))
		return NULL;
	return box;
}

static struct tei_link *make_link(struct tei_inbound_conn *v,
				  struct tei_rail_box *box,
				  const Te__Connect *m)
{
	struct tei_link *link = tei_link_make(v->engine, box);

	if (!link)
		return NULL;
	link->number = m->endpoint;
	link->ep.target = true;
	link->ep.epoch = m->epoch;
	atomic_init(&link->groups, v->groups);
	link->in.inbound = v->inbound;
	link->in.epoch_now = &v->inbound->epoch;
	link->in.conn = v;
	link->in.open.fn = tei_target_open;
	link->in.drop.fn = tei_target_drop;
	link->in.done.fn = inbound_link_done;
	link->in.gone.fn = tei_inbound_peer_link_gone;
	link->in.late.fn = tei_inbound_peer_link_late;
	link->in.address_len = m->address.len;
	if (m->address.len)
		memcpy(link->in.address, m->address.data, m->address.len);
	return link;
}

static int check_connect(struct tei_inbound_conn *v, const Te__Connect *m,
			 struct tei_rail_box **box)
{
	*box = find_rail(v->engine, m);
	if (!*box)
		return -EOPNOTSUPP;
	if (m->address.len > TEI_BLOB_MAX ||
	    inbound_link(v->inbound, m->endpoint))
		return -EBADMSG;
	if (m->epoch !=
	    atomic_load(&v->inbound->epoch)) /* it is just ending? */
		return m->epoch == v->inbound->announced_epoch ? -EAGAIN
							       : -ESTALE;
	if (v->inbound->n_links >= TEI_INBOUND_LINKS_MAX)
		return -EAGAIN;
	return 0;
}

static void connect_refused(struct tei_inbound_conn *v,
			    const struct tei_frame *f, int err)
{
	Te__Connected m = TE__CONNECTED__INIT;

	m.status = tei_status_from_errno(err);
	m.epoch = v->inbound->announced_epoch;
	tei_inbound_conn_reply(v, f, &m.base);
}

static void handle_connect(struct tei_inbound_conn *v,
			   const struct tei_frame *f)
{
	struct tei_rail_box *box;
	struct tei_link *link;
	Te__Connect *m;
	int rc;

	m = te__connect__unpack(&v->engine->control->arena.pb, f->len, f->body);
	if (!m) {
		tei_frame_bad(v->conn, "unreadable connect");
		return;
	}
	rc = check_connect(v, m, &box);
	link = rc ? NULL : make_link(v, box, m);
	if (!link) {
		connect_refused(v, f, rc ? rc : -ENOMEM);
		return;
	}
	link->in.connect_id = f->id;
	tei_list_add_tail(&v->inbound->links, &link->link);
	v->inbound->n_links++;
	tei_worker_post(box->worker, &link->in.open);
}

static void control_connected(struct tei_link *link)
{
	struct tei_inbound_conn *v = link->in.conn;
	struct tei_frame to = {.type = TE__CONTROL_TYPE__CONTROL_CONNECT,
			       .id = link->in.connect_id};
	Te__Connected m = TE__CONNECTED__INIT;

	if (!v)
		return;
	m.status = tei_status_from_errno(link->in.err);
	m.epoch = v->inbound->announced_epoch;
	if (!link->in.err) {
		m.address.data = link->in.address;
		m.address.len = link->in.address_len;
	}
	tei_inbound_conn_reply(v, &to, &m.base);
}

/* ---- drop ---- */

static void control_dropped(struct tei_inbound_conn *v, uint64_t id)
{
	struct tei_frame to = {.type = TE__CONTROL_TYPE__CONTROL_DROP,
			       .id = id};
	Te__Dropped m = TE__DROPPED__INIT;

	tei_inbound_conn_reply(v, &to, &m.base);
}

/*
 * Notes whom to answer when the link has ended. A connection that sends another
 * Drop has given up the earlier one, so only its last is answered, and a peer
 * that keeps a link from ending cannot pile them up.
 */
static int await_end(struct tei_link *link, struct tei_inbound_conn *v,
		     uint64_t id)
{
	struct tei_dropper *dropper = find_dropper(link, v);

	if (!dropper) {
		dropper = tei_calloc(1, sizeof(*dropper));
		if (!dropper)
			return -ENOMEM;
		dropper->conn = v;
		tei_list_add_tail(&link->in.droppers, &dropper->link);
	}
	dropper->id = id;
	return 0;
}

static void handle_drop(struct tei_inbound_conn *v, const struct tei_frame *f)
{
	struct tei_link *link;
	Te__Drop *m;

	m = te__drop__unpack(&v->engine->control->arena.pb, f->len, f->body);
	if (!m) {
		tei_frame_bad(v->conn, "unreadable drop");
		return;
	}
	link = inbound_link(v->inbound, m->endpoint);
	if (!link) { /* gone already, or never made: quiet */
		control_dropped(v, f->id);
		return;
	}
	if (await_end(link, v, f->id)) {
		tei_frame_refuse_for_now(v->conn, "out of memory");
		return;
	}
	tei_inbound_peer_drop_link(link);
}

/* ---- the connection ---- */

static void frame_came(struct tei_frame_conn *conn, const struct tei_frame *f,
		       void *arg)
{
	struct tei_inbound_conn *v = arg;

	tei_arena_reset(&v->engine->control->arena);
	if (f->type != TE__CONTROL_TYPE__CONTROL_HELLO && !v->inbound) {
		tei_frame_bad(conn, "say hello first");
		return;
	}
	switch (f->type) {
	case TE__CONTROL_TYPE__CONTROL_HELLO:
		hello(v, f);
		break;
	case TE__CONTROL_TYPE__CONTROL_PROVE:
		prove(v, f);
		break;
	case TE__CONTROL_TYPE__CONTROL_DESCRIBE:
		/* A region may be of a group that was not ours till now. */
		update_groups(v);
		describe(v, f);
		break;
	case TE__CONTROL_TYPE__CONTROL_CONNECT:
		handle_connect(v, f);
		break;
	case TE__CONTROL_TYPE__CONTROL_DROP:
		handle_drop(v, f);
		break;
	case TE__CONTROL_TYPE__CONTROL_PROBE:
		probe(v, f);
		break;
	case TE__CONTROL_TYPE__CONTROL_NOTIFY:
		tei_inbound_conn_notify(v, f);
		break;
	default:
		tei_frame_bad(conn, "only an owner says that");
	}
}

static void went_down(struct tei_frame_conn *conn, int err, const char *text,
		      void *arg)
{
	(void)conn;
	(void)err;
	(void)text;
	tei_inbound_conn_leave(arg);
}

static void count_fault(enum tei_frame_fault kind, void *arg)
{
	struct tei_inbound_conn *v = arg;

	tei_control_count_fault(v->engine, kind);
}

/*
 * A link counts only once the peer's half has come to it, which costs the peer
 * what it costs us: a Connect alone would make any connection a needed one. An
 * answer that is owed does not count: who has lost it asks again.
 */
static bool is_needed(void *arg)
{
	const struct tei_inbound_conn *v = arg;

	if (!v->inbound)
		return false;
	tei_list_for_each (node, &v->inbound->links) {
		const struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);

		if (link->in.conn == v && !link->in.dropping &&
		    !link->in.is_gone &&
		    atomic_load_explicit(&link->in.up, memory_order_relaxed))
			return true;
	}
	return false;
}

static const struct tei_frame_ops inbound_ops = {
	.frame = frame_came,
	.down = went_down,
	.fault = count_fault,
	.needed = is_needed,
};

int tei_inbound_conn_came(struct te_engine *engine, struct tei_frame_conn *conn)
{
	struct tei_inbound_conn *v = tei_calloc(1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	v->engine = engine;
	v->conn = conn;
	tei_list_init(&v->of_peer);
	tei_list_add_tail(&engine->control->inbound.conns, &v->link);
	tei_frame_set_ops(conn, &inbound_ops, v);
	TEI_COUNT(engine, inbound_conns);
	return 0;
}

void tei_inbound_conn_leave(struct tei_inbound_conn *v)
{
	tei_frame_close(v->conn);
	tei_list_del(&v->link);
	tei_list_del(&v->of_peer);
	if (v->inbound) {
		if (v->inbound->account && tei_list_empty(&v->inbound->conns))
			tei_account_give_up(v->engine->inbox,
					    v->inbound->account);
		forget_conn_of_links(v);
		await_return(v->engine, v->inbound);
		tei_inbound_peer_release(v->engine, v->inbound);
	}
	tei_free(v->proofs);
	tei_free(v);
}
