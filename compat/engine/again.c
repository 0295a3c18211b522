/* SPDX-License-Identifier: Apache-2.0 */
/*
 * again.c - transfers whose peer has restarted, sent once more to its new life
 *
 * A request to a life that is over ends with -ESTALE. Its caller knows names
 * only, and shall not notice: those that ended so, and whose peer is there again,
 * go together into one more batch, until each has ended otherwise or its time is
 * over. There is one such batch at a time. Whoever asks how a task stands drives
 * that.
 */
#include <errno.h>
#include <stdlib.h>

#include "compat/engine/batch.h"

#define OPEN_MS 100 /* that who asks may be held up by a peer that comes back */

/* Which request of the batch task @task is. */
static uint32_t index_of(const struct mc_batch *b, size_t task)
{
	size_t before = 0, end = b->n_notifies;

	while (before < end) {
		size_t middle = before + (end - before) / 2;

		if (b->notifies[middle].tasks <= task)
			before = middle + 1;
		else
			end = middle;
	}
	return (uint32_t)(task + before);
}

/* Its last try. 0, -EAGAIN. */
static int completion(const struct mc_batch *b, size_t task,
		      struct te_completion *out)
{
	const struct mc_task *t = &b->tasks[task];

	return t->again ? te_batch_result(b->again, t->again - 1, out)
			: te_batch_result(b->te, index_of(b, task), out);
}

/* The life it went to is over, and there is time for the next one. */
static bool is_to_go_again(const struct mc_task *t, int error)
{
	return (error == -ESTALE || error == -ENOENT) &&
	       mc_now_ms() < t->end_ms;
}

static struct transfer_status status_of(const struct te_completion *c)
{
	return (struct transfer_status){
		.status = c->error ? STATUS_FAILED : STATUS_COMPLETED,
		.transferred_bytes = c->bytes,
	};
}

struct trip {
	size_t *tasks; /* tasks[n] */
	struct te_request *requests;
	struct iovec *pieces;
	size_t n;
	bool waited;    /* for a peer that is not there yet: */
	int64_t absent; /* its number; for others there is no time now */
};

static int find(struct mc_batch *b, struct trip *trip, int64_t number,
		te_segment_id *out)
{
	int rc;

	if (trip->waited && trip->absent == number)
		return -ETIMEDOUT;
	rc = mc_segment_find(b->engine, number, trip->waited ? 1 : OPEN_MS,
			     out);
	if (rc) {
		trip->waited = true;
		trip->absent = number;
	}
	return rc;
}

/* Put a task behind the others. False: there is no peer yet. */
static bool add(struct mc_batch *b, struct trip *trip, size_t task)
{
	const struct mc_task *t = &b->tasks[task];
	struct iovec *piece = &trip->pieces[trip->n];
	uint64_t now = mc_now_ms();
	te_segment_id id;

	if (find(b, trip, t->entry.target_id, &id))
		return false;
	*piece = (struct iovec){t->entry.source, t->entry.length};
	trip->requests[trip->n] = (struct te_request){
		.op = t->entry.opcode == OPCODE_READ ? TE_READ : TE_WRITE,
		.segment = id,
		.remote = t->entry.target_offset,
		.pieces = piece,
		.n_pieces = 1,
		.timeout_ms = now < t->end_ms ? (uint32_t)(t->end_ms - now) : 1,
	};
	trip->tasks[trip->n++] = task;
	return true;
}

/* False: none can leave now. */
static bool gather(struct mc_batch *b, struct trip *trip)
{
	struct te_completion c;

	for (size_t i = 0; i < b->n_tasks; i++) {
		struct mc_task *t = &b->tasks[i];

		t->leaves = !t->ended.status && !completion(b, i, &c) &&
			    is_to_go_again(t, c.error) && add(b, trip, i);
	}
	return trip->n;
}

/*
 * Of tries that are over nothing is left but how they ended. Who stays for want
 * of its peer is again what it was before: one that was to go again.
 */
static void note_ends(struct mc_batch *b)
{
	struct te_completion c;

	for (size_t i = 0; i < b->n_tasks; i++) {
		struct mc_task *t = &b->tasks[i];

		if (t->again && !t->leaves && !completion(b, i, &c) &&
		    !is_to_go_again(t, c.error))
			t->ended = status_of(&c);
		t->again = 0;
	}
}

static void send(struct mc_batch *b, const struct trip *trip)
{
	struct te_batch *te;

	if (te_batch_create(b->engine->te, (uint32_t)trip->n, &te))
		return;
	if (te_batch_submit(te, trip->requests, trip->n)) {
		te_batch_destroy(te);
		return;
	}
	note_ends(b);
	te_batch_destroy(b->again);
	b->again = te;
	for (size_t i = 0; i < trip->n; i++)
		b->tasks[trip->tasks[i]].again = (uint32_t)i + 1;
}

/* Where it does not work out now, the next one to ask tries. */
static void go_again(struct mc_batch *b)
{
	struct trip trip = {.n = 0};

	if (b->again && te_batch_wait(b->again, 0) == -ETIMEDOUT)
		return;
	trip.tasks = malloc(b->n_tasks * sizeof(*trip.tasks));
	trip.requests = malloc(b->n_tasks * sizeof(*trip.requests));
	trip.pieces = malloc(b->n_tasks * sizeof(*trip.pieces));
	if (trip.tasks && trip.requests && trip.pieces && gather(b, &trip))
		send(b, &trip);
	free(trip.pieces);
	free(trip.requests);
	free(trip.tasks);
}

struct transfer_status mc_task_status(struct mc_batch *batch, size_t task)
{
	const struct transfer_status waiting = {.status = STATUS_WAITING};
	const struct mc_task *t = &batch->tasks[task];
	struct te_completion c;

	if (t->ended.status)
		return t->ended;
	if (completion(batch, task, &c))
		return waiting;
	if (!is_to_go_again(t, c.error))
		return status_of(&c);
	go_again(batch);
	return waiting;
}
