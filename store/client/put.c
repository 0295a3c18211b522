/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put.c - store values: start at the master, write to the owners, end
 *
 * A round does that for the keys that are still to do; keys come again when
 * the pool was full and space may come, or when the owner's access epoch was
 * not certain.
 *
 * Access epochs. Before space of a writer that stalled is used again, its
 * owner ends the writer's epoch. That only works when what we write carries an
 * epoch that was current before the space was given to us: an epoch that was
 * learned later may be the one after the fence that was meant for us (we were
 * stopped between start and write). So the time is taken before start is sent,
 * and an epoch learned after it does not count, unless it is the owner's first:
 * then there has been no fence at all.
 *
 * What has failed is revoked only when nothing of it can arrive any more.
 * Else the master keeps the space until it has fenced us.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/client/client.h"
#include "store/proto/keys.h"
#include "store/proto/store.pb-c.h"

#define TRIES         3                      /* rounds of one key */
#define SPACE_WAIT_NS (1000 * TEI_NS_PER_MS) /* then the pool is full */
#define CONTACT_MS    2000                   /* of an owner, at most */
#define CONTACTS_NS   (5 * TEI_NS_PER_S)     /* of all owners of a round */

enum fate {
	FATE_NONE,    /* not accepted: its result is known */
	FATE_SENT,    /* a request of the batch */
	FATE_WRITTEN, /* in the owner's memory */
	FATE_AGAIN,   /* not written, nothing can arrive; start again */
	FATE_FAILED,  /* not written, nothing can arrive */
	FATE_UNKNOWN, /* something may still arrive */
};

/* A key of the chunk. */
struct item {
	uint64_t size, digest;
	uint8_t tries;
	uint32_t same; /* 1 + index of the same key before it; 0: none */
};

/* A key of the round; its place is that of the reply's columns. */
struct entry {
	uint32_t item;
	uint32_t request; /* FATE_SENT: index in the batch */
	uint32_t crc;
	uint8_t fate;
};

struct put {
	struct te_store *store;
	struct tei_work *work;
	const struct te_store_key *keys;     /* keys[n] */
	const struct te_store_value *values; /* values[n] */
	int *results;                        /* results[n] */
	size_t n;
	struct item *items;    /* items[n] */
	uint32_t *todo, *next; /* items of this round, of the next one */
	size_t n_todo, n_next;
	size_t n_full; /* of next: the pool was full */
	uint32_t retry_ms;
	uint64_t full_since_ns; /* 0: not full yet */

	/* Of the round. */
	struct entry *entries; /* entries[n_todo] */
	Store__PutStartReply *start;
	uint64_t t0, digest_seed;
};

static void fail_round(struct put *put, int code)
{
	size_t i;

	for (i = 0; i < put->n_todo; i++)
		put->results[put->todo[i]] = code;
	put->n_next = 0;
}

/* ---- start ---- */

static bool reply_holds(const Store__PutStartReply *reply, size_t n)
{
	size_t i;

	if (reply->n_status != n)
		return false;
	for (i = 0; i < n; i++) {
		if (reply->status[i])
			continue;
		if (reply->n_segment != n || reply->n_address != n ||
		    reply->n_generation != n ||
		    reply->segment[i] >= reply->n_segments)
			return false;
	}
	return true;
}

static int start_round(struct put *put)
{
	struct tei_arena *arena = &put->work->round;
	Store__PutStart msg = STORE__PUT_START__INIT;
	struct tei_key_column column;
	struct tei_reply reply;
	size_t n = put->n_todo, i;
	int code;

	msg.n_sizes = n;
	msg.sizes = tei_arena_alloc(arena, n * sizeof(msg.sizes[0]));
	put->entries = tei_arena_calloc(arena, n, sizeof(put->entries[0]));
	if (!msg.sizes || !put->entries ||
	    tei_key_column_init(&column, arena, n,
				tei_keys_bytes(put->keys, put->n)))
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < n; i++) {
		const struct te_store_key *key = &put->keys[put->todo[i]];

		put->entries[i].item = put->todo[i];
		tei_key_column_add(&column, key->bytes, key->len);
		msg.sizes[i] = put->items[put->todo[i]].size;
	}
	msg.keys = column.bytes;
	msg.key_lens = column.lens;
	msg.n_key_lens = column.n;
	put->t0 = tei_now_ns();
	code = tei_store_call(put->store, STORE__STORE_TYPE__STORE_PUT_START,
			      &msg.base, arena, tei_call_deadline(put->store),
			      &reply);
	if (code)
		return code;
	put->digest_seed = reply.digest_seed;
	put->start = store__put_start_reply__unpack(&arena->pb, reply.len,
						    reply.body);
	if (!put->start || !reply_holds(put->start, n))
		return tei_bad_reply("put start");
	return 0;
}

/* ---- a key twice in one call ---- */

static bool same_key(const struct put *put, uint32_t a, uint32_t b)
{
	const struct te_store_key *x = &put->keys[a], *y = &put->keys[b];

	return x->len == y->len && memcmp(x->bytes, y->bytes, x->len) == 0;
}

/*
 * "There already" may mean that the same key stands earlier in this very
 * call: then its outcome is ours too. Only asked when some keys of the round
 * were accepted and others were there.
 */
static void find_same(struct put *put)
{
	size_t room = 64, i, at;
	uint32_t *table;

	while (room < 2 * put->n_todo)
		room *= 2;
	table = tei_arena_calloc(&put->work->round, room, sizeof(*table));
	if (!table)
		return;
	for (i = 0; i < put->n_todo; i++) {
		uint32_t item = put->entries[i].item;
		int status = put->start->status[i];

		if (status && status != TE_STORE_OBJECT_ALREADY_EXISTS)
			continue;
		at = put->items[item].digest & (room - 1);
		while (table[at] && !same_key(put, table[at] - 1, item))
			at = (at + 1) & (room - 1);
		if (!status)
			table[at] = item + 1;
		else if (table[at])
			put->items[item].same = table[at];
	}
}

/* ---- writing ---- */

static void try_again(struct put *put, uint32_t item)
{
	put->next[put->n_next++] = item;
}

static int add_request(struct put *put, struct entry *entry, size_t i,
		       const struct tei_place *place)
{
	const struct te_store_value *value = &put->values[entry->item];
	const struct item *item = &put->items[entry->item];
	struct tei_extent_header header = {
		.gen_epoch = put->start->epoch,
		.generation = put->start->generation[i],
		.digest = item->digest,
		.object_size = item->size,
		.length = item->size,
		.count = 1,
	};
	struct te_request *req;

	entry->request = put->work->n;
	req = tei_work_add(put->work, TE_WRITE, value->pieces, value->n_pieces,
			   item->size);
	if (!req)
		return TE_STORE_INTERNAL_ERROR;
	tei_extent_encode(&header, put->work->headers[entry->request]);
	req->segment = place->owner->segment;
	req->remote = put->start->address[i];
	req->epoch = place->epoch;
	return 0;
}

static void plan_entry(struct put *put, struct tei_places *places, size_t i)
{
	struct entry *entry = &put->entries[i];
	uint32_t s = put->start->segment[i];
	const struct tei_place *place = &places->at[s];
	int rc = tei_places_open(places, s, put->start->segments[s]);

	put->items[entry->item].tries++;
	if (rc) {
		put->results[entry->item] = TE_STORE_TRANSFER_FAIL;
		entry->fate = FATE_FAILED;
	} else if (place->since_ns > put->t0 && place->epoch != 1) {
		entry->fate = FATE_AGAIN;
	} else {
		rc = add_request(put, entry, i, place);
		put->results[entry->item] = rc;
		entry->fate = rc ? FATE_FAILED : FATE_SENT;
	}
}

static void plan(struct put *put, struct tei_places *places)
{
	size_t i, n_accepted = 0, n_there = 0;

	for (i = 0; i < put->n_todo; i++) {
		int status = put->start->status[i];
		uint32_t item = put->entries[i].item;

		if (!status) {
			n_accepted++;
			plan_entry(put, places, i);
		} else if (status == TE_STORE_OBJECT_ALREADY_EXISTS) {
			n_there++;
			put->results[item] = 0;
		} else {
			put->results[item] = status;
			if (status == TE_STORE_NO_AVAILABLE_HANDLE) {
				put->n_full++;
				try_again(put, item);
			}
		}
	}
	put->retry_ms = put->start->retry_ms;
	if (n_accepted && n_there)
		find_same(put);
}

/* How the request of @entry ended. */
static void judge(struct put *put, struct entry *entry, struct tei_place *place)
{
	struct te_completion done;

	tei_work_result(put->work, entry->request, &done);
	if (!done.error) {
		entry->crc = done.crc;
		entry->fate = FATE_WRITTEN;
		return;
	}
	put->results[entry->item] = tei_store_code(done.error);
	place->stale |= done.error == -ESTALE;
	if (!(done.flags & TE_REMOTE_QUIET))
		entry->fate = FATE_UNKNOWN;
	else if (done.error == -ESTALE)
		entry->fate = FATE_AGAIN; /* fenced, or the owner is new */
	else
		entry->fate = FATE_FAILED;
	if (done.error == -ENOENT)
		place->gone = true;
}

static void transfer(struct put *put, struct tei_places *places)
{
	int rc = tei_work_run(put->work, places);
	size_t i;

	for (i = 0; i < put->n_todo; i++) {
		struct entry *entry = &put->entries[i];

		if (entry->fate != FATE_SENT)
			continue;
		if (!rc) {
			judge(put, entry, &places->at[put->start->segment[i]]);
			continue;
		}
		put->results[entry->item] = tei_store_code(rc);
		entry->fate = FATE_FAILED;
	}
}

/* ---- end ---- */

static void fail_end(struct put *put, const uint32_t *which, size_t n, int code)
{
	size_t i;

	for (i = 0; i < n; i++) {
		struct entry *entry = &put->entries[which[i]];

		put->results[entry->item] = code;
		entry->fate = FATE_UNKNOWN;
	}
}

static void settle(struct put *put, struct entry *entry, int status)
{
	uint32_t item = entry->item;

	if (entry->fate == FATE_WRITTEN) {
		/* Too late: the master has given the space to others. */
		put->results[item] = status ? TE_STORE_TRANSFER_FAIL : 0;
		if (status)
			LOG_DEBUG("put: end refused: %s",
				  te_store_strerror(status));
	} else if (entry->fate == FATE_AGAIN) {
		put->results[item] = TE_STORE_TRANSFER_FAIL;
		if (put->items[item].tries < TRIES)
			try_again(put, item);
	}
}

static void call_end(struct put *put, Store__PutEnd *msg, const uint32_t *which)
{
	struct tei_arena *arena = &put->work->round;
	Store__PutEndReply *end;
	struct tei_reply reply;
	size_t n = msg->n_key_lens, i;
	int code;

	code = tei_store_call(put->store, STORE__STORE_TYPE__STORE_PUT_END,
			      &msg->base, arena, tei_call_deadline(put->store),
			      &reply);
	if (code) {
		fail_end(put, which, n, code);
		return;
	}
	end = store__put_end_reply__unpack(&arena->pb, reply.len, reply.body);
	if (!end || end->n_status != n) {
		fail_end(put, which, n, tei_bad_reply("put end"));
		return;
	}
	for (i = 0; i < n; i++)
		settle(put, &put->entries[which[i]], end->status[i]);
}

static void end_round(struct put *put)
{
	struct tei_arena *arena = &put->work->round;
	Store__PutEnd msg = STORE__PUT_END__INIT;
	struct tei_key_column column;
	size_t room = put->n_todo, n = 0, i;
	uint32_t *which = tei_arena_alloc(arena, room * sizeof(*which));

	msg.generation =
		tei_arena_alloc(arena, room * sizeof(msg.generation[0]));
	msg.crc = tei_arena_alloc(arena, room * sizeof(msg.crc[0]));
	msg.written = tei_arena_alloc(arena, room * sizeof(msg.written[0]));
	if (!which || !msg.generation || !msg.crc || !msg.written ||
	    tei_key_column_init(&column, arena, room,
				tei_keys_bytes(put->keys, put->n))) {
		for (i = 0; i < room; i++)
			if (put->entries[i].fate != FATE_NONE)
				put->results[put->entries[i].item] =
					TE_STORE_INTERNAL_ERROR;
		return;
	}
	for (i = 0; i < room; i++) {
		const struct entry *entry = &put->entries[i];
		const struct te_store_key *key = &put->keys[entry->item];

		if (entry->fate == FATE_NONE || entry->fate == FATE_UNKNOWN)
			continue;
		which[n] = (uint32_t)i;
		tei_key_column_add(&column, key->bytes, key->len);
		msg.generation[n] = put->start->generation[i];
		msg.crc[n] = entry->crc;
		msg.written[n] = entry->fate == FATE_WRITTEN;
		n++;
	}
	msg.keys = column.bytes;
	msg.key_lens = column.lens;
	msg.n_key_lens = msg.n_generation = msg.n_crc = msg.n_written = n;
	msg.epoch = put->start->epoch;
	if (n)
		call_end(put, &msg, which);
}

/* ---- rounds ---- */

static void digest_keys(struct put *put)
{
	size_t i;

	for (i = 0; i < put->n_todo; i++) {
		uint32_t item = put->todo[i];

		put->items[item].digest =
			tei_key_digest(put->keys[item].bytes,
				       put->keys[item].len, put->digest_seed);
	}
}

static void run_round(struct put *put)
{
	struct tei_places places;
	int code = start_round(put);

	if (!code && tei_places_init(&places, &put->store->owners, put->work,
				     put->start->n_segments, CONTACT_MS,
				     tei_now_ns() + CONTACTS_NS))
		code = TE_STORE_INTERNAL_ERROR;
	if (code) {
		fail_round(put, code);
		return;
	}
	digest_keys(put);
	plan(put, &places);
	transfer(put, &places);
	end_round(put);
	tei_places_await_epochs(&places);
	tei_places_fini(&places);
}

/*
 * Space comes back when fences are confirmed and leases end; the master says
 * when it is worth asking again. False: the pool is full.
 */
static bool wait_for_space(struct put *put)
{
	uint64_t now = tei_now_ns(), rest, wait;
	struct timespec until;

	if (!put->full_since_ns)
		put->full_since_ns = now;
	if (!put->retry_ms || now - put->full_since_ns >= SPACE_WAIT_NS)
		return false;
	rest = put->full_since_ns + SPACE_WAIT_NS - now;
	wait = put->retry_ms * TEI_NS_PER_MS;
	now += wait < rest ? wait : rest;
	until.tv_sec = (time_t)(now / TEI_NS_PER_S);
	until.tv_nsec = (long)(now % TEI_NS_PER_S);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) ==
	       EINTR)
		;
	return true;
}

static void put_items(struct put *put)
{
	uint32_t *old;

	while (put->n_todo) {
		put->n_next = put->n_full = 0;
		run_round(put);
		tei_work_next_round(put->work);
		if (put->n_full && put->n_full == put->n_next &&
		    !wait_for_space(put))
			break;
		old = put->todo;
		put->todo = put->next;
		put->next = old;
		put->n_todo = put->n_next;
	}
}

static int prepare(struct put *put)
{
	struct tei_arena *arena = &put->work->call;
	size_t i;

	put->items = tei_arena_calloc(arena, put->n, sizeof(put->items[0]));
	put->todo = tei_arena_alloc(arena, put->n * sizeof(put->todo[0]));
	put->next = tei_arena_alloc(arena, put->n * sizeof(put->next[0]));
	if (!put->items || !put->todo || !put->next)
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < put->n; i++) {
		put->items[i].size = tei_value_bytes(&put->values[i]);
		put->results[i] = TE_STORE_INVALID_PARAMS;
		if (tei_key_holds(&put->keys[i]) && put->items[i].size)
			put->todo[put->n_todo++] = (uint32_t)i;
	}
	return 0;
}

static void put_chunk(struct te_store *store, const struct te_store_key *keys,
		      const struct te_store_value *values, size_t n,
		      int *results)
{
	struct put put = {
		.store = store,
		.work = tei_work_get(&store->works, n),
		.keys = keys,
		.values = values,
		.results = results,
		.n = n,
	};
	size_t i;

	if (!put.work || prepare(&put)) {
		for (i = 0; i < n; i++)
			results[i] = TE_STORE_INTERNAL_ERROR;
		tei_work_put(&store->works, put.work);
		return;
	}
	put_items(&put);
	for (i = 0; i < n; i++)
		if (put.items[i].same)
			results[i] = results[put.items[i].same - 1];
	tei_work_put(&store->works, put.work);
}

int te_store_put(struct te_store *store, const struct te_store_key *keys,
		 const struct te_store_value *values, size_t n, int *results)
{
	size_t from, len, i;

	if (!tei_keys_given(store, keys, n, results) || (n && !values))
		return TE_STORE_INVALID_PARAMS;
	for (from = 0; from < n; from += len) {
		len = tei_chunk(keys, from, n);
		put_chunk(store, keys + from, values + from, len,
			  results + from);
	}
	for (i = 0; i < n; i++)
		if (results[i])
			return results[i];
	return 0;
}
