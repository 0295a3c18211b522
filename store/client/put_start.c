/* SPDX-License-Identifier: Apache-2.0 */
/* put_start.c - ask the master for extents */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "store/client/put.h"
#include "store/proto/extent.h"
#include "store/proto/keys.h"

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

static int fill(struct tes_put *put, Store__PutStart *msg)
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

static int prepare(struct tes_put *put)
{
	struct tei_arena *arena = &put->work->round;

	put->entries =
		tei_arena_calloc(arena, put->n_todo, sizeof(put->entries[0]));
	put->ask = tei_arena_alloc(arena, sizeof(*put->ask));
	if (!put->entries || !put->ask)
		return -ENOMEM;
	store__put_start__init(put->ask);
	return fill(put, put->ask) || take_how(put) ? -ENOMEM : 0;
}

void tes_put_start(struct tes_put *put)
{
	put->code = prepare(put) ? TE_STORE_INTERNAL_ERROR : 0;
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

void tes_put_started(struct tes_put *put)
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

void tes_put_find_same(const struct tes_put *lanes, size_t n_lanes)
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
