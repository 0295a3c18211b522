/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.c - ask the master from any thread, and wait for the answer
 *
 * The caller owns the call and sleeps until it is done. The loop answers every
 * call it was given; a caller whose deadline passes takes it back through the
 * loop, so that nothing points to a call whose caller has gone.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/client/client.h"

uint64_t tei_call_deadline(const struct te_store *store)
{
	return tei_now_ns() + store->call_timeout_ms * TEI_NS_PER_MS;
}

int tei_bad_reply(const char *what)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_allowed(&limit))
		LOG_WARN("master: malformed reply to %s", what);
	return TE_STORE_RPC_FAIL;
}

/* ---- the loop's side ---- */

void tei_call_done(struct tei_master_call *call, int code)
{
	tei_mutex_lock(&call->mu);
	call->done = true;
	call->code = code;
	/* Under the lock: the caller frees @call once it has it. */
	tei_cond_signal(&call->cond);
	tei_mutex_unlock(&call->mu);
}

static int keep_body(struct tei_master_call *call, const struct tei_frame *f)
{
	uint8_t *body = tei_arena_alloc(call->arena, f->len + 1);

	if (!body)
		return TE_STORE_INTERNAL_ERROR;
	if (f->len)
		memcpy(body, f->body, f->len);
	call->reply.body = body;
	call->reply.len = f->len;
	call->reply.digest_seed = call->store->link.digest_seed;
	return 0;
}

static void on_reply(struct tei_frame_call *frame, int err,
		     const struct tei_frame *f)
{
	struct tei_master_call *call =
		TEI_CONTAINER(frame, struct tei_master_call, frame);

	if (!err)
		tei_call_done(call, keep_body(call, f));
	else
		tei_call_done(call, err == -ETIMEDOUT ? TE_STORE_RPC_TIMEOUT
						      : TE_STORE_RPC_FAIL);
}

static uint64_t ms_until(uint64_t deadline_ns)
{
	uint64_t now = tei_now_ns();

	return now < deadline_ns ? (deadline_ns - now) / TEI_NS_PER_MS + 1 : 1;
}

void tei_call_send(struct tei_master_call *call)
{
	int rc;

	call->frame.done = on_reply;
	call->sent = true;
	rc = tei_frame_call(call->store->link.main, &call->frame, call->type,
			    call->msg, ms_until(call->deadline_ns));
	if (rc)
		tei_call_done(call, rc == -ENOTCONN ? TE_STORE_RPC_FAIL
						    : TE_STORE_INTERNAL_ERROR);
}

/*
 * A master that has just gone may be back in a moment, so calls wait for it;
 * one that has been away for a while costs no call its whole timeout.
 */
static bool worth_waiting(const struct te_store *store)
{
	const struct tei_master_link *link = &store->link;

	return !link->stopped && tei_now_ns() - link->down_since_ns <
					 store->call_timeout_ms * TEI_NS_PER_MS;
}

static void on_post(struct tei_call *post)
{
	struct tei_master_call *call =
		TEI_CONTAINER(post, struct tei_master_call, post);
	struct tei_master_link *link = &call->store->link;

	if (link->state == TEI_MASTER_LINK_UP && link->main && !link->losing)
		tei_call_send(call);
	else if (link->losing || worth_waiting(call->store))
		tei_list_add_tail(&link->waiting, &call->waiting);
	else
		tei_call_done(call, TE_STORE_RPC_FAIL);
}

/* The deadline has passed. Order on the loop: on_post() ran before this. */
static void take_back(void *arg)
{
	struct tei_master_call *call = arg;

	if (call->done) /* only this thread sets it */
		return;
	tei_list_del(&call->waiting);
	if (call->sent)
		tei_frame_call_cancel(call->store->link.main, &call->frame);
	tei_call_done(call,
		      call->sent ? TE_STORE_RPC_TIMEOUT : TE_STORE_RPC_FAIL);
}

/* ---- the caller's side ---- */

static int wait_done(struct tei_master_call *call)
{
	int code;

	tei_mutex_lock(&call->mu);
	while (!call->done)
		if (!tei_cond_wait(&call->cond, &call->mu, call->deadline_ns))
			break;
	if (!call->done) {
		tei_mutex_unlock(&call->mu);
		if (!tei_loop_do(call->store->loop, take_back, call))
			return TE_STORE_RPC_FAIL;
		tei_mutex_lock(&call->mu);
	}
	code = call->code;
	tei_mutex_unlock(&call->mu);
	return code;
}

int tei_store_call(struct te_store *store, uint16_t type,
		   const struct ProtobufCMessage *msg, struct tei_arena *arena,
		   uint64_t deadline_ns, struct tei_reply *out)
{
	struct tei_master_call call;
	int code = TE_STORE_RPC_FAIL;

	memset(&call, 0, sizeof(call));
	call.post.fn = on_post;
	tei_list_init(&call.waiting);
	call.store = store;
	call.type = type;
	call.msg = msg;
	call.arena = arena;
	call.deadline_ns = deadline_ns;
	tei_mutex_init(&call.mu);
	tei_cond_init(&call.cond);
	if (tei_loop_post(store->loop, &call.post))
		code = wait_done(&call);
	tei_cond_fini(&call.cond);
	tei_mutex_fini(&call.mu);
	if (!code)
		*out = call.reply;
	return code;
}
