/* SPDX-License-Identifier: Apache-2.0 */
/* peer_calls.c - calls to an owner: hello, proofs, description, probe */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "te/control/control.h"
#include "te/control/peer.h"
#include "te/core/control.pb-c.h"
#include "te/core/engine.h"
#include "te/transfer/link.h"
#include "te/transfer/transfer.h"
#include "te/worker/worker.h"

/*
 * A call ended without an answer. When the connection is at fault, down()
 * follows and knows more; a step that only took too long ends it here.
 */
static void step_failed(struct tei_peer *peer, int err)
{
	if (peer->c->conn && err == -ETIMEDOUT)
		tei_peer_failed(peer, err, false);
}

/* Says what is wrong with an owner, who can be wrong as often as it likes. */
static void complain(const struct tei_peer *peer, const char *what,
		     const char *detail)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_allowed(&limit))
		LOG_WARN("peer %s: %s%s", peer->name, what, detail);
}

void tei_peer_not_understood(struct tei_peer *peer, const char *what)
{
	complain(peer, "unreadable ", what);
	tei_peer_failed(peer, -EPROTO, true);
}

/* ---- hello ---- */

static int check_hello(struct tei_peer *peer, Te__Hello *m)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	int rc = tei_status_to_errno(m->status);
	char number[16];

	if (rc) {
		tei_text_clean(m->why);
		if (tei_log_allowed(&limit))
			LOG_WARN("peer %s: refuses us: %s", peer->name, m->why);
		if (rc == -ENOMEM)
			rc = -EAGAIN;
		return rc == -EPROTO || rc == -EAGAIN ? rc : -EACCES;
	}
	if (m->version != TEI_CONTROL_VERSION) {
		(void)snprintf(number, sizeof(number), "%u", m->version);
		complain(peer, "speaks version ", number);
		return -EPROTO;
	}
	if (m->incarnation.len != TE_INCARNATION_LEN ||
	    m->nonce.len != TEI_NONCE_LEN || !m->epoch) {
		complain(peer, "malformed hello", "");
		return -EPROTO;
	}
	/* Another engine may have taken over the address of a name. */
	if (!peer->port && strcmp(m->name, peer->name) != 0) {
		peer->c->n_address = 0;
		return -ESTALE;
	}
	/* Only an answer at the name's own address shows a restart. */
	if (peer->c->elsewhere &&
	    memcmp(m->incarnation.data, peer->announced.incarnation,
		   TE_INCARNATION_LEN))
		return -ESTALE;
	return 0;
}

/* Checks that a peer that names a group of this engine knows its secret. */
static int check_owner_proofs(struct tei_peer *peer, const Te__Hello *m)
{
	struct te_engine *engine = peer->engine;
	struct tei_group group = {0};
	size_t i;
	int place;

	for (i = 0; i < m->n_groups; i++) {
		const Te__GroupProof *p = m->groups[i];

		if (p->tag.len != TEI_GROUP_TAG_LEN ||
		    p->proof.len != TEI_GROUP_PROOF_LEN)
			return -EPROTO;
		tei_mutex_lock(&engine->mu);
		place = tei_group_by_tag(&engine->control->joined, p->tag.data);
		if (place >= 0)
			group = engine->control->joined.group[place];
		tei_mutex_unlock(&engine->mu);
		if (place < 0)
			continue;
		if (!tei_group_verify(&group, &peer->c->challenge, 'o',
				      p->proof.data)) {
			complain(peer, "false proof of a group", "");
			TEI_COUNT(engine, refused_proof);
			return -EACCES;
		}
	}
	return 0;
}

static void hello_done(struct tei_frame_call *call, int err,
		       const struct tei_frame *f)
{
	struct tei_peer *peer =
		TEI_CONTAINER(call, struct tei_peer_control, hello)->peer;
	struct te_engine *engine = peer->engine;
	Te__Hello *m;
	int rc;

	if (err) {
		step_failed(peer, err);
		return;
	}
	tei_arena_reset(&engine->control->arena);
	m = te__hello__unpack(&engine->control->arena.pb, f->len, f->body);
	if (!m) {
		tei_peer_not_understood(peer, "hello");
		return;
	}
	rc = check_hello(peer, m);
	if (!rc) {
		memcpy(peer->c->challenge.owner, m->incarnation.data,
		       TE_INCARNATION_LEN);
		memcpy(peer->c->challenge.owner_nonce, m->nonce.data,
		       TEI_NONCE_LEN);
		peer->c->hello_epoch = m->epoch;
		peer->c->hello_taken = m->notify_taken;
		peer->c->hello_losses = m->notify_losses;
		rc = check_owner_proofs(peer, m);
	}
	if (rc) {
		tei_peer_failed(peer, rc, rc != -EAGAIN && rc != -ESTALE);
		return;
	}
	tei_peer_move(peer, TEI_PEER_DESCRIBING);
	tei_peer_prove(peer);
	if (peer->c->conn)
		tei_peer_describe(peer);
}

static void peer_hello(struct tei_peer *peer)
{
	struct te_engine *engine = peer->engine;
	uint8_t secret[TEI_PEER_SECRET_LEN];
	Te__Hello m = TE__HELLO__INIT;
	int rc;

	tei_peer_move(peer, TEI_PEER_HELLO);
	rc = tei_random(peer->c->challenge.initiator_nonce, TEI_NONCE_LEN);
	if (!rc)
		rc = tei_peer_secret(engine->control->secret, peer->name,
				     secret);
	memcpy(peer->c->challenge.initiator, engine->incarnation,
	       TE_INCARNATION_LEN);
	m.version = TEI_CONTROL_VERSION;
	m.features = TEI_CONTROL_GONE;
	m.name = engine->name;
	m.incarnation.data = engine->incarnation;
	m.incarnation.len = TE_INCARNATION_LEN;
	m.nonce.data = peer->c->challenge.initiator_nonce;
	m.nonce.len = TEI_NONCE_LEN;
	m.peer_secret = (ProtobufCBinaryData){sizeof(secret), secret};
	peer->c->hello.done = hello_done;
	if (!rc)
		rc = tei_frame_call(peer->c->conn, &peer->c->hello,
				    TE__CONTROL_TYPE__CONTROL_HELLO, &m.base,
				    engine->config.connect_timeout);
	if (rc)
		tei_peer_failed(peer, rc, false);
}

/* ---- proofs ---- */

static void prove_done(struct tei_frame_call *call, int err,
		       const struct tei_frame *f)
{
	struct tei_peer *peer =
		TEI_CONTAINER(call, struct tei_peer_control, prove)->peer;

	(void)f; /* how many were accepted shows in the description */
	peer->c->proving = false;
	if (err)
		step_failed(peer, err);
	else if (peer->c->prove_again)
		tei_peer_prove(peer);
}

void tei_peer_prove(struct tei_peer *peer)
{
	struct te_engine *engine = peer->engine;
	Te__Prove m = TE__PROVE__INIT;
	struct tei_group_set joined;
	int rc;

	peer->c->prove_again = peer->c->proving;
	if (peer->c->proving || !peer->c->conn)
		return;
	tei_mutex_lock(&engine->mu);
	joined = engine->control->joined;
	tei_mutex_unlock(&engine->mu);
	if (!joined.n)
		return;
	tei_arena_reset(&engine->control->arena);
	rc = tei_control_proofs(engine, &joined, &peer->c->challenge, 'i',
				&m.groups);
	if (rc >= 0) {
		m.n_groups = (size_t)rc;
		peer->c->prove.done = prove_done;
		rc = tei_frame_call(peer->c->conn, &peer->c->prove,
				    TE__CONTROL_TYPE__CONTROL_PROVE, &m.base,
				    engine->config.connect_timeout);
	}
	if (rc)
		tei_peer_failed(peer, rc, false);
	else
		peer->c->proving = true;
}

/* ---- description ---- */

/* A new incarnation begins a new life: what belongs to the old one is stale. */
static void tell_life(struct tei_peer *peer)
{
	struct tei_announced *announced = &peer->announced;
	bool same = announced->life &&
		    !memcmp(announced->incarnation, peer->c->challenge.owner,
			    TE_INCARNATION_LEN);

	if (same && peer->c->hello_epoch <= announced->epoch)
		return;
	announced->epoch = peer->c->hello_epoch;
	announced->epoch_since = tei_now_ns();
	announced->epoch_over = 0;
	if (same)
		return;
	if (announced->life) {
		TEI_COUNT(peer->engine, restarts_seen);
		peer->segment = NULL;
	}
	announced->life++;
	memcpy(announced->incarnation, peer->c->challenge.owner,
	       TE_INCARNATION_LEN);
	if (peer->segment)
		tei_segment_meet(peer->segment);
}

/* @question: the last one that @remote answers; 0: a push, it answers none. */
static void announce_remote(struct tei_peer *peer, struct tei_remote *remote,
			    uint64_t question)
{
	struct te_engine *engine = peer->engine;
	struct tei_remote *old;

	tei_mutex_lock(&engine->mu);
	if (peer->c->state == TEI_PEER_DESCRIBING)
		tell_life(peer);
	old = peer->announced.remote;
	peer->announced.remote = remote;
	peer->announced.up = true;
	if (question > peer->announced.fresh)
		peer->announced.fresh = question;
	peer->announced.address = *tei_frame_peer(peer->c->conn);
	tei_mutex_unlock(&engine->mu);
	tei_remote_put(old);
	tei_peer_post_news(peer);
}

/* -EPROTO, -ENOMEM; the peer has failed then. */
static int take_description(struct tei_peer *peer, const struct tei_frame *f,
			    uint64_t question)
{
	struct te_engine *engine = peer->engine;
	struct tei_remote *remote;
	Te__Description *m;
	int rc = -EPROTO;

	tei_arena_reset(&engine->control->arena);
	m = te__description__unpack(&engine->control->arena.pb, f->len,
				    f->body);
	if (m)
		rc = tei_status_to_errno(m->status);
	if (!rc)
		rc = tei_remote_make(m, &remote);
	if (rc) {
		complain(peer, "description: ", te_strerror(rc));
		tei_peer_failed(peer, rc, rc == -EPROTO);
		return rc;
	}
	announce_remote(peer, remote, question);
	return 0;
}

static void describe_done(struct tei_frame_call *call, int err,
			  const struct tei_frame *f)
{
	struct tei_peer *peer =
		TEI_CONTAINER(call, struct tei_peer_control, describe)->peer;
	bool again = peer->c->describe_again;

	peer->c->describing = false;
	if (err) {
		step_failed(peer, err);
		return;
	}
	if (take_description(peer, f, peer->c->question))
		return;
	if (peer->c->state == TEI_PEER_DESCRIBING)
		tei_peer_is_up(peer);
	if (again && peer->c->conn)
		tei_peer_describe(peer);
}

void tei_peer_describe(struct tei_peer *peer)
{
	Te__Describe m = TE__DESCRIBE__INIT;
	int rc;

	peer->c->describe_again = peer->c->describing;
	if (peer->c->describing || !peer->c->conn)
		return;
	peer->c->describe.done = describe_done;
	peer->c->question = atomic_load(&peer->questions);
	rc = tei_frame_call(peer->c->conn, &peer->c->describe,
			    TE__CONTROL_TYPE__CONTROL_DESCRIBE, &m.base,
			    peer->engine->config.connect_timeout);
	if (rc)
		tei_peer_failed(peer, rc, false);
	else
		peer->c->describing = true;
}

/* ---- probe ---- */

static void probe_done(struct tei_frame_call *call, int err,
		       const struct tei_frame *f)
{
	struct tei_peer *peer =
		TEI_CONTAINER(call, struct tei_peer_control, probe)->peer;
	struct tei_arena *arena = &peer->engine->control->arena;
	Te__Probe *m;
	size_t i;

	peer->c->probing = false;
	if (err) {
		step_failed(peer, err);
		return;
	}
	tei_arena_reset(arena);
	m = te__probe__unpack(&arena->pb, f->len, f->body);
	if (!m) {
		tei_peer_not_understood(peer, "probe");
		return;
	}
	for (i = 0; i < m->n_endpoint; i++)
		tei_peer_link_gone(peer, m->endpoint[i], false);
	tei_reroute_answered(peer);
	tei_peer_probed(peer, tei_now_ns() - peer->c->probed_at);
}

void tei_peer_probe(struct tei_peer *peer)
{
	uint64_t silent[TEI_PEER_GONE];
	Te__Probe m = TE__PROBE__INIT;
	int rc;

	if (peer->c->probing || !peer->c->conn)
		return;
	m.endpoint = silent;
	m.n_endpoint = tei_peer_take_silent(peer, silent);
	peer->c->probed_at = tei_now_ns();
	peer->c->probe.done = probe_done;
	rc = tei_frame_call(peer->c->conn, &peer->c->probe,
			    TE__CONTROL_TYPE__CONTROL_PROBE, &m.base,
			    tei_reroute_timeout_ms(peer));
	if (rc)
		tei_peer_failed(peer, rc, false);
	else
		peer->c->probing = true;
}

/* ---- frames that nobody asked for, and the connection itself ---- */

static void came_up(struct tei_frame_conn *conn, void *arg)
{
	(void)conn;
	peer_hello(arg);
}

static void revoked(struct tei_peer *peer, const struct tei_frame *f)
{
	struct te_engine *engine = peer->engine;
	Te__Revoked *m;

	tei_arena_reset(&engine->control->arena);
	m = te__revoked__unpack(&engine->control->arena.pb, f->len, f->body);
	if (!m) {
		tei_peer_not_understood(peer, "revocation");
		return;
	}
	if (peer->c->state == TEI_PEER_UP)
		tei_peer_tell_epoch(peer, m->epoch);
	else if (m->epoch > peer->c->hello_epoch)
		peer->c->hello_epoch = m->epoch;
}

static void gone_came(struct tei_peer *peer, const struct tei_frame *f)
{
	struct te_engine *engine = peer->engine;
	Te__Gone *m;

	tei_arena_reset(&engine->control->arena);
	m = te__gone__unpack(&engine->control->arena.pb, f->len, f->body);
	if (m)
		tei_peer_link_gone(peer, m->endpoint, m->wanted);
	else
		tei_peer_not_understood(peer, "end of an endpoint");
}

static void room_came(struct tei_peer *peer)
{
	peer->c->notify.full = false;
	tei_notify_send(peer);
}

static void frame_came(struct tei_frame_conn *conn, const struct tei_frame *f,
		       void *arg)
{
	struct tei_peer *peer = arg;

	(void)conn;
	if (peer->c->state != TEI_PEER_UP &&
	    peer->c->state != TEI_PEER_DESCRIBING)
		return;
	if (f->type == TE__CONTROL_TYPE__CONTROL_REGIONS)
		take_description(peer, f, 0);
	else if (f->type == TE__CONTROL_TYPE__CONTROL_REVOKED)
		revoked(peer, f);
	else if (f->type == TE__CONTROL_TYPE__CONTROL_ROOM)
		room_came(peer);
	else if (f->type == TE__CONTROL_TYPE__CONTROL_GONE)
		gone_came(peer, f);
}

static void went_down(struct tei_frame_conn *conn, int err, const char *text,
		      void *arg)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct tei_peer *peer = arg;
	bool refused = text && err != -EAGAIN; /* and not only for now */
	char words[200];

	(void)conn;
	if (text) {
		snprintf(words, sizeof(words), "%s", text);
		tei_text_clean(words);
		if (tei_log_allowed(&limit))
			LOG_WARN("peer %s: refuses us%s: %s", peer->name,
				 refused ? "" : " for now", words);
	}
	if (refused)
		err = -EACCES;
	tei_peer_failed(peer, err, refused || err == -EPROTO);
}

static void count_fault(enum tei_frame_fault kind, void *arg)
{
	struct tei_peer *peer = arg;

	tei_control_count_fault(peer->engine, kind);
}

const struct tei_frame_ops tei_peer_frame_ops = {
	.frame = frame_came,
	.down = went_down,
	.up = came_up,
	.fault = count_fault,
};

/* ---- Connect and Drop, asked on behalf of the worker's links ---- */

static void answer_connect(struct tei_link *link, int err)
{
	link->out.err = err;
	tei_worker_post(link->rail->worker, &link->out.answer);
}

/* ---- connect ---- */

static int take_connected(struct tei_link *link, const struct tei_frame *f)
{
	struct te_engine *engine = link->engine;
	Te__Connected *m;
	int rc;

	tei_arena_reset(&engine->control->arena);
	m = te__connected__unpack(&engine->control->arena.pb, f->len, f->body);
	if (!m)
		return -EPROTO;
	if (m->epoch)
		tei_peer_tell_epoch(link->out.peer->of, m->epoch);
	rc = tei_status_to_errno(m->status);
	if (rc)
		return rc;
	if (m->address.len > TEI_BLOB_MAX)
		return -EPROTO;
	if (m->address.len)
		memcpy(link->out.address, m->address.data, m->address.len);
	link->out.address_len = m->address.len;
	return 0;
}

static void connect_done(struct tei_frame_call *call, int err,
			 const struct tei_frame *f)
{
	struct tei_link *link = TEI_CONTAINER(call, struct tei_link, out.rpc);

	link->out.unanswered = err != 0;
	if (!err)
		err = take_connected(link, f);
	else if (err != -ETIMEDOUT)
		err = -ENOTCONN; /* how control ended is no rail's fault */
	answer_connect(link, err);
}

static void ask_connect(struct tei_call *call)
{
	struct tei_link *link = TEI_CONTAINER(call, struct tei_link, out.ask);
	struct tei_peer *peer = link->out.peer->of;
	Te__Connect m = TE__CONNECT__INIT;
	int rc;

	if (peer->c->state != TEI_PEER_UP || !peer->c->conn ||
	    peer->announced.life != link->out.life) {
		answer_connect(link, -ENOTCONN);
		return;
	}
	m.endpoint = link->number;
	/* The generated code lacks const; it only reads. */
	m.backend = (char *)(uintptr_t)link->ep.rail->ops->name;
	m.rail = link->out.remote_rail;
	m.address.data = link->out.address;
	m.address.len = link->out.address_len;
	m.epoch = link->ep.epoch;
	link->out.rpc.done = connect_done;
	rc = tei_frame_call(peer->c->conn, &link->out.rpc,
			    TE__CONTROL_TYPE__CONTROL_CONNECT, &m.base,
			    peer->engine->config.connect_timeout);
	if (rc)
		answer_connect(link, rc);
}

/* ---- drop ---- */

static void drop_end(struct tei_link *link, int err)
{
	tei_list_del(&link->out.asked);
	answer_connect(link, err);
}

static int take_dropped(struct tei_link *link, const struct tei_frame *f)
{
	struct te_engine *engine = link->engine;
	Te__Dropped *m;

	tei_arena_reset(&engine->control->arena);
	m = te__dropped__unpack(&engine->control->arena.pb, f->len, f->body);
	return m ? tei_status_to_errno(m->status) : -EPROTO;
}

static void drop_done(struct tei_frame_call *call, int err,
		      const struct tei_frame *f)
{
	struct tei_link *link = TEI_CONTAINER(call, struct tei_link, out.rpc);
	struct tei_peer *peer = link->out.peer->of;

	link->out.in_rpc = false;
	if (!err) {
		tei_reroute_answered(peer);
		drop_end(link, take_dropped(link, f));
	} else if (peer->c->conn && err == -ETIMEDOUT) {
		tei_peer_failed(peer, err, false); /* asks again when up */
	}
}

static void send_drop(struct tei_peer *peer, struct tei_link *link)
{
	Te__Drop m = TE__DROP__INIT;
	int rc;

	m.endpoint = link->number;
	link->out.rpc.done = drop_done;
	rc = tei_frame_call(peer->c->conn, &link->out.rpc,
			    TE__CONTROL_TYPE__CONTROL_DROP, &m.base,
			    tei_reroute_timeout_ms(peer));
	link->out.in_rpc = !rc;
	/* A connection that has just ended: asked again when the next is up. */
	if (rc && rc != -ENOTCONN)
		drop_end(link, rc);
}

void tei_peer_send_drops(struct tei_peer *peer)
{
	tei_list_for_each_safe (node, tmp, &peer->c->drops) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, out.asked);

		if (link->out.in_rpc || !peer->c->conn)
			continue;
		if (peer->announced.life != link->out.life)
			drop_end(link, -ESTALE);
		else
			send_drop(peer, link);
	}
}

static void ask_drop(struct tei_call *call)
{
	struct tei_link *link = TEI_CONTAINER(call, struct tei_link, out.ask);
	struct tei_peer *peer = link->out.peer->of;

	tei_list_add_tail(&peer->c->drops, &link->out.asked);
	tei_peer_kick(peer);
}

const struct tei_transfer_messages tei_control_messages = {
	.connect = ask_connect,
	.drop = ask_drop,
	.notify = tei_notify_asked,
	.withdraw = tei_notify_withdrawn,
};
