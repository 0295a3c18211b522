/* SPDX-License-Identifier: Apache-2.0 */
/* mount.c - segments that the caller lends and takes back */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/client/client.h"
#include "store/proto/store.pb-c.h"

/*
 * Segments are announced to the master until it has them:
 *
 *   heartbeat or a new segment -> publish and mount (helper) -> done
 *
 * A mount that fails is tried again with the next heartbeat, except for a
 * segment that a caller waits for, who gets the error. A segment that left
 * while the master was away is unmounted when it is back.
 */

static void mount_missing(struct tes_master_link *link);

static void cannot_mount(const char *why, const char *words)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_allowed(&limit))
		LOG_WARN("segment: cannot be mounted: %s%s%s", why,
			 *words ? ": " : "", words);
}

static void settle_mount(struct te_store *store, struct tes_segment *segment,
			 int code)
{
	tei_mutex_lock(&store->mu);
	segment->settled = true;
	segment->code = code;
	tei_cond_broadcast(&store->changed);
	tei_mutex_unlock(&store->mu);
}

/* Notes why a mount failed that is tried again: for who gives it up. */
static void note_code(struct te_store *store, struct tes_segment *segment,
		      int code)
{
	tei_mutex_lock(&store->mu);
	segment->code = code;
	tei_mutex_unlock(&store->mu);
}

/* We are in the pool when all that is to last is mounted. */
static void set_ready(struct te_store *store)
{
	tei_list_for_each (node, &store->segments.list) {
		const struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		if (segment->lasting && !segment->leaving && !segment->mounted)
			return;
	}
	tes_store_set_ready(store, true, 0);
}

/* ---- mounting ---- */

/*
 * A name that another engine has, as the master thinks, may be ours again soon:
 * that one is asked whether it is there.
 */
static bool may_be_tried_again(const struct tes_segment *segment, int status)
{
	return segment->lasting || status == TE_STORE_ILLEGAL_CLIENT;
}

static void take_status(struct te_store *store, struct tes_segment *segment,
			int status, const char *why)
{
	if (!status) {
		segment->mounted = segment->lasting = true;
		settle_mount(store, segment, 0);
	} else if (may_be_tried_again(segment, status)) {
		/* The next heartbeat tries again. */
		cannot_mount(te_store_strerror(status), why);
		note_code(store, segment, status);
		if (segment->lasting)
			tes_store_set_ready(store, false, TE_STORE_RPC_FAIL);
	} else {
		if (*why)
			cannot_mount(te_store_strerror(status), why);
		settle_mount(store, segment, status);
	}
}

/* Segments that have left meanwhile are not in the list. */
static void take_statuses(struct te_store *store,
			  const struct tes_mount_result *result)
{
	size_t i;

	tei_list_for_each (node, &store->segments.list) {
		struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		for (i = 0; i < result->n && segment->publishing; i++)
			if (result->of[i].segment == segment)
				take_status(store, segment,
					    result->of[i].status,
					    result->of[i].why);
		if (segment->publishing && segment->mounted)
			segment->heard_ns = result->begun_ns;
	}
}

void tes_mounting_done(struct tes_master_link *link,
		       const struct tes_mount_result *result)
{
	struct te_store *store = link->store;
	bool late = result->generation != link->generation;

	link->mounting = false;
	if (!late && !result->rc && !result->code)
		take_statuses(store, result);
	tei_list_for_each (node, &store->segments.list)
		tei_list_entry(node, struct tes_segment, link)->publishing =
			false;
	if (late)
		return; /* its master is gone; the next one asks again */
	if (result->rc)
		cannot_mount(te_strerror(result->rc), "");
	else if (result->code)
		tes_master_link_lose(link, "does not answer our mount");
	else
		set_ready(store);
	if (!result->rc && !result->code && link->more)
		mount_missing(link);
}

static void mount_missing(struct tes_master_link *link)
{
	link->more = link->mounting;
	if (link->mounting)
		return;
	link->mounting = true;
	if (tes_segments_publish(link->store, link->generation, link->group)) {
		link->mounting = false;
		LOG_ERROR("segment: no memory to publish it");
	}
}

/* Mounts segments that were added. */
static void mounting_wanted(struct tes_master_link *link)
{
	/* Else the first heartbeat does it. */
	if (link->beaten && !link->losing)
		mount_missing(link);
}

/* ---- what has left ---- */

void tes_mounting_left(struct tes_master_link *link,
		       const uint8_t id[TES_STORE_SEGMENT_ID_LEN], int code)
{
	link->unmounting = false;
	if (code)
		return;
	tei_list_for_each (node, &link->store->segments.list) {
		struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		if (memcmp(segment->id, id, sizeof(segment->id)) != 0)
			continue;
		tei_list_del(node);
		tes_segment_free(segment);
		return;
	}
}

/* Unmounts one segment; called once per heartbeat. */
static void unmount_one(struct tes_master_link *link,
			const struct tes_segment *segment)
{
	if (!link->unmounting)
		link->unmounting = !tes_segment_unmount(
			link->store, link->generation, segment);
}

/* ---- heartbeats ---- */

static uint32_t mounting_count(const struct tes_master_link *link)
{
	uint32_t n = 0;

	tei_list_for_each (node, &link->store->segments.list) {
		const struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		n += segment->mounted && !segment->leaving &&
		     !tes_segment_grace_ms(segment);
	}
	return n;
}

static void mounting_heartbeat_done(struct tes_master_link *link, bool remount)
{
	bool missing = false;

	tei_list_for_each (node, &link->store->segments.list) {
		struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		if (segment->leaving) {
			unmount_one(link, segment);
			continue;
		}
		if (remount)
			segment->mounted = false;
		if (segment->mounted)
			segment->heard_ns = link->beat_ns;
		missing |= !segment->mounted;
	}
	if (missing)
		mount_missing(link);
	else
		set_ready(link->store);
}

/* ---- drains: values move away from segments that leave ---- */

/*
 * The master decides what goes where, and our own executor copies it, as ever.
 * Here is only who waits for that.
 */

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

static void report_progress(const Store__DrainReply *reply,
			    struct te_store_drained *out)
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

/*
 * Asks once: asked again after the master went, the drain would begin anew.
 */
static int ask_to_drain(struct te_store *store, const Store__Drain *msg,
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
		LOG_WARN("store: the master did not report what was moved: %s",
			 te_store_strerror(code));
		goto out;
	}
	answer = store__drain_reply__unpack(&arena.pb, reply.len, reply.body);
	if (answer) {
		code = answer->status;
		report_progress(answer, out);
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
	return ask_to_drain(store, &msg, out);
}

/* ---- segments that leave after a grace period ---- */

/*
 * Time in which a segment goes by itself after a grace: the master takes no
 * part in that but to put nothing new there, and each one that it is mounted at
 * is told.
 */

#define REMOVE_MS 500

/* ---- the end of a grace ---- */

/* The master was not reached: it is told when it is back. */
static void on_left(struct tei_call *post)
{
	struct tes_segment *segment =
		TEI_CONTAINER(post, struct tes_segment, grace.left);

	if (segment->grace.code) {
		segment->leaving = true;
		tei_list_add_tail(&segment->grace.store->segments.list,
				  &segment->link);
	} else {
		tes_segment_free(segment);
	}
}

static void run_leave(struct tes_job *job, bool stopping)
{
	struct tes_segment *segment =
		TEI_CONTAINER(job, struct tes_segment, grace.job);
	struct te_store *store = segment->grace.store;

	segment->grace.code = 0;
	if (!stopping)
		segment->grace.code = tes_segment_tell_unmount(
			store, 0, segment->id, 0, tes_call_deadline(store));
	tes_segment_withdraw(store, segment, REMOVE_MS);
	if (!tei_loop_post(store->loop, &segment->grace.left))
		tes_segment_free(segment);
}

static void segment_ungrace(struct tes_segment *segment);

static void on_over(void *arg)
{
	struct tes_segment *segment = arg;

	segment_ungrace(segment);
	tei_list_del(&segment->link);
	segment->grace.job.run = run_leave;
	segment->grace.left.fn = on_left;
	tes_helper_add(&segment->grace.store->helper, &segment->grace.job);
}

/* ---- a grace ---- */

static void segment_ungrace(struct tes_segment *segment)
{
	if (atomic_exchange(&segment->grace.until_ns, 0))
		tei_alarm_clear(&segment->grace.over);
}

void tes_segments_ungrace(struct te_store *store)
{
	tei_list_for_each (node, &store->segments.list)
		segment_ungrace(tei_list_entry(node, struct tes_segment, link));
}

uint64_t tes_segment_grace_ms(const struct tes_segment *segment)
{
	uint64_t until = atomic_load(&segment->grace.until_ns);
	uint64_t now = tei_now_ns();

	if (!until)
		return 0;
	return until > now ? (until - now) / TEI_NS_PER_MS + 1 : 1;
}

/*
 * Gives grace until @grace_ms from now, or an earlier end that it has. -ENOMEM.
 */
static int give_grace(struct te_store *store, struct tes_segment *segment,
		      uint64_t grace_ms)
{
	uint64_t until = tei_now_ns() + grace_ms * TEI_NS_PER_MS;
	uint64_t before = atomic_load(&segment->grace.until_ns);
	int rc;

	if (before && before <= until)
		return 0;
	if (!before) {
		segment->grace.store = store;
		tei_alarm_init(&segment->grace.over, store->loop, on_over,
			       segment);
	}
	rc = tei_alarm_set(&segment->grace.over, grace_ms);
	if (!rc)
		atomic_store(&segment->grace.until_ns, until);
	return rc;
}

struct grace_step {
	struct te_store *store;
	const uint8_t *id;
	uint64_t grace_ms;
	int code;
};

static void do_grace(void *arg)
{
	struct grace_step *step = arg;
	struct tes_segment *segment = tes_segment_find(step->store, step->id);

	if (!segment)
		step->code = TE_STORE_SEGMENT_NOT_FOUND;
	else if (give_grace(step->store, segment, step->grace_ms))
		step->code = TE_STORE_INTERNAL_ERROR;
	else
		step->code = 0;
}

/* The segment leaves after @grace_ms, 1 or more. Returns a store code. */
static int unmount_later(struct te_store *store,
			 const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
			 uint64_t grace_ms)
{
	struct grace_step step = {
		.store = store,
		.id = id,
		.grace_ms = grace_ms,
		.code = TE_STORE_INTERNAL_ERROR,
	};

	(void)tei_loop_do(store->loop, do_grace, &step);
	/* When the master is away it is told when the segment is mounted. */
	if (!step.code)
		(void)tes_segment_tell_unmount(store, 0, id, grace_ms,
					       tes_call_deadline(store));
	return step.code;
}

_Static_assert(TE_STORE_SEGMENT_ID_LEN == TES_STORE_SEGMENT_ID_LEN, "one id");

/* ---- on the loop ---- */

struct unmount_step {
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
	struct unmount_step *step = arg;
	struct te_store *store = step->store;

	tei_list_for_each (node, &store->segments.list)
		if (overlap(tei_list_entry(node, struct tes_segment, link),
			    step->segment))
			return;
	tei_list_add_tail(&store->segments.list, &step->segment->link);
	step->taken = true;
	mounting_wanted(&store->link);
}

/* Nobody mounts it any more, and the helper gets it in no further job. */
static void do_take(void *arg)
{
	struct unmount_step *step = arg;
	struct tes_segment *segment = tes_segment_find(step->store, step->id);

	if (!segment)
		return;
	segment_ungrace(segment);
	tei_list_del(&segment->link);
	step->segment = segment;
	step->taken = true;
}

/* The master was not reached: it is told when it is back. */
static void do_leave(void *arg)
{
	struct unmount_step *step = arg;

	step->segment->leaving = true;
	tei_list_add_tail(&step->store->segments.list, &step->segment->link);
	step->taken = true;
}

/* ---- unmounting ---- */

/* Tells the master, and releases the memory of @segment, in no list now. */
static void leave_segment(struct te_store *store, struct tes_segment *segment)
{
	struct unmount_step step = {.store = store, .segment = segment};
	int code = tes_segment_retire(store, segment);

	if (!code || !tei_loop_do(store->loop, do_leave, &step))
		tes_segment_free(segment);
}

int tes_direct_unmount(struct te_store *store,
		       const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
		       uint64_t grace_ms)
{
	struct unmount_step step = {.store = store, .id = id};

	if (!store || !id || grace_ms > TE_STORE_GRACE_MAX_MS)
		return TE_STORE_INVALID_PARAMS;
	if (grace_ms)
		return unmount_later(store, id, grace_ms);
	(void)tei_loop_do(store->loop, do_take, &step);
	if (!step.taken)
		return TE_STORE_SEGMENT_NOT_FOUND;
	leave_segment(store, step.segment);
	return 0;
}

/*
 * Takes the next one, each once: the list is the loop's, so it is asked for it.
 */
static void do_next(void *arg)
{
	struct unmount_step *step = arg;

	step->taken = false;
	tei_list_for_each (node, &step->store->segments.list) {
		struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		if (segment->leaving || segment->unmount_sent)
			continue;
		segment->unmount_sent = step->taken = true;
		step->segment = segment;
		return;
	}
}

static int tell_master(struct te_store *store, struct tes_segment *segment,
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

static void do_look(void *arg)
{
	struct unmount_step *step = arg;

	step->taken = !tei_list_empty(&step->store->segments.list);
}

bool tes_lends(struct te_store *store)
{
	struct unmount_step step = {.store = store};

	(void)tei_loop_do(store->loop, do_look, &step);
	return step.taken;
}

void tes_unmount_all(struct te_store *store, uint64_t deadline_ns)
{
	struct unmount_step step = {.store = store};

	while (!tes_direct_health(store) && tei_now_ns() < deadline_ns) {
		(void)tei_loop_do(store->loop, do_next, &step);
		if (!step.taken)
			return;
		(void)tell_master(store, step.segment, deadline_ns);
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
	code = segment->settled || segment->code ? segment->code
						 : TE_STORE_RPC_FAIL;
	tei_mutex_unlock(&store->mu);
	return code;
}

/* Takes @segment. */
static int mount(struct te_store *store, struct tes_segment *segment,
		 uint8_t *out)
{
	struct unmount_step step = {.store = store, .segment = segment};
	struct unmount_step back = {.store = store, .id = segment->id};
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
		leave_segment(store, segment);
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
	code = tes_segment_map(store, path, offset, bytes, &segment);
	return code ? code : mount(store, segment, id);
}

const struct tes_owner_messages tes_owner_messages = {
	.count_mounts = mounting_count,
	.heartbeat_done = mounting_heartbeat_done,
	.fence = tes_segment_fence,
	.committed = tes_ledger_on_committed,
	.bury = tes_ledger_on_bury,
	.task = tes_executor_on_task,
};
