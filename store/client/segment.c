/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.c - the memory that we lend to the pool, and fences of its writers
 *
 * Mounting again means that the master begins with an empty segment: it may
 * have forgotten puts that are still under way. So before every mount but the
 * first, the access of all writers ends.
 */
#include "store/client/segment.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/rand.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/client/client.h"
#include "store/proto/store.pb-c.h"

#define STEP_MS       20 /* so that closing need not wait for long */
#define PUBLISH_STEPS 100
#define PENDING_MS    500 /* the master wants to hear of it in 2 s */
#define REMOVE_MS     500
#define MOUNT_NS      (2 * TEI_NS_PER_S)

int tei_segment_init(struct te_store *store, uint64_t bytes)
{
	struct tei_segment *segment = &store->segment;
	int rc;

	if (!bytes)
		return 0;
	if (bytes > TE_LENGTH_MAX)
		return -EINVAL;
	if (RAND_bytes(segment->id, sizeof(segment->id)) != 1)
		return -EIO;
	rc = te_memory_alloc(store->engine, bytes, &segment->memory);
	if (rc) {
		LOG_ERROR("segment: %llu bytes: %s", (unsigned long long)bytes,
			  te_strerror(rc));
		return rc;
	}
	segment->bytes = bytes;
	return 0;
}

void tei_segment_fini(struct te_store *store)
{
	struct tei_segment *segment = &store->segment;

	/* Else a writer stands still in the middle of a copy. */
	if (segment->region &&
	    te_region_remove_within(store->engine, segment->region,
				    REMOVE_MS) == -ETIMEDOUT)
		LOG_WARN("segment: left to the engine: a process, stopped in "
			 "the middle of a copy, may still write to it");
	else if (segment->memory)
		te_memory_free(store->engine, segment->memory);
	segment->region = 0;
	segment->memory = NULL;
}

/* ---- publishing ---- */

struct publish_job {
	struct tei_job job;
	struct tei_call post;
	struct te_store *store;
	uint8_t group[TEI_STORE_GROUP_LEN];
	struct tei_mount_result result;
};

static void on_published(struct tei_call *post)
{
	struct publish_job *job = TEI_CONTAINER(post, struct publish_job, post);

	tei_master_link_mounted(&job->store->link, &job->result);
	tei_free(job);
}

/* A new master has a new group: members of the old one stay outside. */
static int add_region(struct te_store *store, const uint8_t *group)
{
	struct tei_segment *segment = &store->segment;
	struct te_region region = {
		.addr = segment->memory,
		.length = segment->bytes,
		.group = group,
		.access = TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE,
	};
	int rc;

	if (segment->region &&
	    memcmp(segment->group, group, TEI_STORE_GROUP_LEN) == 0)
		return 0;
	if (segment->region)
		(void)te_region_remove(store->engine, segment->region);
	segment->region = 0;
	rc = te_region_add(store->engine, &region, &segment->region);
	if (!rc)
		memcpy(segment->group, group, TEI_STORE_GROUP_LEN);
	return rc;
}

/*
 * Access that was ended once needs only to be waited for, in however many
 * tries: nobody is told of places in the segment before it is mounted.
 */
static int end_access(struct te_store *store)
{
	struct tei_segment *segment = &store->segment;
	int rc = -ETIMEDOUT, i;

	if (!segment->ending)
		rc = te_peer_revoke(store->engine, NULL, STEP_MS);
	segment->ending = !rc || rc == -ETIMEDOUT;
	for (i = 0; i < PUBLISH_STEPS && rc == -ETIMEDOUT; i++) {
		if (atomic_load(&store->helper.stopping))
			return -ECANCELED;
		rc = te_peer_revoke_wait(store->engine, NULL, STEP_MS);
	}
	return rc;
}

static int publish(struct te_store *store, const uint8_t *group)
{
	struct tei_segment *segment = &store->segment;
	int rc = segment->published ? end_access(store) : 0;

	if (!rc)
		rc = add_region(store, group);
	if (rc)
		return rc;
	segment->published = true;
	segment->ending = false;
	return 0;
}

/* Only at the master that the segment was published for. */
static int call_mount(struct te_store *store, struct tei_mount_result *result)
{
	Store__Mount msg = STORE__MOUNT__INIT;
	char name[TEI_NAME_LEN_MAX + 1];
	struct tei_arena arena;
	struct tei_reply reply;
	Store__Status *status;
	int code;

	(void)snprintf(name, sizeof(name), "%s", te_engine_name(store->engine));
	msg.segment.data = store->segment.id;
	msg.segment.len = sizeof(store->segment.id);
	msg.name = name;
	msg.address = (uint64_t)(uintptr_t)store->segment.memory;
	msg.size = store->segment.bytes;
	tei_arena_init(&arena, 64u << 10);
	code = tei_channel_call(&store->channel, result->generation,
				STORE__STORE_TYPE__STORE_MOUNT, &msg.base,
				&arena, tei_now_ns() + MOUNT_NS, &reply);
	if (code)
		goto out;
	status = store__status__unpack(&arena.pb, reply.len, reply.body);
	if (status) {
		result->status = status->status;
		(void)snprintf(result->why, sizeof(result->why), "%s",
			       status->why);
	} else {
		code = TE_STORE_RPC_FAIL;
	}
out:
	tei_arena_fini(&arena);
	return code;
}

static void run_publish(struct tei_job *base, bool stopping)
{
	struct publish_job *job = TEI_CONTAINER(base, struct publish_job, job);
	struct tei_mount_result *result = &job->result;

	result->rc = stopping ? -ECANCELED : publish(job->store, job->group);
	if (!result->rc)
		result->code = call_mount(job->store, result);
	if (!tei_loop_post(job->store->loop, &job->post))
		tei_free(job);
}

int tei_segment_publish(struct te_store *store, uint64_t generation,
			const uint8_t group[TEI_STORE_GROUP_LEN])
{
	struct publish_job *job = tei_calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	job->job.run = run_publish;
	job->post.fn = on_published;
	job->store = store;
	job->result.generation = generation;
	memcpy(job->group, group, TEI_STORE_GROUP_LEN);
	tei_helper_add(&store->helper, &job->job);
	return 0;
}

/* ---- fencing ---- */

/*
 * One that is not over soon is answered as pending: the writer may stand still
 * in the middle of a copy. It takes turns with what else the helper has to do,
 * for as long as that takes.
 */
struct fence_job {
	struct tei_job job;
	struct tei_call post;
	struct tei_alarm pending; /* the loop's */
	struct te_store *store;
	uint64_t generation, fence;
	uint8_t writer[TE_INCARNATION_LEN];
	bool begun; /* the helper's */
	int rc;
};

static void on_fenced(struct tei_call *post)
{
	struct fence_job *job = TEI_CONTAINER(post, struct fence_job, post);

	tei_alarm_clear(&job->pending);
	tei_master_link_fenced(&job->store->link, job->generation, job->fence,
			       job->rc);
	tei_free(job);
}

static void on_pending(void *arg)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	const struct fence_job *job = arg;

	if (tei_log_allowed(&limit))
		LOG_WARN("segment: a writer, perhaps stopped in the middle of "
			 "a copy, may still write to what it had reserved");
	tei_master_link_fenced(&job->store->link, job->generation, job->fence,
			       -EBUSY);
}

static void end_writer(struct fence_job *job)
{
	struct te_engine *engine = job->store->engine;

	if (job->begun)
		job->rc = te_peer_revoke_wait(engine, job->writer, STEP_MS);
	else
		job->rc = te_peer_revoke(engine, job->writer, STEP_MS);
	job->begun = true;
}

static void run_fence(struct tei_job *base, bool stopping)
{
	struct fence_job *job = TEI_CONTAINER(base, struct fence_job, job);

	if (stopping)
		job->rc = -ECANCELED;
	else
		end_writer(job);
	if (job->rc == -ETIMEDOUT) {
		tei_helper_add(&job->store->helper, &job->job);
		return;
	}
	if (job->rc && !stopping)
		LOG_WARN("segment: a writer could not be fenced: %s",
			 te_strerror(job->rc));
	if (!tei_loop_post(job->store->loop, &job->post))
		tei_free(job);
}

int tei_segment_fence(struct te_store *store, uint64_t generation,
		      uint64_t fence, const uint8_t writer[TE_INCARNATION_LEN])
{
	struct fence_job *job = tei_calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	job->job.run = run_fence;
	job->post.fn = on_fenced;
	job->store = store;
	job->generation = generation;
	job->fence = fence;
	memcpy(job->writer, writer, TE_INCARNATION_LEN);
	tei_alarm_init(&job->pending, store->loop, on_pending, job);
	if (tei_alarm_set(&job->pending, PENDING_MS)) {
		tei_free(job);
		return -ENOMEM;
	}
	tei_helper_add(&store->helper, &job->job);
	return 0;
}
