/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.c - the memory that we lend to the pool, and fences of its writers
 *
 * Mounting again means that the master begins with an empty segment: it may
 * have forgotten puts that are still under way. So before every mount but the
 * first, the access of all writers ends.
 */
#include "store/owner/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/client/client.h"
#include "store/proto/store.pb-c.h"

/* ---- a segment's memory: anonymous or mapped from a file ---- */

#define ALL_MS 500 /* letting go of all when the store closes */

void tes_segments_init(struct te_store *store)
{
	tei_list_init(&store->segments.list);
}

static void free_memory(struct te_store *store, struct tes_segment *segment)
{
	if (segment->pinned)
		tes_pins_remove(&store->pins, segment->memory, segment->bytes);
	segment->pinned = false;
	if (segment->mapping)
		(void)munmap(segment->mapping, (size_t)segment->bytes);
	else if (segment->memory)
		te_memory_free(store->engine, segment->memory);
	segment->mapping = NULL;
	segment->memory = NULL;
}

void tes_segment_withdraw(struct te_store *store, struct tes_segment *segment,
			  uint32_t ms)
{
	bool released = tes_executor_release(&store->executor, segment, ms);

	/* Else a writer stands still in the middle of a copy. */
	if (segment->region &&
	    te_region_remove_within(store->engine, segment->region, ms) ==
		    -ETIMEDOUT)
		LOG_WARN("segment: left to the engine: a process, stopped in "
			 "the middle of a copy, may still write to it");
	else if (!released)
		LOG_WARN("segment: its memory is kept: a copy to another owner "
			 "does not end");
	else
		free_memory(store, segment);
	segment->region = 0;
	segment->memory = NULL;
}

/* All of them together take as long as one may. */
void tes_segments_fini(struct te_store *store)
{
	uint64_t until = tei_now_ns() + ALL_MS * TEI_NS_PER_MS, now;
	struct tei_list *node;

	while ((node = tei_list_pop(&store->segments.list))) {
		struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		now = tei_now_ns();
		tes_segment_withdraw(
			store, segment,
			now < until
				? (uint32_t)((until - now) / TEI_NS_PER_MS) + 1
				: 1);
		tes_segment_free(segment);
	}
}

void tes_segment_free(struct tes_segment *segment)
{
	tes_ledger_fini(&segment->ledger);
	tei_free(segment);
}

static struct tes_segment *new_segment(uint64_t bytes)
{
	struct tes_segment *segment = tei_calloc(1, sizeof(*segment));

	if (!segment)
		return NULL;
	tei_list_init(&segment->link);
	segment->bytes = bytes;
	tes_ledger_init(&segment->ledger, bytes);
	if (RAND_bytes(segment->id, sizeof(segment->id)) == 1)
		return segment;
	tes_segment_free(segment);
	return NULL;
}

static void pin(struct te_store *store, struct tes_segment *segment)
{
	segment->pinned = tes_pins_add(&store->pins, "segment", segment->memory,
				       segment->bytes);
}

int tes_segment_create(struct te_store *store, uint64_t bytes,
		       struct tes_segment **out)
{
	struct tes_segment *segment;
	int rc;

	if (!bytes || bytes > TE_LENGTH_MAX)
		return TE_STORE_INVALID_PARAMS;
	segment = new_segment(bytes);
	if (!segment)
		return TE_STORE_INTERNAL_ERROR;
	rc = te_memory_alloc(store->engine, bytes, &segment->memory);
	if (rc) {
		LOG_ERROR("segment: %llu bytes: %s", (unsigned long long)bytes,
			  te_strerror(rc));
		tes_segment_free(segment);
		return TE_STORE_INTERNAL_ERROR;
	}
	pin(store, segment);
	*out = segment;
	return 0;
}

/* Maps a file that has these bytes; touching others would raise SIGBUS. */
static int map_file(struct tes_segment *segment, int fd, uint64_t offset)
{
	struct stat st;
	void *at;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_size < 0 || offset > (uint64_t)st.st_size ||
	    segment->bytes > (uint64_t)st.st_size - offset)
		return -ERANGE;
	at = mmap(NULL, (size_t)segment->bytes, PROT_READ | PROT_WRITE,
		  MAP_SHARED, fd, (off_t)offset);
	if (at == MAP_FAILED)
		return -errno;
	segment->mapping = segment->memory = at;
	segment->device = st.st_dev;
	segment->inode = st.st_ino;
	segment->offset = offset;
	return 0;
}

int tes_segment_map(struct te_store *store, const char *path, uint64_t offset,
		    uint64_t bytes, struct tes_segment **out)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct tes_segment *segment;
	int fd, rc;

	if (!bytes || bytes > TE_LENGTH_MAX || bytes % page || offset % page ||
	    offset > INT64_MAX - bytes)
		return TE_STORE_INVALID_PARAMS;
	segment = new_segment(bytes);
	if (!segment)
		return TE_STORE_INTERNAL_ERROR;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	rc = fd < 0 ? -errno : map_file(segment, fd, offset);
	if (fd >= 0)
		(void)close(fd);
	if (rc) {
		LOG_ERROR("segment: %s: %s", path,
			  rc == -ERANGE ? "shorter than what is to be mounted"
					: strerror(-rc));
		tes_segment_free(segment);
		return TE_STORE_INVALID_PARAMS;
	}
	pin(store, segment);
	*out = segment;
	return 0;
}

#define STEP_MS       20 /* so that closing need not wait for long */
#define PUBLISH_STEPS 100
#define PENDING_MS    500 /* the master wants to hear of it in 2 s */
#define REMOVE_MS     500
#define MOUNT_NS      (2 * TEI_NS_PER_S)

/* ---- leaving ---- */

struct tes_segment *tes_segment_find(struct te_store *store, const uint8_t *id)
{
	tei_list_for_each (node, &store->segments.list) {
		struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		if (!segment->leaving &&
		    memcmp(segment->id, id, sizeof(segment->id)) == 0)
			return segment;
	}
	return NULL;
}

int tes_segment_tell_unmount(struct te_store *store, uint64_t generation,
			     const uint8_t *id, uint64_t grace_ms,
			     uint64_t deadline_ns)
{
	Store__Unmount msg = STORE__UNMOUNT__INIT;
	struct tei_arena arena;
	struct tes_reply reply;
	int code;

	msg.segment.data = (uint8_t *)(uintptr_t)id;
	msg.segment.len = TES_STORE_SEGMENT_ID_LEN;
	msg.grace_ms = grace_ms;
	tei_arena_init(&arena, 64u << 10);
	code = tes_channel_call(&store->channel, generation,
				STORE__STORE_TYPE__STORE_UNMOUNT, &msg.base,
				&arena, deadline_ns, &reply);
	tei_arena_fini(&arena);
	return code;
}

struct retire_job {
	struct tes_job job;
	struct te_store *store;
	struct tes_segment *segment;
	int code;
	bool done; /* guarded by store->mu */
};

static void run_retire(struct tes_job *base, bool stopping)
{
	struct retire_job *job = TEI_CONTAINER(base, struct retire_job, job);
	struct te_store *store = job->store;

	if (!stopping)
		job->code =
			tes_segment_tell_unmount(store, 0, job->segment->id, 0,
						 tes_call_deadline(store));
	tes_segment_withdraw(store, job->segment, REMOVE_MS);
	tei_mutex_lock(&store->mu);
	job->done = true;
	tei_cond_broadcast(&store->changed);
	tei_mutex_unlock(&store->mu);
}

int tes_segment_retire(struct te_store *store, struct tes_segment *segment)
{
	struct retire_job job = {
		.job.run = run_retire,
		.store = store,
		.segment = segment,
		.code = TE_STORE_RPC_FAIL,
	};

	tes_helper_add(&store->helper, &job.job);
	tei_mutex_lock(&store->mu);
	while (!job.done)
		(void)tei_cond_wait(&store->changed, &store->mu, UINT64_MAX);
	tei_mutex_unlock(&store->mu);
	return job.code;
}

struct unmount_job {
	struct tes_job job;
	struct tei_call post;
	struct te_store *store;
	uint64_t generation;
	uint8_t id[TES_STORE_SEGMENT_ID_LEN];
	int code;
};

static void on_unmounted(struct tei_call *post)
{
	struct unmount_job *job = TEI_CONTAINER(post, struct unmount_job, post);

	tes_mounting_left(&job->store->link, job->id, job->code);
	tei_free(job);
}

static void run_unmount(struct tes_job *base, bool stopping)
{
	struct unmount_job *job = TEI_CONTAINER(base, struct unmount_job, job);

	job->code = TE_STORE_RPC_FAIL;
	if (!stopping)
		job->code = tes_segment_tell_unmount(
			job->store, job->generation, job->id, 0,
			tei_now_ns() + MOUNT_NS);
	if (!tei_loop_post(job->store->loop, &job->post))
		tei_free(job);
}

int tes_segment_unmount(struct te_store *store, uint64_t generation,
			const struct tes_segment *segment)
{
	struct unmount_job *job = tei_calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	job->job.run = run_unmount;
	job->post.fn = on_unmounted;
	job->store = store;
	job->generation = generation;
	memcpy(job->id, segment->id, sizeof(job->id));
	tes_helper_add(&store->helper, &job->job);
	return 0;
}

/* ---- publishing ---- */

struct publish_job {
	struct tes_job job;
	struct tei_call post;
	struct te_store *store;
	uint64_t epoch, digest_seed; /* of the master */
	uint8_t group[TES_STORE_GROUP_LEN];
	struct tes_segment **segments; /* segments[result.n], behind it */
	struct tes_mount_result result;
};

static void on_published(struct tei_call *post)
{
	struct publish_job *job = TEI_CONTAINER(post, struct publish_job, post);

	tes_mounting_done(&job->store->link, &job->result);
	tei_free(job);
}

/* A new master has a new group: members of the old one stay outside. */
static int add_region(struct te_store *store, struct tes_segment *segment,
		      const uint8_t *group)
{
	struct te_region region = {
		.addr = segment->memory,
		.length = segment->bytes,
		.group = group,
		.access = TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE,
	};
	int rc;

	if (segment->region &&
	    memcmp(segment->group, group, TES_STORE_GROUP_LEN) == 0)
		return 0;
	if (segment->region)
		(void)te_region_remove(store->engine, segment->region);
	segment->region = 0;
	rc = te_region_add(store->engine, &region, &segment->region);
	if (!rc)
		memcpy(segment->group, group, TES_STORE_GROUP_LEN);
	return rc;
}

/*
 * Access that was ended once needs only to be waited for, in however many
 * tries: nobody is told of places in the segments before they are mounted.
 */
static int end_access(struct te_store *store)
{
	struct tes_segments *segments = &store->segments;
	int rc = -ETIMEDOUT, i;

	if (!segments->ending)
		rc = te_peer_revoke(store->engine, NULL, STEP_MS);
	segments->ending = !rc || rc == -ETIMEDOUT;
	for (i = 0; i < PUBLISH_STEPS && rc == -ETIMEDOUT; i++) {
		if (atomic_load(&store->helper.stopping))
			return -ECANCELED;
		rc = te_peer_revoke_wait(store->engine, NULL, STEP_MS);
	}
	return rc;
}

static int publish_segments(const struct publish_job *job)
{
	struct te_store *store = job->store;
	bool again = false;
	size_t i;
	int rc = 0;

	for (i = 0; i < job->result.n; i++)
		again |= job->segments[i]->published;
	if (again)
		rc = end_access(store);
	for (i = 0; i < job->result.n && !rc; i++)
		rc = add_region(store, job->segments[i], job->group);
	if (rc)
		return rc;
	for (i = 0; i < job->result.n; i++)
		job->segments[i]->published = true;
	store->segments.ending = false;
	return 0;
}

/*
 * Follows a mount: offers the objects in the segment, starts its grace period.
 */
static int settle_in(const struct publish_job *job, size_t i, bool kept,
		     uint64_t digest_seed)
{
	const struct tes_segment *segment = job->segments[i];
	const struct tes_ledger_master master = {
		.generation = job->result.generation,
		.epoch = job->epoch,
		.digest_seed = digest_seed,
		.kept = kept,
		.slept = job->result.of[i].slept,
	};
	uint64_t grace_ms = tes_segment_grace_ms(segment);
	int code = 0;

	if (grace_ms)
		code = tes_segment_tell_unmount(
			job->store, job->result.generation, segment->id,
			grace_ms, tei_now_ns() + MOUNT_NS);
	if (code)
		return code;
	return tes_ledger_mounted(job->store, job->segments[i], &master);
}

/* Only at the master that the segment was published for. */
static int call_mount(struct publish_job *job, size_t i)
{
	struct te_store *store = job->store;
	struct tes_mount_result *result = &job->result;
	struct tes_segment *segment = job->segments[i];
	Store__Mount msg = STORE__MOUNT__INIT;
	char name[TEI_NAME_LEN_MAX + 1];
	struct tei_arena arena;
	struct tes_reply reply;
	Store__Status *status;
	int code;

	(void)snprintf(name, sizeof(name), "%s", te_engine_name(store->engine));
	msg.segment.data = (uint8_t *)(uintptr_t)segment->id;
	msg.segment.len = sizeof(segment->id);
	msg.name = name;
	msg.address = (uint64_t)(uintptr_t)segment->memory;
	msg.size = segment->bytes;
	msg.offering = tes_ledger_offers(segment);
	tei_arena_init(&arena, 64u << 10);
	code = tes_channel_call(&store->channel, result->generation,
				STORE__STORE_TYPE__STORE_MOUNT, &msg.base,
				&arena, tei_now_ns() + MOUNT_NS, &reply);
	if (code) {
		tes_ledger_doubt(segment, job->digest_seed);
		goto out;
	}
	status = store__status__unpack(&arena.pb, reply.len, reply.body);
	if (status) {
		result->of[i].status = status->status;
		(void)snprintf(result->of[i].why, sizeof(result->of[i].why),
			       "%s", status->why);
		if (!status->status)
			code = settle_in(job, i, status->kept,
					 reply.digest_seed);
	} else {
		code = TE_STORE_RPC_FAIL;
	}
out:
	tei_arena_fini(&arena);
	return code;
}

static void run_publish(struct tes_job *base, bool stopping)
{
	struct publish_job *job = TEI_CONTAINER(base, struct publish_job, job);
	struct tes_mount_result *result = &job->result;
	size_t i;

	result->rc = stopping ? -ECANCELED : publish_segments(job);
	for (i = 0; i < result->n && !result->rc && !result->code; i++)
		result->code = call_mount(job, i);
	if (!tei_loop_post(job->store->loop, &job->post))
		tei_free(job);
}

static bool is_wanted(const struct tes_segment *segment)
{
	return !segment->mounted && !segment->leaving;
}

static struct publish_job *create_job(size_t n)
{
	size_t of = n * sizeof(((struct tes_mount_result *)0)->of[0]);
	struct publish_job *job =
		tei_calloc(1, sizeof(*job) + of + n * sizeof(job->segments[0]));

	if (job)
		job->segments =
			(struct tes_segment **)(void *)((char *)(job + 1) + of);
	return job;
}

int tes_segments_publish(struct te_store *store, uint64_t generation,
			 const uint8_t group[TES_STORE_GROUP_LEN])
{
	struct publish_job *job;
	size_t n = 0;

	tei_list_for_each (node, &store->segments.list)
		n += is_wanted(tei_list_entry(node, struct tes_segment, link));
	job = create_job(n);
	if (!job)
		return -ENOMEM;
	tei_list_for_each (node, &store->segments.list) {
		struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		if (!is_wanted(segment))
			continue;
		segment->publishing = true;
		job->segments[job->result.n] = segment;
		job->result.of[job->result.n].slept =
			store->link.slept_ns > segment->heard_ns;
		job->result.of[job->result.n++].segment = segment;
	}
	job->job.run = run_publish;
	job->post.fn = on_published;
	job->store = store;
	job->result.generation = generation;
	job->result.begun_ns = tei_now_ns();
	job->epoch = store->link.epoch;
	job->digest_seed = store->link.digest_seed;
	memcpy(job->group, group, TES_STORE_GROUP_LEN);
	tes_helper_add(&store->helper, &job->job);
	return 0;
}

/* ---- fencing ---- */

/*
 * A fence that takes long is answered as pending: the writer may have stopped
 * in the middle of a copy. Its retries take turns with the helper's other jobs,
 * for as long as that takes.
 */
struct fence_job {
	struct tes_job job;
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
	tes_master_link_fenced(&job->store->link, job->generation, job->fence,
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
	tes_master_link_fenced(&job->store->link, job->generation, job->fence,
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

static void run_fence(struct tes_job *base, bool stopping)
{
	struct fence_job *job = TEI_CONTAINER(base, struct fence_job, job);

	if (stopping)
		job->rc = -ECANCELED;
	else
		end_writer(job);
	if (job->rc == -ETIMEDOUT) {
		tes_helper_add(&job->store->helper, &job->job);
		return;
	}
	if (job->rc && !stopping)
		LOG_WARN("segment: a writer could not be fenced: %s",
			 te_strerror(job->rc));
	if (!tei_loop_post(job->store->loop, &job->post))
		tei_free(job);
}

int tes_segment_fence(struct te_store *store, uint64_t generation,
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
	tes_helper_add(&store->helper, &job->job);
	return 0;
}
