/* SPDX-License-Identifier: Apache-2.0 */
/* executor.c - what an owner copies to others for the master */
#include "store/owner/executor.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/client/client.h"

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

	if (!link->pulse || !link->beaten || link->losing)
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
	if (!tei_frame_send(link->pulse, STORE__STORE_TYPE__STORE_TASK_DONE, 0,
			    0, &msg.base))
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

static void answer(struct tes_master_link *link,
		   const struct tes_copy_answer *a)
{
	struct tes_executor *x = &link->store->executor;

	x->answers[x->next_answer++ % TES_EXECUTOR_ANSWERS] = *a;
	(void)send_answer(link, a);
}

static void refuse(struct tes_master_link *link, const Store__Task *task,
		   int status, const char *message)
{
	struct tes_copy_answer a = {
		.used = true,
		.status = status,
		.quiet = true,
		.message = message,
	};

	memcpy(a.id, task->id.data, sizeof(a.id));
	answer(link, &a);
}

/* ---- copies ---- */

static void free_copy(struct tes_copy *copy)
{
	store__task__free_unpacked(copy->task, NULL);
	tei_free(copy);
}

static void forget(struct tes_copy *copy)
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

	answer(&copy->store->link, &copy->answer);
	forget(copy);
}

/* False: it was released meanwhile. */
static bool begin(struct tes_copy *copy)
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

static void run(struct tes_job *job, bool stopping)
{
	struct tes_copy *copy = TEI_CONTAINER(job, struct tes_copy, job);

	copy->answer.status = TE_STORE_REPLICA_NOT_FOUND;
	copy->answer.quiet = true;
	copy->answer.message = "its segment is being unmounted";
	if (!stopping && begin(copy))
		tes_copy_run(copy);
	unbind(copy);
	copy->over.fn = on_over;
	if (!tei_loop_post(copy->store->loop, &copy->over))
		forget(copy);
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

static int start(struct tes_executor *x)
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
		refuse(link, task, TE_STORE_INTERNAL_ERROR, "no memory");
		store__task__free_unpacked(task, NULL);
		return NULL;
	}
	tei_list_init(&copy->link);
	copy->job.run = run;
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
	refuse(link, copy->task, TE_STORE_INTERNAL_ERROR, "too many tasks");
	free_copy(copy);
}

/* It will be answered when it is over. */
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
static void take(struct tes_master_link *link, Store__Task *task)
{
	struct tes_segment *segment = source_of(link->store, task->source);
	struct tes_copy *copy;

	if (!segment) {
		refuse(link, task, TE_STORE_REPLICA_NOT_FOUND,
		       "its segment is not mounted");
		store__task__free_unpacked(task, NULL);
		return;
	}
	if (start(&link->store->executor)) {
		refuse(link, task, TE_STORE_INTERNAL_ERROR, "no threads");
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

	if (!task || !tes_copy_holds(task)) {
		tei_frame_bad(link->pulse, "malformed task");
	} else if (!x->ended && task->epoch == link->epoch &&
		   !is_under_way(x, task) && !answer_again(link, task)) {
		take(link, task);
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
