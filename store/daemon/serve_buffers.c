/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_buffers.c - values read into the daemon's own memory, for a dummy
 *
 * How much room a value needs is asked first; one that has grown meanwhile is
 * tried again. Pieces belong to the job until its answer is on its way.
 */
#include <string.h>

#include "store/daemon/agent_private.h"
#include "store/daemon/buffers.h"

#define TRIES 3

/* The keys that are still to be read, in columns of their own. */
struct reading {
	struct te_store *store;
	struct tes_agent_buffers *buffers;
	struct te_store_key *keys;
	struct te_store_value *values;
	struct iovec *pieces;
	struct tes_agent_buffer *cut; /* of keys[i] */
	int64_t *results;
	uint32_t *which; /* index into the call's keys */
	size_t n;
	Agent__BuffersReply *out;
};

static int make(struct reading *r, struct tes_agent_job *job, size_t n)
{
	struct tei_arena *a = &job->arena;
	Agent__BuffersReply *out = r->out;

	r->keys = tei_arena_calloc(a, n + 1, sizeof(*r->keys));
	r->values = tei_arena_calloc(a, n + 1, sizeof(*r->values));
	r->pieces = tei_arena_calloc(a, n + 1, sizeof(*r->pieces));
	r->cut = tei_arena_calloc(a, n + 1, sizeof(*r->cut));
	r->results = tei_arena_calloc(a, n + 1, sizeof(*r->results));
	r->which = tei_arena_calloc(a, n + 1, sizeof(*r->which));
	out->result = tei_arena_calloc(a, n + 1, sizeof(*out->result));
	out->offset = tei_arena_calloc(a, n + 1, sizeof(*out->offset));
	out->id = tei_arena_calloc(a, n + 1, sizeof(*out->id));
	return r->keys && r->values && r->pieces && r->cut && r->results &&
			       r->which && out->result && out->offset && out->id
		       ? 0
		       : TE_STORE_INTERNAL_ERROR;
}

/* A piece for each key whose size is known; others leave the reading. */
static void cut_pieces(struct reading *r)
{
	size_t n = r->n, i;

	r->n = 0;
	for (i = 0; i < n; i++) {
		int64_t size = r->results[i];
		size_t to = r->n;

		r->out->result[r->which[i]] = size;
		if (size < 0)
			continue;
		r->out->result[r->which[i]] = TE_STORE_BUFFER_OVERFLOW;
		if (!tes_agent_buffer_cut(r->buffers, (uint64_t)size,
					  &r->cut[to]))
			continue;
		r->pieces[to].iov_base = r->cut[to].data;
		r->pieces[to].iov_len = (size_t)size;
		r->values[to].pieces = &r->pieces[to];
		r->values[to].n_pieces = 1;
		r->keys[to] = r->keys[i];
		r->which[to] = r->which[i];
		r->n++;
	}
}

/* What has been read leaves the reading; what has grown stays. */
static void take_results(struct reading *r)
{
	Agent__BuffersReply *out = r->out;
	size_t n = r->n, i;

	r->n = 0;
	for (i = 0; i < n; i++) {
		uint32_t k = r->which[i];

		out->result[k] = r->results[i];
		if (r->results[i] > 0) {
			out->id[k] = r->cut[i].id;
			out->offset[k] = r->cut[i].offset;
			continue;
		}
		tes_agent_buffers_give_back(r->buffers, &r->cut[i].id, 1);
		if (r->results[i] != TE_STORE_INVALID_PARAMS)
			continue;
		out->result[k] = TE_STORE_BUFFER_OVERFLOW;
		r->keys[r->n] = r->keys[i];
		r->which[r->n++] = k;
	}
}

static int read_all(struct reading *r, const struct te_store_key *keys,
		    size_t n)
{
	for (size_t i = 0; i < n; i++) {
		r->keys[i] = keys[i];
		r->which[i] = (uint32_t)i;
		r->out->result[i] = TE_STORE_INVALID_PARAMS;
	}
	r->n = n;
	for (int i = 0; i < TRIES && r->n; i++) {
		for (size_t k = 0; k < r->n; k++)
			r->results[k] = TE_STORE_INVALID_PARAMS;
		(void)te_store_size(r->store, r->keys, r->n, r->results);
		cut_pieces(r);
		for (size_t k = 0; k < r->n; k++)
			r->results[k] = TE_STORE_INVALID_PARAMS;
		if (r->n)
			(void)te_store_get(r->store, r->keys, r->values, r->n,
					   r->results);
		take_results(r);
	}
	return 0;
}

static void count(struct tes_agent *agent, const Agent__BuffersReply *out,
		  size_t n)
{
	uint64_t got = 0, failed = 0;

	for (size_t i = 0; i < n; i++) {
		got += out->result[i] > 0 ? (uint64_t)out->result[i] : 0;
		failed += out->result[i] < 0;
	}
	atomic_fetch_add_explicit(&agent->stats.keys, n, memory_order_relaxed);
	atomic_fetch_add_explicit(&agent->stats.failed_keys, failed,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&agent->stats.got_bytes, got,
				  memory_order_relaxed);
}

void tes_agent_serve_buffers(struct tes_agent *agent, struct tes_agent_job *job,
			     const Agent__Batch *msg,
			     const struct te_store_key *keys, size_t n,
			     int code)
{
	struct reading r = {
		.store = agent->store,
		.buffers = job->buffers,
		.out = tei_arena_alloc(&job->arena, sizeof(*r.out)),
	};

	if (!r.out)
		return;
	agent__buffers_reply__init(r.out);
	if (!code && !r.buffers)
		code = TE_STORE_INVALID_PARAMS;
	if (r.buffers && msg)
		tes_agent_buffers_give_back(r.buffers, msg->freed,
					    msg->n_freed);
	if (!code)
		code = make(&r, job, n);
	if (!code)
		code = read_all(&r, keys, n);
	if (!code) {
		count(agent, r.out, n);
		r.out->n_result = r.out->n_offset = r.out->n_id = n;
		job->cut = r.out->id;
		job->n_cut = n;
	}
	r.out->code = code;
	job->answer = &r.out->base;
}
