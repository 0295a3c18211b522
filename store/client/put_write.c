/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put_write.c - the writes of a put, and its end at the master
 *
 * All extents of all replicas are written, as many at a time as fit one batch
 * (a run). A replica is written when all its extents are. For one that is not,
 * the end says whether anything can still arrive in its space. One replica is
 * enough. A key without any is revoked; where something may still arrive, the
 * master has this writer fenced before it uses that space again.
 */
#include <errno.h>

#include "base/log.h"
#include "store/client/put.h"
#include "store/proto/extent.h"
#include "store/proto/keys.h"

/* ---- what an operator is told ---- */

static void tell_failed(const struct tes_place *place, const char *what,
			int error)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_allowed(&limit))
		LOG_WARN("put: owner %s: %s: %s", place->name, what,
			 te_strerror(error));
}

static void tell_given_up(const char *why)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_allowed(&limit))
		LOG_WARN("put: given up: %s", why);
}

/* ---- requests to the engine ---- */

static int add_extent(struct tes_put_pipeline *p, struct tes_put_entry *entry,
		      uint32_t k, const struct tes_place *place)
{
	const struct tes_extent_at *x = &entry->layout.extents[k];
	const struct tes_put_item *item = &p->chunk->items[entry->item];
	const struct tes_extent_header header = {
		.gen_epoch = p->epoch,
		.generation = entry->generation,
		.digest = item->digest,
		.object_size = item->size,
		.offset = x->offset,
		.length = x->length,
		.index = x->index,
		.count = x->count,
	};
	struct tes_work *work = p->work;
	struct te_request *req;
	uint8_t *room = work->headers[work->n];

	entry->extents[k].request = work->n;
	if (p->chunk->call.values)
		req = tes_work_add(work, TE_WRITE,
				   &p->chunk->call.values[entry->item],
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

static void plan_entry(struct tes_put_pipeline *p, struct tes_put_entry *entry)
{
	struct tes_places *places = &p->places;
	uint32_t k;

	p->chunk->items[entry->item].tries++;
	for (k = 0; k < entry->layout.n_extents; k++) {
		uint32_t at = entry->layout.extents[k].place;
		int code = 0;

		if (tes_places_open(places, at)) {
			tell_failed(&places->at[at], "cannot be reached",
				    places->at[at].error);
			code = TE_STORE_TRANSFER_FAIL;
		} else if (places->at[at].since_ns > p->t0 &&
			   places->at[at].epoch != 1) {
			entry->again = true;
		} else {
			code = add_extent(p, entry, k, &places->at[at]);
		}
		if (code)
			tes_put_set_result(p, entry->item, code);
	}
}

/* ---- results of the requests ---- */

/*
 * Tells whether another start may succeed where a write failed: its epoch was
 * ended by a fence, its owner is a new process, or was silent, so that another
 * start chooses another owner.
 */
static bool may_succeed_again(const struct tes_put_pipeline *p,
			      const struct tes_put_entry *entry,
			      const struct te_completion *done)
{
	if (done->error == -ESTALE)
		return done->flags & TE_REMOTE_QUIET;
	return done->error == -ECANCELED &&
	       p->chunk->items[entry->item].tries == 1;
}

static void judge_failed(struct tes_put_pipeline *p,
			 struct tes_put_entry *entry,
			 struct tes_put_extent *extent, struct tes_place *place,
			 const struct te_completion *done)
{
	bool again = may_succeed_again(p, entry, done);
	int code = tes_store_code(done->error);

	if (tes_work_is_local_fault(p->work, extent->request, done->error))
		code = TE_STORE_INVALID_PARAMS;
	else if (!again)
		tell_failed(place, "a write failed", done->error);
	tes_put_set_result(p, entry->item, code);
	place->stale |= done->error == -ESTALE;
	place->gone |= done->error == -ENOENT;
	extent->fate =
		done->flags & TE_REMOTE_QUIET ? TES_PUT_QUIET : TES_PUT_LOUD;
	entry->again |= again;
}

static void judge_extent(struct tes_put_pipeline *p,
			 struct tes_put_entry *entry, uint32_t k,
			 struct tes_place *place)
{
	struct tes_put_extent *extent = &entry->extents[k];
	struct te_completion done;

	tes_work_result(p->work, extent->request, &done);
	if (done.error) {
		judge_failed(p, entry, extent, place, &done);
		return;
	}
	entry->layout.extents[k].crc = done.crc;
	extent->fate = TES_PUT_WRITTEN;
}

/* Derives the masks of replicas from the fates of their extents. */
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

static void judge_entry(struct tes_put_pipeline *p, struct tes_put_entry *entry,
			int rc)
{
	uint32_t k;

	for (k = 0; k < entry->layout.n_extents; k++) {
		struct tes_put_extent *extent = &entry->extents[k];
		uint32_t place = entry->layout.extents[k].place;

		if (extent->fate != TES_PUT_SENT)
			continue;
		if (!rc) {
			judge_extent(p, entry, k, &p->places.at[place]);
			continue;
		}
		/* No request began. */
		tes_put_set_result(p, entry->item, tes_store_code(rc));
		extent->fate = TES_PUT_QUIET;
	}
	set_masks(entry);
}

/* ---- runs ---- */

/* The end of the run that begins at entry @from; *@n: its requests. */
static size_t find_end(const struct tes_put_pipeline *p, size_t from, size_t *n)
{
	size_t i;

	*n = 0;
	for (i = from; i < p->n; i++) {
		size_t more = p->entries[i].layout.n_extents;

		if (i > from && *n + more > TES_WORK_MAX)
			break;
		*n += more;
	}
	return i;
}

/* Posts requests @from .. @to - 1 of @n. */
static void post_run(struct tes_put_pipeline *p, size_t from, size_t to,
		     size_t n)
{
	size_t i;

	p->posted = tes_work_next_run(p->work, n);
	for (i = from; i < to && !p->posted; i++)
		if (p->entries[i].accepted)
			plan_entry(p, &p->entries[i]);
	if (!p->posted)
		p->posted = tes_work_post(p->work, &p->places);
}

static void await_run(struct tes_put_pipeline *p, size_t from, size_t to)
{
	int rc = p->posted ? p->posted : tes_work_await(p->work, &p->places);
	size_t i;

	for (i = from; i < to; i++) {
		if (!p->entries[i].accepted)
			continue;
		if (rc)
			tes_put_set_result(p, p->entries[i].item,
					   tes_store_code(rc));
		judge_entry(p, &p->entries[i], rc);
	}
}

void tes_put_write_begin(struct tes_put_pipeline *p)
{
	size_t n;

	p->in_parts = find_end(p, 0, &n) < p->n;
	if (!p->in_parts)
		post_run(p, 0, p->n, n);
}

void tes_put_write_await(struct tes_put_pipeline *p)
{
	size_t from, to, n;

	if (!p->in_parts) {
		await_run(p, 0, p->n);
		return;
	}
	for (from = 0; from < p->n; from = to) {
		to = find_end(p, from, &n);
		post_run(p, from, to, n);
		await_run(p, from, to);
	}
}

/* ---- the end ---- */

#define TRIES 3 /* starts of one key */

/* An end under way: the message, and the entries that it names. */
struct tes_put_ending {
	Store__PutEnd msg;
	uint32_t *which; /* which[n]: entries */
	size_t n;
};

static void fail_end(struct tes_put_pipeline *p,
		     const struct tes_put_ending *end, int code)
{
	size_t i;

	for (i = 0; i < end->n; i++)
		tes_put_set_result(p, p->entries[end->which[i]].item, code);
}

/*
 * True: the master took this client for dead for a while, and somebody else
 * writes the key now. Whether that one succeeds, a new start tells. Drafts do
 * not start again.
 */
static bool lost_to_another(const struct tes_put_pipeline *p, int status)
{
	return status == TE_STORE_ILLEGAL_CLIENT && p->chunk->call.values;
}

static bool has_tries(const struct tes_put_pipeline *p, uint32_t item)
{
	return p->chunk->items[item].tries < TRIES;
}

/* The master's answer to the end of a key that was written. */
static void judge_end(struct tes_put_pipeline *p, uint32_t item, int status)
{
	bool again = false;

	switch (status) {
	case 0:
		tes_put_set_result(p, item, 0);
		return;
	case TE_STORE_INVALID_WRITE:
		/*
		 * The key has another value by now, perhaps offered by its
		 * owner to a new master: a put leaves it, an upsert replaces
		 * that one as well.
		 */
		again = p->chunk->call.upsert;
		tes_put_set_result(p, item, again ? TE_STORE_TRANSFER_FAIL : 0);
		if (!again)
			return;
		break;
	case TE_STORE_INVALID_VERSION: /* has a later epoch since the start */
		again = p->chunk->call.values;
		tes_put_set_result(p, item, TE_STORE_TRANSFER_FAIL);
		break;
	default: /* has given the space to others meanwhile */
		again = lost_to_another(p, status);
		tes_put_set_result(p, item, TE_STORE_TRANSFER_FAIL);
	}
	if (again && has_tries(p, item))
		tes_put_again(p, item);
	else
		tell_given_up(te_store_strerror(status));
}

static void set_end_result(struct tes_put_pipeline *p,
			   const struct tes_put_entry *entry, int status)
{
	uint32_t item = entry->item;

	if (entry->written) {
		judge_end(p, item, status);
	} else if (entry->again) {
		tes_put_set_result(p, item, TE_STORE_TRANSFER_FAIL);
		if (has_tries(p, item))
			tes_put_again(p, item);
		else
			tell_given_up(
				"an owner has ended our access each time");
	}
}

/* ---- the message ---- */

static size_t list_accepted(const struct tes_put_pipeline *p,
			    struct tes_put_ending *end)
{
	size_t n_entries = 0, i;

	for (i = 0; i < p->n; i++) {
		const struct tes_put_entry *entry = &p->entries[i];

		if (!entry->accepted)
			continue;
		end->which[end->n++] = (uint32_t)i;
		n_entries += entry->layout.n_extents;
	}
	return n_entries;
}

static int alloc_columns(struct tes_put_ending *end, struct tei_arena *arena,
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

/* Leaves out columns that hold only defaults. */
static void fill_end_entries(const struct tes_put_pipeline *p,
			     struct tes_put_ending *end)
{
	Store__PutEnd *m = &end->msg;
	bool loud = false, several = false, no_crc = false;
	size_t i;
	uint32_t k;

	for (i = 0; i < end->n; i++) {
		const struct tes_put_entry *entry = &p->entries[end->which[i]];
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
	m->epoch = p->epoch;
}

static const struct te_store_key *key_at(const struct tes_put_pipeline *p,
					 const struct tes_put_ending *end,
					 size_t i)
{
	return &p->chunk->call.keys[p->entries[end->which[i]].item];
}

static int prepare_end(struct tes_put_pipeline *p, struct tes_put_ending *end)
{
	struct tei_arena *arena = &p->work->round;
	struct tes_key_column column;
	size_t n_entries, bytes = 0, i;

	store__put_end__init(&end->msg);
	end->which = tei_arena_alloc(arena, p->n * sizeof(uint32_t));
	if (!end->which)
		return -ENOMEM;
	n_entries = list_accepted(p, end);
	for (i = 0; i < end->n; i++)
		bytes += key_at(p, end, i)->len;
	if (alloc_columns(end, arena, n_entries) ||
	    tes_key_column_init(&column, arena, end->n, bytes))
		return -ENOMEM;
	for (i = 0; i < end->n; i++) {
		const struct te_store_key *key = key_at(p, end, i);

		tes_key_column_add(&column, key->bytes, key->len);
	}
	end->msg.keys = column.bytes;
	end->msg.key_lens = column.lens;
	end->msg.n_key_lens = column.n;
	fill_end_entries(p, end);
	return 0;
}

/* ---- the call ---- */

/* Notes that the master, for want of memory, was told no end. Drafts are left
 * out: no start follows that could tell it. */
static void note_unended(const struct tes_put_pipeline *p)
{
	if (p->chunk->call.values)
		tes_put_note_lost(p);
}

void tes_put_end_begin(struct tes_put_pipeline *p)
{
	struct tei_arena *arena = &p->work->round;
	struct tes_put_ending *end = tei_arena_calloc(arena, 1, sizeof(*end));
	size_t i;

	p->ending = NULL;
	if (!end || prepare_end(p, end)) {
		for (i = 0; i < p->n; i++)
			if (p->entries[i].accepted)
				tes_put_set_result(p, p->entries[i].item,
						   TE_STORE_INTERNAL_ERROR);
		note_unended(p);
		return;
	}
	if (!end->n)
		return;
	p->ending = end;
	tes_store_ask(p->chunk->call.store, STORE__STORE_TYPE__STORE_PUT_END,
		      &end->msg.base, arena,
		      tes_call_deadline(p->chunk->call.store), &p->asked);
}

void tes_put_end_await(struct tes_put_pipeline *p)
{
	struct tes_put_ending *end = p->ending;
	Store__PutEndReply *answer;
	struct tes_reply reply;
	size_t i;
	int code;

	if (!end)
		return;
	code = tes_store_answered(p->chunk->call.store, &p->asked, &reply);
	if (code == TE_STORE_INTERNAL_ERROR)
		note_unended(p);
	if (code) {
		fail_end(p, end, code);
		return;
	}
	answer = store__put_end_reply__unpack(&p->work->round.pb, reply.len,
					      reply.body);
	if (!answer || answer->n_status != end->n) {
		fail_end(p, end, tes_bad_reply("put end"));
		return;
	}
	for (i = 0; i < end->n; i++)
		set_end_result(p, &p->entries[end->which[i]],
			       answer->status[i]);
}
