/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_call.c - calls in flight and their answers
 *
 * Calls stand in a list in the order of their ids. Peers answer mostly in
 * order, so the search from the front is short.
 */
#include <errno.h>

#include "base/frame_private.h"

static void take_out(struct tei_frame_conn *conn, struct tei_frame_call *call)
{
	tei_list_del(&call->link);
	tei_heap_remove(&conn->due, &call->due);
	if (conn->due.n == 0)
		tei_heap_fini(&conn->due); /* an idle connection is small */
}

static struct tei_frame_call *find(struct tei_frame_conn *conn, uint64_t id)
{
	tei_list_for_each (pos, &conn->calls) {
		struct tei_frame_call *call;

		call = TEI_CONTAINER(pos, struct tei_frame_call, link);
		if (call->id >= id)
			return call->id == id ? call : NULL;
	}
	return NULL;
}

void tei_frame_answer(struct tei_frame_conn *conn, const struct tei_frame *f)
{
	struct tei_frame_call *call = find(conn, f->id);

	if (!call)
		return; /* it was late or taken back */
	take_out(conn, call);
	call->done(call, 0, f);
}

void tei_frame_answer_all(struct tei_frame_conn *conn, int err)
{
	while (!tei_list_empty(&conn->calls)) {
		struct tei_frame_call *call;

		call = TEI_CONTAINER(conn->calls.next, struct tei_frame_call,
				     link);
		take_out(conn, call);
		call->done(call, err, NULL);
	}
}

void tei_frame_expire(struct tei_frame_conn *conn, uint64_t now_ms)
{
	struct tei_heap_node *top;

	while ((top = tei_heap_top(&conn->due)) && top->at <= now_ms) {
		struct tei_frame_call *call;

		call = TEI_CONTAINER(top, struct tei_frame_call, due);
		take_out(conn, call);
		call->done(call, -ETIMEDOUT, NULL);
	}
}

int tei_frame_call(struct tei_frame_conn *conn, struct tei_frame_call *call,
		   uint16_t type, const struct ProtobufCMessage *msg,
		   uint64_t timeout_ms)
{
	uint64_t due = tei_frame_due_ms(timeout_ms);
	int rc;

	call->due.place = 0;
	tei_list_init(&call->link);
	rc = tei_heap_add(&conn->due, &call->due, due);
	if (rc)
		return rc;
	call->id = ++conn->last_id;
	tei_list_add_tail(&conn->calls, &call->link);
	rc = tei_frame_send(conn, type, 0, call->id, msg);
	if (rc)
		take_out(conn, call);
	else if (due != TEI_FRAME_NEVER)
		tei_frame_tick_at(conn, due);
	return rc;
}

void tei_frame_call_cancel(struct tei_frame_conn *conn,
			   struct tei_frame_call *call)
{
	take_out(conn, call);
}
