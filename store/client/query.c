/* SPDX-License-Identifier: Apache-2.0 */
/* query.c - what only asks the master: exist, size, remove, pool */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "store/client/client.h"
#include "store/client/get.h"
#include "store/proto/extent.h"
#include "store/proto/keys.h"
#include "store/proto/store.pb-c.h"

/* exist, size and remove differ in the type, the flag and where results go. */
struct query {
	struct te_store *store;
	uint16_t type;
	bool force;
	bool sized;     /* sizes are asked for, else codes */
	int *codes;     /* codes[n] */
	int64_t *sizes; /* sizes[n] */
};

static void set_result(const struct query *q, size_t i, int code, uint64_t size)
{
	if (q->sized)
		q->sizes[i] = code ? code : (int64_t)size;
	else
		q->codes[i] = code;
}

static int result(const struct query *q, size_t i)
{
	if (q->sized)
		return q->sizes[i] < 0 ? (int)q->sizes[i] : 0;
	return q->codes[i] < 0 ? q->codes[i] : 0;
}

static int ask_master(const struct query *q, struct tei_arena *arena,
		      const Store__Keys *msg, const uint32_t *which)
{
	Store__KeysReply *answer;
	struct tes_reply reply;
	size_t n = msg->n_key_lens, i;
	int code;

	code = tes_store_call(q->store, q->type, &msg->base, arena,
			      tes_call_deadline(q->store), &reply);
	if (code)
		return code;
	answer = store__keys_reply__unpack(&arena->pb, reply.len, reply.body);
	if (!answer || answer->n_status != n ||
	    (q->sized && answer->n_size != n))
		return tes_bad_reply("a question about keys");
	for (i = 0; i < n; i++)
		set_result(q, which[i], answer->status[i],
			   q->sized ? answer->size[i] : 0);
	return 0;
}

static int query_chunk(const struct query *q, struct tei_arena *arena,
		       const struct te_store_key *keys, size_t from, size_t n)
{
	Store__Keys msg = STORE__KEYS__INIT;
	uint32_t *which = tei_arena_alloc(arena, n * sizeof(*which));
	struct tes_key_column column;
	size_t i;

	if (!which || tes_key_column_init(&column, arena, n,
					  tes_keys_bytes(keys + from, n)))
		return TE_STORE_INTERNAL_ERROR;
	msg.force = q->force;
	for (i = from; i < from + n; i++) {
		set_result(q, i, TE_STORE_INVALID_PARAMS, 0);
		if (!tes_key_holds(&keys[i]))
			continue;
		which[column.n] = (uint32_t)i;
		tes_key_column_add(&column, keys[i].bytes, keys[i].len);
	}
	msg.keys = column.bytes;
	msg.key_lens = column.lens;
	msg.n_key_lens = column.n;
	return column.n ? ask_master(q, arena, &msg, which) : 0;
}

static void fail_chunk(const struct query *q, const struct te_store_key *keys,
		       size_t from, size_t n, int code)
{
	size_t i;

	for (i = from; i < from + n; i++)
		set_result(q, i,
			   tes_key_holds(&keys[i]) ? code
						   : TE_STORE_INVALID_PARAMS,
			   0);
}

static int query(const struct query *q, const struct te_store_key *keys,
		 size_t n)
{
	struct tei_arena arena;
	size_t from, len, i;
	int code;

	tei_arena_init(&arena, 64u << 20);
	for (from = 0; from < n; from += len) {
		len = tes_chunk(keys, from, n);
		code = query_chunk(q, &arena, keys, from, len);
		if (code)
			fail_chunk(q, keys, from, len, code);
		tei_arena_reset(&arena);
	}
	tei_arena_fini(&arena);
	for (i = 0; i < n; i++)
		if (result(q, i))
			return result(q, i);
	return 0;
}

int tes_direct_exist(struct te_store *store, const struct te_store_key *keys,
		     size_t n, int *results)
{
	const struct query q = {
		.store = store,
		.type = STORE__STORE_TYPE__STORE_EXIST,
		.codes = results,
	};

	if (!tes_keys_given(store, keys, n, results))
		return TE_STORE_INVALID_PARAMS;
	return query(&q, keys, n);
}

int tes_direct_size(struct te_store *store, const struct te_store_key *keys,
		    size_t n, int64_t *results)
{
	const struct query q = {
		.store = store,
		.type = STORE__STORE_TYPE__STORE_SIZE,
		.sized = true,
		.sizes = results,
	};

	if (!tes_keys_given(store, keys, n, results))
		return TE_STORE_INVALID_PARAMS;
	return query(&q, keys, n);
}

void tes_forget_keys(struct te_store *store, const struct te_store_key *keys,
		     size_t n)
{
	uint64_t seed =
		atomic_load_explicit(&store->digest_seed, memory_order_relaxed);
	uint64_t digest;
	size_t i;

	if (!tes_locations_on(&store->locations) && !tes_hot_on(&store->hot))
		return;
	for (i = 0; i < n; i++) {
		if (!tes_key_holds(&keys[i]))
			continue;
		digest = tes_key_digest(keys[i].bytes, keys[i].len, seed);
		tes_locations_drop(&store->locations, keys[i].bytes,
				   keys[i].len, digest, 0);
		tes_hot_drop(&store->hot, keys[i].bytes, keys[i].len, digest);
	}
}

int tes_direct_remove(struct te_store *store, const struct te_store_key *keys,
		      size_t n, int force, int *results)
{
	const struct query q = {
		.store = store,
		.type = STORE__STORE_TYPE__STORE_REMOVE,
		.force = force != 0,
		.codes = results,
	};
	int code;

	if (!tes_keys_given(store, keys, n, results))
		return TE_STORE_INVALID_PARAMS;
	code = query(&q, keys, n);
	tes_forget_keys(store, keys, n);
	return code;
}

static void copy_pool(struct te_store_pool *out, const Store__PoolReply *reply)
{
	memset(out, 0, sizeof(*out));
	out->capacity_bytes = reply->capacity_bytes;
	out->used_bytes = reply->used_bytes;
	out->objects = reply->objects;
	out->owners = reply->owners;
	out->clients = reply->clients;
	out->evicted_objects = reply->evicted_objects;
	out->evicted_bytes = reply->evicted_bytes;
	out->master_metadata_bytes = reply->metadata_bytes;
	out->master_key_bytes = reply->key_bytes;
}

int tes_direct_pool(struct te_store *store, struct te_store_pool *out)
{
	Store__Pool msg = STORE__POOL__INIT;
	Store__PoolReply *answer;
	struct tes_reply reply;
	struct tei_arena arena;
	int code;

	if (!store || !out)
		return TE_STORE_INVALID_PARAMS;
	tei_arena_init(&arena, 64u << 10);
	code = tes_store_call(store, STORE__STORE_TYPE__STORE_POOL, &msg.base,
			      &arena, tes_call_deadline(store), &reply);
	if (code)
		goto out;
	answer = store__pool_reply__unpack(&arena.pb, reply.len, reply.body);
	if (!answer) {
		code = tes_bad_reply("a question about the pool");
		goto out;
	}
	code = answer->status;
	if (!code)
		copy_pool(out, answer);
out:
	tei_arena_fini(&arena);
	return code;
}

/* ---- removal of all objects, by pattern, and by segment ---- */

#define WALK_NS     (60 * TEI_NS_PER_S) /* over all objects of a pool */
#define PATTERN_MAX 2048u

static int remove_walk(struct te_store *store, const char *pattern, bool force,
		       uint64_t *removed)
{
	Store__RemoveAll msg = STORE__REMOVE_ALL__INIT;
	Store__RemoveAllReply *answer;
	struct tei_arena arena;
	struct tes_reply reply;
	int code;

	msg.force = force;
	msg.pattern = (char *)(uintptr_t)pattern;
	tei_arena_init(&arena, 64u << 10);
	code = tes_store_call(store, STORE__STORE_TYPE__STORE_REMOVE_ALL,
			      &msg.base, &arena, tei_now_ns() + WALK_NS,
			      &reply);
	if (code)
		goto out;
	answer = store__remove_all_reply__unpack(&arena.pb, reply.len,
						 reply.body);
	code = answer ? answer->status : tes_bad_reply("remove all");
	if (answer && !code && removed)
		*removed = answer->removed;
out:
	tes_locations_clear(&store->locations);
	tes_hot_clear(&store->hot);
	tei_arena_fini(&arena);
	return code;
}

int tes_direct_remove_all(struct te_store *store, int force, uint64_t *removed)
{
	return remove_walk(store, "", force != 0, removed);
}

int tes_direct_remove_matching(struct te_store *store, const char *pattern,
			       int force, uint64_t *removed)
{
	if (!pattern || strlen(pattern) > PATTERN_MAX)
		return TE_STORE_INVALID_PARAMS;
	return remove_walk(store, pattern, force != 0, removed);
}

/* ---- replicas ---- */

static int clear(struct te_store *store, struct tei_arena *arena,
		 const struct te_store_key *keys, size_t n, const char *segment,
		 int *results)
{
	Store__ReplicaClear msg = STORE__REPLICA_CLEAR__INIT;
	uint32_t *which = tei_arena_alloc(arena, n * sizeof(*which));
	struct tes_key_column column;
	Store__KeysReply *answer;
	struct tes_reply reply;
	size_t i;
	int code;

	if (!which ||
	    tes_key_column_init(&column, arena, n, tes_keys_bytes(keys, n)))
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < n; i++) {
		if (!tes_key_holds(&keys[i]))
			continue;
		which[column.n] = (uint32_t)i;
		tes_key_column_add(&column, keys[i].bytes, keys[i].len);
	}
	if (!column.n)
		return 0;
	msg.keys = column.bytes;
	msg.key_lens = column.lens;
	msg.n_key_lens = column.n;
	msg.segment = (char *)(uintptr_t)segment;
	code = tes_store_call(store, STORE__STORE_TYPE__STORE_REPLICA_CLEAR,
			      &msg.base, arena, tes_call_deadline(store),
			      &reply);
	if (code)
		return code;
	answer = store__keys_reply__unpack(&arena->pb, reply.len, reply.body);
	if (!answer || answer->n_status != column.n)
		return tes_bad_reply("replica clear");
	for (i = 0; i < column.n; i++)
		results[which[i]] = answer->status[i];
	return 0;
}

int tes_direct_replica_clear(struct te_store *store,
			     const struct te_store_key *keys, size_t n,
			     const char *segment, int *results)
{
	struct tei_arena arena;
	size_t from, len, i;
	int code;

	if (!tes_keys_given(store, keys, n, results) ||
	    (segment && strlen(segment) > TE_NAME_LEN_MAX))
		return TE_STORE_INVALID_PARAMS;
	tei_arena_init(&arena, 64u << 20);
	for (from = 0; from < n; from += len) {
		len = tes_chunk(keys, from, n);
		for (i = from; i < from + len; i++)
			results[i] = TE_STORE_INVALID_PARAMS;
		code = clear(store, &arena, keys + from, len,
			     segment ? segment : "", results + from);
		for (i = from; i < from + len && code; i++)
			if (tes_key_holds(&keys[i]))
				results[i] = code;
		tei_arena_reset(&arena);
	}
	tei_arena_fini(&arena);
	tes_forget_keys(store, keys, n);
	return tes_first_code(results, n);
}

/* ---- descriptions of objects and their replicas ---- */

_Static_assert(sizeof(struct te_store_replica) == 304, "pinned");

struct output {
	struct te_store_replica *out; /* out[room] */
	size_t room, n;
};

static void add_extents(struct output *o, const struct tes_get_round *round,
			const struct tes_get_entry *entry,
			const struct tes_extent_at *first)
{
	struct te_store_replica *r;

	if (o->n++ >= o->room)
		return;
	r = &o->out[o->n - 1];
	memset(r, 0, sizeof(*r));
	r->status = TE_STORE_REPLICA_COMPLETE;
	r->n_extents = first->count;
	r->address = first->address + TES_EXTENT_HEADER_LEN;
	r->size = entry->size;
	(void)snprintf(r->segment, sizeof(r->segment), "%s",
		       round->places.at[first->place].name);
}

static void describe_key(const struct tes_get_round *round,
			 const struct tes_get_entry *entry, int *results,
			 struct output *o)
{
	const struct tes_layout *layout = &entry->layout;
	uint32_t k;

	results[entry->item] = (int)layout->n_replicas;
	for (k = 0; k < layout->n_extents; k += layout->extents[k].count)
		add_extents(o, round, entry, &layout->extents[k]);
}

static void describe_chunk(struct te_store *store,
			   const struct te_store_key *keys, size_t n,
			   int *results, struct output *o)
{
	struct tes_get_chunk chunk = {.store = store, .keys = keys, .n = n};
	struct tes_get_round round;
	size_t i;

	if (tes_look_up(&chunk, &round, results))
		return;
	for (i = 0; i < round.n; i++)
		if (round.entries[i].open)
			describe_key(&round, &round.entries[i], results, o);
	tes_look_up_end(&round);
}

int tes_direct_replicas(struct te_store *store, const struct te_store_key *keys,
			size_t n, int *results, struct te_store_replica *out,
			size_t *n_out)
{
	struct output o = {.out = out};
	size_t from, len, i;
	int n_found = 0;

	if (!tes_keys_given(store, keys, n, results) || !n_out ||
	    (*n_out && !out))
		return TE_STORE_INVALID_PARAMS;
	o.room = *n_out;
	for (from = 0; from < n; from += len) {
		len = tes_chunk(keys, from, n);
		describe_chunk(store, keys + from, len, results + from, &o);
	}
	*n_out = o.n;
	for (i = 0; i < n; i++)
		n_found += results[i] > 0;
	return n_found;
}

/* ---- copy and move tasks: start, query ---- */

_Static_assert(sizeof(struct te_store_task) == 168, "pinned");

static bool name_holds(const char *name)
{
	return name && *name &&
	       strnlen(name, TE_NAME_LEN_MAX + 1) <= TE_NAME_LEN_MAX;
}

static int create(struct te_store *store, Store__TaskCreate *msg,
		  const struct te_store_key *key, uint8_t *id)
{
	Store__TaskCreateReply *answer;
	struct tei_arena arena;
	struct tes_reply reply;
	int code;

	msg->key.data = (uint8_t *)(uintptr_t)key->bytes;
	msg->key.len = key->len;
	tei_arena_init(&arena, 64u << 10);
	code = tes_store_call(store, STORE__STORE_TYPE__STORE_TASK_CREATE,
			      &msg->base, &arena, tes_call_deadline(store),
			      &reply);
	if (code)
		goto out;
	answer = store__task_create_reply__unpack(&arena.pb, reply.len,
						  reply.body);
	if (!answer ||
	    (!answer->status && answer->id.len != TE_STORE_TASK_ID_LEN)) {
		code = tes_bad_reply("task create");
		goto out;
	}
	code = answer->status;
	if (!code)
		memcpy(id, answer->id.data, TE_STORE_TASK_ID_LEN);
out:
	tei_arena_fini(&arena);
	return code;
}

int tes_direct_copy(struct te_store *store, const struct te_store_key *key,
		    const char *const *targets, size_t n,
		    uint8_t id[TE_STORE_TASK_ID_LEN])
{
	Store__TaskCreate msg = STORE__TASK_CREATE__INIT;
	size_t i;

	if (!key || !tes_key_holds(key) || !targets || !id || !n ||
	    n > TE_STORE_REPLICAS_MAX)
		return TE_STORE_INVALID_PARAMS;
	for (i = 0; i < n; i++)
		if (!name_holds(targets[i]))
			return TE_STORE_INVALID_PARAMS;
	msg.type = STORE__TASK_TYPE__TASK_COPY;
	msg.targets = (char **)(uintptr_t)targets;
	msg.n_targets = n;
	return create(store, &msg, key, id);
}

int tes_direct_move(struct te_store *store, const struct te_store_key *key,
		    const char *source, const char *target,
		    uint8_t id[TE_STORE_TASK_ID_LEN])
{
	Store__TaskCreate msg = STORE__TASK_CREATE__INIT;
	char *targets[1] = {(char *)(uintptr_t)target};

	if (!key || !tes_key_holds(key) || !id || !name_holds(source) ||
	    !name_holds(target))
		return TE_STORE_INVALID_PARAMS;
	msg.type = STORE__TASK_TYPE__TASK_MOVE;
	msg.source = (char *)(uintptr_t)source;
	msg.targets = targets;
	msg.n_targets = 1;
	return create(store, &msg, key, id);
}

static void copy_task(struct te_store_task *out,
		      const Store__TaskQueryReply *answer)
{
	memset(out, 0, sizeof(*out));
	out->type = answer->type;
	out->status = answer->task_status;
	out->created_ms = answer->created_ms;
	out->updated_ms = answer->updated_ms;
	if (answer->assigned_client.len == sizeof(out->client))
		memcpy(out->client, answer->assigned_client.data,
		       sizeof(out->client));
	(void)snprintf(out->message, sizeof(out->message), "%s",
		       answer->message);
}

int tes_direct_task(struct te_store *store,
		    const uint8_t id[TE_STORE_TASK_ID_LEN],
		    struct te_store_task *out)
{
	Store__TaskQuery msg = STORE__TASK_QUERY__INIT;
	Store__TaskQueryReply *answer;
	struct tei_arena arena;
	struct tes_reply reply;
	int code;

	if (!id || !out)
		return TE_STORE_INVALID_PARAMS;
	msg.id.data = (uint8_t *)(uintptr_t)id;
	msg.id.len = TE_STORE_TASK_ID_LEN;
	tei_arena_init(&arena, 64u << 10);
	code = tes_store_call(store, STORE__STORE_TYPE__STORE_TASK_QUERY,
			      &msg.base, &arena, tes_call_deadline(store),
			      &reply);
	if (code)
		goto out;
	answer = store__task_query_reply__unpack(&arena.pb, reply.len,
						 reply.body);
	code = answer ? answer->status : tes_bad_reply("task query");
	if (answer && !code)
		copy_task(out, answer);
out:
	tei_arena_fini(&arena);
	return code;
}

/* ---- reports to the master of owners that do not answer ---- */

#define ARENA_MAX 4096

void tes_report_silent(void *arg, const uint8_t incarnation[TE_INCARNATION_LEN])
{
	struct te_store *store = arg;
	Store__Report msg = STORE__REPORT__INIT;
	struct tei_arena arena;

	if (!memcmp(incarnation, store->incarnation, TE_INCARNATION_LEN))
		return;
	msg.incarnation.data = (uint8_t *)(uintptr_t)incarnation;
	msg.incarnation.len = TE_INCARNATION_LEN;
	tei_arena_init(&arena, ARENA_MAX);
	tes_channel_tell(&store->channel, STORE__STORE_TYPE__STORE_REPORT,
			 &msg.base, &arena);
	tei_arena_fini(&arena);
}
