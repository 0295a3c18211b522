/* SPDX-License-Identifier: Apache-2.0 */
/*
 * again.c - transfers whose peer has restarted, sent once more to its new life
 *
 * A request to a life that is over ends with -ESTALE. Its caller knows names
 * only, and shall not notice: those that ended so, and whose peer is there
 * again, go together into one more batch, until each has ended otherwise or its
 * time is over. A notification goes behind the last of its tasks. There is one
 * such batch at a time. Whoever asks how a task stands drives that.
 */
#include <errno.h>
#include <stdlib.h>

#include "compat/engine/batch.h"

#define OPEN_MS 100 /* that who asks may be held up by a peer that comes back */

/* Result of the last attempt. 0, -EAGAIN. */
static int completion(const struct mc_batch *b, const struct mc_try *t,
		      struct te_completion *out)
{
	return t->again ? te_batch_result(b->again, t->again - 1, out)
			: te_batch_result(b->te, t->index, out);
}

/* The life it went to is over, and there is time for the next one. */
static bool is_to_go_again(const struct mc_try *t, int error)
{
	return (error == -ESTALE || error == -ENOENT ||
		(t->follows && error == -ECANCELED)) &&
	       mc_now_ms() < t->end_ms;
}

static struct transfer_status status_of(const struct te_completion *c)
{
	return (struct transfer_status){
		.status = c->error ? STATUS_FAILED : STATUS_COMPLETED,
		.transferred_bytes = c->bytes,
	};
}

/* STATUS_WAITING with @stale: it is to go again. */
static struct transfer_status stand(const struct mc_batch *b,
				    const struct mc_try *t, bool *stale)
{
	struct transfer_status waiting = {.status = STATUS_WAITING};
	struct te_completion c;

	*stale = false;
	if (t->ended.status)
		return t->ended;
	if (completion(b, t, &c))
		return waiting;
	*stale = is_to_go_again(t, c.error);
	return *stale ? waiting : status_of(&c);
}

struct trip {
	struct mc_try **tries; /* tries[n] */
	struct te_request *requests;
	struct iovec *pieces;
	size_t n;
	bool waited;    /* for a peer that is not there yet: */
	int64_t absent; /* its number; for others there is no time now */
};

/*
 * All of a trip to one peer go to one of its lives, or none would wait for
 * others.
 */
static int find_life(struct mc_batch *b, struct trip *trip, int64_t number,
		     te_segment_id *out)
{
	int rc;

	for (size_t i = trip->n; i > 0; i--) {
		if (trip->requests[i - 1].user != (uint64_t)number)
			continue;
		*out = trip->requests[i - 1].segment;
		return 0;
	}
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

/* Queues a request behind the others. False: there is no peer yet. */
static bool add_try(struct mc_batch *b, struct trip *trip, struct mc_try *t,
		    segment_id_t target, struct te_request r,
		    struct iovec bytes)
{
	uint64_t now = mc_now_ms();

	if (find_life(b, trip, target, &r.segment))
		return false;
	trip->pieces[trip->n] = bytes;
	r.pieces = &trip->pieces[trip->n];
	r.n_pieces = 1;
	r.user = (uint64_t)target;
	r.timeout_ms = now < t->end_ms ? (uint32_t)(t->end_ms - now) : 1;
	trip->requests[trip->n] = r;
	trip->tries[trip->n++] = t;
	return true;
}

static void add_task(struct mc_batch *b, struct trip *trip, struct mc_task *t)
{
	const struct te_request r = {
		.op = t->entry.opcode == OPCODE_READ ? TE_READ : TE_WRITE,
		.remote = t->entry.target_offset,
	};
	const struct iovec bytes = {t->entry.source, t->entry.length};
	bool stale;

	(void)stand(b, &t->try, &stale);
	t->try.leaves = stale &&
			add_try(b, trip, &t->try, t->entry.target_id, r, bytes);
}

/*
 * Tells whether some task before it has gone again, and all are completed or go
 * with it.
 */
static bool is_free_to_go(const struct mc_batch *b, const struct mc_notify *n)
{
	bool went = false, stale;

	for (size_t i = 0; i < n->tasks; i++) {
		const struct mc_task *t = &b->tasks[i];

		if (t->entry.target_id != n->target)
			continue;
		if (!t->try.leaves &&
		    stand(b, &t->try, &stale).status != STATUS_COMPLETED)
			return false;
		went |= t->try.leaves || t->try.went;
	}
	return went;
}

static void add_notify(struct mc_batch *b, struct trip *trip,
		       struct mc_notify *n)
{
	const struct te_request r = {.op = TE_NOTIFY};
	bool stale;

	(void)stand(b, &n->try, &stale);
	n->try.leaves = stale && is_free_to_go(b, n) &&
			add_try(b, trip, &n->try, n->target, r, n->bytes);
}

/* Gathers in the order of submission. False: none can be sent now. */
static bool gather_tries(struct mc_batch *b, struct trip *trip)
{
	size_t told = 0;

	for (size_t i = 0; i < b->n_tasks; i++) {
		add_task(b, trip, &b->tasks[i]);
		if (told < b->n_notifies && b->notifies[told].tasks == i + 1)
			add_notify(b, trip, &b->notifies[told++]);
	}
	return trip->n;
}

/*
 * Keeps only the result of a try that is over. A task whose peer is missing
 * waits to be tried again, as before.
 */
static void note_end(const struct mc_batch *b, struct mc_try *t)
{
	bool stale;

	if (t->again && !t->leaves) {
		struct transfer_status status = stand(b, t, &stale);

		if (!stale)
			t->ended = status;
	}
	t->again = 0;
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
	for (size_t i = 0; i < b->n_tasks; i++)
		note_end(b, &b->tasks[i].try);
	for (size_t i = 0; i < b->n_notifies; i++)
		note_end(b, &b->notifies[i].try);
	te_batch_destroy(b->again);
	b->again = te;
	for (size_t i = 0; i < trip->n; i++) {
		trip->tries[i]->again = (uint32_t)i + 1;
		trip->tries[i]->went = true;
	}
}

/* On a failure the next caller tries again. */
static void go_again(struct mc_batch *b)
{
	size_t most = b->n_tasks + b->n_notifies;
	struct trip trip = {.n = 0};

	if (b->again && te_batch_wait(b->again, 0) == -ETIMEDOUT)
		return;
	trip.tries = malloc(most * sizeof(*trip.tries));
	trip.requests = malloc(most * sizeof(*trip.requests));
	trip.pieces = malloc(most * sizeof(*trip.pieces));
	if (trip.tries && trip.requests && trip.pieces &&
	    gather_tries(b, &trip))
		send(b, &trip);
	free(trip.pieces);
	free(trip.requests);
	free(trip.tries);
}

/*
 * Tells whether it may still go: not when one before it has failed, for then
 * nobody is told.
 */
static bool may_still_go(const struct mc_batch *b, const struct mc_notify *n)
{
	bool stale;

	for (size_t i = 0; i < n->tasks; i++) {
		const struct mc_task *t = &b->tasks[i];

		if (t->entry.target_id == n->target &&
		    stand(b, &t->try, &stale).status == STATUS_FAILED)
			return false;
	}
	return true;
}

/*
 * Has task @task, which went again, a notification behind it that is under way,
 * or (@stale) is to go again?
 */
static bool is_followed(const struct mc_batch *b, size_t task, bool *stale)
{
	for (size_t i = b->n_notifies; i > 0; i--) {
		const struct mc_notify *n = &b->notifies[i - 1];

		if (n->tasks <= task)
			break;
		if (n->target == b->tasks[task].entry.target_id &&
		    stand(b, &n->try, stale).status == STATUS_WAITING &&
		    (!*stale || may_still_go(b, n)))
			return true;
	}
	*stale = false;
	return false;
}

struct transfer_status mc_task_status(struct mc_batch *batch, size_t task)
{
	const struct mc_try *t = &batch->tasks[task].try;
	bool stale;
	struct transfer_status status = stand(batch, t, &stale);

	if (status.status == STATUS_COMPLETED && t->went &&
	    is_followed(batch, task, &stale))
		status = (struct transfer_status){.status = STATUS_WAITING};
	if (stale)
		go_again(batch);
	return status;
}
