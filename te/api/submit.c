/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c - checking and copying requests, all or none */
#include <errno.h>
#include <string.h>

#include <te/te.h>

#include "base/clock.h"
#include "te/api/batch.h"
#include "te/api/engine.h"
#include "te/control/peer.h"
#include "te/control/segment.h"
#include "te/transfer/pieces.h"

/* Where requests to one segment go; asked once for a run of the same id. */
struct target {
	te_segment_id id;
	struct tei_peer *peer;
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

static int check(const struct te_request *req, uint64_t *length)
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

static int find_target(struct te_engine *engine, te_segment_id id,
		       struct target *t) TEI_REQUIRES(engine->mu)
{
	struct tei_segment *segment;

	if (t->peer && t->id == id)
		return 0;
	segment = tei_handle_get(&engine->segments, id);
	if (!segment)
		return -ENOENT;
	t->id = id;
	t->peer = segment->peer;
	t->life = segment->life;
	t->epoch = segment->peer->told.epoch;
	if (t->epoch == segment->peer->told.epoch_over)
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
		to = tei_pieces_get(&batch->chunks, req->n_pieces);
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
		.peer = t->peer,
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

static void set_deadline(struct te_engine *engine, uint32_t timeout_ms,
			 uint64_t now, struct tei_request *r)
{
	uint64_t ms = timeout_ms;

	if (!ms)
		ms = tei_config_transfer_ms(&engine->config, r->length);
	r->deadline = now + ms * TEI_NS_PER_MS;
}

/* Into the cohort of the request before it, or one of its own. */
static void join(struct te_batch *batch, uint32_t first, struct tei_request *r)
{
	struct tei_cohort *cohort = NULL;

	if (r->index > first)
		cohort = r[-1].cohort;
	if (!cohort || cohort->first->peer != r->peer ||
	    cohort->first->life != r->life ||
	    cohort->first->epoch != r->epoch ||
	    cohort->first->deadline != r->deadline ||
	    (cohort->first->flags ^ r->flags) & TE_FAIL_SILENT) {
		cohort = &batch->cohorts[r->index];
		*cohort = (struct tei_cohort){.first = r};
		tei_list_init(&cohort->of_peer);
	}
	cohort->n++;
	cohort->n_live++;
	r->cohort = cohort;
}

/* Places beyond n_submitted are nobody's yet: on error they are just left. */
static int copy_all(struct te_engine *engine, struct te_batch *batch,
		    const struct te_request *reqs, size_t n, uint32_t first)
	TEI_REQUIRES(engine->mu)
{
	struct target target = {0};
	uint64_t length, now = tei_now_ns();
	size_t i;
	int rc;

	for (i = 0; i < n; i++) {
		struct tei_request *r = &batch->requests[first + i];

		rc = check(&reqs[i], &length);
		if (!rc)
			rc = find_target(engine, reqs[i].segment, &target);
		if (rc)
			return rc;
		copy(&reqs[i], length, &target, r);
		r->batch = batch;
		r->index = first + (uint32_t)i;
		set_deadline(engine, reqs[i].timeout_ms, now, r);
		join(batch, first, r);
		rc = copy_pieces(batch, &reqs[i], r);
		if (rc)
			return rc;
	}
	return 0;
}

int te_batch_submit(struct te_batch *batch, const struct te_request *reqs,
		    size_t n)
{
	struct te_engine *engine = batch->engine;
	struct tei_request *head;
	uint32_t first;
	int rc;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!reqs || !n)
		return -EINVAL;
	if (atomic_load_explicit(&batch->closing, memory_order_relaxed))
		return -ECANCELED;
	first = atomic_load_explicit(&batch->n_submitted, memory_order_relaxed);
	if (n > batch->capacity - first)
		return -ENOBUFS;
	tei_mutex_lock(&engine->mu);
	rc = copy_all(engine, batch, reqs, n, first);
	tei_mutex_unlock(&engine->mu);
	if (rc)
		return rc;
	head = &batch->requests[first];
	head->n_following = (uint32_t)n - 1;
	head->call.fn = tei_request_submitted;
	atomic_store_explicit(&batch->n_submitted, first + (uint32_t)n,
			      memory_order_release);
	/* Who has waited for the last submission will wait for this one. */
	tei_worker_submit(&engine->worker, &head->call,
			  atomic_exchange_explicit(&batch->waited, false,
						   memory_order_relaxed));
	return 0;
}
