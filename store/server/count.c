/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count.c - requests counted the way Mooncake's dashboards expect
 *
 * A call of one key is an operation, one of several a batch. A call that only
 * revokes counts as put_revoke. A miss is a failure of a look-up, as upstream;
 * "not there" is an answer of exist, not a failure.
 */
#include "store/server/state.h"

static bool revokes_only(const struct tes_event *ev)
{
	for (size_t i = 0; i < ev->n; i++)
		if (ev->u.put_end.written[i])
			return false;
	return true;
}

static int op_of(const struct tes_event *ev)
{
	switch (ev->type) {
	case TES_EVENT_MOUNT:
		return TES_SERVER_OP_MOUNT;
	case TES_EVENT_UNMOUNT:
		return TES_SERVER_OP_UNMOUNT;
	case TES_EVENT_PUT_START:
		return TES_SERVER_OP_PUT_START;
	case TES_EVENT_PUT_END:
		return revokes_only(ev) ? TES_SERVER_OP_PUT_REVOKE
					: TES_SERVER_OP_PUT_END;
	case TES_EVENT_LOOKUP:
		return TES_SERVER_OP_LOOKUP;
	case TES_EVENT_EXIST:
		return TES_SERVER_OP_EXIST;
	case TES_EVENT_SIZE:
		return TES_SERVER_OP_SIZE;
	case TES_EVENT_REMOVE:
		return TES_SERVER_OP_REMOVE;
	case TES_EVENT_REPLICA_CLEAR:
		return TES_SERVER_OP_REPLICA_CLEAR;
	case TES_EVENT_TASK_CREATE:
		return ev->u.task_create.move ? TES_SERVER_OP_CREATE_MOVE
					      : TES_SERVER_OP_CREATE_COPY;
	case TES_EVENT_TASK_QUERY:
		return TES_SERVER_OP_QUERY_TASK;
	case TES_EVENT_TASK_DONE:
		return TES_SERVER_OP_UPDATE_TASK;
	case TES_EVENT_HEARTBEAT:
		return TES_SERVER_OP_PING;
	default:
		return -1;
	}
}

static size_t count_failed(int32_t code, const int32_t *status, size_t n)
{
	size_t failed = 0;

	if (code || !status)
		return code ? n : 0;
	for (size_t i = 0; i < n; i++)
		failed += status[i] < 0;
	return failed;
}

void tes_server_count(struct tes_server *s, const struct tes_event *ev,
		      int32_t code, const int32_t *status, size_t n)
{
	struct tes_server_op_count *c;
	size_t failed;
	int op = op_of(ev);

	if (op < 0)
		return;
	c = &s->counters.op[op];
	failed = count_failed(code, status, n);
	if (n <= 1) {
		c->requests++;
		c->failures += code || failed;
		return;
	}
	c->batches++;
	c->items += n;
	c->items_failed += failed;
	if (failed == n)
		c->batch_failures++;
	else if (failed)
		c->batch_partial++;
}
