/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put.c - store values: start at the master, write to the owners, end
 *
 * A round does that for the keys that are still to do; a key is tried again
 * when the pool was full and space may come, or when the owner's access epoch
 * was not certain.
 *
 * Access epochs. Before the master gives space of a stalled writer to another,
 * the space's owner ends that writer's epoch. That only works when a write
 * carries an epoch that was current before the space was given out: an epoch
 * learned later may be the one after the fence (this writer was stopped between
 * start and write). So the time is taken before start is sent, and an epoch
 * learned after it does not count, unless it is the owner's first: then there
 * has been no fence at all.
 *
 * A put that failed is revoked only when nothing of it can arrive any more.
 * Else the master keeps the space until it has fenced this writer.
 *
 * Pipelines. The three steps run in three processes, one after the other. So a
 * round of many keys is cut in two halves: while the bytes of one are written,
 * the master starts the next and ends the one before. Where writes are as fast
 * as through shared memory, the messages of a second half may cost more than
 * they hide. So both are timed, and base/faster.h says which one is used.
 */
#include "store/client/put.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/proto/extent.h"
#include "store/proto/keys.h"

#define SPACE_WAIT_NS (1000 * TEI_NS_PER_MS) /* then the pool is full */
#define CONTACT_MS    2000                   /* of an owner, at most */
#define CONTACTS_NS   (5 * TEI_NS_PER_S)     /* of all owners of a round */
#define PIPELINES_MAX 2u  /* more cost the master more than they hide */
#define PIPELINE_KEYS 32u /* fewer are not worth a pipeline of their own */
#define LOST_S        60u /* of a key; twice put_start_discard_timeout_sec */

/* Keys of a chunk that are tried together. */
struct round {
	struct tes_put_chunk *chunk;
	struct tes_put_pipeline pipelines[PIPELINES_MAX];
	size_t n; /* pipelines in use */
};

/* ---- the start at the master, which gives extents ---- */

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
static int set_groups(struct tes_put_pipeline *p, Store__PutStart *msg)
{
	struct tei_arena *arena = &p->work->round;
	size_t n = p->n, i;

	if (!p->chunk->groups)
		return 0;
	msg->groups = tei_arena_alloc(arena, n * sizeof(msg->groups[0]));
	msg->group = tei_arena_alloc(arena, n * sizeof(msg->group[0]));
	if (!msg->groups || !msg->group)
		return -ENOMEM;
	msg->n_group = n;
	for (i = 0; i < n; i++) {
		const char *group = p->chunk->groups[p->todo[i]];

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

static size_t bytes_todo(const struct tes_put_pipeline *p)
{
	size_t bytes = 0, i;

	for (i = 0; i < p->n; i++)
		bytes += p->chunk->call.keys[p->todo[i]].len;
	return bytes;
}

static int fill_start_entries(struct tes_put_pipeline *p, Store__PutStart *msg)
{
	struct tei_arena *arena = &p->work->round;
	struct tes_key_column column;
	size_t n = p->n, i;

	msg->sizes = tei_arena_alloc(arena, n * sizeof(msg->sizes[0]));
	if (!msg->sizes || set_groups(p, msg) ||
	    tes_key_column_init(&column, arena, n, bytes_todo(p)))
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		const struct te_store_key *key =
			&p->chunk->call.keys[p->todo[i]];

		tes_key_column_add(&column, key->bytes, key->len);
		msg->sizes[i] = p->chunk->items[p->todo[i]].size;
	}
	msg->n_sizes = n;
	msg->keys = column.bytes;
	msg->key_lens = column.lens;
	msg->n_key_lens = column.n;
	msg->upsert = p->chunk->call.upsert;
	return 0;
}

static int take_layouts(struct tes_put_pipeline *p, const uint64_t *sizes)
{
	const Store__PutStartReply *m = p->start;
	struct tei_arena *arena = &p->work->round;
	const struct tes_columns columns = {
		TES_COLUMNS_OF(m),
		.n = p->n,
		.size = sizes,
		.n_size = p->n,
	};
	struct tes_layout *layouts =
		tei_arena_alloc(arena, p->n * sizeof(*layouts));
	size_t i;
	int rc;

	if (!layouts)
		return -ENOMEM;
	rc = tes_layouts_decode(&columns, arena, 0, layouts);
	for (i = 0; i < p->n && !rc; i++)
		p->entries[i].layout = layouts[i];
	return rc;
}

static int take_entries(struct tes_put_pipeline *p, uint64_t digest_seed)
{
	struct tei_arena *arena = &p->work->round;
	size_t i;

	for (i = 0; i < p->n; i++) {
		struct tes_put_entry *entry = &p->entries[i];
		const struct te_store_key *key =
			&p->chunk->call.keys[p->todo[i]];

		entry->item = p->todo[i];
		p->chunk->items[entry->item].digest =
			tes_key_digest(key->bytes, key->len, digest_seed);
		if (p->start->status[i])
			continue;
		entry->accepted = true;
		entry->generation = p->start->generation[i];
		entry->extents =
			tei_arena_calloc(arena, entry->layout.n_extents,
					 sizeof(*entry->extents));
		if (!entry->extents)
			return -ENOMEM;
	}
	p->epoch = p->start->epoch;
	p->retry_ms = p->start->retry_ms;
	return 0;
}

static int take_how(struct tes_put_pipeline *p)
{
	Store__Replicate *how;

	if (!p->chunk->call.how)
		return 0;
	how = tei_arena_alloc(&p->work->round, sizeof(*how));
	if (!how)
		return -ENOMEM;
	store__replicate__init(how);
	set_how(p->chunk->call.how, how);
	p->ask->how = how;
	return 0;
}

/* ---- starts that nobody follows up ---- */

static atomic_uint *lost_word(const struct tes_put_pipeline *p, size_t i,
			      unsigned int *bit)
{
	const struct te_store_key *key = &p->chunk->call.keys[p->todo[i]];
	uint64_t hash = XXH3_64bits(key->bytes, key->len) % TES_LOST_KEYS;

	*bit = 1u << hash % 32;
	return &p->chunk->call.store->lost_starts.bits[hash / 32];
}

/* True: the master itself has given up by now what such a start began. */
static bool lost_starts_are_over(const struct te_store *store)
{
	uint64_t at = atomic_load_explicit(&store->lost_starts.at_ns,
					   memory_order_relaxed);

	return !at || tei_now_ns() - at >= LOST_S * TEI_NS_PER_S;
}

void tes_put_note_lost(const struct tes_put_pipeline *p)
{
	struct tes_lost_starts *lost = &p->chunk->call.store->lost_starts;
	unsigned int bit;

	if (lost_starts_are_over(p->chunk->call.store))
		for (size_t i = 0; i < TES_LOST_KEYS / 32; i++)
			atomic_store_explicit(&lost->bits[i], 0,
					      memory_order_relaxed);
	for (size_t i = 0; i < p->n; i++) {
		atomic_uint *word = lost_word(p, i, &bit);

		atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
	}
	atomic_store_explicit(&lost->at_ns, tei_now_ns(), memory_order_relaxed);
}

/* True: a start of one of its keys was not followed up. */
static bool follows_lost_start(const struct tes_put_pipeline *p)
{
	unsigned int bit;

	if (lost_starts_are_over(p->chunk->call.store))
		return false;
	for (size_t i = 0; i < p->n; i++) {
		atomic_uint *word = lost_word(p, i, &bit);

		if (atomic_load_explicit(word, memory_order_relaxed) & bit)
			return true;
	}
	return false;
}

static int prepare_start(struct tes_put_pipeline *p)
{
	struct tei_arena *arena = &p->work->round;

	p->entries = tei_arena_calloc(arena, p->n, sizeof(p->entries[0]));
	p->ask = tei_arena_alloc(arena, sizeof(*p->ask));
	if (!p->entries || !p->ask)
		return -ENOMEM;
	store__put_start__init(p->ask);
	p->ask->unanswered = follows_lost_start(p);
	return fill_start_entries(p, p->ask) || take_how(p) ? -ENOMEM : 0;
}

static void start_begin(struct tes_put_pipeline *p)
{
	p->code = prepare_start(p) ? TE_STORE_INTERNAL_ERROR : 0;
	if (p->code)
		return;
	p->t0 = tei_now_ns();
	tes_store_ask(p->chunk->call.store, STORE__STORE_TYPE__STORE_PUT_START,
		      &p->ask->base, &p->work->round,
		      tes_call_deadline(p->chunk->call.store), &p->asked);
}

static int take_answer(struct tes_put_pipeline *p,
		       const struct tes_reply *reply)
{
	int rc;

	p->start = store__put_start_reply__unpack(&p->work->round.pb,
						  reply->len, reply->body);
	if (!p->start)
		return tes_bad_reply("put start");
	rc = take_layouts(p, p->ask->sizes);
	if (!rc)
		rc = take_entries(p, reply->digest_seed);
	if (rc == -EBADMSG)
		return tes_bad_reply("put start");
	return rc ? TE_STORE_INTERNAL_ERROR : 0;
}

/* Fills entries, or sets code. */
static void start_await(struct tes_put_pipeline *p)
{
	struct te_store *store = p->chunk->call.store;
	struct tes_reply reply;

	if (p->code)
		return;
	p->code = tes_store_answered(store, &p->asked, &reply);
	/* Where the connection broke, the next one tells the master. */
	if (p->code == TE_STORE_RPC_FAIL)
		return;
	if (!p->code)
		p->code = take_answer(p, &reply);
	if (p->code)
		tes_put_note_lost(p);
}

/* ---- a key twice in one call ---- */

static bool same_key(const struct tes_put_chunk *chunk, uint32_t a, uint32_t b)
{
	const struct te_store_key *x = &chunk->call.keys[a],
				  *y = &chunk->call.keys[b];

	return x->len == y->len && memcmp(x->bytes, y->bytes, x->len) == 0;
}

/* Items that were accepted, each 1 + its index, by digest. */
struct seen {
	uint32_t *at; /* at[room], a power of two */
	size_t room;
};

static void find_same(const struct tes_put_pipeline *p, const struct seen *seen)
{
	size_t i, at;

	for (i = 0; i < p->n; i++) {
		uint32_t item = p->entries[i].item;
		int status = p->start->status[i];

		if (status && status != TE_STORE_OBJECT_ALREADY_EXISTS)
			continue;
		at = p->chunk->items[item].digest & (seen->room - 1);
		while (seen->at[at] &&
		       !same_key(p->chunk, seen->at[at] - 1, item))
			at = (at + 1) & (seen->room - 1);
		if (!status)
			seen->at[at] = item + 1;
		else if (seen->at[at])
			p->chunk->items[item].same = seen->at[at];
	}
}

/*
 * A key that was "there already" may stand earlier in this very call: then it
 * gets that key's result. Worth a search only when some keys of the round were
 * accepted and others were there.
 */
static void put_find_same(const struct round *round)
{
	struct seen seen = {.room = 64};
	size_t i;

	while (seen.room < 2 * round->chunk->n_todo)
		seen.room *= 2;
	seen.at = tei_arena_calloc(&round->chunk->work->round, seen.room,
				   sizeof(*seen.at));
	for (i = 0; seen.at && i < round->n; i++)
		if (!round->pipelines[i].code)
			find_same(&round->pipelines[i], &seen);
}

/* ---- a pipeline: start, write, end ---- */

static void fail_pipeline(struct tes_put_pipeline *p)
{
	size_t i;

	for (i = 0; i < p->n; i++)
		p->chunk->call.results[p->todo[i]] = p->code;
}

/* Keys that were not accepted get their result, or are tried again. */
static void set_start_results(struct tes_put_pipeline *p)
{
	const struct tes_put_call *call = &p->chunk->call;
	size_t i;

	for (i = 0; i < p->n; i++) {
		int status = p->start->status[i];
		uint32_t item = p->entries[i].item;
		bool there = status == TE_STORE_OBJECT_ALREADY_EXISTS;

		p->n_accepted += !status;
		p->n_there += there;
		if (status)
			call->results[item] =
				there && call->values ? 0 : status;
		if (status == TE_STORE_NO_AVAILABLE_HANDLE) {
			p->n_full++;
			tes_put_again(p, item);
		}
	}
}

static void begin_writing(struct tes_put_pipeline *p)
{
	start_await(p);
	tes_places_init(&p->places, &p->chunk->call.store->owners, p->work,
			CONTACT_MS, tei_now_ns() + CONTACTS_NS);
	if (!p->code && tes_places_add(&p->places, p->start->segments,
				       p->start->n_segments)) {
		p->code = TE_STORE_INTERNAL_ERROR;
		tes_put_note_lost(p);
	}
	if (p->code) {
		fail_pipeline(p);
		return;
	}
	set_start_results(p);
	tes_put_write_begin(p);
}

static void begin_ending(struct tes_put_pipeline *p)
{
	if (p->code)
		return;
	tes_put_write_await(p);
	if (!p->chunk->call.values)
		tes_put_keep(p);
	tes_put_end_begin(p);
}

static void await_end(struct tes_put_pipeline *p)
{
	if (!p->code)
		tes_put_end_await(p);
	tes_places_await_epochs(&p->places);
	tes_places_fini(&p->places);
}

/* ---- a round: one pipeline or two ---- */

static void run_pipelines(struct tes_put_pipeline *pipelines, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		start_begin(&pipelines[i]);
	for (i = 0; i < n; i++) {
		begin_writing(&pipelines[i]);
		if (i)
			begin_ending(&pipelines[i - 1]);
	}
	begin_ending(&pipelines[n - 1]);
	for (i = 0; i < n; i++)
		await_end(&pipelines[i]);
}

/*
 * Pipeline @i of @n has its share of the items, and a work of its own; the
 * first uses the chunk's.
 */
static bool open_pipeline(struct tes_put_chunk *chunk, size_t i, size_t n,
			  struct tes_put_pipeline *out)
{
	size_t from = chunk->n_todo * i / n, to = chunk->n_todo * (i + 1) / n;

	memset(out, 0, sizeof(*out));
	out->chunk = chunk;
	out->todo = chunk->todo + from;
	out->next = chunk->next + from;
	out->n = to - from;
	out->work = i ? tes_work_get(&chunk->call.store->works, to - from)
		      : chunk->work;
	return out->work != NULL;
}

/*
 * Upserts use one: a key that stands twice in a call is one upsert to the
 * master only within one message.
 */
static bool may_use_two(const struct tes_put_chunk *chunk)
{
	return !chunk->call.upsert && chunk->n_todo / PIPELINE_KEYS >= 2;
}

/* Opens one pipeline when there is no memory for two. */
static void open_round(struct tes_put_chunk *chunk, struct round *round)
{
	struct tei_faster *faster = &chunk->call.store->put_pipelines;
	size_t n = 1;

	if (may_use_two(chunk) && tei_faster_second(faster))
		n = PIPELINES_MAX;
	round->chunk = chunk;
	for (round->n = 0; round->n < n; round->n++)
		if (!open_pipeline(chunk, round->n, n,
				   &round->pipelines[round->n]))
			break;
	if (round->n == n)
		return;
	(void)open_pipeline(chunk, 0, 1, &round->pipelines[0]);
	round->n = 1;
}

/* Collects the keys that are to be tried again; releases the works. */
static void close_round(struct round *round)
{
	struct tes_put_chunk *chunk = round->chunk;
	size_t n_accepted = 0, n_there = 0, i;

	for (i = 0; i < round->n; i++) {
		const struct tes_put_pipeline *p = &round->pipelines[i];

		n_accepted += p->n_accepted;
		n_there += p->n_there;
		chunk->n_full += p->n_full;
		memmove(chunk->next + chunk->n_next, p->next,
			p->n_next * sizeof(chunk->next[0]));
		chunk->n_next += p->n_next;
		if (p->retry_ms > chunk->retry_ms)
			chunk->retry_ms = p->retry_ms;
	}
	if (n_accepted && n_there && chunk->call.values)
		put_find_same(round);
	for (i = 1; i < round->n; i++)
		tes_work_put(&chunk->call.store->works,
			     round->pipelines[i].work);
	tes_work_next_round(chunk->work);
}

static void learn(const struct round *round, uint64_t ns)
{
	const struct tes_put_chunk *chunk = round->chunk;
	uint64_t bytes = 0;
	size_t i;

	for (i = 0; i < chunk->n_todo; i++)
		bytes += chunk->items[chunk->todo[i]].size;
	tei_faster_learn(&chunk->call.store->put_pipelines, round->n > 1,
			 chunk->n_todo, bytes, ns);
}

static void run_round(struct tes_put_chunk *chunk)
{
	uint64_t begin = tei_now_ns();
	struct round round;

	chunk->n_next = chunk->n_full = chunk->retry_ms = 0;
	open_round(chunk, &round);
	run_pipelines(round.pipelines, round.n);
	if (may_use_two(chunk))
		learn(&round, tei_now_ns() - begin);
	close_round(&round);
}

/* ---- a chunk: rounds until no key is to be tried again ---- */

/*
 * Space comes back when fences are confirmed and leases end; the master says
 * when it is worth asking again. False: the pool is full.
 */
static bool wait_for_space(struct tes_put_chunk *chunk)
{
	uint64_t now = tei_now_ns(), rest, wait;
	struct timespec until;

	if (!chunk->full_since_ns)
		chunk->full_since_ns = now;
	if (!chunk->retry_ms || now - chunk->full_since_ns >= SPACE_WAIT_NS)
		return false;
	rest = chunk->full_since_ns + SPACE_WAIT_NS - now;
	wait = chunk->retry_ms * TEI_NS_PER_MS;
	now += wait < rest ? wait : rest;
	until.tv_sec = (time_t)(now / TEI_NS_PER_S);
	until.tv_nsec = (long)(now % TEI_NS_PER_S);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) ==
	       EINTR)
		;
	return true;
}

static void run_rounds(struct tes_put_chunk *chunk)
{
	uint32_t *old;

	while (chunk->n_todo) {
		run_round(chunk);
		if (chunk->n_full && chunk->n_full == chunk->n_next &&
		    !wait_for_space(chunk))
			break;
		old = chunk->todo;
		chunk->todo = chunk->next;
		chunk->next = old;
		chunk->n_todo = chunk->n_next;
		/* Relaxed: a number for people. */
		if (chunk->n_todo)
			atomic_fetch_add_explicit(
				&chunk->call.store->n_put_retries,
				chunk->n_todo, memory_order_relaxed);
	}
}

/* Returns the size in bytes; 0: it is not valid. */
static uint64_t size_of(const struct tes_put_chunk *chunk, size_t i)
{
	if (chunk->call.values)
		return tes_value_bytes(&chunk->call.values[i]);
	return chunk->call.sizes[i] <= TE_STORE_VALUE_MAX ? chunk->call.sizes[i]
							  : 0;
}

static int prepare_chunk(struct tes_put_chunk *chunk)
{
	const struct tes_named named = {
		.values = chunk->call.values,
		.n = chunk->call.values ? chunk->call.n : 0,
	};
	struct tei_arena *arena = &chunk->work->call;
	bool *bad = tei_arena_calloc(arena, chunk->call.n, sizeof(*bad));
	size_t i;

	chunk->items =
		tei_arena_calloc(arena, chunk->call.n, sizeof(chunk->items[0]));
	chunk->todo =
		tei_arena_alloc(arena, chunk->call.n * sizeof(chunk->todo[0]));
	chunk->next =
		tei_arena_alloc(arena, chunk->call.n * sizeof(chunk->next[0]));
	if (!bad || !chunk->items || !chunk->todo || !chunk->next)
		return TE_STORE_INTERNAL_ERROR;
	tes_addresses_check(&chunk->call.store->addresses, &named, bad);
	for (i = 0; i < chunk->call.n; i++) {
		chunk->items[i].size = size_of(chunk, i);
		chunk->call.results[i] = TE_STORE_INVALID_PARAMS;
		if (tes_key_holds(&chunk->call.keys[i]) &&
		    chunk->items[i].size && !bad[i])
			chunk->todo[chunk->n_todo++] = (uint32_t)i;
	}
	return 0;
}

static void run_chunk(struct tes_put_chunk *chunk)
{
	const struct tes_put_call *call = &chunk->call;
	size_t i;

	chunk->work = tes_work_get(&call->store->works, call->n);
	if (!chunk->work || prepare_chunk(chunk)) {
		for (i = 0; i < call->n; i++)
			call->results[i] = TE_STORE_INTERNAL_ERROR;
		tes_work_put(&call->store->works, chunk->work);
		return;
	}
	run_rounds(chunk);
	for (i = 0; i < call->n; i++)
		if (chunk->items[i].same)
			call->results[i] =
				call->results[chunk->items[i].same - 1];
	tes_work_put(&call->store->works, chunk->work);
}

/* ---- a call ---- */

/* Takes the keys of @call from @from on, as many as go in one message. */
static struct tes_put_chunk chunk_of(const struct tes_put_call *call,
				     size_t from)
{
	struct tes_put_chunk chunk = {.call = *call};

	chunk.call.keys += from;
	chunk.call.results += from;
	if (call->values)
		chunk.call.values += from;
	else
		chunk.call.sizes += from;
	if (call->how && call->how->n_group_ids)
		chunk.groups = call->how->group_ids + from;
	chunk.call.n = tes_chunk(call->keys, from, call->n);
	return chunk;
}

int tes_put_run(const struct tes_put_call *call)
{
	size_t from, len;

	if (!tes_keys_given(call->store, call->keys, call->n, call->results) ||
	    (call->n && !call->values && !call->sizes) ||
	    !tes_replicate_holds(call->how, call->n))
		return TE_STORE_INVALID_PARAMS;
	for (from = 0; from < call->n; from += len) {
		struct tes_put_chunk chunk = chunk_of(call, from);

		len = chunk.call.n;
		run_chunk(&chunk);
	}
	return tes_first_code(call->results, call->n);
}

static int put_values(struct te_store *store, const struct te_store_key *keys,
		      const struct te_store_value *values, size_t n,
		      const struct te_store_replicate *how, bool upsert,
		      int *results)
{
	const struct tes_put_call call = {
		.store = store,
		.keys = keys,
		.values = values,
		.how = how,
		.upsert = upsert,
		.results = results,
		.n = n,
	};

	return tes_put_run(&call);
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
