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
static int set_groups(struct tei_put *put, Store__PutStart *msg)
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

static int fill(struct tei_put *put, Store__PutStart *msg)
{
	struct tei_arena *arena = &put->work->round;
	struct tei_key_column column;
	size_t n = put->n_todo, i;

	msg->sizes = tei_arena_alloc(arena, n * sizeof(msg->sizes[0]));
	if (!msg->sizes || set_groups(put, msg) ||
	    tei_key_column_init(&column, arena, n,
				tei_keys_bytes(put->keys, put->n)))
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		const struct te_store_key *key = &put->keys[put->todo[i]];

		tei_key_column_add(&column, key->bytes, key->len);
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

static int take_layouts(struct tei_put *put, const uint64_t *sizes)
{
	const Store__PutStartReply *m = put->start;
	struct tei_arena *arena = &put->work->round;
	const struct tei_columns columns = {
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
	struct tei_layout *layouts =
		tei_arena_alloc(arena, put->n_todo * sizeof(*layouts));
	size_t i;
	int rc;

	if (!layouts)
		return -ENOMEM;
	rc = tei_layouts_decode(&columns, arena, 0, layouts);
	for (i = 0; i < put->n_todo && !rc; i++)
		put->entries[i].layout = layouts[i];
	return rc;
}

static int take_entries(struct tei_put *put, uint64_t digest_seed)
{
	struct tei_arena *arena = &put->work->round;
	size_t i;

	for (i = 0; i < put->n_todo; i++) {
		struct tei_put_entry *entry = &put->entries[i];
		const struct te_store_key *key = &put->keys[put->todo[i]];

		entry->item = put->todo[i];
		put->items[entry->item].digest =
			tei_key_digest(key->bytes, key->len, digest_seed);
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

int tei_put_start(struct tei_put *put)
{
	struct tei_arena *arena = &put->work->round;
	Store__PutStart msg = STORE__PUT_START__INIT;
	Store__Replicate how = STORE__REPLICATE__INIT;
	struct tei_reply reply;
	int code;

	put->entries =
		tei_arena_calloc(arena, put->n_todo, sizeof(put->entries[0]));
	if (!put->entries || fill(put, &msg))
		return TE_STORE_INTERNAL_ERROR;
	if (put->how) {
		set_how(put->how, &how);
		msg.how = &how;
	}
	put->t0 = tei_now_ns();
	code = tei_store_call(put->store, STORE__STORE_TYPE__STORE_PUT_START,
			      &msg.base, arena, tei_call_deadline(put->store),
			      &reply);
	if (code)
		return code;
	put->start = store__put_start_reply__unpack(&arena->pb, reply.len,
						    reply.body);
	if (!put->start)
		return tei_bad_reply("put start");
	code = take_layouts(put, msg.sizes);
	if (!code)
		code = take_entries(put, reply.digest_seed);
	if (code == -EBADMSG)
		return tei_bad_reply("put start");
	return code ? TE_STORE_INTERNAL_ERROR : 0;
}

/* ---- a key twice in one call ---- */

static bool same_key(const struct tei_put *put, uint32_t a, uint32_t b)
{
	const struct te_store_key *x = &put->keys[a], *y = &put->keys[b];

	return x->len == y->len && memcmp(x->bytes, y->bytes, x->len) == 0;
}

void tei_put_find_same(struct tei_put *put)
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
