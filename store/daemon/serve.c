/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.c - one call of a dummy: decoded, checked, done with our own client
 *
 * A worker's thread runs it. The dummy may change its memory while we read it:
 * then a value is what was there when it was read, as with any caller; nothing
 * that we decide by lies in there.
 */
#include <string.h>

#include "store/daemon/agent_private.h"

struct batch {
	Agent__Batch *msg;
	struct te_store_key *keys;     /* keys[n] */
	struct te_store_value *values; /* values[n]; of put and get */
	struct iovec *pieces;          /* of all values or ranges */
	uint64_t bytes;                /* of all values */
	size_t n;
};

/* ---- the request, checked ---- */

static int take_keys(struct tes_agent_job *job, struct batch *b)
{
	const Agent__Batch *msg = b->msg;
	size_t at = 0, i;

	b->n = msg->n_key_lens;
	if (b->n > TES_AGENT_KEYS_MAX ||
	    msg->keys.len > TES_AGENT_KEY_BYTES_MAX)
		return TE_STORE_INVALID_PARAMS;
	b->keys = tei_arena_calloc(&job->arena, b->n + 1, sizeof(b->keys[0]));
	if (!b->keys)
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < b->n; i++) {
		if (msg->key_lens[i] > msg->keys.len - at)
			return TE_STORE_INVALID_PARAMS;
		b->keys[i].bytes = msg->keys.data + at;
		b->keys[i].len = msg->key_lens[i];
		at += msg->key_lens[i];
	}
	return at == msg->keys.len ? 0 : TE_STORE_INVALID_PARAMS;
}

static bool pieces_hold(const Agent__Batch *msg, size_t n)
{
	uint64_t sum = 0;
	size_t i;

	if (!msg->n_n_pieces)
		return msg->n_offset == n;
	if (msg->n_n_pieces != n)
		return false;
	for (i = 0; i < n; i++)
		sum += msg->n_pieces[i];
	return sum == msg->n_offset;
}

static bool ranges_hold(const Agent__Batch *msg)
{
	return msg->n_range_key == msg->n_offset &&
	       msg->n_range_offset == msg->n_offset;
}

static int take_pieces(struct tes_agent_job *job, struct batch *b)
{
	const struct tes_agent_memory *memory = &job->session->memory;
	const Agent__Batch *msg = b->msg;
	size_t i;

	if (msg->region != memory->id || msg->n_offset != msg->n_length ||
	    msg->n_offset > TES_AGENT_PIECES_MAX)
		return TE_STORE_INVALID_PARAMS;
	b->pieces = tei_arena_calloc(&job->arena, msg->n_offset + 1,
				     sizeof(b->pieces[0]));
	if (!b->pieces)
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < msg->n_offset; i++) {
		b->pieces[i].iov_base = tes_agent_memory_at(
			memory, msg->offset[i], msg->length[i]);
		b->pieces[i].iov_len = msg->length[i];
		if (!b->pieces[i].iov_base)
			return TE_STORE_INVALID_PARAMS;
		b->bytes += msg->length[i];
	}
	return 0;
}

static int take_values(struct tes_agent_job *job, struct batch *b)
{
	const Agent__Batch *msg = b->msg;
	size_t at = 0, i;

	if (!pieces_hold(msg, b->n))
		return TE_STORE_INVALID_PARAMS;
	b->values =
		tei_arena_calloc(&job->arena, b->n + 1, sizeof(b->values[0]));
	if (!b->values)
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < b->n; i++) {
		b->values[i].pieces = b->pieces + at;
		b->values[i].n_pieces = msg->n_n_pieces ? msg->n_pieces[i] : 1;
		at += b->values[i].n_pieces;
	}
	return 0;
}

static bool is_put(const struct tes_agent_job *job)
{
	return job->frame.type == AGENT__AGENT_TYPE__AGENT_PUT ||
	       job->frame.type == AGENT__AGENT_TYPE__AGENT_UPSERT;
}

static bool has_pieces(const struct tes_agent_job *job)
{
	return is_put(job) || job->frame.type == AGENT__AGENT_TYPE__AGENT_GET ||
	       job->frame.type == AGENT__AGENT_TYPE__AGENT_RANGES;
}

static int take_batch(struct tes_agent_job *job, struct batch *b)
{
	int code;

	if (!tes_strings_whole(&agent__batch__descriptor, job->body, job->len))
		return TE_STORE_INVALID_PARAMS;
	b->msg = agent__batch__unpack(&job->arena.pb, job->len, job->body);
	if (!b->msg)
		return TE_STORE_INVALID_PARAMS;
	code = take_keys(job, b);
	if (!code && has_pieces(job))
		code = take_pieces(job, b);
	if (code || !has_pieces(job))
		return code;
	if (job->frame.type == AGENT__AGENT_TYPE__AGENT_RANGES)
		return ranges_hold(b->msg) ? 0 : TE_STORE_INVALID_PARAMS;
	return take_values(job, b);
}

/* ---- doing it ---- */

static void count(struct tes_agent *agent, const struct tes_agent_job *job,
		  const struct batch *b, const int64_t *results, size_t n)
{
	struct tes_agent_stats *stats = &agent->stats;
	uint64_t failed = 0, got = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		failed += results[i] < 0;
		got += results[i] > 0 ? (uint64_t)results[i] : 0;
	}
	atomic_fetch_add_explicit(&stats->keys, b->n, memory_order_relaxed);
	atomic_fetch_add_explicit(&stats->failed_keys, failed,
				  memory_order_relaxed);
	if (job->frame.type == AGENT__AGENT_TYPE__AGENT_GET ||
	    job->frame.type == AGENT__AGENT_TYPE__AGENT_RANGES)
		atomic_fetch_add_explicit(&stats->got_bytes, got,
					  memory_order_relaxed);
	if (is_put(job))
		atomic_fetch_add_explicit(&stats->put_bytes, b->bytes,
					  memory_order_relaxed);
}

/* NULL: the defaults, or *code says that they cannot be had. */
static const struct te_store_replicate *
take_keeping(struct tes_agent_job *job, const struct batch *b, int *code)
{
	const Agent__Keeping *keeping = b->msg->keeping;
	struct te_store_replicate *how;

	if (!keeping)
		return NULL;
	how = tei_arena_calloc(&job->arena, 1, sizeof(*how));
	if (!how) {
		*code = TE_STORE_INTERNAL_ERROR;
		return NULL;
	}
	how->size = sizeof(*how);
	how->replica_num = keeping->replica_num;
	how->soft_pin_action = keeping->soft_pin_action;
	how->data_type = keeping->data_type;
	how->flags = keeping->flags;
	how->soft_pin_ttl_ms = keeping->soft_pin_ttl_ms;
	how->preferred_segments = (const char *const *)keeping->preferred;
	how->n_preferred_segments = keeping->n_preferred;
	how->group_ids = (const char *const *)keeping->groups;
	how->n_group_ids = keeping->n_groups;
	return how;
}

static int put(struct te_store *store, struct tes_agent_job *job,
	       const struct batch *b, int *ints)
{
	const struct te_store_replicate *how;
	int code = 0;

	how = take_keeping(job, b, &code);
	if (code)
		return code;
	if (job->frame.type == AGENT__AGENT_TYPE__AGENT_UPSERT)
		(void)te_store_upsert(store, b->keys, b->values, b->n, how,
				      ints);
	else
		(void)te_store_put(store, b->keys, b->values, b->n, how, ints);
	return 0;
}

/* Calls that give an int a key. */
static int call_ints(struct te_store *store, struct tes_agent_job *job,
		     const struct batch *b, int64_t *results)
{
	int *ints = tei_arena_calloc(&job->arena, b->n + 1, sizeof(*ints));
	int code = 0;
	size_t i;

	if (!ints)
		return TE_STORE_INTERNAL_ERROR;
	/* What a call leaves untouched it has refused. */
	for (i = 0; i < b->n; i++)
		ints[i] = TE_STORE_INVALID_PARAMS;
	if (is_put(job))
		code = put(store, job, b, ints);
	else if (job->frame.type == AGENT__AGENT_TYPE__AGENT_EXIST)
		(void)te_store_exist(store, b->keys, b->n, ints);
	else
		(void)te_store_remove(store, b->keys, b->n, b->msg->force,
				      ints);
	for (i = 0; i < b->n; i++)
		results[i] = ints[i];
	return code;
}

static int get_ranges(struct te_store *store, struct tes_agent_job *job,
		      const struct batch *b, int64_t *results)
{
	const Agent__Batch *msg = b->msg;
	struct te_store_range *ranges = tei_arena_calloc(
		&job->arena, msg->n_offset + 1, sizeof(*ranges));
	size_t i;

	if (!ranges)
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < msg->n_offset; i++) {
		ranges[i].key = msg->range_key[i];
		ranges[i].offset = msg->range_offset[i];
		ranges[i].addr = b->pieces[i].iov_base;
		ranges[i].length = b->pieces[i].iov_len;
	}
	(void)te_store_get_ranges(store, b->keys, b->n, ranges, msg->n_offset,
				  results);
	return 0;
}

static int run(struct tes_agent *agent, struct tes_agent_job *job,
	       struct batch *b, Agent__Results *out)
{
	bool ranges = job->frame.type == AGENT__AGENT_TYPE__AGENT_RANGES;
	size_t n = ranges ? b->msg->n_offset : b->n, i;
	int64_t *results =
		tei_arena_calloc(&job->arena, n + 1, sizeof(*results));
	int code = 0;

	if (!results)
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < n; i++)
		results[i] = TE_STORE_INVALID_PARAMS;
	if (job->frame.type == AGENT__AGENT_TYPE__AGENT_GET)
		(void)te_store_get(agent->store, b->keys, b->values, n,
				   results);
	else if (job->frame.type == AGENT__AGENT_TYPE__AGENT_SIZE)
		(void)te_store_size(agent->store, b->keys, n, results);
	else if (ranges)
		code = get_ranges(agent->store, job, b, results);
	else
		code = call_ints(agent->store, job, b, results);
	count(agent, job, b, results, n);
	out->n_result = n;
	out->result = results;
	return code;
}

static void serve_batch(struct tes_agent *agent, struct tes_agent_job *job)
{
	Agent__Results *out = tei_arena_alloc(&job->arena, sizeof(*out));
	struct batch b = {.n = 0};
	int code;

	if (!out)
		return;
	agent__results__init(out);
	code = take_batch(job, &b);
	if (!code && tes_agent_is_late(agent, job, b.msg->wait_ms))
		code = TE_STORE_RPC_TIMEOUT;
	if (job->frame.type == AGENT__AGENT_TYPE__AGENT_REPLICAS) {
		tes_agent_serve_replicas(agent, job, b.keys, b.n, code);
		return;
	}
	if (job->frame.type == AGENT__AGENT_TYPE__AGENT_BUFFERS) {
		tes_agent_serve_buffers(agent, job, b.msg, b.keys, b.n, code);
		return;
	}
	if (!code)
		code = run(agent, job, &b, out);
	out->code = code;
	job->answer = &out->base;
}

void tes_agent_serve(struct tes_agent *agent, struct tes_agent_job *job)
{
	atomic_fetch_add_explicit(&agent->stats.calls[job->frame.type], 1,
				  memory_order_relaxed);
	switch (job->frame.type) {
	case AGENT__AGENT_TYPE__AGENT_STATUS:
	case AGENT__AGENT_TYPE__AGENT_POOL:
		tes_agent_serve_status(agent, job);
		break;
	case AGENT__AGENT_TYPE__AGENT_REMOVE_ALL:
		tes_agent_serve_remove_all(agent, job);
		break;
	default:
		serve_batch(agent, job);
		break;
	}
}
