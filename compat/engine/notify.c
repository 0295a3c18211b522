/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.c - messages of a name and a text
 *
 * Sent as one TE_NOTIFY: 4 bytes length of the name (little-endian), the name,
 * the text; docs/wire.md.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compat/engine/engine.h"

#define HEAD 4

void *mc_notify_pack(const char *function, const notify_msg_t *msg, size_t *len)
{
	size_t name = msg->name ? strlen(msg->name) : 0;
	size_t text = msg->msg ? strlen(msg->msg) : 0;
	uint32_t head = htole32((uint32_t)name);
	char *bytes = NULL;

	*len = HEAD + name + text;
	if (name > TE_NOTIFY_MAX || text > TE_NOTIFY_MAX ||
	    *len > TE_NOTIFY_MAX) {
		mc_warn(function, "%zu bytes of notification, %d are the most",
			name + text, TE_NOTIFY_MAX - HEAD);
		return NULL;
	}
	bytes = malloc(*len);
	if (!bytes) {
		mc_warn(function, "no memory for a notification");
		return NULL;
	}
	memcpy(bytes, &head, HEAD);
	if (name)
		memcpy(bytes + HEAD, msg->name, name);
	if (text)
		memcpy(bytes + HEAD + name, msg->msg, text);
	return bytes;
}

/* @bytes with a 0 behind them; NULL: no memory. */
static char *text_of(const char *bytes, size_t len)
{
	char *text = malloc(len + 1);

	if (!text)
		return NULL;
	memcpy(text, bytes, len);
	text[len] = '\0';
	return text;
}

/* A message of a user of te.h alone has no name but its sender's. */
static int unpack(const struct te_notify *in, notify_msg_t *out)
{
	const char *bytes = in->bytes;
	uint32_t name;

	if (in->length >= HEAD) {
		memcpy(&name, bytes, HEAD);
		name = le32toh(name);
	}
	if (in->length >= HEAD && name <= in->length - HEAD) {
		out->name = text_of(bytes + HEAD, name);
		out->msg =
			text_of(bytes + HEAD + name, in->length - HEAD - name);
	} else {
		out->name = strdup(in->from);
		out->msg = text_of(bytes, in->length);
	}
	if (out->name && out->msg)
		return 0;
	free(out->name);
	free(out->msg);
	return -ENOMEM;
}

/* Takes one more; false: there is none, or no memory, and then it is lost. */
static bool take_message(struct mc_engine *e, notify_msg_t **all, int *n)
{
	struct te_notify notify;
	notify_msg_t *more;
	int rc;

	more = realloc(*all, ((size_t)*n + 1) * sizeof(*more));
	if (!more)
		return false;
	*all = more;
	if (te_notify_take(e->te, &notify))
		return false;
	rc = unpack(&notify, &more[*n]);
	te_notify_free(&notify);
	if (rc)
		mc_warn("getNotifsFromEngine", "no memory: one is lost");
	*n += !rc;
	return true;
}

notify_msg_t *getNotifsFromEngine(transfer_engine_t engine, int *size)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	notify_msg_t *all = NULL;
	int n = 0;

	if (e && !size)
		mc_warn(__func__, "size is NULL: nobody could free them");
	while (e && size && n < INT32_MAX && take_message(e, &all, &n))
		;
	if (!n) {
		free(all);
		all = NULL;
	}
	if (size)
		*size = n;
	if (e)
		mc_engine_unpin(e);
	return all;
}

int freeNotifsMsgBuf(notify_msg_t *msg, int size)
{
	for (int i = 0; msg && i < size; i++) {
		free(msg[i].name);
		free(msg[i].msg);
	}
	free(msg);
	return 0;
}

static int send_now(struct mc_engine *e, te_segment_id segment,
		    const struct iovec *bytes)
{
	const struct te_request request = {
		.op = TE_NOTIFY,
		.segment = segment,
		.pieces = bytes,
		.n_pieces = 1,
	};
	struct te_completion c = {.error = 0};
	struct te_batch *batch;
	int rc = te_batch_create(e->te, 1, &batch);

	if (rc)
		return rc;
	rc = te_batch_submit(batch, &request, 1);
	if (!rc) {
		(void)te_batch_wait(batch, UINT32_MAX);
		rc = te_batch_result(batch, 0, &c);
	}
	te_batch_destroy(batch);
	return rc ? rc : c.error;
}

int genNotifyInEngine(transfer_engine_t engine, uint64_t target_id,
		      notify_msg_t notify_msg)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	int64_t number = target_id > INT32_MAX ? -1 : (int64_t)target_id;
	struct iovec bytes;
	te_segment_id id;
	int rc;

	if (!e)
		return MC_ERROR_INVALID;
	bytes.iov_base = mc_notify_pack(__func__, &notify_msg, &bytes.iov_len);
	if (!bytes.iov_base) {
		mc_engine_unpin(e);
		return MC_ERROR_INVALID;
	}
	rc = mc_segment_find(e, number, 0, &id);
	if (!rc)
		rc = send_now(e, id, &bytes);
	if (rc)
		mc_warn(__func__, "to segment %lld: %s", (long long)number,
			te_strerror(rc));
	free(bytes.iov_base);
	mc_engine_unpin(e);
	return rc == -ENOENT ? MC_ERROR_INVALID : rc ? MC_ERROR_ENDPOINT : 0;
}
