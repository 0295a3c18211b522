/* SPDX-License-Identifier: Apache-2.0 */
/* peer_link.c - Connect and Drop, asked on behalf of the worker's links */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "te/common/control.pb-c.h"
#include "te/common/engine.h"
#include "te/control/control.h"
#include "te/control/peer.h"
#include "te/control/reroute.h"
#include "te/transfer/link.h"
#include "te/transfer/transfer.h"
#include "te/worker/worker.h"

static void answer(struct tei_link *link, int err)
{
	link->out.err = err;
	tei_worker_post(link->engine->worker, &link->out.answer);
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
		tei_peer_tell_epoch(link->out.peer, m->epoch);
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

	if (!err)
		err = take_connected(link, f);
	answer(link, err);
}

static void ask_connect(struct tei_call *call)
{
	struct tei_link *link = TEI_CONTAINER(call, struct tei_link, out.ask);
	struct tei_peer *peer = link->out.peer;
	Te__Connect m = TE__CONNECT__INIT;
	int rc;

	if (peer->c->state != TEI_PEER_UP || !peer->c->conn ||
	    peer->told.life != link->out.life) {
		answer(link, -ENOTCONN);
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
		answer(link, rc);
}

/* ---- drop ---- */

static void drop_end(struct tei_link *link, int err)
{
	tei_list_del(&link->out.asked);
	answer(link, err);
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
	struct tei_peer *peer = link->out.peer;

	link->out.in_rpc = false;
	if (!err) {
		tei_reroute_answered(peer);
		drop_end(link, take_dropped(link, f));
	} else if (peer->c->conn && err == -ETIMEDOUT) {
		tei_peer_failed(peer, err, false); /* asks again when up */
	} else if (!peer->c->conn && link->out.drop_until <= tei_now_ns()) {
		drop_end(link, err);
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
			    tei_reroute_patience(peer));
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
		if (peer->told.life != link->out.life)
			drop_end(link, -ESTALE);
		else
			send_drop(peer, link);
	}
}

void tei_peer_prune_drops(struct tei_peer *peer)
{
	uint64_t now = tei_now_ns();

	tei_list_for_each_safe (node, tmp, &peer->c->drops) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, out.asked);

		if (!link->out.in_rpc && link->out.drop_until <= now)
			drop_end(link, -ETIMEDOUT);
	}
}

static void ask_drop(struct tei_call *call)
{
	struct tei_link *link = TEI_CONTAINER(call, struct tei_link, out.ask);
	struct tei_peer *peer = link->out.peer;

	tei_list_add_tail(&peer->c->drops, &link->out.asked);
	if (peer->c->state != TEI_PEER_UP)
		tei_peer_prune_drops(peer);
	tei_peer_kick(peer);
}

const struct tei_transfer_messages tei_control_messages = {
	.connect = ask_connect,
	.drop = ask_drop,
	.notify = tei_notify_asked,
	.withdraw = tei_notify_withdrawn,
};
