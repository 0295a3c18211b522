/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.c - batches: transfers that are submitted, asked about and forgotten
 *
 * A task is a request of the batch; notifications are requests between them,
 * and no tasks. One that is still under way when its batch is given back goes
 * on: the batch leaves when it has ended.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compat/engine/batch.h"
#include "compat/handle/handle.h"

#define CAPACITY         65536
#define NOTIFIES         8    /* of the largest batch */
#define ON_STACK         32   /* entries of one submission */
#define LEAVING_MS       1000 /* for what is under way when its engine goes */
#define TRY_BYTES_PER_MS 1000000 /* beyond transfer_ms */

/* Arrays of one submission. */
struct submission {
	struct te_request *requests; /* requests[n + 1]: the notification */
	struct iovec *pieces;
	size_t n;
	struct iovec notify;
	struct te_request few[ON_STACK + 1];
	struct iovec few_pieces[ON_STACK];
};

static struct mc_table batches = MC_TABLE_INIT;

uint64_t mc_now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void destroy(struct mc_batch *b)
{
	te_batch_destroy(b->te);
	te_batch_destroy(b->again);
	free(b->tasks);
	for (size_t i = 0; i < b->n_notifies; i++)
		free(b->notifies[i].bytes.iov_base);
	(void)pthread_mutex_destroy(&b->mutex);
	free(b->notifies);
	free(b);
}

/* Drop those that have ended in the meantime. */
static void see_off(struct mc_engine *e)
{
	struct mc_batch *gone = NULL, **link = &e->leaving, *b;

	(void)pthread_mutex_lock(&e->mutex);
	while ((b = *link)) {
		if (te_batch_wait(b->te, 0) == -ETIMEDOUT) {
			link = &b->next;
			continue;
		}
		*link = b->next;
		b->next = gone;
		gone = b;
		e->n_batches--;
	}
	(void)pthread_mutex_unlock(&e->mutex);
	while ((b = gone)) {
		gone = b->next;
		destroy(b);
	}
}

/* Destroying the engine may go on as soon as this was the last pin. */
static void unpin(struct mc_batch *b)
{
	struct mc_batch *last = mc_table_unpin(&batches, b->handle);
	struct mc_engine *e;

	if (!last)
		return;
	e = last->engine;
	(void)pthread_mutex_lock(&e->mutex);
	last->next = e->leaving;
	e->leaving = last;
	(void)pthread_cond_signal(&e->left);
	(void)pthread_mutex_unlock(&e->mutex);
}

/* A batch of this engine, or NULL, which is logged. */
static struct mc_batch *pin(struct mc_engine *e, batch_id_t id,
			    const char *function)
{
	struct mc_batch *b = mc_table_pin(&batches, id);

	if (b && b->engine != e) {
		unpin(b);
		b = NULL;
	}
	if (!b)
		mc_warn(function, "%llx is no batch of this engine (any more)",
			(unsigned long long)id);
	return b;
}

/* Every submission has a transfer, and may have a notification. */
static size_t notifies_most(size_t size)
{
	return size < CAPACITY - size ? size : CAPACITY - size;
}

static struct mc_batch *make_batch(struct mc_engine *e, size_t size)
{
	size_t n_notifies = notifies_most(size);
	struct mc_batch *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->engine = e;
	b->size = size;
	b->tasks = calloc(size, sizeof(*b->tasks));
	b->notifies = malloc(n_notifies * sizeof(*b->notifies));
	if (!b->tasks || !b->notifies ||
	    te_batch_create(e->te, (uint32_t)(size + n_notifies), &b->te)) {
		free(b->notifies);
		free(b->tasks);
		free(b);
		return NULL;
	}
	(void)pthread_mutex_init(&b->mutex, NULL);
	(void)pthread_mutex_lock(&e->mutex);
	b->handle = mc_table_add(&batches, b);
	e->n_batches += b->handle != 0;
	(void)pthread_mutex_unlock(&e->mutex);
	if (!b->handle) {
		destroy(b);
		return NULL;
	}
	return b;
}

batch_id_t allocateBatchID(transfer_engine_t engine, size_t batch_size)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	batch_id_t id = INVALID_BATCH;
	struct mc_batch *b = NULL;

	if (!e)
		return id;
	if (!batch_size || batch_size > CAPACITY - NOTIFIES) {
		mc_warn(__func__, "batch_size %zu is not in 1 .. %d",
			batch_size, CAPACITY - NOTIFIES);
	} else {
		b = make_batch(e, batch_size);
		if (!b)
			mc_warn(__func__, "no memory for %zu transfers",
				batch_size);
	}
	if (b)
		id = b->handle;
	mc_engine_unpin(e);
	return id;
}

/* Memory for @n entries; 0, or MC_STATUS_MEMORY. */
static int make_room(struct submission *s, size_t n)
{
	s->n = n;
	s->requests = s->few;
	s->pieces = s->few_pieces;
	if (n <= ON_STACK)
		return 0;
	s->requests = malloc((n + 1) * sizeof(*s->requests));
	s->pieces = malloc(n * sizeof(*s->pieces));
	return s->requests && s->pieces ? 0 : MC_STATUS_MEMORY;
}

static void free_room(struct submission *s)
{
	if (s->requests != s->few) {
		free(s->requests);
		free(s->pieces);
	}
	free(s->notify.iov_base);
}

/* Returns what is wrong with an entry, or NULL. */
static const char *entry_fault(const struct transfer_request *entry)
{
	if (entry->opcode != OPCODE_READ && entry->opcode != OPCODE_WRITE)
		return "opcode is neither OPCODE_READ nor OPCODE_WRITE";
	if (!entry->source)
		return "source is NULL";
	if (!entry->length || entry->length > TE_LENGTH_MAX)
		return "length is 0 or too large";
	return NULL;
}

static int translate(struct mc_engine *e, const char *function,
		     const struct transfer_request *entries,
		     struct submission *s)
{
	int64_t number = -1;
	te_segment_id id = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct transfer_request *entry = &entries[i];
		const char *why = entry_fault(entry);

		if (!why && entry->target_id != number) {
			int rc = mc_segment_find(e, entry->target_id, 0, &id);

			number = entry->target_id;
			why = rc ? te_strerror(rc) : NULL;
		}
		if (why) {
			mc_warn(function, "entry %zu, to segment %d: %s", i,
				entry->target_id, why);
			return MC_STATUS_INVALID;
		}
		s->pieces[i] = (struct iovec){entry->source, entry->length};
		s->requests[i] = (struct te_request){
			.op = entry->opcode == OPCODE_READ ? TE_READ : TE_WRITE,
			.segment = id,
			.remote = entry->target_offset,
			.pieces = &s->pieces[i],
			.n_pieces = 1,
		};
	}
	return 0;
}

static struct mc_try new_try(const struct mc_batch *b, uint64_t bytes)
{
	return (struct mc_try){
		.index = (uint32_t)(b->n_tasks + b->n_notifies),
		.end_ms = mc_now_ms() + b->engine->transfer_ms +
			  bytes / TRY_BYTES_PER_MS,
	};
}

/* Copies each request, for the case that its peer restarts. */
static void remember_entries(struct mc_batch *b,
			     const struct transfer_request *entries,
			     struct submission *s)
{
	uint64_t longest = 0;

	for (size_t i = 0; i < s->n; i++) {
		b->tasks[b->n_tasks] = (struct mc_task){
			.try = new_try(b, entries[i].length),
			.entry = entries[i],
		};
		b->n_tasks++;
		if (entries[i].length > longest)
			longest = entries[i].length;
	}
	if (!s->notify.iov_base)
		return;
	b->notifies[b->n_notifies] = (struct mc_notify){
		.try = new_try(b, longest),
		.tasks = b->n_tasks,
		.target = entries[0].target_id,
		.bytes = s->notify,
	};
	b->notifies[b->n_notifies++].try.follows = true;
	s->notify.iov_base = NULL; /* the batch's now */
}

static int start_transfer(struct mc_batch *b, const char *function,
			  const struct transfer_request *entries,
			  struct submission *s)
{
	bool notify = s->notify.iov_base != NULL;
	int rc = 0;

	(void)pthread_mutex_lock(&b->mutex);
	if (s->n > b->size - b->n_tasks ||
	    (notify && b->n_notifies == notifies_most(b->size))) {
		mc_warn(function, "%zu more than the batch's %zu", s->n,
			b->size);
		rc = MC_STATUS_TOO_MANY;
		goto out;
	}
	switch (te_batch_submit(b->te, s->requests, s->n + notify)) {
	case 0:
		remember_entries(b, entries, s);
		break;
	case -ENOMEM:
		rc = MC_STATUS_MEMORY;
		break;
	default:
		mc_warn(function, "an entry is out of range");
		rc = MC_STATUS_INVALID;
	}
out:
	(void)pthread_mutex_unlock(&b->mutex);
	return rc;
}

/* @msg: NULL: nobody is told. */
static int submit(struct mc_engine *e, const char *function, batch_id_t id,
		  const struct transfer_request *entries, size_t count,
		  const notify_msg_t *msg)
{
	struct mc_batch *b = pin(e, id, function);
	struct submission s = {.n = 0};
	int rc;

	if (!b)
		return MC_STATUS_INVALID;
	if (!count && !msg) {
		rc = 0;
		goto out;
	}
	if (!entries || !count) {
		mc_warn(function, "no entries");
		rc = MC_STATUS_INVALID;
		goto out;
	}
	rc = count > b->size ? MC_STATUS_TOO_MANY : make_room(&s, count);
	if (!rc)
		rc = translate(e, function, entries, &s);
	if (!rc && msg) {
		s.notify.iov_base =
			mc_notify_pack(function, msg, &s.notify.iov_len);
		s.requests[count] = (struct te_request){
			.op = TE_NOTIFY,
			.segment = s.requests[0].segment,
			.pieces = &s.notify,
			.n_pieces = 1,
		};
		rc = s.notify.iov_base ? 0 : MC_STATUS_INVALID;
	}
	if (!rc)
		rc = start_transfer(b, function, entries, &s);
	free_room(&s);
out:
	unpin(b);
	return rc;
}

int submitTransfer(transfer_engine_t engine, batch_id_t batch_id,
		   struct transfer_request *entries, size_t count)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	int rc;

	if (!e)
		return MC_STATUS_INVALID;
	rc = submit(e, __func__, batch_id, entries, count, NULL);
	mc_engine_unpin(e);
	return rc;
}

int submitTransferWithNotify(transfer_engine_t engine, batch_id_t batch_id,
			     struct transfer_request *entries, size_t count,
			     notify_msg_t notify_msg)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	int rc;

	if (!e)
		return MC_STATUS_INVALID;
	rc = submit(e, __func__, batch_id, entries, count, &notify_msg);
	mc_engine_unpin(e);
	return rc;
}

static int ask_status(struct mc_batch *b, size_t task,
		      struct transfer_status *status)
{
	if (task >= b->n_tasks)
		return MC_ERROR_INVALID;
	*status = mc_task_status(b, task);
	return 0;
}

int getTransferStatus(transfer_engine_t engine, batch_id_t batch_id,
		      size_t task_id, struct transfer_status *status)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	int rc = MC_ERROR_INVALID;
	struct mc_batch *b;

	if (!e)
		return rc;
	b = status ? pin(e, batch_id, __func__) : NULL;
	if (b) {
		/* A caller that polls does the work itself. */
		(void)te_engine_drive(e->te, 0);
		(void)pthread_mutex_lock(&b->mutex);
		rc = ask_status(b, task_id, status);
		(void)pthread_mutex_unlock(&b->mutex);
		if (rc)
			mc_warn(__func__, "there is no task %zu", task_id);
		unpin(b);
	}
	mc_engine_unpin(e);
	return rc;
}

static bool is_busy(struct mc_batch *b)
{
	struct transfer_status status;
	bool busy = false;

	(void)pthread_mutex_lock(&b->mutex);
	for (size_t i = 0; !busy && i < b->n_tasks; i++)
		busy = !ask_status(b, i, &status) &&
		       status.status == STATUS_WAITING;
	(void)pthread_mutex_unlock(&b->mutex);
	return busy;
}

int freeBatchID(transfer_engine_t engine, batch_id_t batch_id)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	int rc = MC_STATUS_INVALID;
	struct mc_batch *b;

	if (!e)
		return rc;
	b = pin(e, batch_id, __func__);
	if (b) {
		rc = is_busy(b) ? MC_STATUS_BUSY : 0;
		if (!rc)
			(void)mc_table_give_back(&batches, b->handle);
		unpin(b);
	}
	see_off(e);
	mc_engine_unpin(e);
	return rc;
}

/*
 * Frees all batches, of which nothing goes on but notifications of those that
 * were leaving.
 */
static void give_all_back(struct mc_engine *e)
{
	struct mc_batch *b;
	uint64_t id = 0;

	while ((id = mc_table_next(&batches, id))) {
		b = mc_table_pin(&batches, id);
		if (!b)
			continue;
		if (b->engine == e) {
			(void)te_batch_cancel(b->te);
			if (b->again)
				(void)te_batch_cancel(b->again);
			(void)mc_table_give_back(&batches, id);
		}
		unpin(b);
	}
}

static size_t count_ended(const struct mc_batch *b)
{
	size_t n = 0;

	for (; b; b = b->next)
		n++;
	return n;
}

void mc_batches_end(struct mc_engine *engine)
{
	uint64_t end = mc_now_ms() + LEAVING_MS, now;
	struct mc_batch *b, *next;

	give_all_back(engine);
	(void)pthread_mutex_lock(&engine->mutex);
	while (count_ended(engine->leaving) < engine->n_batches)
		(void)pthread_cond_wait(&engine->left, &engine->mutex);
	(void)pthread_mutex_unlock(&engine->mutex);
	for (b = engine->leaving; b; b = next) {
		next = b->next;
		now = mc_now_ms();
		(void)te_batch_wait(b->te,
				    now < end ? (uint32_t)(end - now) : 0);
		destroy(b);
	}
	engine->leaving = NULL;
}
