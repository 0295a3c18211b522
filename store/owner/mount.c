/* SPDX-License-Identifier: Apache-2.0 */
/* mount.c - segments that the caller lends and takes back */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/client/client.h"
#include "store/proto/store.pb-c.h"

_Static_assert(TE_STORE_SEGMENT_ID_LEN == TES_STORE_SEGMENT_ID_LEN, "one id");

/* ---- on the loop ---- */

struct step {
	struct te_store *store;
	struct tes_segment *segment; /* in, or what was found */
	const uint8_t *id;
	bool taken;
};

static bool overlap(const struct tes_segment *a, const struct tes_segment *b)
{
	return a->mapping && b->mapping && a->device == b->device &&
	       a->inode == b->inode && a->offset < b->offset + b->bytes &&
	       b->offset < a->offset + a->bytes;
}

static void do_add(void *arg)
{
	struct step *step = arg;
	struct te_store *store = step->store;

	tei_list_for_each (node, &store->segments.list)
		if (overlap(tei_list_entry(node, struct tes_segment, link),
			    step->segment))
			return;
	tei_list_add_tail(&store->segments.list, &step->segment->link);
	step->taken = true;
	tes_mounting_wanted(&store->link);
}

/* Nobody mounts it any more, and the helper gets it in no further job. */
static void do_take(void *arg)
{
	struct step *step = arg;
	struct tes_segment *segment = tes_segment_find(step->store, step->id);

	if (!segment)
		return;
	tes_segment_ungrace(segment);
	tei_list_del(&segment->link);
	step->segment = segment;
	step->taken = true;
}

/* The master could not be told: it will be, when it is back. */
static void do_leave(void *arg)
{
	struct step *step = arg;

	step->segment->leaving = true;
	tei_list_add_tail(&step->store->segments.list, &step->segment->link);
	step->taken = true;
}

/* ---- unmounting ---- */

/* @segment is in no list: tell the master, and let go of the memory. */
static void leave(struct te_store *store, struct tes_segment *segment)
{
	struct step step = {.store = store, .segment = segment};
	int code = tes_segment_retire(store, segment);

	if (!code || !tei_loop_do(store->loop, do_leave, &step))
		tes_segment_free(segment);
}

int tes_direct_unmount(struct te_store *store,
		       const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
		       uint64_t grace_ms)
{
	struct step step = {.store = store, .id = id};

	if (!store || !id || grace_ms > TE_STORE_GRACE_MAX_MS)
		return TE_STORE_INVALID_PARAMS;
	if (grace_ms)
		return tes_unmount_later(store, id, grace_ms);
	(void)tei_loop_do(store->loop, do_take, &step);
	if (!step.taken)
		return TE_STORE_SEGMENT_NOT_FOUND;
	leave(store, step.segment);
	return 0;
}

/* Each once: the list is the loop's, so it is asked for the next one. */
static void do_next(void *arg)
{
	struct step *step = arg;

	step->taken = false;
	tei_list_for_each (node, &step->store->segments.list) {
		struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		if (segment->leaving || segment->told)
			continue;
		segment->told = step->taken = true;
		step->segment = segment;
		return;
	}
}

static int tell(struct te_store *store, struct tes_segment *segment,
		uint64_t deadline_ns)
{
	Store__Unmount msg = STORE__UNMOUNT__INIT;
	struct tei_arena arena;
	struct tes_reply reply;
	int code;

	msg.segment.data = segment->id;
	msg.segment.len = sizeof(segment->id);
	tei_arena_init(&arena, 64u << 10);
	code = tes_store_call(store, STORE__STORE_TYPE__STORE_UNMOUNT,
			      &msg.base, &arena, deadline_ns, &reply);
	tei_arena_fini(&arena);
	return code;
}

void tes_unmount_all(struct te_store *store, uint64_t deadline_ns)
{
	struct step step = {.store = store};

	while (!tes_direct_health(store) && tei_now_ns() < deadline_ns) {
		(void)tei_loop_do(store->loop, do_next, &step);
		if (!step.taken)
			return;
		(void)tell(store, step.segment, deadline_ns);
	}
}

/* ---- mounting ---- */

static int await_settled(struct te_store *store, struct tes_segment *segment)
{
	uint64_t deadline = tes_call_deadline(store);
	int code;

	tei_mutex_lock(&store->mu);
	while (!segment->settled)
		if (!tei_cond_wait(&store->changed, &store->mu, deadline))
			break;
	code = segment->settled ? segment->code : TE_STORE_RPC_FAIL;
	tei_mutex_unlock(&store->mu);
	return code;
}

/* Takes @segment. */
static int mount(struct te_store *store, struct tes_segment *segment,
		 uint8_t *out)
{
	struct step step = {.store = store, .segment = segment};
	struct step back = {.store = store, .id = segment->id};
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	int code = TE_STORE_INVALID_PARAMS;

	memcpy(id, segment->id, sizeof(id));
	(void)tei_loop_do(store->loop, do_add, &step);
	if (!step.taken) {
		tes_segment_withdraw(store, segment, 1); /* nobody knew it */
		tes_segment_free(segment);
		return code;
	}
	code = await_settled(store, segment);
	if (!code) {
		memcpy(out, id, sizeof(id));
		return 0;
	}
	(void)tei_loop_do(store->loop, do_take, &back);
	if (back.taken)
		leave(store, segment);
	return code;
}

int tes_direct_mount(struct te_store *store, uint64_t bytes,
		     uint8_t id[TE_STORE_SEGMENT_ID_LEN])
{
	struct tes_segment *segment;
	int code;

	if (!store || !id)
		return TE_STORE_INVALID_PARAMS;
	code = tes_segment_create(store, bytes, &segment);
	return code ? code : mount(store, segment, id);
}

int tes_direct_mount_shared(struct te_store *store, const char *path,
			    uint64_t offset, uint64_t bytes,
			    uint8_t id[TE_STORE_SEGMENT_ID_LEN])
{
	struct tes_segment *segment;
	int code;

	if (!store || !path || !id)
		return TE_STORE_INVALID_PARAMS;
	code = tes_segment_map(path, offset, bytes, &segment);
	return code ? code : mount(store, segment, id);
}
