/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.c - what lies in segments that are to go is moved to others
 *
 * The master decides what goes where, and our own executor copies it, as ever.
 * Here is only who waits for that.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/client/client.h"
#include "store/proto/store.pb-c.h"

#define ARENA_MAX (64u << 10)

/*
 * A master that does not answer in half the time of a call would only be waited
 * for.
 */
static int is_awake(struct te_store *store)
{
	uint64_t ms = store->call_timeout_ms / 2;
	Store__Pool msg = STORE__POOL__INIT;
	struct tes_reply reply;
	struct tei_arena arena;
	int code;

	if (tes_direct_health(store))
		return TE_STORE_RPC_FAIL;
	tei_arena_init(&arena, ARENA_MAX);
	code = tes_store_call(store, STORE__STORE_TYPE__STORE_POOL, &msg.base,
			      &arena, tei_now_ns() + ms * TEI_NS_PER_MS,
			      &reply);
	tei_arena_fini(&arena);
	if (!code)
		return 0;
	LOG_WARN("store: nothing is moved to others: the master does not "
		 "answer");
	return TE_STORE_RPC_FAIL;
}

static void tell(const Store__DrainReply *reply, struct te_store_drained *out)
{
	LOG_INFO("store: %llu of %llu values moved to others, %llu left%s%s",
		 (unsigned long long)reply->moved,
		 (unsigned long long)reply->total,
		 (unsigned long long)reply->left, *reply->why ? ": " : "",
		 reply->why);
	if (!out)
		return;
	out->total = reply->total;
	out->moved = reply->moved;
	out->moved_bytes = reply->moved_bytes;
	out->left = reply->left;
}

/* Once: who asks for it again after the master went would begin at its start. */
static int ask(struct te_store *store, const Store__Drain *msg,
	       struct te_store_drained *out)
{
	uint64_t ms = msg->timeout_ms + store->call_timeout_ms;
	Store__DrainReply *answer;
	struct tes_reply reply;
	struct tei_arena arena;
	int code;

	tei_arena_init(&arena, ARENA_MAX);
	code = tes_store_call(store, STORE__STORE_TYPE__STORE_DRAIN, &msg->base,
			      &arena, tei_now_ns() + ms * TEI_NS_PER_MS,
			      &reply);
	if (code) {
		LOG_WARN("store: the master has not said what was moved: %s",
			 te_store_strerror(code));
		goto out;
	}
	answer = store__drain_reply__unpack(&arena.pb, reply.len, reply.body);
	if (answer) {
		code = answer->status;
		tell(answer, out);
	} else {
		code = tes_bad_reply("a drain");
	}
out:
	tei_arena_fini(&arena);
	return code;
}

int tes_direct_drain(struct te_store *store,
		     const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
		     uint32_t timeout_ms, struct te_store_drained *out)
{
	Store__Drain msg = STORE__DRAIN__INIT;
	int code;

	if (timeout_ms > TES_DRAIN_MAX_MS)
		return TE_STORE_INVALID_PARAMS;
	if (out)
		memset(out, 0, sizeof(*out));
	code = is_awake(store);
	if (code)
		return code;
	msg.segment.data = (uint8_t *)(uintptr_t)id; /* only read */
	msg.segment.len = id ? TE_STORE_SEGMENT_ID_LEN : 0;
	msg.timeout_ms = timeout_ms;
	return ask(store, &msg, out);
}
