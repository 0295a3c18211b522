/* SPDX-License-Identifier: Apache-2.0 */
/*
 * visit_notify.c - notifications of a visitor, put into our inbox
 *
 * The guest, not the visitor, knows the number of the last message that was
 * taken: the same frame may come again by another connection. A frame may be
 * accepted in part; what is left comes again once the guest has been told that
 * there is room.
 */
#include <errno.h>

#include "base/frame.h"
#include "te/api/engine.h"
#include "te/control/control.h"
#include "te/control/control.pb-c.h"
#include "te/control/peer.h"
#include "te/control/visitor.h"
#include "te/notify/notify.h"

static const char *what_is_wrong(const struct tei_guest *guest,
				 const Te__Notify *m)
{
	size_t i;

	if (!m->n_message || m->n_message > TEI_NOTIFY_FRAME_MAX)
		return "a notification has 1 to 256 messages";
	for (i = 0; i < m->n_message; i++) {
		if (!m->message[i].len || m->message[i].len > TE_NOTIFY_MAX)
			return "a message has 1 byte to 64 KiB";
	}
	if (!m->first || m->first > guest->taken + 1)
		return "notifications were left out";
	return NULL;
}

/* -EAGAIN: the rest finds no room. -ENOMEM. */
static int take(struct tei_visitor *v, const Te__Notify *m)
{
	struct te_engine *engine = v->engine;
	struct tei_guest *guest = v->guest;
	uint64_t i;
	int rc = 0;

	if (!guest->account)
		guest->account = tei_account_make(guest);
	if (!guest->account)
		return -ENOMEM;
	for (i = guest->taken + 1 - m->first; !rc && i < m->n_message; i++) {
		rc = tei_inbox_put(&engine->inbox, guest->account, v->name,
				   m->message[i].data, m->message[i].len);
		if (!rc) {
			guest->taken++;
			TEI_COUNT(engine, notifies_received);
		}
	}
	tei_account_rest(&engine->inbox, guest->account);
	return rc;
}

void tei_visitor_notify(struct tei_visitor *v, const struct tei_frame *f)
{
	struct tei_guest *guest = v->guest;
	Te__Notified answer = TE__NOTIFIED__INIT;
	const char *why = "unreadable notification";
	Te__Notify *m;
	int rc;

	m = te__notify__unpack(&v->engine->arena.pb, f->len, f->body);
	if (m)
		why = what_is_wrong(guest, m);
	if (why) {
		tei_frame_bad(v->conn, why);
		return;
	}
	rc = m->epoch == atomic_load(&guest->epoch) ? take(v, m) : -ESTALE;
	if (rc == -ENOMEM) {
		tei_frame_refuse_for_now(v->conn, "out of memory");
		return;
	}
	if (rc == -EAGAIN)
		TEI_COUNT(v->engine, notifies_full);
	answer.status = tei_status_from_errno(rc == -EAGAIN ? 0 : rc);
	answer.taken = guest->taken;
	tei_visitor_reply(v, f, &answer.base);
}

static void send_own(struct te_engine *engine)
{
	struct tei_peer *peer = NULL;

	while ((peer = tei_peer_next(engine, peer))) {
		if (peer->self)
			tei_notify_send(peer);
	}
}

void tei_notify_room(struct te_engine *engine, struct tei_guest *guest)
{
	Te__Room m = TE__ROOM__INIT;

	if (guest == &engine->guests.self) {
		send_own(engine);
		return;
	}
	tei_list_for_each (node, &guest->visitors) {
		struct tei_visitor *v =
			tei_list_entry(node, struct tei_visitor, of_guest);

		if (tei_frame_send(v->conn, TE__CONTROL_TYPE__CONTROL_ROOM, 0,
				   0, &m.base) == -ENOMEM)
			tei_frame_refuse_for_now(v->conn, "out of memory");
	}
}
