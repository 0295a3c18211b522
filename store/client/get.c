/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get.c - fetch values: look up, read header and data, verify
 *
 * Leases and timeouts are hints; what was read is the object's when its header
 * carries the generation that the look-up named and the CRC holds. Whatever
 * does not verify, or cannot be read because its owner is new or gone, is
 * looked up once more and then a miss.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/client/client.h"
#include "store/proto/keys.h"
#include "store/proto/store.pb-c.h"

#define TRIES 2 /* look-ups of one key */

struct entry {
	uint32_t item; /* of the chunk */
	uint32_t request;
	bool sent;
};

struct get {
	struct te_store *store;
	struct tei_work *work;
	const struct te_store_key *keys;     /* keys[n] */
	const struct te_store_value *values; /* values[n] */
	int64_t *results;                    /* results[n] */
	size_t n;
	uint64_t deadline_ns;
	uint32_t *todo, *next; /* [n] */
	size_t n_todo, n_next;

	/* Of the round. */
	struct entry *entries; /* entries[n_todo] */
	Store__LookupReply *found;
	uint64_t digest_seed;
};

/* ---- look-up ---- */

static bool reply_holds(const Store__LookupReply *reply, size_t n)
{
	size_t i;

	if (reply->n_status != n)
		return false;
	for (i = 0; i < n; i++) {
		if (reply->status[i])
			continue;
		if (reply->n_size != n || reply->n_segment != n ||
		    reply->n_address != n || reply->n_generation != n ||
		    reply->n_gen_epoch != n || reply->n_crc != n ||
		    reply->segment[i] >= reply->n_segments)
			return false;
	}
	return true;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int look_up(struct get *get)
{
	struct tei_arena *arena = &get->work->round;
	Store__Lookup msg = STORE__LOOKUP__INIT;
	struct tei_key_column column;
	struct tei_reply reply;
	size_t n = get->n_todo, i;
	int code;

	get->entries = tei_arena_calloc(arena, n, sizeof(get->entries[0]));
	if (!get->entries ||
	    tei_key_column_init(&column, arena, n,
				tei_keys_bytes(get->keys, get->n)))
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < n; i++) {
		const struct te_store_key *key = &get->keys[get->todo[i]];

		get->entries[i].item = get->todo[i];
		tei_key_column_add(&column, key->bytes, key->len);
	}
	msg.keys = column.bytes;
	msg.key_lens = column.lens;
	msg.n_key_lens = column.n;
	code = tei_store_call(
		get->store, STORE__STORE_TYPE__STORE_LOOKUP, &msg.base, arena,
		earlier(get->deadline_ns, tei_call_deadline(get->store)),
		&reply);
	if (code)
		return code;
	get->digest_seed = reply.digest_seed;
	get->found =
		store__lookup_reply__unpack(&arena->pb, reply.len, reply.body);
	if (!get->found || !reply_holds(get->found, n))
		return tei_bad_reply("look-up");
	return 0;
}

/* ---- reading ---- */

static uint32_t ms_left(const struct get *get)
{
	uint64_t now = tei_now_ns(), ms;

	if (now >= get->deadline_ns)
		return 1;
	ms = (get->deadline_ns - now) / TEI_NS_PER_MS + 1;
	return (uint32_t)earlier(ms, get->store->replica_timeout_ms);
}

/* Not this object, or not there any more: ask again, at last it is a miss. */
static void miss(struct get *get, uint32_t item)
{
	get->results[item] = TE_STORE_OBJECT_NOT_FOUND;
	get->next[get->n_next++] = item;
}

static void failed(struct get *get, uint32_t item, int error)
{
	switch (error) {
	case -ETIMEDOUT:
	case -ECANCELED:
	case -EIO:
		get->results[item] = TE_STORE_TRANSFER_FAIL;
		break;
	case -ENOMEM:
	case -EMFILE:
	case -EINVAL:
	case -ENOBUFS:
		get->results[item] = TE_STORE_INTERNAL_ERROR;
		break;
	default:
		miss(get, item);
	}
}

static void plan_entry(struct get *get, struct tei_places *places, size_t i)
{
	struct entry *entry = &get->entries[i];
	const struct te_store_value *value = &get->values[entry->item];
	uint64_t size = get->found->size[i];
	uint32_t s = get->found->segment[i];
	struct te_request *req;
	int rc;

	if (size > tei_value_bytes(value)) {
		get->results[entry->item] = TE_STORE_BUFFER_OVERFLOW;
		return;
	}
	rc = tei_places_open(places, s, get->found->segments[s]);
	if (rc) {
		failed(get, entry->item, rc);
		return;
	}
	entry->request = get->work->n;
	req = tei_work_add(get->work, TE_READ, value->pieces, value->n_pieces,
			   size);
	if (!req) {
		get->results[entry->item] = TE_STORE_INTERNAL_ERROR;
		return;
	}
	req->flags |= TE_FAIL_FAST;
	req->segment = places->at[s].owner->segment;
	req->remote = get->found->address[i];
	entry->sent = true;
}

static void plan(struct get *get, struct tei_places *places)
{
	uint32_t timeout_ms, i;

	for (i = 0; i < get->n_todo; i++) {
		int status = get->found->status[i];
		uint32_t item = get->entries[i].item;

		if (!status)
			plan_entry(get, places, i);
		else if (status == TE_STORE_REPLICA_IS_NOT_READY)
			get->results[item] = TE_STORE_OBJECT_NOT_FOUND;
		else
			get->results[item] = status;
	}
	timeout_ms = ms_left(get);
	for (i = 0; i < get->work->n; i++)
		get->work->requests[i].timeout_ms = timeout_ms;
}

static bool verified(const struct get *get, const struct entry *entry, size_t i,
		     const struct te_completion *done)
{
	const Store__LookupReply *found = get->found;
	const struct te_store_key *key = &get->keys[entry->item];
	struct tei_extent_header h;

	return done->crc == found->crc[i] &&
	       tei_extent_decode(get->work->headers[entry->request], &h) == 0 &&
	       h.gen_epoch == found->gen_epoch[i] &&
	       h.generation == found->generation[i] &&
	       h.object_size == found->size[i] && h.length == found->size[i] &&
	       h.offset == 0 && h.index == 0 && h.count == 1 &&
	       h.digest ==
		       tei_key_digest(key->bytes, key->len, get->digest_seed);
}

static void judge(struct get *get, const struct entry *entry, size_t i,
		  struct tei_place *place)
{
	struct te_completion done;

	tei_work_result(get->work, entry->request, &done);
	if (done.error == -ESTALE || done.error == -ENOENT)
		place->gone = true;
	if (done.error)
		failed(get, entry->item, done.error);
	else if (verified(get, entry, i, &done))
		get->results[entry->item] = (int64_t)get->found->size[i];
	else
		miss(get, entry->item);
}

static void transfer(struct get *get, struct tei_places *places)
{
	int rc = tei_work_run(get->work, NULL);
	size_t i;

	for (i = 0; i < get->n_todo; i++) {
		const struct entry *entry = &get->entries[i];

		if (!entry->sent)
			continue;
		if (rc)
			failed(get, entry->item, rc);
		else
			judge(get, entry, i,
			      &places->at[get->found->segment[i]]);
	}
}

/* ---- releasing ---- */

/* The leases of this round's look-up yield to eviction again. */
static void release(struct get *get)
{
	const Store__LookupReply *found = get->found;
	struct tei_release *r;
	size_t bytes = 0, n = 0, i;

	for (i = 0; i < get->n_todo; i++) {
		if (found->status[i])
			continue;
		bytes += get->keys[get->entries[i].item].len;
		n++;
	}
	r = n ? tei_release_create(get->store, n, bytes) : NULL;
	if (!r)
		return; /* leases end by themselves */
	for (i = 0; i < get->n_todo; i++)
		if (!found->status[i])
			tei_release_add(r, &get->keys[get->entries[i].item],
					found->generation[i]);
	tei_release_send(r);
}

/* ---- rounds ---- */

static void run_round(struct get *get)
{
	struct tei_places places;
	int code = look_up(get);
	size_t i;

	if (!code && tei_places_init(&places, &get->store->owners, get->work,
				     get->found->n_segments, ms_left(get),
				     get->deadline_ns))
		code = TE_STORE_INTERNAL_ERROR;
	if (code) {
		for (i = 0; i < get->n_todo; i++)
			get->results[get->todo[i]] = code;
		return;
	}
	plan(get, &places);
	transfer(get, &places);
	tei_places_fini(&places);
	release(get);
}

static void get_items(struct get *get)
{
	uint32_t *old;
	int tries;

	for (tries = 0; tries < TRIES && get->n_todo; tries++) {
		if (tries && tei_now_ns() >= get->deadline_ns)
			return;
		get->n_next = 0;
		run_round(get);
		tei_work_next_round(get->work);
		old = get->todo;
		get->todo = get->next;
		get->next = old;
		get->n_todo = get->n_next;
	}
}

static int prepare(struct get *get)
{
	struct tei_arena *arena = &get->work->call;
	size_t i;

	get->todo = tei_arena_alloc(arena, get->n * sizeof(get->todo[0]));
	get->next = tei_arena_alloc(arena, get->n * sizeof(get->next[0]));
	if (!get->todo || !get->next)
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < get->n; i++) {
		get->results[i] = TE_STORE_INVALID_PARAMS;
		if (tei_key_holds(&get->keys[i]) &&
		    tei_value_bytes(&get->values[i]))
			get->todo[get->n_todo++] = (uint32_t)i;
	}
	return 0;
}

static void get_chunk(struct te_store *store, const struct te_store_key *keys,
		      const struct te_store_value *values, size_t n,
		      int64_t *results)
{
	struct get get = {
		.store = store,
		.work = tei_work_get(&store->works, n),
		.keys = keys,
		.values = values,
		.results = results,
		.n = n,
		.deadline_ns = tei_call_deadline(store) +
			       store->replica_timeout_ms * TEI_NS_PER_MS,
	};
	size_t i;

	if (!get.work || prepare(&get)) {
		for (i = 0; i < n; i++)
			results[i] = TE_STORE_INTERNAL_ERROR;
	} else {
		get_items(&get);
	}
	tei_work_put(&store->works, get.work);
}

int te_store_get(struct te_store *store, const struct te_store_key *keys,
		 const struct te_store_value *values, size_t n,
		 int64_t *results)
{
	size_t from, len, i;
	int n_found = 0;

	if (!tei_keys_given(store, keys, n, results) || (n && !values))
		return TE_STORE_INVALID_PARAMS;
	for (from = 0; from < n; from += len) {
		len = tei_chunk(keys, from, n);
		get_chunk(store, keys + from, values + from, len,
			  results + from);
	}
	for (i = 0; i < n; i++)
		n_found += results[i] >= 0;
	return n_found;
}
