/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.c - ask the master from any thread, and wait for the answer
 *
 * While the link is up the caller uses the channel itself. Else it waits at the
 * loop, which knows whether that is worth while; when its deadline passes it
 * takes itself back through the loop, so that nothing points to a caller that
 * has gone.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/client/client.h"

uint64_t tes_call_deadline(const struct te_store *store)
{
	return tei_now_ns() + store->call_timeout_ms * TEI_NS_PER_MS;
}

int tes_bad_reply(const char *what)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_allowed(&limit))
		LOG_WARN("master: malformed reply to %s", what);
	return TE_STORE_RPC_FAIL;
}

/* ---- the loop's side ---- */

void tes_link_wait_done(struct tes_link_wait *wait, int code)
{
	tei_mutex_lock(&wait->mu);
	wait->done = true;
	wait->code = code;
	/* Under the lock: the caller frees @wait once it has it. */
	tei_cond_signal(&wait->cond);
	tei_mutex_unlock(&wait->mu);
}

/*
 * A master that has just gone may be back in a moment, so calls wait for it;
 * one that has been away for a while costs no call its whole timeout.
 */
static bool worth_waiting(const struct te_store *store)
{
	const struct tes_master_link *link = &store->link;

	return !link->stopped && tei_now_ns() - link->down_since_ns <
					 store->call_timeout_ms * TEI_NS_PER_MS;
}

static void on_post(struct tei_call *post)
{
	struct tes_link_wait *wait =
		TEI_CONTAINER(post, struct tes_link_wait, post);
	struct tes_master_link *link = &wait->store->link;

	if (link->state == TES_MASTER_LINK_UP && !link->losing)
		tes_link_wait_done(wait, 0);
	else if (link->losing || worth_waiting(wait->store))
		tei_list_add_tail(&link->waiting, &wait->waiting);
	else
		tes_link_wait_done(wait, TE_STORE_RPC_FAIL);
}

/* The deadline has passed. Order on the loop: on_post() ran before this. */
static void take_back(void *arg)
{
	struct tes_link_wait *wait = arg;

	if (wait->done) /* only this thread sets it */
		return;
	tei_list_del(&wait->waiting);
	tes_link_wait_done(wait, TE_STORE_RPC_FAIL);
}

/* ---- the caller's side ---- */

static int wait_done(struct tes_link_wait *wait, uint64_t deadline_ns)
{
	int code;

	tei_mutex_lock(&wait->mu);
	while (!wait->done)
		if (!tei_cond_wait(&wait->cond, &wait->mu, deadline_ns))
			break;
	if (!wait->done) {
		tei_mutex_unlock(&wait->mu);
		if (!tei_loop_do(wait->store->loop, take_back, wait))
			return TE_STORE_RPC_FAIL;
		tei_mutex_lock(&wait->mu);
	}
	code = wait->code;
	tei_mutex_unlock(&wait->mu);
	return code;
}

/* For the call timeout at most, also where an answer may take longer. */
static int wait_for_link(struct te_store *store, uint64_t deadline_ns)
{
	uint64_t patience_ns = tes_call_deadline(store);
	struct tes_link_wait wait;
	int code = TE_STORE_RPC_FAIL;

	memset(&wait, 0, sizeof(wait));
	wait.post.fn = on_post;
	tei_list_init(&wait.waiting);
	wait.store = store;
	tei_mutex_init(&wait.mu);
	tei_cond_init(&wait.cond);
	if (tei_loop_post(store->loop, &wait.post))
		code = wait_done(&wait, deadline_ns < patience_ns
						? deadline_ns
						: patience_ns);
	tei_cond_fini(&wait.cond);
	tei_mutex_fini(&wait.mu);
	return code;
}

void tes_store_ask(struct te_store *store, uint16_t type,
		   const struct ProtobufCMessage *msg, struct tei_arena *arena,
		   uint64_t deadline_ns, struct tes_store_asked *asked)
{
	asked->type = type;
	asked->msg = msg;
	asked->call.arena = arena;
	asked->call.deadline_ns = deadline_ns;
	asked->code =
		tes_channel_begin(&store->channel, 0, type, msg, &asked->call);
}

int tes_store_answered(struct te_store *store, struct tes_store_asked *asked,
		       struct tes_reply *out)
{
	const struct tes_channel_call *call = &asked->call;
	int code = asked->code;

	if (!code)
		code = tes_channel_await(&store->channel, &asked->call, out);
	while (code == TES_CHANNEL_SHUT) {
		code = wait_for_link(store, call->deadline_ns);
		if (!code)
			code = tes_channel_call(&store->channel, 0, asked->type,
						asked->msg, call->arena,
						call->deadline_ns, out);
		if (code == TES_CHANNEL_SHUT &&
		    tei_now_ns() >= call->deadline_ns)
			code = TE_STORE_RPC_FAIL;
	}
	return code;
}

int tes_store_call(struct te_store *store, uint16_t type,
		   const struct ProtobufCMessage *msg, struct tei_arena *arena,
		   uint64_t deadline_ns, struct tes_reply *out)
{
	struct tes_store_asked asked;

	tes_store_ask(store, type, msg, arena, deadline_ns, &asked);
	return tes_store_answered(store, &asked, out);
}
