/* SPDX-License-Identifier: Apache-2.0 */
/* inbound_connection.c - hello, prove, describe and probe, answered */
#include <errno.h>
#include <string.h>

#include "base/frame.h"
#include "base/log.h"
#include "base/mem.h"
#include "te/common/control.pb-c.h"
#include "te/common/engine.h"
#include "te/control/control.h"
#include "te/control/inbound.h"
#include "te/notify/inbox.h"
#include "te/region/description.h"
#include "te/region/region.h"
#include "te/transfer/link.h"
#include "te/worker/worker.h"

#define BACKLOG_MAX      ((size_t)32 << 20) /* of what it does not read */
#define PUSH_BACKLOG_MAX ((size_t)64 << 10)

void tei_visitor_reply(struct tei_visitor *v, const struct tei_frame *to,
		       const ProtobufCMessage *m)
{
	/* A wire that is broken is told by down(); without memory, end it. */
	if (tei_frame_reply(v->conn, to, m) == -ENOMEM)
		tei_frame_refuse_for_now(v->conn, "out of memory");
}

/* ---- hello ---- */

static void refuse_hello(struct tei_visitor *v, const struct tei_frame *f,
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
	tei_visitor_reply(v, f, &m.base);
	if (status == TEI_STATUS_BUSY)
		tei_frame_refuse_for_now(v->conn, why);
	else
		tei_frame_refuse(v->conn, why);
}

static const char *what_is_wrong(const struct tei_visitor *v,
				 const Te__Hello *m, uint32_t *status)
{
	*status = TEI_STATUS_BAD;
	if (v->guest)
		return "hello was said before";
	if (m->version != TEI_CONTROL_VERSION) {
		*status = TEI_STATUS_VERSION;
		return "this engine speaks version 1 of the control protocol";
	}
	if (m->incarnation.len != TE_INCARNATION_LEN)
		return "an incarnation has 16 bytes";
	if (m->nonce.len != TEI_NONCE_LEN)
		return "a nonce has 32 bytes";
	return NULL;
}

static int answer_hello(struct tei_visitor *v, const struct tei_frame *f)
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
	m.epoch = v->guest->told;
	m.notify_taken = v->guest->taken;
	m.notify_losses = engine->control->guests.n_losses;
	tei_visitor_reply(v, f, &m.base);
	return 0;
}

/*
 * For the receiver of a notification to read, so no more than a name, and who is
 * another one has not ours.
 */
static void take_name(struct tei_visitor *v, const char *name)
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
			LOG_WARN("control: hello of %s: it says that it is %s, "
				 "as we are, and stays without a name",
				 from, name);
		return;
	}
	if (strlen(name) < sizeof(v->name) &&
	    !tei_name_split(name, host, &port))
		memcpy(v->name, name, strlen(name) + 1);
}

static void hello(struct tei_visitor *v, const struct tei_frame *f)
{
	struct te_engine *engine = v->engine;
	struct tei_guest *guest;
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
	take_name(v, m->name);
	guest = tei_guest_get(engine, v->challenge.initiator);
	if (guest)
		tei_guest_came(v, guest);
	if (!guest || answer_hello(v, f))
		tei_frame_refuse_for_now(v->conn, "out of memory");
}

/* ---- prove ---- */

static void describe(struct tei_visitor *v, const struct tei_frame *to);

/* Of the groups shown, those that we have, too, and that are right. */
static tei_group_mask judge(struct tei_visitor *v)
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

static bool update_groups(struct tei_visitor *v)
{
	tei_group_mask more = judge(v);

	if (!more)
		return false;
	v->groups |= more;
	tei_guest_update_groups(v);
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

static int keep_proofs(struct tei_visitor *v, const Te__Prove *m)
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

static void prove(struct tei_visitor *v, const struct tei_frame *f)
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
	tei_visitor_reply(v, f, &answer.base);
	if (changed && v->told_version)
		describe(v, NULL);
}

/* ---- describe ---- */

/* Answer @to, or push when it is NULL. */
static void describe(struct tei_visitor *v, const struct tei_frame *to)
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
	m.epoch_ending = atomic_load(&v->guest->epoch) != v->guest->told;
	if (!rc && to)
		rc = tei_frame_reply(v->conn, to, &m.base);
	else if (!rc)
		rc = tei_frame_send(v->conn, TE__CONTROL_TYPE__CONTROL_REGIONS,
				    0, 0, &m.base);
	if (rc == -ENOMEM)
		tei_frame_refuse_for_now(v->conn, "out of memory");
	else if (rc == -EMSGSIZE)
		tei_frame_refuse(v->conn, "the description is too long");
	v->told_version = m.version;
}

bool tei_visitor_push(struct tei_visitor *v)
{
	uint64_t version = atomic_load_explicit(&v->engine->regions->version,
						memory_order_acquire);

	if (!v->guest)
		return true;
	update_groups(v);
	if (!v->told_version || v->told_version == version)
		return true;
	if (tei_frame_backlog(v->conn) > PUSH_BACKLOG_MAX)
		return false;
	describe(v, NULL);
	return true;
}

/* ---- probe, revoked ---- */

static void probe(struct tei_visitor *v, const struct tei_frame *f)
{
	Te__Probe m = TE__PROBE__INIT;

	tei_visitor_reply(v, f, &m.base);
}

void tei_control_revoked(struct tei_visitor *v, uint64_t epoch)
{
	Te__Revoked m = TE__REVOKED__INIT;

	m.epoch = epoch;
	if (tei_frame_send(v->conn, TE__CONTROL_TYPE__CONTROL_REVOKED, 0, 0,
			   &m.base) == -ENOMEM)
		tei_frame_refuse_for_now(v->conn, "out of memory");
}

/* ---- the connection ---- */

static void frame_came(struct tei_frame_conn *conn, const struct tei_frame *f,
		       void *arg)
{
	struct tei_visitor *v = arg;

	tei_arena_reset(&v->engine->control->arena);
	if (f->type != TE__CONTROL_TYPE__CONTROL_HELLO && !v->guest) {
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
		tei_visitor_connect(v, f);
		break;
	case TE__CONTROL_TYPE__CONTROL_DROP:
		tei_visitor_drop(v, f);
		break;
	case TE__CONTROL_TYPE__CONTROL_PROBE:
		probe(v, f);
		break;
	case TE__CONTROL_TYPE__CONTROL_NOTIFY:
		tei_visitor_notify(v, f);
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
	tei_visitor_leave(arg);
}

static void fault(enum tei_frame_fault kind, void *arg)
{
	struct tei_visitor *v = arg;

	tei_control_count_fault(v->engine, kind);
}

static const struct tei_frame_ops visitor_ops = {
	.frame = frame_came,
	.down = went_down,
	.fault = fault,
};

int tei_visitor_came(struct te_engine *engine, struct tei_frame_conn *conn)
{
	struct tei_visitor *v = tei_calloc(1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	v->engine = engine;
	v->conn = conn;
	tei_list_init(&v->of_guest);
	tei_list_add_tail(&engine->control->guests.visitors, &v->link);
	tei_frame_set_ops(conn, &visitor_ops, v);
	TEI_COUNT(engine, visitors);
	return 0;
}

void tei_visitor_leave(struct tei_visitor *v)
{
	tei_frame_close(v->conn);
	tei_list_del(&v->link);
	tei_list_del(&v->of_guest);
	if (v->guest) {
		if (v->guest->account && tei_list_empty(&v->guest->visitors))
			tei_account_give_up(v->engine->inbox,
					    v->guest->account);
		tei_guest_visitor_left(v);
		tei_guest_release(v->engine, v->guest);
	}
	tei_free(v->proofs);
	tei_free(v);
}

/* ---- connect and drop, asked by a visitor for its guest's links ---- */

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

static struct tei_link *
make_link(struct tei_visitor *v, struct tei_rail_box *box, const Te__Connect *m)
{
	struct tei_link *link = tei_link_make(v->engine, box);

	if (!link)
		return NULL;
	link->number = m->endpoint;
	link->ep.target = true;
	link->ep.epoch = m->epoch;
	atomic_init(&link->groups, v->groups);
	link->in.guest = v->guest;
	link->in.epoch_now = &v->guest->epoch;
	link->in.visitor = v;
	link->in.open.fn = tei_target_open;
	link->in.drop.fn = tei_target_drop;
	link->in.done.fn = tei_guest_link_done;
	link->in.gone.fn = tei_guest_link_gone;
	link->in.late.fn = tei_guest_link_late;
	link->in.address_len = m->address.len;
	if (m->address.len)
		memcpy(link->in.address, m->address.data, m->address.len);
	return link;
}

static int check_connect(struct tei_visitor *v, const Te__Connect *m,
			 struct tei_rail_box **box)
{
	*box = find_rail(v->engine, m);
	if (!*box)
		return -EOPNOTSUPP;
	if (m->address.len > TEI_BLOB_MAX ||
	    tei_guest_link(v->guest, m->endpoint))
		return -EBADMSG;
	if (m->epoch != atomic_load(&v->guest->epoch)) /* it is just ending? */
		return m->epoch == v->guest->told ? -EAGAIN : -ESTALE;
	if (v->guest->n_links >= TEI_GUEST_LINKS_MAX)
		return -EAGAIN;
	return 0;
}

static void connect_refused(struct tei_visitor *v, const struct tei_frame *f,
			    int err)
{
	Te__Connected m = TE__CONNECTED__INIT;

	m.status = tei_status_from_errno(err);
	m.epoch = v->guest->told;
	tei_visitor_reply(v, f, &m.base);
}

void tei_visitor_connect(struct tei_visitor *v, const struct tei_frame *f)
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
	tei_list_add_tail(&v->guest->links, &link->link);
	v->guest->n_links++;
	tei_worker_post(v->engine->worker, &link->in.open);
}

void tei_control_connected(struct tei_link *link)
{
	struct tei_visitor *v = link->in.visitor;
	struct tei_frame to = {.type = TE__CONTROL_TYPE__CONTROL_CONNECT,
			       .id = link->in.connect_id};
	Te__Connected m = TE__CONNECTED__INIT;

	if (!v)
		return;
	m.status = tei_status_from_errno(link->in.err);
	m.epoch = v->guest->told;
	if (!link->in.err) {
		m.address.data = link->in.address;
		m.address.len = link->in.address_len;
	}
	tei_visitor_reply(v, &to, &m.base);
}

/* ---- drop ---- */

void tei_control_dropped(struct tei_visitor *v, uint64_t id)
{
	struct tei_frame to = {.type = TE__CONTROL_TYPE__CONTROL_DROP,
			       .id = id};
	Te__Dropped m = TE__DROPPED__INIT;

	tei_visitor_reply(v, &to, &m.base);
}

void tei_visitor_drop(struct tei_visitor *v, const struct tei_frame *f)
{
	struct tei_dropper *dropper;
	struct tei_link *link;
	Te__Drop *m;

	m = te__drop__unpack(&v->engine->control->arena.pb, f->len, f->body);
	if (!m) {
		tei_frame_bad(v->conn, "unreadable drop");
		return;
	}
	link = tei_guest_link(v->guest, m->endpoint);
	if (!link) { /* gone already, or never made: quiet */
		tei_control_dropped(v, f->id);
		return;
	}
	dropper = tei_calloc(1, sizeof(*dropper));
	if (!dropper) {
		tei_frame_refuse_for_now(v->conn, "out of memory");
		return;
	}
	dropper->visitor = v;
	dropper->id = f->id;
	tei_list_add_tail(&link->in.droppers, &dropper->link);
	tei_guest_drop_link(link);
}
