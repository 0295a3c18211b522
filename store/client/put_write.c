/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put_write.c - write all extents of all replicas, as many at a time as fit
 *
 * A replica is there when all its extents are. Of one that is not, the master
 * must know whether anything can still arrive in its space.
 */
#include <errno.h>

#include "base/log.h"
#include "store/client/put.h"
#include "store/proto/extent.h"
#include "store/proto/keys.h"

/* ---- asking the engine ---- */

static int add_extent(struct tes_put *put, struct tes_put_entry *entry,
		      uint32_t k, const struct tes_place *place)
{
	const struct tes_extent_at *x = &entry->layout.extents[k];
	const struct tes_put_item *item = &put->items[entry->item];
	const struct tes_extent_header header = {
		.gen_epoch = put->epoch,
		.generation = entry->generation,
		.digest = item->digest,
		.object_size = item->size,
		.offset = x->offset,
		.length = x->length,
		.index = x->index,
		.count = x->count,
	};
	struct tes_work *work = put->work;
	struct te_request *req;
	uint8_t *room = work->headers[work->n];

	entry->extents[k].request = work->n;
	if (put->values)
		req = tes_work_add(work, TE_WRITE, &put->values[entry->item],
				   x->offset, x->length);
	else
		req = tes_work_add_plain(work, TE_WRITE, room,
					 TES_EXTENT_HEADER_LEN);
	if (!req)
		return TE_STORE_INTERNAL_ERROR;
	tes_extent_encode(&header, room);
	req->segment = place->owner->segment;
	req->remote = x->address;
	req->epoch = place->epoch;
	entry->extents[k].fate = TES_PUT_SENT;
	return 0;
}

static void plan_entry(struct tes_put *put, struct tes_put_entry *entry,
		       struct tes_places *places)
{
	uint32_t k;

	put->items[entry->item].tries++;
	for (k = 0; k < entry->layout.n_extents; k++) {
		uint32_t at = entry->layout.extents[k].place;
		int code = 0;

		if (tes_places_open(places, at))
			code = TE_STORE_TRANSFER_FAIL;
		else if (places->at[at].since_ns > put->t0 &&
			 places->at[at].epoch != 1)
			entry->again = true;
		else
			code = add_extent(put, entry, k, &places->at[at]);
		if (code)
			put->results[entry->item] = code;
	}
}

/* ---- what became of it ---- */

static void judge_extent(struct tes_put *put, struct tes_put_entry *entry,
			 uint32_t k, struct tes_place *place)
{
	struct tes_put_extent *extent = &entry->extents[k];
	struct te_completion done;

	tes_work_result(put->work, extent->request, &done);
	if (!done.error) {
		entry->layout.extents[k].crc = done.crc;
		extent->fate = TES_PUT_WRITTEN;
		return;
	}
	put->results[entry->item] = tes_store_code(done.error);
	place->stale |= done.error == -ESTALE;
	place->gone |= done.error == -ENOENT;
	if (!(done.flags & TE_REMOTE_QUIET))
		extent->fate = TES_PUT_LOUD;
	else
		extent->fate = TES_PUT_QUIET;
	/* Fenced, or the owner is new. */
	if (done.error == -ESTALE && extent->fate == TES_PUT_QUIET)
		entry->again = true;
	/* Tried once more after a silent owner: the master chooses another. */
	if (done.error == -ECANCELED && put->items[entry->item].tries == 1)
		entry->again = true;
}

/* Sums the fates of extents up to those of replicas. */
static void set_masks(struct tes_put_entry *entry)
{
	uint32_t missing = 0, loud = 0, k;

	for (k = 0; k < entry->layout.n_extents; k++) {
		uint32_t bit = 1u << entry->layout.extents[k].replica;

		if (entry->extents[k].fate != TES_PUT_WRITTEN)
			missing |= bit;
		if (entry->extents[k].fate == TES_PUT_LOUD)
			loud |= bit;
	}
	entry->written = tes_put_all(&entry->layout) & ~missing;
	entry->quiet = missing & ~loud;
}

static void judge_entry(struct tes_put *put, struct tes_put_entry *entry,
			struct tes_places *places, int rc)
{
	uint32_t k;

	for (k = 0; k < entry->layout.n_extents; k++) {
		if (entry->extents[k].fate != TES_PUT_SENT)
			continue;
		if (!rc) {
			judge_extent(
				put, entry, k,
				&places->at[entry->layout.extents[k].place]);
			continue;
		}
		/* None began. */
		put->results[entry->item] = tes_store_code(rc);
		entry->extents[k].fate = TES_PUT_QUIET;
	}
	set_masks(entry);
}

/* ---- in runs ---- */

/* Entries from @from on that fit one run; *@n requests in all. */
static size_t find_end(const struct tes_put *put, size_t from, size_t *n)
{
	size_t i;

	*n = 0;
	for (i = from; i < put->n_todo; i++) {
		size_t more = put->entries[i].layout.n_extents;

		if (i > from && *n + more > TES_WORK_MAX)
			break;
		*n += more;
	}
	return i;
}

/* Posts requests @from .. @to - 1 of @n. */
static void post(struct tes_put *put, struct tes_places *places, size_t from,
		 size_t to, size_t n)
{
	size_t i;

	put->posted = tes_work_next_run(put->work, n);
	for (i = from; i < to && !put->posted; i++)
		if (put->entries[i].accepted)
			plan_entry(put, &put->entries[i], places);
	if (!put->posted)
		put->posted = tes_work_post(put->work, places);
}

static void await(struct tes_put *put, struct tes_places *places, size_t from,
		  size_t to)
{
	int rc = put->posted ? put->posted : tes_work_await(put->work, places);
	size_t i;

	for (i = from; i < to; i++) {
		if (!put->entries[i].accepted)
			continue;
		if (rc)
			put->results[put->entries[i].item] = tes_store_code(rc);
		judge_entry(put, &put->entries[i], places, rc);
	}
}

void tes_put_write(struct tes_put *put, struct tes_places *places)
{
	size_t n;

	put->in_parts = find_end(put, 0, &n) < put->n_todo;
	if (!put->in_parts)
		post(put, places, 0, put->n_todo, n);
}

void tes_put_written(struct tes_put *put, struct tes_places *places)
{
	size_t from, to, n;

	if (!put->in_parts) {
		await(put, places, 0, put->n_todo);
		return;
	}
	for (from = 0; from < put->n_todo; from = to) {
		to = find_end(put, from, &n);
		post(put, places, from, to, n);
		await(put, places, from, to);
	}
}

/*
 * The end: tells the master which replicas were written. One is enough. A key
 * without any is revoked; where something may still arrive, the master has this
 * writer fenced before it uses that space again.
 */

#define TRIES 3 /* starts of one key */

/* An end under way: the message, and the entries that it is about. */
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
static void fill_end_entries(const struct tes_put *put,
			     struct tes_put_ending *end)
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

static int prepare_end(struct tes_put *put, struct tes_put_ending *end)
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
	fill_end_entries(put, end);
	return 0;
}

/* ---- the call ---- */

void tes_put_end(struct tes_put *put)
{
	struct tei_arena *arena = &put->work->round;
	struct tes_put_ending *end = tei_arena_calloc(arena, 1, sizeof(*end));
	size_t i;

	put->ending = NULL;
	if (!end || prepare_end(put, end)) {
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
