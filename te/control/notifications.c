/* SPDX-License-Identifier: Apache-2.0 */
/* notifications.c - notifications to peers: each once, in order */
#include <errno.h>
#include <string.h>

#include "base/frame.h"
#include "te/control/control.h"
#include "te/control/inbound.h"
#include "te/control/peer.h"
#include "te/core/control.pb-c.h"
#include "te/core/engine.h"
#include "te/notify/inbox.h"
#include "te/notify/notify.h"
#include "te/region/region.h"
#include "te/worker/worker.h"

void tei_notify_out_init(struct tei_notify_out *out)
{
	tei_list_init(&out->queue);
	tei_list_init(&out->doubt);
}

static struct tei_notify *first_of(struct tei_list *list)
{
	return tei_list_entry(list->next, struct tei_notify, link);
}

/* Control has no more to do with it. */
static void answer_notify(struct tei_notify *n, int err, bool loud)
{
	tei_list_del(&n->link);
	n->err = err;
	n->loud = loud;
	tei_worker_post(n->worker, &n->answer);
}

static void answer_doubt(struct tei_notify_out *out, uint64_t count, int err,
			 bool loud)
{
	for (; count; count--) {
		answer_notify(first_of(&out->doubt), err, loud);
		out->n_doubt--;
	}
}

/* ---- frames ---- */

static void not_understood(struct tei_peer *peer)
{
	tei_peer_not_understood(peer, "answer to a notification");
}

static void take_answer(struct tei_peer *peer, const Te__Notified *m)
{
	struct tei_notify_out *out = &peer->c->notify;
	int rc = tei_status_to_errno(m->status);

	if ((rc && rc != -ESTALE) || m->taken < out->taken ||
	    m->taken - out->taken > out->n_doubt) {
		not_understood(peer);
		return;
	}
	answer_doubt(out, m->taken - out->taken, 0, false);
	out->taken = m->taken;
	if (rc) /* the rest never arrives: its numbers are free again */
		answer_doubt(out, out->n_doubt, rc, false);
	out->full = out->n_doubt > 0;
	tei_notify_send(peer);
}

static void notify_done(struct tei_frame_call *call, int err,
			const struct tei_frame *f)
{
	struct tei_peer *peer =
		TEI_CONTAINER(call, struct tei_peer_control, notify.call)->peer;
	struct te_engine *engine = peer->engine;
	Te__Notified *m;

	peer->c->notify.asked = false;
	if (err) {
		if (peer->c->conn && err == -ETIMEDOUT)
			tei_peer_failed(peer, err, false);
		return;
	}
	tei_reroute_answered(peer);
	tei_arena_reset(&engine->control->arena);
	m = te__notified__unpack(&engine->control->arena.pb, f->len, f->body);
	if (m)
		take_answer(peer, m);
	else
		not_understood(peer);
}

/*
 * Takes a notification into doubt, unless it was withdrawn or is of another
 * life.
 */
static void take_up(struct tei_peer *peer, struct tei_notify *n)
{
	struct tei_notify_out *out = &peer->c->notify;
	uint8_t queued = TEI_NOTIFY_QUEUED;

	tei_list_del(&n->link);
	if (n->life != peer->announced.life) {
		answer_notify(n, -ESTALE, false);
	} else if (atomic_compare_exchange_strong(&n->state, &queued,
						  TEI_NOTIFY_SENT)) {
		tei_list_add_tail(&out->doubt, &n->link);
		out->n_doubt++;
	} else {
		tei_notify_put(n);
	}
}

/* Takes as many into doubt as one frame holds; all of one epoch. */
static void fill_doubt(struct tei_peer *peer)
{
	struct tei_notify_out *out = &peer->c->notify;
	uint64_t bytes = 0;

	while (!tei_list_empty(&out->queue) &&
	       out->n_doubt < TEI_NOTIFY_FRAME_MAX) {
		struct tei_notify *n = first_of(&out->queue);

		if (out->n_doubt && (n->epoch != first_of(&out->doubt)->epoch ||
				     bytes + n->length > TE_NOTIFY_MAX))
			return;
		bytes += n->length;
		take_up(peer, n);
	}
}

static int send_doubt(struct tei_peer *peer)
{
	struct tei_notify_out *out = &peer->c->notify;
	struct te_engine *engine = peer->engine;
	Te__Notify m = TE__NOTIFY__INIT;

	tei_arena_reset(&engine->control->arena);
	m.message = tei_arena_calloc(&engine->control->arena, out->n_doubt,
				     sizeof(*m.message));
	if (!m.message)
		return -ENOMEM;
	tei_list_for_each (node, &out->doubt) {
		struct tei_notify *n =
			tei_list_entry(node, struct tei_notify, link);

		m.message[m.n_message++] =
			(ProtobufCBinaryData){n->length, n->bytes};
	}
	m.first = out->taken + 1;
	m.epoch = first_of(&out->doubt)->epoch;
	out->call.done = notify_done;
	return tei_frame_call(peer->c->conn, &out->call,
			      TE__CONTROL_TYPE__CONTROL_NOTIFY, &m.base,
			      tei_reroute_timeout_ms(peer));
}

/* There is no room for it yet. */
static void put_back(struct tei_notify *n)
{
	uint8_t sent = TEI_NOTIFY_SENT;

	if (atomic_compare_exchange_strong(&n->state, &sent, TEI_NOTIFY_QUEUED))
		return;
	tei_list_del(&n->link); /* it has just been given up */
	tei_notify_put(n);
}

/* Delivers into the inbox. -EAGAIN: it is full; @n stays in the queue. */
static int deliver_notify(struct tei_notify *n, struct tei_account *account)
{
	struct te_engine *engine = n->peer->engine;
	uint8_t queued = TEI_NOTIFY_QUEUED;
	int rc = -ENOMEM;

	if (!atomic_compare_exchange_strong(&n->state, &queued,
					    TEI_NOTIFY_SENT)) {
		tei_list_del(&n->link); /* it has been withdrawn */
		tei_notify_put(n);
		return 0;
	}
	if (account)
		rc = tei_inbox_put(engine->inbox, account, engine->name,
				   n->bytes, n->length);
	if (rc == -EAGAIN) {
		TEI_COUNT(engine, notifies_full);
		put_back(n);
		return rc;
	}
	if (!rc)
		TEI_COUNT(engine, notifies_received);
	answer_notify(n, rc ? -EIO : 0, false);
	return 0;
}

/* Delivers to ourselves, to whom there is no connection. */
static void deliver_own(struct tei_peer *peer)
{
	struct tei_notify_out *out = &peer->c->notify;
	struct te_engine *engine = peer->engine;
	struct tei_inbound_peer *self = &engine->control->inbound.self;
	int rc = 0;

	if (!self->account)
		self->account = tei_account_make(self, self->id.incarnation);
	while (!rc && !tei_list_empty(&out->queue))
		rc = deliver_notify(first_of(&out->queue), self->account);
	if (self->account)
		tei_account_rest(engine->inbox, self->account);
}

void tei_notify_send(struct tei_peer *peer)
{
	struct tei_notify_out *out = &peer->c->notify;
	int rc;

	if (peer->self) {
		deliver_own(peer);
		return;
	}
	if (peer->c->state != TEI_PEER_UP || out->asked || out->full)
		return;
	if (!out->n_doubt)
		fill_doubt(peer);
	if (!out->n_doubt)
		return;
	rc = send_doubt(peer);
	if (rc)
		tei_peer_failed(peer, rc, false);
	else
		out->asked = true;
}

/* ---- from the token ---- */

void tei_notify_asked(struct tei_call *call)
{
	struct tei_notify *n = TEI_CONTAINER(call, struct tei_notify, ask);
	struct tei_peer *peer = n->peer;

	if (peer->engine->control->closed) {
		tei_notify_put(n);
		return;
	}
	tei_list_add_tail(&peer->c->notify.queue, &n->link);
	if (peer->self)
		tei_notify_send(peer);
	else
		tei_peer_kick(peer);
}

void tei_notify_withdrawn(struct tei_call *call)
{
	struct tei_notify *n = TEI_CONTAINER(call, struct tei_notify, withdraw);

	if (!tei_list_empty(&n->link)) {
		tei_list_del(&n->link);
		tei_notify_put(n);
	}
	tei_notify_put(n);
}

/* ---- connections ---- */

bool tei_notify_wants(const struct tei_peer *peer)
{
	const struct tei_notify_out *out = &peer->c->notify;

	tei_list_for_each (node, &out->doubt) {
		struct tei_notify *n =
			tei_list_entry(node, struct tei_notify, link);

		if (atomic_load(&n->state) == TEI_NOTIFY_SENT)
			return true;
	}
	return !tei_list_empty(&out->queue);
}

void tei_notify_greeted(struct tei_peer *peer, uint64_t taken, uint64_t losses)
{
	struct tei_notify_out *out = &peer->c->notify;
	uint64_t n = taken - out->taken;
	bool known = taken >= out->taken && n <= out->n_doubt;

	if (out->life != peer->announced.life)
		answer_doubt(out, out->n_doubt, -ESTALE, true);
	else if (!known || (losses != out->losses && !taken))
		/* A restarted peer does not know which of these it took. */
		answer_doubt(out, out->n_doubt, -ESTALE, true);
	else
		answer_doubt(out, n, 0, false);
	out->life = peer->announced.life;
	out->taken = taken;
	out->losses = losses;
	out->full = false;
}

void tei_notify_lost(struct tei_peer *peer)
{
	peer->c->notify.asked = false;
	peer->c->notify.full = false;
}

static void forget_all(struct tei_list *list)
{
	struct tei_list *node;

	while ((node = tei_list_pop(list)))
		tei_notify_put(tei_list_entry(node, struct tei_notify, link));
}

void tei_notify_close(struct tei_peer *peer)
{
	forget_all(&peer->c->notify.queue);
	forget_all(&peer->c->notify.doubt);
	peer->c->notify.n_doubt = 0;
}

/* ---- notifications that an inbound connection brings ---- */

/*
 * The inbound peer, not the inbound connection, knows the number of the last
 * message that was taken: the same frame may come again by another connection.
 * A frame may be accepted in part; what is left comes again once the inbound
 * peer has been notified that there is room.
 */

static const char *what_is_wrong(const struct tei_inbound_peer *inbound,
				 const Te__Notify *m)
{
	size_t i;

	if (!m->n_message || m->n_message > TEI_NOTIFY_FRAME_MAX)
		return "a notification has 1 to 256 messages";
	for (i = 0; i < m->n_message; i++) {
		if (!m->message[i].len || m->message[i].len > TE_NOTIFY_MAX)
			return "a message has 1 byte to 64 KiB";
	}
	if (!m->first || m->first > inbound->taken + 1)
		return "notifications were left out";
	return NULL;
}

/* -EAGAIN: the rest finds no room. -ENOMEM. */
static int take_notifications(struct tei_inbound_conn *v, const Te__Notify *m)
{
	struct te_engine *engine = v->engine;
	struct tei_inbound_peer *inbound = v->inbound;
	uint64_t i;
	int rc = 0;

	if (!inbound->account)
		inbound->account =
			tei_account_make(inbound, inbound->id.incarnation);
	if (!inbound->account)
		return -ENOMEM;
	/* The messages tell of writes that have ended. */
	tei_regions_flush(engine);
	for (i = inbound->taken + 1 - m->first; !rc && i < m->n_message; i++) {
		rc = tei_inbox_put(engine->inbox, inbound->account, v->name,
				   m->message[i].data, m->message[i].len);
		if (!rc) {
			inbound->taken++;
			TEI_COUNT(engine, notifies_received);
		}
	}
	tei_account_rest(engine->inbox, inbound->account);
	return rc;
}

void tei_inbound_conn_notify(struct tei_inbound_conn *v,
			     const struct tei_frame *f)
{
	struct tei_inbound_peer *inbound = v->inbound;
	Te__Notified answer = TE__NOTIFIED__INIT;
	const char *why = "unreadable notification";
	Te__Notify *m;
	int rc;

	m = te__notify__unpack(&v->engine->control->arena.pb, f->len, f->body);
	if (m)
		why = what_is_wrong(inbound, m);
	if (why) {
		tei_frame_bad(v->conn, why);
		return;
	}
	rc = m->epoch == atomic_load(&inbound->epoch) ? take_notifications(v, m)
						      : -ESTALE;
	if (rc == -ENOMEM) {
		tei_frame_refuse_for_now(v->conn, "out of memory");
		return;
	}
	if (rc == -EAGAIN)
		TEI_COUNT(v->engine, notifies_full);
	answer.status = tei_status_from_errno(rc == -EAGAIN ? 0 : rc);
	answer.taken = inbound->taken;
	tei_inbound_conn_reply(v, f, &answer.base);
}

static void send_own(struct te_engine *engine)
{
	struct tei_peer *peer = NULL;

	while ((peer = tei_peer_next(engine, peer))) {
		if (peer->self)
			tei_notify_send(peer);
	}
}

void tei_notify_room(struct te_engine *engine, struct tei_inbound_peer *inbound)
{
	Te__Room m = TE__ROOM__INIT;

	if (inbound == &engine->control->inbound.self) {
		send_own(engine);
		return;
	}
	tei_list_for_each (node, &inbound->conns) {
		struct tei_inbound_conn *v =
			tei_list_entry(node, struct tei_inbound_conn, of_peer);

		if (tei_frame_send(v->conn, TE__CONTROL_TYPE__CONTROL_ROOM, 0,
				   0, &m.base) == -ENOMEM)
			tei_frame_refuse_for_now(v->conn, "out of memory");
	}
}
