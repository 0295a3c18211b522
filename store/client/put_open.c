/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put_open.c - put in parts: begin, commit, give up
 *
 * The headers of all extents are written when a draft is made: whatever is
 * written to its space later, in whatever order, comes after them.
 */
#include <errno.h>
#include <string.h>

#include "store/client/put.h"

/* ---- opening ---- */

/* The places that @layout needs, and no others; it names them anew. */
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

static struct tes_draft *make_draft(struct tes_put *put,
				    struct tes_put_entry *entry,
				    const struct tes_places *places)
{
	struct tes_drafts *drafts = &put->store->drafts;
	const struct te_store_key *key = &put->keys[entry->item];
	struct tes_draft_place *used = tei_arena_alloc(
		&put->work->round, entry->layout.n_extents * sizeof(*used));
	struct tes_draft *draft;
	uint32_t n;

	if (!used)
		return NULL;
	n = pick_places(&entry->layout, places, used);
	draft = tes_draft_create(drafts, key->bytes, key->len, &entry->layout,
				 used, n);
	if (!draft)
		return NULL;
	draft->generation = entry->generation;
	draft->epoch = put->epoch;
	draft->size = put->items[entry->item].size;
	draft->alive = entry->written;
	draft->loud =
		tes_put_all(&entry->layout) & ~entry->written & ~entry->quiet;
	return draft;
}

void tes_put_keep(struct tes_put *put, const struct tes_places *places)
{
	struct tes_drafts *drafts = &put->store->drafts;
	size_t i;

	for (i = 0; i < put->n_todo; i++) {
		struct tes_put_entry *entry = &put->entries[i];
		struct tes_draft *draft;

		if (!entry->accepted || !entry->written)
			continue;
		draft = make_draft(put, entry, places);
		if (draft && !tes_drafts_add(drafts, draft)) {
			put->results[entry->item] = 0;
			entry->accepted = false;
			continue;
		}
		/* Given up: the end says that nothing is there. */
		put->results[entry->item] =
			draft ? TE_STORE_OBJECT_ALREADY_EXISTS
			      : TE_STORE_INTERNAL_ERROR;
		tes_draft_destroy(drafts, draft);
		entry->quiet |= entry->written;
		entry->written = 0;
	}
}

int tes_direct_put_open(struct te_store *store, const struct te_store_key *keys,
			const uint64_t *sizes, size_t n,
			const struct te_store_replicate *how, int *results)
{
	const struct tes_put all = {
		.store = store,
		.keys = keys,
		.sizes = sizes,
		.how = how,
		.results = results,
		.n = n,
	};

	return tes_put_run(&all);
}

/* ---- ending ---- */

static int take(struct te_store *store, const struct te_store_key *key,
		bool commit, struct tes_draft **out)
{
	if (!tes_key_holds(key))
		return TE_STORE_INVALID_PARAMS;
	switch (tes_drafts_take(&store->drafts, key->bytes, key->len, commit,
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
	entry->no_crc = !tes_draft_has_crc(draft);
	entry->generation = draft->generation;
	entry->layout = draft->layout;
	entry->written = commit ? draft->alive : 0;
	entry->quiet =
		tes_put_all(&draft->layout) & ~entry->written & ~draft->loud;
}

/* One message for those of one master; theirs are done with then. */
static void end_some(struct tes_put *put, struct tes_draft **drafts,
		     bool commit)
{
	const struct tes_draft *first = NULL;
	uint32_t i;

	put->n_todo = 0;
	for (i = 0; i < put->n; i++) {
		if (!drafts[i] || (first && drafts[i]->epoch != first->epoch))
			continue;
		if (!first)
			first = drafts[i];
		put->epoch = first->epoch;
		set_entry(&put->entries[put->n_todo++], i, drafts[i], commit);
	}
	if (put->n_todo) {
		tes_put_end(put);
		tes_put_ended(put);
	}
	for (i = 0; i < put->n_todo; i++) {
		uint32_t item = put->entries[i].item;

		tes_draft_destroy(&put->store->drafts, drafts[item]);
		drafts[item] = NULL;
	}
}

static int end_chunk(struct tes_put *put, bool commit)
{
	struct tei_arena *arena = &put->work->call;
	struct tes_draft **drafts =
		tei_arena_calloc(arena, put->n, sizeof(*drafts));
	size_t i;

	put->entries = tei_arena_calloc(arena, put->n, sizeof(*put->entries));
	if (!drafts || !put->entries)
		return -ENOMEM;
	for (i = 0; i < put->n; i++) {
		put->results[i] =
			take(put->store, &put->keys[i], commit, &drafts[i]);
		if (drafts[i] && commit && !drafts[i]->alive)
			put->results[i] = TE_STORE_TRANSFER_FAIL;
	}
	do {
		end_some(put, drafts, commit);
		tes_work_next_round(put->work);
	} while (put->n_todo);
	return 0;
}

static int end_all(struct te_store *store, const struct te_store_key *keys,
		   size_t n, bool commit, int *results)
{
	size_t from, len, i;

	if (!tes_keys_given(store, keys, n, results))
		return TE_STORE_INVALID_PARAMS;
	for (from = 0; from < n; from += len) {
		struct tes_put put = {
			.store = store,
			.work = tes_work_get(&store->works, 1),
			.keys = keys + from,
			.results = results + from,
			.n = tes_chunk(keys, from, n),
		};

		len = put.n;
		if (!put.work || end_chunk(&put, commit))
			for (i = from; i < from + len; i++)
				results[i] = TE_STORE_INTERNAL_ERROR;
		tes_work_put(&store->works, put.work);
	}
	return tes_first_code(results, n);
}

int tes_direct_put_commit(struct te_store *store,
			  const struct te_store_key *keys, size_t n,
			  int *results)
{
	return end_all(store, keys, n, true, results);
}

int tes_direct_put_abort(struct te_store *store,
			 const struct te_store_key *keys, size_t n,
			 int *results)
{
	return end_all(store, keys, n, false, results);
}
