/* SPDX-License-Identifier: Apache-2.0 */
/* put_ranges.c - write parts of drafts, to all replicas that are still alive */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/client/client.h"
#include "store/client/ranges.h"
#include "store/proto/extent.h"

/* Whose a request is. */
struct sent {
	struct tes_draft *draft;
	uint32_t extent;    /* of its layout */
	uint64_t from, len; /* of the extent's data */
};

struct writing {
	struct te_store *store;
	struct tes_work *work;
	const struct te_store_range *ranges;
	int64_t *results;
	struct tes_draft **drafts; /* of each key; NULL: it has none */
	/* Of the run. */
	struct sent *sent;     /* sent[work->n] */
	const uint32_t *order; /* order[from .. to - 1] are its ranges */
	size_t from, to;
	struct tes_places places;
};

static int plan_extent(struct writing *w, const struct te_store_range *r,
		       struct tes_draft *draft, uint32_t k)
{
	const struct tes_extent_at *x = &draft->layout.extents[k];
	const struct tes_draft_place *place = &draft->places[x->place];
	struct te_request *req;
	uint64_t from, len = tes_range_common(r, x, &from);
	uint32_t index;

	if (!len)
		return 0;
	if (tes_places_add_owner(&w->places, place->owner, &index))
		return -ENOMEM;
	w->sent[w->work->n] = (struct sent){draft, k, from - x->offset, len};
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
	uint32_t alive = tes_draft_alive(&w->store->drafts, draft), k;

	for (k = 0; k < draft->layout.n_extents; k++) {
		const struct tes_extent_at *x = &draft->layout.extents[k];

		if (alive & 1u << x->replica &&
		    plan_extent(w, &w->ranges[range], draft, k))
			tes_draft_fail(&w->store->drafts, draft, x->replica,
				       false);
	}
}

/* ---- a run ---- */

static bool inside(const struct te_store_range *range,
		   const struct tes_draft *draft)
{
	return range->offset <= draft->size &&
	       range->length <= draft->size - range->offset;
}

/* What cannot be written has its result. */
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

/* Ranges from @w->from on that fit; returns how many requests at most. */
static size_t measure(struct writing *w, size_t end)
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

static void judge(struct writing *w, int rc)
{
	struct tes_drafts *drafts = &w->store->drafts;
	struct te_completion done;
	uint32_t i;

	for (i = 0; i < w->work->n; i++) {
		const struct sent *sent = &w->sent[i];

		if (!rc)
			tes_work_result(w->work, i, &done);
		if (rc || done.error)
			tes_draft_fail(drafts, sent->draft,
				       sent->draft->layout.extents[sent->extent]
					       .replica,
				       !rc && !(done.flags & TE_REMOTE_QUIET));
		else
			tes_draft_sum(drafts, sent->draft, sent->extent,
				      sent->from, sent->len, done.crc);
	}
}

static void set_result(struct writing *w, uint32_t range)
{
	const struct te_store_range *r = &w->ranges[range];
	struct tes_drafts *drafts = &w->store->drafts;
	struct tes_draft *draft = w->drafts[r->key];

	if (!tes_draft_alive(drafts, draft))
		w->results[range] = TE_STORE_TRANSFER_FAIL;
	else if (tes_draft_note(drafts, draft, r->offset,
				r->offset + r->length))
		w->results[range] = TE_STORE_INTERNAL_ERROR;
	else
		w->results[range] = (int64_t)r->length;
}

static int run(struct writing *w, size_t n)
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
	judge(w, rc);
	return 0;
}

static void write_ranges(struct writing *w, size_t n_ranges)
{
	size_t n, i;
	int rc;

	for (w->from = 0; w->from < n_ranges; w->from = w->to) {
		n = measure(w, n_ranges);
		rc = n ? run(w, n) : 0;
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
			w->drafts[i] = tes_drafts_enter(
				&w->store->drafts, keys[i].bytes, keys[i].len);
}

static void leave(struct writing *w, size_t n_keys)
{
	size_t i;

	for (i = 0; i < n_keys; i++)
		if (w->drafts[i])
			tes_drafts_leave(&w->store->drafts, w->drafts[i]);
}

static int put_ranges(struct writing *w, const struct te_store_key *keys,
		      size_t n_keys, size_t n_ranges)
{
	struct tes_sorted sorted;
	int n_written = 0;
	size_t i;

	if (tes_ranges_sort(w->ranges, n_ranges, n_keys, w->results, &sorted))
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < n_ranges; i++) /* of keys that are none */
		if (!w->results[i] && !tes_key_holds(&keys[w->ranges[i].key]))
			w->results[i] = TE_STORE_INVALID_PARAMS;
	w->order = sorted.order;
	enter(w, keys, n_keys, &sorted);
	write_ranges(w, sorted.starts[n_keys]);
	leave(w, n_keys);
	tes_ranges_free(&sorted);
	for (i = 0; i < n_ranges; i++)
		n_written += w->results[i] > 0;
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
