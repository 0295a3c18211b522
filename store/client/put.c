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
 * A put that failed is revoked only when nothing of it can arrive any more.
 * Else the master keeps the space until it has fenced this writer.
 *
 * Pipelining. The three steps need three processes, one after the other. So a
 * round of many keys is cut in two halves: while the bytes of one are written,
 * the master starts the next and ends the one before. Where writing is as quick
 * as by shared memory, the messages of a second half may cost more than they
 * hide. So both are timed, and put_lanes.h says which one is taken.
 */
#include "store/client/put.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/client/put_lanes.h"
#include "store/proto/extent.h"
#include "store/proto/keys.h"

/* ---- choice between one and two pipelines of puts ---- */

#define VOTES_MAX  8   /* so that a change is noticed soon */
#define EARLY      64u /* rounds in which the ways take turns */
#define EARLY_TURN 2u
#define TURN       32u /* then each so many goes the other way */

/*
 * A round in a word, so that threads may exchange it: ns of a key from bit 16
 * on, the order of magnitude of its keys and bytes, its lanes in bit 0.
 */
#define LAST_NS_SHIFT 16u
#define LAST_NS_MAX   (UINT64_MAX >> LAST_NS_SHIFT)
#define LAST_TWO      1u

static uint64_t magnitude(uint64_t n)
{
	return n ? 64u - (uint64_t)__builtin_clzll(n) : 0;
}

static uint64_t word_of(bool two, size_t n, uint64_t bytes, uint64_t ns)
{
	uint64_t key_ns = ns / n + 1;

	if (key_ns > LAST_NS_MAX)
		key_ns = LAST_NS_MAX;
	return key_ns << LAST_NS_SHIFT | magnitude(n) << 9 |
	       magnitude(bytes) << 1 | (two ? LAST_TWO : 0);
}

/* Relaxed, here and below: hints, to which nothing else belongs. */
bool tes_put_lanes_two(struct tes_put_lanes *lanes)
{
	int votes = atomic_load_explicit(&lanes->votes, memory_order_relaxed);
	uint32_t round = atomic_fetch_add_explicit(&lanes->n_rounds, 1,
						   memory_order_relaxed);
	uint32_t turn = round < EARLY ? EARLY_TURN : TURN;

	return (votes >= 0) != (round % turn == turn - 1);
}

static void vote(struct tes_put_lanes *lanes, int by)
{
	int votes = atomic_load_explicit(&lanes->votes, memory_order_relaxed);

	votes += by;
	if (votes >= -VOTES_MAX && votes <= VOTES_MAX)
		atomic_store_explicit(&lanes->votes, votes,
				      memory_order_relaxed);
}

void tes_put_lanes_learn(struct tes_put_lanes *lanes, bool two, size_t n,
			 uint64_t bytes, uint64_t ns)
{
	const uint64_t alike = (1u << LAST_NS_SHIFT) - 1 - LAST_TWO;
	uint64_t is, was;

	if (n == 0)
		return;
	is = word_of(two, n, bytes, ns);
	was = atomic_exchange_explicit(&lanes->last, is, memory_order_relaxed);
	if ((is & alike) != (was & alike) || !((is ^ was) & LAST_TWO))
		return;
	is >>= LAST_NS_SHIFT;
	was >>= LAST_NS_SHIFT;
	if (is != was)
		vote(lanes, two == (is < was) ? 1 : -1);
}

/* ---- start at the master: extents for the objects ---- */

/* ---- asking ---- */

static void set_how(const struct te_store_replicate *how, Store__Replicate *msg)
{
	msg->replica_num = how->replica_num;
	msg->preferred = (char **)(uintptr_t)how->preferred_segments;
	msg->n_preferred = how->n_preferred_segments;
	msg->soft_pin = how->soft_pin_action;
	msg->soft_pin_ttl_ms = how->soft_pin_ttl_ms;
	msg->hard_pin = (how->flags & TE_STORE_HARD_PIN) != 0;
	msg->same_node = (how->flags & TE_STORE_SAME_NODE) != 0;
	msg->data_type = how->data_type;
}

/* Neighbours mostly share a group, so one that repeats is named once. */
static int set_groups(struct tes_put *put, Store__PutStart *msg)
{
	struct tei_arena *arena = &put->work->round;
	size_t n = put->n_todo, i;

	if (!put->groups)
		return 0;
	msg->groups = tei_arena_alloc(arena, n * sizeof(msg->groups[0]));
	msg->group = tei_arena_alloc(arena, n * sizeof(msg->group[0]));
	if (!msg->groups || !msg->group)
		return -ENOMEM;
	msg->n_group = n;
	for (i = 0; i < n; i++) {
		const char *group = put->groups[put->todo[i]];

		msg->group[i] = 0;
		if (!group || !*group)
			continue;
		if (!msg->n_groups ||
		    strcmp(msg->groups[msg->n_groups - 1], group) != 0)
			msg->groups[msg->n_groups++] = (char *)(uintptr_t)group;
		msg->group[i] = (uint32_t)msg->n_groups;
	}
	return 0;
}

static size_t bytes_todo(const struct tes_put *put)
{
	size_t bytes = 0, i;

	for (i = 0; i < put->n_todo; i++)
		bytes += put->keys[put->todo[i]].len;
	return bytes;
}

static int fill_start_entries(struct tes_put *put, Store__PutStart *msg)
{
	struct tei_arena *arena = &put->work->round;
	struct tes_key_column column;
	size_t n = put->n_todo, i;

	msg->sizes = tei_arena_alloc(arena, n * sizeof(msg->sizes[0]));
	if (!msg->sizes || set_groups(put, msg) ||
	    tes_key_column_init(&column, arena, n, bytes_todo(put)))
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		const struct te_store_key *key = &put->keys[put->todo[i]];

		tes_key_column_add(&column, key->bytes, key->len);
		msg->sizes[i] = put->items[put->todo[i]].size;
	}
	msg->n_sizes = n;
	msg->keys = column.bytes;
	msg->key_lens = column.lens;
	msg->n_key_lens = column.n;
	msg->upsert = put->upsert;
	return 0;
}

/* ---- the answer ---- */

static int take_layouts(struct tes_put *put, const uint64_t *sizes)
{
	const Store__PutStartReply *m = put->start;
	struct tei_arena *arena = &put->work->round;
	const struct tes_columns columns = {
		.n = put->n_todo,
		.status = m->status,
		.n_status = m->n_status,
		.size = sizes,
		.n_size = put->n_todo,
		.generation = m->generation,
		.n_generation = m->n_generation,
		.extents = m->extents,
		.n_extents = m->n_extents,
		.segment = m->segment,
		.n_segment = m->n_segment,
		.replica = m->replica,
		.n_replica = m->n_replica,
		.address = m->address,
		.n_address = m->n_address,
		.length = m->length,
		.n_length = m->n_length,
		.n_segments = m->n_segments,
	};
	struct tes_layout *layouts =
		tei_arena_alloc(arena, put->n_todo * sizeof(*layouts));
	size_t i;
	int rc;

	if (!layouts)
		return -ENOMEM;
	rc = tes_layouts_decode(&columns, arena, 0, layouts);
	for (i = 0; i < put->n_todo && !rc; i++)
		put->entries[i].layout = layouts[i];
	return rc;
}

static int take_entries(struct tes_put *put, uint64_t digest_seed)
{
	struct tei_arena *arena = &put->work->round;
	size_t i;

	for (i = 0; i < put->n_todo; i++) {
		struct tes_put_entry *entry = &put->entries[i];
		const struct te_store_key *key = &put->keys[put->todo[i]];

		entry->item = put->todo[i];
		put->items[entry->item].digest =
			tes_key_digest(key->bytes, key->len, digest_seed);
		if (put->start->status[i])
			continue;
		entry->accepted = true;
		entry->generation = put->start->generation[i];
		entry->extents =
			tei_arena_calloc(arena, entry->layout.n_extents,
					 sizeof(*entry->extents));
		if (!entry->extents)
			return -ENOMEM;
	}
	put->epoch = put->start->epoch;
	put->retry_ms = put->start->retry_ms;
	return 0;
}

static int take_how(struct tes_put *put)
{
	Store__Replicate *how;

	if (!put->how)
		return 0;
	how = tei_arena_alloc(&put->work->round, sizeof(*how));
	if (!how)
		return -ENOMEM;
	store__replicate__init(how);
	set_how(put->how, how);
	put->ask->how = how;
	return 0;
}

static int prepare_start(struct tes_put *put)
{
	struct tei_arena *arena = &put->work->round;

	put->entries =
		tei_arena_calloc(arena, put->n_todo, sizeof(put->entries[0]));
	put->ask = tei_arena_alloc(arena, sizeof(*put->ask));
	if (!put->entries || !put->ask)
		return -ENOMEM;
	store__put_start__init(put->ask);
	return fill_start_entries(put, put->ask) || take_how(put) ? -ENOMEM : 0;
}

/* Between these two the memory of the round is not ours. */
static void start_put(struct tes_put *put)
{
	put->code = prepare_start(put) ? TE_STORE_INTERNAL_ERROR : 0;
	if (put->code)
		return;
	put->t0 = tei_now_ns();
	tes_store_ask(put->store, STORE__STORE_TYPE__STORE_PUT_START,
		      &put->ask->base, &put->work->round,
		      tes_call_deadline(put->store), &put->asked);
}

static int take_answer(struct tes_put *put, const struct tes_reply *reply)
{
	int rc;

	put->start = store__put_start_reply__unpack(&put->work->round.pb,
						    reply->len, reply->body);
	if (!put->start)
		return tes_bad_reply("put start");
	rc = take_layouts(put, put->ask->sizes);
	if (!rc)
		rc = take_entries(put, reply->digest_seed);
	if (rc == -EBADMSG)
		return tes_bad_reply("put start");
	return rc ? TE_STORE_INTERNAL_ERROR : 0;
}

/* Fills entries, or sets code. */
static void put_started(struct tes_put *put)
{
	struct tes_reply reply;

	if (put->code)
		return;
	put->code = tes_store_answered(put->store, &put->asked, &reply);
	if (!put->code)
		put->code = take_answer(put, &reply);
}

/* ---- a key twice in one call ---- */

static bool same_key(const struct tes_put *put, uint32_t a, uint32_t b)
{
	const struct te_store_key *x = &put->keys[a], *y = &put->keys[b];

	return x->len == y->len && memcmp(x->bytes, y->bytes, x->len) == 0;
}

/* Items that were accepted, each 1 + its index, by digest. */
struct seen {
	uint32_t *at; /* at[room], a power of two */
	size_t room;
};

static void find_same(const struct tes_put *put, const struct seen *seen)
{
	size_t i, at;

	for (i = 0; i < put->n_todo; i++) {
		uint32_t item = put->entries[i].item;
		int status = put->start->status[i];

		if (status && status != TE_STORE_OBJECT_ALREADY_EXISTS)
			continue;
		at = put->items[item].digest & (seen->room - 1);
		while (seen->at[at] && !same_key(put, seen->at[at] - 1, item))
			at = (at + 1) & (seen->room - 1);
		if (!status)
			seen->at[at] = item + 1;
		else if (seen->at[at])
			put->items[item].same = seen->at[at];
	}
}

/*
 * "There already" may mean that the same key stands earlier in this very
 * call: then its outcome is ours too. Only worth asking when some keys of the
 * round were accepted and others were there.
 */
static void put_find_same(const struct tes_put *lanes, size_t n_lanes)
{
	struct seen seen = {.room = 64};
	size_t n = 0, i;

	for (i = 0; i < n_lanes; i++)
		n += lanes[i].n_todo;
	while (seen.room < 2 * n)
		seen.room *= 2;
	seen.at = tei_arena_calloc(&lanes->work->round, seen.room,
				   sizeof(*seen.at));
	for (i = 0; seen.at && i < n_lanes; i++)
		if (!lanes[i].code)
			find_same(&lanes[i], &seen);
}

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

/* Keys that were not accepted get their result, or are tried again. */
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

	put_started(put);
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
		start_put(&lanes[i]);
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
 * Upserts have none: a key that stands twice in a call is one upsert to the
 * master only within one message.
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

/* Returns how many were opened: one, when there is no memory for more. */
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

/* Collects the keys that are still to do; releases the works of all but one. */
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
		put_find_same(lanes, n);
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

static int prepare_put(struct tes_put *put)
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
	if (!put->work || prepare_put(put)) {
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
