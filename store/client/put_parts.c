/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put_parts.c - puts in parts: drafts, writes to ranges, commit, abort
 *
 * A draft's parts may be written in any order: draft.h says what is kept.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/client/client.h"
#include "store/client/draft.h"
#include "store/client/put.h"
#include "store/client/ranges.h"
#include "store/proto/extent.h"

int tes_drafts_init(struct tes_drafts *drafts, struct tes_owners *owners)
{
	drafts->owners = owners;
	tei_mutex_init(&drafts->mu);
	if (!tei_hash_init(&drafts->table))
		return 0;
	tei_mutex_fini(&drafts->mu);
	return -ENOMEM;
}

/* ---- one ---- */

/*
 * A draft of @layout's extents, whose places are indices into @places. It is in
 * no table. References to the owners are taken. NULL: no memory.
 */
static void draft_destroy(struct tes_drafts *drafts, struct tes_draft *draft)
{
	uint32_t i;

	if (!draft)
		return;
	for (i = 0; i < draft->n_places; i++)
		if (draft->places[i].owner)
			tes_owners_put(drafts->owners, draft->places[i].owner);
	tei_free(draft->parts);
	tei_free(draft->places);
	tei_free(draft->layout.extents);
	tei_free(draft->crc_to);
	tei_free(draft->key);
	tei_free(draft);
}

static void *copy_of(const void *bytes, size_t len)
{
	void *copy = tei_malloc(len ? len : 1);

	return copy ? memcpy(copy, bytes, len) : NULL;
}

static struct tes_draft *draft_create(struct tes_drafts *drafts,
				      const void *key, size_t key_len,
				      const struct tes_layout *layout,
				      const struct tes_draft_place *places,
				      uint32_t n_places)
{
	struct tes_draft *draft = tei_calloc(1, sizeof(*draft));
	uint32_t i;

	if (!draft)
		return NULL;
	draft->key = copy_of(key, key_len);
	draft->key_len = (uint32_t)key_len;
	draft->layout = *layout;
	draft->layout.extents =
		copy_of(layout->extents,
			layout->n_extents * sizeof(layout->extents[0]));
	draft->places = copy_of(places, n_places * sizeof(places[0]));
	draft->crc_to = tei_calloc(layout->n_extents, sizeof(*draft->crc_to));
	if (!draft->key || !draft->layout.extents || !draft->places ||
	    !draft->crc_to) {
		draft_destroy(drafts, draft);
		return NULL;
	}
	draft->n_places = n_places;
	for (i = 0; i < n_places; i++)
		if (places[i].owner)
			tes_owners_ref(drafts->owners, places[i].owner);
	return draft;
}

/* ---- all of them ---- */

static uint64_t hash_of(const void *key, size_t len)
{
	return tes_key_digest(key, len, 0);
}

static struct tes_draft *find_draft(struct tes_drafts *drafts, const void *key,
				    size_t len) TEI_REQUIRES(drafts->mu)
{
	struct tei_hash_node *node =
		tei_hash_first(&drafts->table, hash_of(key, len));

	for (; node; node = tei_hash_next(&drafts->table, node)) {
		struct tes_draft *draft =
			TEI_CONTAINER(node, struct tes_draft, node);

		if (draft->key_len == len && memcmp(draft->key, key, len) == 0)
			return draft;
	}
	return NULL;
}

static void destroy_node(struct tei_hash_node *node, void *arg)
{
	struct tes_drafts *drafts = arg;

	tei_hash_remove(&drafts->table, node);
	draft_destroy(drafts, TEI_CONTAINER(node, struct tes_draft, node));
}

void tes_drafts_fini(struct tes_drafts *drafts)
{
	size_t cursor = 0;

	while (drafts->table.n_nodes)
		if (!tei_hash_walk(&drafts->table, &cursor, 64, destroy_node,
				   drafts))
			cursor = 0;
	tei_hash_fini(&drafts->table);
	tei_mutex_fini(&drafts->mu);
}

/* -EEXIST: the key has one. */
static int drafts_add(struct tes_drafts *drafts, struct tes_draft *draft)
{
	int rc = -EEXIST;

	tei_mutex_lock(&drafts->mu);
	if (!find_draft(drafts, draft->key, draft->key_len)) {
		tei_hash_insert(&drafts->table, &draft->node,
				hash_of(draft->key, draft->key_len));
		rc = 0;
	}
	tei_mutex_unlock(&drafts->mu);
	return rc;
}

/* Finds a draft to write to, until drafts_leave(). NULL: there is none. */
static struct tes_draft *drafts_enter(struct tes_drafts *drafts,
				      const void *key, size_t key_len)
{
	struct tes_draft *draft;

	tei_mutex_lock(&drafts->mu);
	draft = find_draft(drafts, key, key_len);
	if (draft)
		draft->n_writers++;
	tei_mutex_unlock(&drafts->mu);
	return draft;
}

static void drafts_leave(struct tes_drafts *drafts, struct tes_draft *draft)
{
	tei_mutex_lock(&drafts->mu);
	draft->n_writers--;
	tei_mutex_unlock(&drafts->mu);
}

static bool is_whole(const struct tes_draft *draft)
{
	return draft->n_parts == 1 && !draft->parts[0].from &&
	       draft->parts[0].to == draft->size;
}

/*
 * Takes a draft out of the table: it is the caller's. -ENOENT, -EBUSY (somebody
 * writes), -ENODATA (@whole, and bytes are missing).
 */
static int drafts_take(struct tes_drafts *drafts, const void *key,
		       size_t key_len, bool whole, struct tes_draft **out)
{
	struct tes_draft *draft;
	int rc = 0;

	tei_mutex_lock(&drafts->mu);
	draft = find_draft(drafts, key, key_len);
	if (!draft)
		rc = -ENOENT;
	else if (draft->n_writers)
		rc = -EBUSY;
	else if (whole && draft->alive && !is_whole(draft))
		rc = -ENODATA;
	else
		tei_hash_remove(&drafts->table, &draft->node);
	tei_mutex_unlock(&drafts->mu);
	if (!rc)
		*out = draft;
	return rc;
}

/* ---- what is there ---- */

static int reserve_part(struct tes_draft *draft)
{
	size_t room = draft->room ? draft->room * 2 : 8;
	struct tes_draft_part *parts;

	if (draft->n_parts < draft->room)
		return 0;
	parts = tei_realloc(draft->parts, room * sizeof(*parts));
	if (!parts)
		return -ENOMEM;
	draft->parts = parts;
	draft->room = room;
	return 0;
}

/* Inserts a part; parts that touch or overlap it are merged into it. */
static void insert_part(struct tes_draft *draft, struct tes_draft_part part)
{
	struct tes_draft_part *parts = draft->parts;
	size_t first = 0, end;

	while (first < draft->n_parts && parts[first].to < part.from)
		first++;
	for (end = first; end < draft->n_parts && parts[end].from <= part.to;
	     end++) {
		if (parts[end].from < part.from)
			part.from = parts[end].from;
		if (parts[end].to > part.to)
			part.to = parts[end].to;
	}
	memmove(&parts[first + 1], &parts[end],
		(draft->n_parts - end) * sizeof(*parts));
	draft->n_parts = draft->n_parts - (end - first) + 1;
	parts[first] = part;
}

/* Notes that all replicas which are alive have these bytes. -ENOMEM. */
static int draft_note(struct tes_drafts *drafts, struct tes_draft *draft,
		      uint64_t from, uint64_t to)
{
	int rc;

	tei_mutex_lock(&drafts->mu);
	rc = reserve_part(draft);
	if (!rc)
		insert_part(draft, (struct tes_draft_part){from, to});
	tei_mutex_unlock(&drafts->mu);
	return rc;
}

/* Notes that a write to @replica has failed. */
static void draft_fail(struct tes_drafts *drafts, struct tes_draft *draft,
		       uint8_t replica, bool loud)
{
	tei_mutex_lock(&drafts->mu);
	draft->alive &= ~(1u << replica);
	if (loud)
		draft->loud |= 1u << replica;
	tei_mutex_unlock(&drafts->mu);
}

/* Returns the mask of replicas to write to. */
static uint32_t draft_alive(struct tes_drafts *drafts, struct tes_draft *draft)
{
	uint32_t alive;

	tei_mutex_lock(&drafts->mu);
	alive = draft->alive;
	tei_mutex_unlock(&drafts->mu);
	return alive;
}

/*
 * Notes that extent @k has @len bytes with this CRC from @from on. Unless the
 * parts of each extent come in order the draft goes without CRCs.
 */
static void draft_sum(struct tes_drafts *drafts, struct tes_draft *draft,
		      uint32_t k, uint64_t from, uint64_t len, uint32_t crc)
{
	struct tes_extent_at *x = &draft->layout.extents[k];

	tei_mutex_lock(&drafts->mu);
	if (from == draft->crc_to[k]) {
		x->crc = te_crc32c_combine(x->crc, crc, len);
		draft->crc_to[k] += len;
	} else {
		draft->no_crc = true;
	}
	tei_mutex_unlock(&drafts->mu);
}

/*
 * Tells whether every extent that is to be committed has its CRC. The caller's.
 */
static bool draft_has_crc(const struct tes_draft *draft)
{
	uint32_t k;

	for (k = 0; k < draft->layout.n_extents && !draft->no_crc; k++) {
		const struct tes_extent_at *x = &draft->layout.extents[k];

		if (draft->alive & 1u << x->replica &&
		    draft->crc_to[k] != x->length)
			return false;
	}
	return !draft->no_crc;
}

/* ---- writes to parts of drafts, on every live replica ---- */

/* Draft and range that a request of the batch belongs to. */
struct sent {
	struct tes_draft *draft;
	uint32_t range;     /* of the call */
	uint32_t extent;    /* of its layout */
	uint64_t from, len; /* of the extent's data */
};

struct writing {
	struct te_store *store;
	struct tes_work *work;
	const struct te_store_range *ranges;
	int64_t *results;
	struct tes_draft **drafts; /* of each key; NULL: it has none */
	/* State of the current run. */
	struct sent *sent;     /* sent[work->n] */
	const uint32_t *order; /* order[from .. to - 1] are its ranges */
	size_t from, to;
	struct tes_places places;
};

static int plan_extent(struct writing *w, uint32_t range,
		       struct tes_draft *draft, uint32_t k)
{
	const struct te_store_range *r = &w->ranges[range];
	const struct tes_extent_at *x = &draft->layout.extents[k];
	const struct tes_draft_place *place = &draft->places[x->place];
	struct te_request *req;
	uint64_t from, len = tes_range_common(r, x, &from);
	uint32_t index;

	if (!len)
		return 0;
	if (tes_places_add_owner(&w->places, place->owner, &index))
		return -ENOMEM;
	w->sent[w->work->n] =
		(struct sent){draft, range, k, from - x->offset, len};
	req = tes_work_add_plain(w->work, TE_WRITE,
				 (uint8_t *)r->addr + (from - r->offset), len);
	if (!req)
		return -ENOMEM;
	req->flags = TE_CRC;
	req->crc_len = len;
	req->segment = place->owner->segment;
	req->remote = x->address + TES_EXTENT_HEADER_LEN + from - x->offset;
	req->epoch = place->epoch;
	return 0;
}

static void plan_range(struct writing *w, uint32_t range)
{
	struct tes_draft *draft = w->drafts[w->ranges[range].key];
	uint32_t alive = draft_alive(&w->store->drafts, draft), k;

	for (k = 0; k < draft->layout.n_extents; k++) {
		const struct tes_extent_at *x = &draft->layout.extents[k];

		if (alive & 1u << x->replica && plan_extent(w, range, draft, k))
			draft_fail(&w->store->drafts, draft, x->replica, false);
	}
}

/* ---- a run ---- */

static bool inside(const struct te_store_range *range,
		   const struct tes_draft *draft)
{
	return range->offset <= draft->size &&
	       range->length <= draft->size - range->offset;
}

/* False: the range cannot be written and has its result. */
static bool is_wanted(struct writing *w, uint32_t range)
{
	const struct tes_draft *draft = w->drafts[w->ranges[range].key];

	if (w->results[range])
		return false;
	if (!draft)
		w->results[range] = TE_STORE_OBJECT_NOT_FOUND;
	else if (!inside(&w->ranges[range], draft))
		w->results[range] = TE_STORE_INVALID_PARAMS;
	else
		return true;
	return false;
}

/* Sets @w->to behind the ranges that fit. Returns requests at most. */
static size_t cut_ranges(struct writing *w, size_t end)
{
	size_t n = 0;

	for (w->to = w->from; w->to < end; w->to++) {
		uint32_t range = w->order[w->to];
		size_t more = 0;

		if (is_wanted(w, range))
			more = w->drafts[w->ranges[range].key]
				       ->layout.n_extents;
		if (w->to > w->from && n + more > TES_WORK_MAX)
			break;
		n += more;
	}
	return n;
}

static void note_result(struct writing *w, uint32_t i)
{
	struct tes_drafts *drafts = &w->store->drafts;
	const struct sent *sent = &w->sent[i];
	const struct tes_draft *draft = sent->draft;
	struct te_completion done;
	bool quiet;

	tes_work_result(w->work, i, &done);
	if (!done.error) {
		draft_sum(drafts, sent->draft, sent->extent, sent->from,
			  sent->len, done.crc);
		return;
	}
	quiet = done.flags & TE_REMOTE_QUIET;
	if (tes_work_is_local_fault(w->work, i, done.error)) {
		/* The bytes are still missing; the replica is as good. */
		w->results[sent->range] = TE_STORE_INVALID_PARAMS;
		if (quiet)
			return;
	}
	draft_fail(drafts, sent->draft,
		   draft->layout.extents[sent->extent].replica, !quiet);
}

static void note_results(struct writing *w, int rc)
{
	uint32_t i;

	for (i = 0; i < w->work->n; i++) {
		const struct sent *sent = &w->sent[i];

		if (!rc)
			note_result(w, i);
		else
			draft_fail(&w->store->drafts, sent->draft,
				   sent->draft->layout.extents[sent->extent]
					   .replica,
				   false);
	}
}

static void set_result(struct writing *w, uint32_t range)
{
	const struct te_store_range *r = &w->ranges[range];
	struct tes_drafts *drafts = &w->store->drafts;
	struct tes_draft *draft = w->drafts[r->key];

	if (!draft_alive(drafts, draft))
		w->results[range] = TE_STORE_TRANSFER_FAIL;
	else if (r->length &&
		 draft_note(drafts, draft, r->offset, r->offset + r->length))
		w->results[range] = TE_STORE_INTERNAL_ERROR;
	else
		w->results[range] = (int64_t)r->length;
}

static int write_planned(struct writing *w, size_t n)
{
	size_t i;
	int rc;

	w->sent = tei_arena_alloc(&w->work->round, (n + 1) * sizeof(*w->sent));
	if (!w->sent || tes_work_next_run(w->work, n))
		return -ENOMEM;
	tes_places_init(&w->places, &w->store->owners, w->work, 0, 0);
	for (i = w->from; i < w->to; i++)
		if (!w->results[w->order[i]])
			plan_range(w, w->order[i]);
	rc = tes_work_run(w->work, &w->places);
	tes_places_fini(&w->places);
	note_results(w, rc);
	return 0;
}

static void write_ranges(struct writing *w, size_t n_ranges)
{
	size_t n, i;
	int rc;

	for (w->from = 0; w->from < n_ranges; w->from = w->to) {
		n = cut_ranges(w, n_ranges);
		rc = n ? write_planned(w, n) : 0;
		for (i = w->from; i < w->to; i++) {
			if (w->results[w->order[i]])
				continue;
			if (rc)
				w->results[w->order[i]] =
					TE_STORE_INTERNAL_ERROR;
			else
				set_result(w, w->order[i]);
		}
		tes_work_next_round(w->work);
	}
}

/* ---- all of it ---- */

static void enter(struct writing *w, const struct te_store_key *keys,
		  size_t n_keys, const struct tes_sorted *sorted)
{
	size_t i;

	for (i = 0; i < n_keys; i++)
		if (sorted->starts[i] < sorted->starts[i + 1] &&
		    tes_key_holds(&keys[i]))
			w->drafts[i] = drafts_enter(&w->store->drafts,
						    keys[i].bytes, keys[i].len);
}

static void leave_drafts(struct writing *w, size_t n_keys)
{
	size_t i;

	for (i = 0; i < n_keys; i++)
		if (w->drafts[i])
			drafts_leave(&w->store->drafts, w->drafts[i]);
}

static int put_ranges(struct writing *w, const struct te_store_key *keys,
		      size_t n_keys, size_t n_ranges)
{
	const struct tes_ranges_given given = {w->ranges, n_ranges, n_keys,
					       false};
	struct tes_sorted sorted;
	int n_written = 0;
	size_t i;

	if (tes_ranges_sort(&w->store->addresses, &given, w->results, &sorted))
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < n_ranges; i++) /* of keys that are none */
		if (!w->results[i] && !tes_key_holds(&keys[w->ranges[i].key]))
			w->results[i] = TE_STORE_INVALID_PARAMS;
	w->order = sorted.order;
	enter(w, keys, n_keys, &sorted);
	write_ranges(w, sorted.starts[n_keys]);
	leave_drafts(w, n_keys);
	tes_ranges_free(&sorted);
	for (i = 0; i < n_ranges; i++)
		n_written += w->results[i] >= 0;
	return n_written;
}

int tes_direct_put_ranges(struct te_store *store,
			  const struct te_store_key *keys, size_t n_keys,
			  const struct te_store_range *ranges, size_t n_ranges,
			  int64_t *results)
{
	struct writing w = {
		.store = store,
		.ranges = ranges,
		.results = results,
	};
	int rc = TE_STORE_INTERNAL_ERROR;

	if (!tes_keys_given(store, keys, n_keys, keys) ||
	    (n_ranges && (!ranges || !results)) ||
	    n_ranges > TE_STORE_RANGES_MAX)
		return TE_STORE_INVALID_PARAMS;
	w.drafts = tei_calloc(n_keys + 1, sizeof(struct tes_draft *));
	w.work = tes_work_get(&store->works, 1);
	if (w.drafts && w.work)
		rc = put_ranges(&w, keys, n_keys, n_ranges);
	tes_work_put(&store->works, w.work);
	tei_free(w.drafts);
	return rc;
}

/* ---- puts in parts: begin, commit, abort ---- */

/*
 * The headers of all extents are written when a draft is made: whatever is
 * written to its space later, in whatever order, comes after them.
 */

/* ---- opening ---- */

/* Copies the places that @layout needs, and has it name them by the copies. */
static uint32_t pick_places(struct tes_layout *layout,
			    const struct tes_places *places,
			    struct tes_draft_place *out)
{
	uint32_t n = 0, i, k;

	for (k = 0; k < layout->n_extents; k++) {
		const struct tes_place *place =
			&places->at[layout->extents[k].place];

		for (i = 0; i < n; i++)
			if (out[i].owner == place->owner)
				break;
		if (i == n)
			out[n++] = (struct tes_draft_place){place->owner,
							    place->epoch};
		layout->extents[k].place = i;
	}
	return n;
}

static struct tes_draft *make_draft(struct tes_put_pipeline *p,
				    struct tes_put_entry *entry)
{
	struct tes_drafts *drafts = &p->chunk->call.store->drafts;
	const struct te_store_key *key = &p->chunk->call.keys[entry->item];
	struct tes_draft_place *used = tei_arena_alloc(
		&p->work->round, entry->layout.n_extents * sizeof(*used));
	struct tes_draft *draft;
	uint32_t n;

	if (!used)
		return NULL;
	n = pick_places(&entry->layout, &p->places, used);
	draft = draft_create(drafts, key->bytes, key->len, &entry->layout, used,
			     n);
	if (!draft)
		return NULL;
	draft->generation = entry->generation;
	draft->epoch = p->epoch;
	draft->size = p->chunk->items[entry->item].size;
	draft->alive = entry->written;
	draft->loud =
		tes_put_all(&entry->layout) & ~entry->written & ~entry->quiet;
	return draft;
}

void tes_put_keep(struct tes_put_pipeline *p)
{
	struct tes_drafts *drafts = &p->chunk->call.store->drafts;
	size_t i;

	for (i = 0; i < p->n; i++) {
		struct tes_put_entry *entry = &p->entries[i];
		struct tes_draft *draft;

		if (!entry->accepted || !entry->written)
			continue;
		draft = make_draft(p, entry);
		if (draft && !drafts_add(drafts, draft)) {
			tes_put_set_result(p, entry->item, 0);
			entry->accepted = false;
			continue;
		}
		/* Given up: the end says that nothing is there. */
		tes_put_set_result(p, entry->item,
				   draft ? TE_STORE_OBJECT_ALREADY_EXISTS
					 : TE_STORE_INTERNAL_ERROR);
		draft_destroy(drafts, draft);
		entry->quiet |= entry->written;
		entry->written = 0;
	}
}

int tes_direct_put_open(struct te_store *store, const struct te_store_key *keys,
			const uint64_t *sizes, size_t n,
			const struct te_store_replicate *how, int *results)
{
	const struct tes_put_call call = {
		.store = store,
		.keys = keys,
		.sizes = sizes,
		.how = how,
		.results = results,
		.n = n,
	};

	return tes_put_run(&call);
}

/* ---- ending ---- */

static int take_draft(struct te_store *store, const struct te_store_key *key,
		      bool commit, struct tes_draft **out)
{
	if (!tes_key_holds(key))
		return TE_STORE_INVALID_PARAMS;
	switch (drafts_take(&store->drafts, key->bytes, key->len, commit,
			    out)) {
	case 0:
		return 0;
	case -EBUSY:
		return TE_STORE_REPLICA_IS_NOT_READY;
	case -ENODATA:
		return TE_STORE_INVALID_WRITE;
	default:
		return TE_STORE_OBJECT_NOT_FOUND;
	}
}

static void set_entry(struct tes_put_entry *entry, uint32_t item,
		      const struct tes_draft *draft, bool commit)
{
	memset(entry, 0, sizeof(*entry));
	entry->item = item;
	entry->accepted = true;
	entry->no_crc = !draft_has_crc(draft);
	entry->generation = draft->generation;
	entry->layout = draft->layout;
	entry->written = commit ? draft->alive : 0;
	entry->quiet =
		tes_put_all(&draft->layout) & ~entry->written & ~draft->loud;
}

/* Ends the drafts of one master by one message and forgets them. */
static void end_some(struct tes_put_pipeline *p, struct tes_draft **drafts,
		     bool commit)
{
	const struct tes_put_call *call = &p->chunk->call;
	const struct tes_draft *first = NULL;
	uint32_t i;

	p->n = 0;
	for (i = 0; i < call->n; i++) {
		if (!drafts[i] || (first && drafts[i]->epoch != first->epoch))
			continue;
		if (!first)
			first = drafts[i];
		p->epoch = first->epoch;
		set_entry(&p->entries[p->n++], i, drafts[i], commit);
	}
	if (p->n) {
		tes_put_end_begin(p);
		tes_put_end_await(p);
	}
	for (i = 0; i < p->n; i++) {
		uint32_t item = p->entries[i].item;

		draft_destroy(&call->store->drafts, drafts[item]);
		drafts[item] = NULL;
	}
}

static int end_chunk(struct tes_put_chunk *chunk, bool commit)
{
	struct tes_put_pipeline p = {.chunk = chunk, .work = chunk->work};
	struct tes_put_call *call = &chunk->call;
	struct tei_arena *arena = &chunk->work->call;
	struct tes_draft **drafts =
		tei_arena_calloc(arena, call->n, sizeof(*drafts));
	size_t i;

	p.entries = tei_arena_calloc(arena, call->n, sizeof(*p.entries));
	if (!drafts || !p.entries)
		return -ENOMEM;
	for (i = 0; i < call->n; i++) {
		call->results[i] = take_draft(call->store, &call->keys[i],
					      commit, &drafts[i]);
		if (drafts[i] && commit && !drafts[i]->alive)
			call->results[i] = TE_STORE_TRANSFER_FAIL;
	}
	do {
		end_some(&p, drafts, commit);
		tes_work_next_round(chunk->work);
	} while (p.n);
	return 0;
}

static int end_drafts(struct te_store *store, const struct te_store_key *keys,
		      size_t n, bool commit, int *results)
{
	size_t from, len, i;

	if (!tes_keys_given(store, keys, n, results))
		return TE_STORE_INVALID_PARAMS;
	for (from = 0; from < n; from += len) {
		struct tes_put_chunk chunk = {
			.call.store = store,
			.call.keys = keys + from,
			.call.results = results + from,
			.call.n = tes_chunk(keys, from, n),
			.work = tes_work_get(&store->works, 1),
		};

		len = chunk.call.n;
		if (!chunk.work || end_chunk(&chunk, commit))
			for (i = from; i < from + len; i++)
				results[i] = TE_STORE_INTERNAL_ERROR;
		tes_work_put(&store->works, chunk.work);
	}
	return tes_first_code(results, n);
}

int tes_direct_put_commit(struct te_store *store,
			  const struct te_store_key *keys, size_t n,
			  int *results)
{
	return end_drafts(store, keys, n, true, results);
}

int tes_direct_put_abort(struct te_store *store,
			 const struct te_store_key *keys, size_t n,
			 int *results)
{
	return end_drafts(store, keys, n, false, results);
}
