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
 *
 * Lanes. The three steps need three processes, one after the other. So a round
 * of many keys goes in lanes: while the bytes of one are written, the master
 * starts the next and ends the one before. Where writing is as quick as by shared
 * memory, the messages of a second lane may cost more than they hide. So both ways
 * are timed, and put_lanes.h tells which one is taken.
 */
#include "store/client/put.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"

#define SPACE_WAIT_NS (1000 * TEI_NS_PER_MS) /* then the pool is full */
#define CONTACT_MS    2000                   /* of an owner, at most */
#define CONTACTS_NS   (5 * TEI_NS_PER_S)     /* of all owners of a round */
#define LANES_MAX     2u  /* more cost the master more than they hide */
#define LANE_KEYS     32u /* fewer are not worth a lane of their own */

static void fail_round(struct tes_put *put)
{
	size_t i;

	for (i = 0; i < put->n_todo; i++)
		put->results[put->todo[i]] = put->code;
}

static int result_of(const struct tes_put *put, int status)
{
	if (status == TE_STORE_OBJECT_ALREADY_EXISTS && put->values)
		return 0;
	return status;
}

/* Those that were not accepted have their result, or try again. */
static void sort_out(struct tes_put *put)
{
	size_t i;

	for (i = 0; i < put->n_todo; i++) {
		int status = put->start->status[i];
		uint32_t item = put->entries[i].item;

		put->n_accepted += !status;
		put->n_there += status == TE_STORE_OBJECT_ALREADY_EXISTS;
		if (status)
			put->results[item] = result_of(put, status);
		if (status == TE_STORE_NO_AVAILABLE_HANDLE) {
			put->n_full++;
			tes_put_again(put, item);
		}
	}
}

/* ---- a lane ---- */

static void begin_writing(struct tes_put *put)
{
	struct tes_places *places = &put->places;

	tes_put_started(put);
	tes_places_init(places, &put->store->owners, put->work, CONTACT_MS,
			tei_now_ns() + CONTACTS_NS);
	if (!put->code && tes_places_add(places, put->start->segments,
					 put->start->n_segments))
		put->code = TE_STORE_INTERNAL_ERROR;
	if (put->code) {
		fail_round(put);
		return;
	}
	sort_out(put);
	tes_put_write(put, places);
}

static void begin_ending(struct tes_put *put)
{
	if (put->code)
		return;
	tes_put_written(put, &put->places);
	if (!put->values)
		tes_put_keep(put, &put->places);
	tes_put_end(put);
}

static void finish(struct tes_put *put)
{
	if (!put->code)
		tes_put_ended(put);
	tes_places_await_epochs(&put->places);
	tes_places_fini(&put->places);
}

/* ---- a round ---- */

static void run_lanes(struct tes_put *lanes, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		tes_put_start(&lanes[i]);
	for (i = 0; i < n; i++) {
		begin_writing(&lanes[i]);
		if (i)
			begin_ending(&lanes[i - 1]);
	}
	begin_ending(&lanes[n - 1]);
	for (i = 0; i < n; i++)
		finish(&lanes[i]);
}

/*
 * Lane @i of @n has its share of the items, and a work of its own, but for the
 * first, which has the chunk's.
 */
static bool open_lane(const struct tes_put *put, size_t i, size_t n,
		      struct tes_put *lane)
{
	size_t from = put->n_todo * i / n, to = put->n_todo * (i + 1) / n;

	*lane = *put;
	lane->todo = put->todo + from;
	lane->next = put->next + from;
	lane->n_todo = to - from;
	lane->n_next = lane->n_full = lane->n_accepted = lane->n_there = 0;
	lane->retry_ms = 0;
	if (i)
		lane->work = tes_work_get(&put->store->works, to - from);
	return lane->work != NULL;
}

/*
 * Upserts have none: a key that stands twice in a call is one upsert to the master
 * only within one message.
 */
static bool has_choice(const struct tes_put *put)
{
	return !put->upsert && put->n_todo / LANE_KEYS >= 2;
}

static size_t lanes_wanted(const struct tes_put *put)
{
	size_t n = put->n_todo / LANE_KEYS;

	if (!has_choice(put) || !tes_put_lanes_two(&put->store->put_lanes))
		return 1;
	return n < LANES_MAX ? n : LANES_MAX;
}

static void learn(const struct tes_put *put, size_t n_lanes, uint64_t ns)
{
	uint64_t bytes = 0;
	size_t i;

	for (i = 0; i < put->n_todo; i++)
		bytes += put->items[put->todo[i]].size;
	tes_put_lanes_learn(&put->store->put_lanes, n_lanes > 1, put->n_todo,
			    bytes, ns);
}

/* One, when there is no memory for more. */
static size_t open_lanes(const struct tes_put *put, struct tes_put *lanes)
{
	size_t n = lanes_wanted(put), i;

	for (i = 0; i < n && open_lane(put, i, n, &lanes[i]); i++)
		;
	if (n && i == n)
		return n;
	while (i > 1)
		tes_work_put(&put->store->works, lanes[--i].work);
	(void)open_lane(put, 0, 1, lanes);
	return 1;
}

/* What the lanes leave to do; the others' works are given back. */
static void close_lanes(struct tes_put *put, const struct tes_put *lanes,
			size_t n)
{
	size_t n_accepted = 0, n_there = 0, i;

	for (i = 0; i < n; i++) {
		n_accepted += lanes[i].n_accepted;
		n_there += lanes[i].n_there;
		put->n_full += lanes[i].n_full;
		memmove(put->next + put->n_next, lanes[i].next,
			lanes[i].n_next * sizeof(put->next[0]));
		put->n_next += lanes[i].n_next;
		if (lanes[i].retry_ms > put->retry_ms)
			put->retry_ms = lanes[i].retry_ms;
	}
	if (n_accepted && n_there && put->values)
		tes_put_find_same(lanes, n);
	for (i = 1; i < n; i++)
		tes_work_put(&put->store->works, lanes[i].work);
	tes_work_next_round(put->work);
}

static void run_round(struct tes_put *put)
{
	struct tes_put lanes[LANES_MAX];
	size_t n = open_lanes(put, lanes);
	uint64_t begin = tei_now_ns();

	put->n_next = put->n_full = put->retry_ms = 0;
	run_lanes(lanes, n);
	if (has_choice(put))
		learn(put, n, tei_now_ns() - begin);
	close_lanes(put, lanes, n);
}

/*
 * Space comes back when fences are confirmed and leases end; the master says
 * when it is worth asking again. False: the pool is full.
 */
static bool wait_for_space(struct tes_put *put)
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

static void put_items(struct tes_put *put)
{
	uint32_t *old;

	while (put->n_todo) {
		run_round(put);
		if (put->n_full && put->n_full == put->n_next &&
		    !wait_for_space(put))
			break;
		old = put->todo;
		put->todo = put->next;
		put->next = old;
		put->n_todo = put->n_next;
		/* Relaxed: a number for people. */
		if (put->n_todo)
			atomic_fetch_add_explicit(&put->store->n_put_retries,
						  put->n_todo,
						  memory_order_relaxed);
	}
}

/* 0: it does not hold. */
static uint64_t size_of(const struct tes_put *put, size_t i)
{
	if (put->values)
		return tes_value_bytes(&put->values[i]);
	return put->sizes[i] <= TE_STORE_VALUE_MAX ? put->sizes[i] : 0;
}

static int prepare(struct tes_put *put)
{
	struct tei_arena *arena = &put->work->call;
	size_t i;

	put->items = tei_arena_calloc(arena, put->n, sizeof(put->items[0]));
	put->todo = tei_arena_alloc(arena, put->n * sizeof(put->todo[0]));
	put->next = tei_arena_alloc(arena, put->n * sizeof(put->next[0]));
	if (!put->items || !put->todo || !put->next)
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < put->n; i++) {
		put->items[i].size = size_of(put, i);
		put->results[i] = TE_STORE_INVALID_PARAMS;
		if (tes_key_holds(&put->keys[i]) && put->items[i].size)
			put->todo[put->n_todo++] = (uint32_t)i;
	}
	return 0;
}

static void put_chunk(struct tes_put *put)
{
	size_t i;

	put->work = tes_work_get(&put->store->works, put->n);
	if (!put->work || prepare(put)) {
		for (i = 0; i < put->n; i++)
			put->results[i] = TE_STORE_INTERNAL_ERROR;
		tes_work_put(&put->store->works, put->work);
		return;
	}
	put_items(put);
	for (i = 0; i < put->n; i++)
		if (put->items[i].same)
			put->results[i] = put->results[put->items[i].same - 1];
	tes_work_put(&put->store->works, put->work);
}

/* @all's keys from @from on, as many as go in one message. */
static struct tes_put chunk_of(const struct tes_put *all, size_t from)
{
	struct tes_put put = *all;

	put.keys += from;
	put.results += from;
	if (all->values)
		put.values += from;
	else
		put.sizes += from;
	if (all->how && all->how->n_group_ids)
		put.groups = all->how->group_ids + from;
	put.n = tes_chunk(all->keys, from, all->n);
	return put;
}

int tes_put_run(const struct tes_put *all)
{
	size_t from, len;

	if (!tes_keys_given(all->store, all->keys, all->n, all->results) ||
	    (all->n && !all->values && !all->sizes) ||
	    !tes_replicate_holds(all->how, all->n))
		return TE_STORE_INVALID_PARAMS;
	for (from = 0; from < all->n; from += len) {
		struct tes_put put = chunk_of(all, from);

		len = put.n;
		put_chunk(&put);
	}
	return tes_first_code(all->results, all->n);
}

static int put_values(struct te_store *store, const struct te_store_key *keys,
		      const struct te_store_value *values, size_t n,
		      const struct te_store_replicate *how, bool upsert,
		      int *results)
{
	const struct tes_put all = {
		.store = store,
		.keys = keys,
		.values = values,
		.how = how,
		.upsert = upsert,
		.results = results,
		.n = n,
	};

	return tes_put_run(&all);
}

int tes_direct_put(struct te_store *store, const struct te_store_key *keys,
		   const struct te_store_value *values, size_t n,
		   const struct te_store_replicate *how, int *results)
{
	return put_values(store, keys, values, n, how, false, results);
}

int tes_direct_upsert(struct te_store *store, const struct te_store_key *keys,
		      const struct te_store_value *values, size_t n,
		      const struct te_store_replicate *how, int *results)
{
	int code = put_values(store, keys, values, n, how, true, results);

	if (keys)
		tes_forget_keys(store, keys, n);
	return code;
}
