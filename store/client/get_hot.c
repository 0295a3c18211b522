/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get_hot.c - reading from memory of our own what was read often
 *
 * Which generation a key has now is proved anew by every get. Who has just
 * asked the master knows it, and copies. Who remembers only where the object
 * lay reads its headers there: they are voided before a remove or replace is
 * answered. Either way the bytes need not come again.
 */
#include <string.h>

#include "store/client/buffers.h"
#include "store/client/get.h"
#include "store/client/hot.h"
#include "store/client/ranges.h"

static struct tes_hot_name name_of(const struct tes_get *get,
				   const struct tes_get_entry *entry)
{
	const struct te_store_key *key = &get->keys[entry->item];

	return (struct tes_hot_name){
		.key = key->bytes,
		.key_len = key->len,
		.digest = entry->digest,
		.gen_epoch = entry->gen_epoch,
		.generation = entry->generation,
	};
}

void tes_get_warm(struct tes_get *get, struct tes_get_entry *entry)
{
	struct tes_hot *hot = &get->store->hot;
	struct tes_hot_name name;

	if (!tes_hot_on(hot) || entry->hot)
		return;
	name = name_of(get, entry);
	/* A second look in the same call says nothing new. */
	if (get->lookups[entry->item] <= 1)
		tes_hot_note(hot, entry->digest);
	entry->hot = tes_hot_get(hot, &name);
	if (entry->hot && entry->hot->size != entry->size)
		tes_get_cool(get, entry);
	/* Relaxed: a number for people. */
	if (!entry->hot)
		atomic_fetch_add_explicit(&hot->n_misses, 1,
					  memory_order_relaxed);
}

void tes_get_cool(struct tes_get *get, struct tes_get_entry *entry)
{
	tes_hot_put(&get->store->hot, entry->hot);
	entry->hot = NULL;
}

/* ---- out of it ---- */

static void copy_value(const struct te_store_value *value, const uint8_t *from,
		       uint64_t size)
{
	for (uint32_t i = 0; i < value->n_pieces && size; i++) {
		size_t len = value->pieces[i].iov_len;

		if (len > size)
			len = (size_t)size;
		if (len)
			memcpy(value->pieces[i].iov_base, from, len);
		from += len;
		size -= len;
	}
}

static void copy_ranges(struct tes_get *get, const struct tes_get_entry *entry)
{
	const struct tes_get_ranges *r = get->ranges;
	uint32_t i;

	for (i = r->starts[entry->item]; i < r->starts[entry->item + 1]; i++) {
		const struct te_store_range *range = &r->all[r->order[i]];

		if (r->results[r->order[i]] != TE_STORE_INVALID_PARAMS)
			memcpy(range->addr, entry->hot->bytes + range->offset,
			       (size_t)range->length);
	}
}

void tes_get_copy(struct tes_get *get, struct tes_get_entry *entry)
{
	const struct tes_hot_value *hot = entry->hot;

	if (get->ranges)
		copy_ranges(get, entry);
	else if (get->buffers)
		memcpy(get->buffers[entry->item]->data, hot->bytes,
		       (size_t)hot->size);
	else
		copy_value(&get->values[entry->item], hot->bytes, hot->size);
	/* Relaxed: a number for people. */
	atomic_fetch_add_explicit(&get->store->hot.n_hits, 1,
				  memory_order_relaxed);
	tes_get_cool(get, entry);
}

/* ---- into it ---- */

static void copy_in(const struct tes_get *get,
		    const struct tes_get_entry *entry, uint8_t *to)
{
	const struct te_store_value *value = &get->values[entry->item];
	uint64_t left = entry->size;

	if (get->buffers) {
		memcpy(to, get->buffers[entry->item]->data, (size_t)left);
		return;
	}
	for (uint32_t i = 0; i < value->n_pieces && left; i++) {
		size_t len = value->pieces[i].iov_len;

		if (len > left)
			len = (size_t)left;
		if (len)
			memcpy(to, value->pieces[i].iov_base, len);
		to += len;
		left -= len;
	}
}

/*
 * The caller's memory may have changed since it was verified: it may be that
 * of another process. So what we keep is verified itself.
 */
static bool holds(const struct tes_get_entry *entry, const uint8_t *bytes)
{
	const struct tes_extent_at *x = &entry->layout.extents[entry->first];

	for (uint32_t k = 0; k < entry->n; k++)
		if (te_crc32c(0, bytes + x[k].offset, (size_t)x[k].length) !=
		    x[k].crc)
			return false;
	return true;
}

void tes_get_keep(struct tes_get *get, const struct tes_get_entry *entry)
{
	struct tes_hot *hot = &get->store->hot;
	struct tes_hot_value *value;
	struct tes_hot_name name;

	if (!tes_hot_on(hot) || get->ranges || entry->no_crc)
		return;
	name = name_of(get, entry);
	value = tes_hot_begin(hot, &name, entry->size);
	if (!value)
		return;
	copy_in(get, entry, value->bytes);
	if (holds(entry, value->bytes))
		tes_hot_add(hot, value, entry->digest);
	else
		tes_hot_put(hot, value);
}
