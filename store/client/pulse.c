/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pulse.c - the heartbeat connection: we live, and hear what owners have to do
 */
#include "store/client/pulse.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "store/client/client.h"
#include "store/proto/store.pb-c.h"

#define STEP_MS 2000 /* connecting; a hello; a heartbeat; a mount */

int tes_pulse_hello(struct tes_master_link *link, struct tei_frame_conn *conn,
		    struct tei_frame_call *call, bool heartbeat)
{
	struct te_store *store = link->store;
	Store__Hello msg = STORE__HELLO__INIT;
	char name[TEI_NAME_LEN_MAX + 1];

	(void)strncpy(name, te_engine_name(store->engine), sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	msg.version = TES_STORE_VERSION;
	msg.features = TES_STORE_BURIES | TES_STORE_EXECUTES | TES_STORE_PROBES;
	msg.client_id.data = store->client_id;
	msg.client_id.len = sizeof(store->client_id);
	msg.engine = name;
	msg.incarnation.data = store->incarnation;
	msg.incarnation.len = sizeof(store->incarnation);
	msg.heartbeat = heartbeat;
	msg.epoch = link->epoch;
	msg.host.data = (uint8_t *)store->host;
	msg.host.len = strlen(store->host);
	msg.tenant = store->tenant;
	return tei_frame_call(conn, call, STORE__STORE_TYPE__STORE_HELLO,
			      &msg.base, STEP_MS);
}

/* ---- heartbeats ---- */

static void beaten(struct tes_master_link *link,
		   const Store__HeartbeatReply *reply)
{
	if (reply->status || reply->epoch != link->epoch) {
		tes_master_link_lose(link, "does not know us any more");
		return;
	}
	link->beaten = true;
	tes_mounting_beaten(link, reply->remount != 0);
}

static void on_beat(struct tei_frame_call *call, int err,
		    const struct tei_frame *f)
{
	struct tes_master_link *link =
		TEI_CONTAINER(call, struct tes_master_link, beat);
	Store__HeartbeatReply *reply;

	link->beating = false;
	if (err) {
		if (link->pulse)
			tes_master_link_lose(link,
					     "does not answer our heartbeat");
		return;
	}
	reply = store__heartbeat_reply__unpack(NULL, f->len, f->body);
	if (!reply) {
		tes_master_link_lose(link, "malformed answer to our heartbeat");
		return;
	}
	beaten(link, reply);
	store__heartbeat_reply__free_unpacked(reply, NULL);
}

static void beat(void *arg)
{
	struct tes_master_link *link = arg;
	Store__Heartbeat msg = STORE__HEARTBEAT__INIT;

	if (link->beating || !link->pulse || link->losing)
		return;
	msg.epoch = link->epoch;
	msg.n = ++link->n_beats;
	msg.mounts = tes_mounting_count(link);
	link->beat.done = on_beat;
	link->beating = true;
	if (tei_frame_call(link->pulse, &link->beat,
			   STORE__STORE_TYPE__STORE_HEARTBEAT, &msg.base,
			   STEP_MS)) {
		link->beating = false;
		tes_master_link_lose(link, "no memory for a heartbeat");
	}
}

static void on_pulse_hello(struct tei_frame_call *call, int err,
			   const struct tei_frame *f)
{
	struct tes_master_link *link =
		TEI_CONTAINER(call, struct tes_master_link, pulse_hello);
	Store__HelloReply *reply = NULL;

	if (!link->pulse)
		return; /* being closed */
	if (!err)
		reply = store__hello_reply__unpack(NULL, f->len, f->body);
	if (!reply || reply->status || reply->epoch != link->epoch) {
		tes_master_link_lose(link, "refuses our heartbeat connection");
		goto out;
	}
	link->pulse_timer = tei_timer_start(
		link->store->loop, link->heartbeat_ms, true, beat, link);
	if (!link->pulse_timer)
		tes_master_link_lose(link, "no memory for heartbeats");
	else
		beat(link);
out:
	if (reply)
		store__hello_reply__free_unpacked(reply, NULL);
}

/* ---- the connection ---- */

static void on_probe(struct tes_master_link *link, const struct tei_frame *f)
{
	Store__Probe *probe = store__probe__unpack(NULL, f->len, f->body);
	Store__Probed msg = STORE__PROBED__INIT;

	if (!probe) {
		tei_frame_bad(link->pulse, "malformed probe");
		return;
	}
	msg.n = probe->n;
	store__probe__free_unpacked(probe, NULL);
	if (tei_frame_send(link->pulse, STORE__STORE_TYPE__STORE_PROBED, 0, 0,
			   &msg.base))
		tes_master_link_lose(link, "a probe could not be answered");
}

static void on_fence(struct tes_master_link *link, const struct tei_frame *f)
{
	Store__Fence *msg = store__fence__unpack(NULL, f->len, f->body);

	if (!msg || msg->writer.len != TE_INCARNATION_LEN)
		tei_frame_bad(link->pulse, "malformed fence");
	else if (tes_segment_fence(link->store, link->generation, msg->fence,
				   msg->writer.data))
		tes_master_link_fenced(link, link->generation, msg->fence,
				       -ENOMEM);
	if (msg)
		store__fence__free_unpacked(msg, NULL);
}

void tes_master_link_fenced(struct tes_master_link *link, uint64_t generation,
			    uint64_t fence, int rc)
{
	Store__Fenced msg = STORE__FENCED__INIT;

	/* Another connection: its master asks again for what it still needs. */
	if (generation != link->generation || !link->pulse)
		return;
	msg.fence = fence;
	msg.status = rc ? TE_STORE_INTERNAL_ERROR : 0;
	msg.pending = rc == -EBUSY;
	if (tei_frame_send(link->pulse, STORE__STORE_TYPE__STORE_FENCED, 0, 0,
			   &msg.base))
		tes_master_link_lose(link, "a fence could not be answered");
}

static void on_frame(struct tei_frame_conn *conn, const struct tei_frame *f,
		     void *arg)
{
	(void)conn;
	if (f->type == STORE__STORE_TYPE__STORE_FENCE)
		on_fence(arg, f);
	else if (f->type == STORE__STORE_TYPE__STORE_PROBE)
		on_probe(arg, f);
	else if (f->type == STORE__STORE_TYPE__STORE_COMMITTED)
		tes_keep_on_committed(arg, f);
	else if (f->type == STORE__STORE_TYPE__STORE_BURY)
		tes_keep_on_bury(arg, f);
	else if (f->type == STORE__STORE_TYPE__STORE_TASK)
		tes_executor_on_task(arg, f);
	else
		LOG_DEBUG("master: unexpected push of type %u", f->type);
}

static void on_down(struct tei_frame_conn *conn, int err, const char *text,
		    void *arg)
{
	(void)conn;
	tes_master_link_lose(arg, text ? text : strerror(-err));
}

static void on_up(struct tei_frame_conn *conn, void *arg)
{
	struct tes_master_link *link = arg;

	link->pulse_hello.done = on_pulse_hello;
	if (tes_pulse_hello(link, conn, &link->pulse_hello, true))
		tes_master_link_lose(link, "no memory for a hello");
}

static const struct tei_frame_ops pulse_ops = {
	.frame = on_frame,
	.down = on_down,
	.up = on_up,
};

void tes_pulse_start(struct tes_master_link *link)
{
	if (tei_frame_connect(link->store->loop, &tes_store_protocol, &link->to,
			      STEP_MS, &pulse_ops, link, &link->pulse))
		tes_master_link_lose(link, "no memory or file to connect");
}

void tes_pulse_stop(struct tes_master_link *link)
{
	tei_timer_stop(link->pulse_timer);
	link->pulse_timer = NULL;
}
