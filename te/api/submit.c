/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c - requests on their way into a batch, and its worker */
#include <errno.h>

#include <te/te.h>

#include "base/clock.h"
#include "base/mem.h"
#include "te/api/api.h"
#include "te/api/stream.h"
#include "te/control/peer.h"
#include "te/core/engine.h"
#include "te/transfer/peer.h"
#include "te/transfer/request.h"
#include "te/worker/worker.h"

/*
 * ---- room for the piece lists of a batch's requests ----
 *
 * Chunks are kept at reset, so that a batch that is used again for the same
 * shape of work allocates nothing. The newest chunk is the first.
 */

#define CHUNK 1024u

struct chunk {
	struct tei_list link;
	size_t used, room;
	struct iovec pieces[];
};

static struct chunk *add_chunk(struct tei_list *chunks, size_t n)
{
	size_t room = n > CHUNK ? n : CHUNK;
	struct chunk *chunk;

	chunk = tei_malloc(sizeof(*chunk) + room * sizeof(chunk->pieces[0]));
	if (!chunk)
		return NULL;
	chunk->used = 0;
	chunk->room = room;
	tei_list_add_head(chunks, &chunk->link);
	return chunk;
}

/* @n entries that stay where they are until reset or free. NULL: no memory. */
static struct iovec *pieces_get(struct tei_list *chunks, size_t n)
{
	struct chunk *chunk = NULL;
	struct iovec *pieces;

	tei_list_for_each (node, chunks) {
		chunk = tei_list_entry(node, struct chunk, link);
		if (chunk->room - chunk->used >= n)
			break;
		chunk = NULL;
	}
	if (!chunk)
		chunk = add_chunk(chunks, n);
	if (!chunk)
		return NULL;
	pieces = &chunk->pieces[chunk->used];
	chunk->used += n;
	return pieces;
}

void tei_pieces_reset(struct tei_list *chunks)
{
	tei_list_for_each (node, chunks) {
		tei_list_entry(node, struct chunk, link)->used = 0;
	}
}

void tei_pieces_free(struct tei_list *chunks)
{
	struct tei_list *node;

	while ((node = tei_list_pop(chunks)))
		tei_free(tei_list_entry(node, struct chunk, link));
}

/* ---- the worker of a thread ---- */

/* Returns a number of this thread, from 0 on. */
static uint32_t thread_number(void)
{
	static _Atomic uint32_t n_threads;
	static _Thread_local uint32_t number; /* from 1 on; 0: none yet */

	if (!number)
		number = atomic_fetch_add_explicit(&n_threads, 1,
						   memory_order_relaxed) +
			 1;
	return number - 1;
}

struct tei_worker *tei_own_worker(const struct te_engine *engine)
{
	if (engine->n_workers == 1)
		return engine->worker;
	return &engine->worker[thread_number() % engine->n_workers];
}

/* ---- requests are checked and copied, all or none ---- */

/* Target of requests to one segment; looked up once for a run of one id. */
struct target {
	te_segment_id id;
	struct tei_peer *peer;
	struct tei_peer_work *part; /* has the last request; NULL: none yet */
	uint32_t life;
	uint64_t epoch;
};

static int sum_pieces(const struct te_request *req, uint64_t *length)
{
	uint64_t sum = 0;
	uint32_t i;

	if (!req->pieces || !req->n_pieces || req->n_pieces > TE_PIECES_MAX)
		return -EINVAL;
	for (i = 0; i < req->n_pieces; i++) {
		uint64_t base = (uintptr_t)req->pieces[i].iov_base;
		uint64_t len = req->pieces[i].iov_len;

		if (len > TE_LENGTH_MAX || (len && !base) || base + len < base)
			return -EINVAL;
		sum += len;
	}
	if (!sum || sum > TE_LENGTH_MAX)
		return -EINVAL;
	*length = sum;
	return 0;
}

static int check_request(const struct te_request *req, uint64_t *length)
{
	size_t i;

	if (req->op < TE_READ || req->op > TE_NOTIFY)
		return -EINVAL;
	if (req->flags & ~(uint32_t)(TE_FAIL_FAST | TE_CRC | TE_FAIL_SILENT))
		return -EINVAL;
	if (req->priority > TE_PRIORITY_BULK || req->reserved_0)
		return -EINVAL;
	for (i = 0; i < sizeof(req->reserved) / sizeof(req->reserved[0]); i++) {
		if (req->reserved[i])
			return -EINVAL;
	}
	if (sum_pieces(req, length))
		return -EINVAL;
	if (req->op == TE_NOTIFY &&
	    (req->remote || req->flags & (TE_CRC | TE_FAIL_SILENT) ||
	     *length > TE_NOTIFY_MAX))
		return -EINVAL;
	if ((req->flags & TE_CRC) &&
	    (req->crc_from > *length || req->crc_len > *length - req->crc_from))
		return -EINVAL;
	return 0;
}

static int look_up_target(struct te_engine *engine, te_segment_id id,
			  struct target *t) TEI_REQUIRES(engine->mu)
{
	struct tei_segment *segment = tei_handle_get(&engine->segments, id);

	if (!segment)
		return -ENOENT;
	t->id = id;
	t->peer = segment->peer;
	t->part = NULL;
	t->life = segment->life;
	t->epoch = segment->peer->announced.epoch;
	if (t->epoch == segment->peer->announced.epoch_over)
		t->epoch = 0; /* bound when the next one is known */
	return 0;
}

/* Empty pieces are left out, so that every later walk moves forward. */
static int copy_pieces(struct te_batch *batch, const struct te_request *req,
		       struct tei_request *r)
{
	struct iovec *to = &r->one;
	uint32_t i, n = 0;

	if (req->n_pieces > 1)
		to = pieces_get(&batch->chunks, req->n_pieces);
	if (!to)
		return -ENOMEM;
	for (i = 0; i < req->n_pieces; i++) {
		if (req->pieces[i].iov_len)
			to[n++] = req->pieces[i];
	}
	r->pieces = to;
	r->n_pieces = n;
	return 0;
}

static void copy(const struct te_request *req, uint64_t length,
		 const struct target *t, struct tei_request *r)
{
	*r = (struct tei_request){
		.op = req->op,
		.flags = req->flags,
		.priority = req->priority,
		.to = t->peer,
		.peer = t->part,
		.life = t->life,
		.epoch = req->epoch ? req->epoch : t->epoch,
		.remote = req->remote,
		.length = length,
		.crc_from = req->flags & TE_CRC ? req->crc_from : 0,
		.crc_len = req->flags & TE_CRC ? req->crc_len : 0,
		.user = req->user,
		.rail = ~0u,
	};
	tei_list_init(&r->queue);
	tei_list_init(&r->works);
}

/* @bytes: of the requests up to this one, which share its link. */
static void set_deadline(struct te_engine *engine, uint32_t timeout_ms,
			 uint64_t now, uint64_t bytes, struct tei_request *r)
{
	uint64_t ms = timeout_ms;

	if (!ms)
		ms = tei_config_transfer_ms(&engine->config, bytes);
	r->deadline = now + ms * TEI_NS_PER_MS;
}

/* A notification stays with its batch's worker, wherever the others go. */
static bool is_apart(const struct tei_request *r)
{
	return r->op == TE_NOTIFY && r->batch->engine->n_workers > 1;
}

/* ---- which worker has what ---- */

/*
 * A batch belongs to one worker, that of its thread if that serves the peer as
 * well as any, and its requests go by it. A submission that is worth it is
 * shared out to all workers that serve the peer as well, if there are
 * processors for them: else their threads and the caller's are in each other's
 * way.
 */

#define SHARE_MIN ((uint64_t)8 << 20) /* bytes of one worker, at least */

struct sharing {
	uint64_t workers; /* a bit each */
	uint64_t share;   /* bytes of each; 0: all is the home's */
};

/* Returns the @n-th of the set, 0: that of @from or the first after it. */
static uint32_t nth_worker(uint64_t workers, uint32_t from, uint32_t n)
{
	uint64_t above = workers & ~(((uint64_t)1 << from) - 1);
	uint64_t left = above ? above : workers;

	for (; n; n--) {
		left &= left - 1;
		left = left ? left : workers;
	}
	return (uint32_t)__builtin_ctzll(left);
}

/* Nothing of the batch is in flight: finds the worker that is best for it. */
static void choose_home(struct te_batch *batch, uint64_t workers)
{
	uint32_t index = tei_own_worker(batch->engine)->index;
	uint32_t n = (uint32_t)__builtin_popcountll(workers);

	if (!(workers >> index & 1))
		index = nth_worker(workers, 0, thread_number() % n);
	atomic_store_explicit(&batch->home, &batch->engine->worker[index],
			      memory_order_relaxed);
}

static uint64_t sum_all(const struct te_request *reqs, size_t n)
{
	uint64_t sum = 0, length;

	for (size_t i = 0; i < n; i++)
		if (!sum_pieces(&reqs[i], &length))
			sum += length;
	return sum;
}

static void plan_sharing(struct te_batch *batch, const struct te_request *reqs,
			 size_t n, uint32_t first, const struct tei_peer *peer,
			 struct sharing *out)
{
	uint64_t workers =
		atomic_load_explicit(&peer->favored, memory_order_relaxed);
	uint32_t n_shares = (uint32_t)__builtin_popcountll(workers);
	uint64_t bytes;

	*out = (struct sharing){.workers = workers};
	if (!workers)
		return;
	if (!first)
		choose_home(batch, workers);
	if (n_shares < 2 || n < 2 || !batch->engine->shares)
		return;
	bytes = sum_all(reqs, n);
	if (bytes / SHARE_MIN < n_shares)
		n_shares = (uint32_t)(bytes / SHARE_MIN);
	if (n_shares > 1)
		out->share = (bytes + n_shares - 1) / n_shares;
}

/* @before: bytes of the submission before the request. */
static struct tei_peer_work *part_for(const struct te_batch *batch,
				      const struct sharing *sharing,
				      struct tei_peer *peer, uint64_t before,
				      uint32_t op)
{
	uint32_t home = tei_batch_home(batch)->index;

	if (!sharing->share || op == TE_NOTIFY || peer->self)
		return &peer->works[home];
	return &peer->works[nth_worker(sharing->workers, home,
				       (uint32_t)(before / sharing->share))];
}

/* Joins the cohort of the request before it, or begins one. */
static void join_request(struct te_batch *batch, uint32_t first,
			 struct tei_request *r)
{
	struct tei_cohort *cohort = NULL;

	if (r->index > first)
		cohort = tei_cohort_of(&r[-1]);
	if (!cohort || cohort->first->peer != r->peer ||
	    cohort->first->life != r->life ||
	    cohort->first->epoch != r->epoch ||
	    cohort->first->deadline != r->deadline ||
	    (cohort->first->flags ^ r->flags) & TE_FAIL_SILENT ||
	    is_apart(cohort->first) || is_apart(r)) {
		cohort = &batch->cohorts[r->index];
		*cohort = (struct tei_cohort){.first = r,
					      .at = r->peer->worker->index};
		tei_list_init(&cohort->of_peer);
	}
	cohort->n++;
	cohort->n_live++;
	atomic_store_explicit(&r->cohort, cohort, memory_order_release);
}

/* A submission, as it is copied. */
struct submission {
	struct te_batch *batch;
	const struct te_request *reqs; /* reqs[n] */
	size_t n;
	uint32_t first;     /* place of reqs[0] */
	uint32_t n_copied;  /* of them */
	uint64_t bytes;     /* of those */
	uint64_t now;       /* ns */
	struct target last; /* of those */
	struct sharing sharing;
};

/* Copies the next one, of @length bytes, to its target. 0, -ENOMEM. */
static int copy_next(struct submission *s, uint64_t length)
{
	struct te_engine *engine = s->batch->engine;
	const struct te_request *req = &s->reqs[s->n_copied];
	struct tei_request *r = &s->batch->requests[s->first + s->n_copied];

	if (!s->n_copied && engine->n_workers > 1)
		plan_sharing(s->batch, s->reqs, s->n, s->first, s->last.peer,
			     &s->sharing);
	if (s->sharing.share || !s->last.part)
		s->last.part = part_for(s->batch, &s->sharing, s->last.peer,
					s->bytes, req->op);
	copy(req, length, &s->last, r);
	r->batch = s->batch;
	r->index = s->first + s->n_copied++;
	s->bytes += length;
	set_deadline(engine, req->timeout_ms, s->now, s->bytes, r);
	join_request(s->batch, s->first, r);
	return copy_pieces(s->batch, req, r);
}

/*
 * The engine's lock is not held while requests are copied: threads that submit
 * share it. Peers live as long as the engine.
 */
static int copy_all(struct submission *s)
{
	struct te_engine *engine = s->batch->engine;
	uint64_t length;
	int rc = 0;

	while (!rc && s->n_copied < s->n) {
		const struct te_request *req = &s->reqs[s->n_copied];

		rc = check_request(req, &length);
		if (!rc && !(s->last.peer && s->last.id == req->segment)) {
			tei_mutex_lock(&engine->mu);
			rc = look_up_target(engine, req->segment, &s->last);
			tei_mutex_unlock(&engine->mu);
		}
		if (!rc)
			rc = copy_next(s, length);
	}
	return rc;
}

int tei_batch_take(struct te_batch *batch, const struct te_request *reqs,
		   size_t n, uint32_t *first)
{
	struct tei_request *head;
	struct submission s;
	int rc;

	if (atomic_load_explicit(&batch->closing, memory_order_relaxed))
		return -ECANCELED;
	*first =
		atomic_load_explicit(&batch->n_submitted, memory_order_relaxed);
	if (n > batch->capacity - *first)
		return -ENOBUFS;
	/* Places beyond n_submitted are nobody's: on error they are left. */
	s = (struct submission){.batch = batch,
				.reqs = reqs,
				.n = n,
				.first = *first,
				.now = tei_now_ns()};
	rc = copy_all(&s);
	if (rc)
		return rc;
	head = &batch->requests[*first];
	head->n_following = (uint32_t)n - 1;
	head->call.fn = tei_request_submitted;
	return 0;
}

int te_batch_submit(struct te_batch *batch, const struct te_request *reqs,
		    size_t n)
{
	struct te_engine *engine = batch->engine;
	uint32_t first;
	int rc;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!reqs || !n)
		return -EINVAL;
	if (tei_is_gated(batch))
		return -EBUSY;
	rc = tei_batch_take(batch, reqs, n, &first);
	if (rc)
		return rc;
	atomic_store_explicit(&batch->n_submitted, first + (uint32_t)n,
			      memory_order_release);
	/*
	 * A thread that waited for the last submission will wait for this one.
	 */
	tei_worker_submit(tei_batch_home(batch), &batch->requests[first].call,
			  atomic_exchange_explicit(&batch->waited, false,
						   memory_order_relaxed));
	return 0;
}
