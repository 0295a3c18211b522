/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put_write.c - write all extents of all replicas, as many at a time as fit
 *
 * A replica is there when all its extents are. Of one that is not, the master
 * must know whether anything can still arrive in its space.
 */
#include <errno.h>

#include "store/client/put.h"
#include "store/proto/extent.h"

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
	/* Its owner was silent: once more, the master will choose another. */
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

/* Of @n requests in all. */
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
