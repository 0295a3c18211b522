/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put_end.c - tell the master which replicas are there
 *
 * One is enough. A key without any is revoked; where something may still
 * arrive the master has us fenced before it uses that space again.
 */
#include <errno.h>

#include "base/log.h"
#include "store/client/put.h"
#include "store/proto/keys.h"

#define TRIES 3 /* starts of one key */

/* What travels, and whose it is. */
struct tes_put_ending {
	Store__PutEnd msg;
	uint32_t *which; /* which[n]: entries */
	size_t n;
};

static void fail(struct tes_put *put, const struct tes_put_ending *end,
		 int code)
{
	size_t i;

	for (i = 0; i < end->n; i++)
		put->results[put->entries[end->which[i]].item] = code;
}

static void settle(struct tes_put *put, const struct tes_put_entry *entry,
		   int status)
{
	uint32_t item = entry->item;

	if (entry->written && status == TE_STORE_INVALID_WRITE) {
		/*
		 * Another value of this key is there by now, perhaps offered
		 * by its owner to a new master: a put leaves it, an upsert
		 * replaces that one as well.
		 */
		put->results[item] = put->upsert ? TE_STORE_TRANSFER_FAIL : 0;
		if (put->upsert && put->items[item].tries < TRIES)
			tes_put_again(put, item);
	} else if (entry->written) {
		/* Too late: the master has given the space to others. */
		put->results[item] = status ? TE_STORE_TRANSFER_FAIL : 0;
		if (status)
			LOG_DEBUG("put: end refused: %s",
				  te_store_strerror(status));
	} else if (entry->again) {
		put->results[item] = TE_STORE_TRANSFER_FAIL;
		if (put->items[item].tries < TRIES)
			tes_put_again(put, item);
	}
}

/* ---- the message ---- */

static size_t count(const struct tes_put *put, struct tes_put_ending *end)
{
	size_t n_entries = 0, i;

	for (i = 0; i < put->n_todo; i++) {
		const struct tes_put_entry *entry = &put->entries[i];

		if (!entry->accepted)
			continue;
		end->which[end->n++] = (uint32_t)i;
		n_entries += entry->layout.n_extents;
	}
	return n_entries;
}

static int take_columns(struct tes_put_ending *end, struct tei_arena *arena,
			size_t n_entries)
{
	Store__PutEnd *m = &end->msg;

	m->generation =
		tei_arena_alloc(arena, end->n * sizeof(m->generation[0]));
	m->written = tei_arena_alloc(arena, end->n * sizeof(m->written[0]));
	m->quiet = tei_arena_alloc(arena, end->n * sizeof(m->quiet[0]));
	m->extents = tei_arena_alloc(arena, end->n * sizeof(m->extents[0]));
	m->no_crc = tei_arena_alloc(arena, end->n * sizeof(m->no_crc[0]));
	m->crc = tei_arena_alloc(arena, n_entries * sizeof(m->crc[0]));
	return m->generation && m->written && m->quiet && m->extents &&
			       m->no_crc && m->crc
		       ? 0
		       : -ENOMEM;
}

/* Columns that say nothing are left out. */
static void fill(const struct tes_put *put, struct tes_put_ending *end)
{
	Store__PutEnd *m = &end->msg;
	bool loud = false, several = false, no_crc = false;
	size_t i;
	uint32_t k;

	for (i = 0; i < end->n; i++) {
		const struct tes_put_entry *entry =
			&put->entries[end->which[i]];
		const struct tes_layout *layout = &entry->layout;

		m->generation[i] = entry->generation;
		m->written[i] = entry->written;
		m->quiet[i] = entry->quiet;
		m->extents[i] = layout->n_extents;
		m->no_crc[i] = entry->no_crc;
		for (k = 0; k < layout->n_extents; k++)
			m->crc[m->n_crc++] = layout->extents[k].crc;
		loud |= (entry->written | entry->quiet) != tes_put_all(layout);
		several |= layout->n_extents != 1;
		no_crc |= entry->no_crc;
	}
	m->n_generation = m->n_written = end->n;
	m->n_quiet = loud ? end->n : 0;
	m->n_extents = several ? end->n : 0;
	m->n_no_crc = no_crc ? end->n : 0;
	m->epoch = put->epoch;
}

static const struct te_store_key *
key_at(const struct tes_put *put, const struct tes_put_ending *end, size_t i)
{
	return &put->keys[put->entries[end->which[i]].item];
}

static int prepare(struct tes_put *put, struct tes_put_ending *end)
{
	struct tei_arena *arena = &put->work->round;
	struct tes_key_column column;
	size_t n_entries, bytes = 0, i;

	store__put_end__init(&end->msg);
	end->which = tei_arena_alloc(arena, put->n_todo * sizeof(uint32_t));
	if (!end->which)
		return -ENOMEM;
	n_entries = count(put, end);
	for (i = 0; i < end->n; i++)
		bytes += key_at(put, end, i)->len;
	if (take_columns(end, arena, n_entries) ||
	    tes_key_column_init(&column, arena, end->n, bytes))
		return -ENOMEM;
	for (i = 0; i < end->n; i++) {
		const struct te_store_key *key = key_at(put, end, i);

		tes_key_column_add(&column, key->bytes, key->len);
	}
	end->msg.keys = column.bytes;
	end->msg.key_lens = column.lens;
	end->msg.n_key_lens = column.n;
	fill(put, end);
	return 0;
}

/* ---- the call ---- */

void tes_put_end(struct tes_put *put)
{
	struct tei_arena *arena = &put->work->round;
	struct tes_put_ending *end = tei_arena_calloc(arena, 1, sizeof(*end));
	size_t i;

	put->ending = NULL;
	if (!end || prepare(put, end)) {
		for (i = 0; i < put->n_todo; i++)
			if (put->entries[i].accepted)
				put->results[put->entries[i].item] =
					TE_STORE_INTERNAL_ERROR;
		return;
	}
	if (!end->n)
		return;
	put->ending = end;
	tes_store_ask(put->store, STORE__STORE_TYPE__STORE_PUT_END,
		      &end->msg.base, arena, tes_call_deadline(put->store),
		      &put->asked);
}

void tes_put_ended(struct tes_put *put)
{
	struct tes_put_ending *end = put->ending;
	Store__PutEndReply *answer;
	struct tes_reply reply;
	size_t i;
	int code;

	if (!end)
		return;
	code = tes_store_answered(put->store, &put->asked, &reply);
	if (code) {
		fail(put, end, code);
		return;
	}
	answer = store__put_end_reply__unpack(&put->work->round.pb, reply.len,
					      reply.body);
	if (!answer || answer->n_status != end->n) {
		fail(put, end, tes_bad_reply("put end"));
		return;
	}
	for (i = 0; i < end->n; i++)
		settle(put, &put->entries[end->which[i]], answer->status[i]);
}
