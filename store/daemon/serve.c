/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.c - one call of a dummy: decoded, checked, done with our own client
 *
 * A worker's thread runs it. The dummy may change its memory while we read it:
 * then a value is what was there when it was read, as with any caller; nothing
 * that we decide by lies in there.
 */
#include <string.h>

#include "base/clock.h"
#include "store/daemon/agent_private.h"
#include "store/daemon/buffers.h"

/* ---- calls that read and write no values ---- */

#define WAIT_MS 1000 /* unless the dummy says otherwise */

/*
 * True and counted: the job waited longer than @wait_ms (0: 1000) for its turn.
 */
static bool agent_is_late(struct tes_agent *agent,
			  const struct tes_agent_job *job, uint32_t wait_ms)
{
	uint64_t ms = wait_ms ? wait_ms : WAIT_MS;

	if (tei_now_ns() - job->since_ns <= ms * TEI_NS_PER_MS)
		return false;
	atomic_fetch_add_explicit(&agent->stats.late, 1, memory_order_relaxed);
	return true;
}

static void fill_pool(Agent__StatusReply *out, struct te_store *store)
{
	struct te_store_pool pool = {0};

	out->pool_code = te_store_pool(store, &pool);
	if (out->pool_code)
		return;
	out->capacity_bytes = pool.capacity_bytes;
	out->used_bytes = pool.used_bytes;
	out->objects = pool.objects;
	out->owners = pool.owners;
	out->clients = pool.clients;
	out->evicted_objects = pool.evicted_objects;
	out->evicted_bytes = pool.evicted_bytes;
	out->master_metadata_bytes = pool.master_metadata_bytes;
	out->master_key_bytes = pool.master_key_bytes;
}

/* Serves calls that are no batches. */
static void agent_serve_status(struct tes_agent *agent,
			       struct tes_agent_job *job)
{
	Agent__StatusReply *out = tei_arena_alloc(&job->arena, sizeof(*out));
	const char *name = te_store_hostname(agent->store);
	char *hostname = tei_arena_alloc(&job->arena, strlen(name) + 1);

	if (!out || !hostname)
		return;
	agent__status_reply__init(out);
	memcpy(hostname, name, strlen(name) + 1);
	out->hostname = hostname;
	out->health = te_store_health(agent->store);
	if (job->frame.type == AGENT__AGENT_TYPE__AGENT_POOL)
		fill_pool(out, agent->store);
	job->answer = &out->base;
}

/* ---- removing all ---- */

static int remove_all(struct tes_agent *agent, struct tes_agent_job *job,
		      Agent__RemoveAllReply *out)
{
	Agent__RemoveAll *msg =
		agent__remove_all__unpack(&job->arena.pb, job->len, job->body);
	uint32_t wait_ms;

	if (!msg || !tes_strings_whole(&agent__remove_all__descriptor,
				       job->body, job->len, SIZE_MAX))
		return TE_STORE_INVALID_PARAMS;
	/* Another walk may have run before this one. */
	wait_ms = msg->wait_ms ? msg->wait_ms : WAIT_MS;
	if (wait_ms <= UINT32_MAX - TES_AGENT_WALK_MS)
		wait_ms += TES_AGENT_WALK_MS;
	if (agent_is_late(agent, job, wait_ms))
		return TE_STORE_RPC_TIMEOUT;
	if (*msg->pattern)
		return te_store_remove_matching(agent->store, msg->pattern,
						msg->force, &out->removed);
	return te_store_remove_all(agent->store, msg->force, &out->removed);
}

static void agent_serve_remove_all(struct tes_agent *agent,
				   struct tes_agent_job *job)
{
	Agent__RemoveAllReply *out = tei_arena_alloc(&job->arena, sizeof(*out));

	if (!out)
		return;
	agent__remove_all_reply__init(out);
	out->code = remove_all(agent, job, out);
	job->answer = &out->base;
}

/* ---- replicas ---- */

static int make_columns(struct tei_arena *arena, Agent__ReplicasReply *out,
			struct te_store_replica *replicas, size_t n)
{
	out->status = tei_arena_alloc(arena, (n + 1) * sizeof(uint32_t));
	out->n_extents = tei_arena_alloc(arena, (n + 1) * sizeof(uint32_t));
	out->address = tei_arena_alloc(arena, (n + 1) * sizeof(uint64_t));
	out->size = tei_arena_alloc(arena, (n + 1) * sizeof(uint64_t));
	out->segment = tei_arena_alloc(arena, (n + 1) * sizeof(char *));
	if (!out->status || !out->n_extents || !out->address || !out->size ||
	    !out->segment)
		return TE_STORE_INTERNAL_ERROR;
	for (size_t i = 0; i < n; i++) {
		out->status[i] = replicas[i].status;
		out->n_extents[i] = replicas[i].n_extents;
		out->address[i] = replicas[i].address;
		out->size[i] = replicas[i].size;
		out->segment[i] = replicas[i].segment;
	}
	out->n_status = out->n_n_extents = out->n_address = n;
	out->n_size = out->n_segment = n;
	return 0;
}

static int replicas(struct tes_agent *agent, struct tes_agent_job *job,
		    const struct te_store_key *keys, size_t n,
		    Agent__ReplicasReply *out)
{
	size_t room = n * TE_STORE_REPLICAS_MAX, n_out = room;
	struct te_store_replica *found;
	int *results;

	if (n > TES_AGENT_REPLICAS_KEYS_MAX)
		return TE_STORE_INVALID_PARAMS;
	found = tei_arena_alloc(&job->arena, (room + 1) * sizeof(*found));
	results = tei_arena_calloc(&job->arena, n + 1, sizeof(*results));
	if (!found || !results)
		return TE_STORE_INTERNAL_ERROR;
	if (te_store_replicas(agent->store, keys, n, results, found, &n_out) <
	    0)
		return TE_STORE_INVALID_PARAMS;
	if (n_out > room)
		return TE_STORE_INTERNAL_ERROR;
	out->result = results;
	out->n_result = n;
	return make_columns(&job->arena, out, found, n_out);
}

/* Replicas of keys[n]. */
static void agent_serve_replicas(struct tes_agent *agent,
				 struct tes_agent_job *job,
				 const struct te_store_key *keys, size_t n,
				 int code)
{
	Agent__ReplicasReply *out = tei_arena_alloc(&job->arena, sizeof(*out));

	if (!out)
		return;
	agent__replicas_reply__init(out);
	out->code = code ? code : replicas(agent, job, keys, n, out);
	if (out->code)
		out->n_result = 0;
	job->answer = &out->base;
}

/* ---- values read into the daemon's memory for a dummy ---- */

/*
 * How much room a value needs is asked first; one that has grown meanwhile is
 * tried again. Pieces belong to the job until its answer is on its way.
 */

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

static int alloc_reading(struct reading *r, struct tes_agent_job *job, size_t n)
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

/* Takes values that were read out of the list; those that have grown stay. */
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

static void count_buffers(struct tes_agent *agent,
			  const Agent__BuffersReply *out, size_t n)
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

/* Values into buffers; @msg NULL: it does not decode. */
static void agent_serve_buffers(struct tes_agent *agent,
				struct tes_agent_job *job,
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
		code = alloc_reading(&r, job, n);
	if (!code)
		code = read_all(&r, keys, n);
	if (!code) {
		count_buffers(agent, r.out, n);
		r.out->n_result = r.out->n_offset = r.out->n_id = n;
		job->cut = r.out->id;
		job->n_cut = n;
	}
	r.out->code = code;
	job->answer = &r.out->base;
}

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

	if (!tes_strings_whole(&agent__batch__descriptor, job->body, job->len,
			       SIZE_MAX))
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

static void count_batch(struct tes_agent *agent,
			const struct tes_agent_job *job, const struct batch *b,
			const int64_t *results, size_t n)
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

static int put_values(struct te_store *store, struct tes_agent_job *job,
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
	/* A call that leaves a result untouched has refused the arguments. */
	for (i = 0; i < b->n; i++)
		ints[i] = TE_STORE_INVALID_PARAMS;
	if (is_put(job))
		code = put_values(store, job, b, ints);
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

static int run_verb(struct tes_agent *agent, struct tes_agent_job *job,
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
	count_batch(agent, job, b, results, n);
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
	if (!code && agent_is_late(agent, job, b.msg->wait_ms))
		code = TE_STORE_RPC_TIMEOUT;
	if (job->frame.type == AGENT__AGENT_TYPE__AGENT_REPLICAS) {
		agent_serve_replicas(agent, job, b.keys, b.n, code);
		return;
	}
	if (job->frame.type == AGENT__AGENT_TYPE__AGENT_BUFFERS) {
		agent_serve_buffers(agent, job, b.msg, b.keys, b.n, code);
		return;
	}
	if (!code)
		code = run_verb(agent, job, &b, out);
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
		agent_serve_status(agent, job);
		break;
	case AGENT__AGENT_TYPE__AGENT_REMOVE_ALL:
		agent_serve_remove_all(agent, job);
		break;
	default:
		serve_batch(agent, job);
		break;
	}
}
