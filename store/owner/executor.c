/* SPDX-License-Identifier: Apache-2.0 */
/* executor.c - what an owner copies to others for the master */
#include "store/owner/executor.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "store/client/client.h"
#include "store/proto/extent.h"

/* ---- a copy of one object into another owner's extents ---- */

/*
 * The headers in our memory say before and after that what was read is the
 * object; its bytes are summed as they pass, and have to be those that its
 * checksum is of. How it is cut into extents may differ at the two ends.
 */

#define FOR_EVER_MS (600u * 1000) /* where the master says nothing */

/* ---- what the master says ---- */

static bool sizes_hold(const uint64_t *length, size_t n, uint64_t size)
{
	uint64_t left = size;
	size_t i;

	if (!n || n > TES_COPY_EXTENTS)
		return false;
	for (i = 0; i < n; i++) {
		if (!length[i] || length[i] > left)
			return false;
		left -= length[i];
	}
	return !left;
}

/* Tells whether @task says something that can be done at all. */
static bool copy_holds(const Store__Task *task)
{
	const Store__Objects *o = task->source;

	return task->id.len == 16 && o && o->n_key_lens == 1 &&
	       o->keys.len == o->key_lens[0] && o->n_generation == 1 &&
	       o->n_gen_epoch == 1 && o->n_size == 1 &&
	       o->size[0] <= TE_STORE_VALUE_MAX && o->n_no_crc <= 1 &&
	       o->n_length == o->n_address && o->n_crc == o->n_address &&
	       sizes_hold(o->length, o->n_length, o->size[0]) &&
	       task->n_address == task->n_length && task->target &&
	       task->target->incarnation.len == TE_INCARNATION_LEN &&
	       sizes_hold(task->length, task->n_length, o->size[0]);
}

static bool has_crc(const Store__Objects *o)
{
	return !o->n_no_crc || !o->no_crc[0];
}

/* ---- what lies here ---- */

static uint8_t *at_address(uint64_t address)
{
	return (uint8_t *)(uintptr_t)address;
}

static bool is_here(const Store__Objects *o)
{
	uint8_t bytes[TES_EXTENT_HEADER_LEN];
	struct tes_extent_header h;
	uint64_t offset = 0;
	size_t i;

	for (i = 0; i < o->n_address; i++) {
		const struct tes_extent_header expected = {
			.gen_epoch = o->gen_epoch[0],
			.generation = o->generation[0],
			.object_size = o->size[0],
			.offset = offset,
			.length = o->length[i],
			.index = (uint16_t)i,
			.count = (uint16_t)o->n_address,
		};

		/* Touching pages that a file has lost would raise SIGBUS. */
		if (!tei_is_there(o->address[i],
				  TES_EXTENT_HEADER_LEN + o->length[i], false))
			return false;
		memcpy(bytes, at_address(o->address[i]), sizeof(bytes));
		if (tes_extent_decode(bytes, &h) ||
		    !tes_extent_same(&h, &expected))
			return false;
		offset += h.length;
	}
	return true;
}

/* ---- the way there ---- */

struct trip {
	struct tes_copy *copy;
	const Store__Task *task;
	const Store__Objects *source;
	struct tes_work *work;
	struct tes_places places;
	struct iovec pieces[TES_COPY_EXTENTS];
	struct te_store_value value; /* of the pieces */
	uint64_t deadline_ns;
};

static void fail_trip(struct trip *trip, int32_t status, bool quiet,
		      const char *message)
{
	struct tes_copy_answer *a = &trip->copy->answer;

	a->status = status;
	a->quiet = quiet;
	a->message = message;
}

static int add_extent(struct trip *trip, size_t i, uint64_t offset)
{
	const Store__Objects *o = trip->source;
	const struct tes_place *place = &trip->places.at[0];
	const struct tes_extent_header header = {
		.gen_epoch = o->gen_epoch[0],
		.generation = o->generation[0],
		.digest = tes_key_digest(o->keys.data, o->keys.len,
					 trip->copy->digest_seed),
		.object_size = o->size[0],
		.offset = offset,
		.length = trip->task->length[i],
		.index = (uint16_t)i,
		.count = (uint16_t)trip->task->n_length,
	};
	uint8_t *room = trip->work->headers[trip->work->n];
	struct te_request *req = tes_work_add(
		trip->work, TE_WRITE, &trip->value, offset, header.length);

	if (!req)
		return -ENOMEM;
	tes_extent_encode(&header, room);
	req->segment = place->owner->segment;
	req->remote = trip->task->address[i];
	req->epoch = place->epoch;
	return 0;
}

/*
 * Our access may have been ended, in order to give the space to others, since
 * the master asked: then it must not be used under the next epoch.
 */
static bool is_late(const struct trip *trip)
{
	const struct tes_place *place = &trip->places.at[0];

	return place->since_ns > trip->copy->begun_ns && place->epoch != 1;
}

/* False, with an answer: nothing was sent. */
static bool plan(struct trip *trip)
{
	Store__Segment *target = trip->task->target;
	uint64_t offset = 0;
	size_t i;
	int rc;

	tes_places_init(&trip->places, &trip->copy->store->owners, trip->work,
			(uint32_t)trip->copy->store->replica_timeout_ms,
			trip->deadline_ns);
	rc = tes_places_add(&trip->places, &target, 1);
	if (!rc && tes_places_open(&trip->places, 0)) {
		fail_trip(trip, TE_STORE_TRANSFER_FAIL, true,
			  "the target cannot be reached");
		return false;
	}
	if (!rc && is_late(trip)) {
		fail_trip(trip, TE_STORE_TRANSFER_FAIL, true,
			  "the target has ended our access");
		return false;
	}
	for (i = 0; i < trip->task->n_length && !rc; i++) {
		rc = add_extent(trip, i, offset);
		offset += trip->task->length[i];
	}
	if (rc)
		fail_trip(trip, TE_STORE_INTERNAL_ERROR, true, "no memory");
	return !rc;
}

/* Combines @crcs[n] of parts of @lengths into the checksum of the whole. */
static uint32_t join_crcs(const uint32_t *crcs, const uint64_t *lengths,
			  size_t n)
{
	uint32_t crc = 0;
	size_t i;

	for (i = 0; i < n; i++)
		crc = te_crc32c_combine(crc, crcs[i], lengths[i]);
	return crc;
}

static void assess_copy(struct trip *trip)
{
	struct tes_copy_answer *a = &trip->copy->answer;
	const Store__Objects *o = trip->source;
	struct te_completion done;
	bool quiet = true;
	int error = 0;
	uint32_t i;

	a->n_crcs = trip->work->n;
	for (i = 0; i < trip->work->n; i++) {
		tes_work_result(trip->work, i, &done);
		a->crcs[i] = done.crc;
		if (!done.error)
			continue;
		error = done.error;
		quiet &= (done.flags & TE_REMOTE_QUIET) != 0;
		trip->places.at[0].gone |= error == -ENOENT;
	}
	if (error) {
		fail_trip(trip, tes_store_code(error), quiet,
			  te_strerror(error));
	} else if (!is_here(o)) {
		fail_trip(trip, TE_STORE_REPLICA_NOT_FOUND, true,
			  "the object went while it was read");
	} else if (has_crc(o) &&
		   join_crcs(a->crcs, trip->task->length, i) !=
			   join_crcs(o->crc, o->length, o->n_length)) {
		fail_trip(trip, TE_STORE_CHECKSUM_MISMATCH, true,
			  "its bytes are not those of its checksum");
	} else {
		fail_trip(trip, 0, true, "");
		a->no_crc = !has_crc(o);
	}
}

static bool is_over(void *arg)
{
	const struct trip *trip = arg;

	return atomic_load(&trip->copy->cancelled) ||
	       tei_now_ns() > trip->deadline_ns;
}

static void go(struct trip *trip)
{
	int rc;

	if (!plan(trip))
		return;
	rc = tes_work_run_until(trip->work, &trip->places, is_over, trip);
	if (rc)
		fail_trip(trip, tes_store_code(rc), true, te_strerror(rc));
	else
		assess_copy(trip);
}

static void set_value(struct trip *trip)
{
	const Store__Objects *o = trip->source;
	size_t i;

	for (i = 0; i < o->n_address; i++) {
		trip->pieces[i].iov_base =
			at_address(o->address[i] + TES_EXTENT_HEADER_LEN);
		trip->pieces[i].iov_len = (size_t)o->length[i];
	}
	trip->value.pieces = trip->pieces;
	trip->value.n_pieces = (uint32_t)o->n_address;
}

/* Copy, and fill in the answer but for its id. The executor's thread. */
static void copy_run(struct tes_copy *copy)
{
	const Store__Task *task = copy->task;
	uint64_t ms = task->timeout_ms ? task->timeout_ms : FOR_EVER_MS;
	struct trip trip = {
		.copy = copy,
		.task = task,
		.source = task->source,
	};

	if (ms > FOR_EVER_MS)
		ms = FOR_EVER_MS;
	trip.deadline_ns = copy->begun_ns + ms * TEI_NS_PER_MS;
	if (!is_here(task->source)) {
		fail_trip(&trip, TE_STORE_REPLICA_NOT_FOUND, true,
			  "the object is not there");
		return;
	}
	trip.work = tes_work_get(&copy->store->works, task->n_length);
	if (!trip.work) {
		fail_trip(&trip, TE_STORE_INTERNAL_ERROR, true, "no memory");
		return;
	}
	set_value(&trip);
	go(&trip);
	tes_places_fini(&trip.places);
	tes_work_put(&copy->store->works, trip.work);
}

/* ---- answers ---- */

/*
 * False: the master is not there to hear it; it will ask again. Ids name the
 * master's life, whose epoch may grow while a copy is made: one that does not
 * know the id hears nothing new.
 */
static bool send_answer(struct tes_master_link *link,
			const struct tes_copy_answer *a)
{
	Store__TaskDone msg = STORE__TASK_DONE__INIT;
	uint32_t crcs[TES_COPY_EXTENTS];
	char message[96];
	uint8_t id[16];

	if (!link->heartbeat || !link->beaten || link->losing)
		return false;
	memcpy(id, a->id, sizeof(id));
	memcpy(crcs, a->crcs, sizeof(crcs));
	(void)strncpy(message, a->message, sizeof(message) - 1);
	message[sizeof(message) - 1] = 0;
	msg.id.data = id;
	msg.id.len = sizeof(id);
	msg.status = a->status;
	msg.quiet = a->quiet;
	msg.crc = crcs;
	msg.n_crc = a->n_crcs;
	msg.no_crc = a->no_crc;
	msg.message = message;
	if (!tei_frame_send(link->heartbeat, STORE__STORE_TYPE__STORE_TASK_DONE,
			    0, 0, &msg.base))
		return true;
	tes_master_link_lose(link, "a task could not be answered");
	return false;
}

static bool answer_again(struct tes_master_link *link, const Store__Task *task)
{
	struct tes_executor *x = &link->store->executor;
	size_t i;

	for (i = 0; i < TES_EXECUTOR_ANSWERS; i++) {
		const struct tes_copy_answer *a = &x->answers[i];

		if (!a->used ||
		    memcmp(a->id, task->id.data, sizeof(a->id)) != 0)
			continue;
		(void)send_answer(link, a);
		return true;
	}
	return false;
}

static void answer_task(struct tes_master_link *link,
			const struct tes_copy_answer *a)
{
	struct tes_executor *x = &link->store->executor;

	x->answers[x->next_answer++ % TES_EXECUTOR_ANSWERS] = *a;
	(void)send_answer(link, a);
}

static void refuse_task(struct tes_master_link *link, const Store__Task *task,
			int status, const char *message)
{
	struct tes_copy_answer a = {
		.used = true,
		.status = status,
		.quiet = true,
		.message = message,
	};

	memcpy(a.id, task->id.data, sizeof(a.id));
	answer_task(link, &a);
}

/* ---- copies ---- */

static void free_copy(struct tes_copy *copy)
{
	store__task__free_unpacked(copy->task, NULL);
	tei_free(copy);
}

static void forget_copy(struct tes_copy *copy)
{
	struct tes_executor *x = &copy->store->executor;

	tei_mutex_lock(&x->mu);
	tei_list_del(&copy->link);
	x->n_copies--;
	tei_mutex_unlock(&x->mu);
	free_copy(copy);
}

static void on_over(struct tei_call *over)
{
	struct tes_copy *copy = TEI_CONTAINER(over, struct tes_copy, over);

	answer_task(&copy->store->link, &copy->answer);
	forget_copy(copy);
}

/* Begins a copy. False: it was released meanwhile. */
static bool begin_copy(struct tes_copy *copy)
{
	struct tes_executor *x = &copy->store->executor;
	bool bound;

	tei_mutex_lock(&x->mu);
	bound = copy->running = copy->segment != NULL;
	tei_mutex_unlock(&x->mu);
	return bound;
}

static void unbind(struct tes_copy *copy)
{
	struct tes_executor *x = &copy->store->executor;

	tei_mutex_lock(&x->mu);
	copy->segment = NULL;
	copy->running = false;
	tei_cond_broadcast(&x->left);
	tei_mutex_unlock(&x->mu);
}

static void run_job(struct tes_job *job, bool stopping)
{
	struct tes_copy *copy = TEI_CONTAINER(job, struct tes_copy, job);

	copy->answer.status = TE_STORE_REPLICA_NOT_FOUND;
	copy->answer.quiet = true;
	copy->answer.message = "its segment is being unmounted";
	if (!stopping && begin_copy(copy))
		copy_run(copy);
	unbind(copy);
	copy->over.fn = on_over;
	if (!tei_loop_post(copy->store->loop, &copy->over))
		forget_copy(copy);
}

bool tes_executor_release(struct tes_executor *x,
			  const struct tes_segment *segment, uint32_t ms)
{
	uint64_t deadline = tei_now_ns() + ms * TEI_NS_PER_MS;
	bool waiting = true, used = true;

	tei_mutex_lock(&x->mu);
	while (used && waiting) {
		used = false;
		tei_list_for_each (node, &x->copies) {
			struct tes_copy *copy =
				tei_list_entry(node, struct tes_copy, link);

			if (copy->segment != segment)
				continue;
			atomic_store(&copy->cancelled, true);
			used |= copy->running;
			if (!copy->running)
				copy->segment = NULL;
		}
		if (used)
			waiting = tei_cond_wait(&x->left, &x->mu, deadline);
	}
	tei_mutex_unlock(&x->mu);
	return !used;
}

/* ---- tasks ---- */

static int start_thread(struct tes_executor *x)
{
	size_t n = 0;
	int rc = 0;

	if (x->started)
		return 0;
	while (n < TES_EXECUTOR_THREADS && !rc) {
		rc = tes_helper_init(&x->threads[n]);
		n += !rc;
	}
	if (!n)
		return rc;
	x->n_threads = (unsigned int)n; /* one will do */
	x->started = true;
	return 0;
}

/* The segment that the whole source lies in; NULL: none of ours. */
static struct tes_segment *source_of(struct te_store *store,
				     const Store__Objects *o)
{
	tei_list_for_each (node, &store->segments.list) {
		struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);
		uint64_t base = (uint64_t)(uintptr_t)segment->memory;
		bool holds = base && !segment->leaving;
		size_t i;

		for (i = 0; i < o->n_address && holds; i++)
			holds = o->address[i] >= base &&
				o->address[i] - base < segment->bytes &&
				segment->bytes - (o->address[i] - base) >=
					TES_EXTENT_HEADER_LEN &&
				segment->bytes - (o->address[i] - base) -
						TES_EXTENT_HEADER_LEN >=
					o->length[i];
		if (holds)
			return segment;
	}
	return NULL;
}

/* Takes @task. */
static struct tes_copy *new_copy(struct tes_master_link *link,
				 Store__Task *task)
{
	struct tes_copy *copy = tei_calloc(1, sizeof(*copy));

	if (!copy) {
		refuse_task(link, task, TE_STORE_INTERNAL_ERROR, "no memory");
		store__task__free_unpacked(task, NULL);
		return NULL;
	}
	tei_list_init(&copy->link);
	copy->job.run = run_job;
	copy->store = link->store;
	copy->task = task;
	copy->begun_ns = tei_now_ns();
	copy->digest_seed = link->digest_seed;
	copy->answer.used = true;
	memcpy(copy->answer.id, task->id.data, sizeof(copy->answer.id));
	return copy;
}

static void enqueue(struct tes_master_link *link, struct tes_copy *copy,
		    struct tes_segment *segment)
{
	struct tes_executor *x = &link->store->executor;
	bool room;

	tei_mutex_lock(&x->mu);
	room = x->n_copies < TES_EXECUTOR_JOBS;
	if (room) {
		copy->segment = segment;
		tei_list_add_tail(&x->copies, &copy->link);
		x->n_copies++;
	}
	tei_mutex_unlock(&x->mu);
	if (room) {
		tes_helper_add(&x->threads[x->turn++ % x->n_threads],
			       &copy->job);
		return;
	}
	refuse_task(link, copy->task, TE_STORE_INTERNAL_ERROR,
		    "too many tasks");
	free_copy(copy);
}

/* True: the task runs already and is answered when it is over. */
static bool is_under_way(struct tes_executor *x, const Store__Task *task)
{
	bool found = false;

	tei_mutex_lock(&x->mu);
	tei_list_for_each (node, &x->copies) {
		const struct tes_copy *copy =
			tei_list_entry(node, struct tes_copy, link);

		found |= memcmp(copy->answer.id, task->id.data,
				sizeof(copy->answer.id)) == 0;
	}
	tei_mutex_unlock(&x->mu);
	return found;
}

/* Takes @task. */
static void accept_task(struct tes_master_link *link, Store__Task *task)
{
	struct tes_segment *segment = source_of(link->store, task->source);
	struct tes_copy *copy;

	if (!segment) {
		refuse_task(link, task, TE_STORE_REPLICA_NOT_FOUND,
			    "its segment is not mounted");
		store__task__free_unpacked(task, NULL);
		return;
	}
	if (start_thread(&link->store->executor)) {
		refuse_task(link, task, TE_STORE_INTERNAL_ERROR, "no threads");
		store__task__free_unpacked(task, NULL);
		return;
	}
	copy = new_copy(link, task);
	if (copy)
		enqueue(link, copy, segment);
}

void tes_executor_on_task(struct tes_master_link *link,
			  const struct tei_frame *f)
{
	struct tes_executor *x = &link->store->executor;
	Store__Task *task = store__task__unpack(NULL, f->len, f->body);

	if (!task || !copy_holds(task)) {
		tei_frame_bad(link->heartbeat, "malformed task");
	} else if (!x->ended && task->epoch >= link->epoch &&
		   !is_under_way(x, task) && !answer_again(link, task)) {
		accept_task(link, task);
		return;
	}
	if (task)
		store__task__free_unpacked(task, NULL);
}

/* ---- life ---- */

void tes_executor_init(struct tes_executor *x)
{
	tei_mutex_init(&x->mu);
	tei_cond_init(&x->left);
	tei_list_init(&x->copies);
}

void tes_executor_fini(struct tes_executor *x)
{
	tei_cond_fini(&x->left);
	tei_mutex_fini(&x->mu);
}

void tes_executor_stop(struct tes_executor *x)
{
	unsigned int i;

	tei_mutex_lock(&x->mu);
	tei_list_for_each (node, &x->copies)
		atomic_store(
			&tei_list_entry(node, struct tes_copy, link)->cancelled,
			true);
	tei_mutex_unlock(&x->mu);
	for (i = 0; i < x->n_threads; i++)
		tes_helper_fini(&x->threads[i]);
	x->n_threads = 0;
}
