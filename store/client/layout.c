/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - where the extents of an object lie, as a reply names them */
#include "store/client/layout.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define ENTRIES_MAX 131072u /* of a reply */

/* Entries there must be, or SIZE_MAX: too many. */
static size_t count_entries(const struct tes_columns *c)
{
	size_t sum = 0, i;

	if (!c->n_extents)
		return c->n;
	for (i = 0; i < c->n; i++) {
		if (c->extents[i] > ENTRIES_MAX - sum)
			return SIZE_MAX;
		sum += c->extents[i];
	}
	return sum;
}

static bool any_accepted(const struct tes_columns *c)
{
	size_t i;

	for (i = 0; i < c->n; i++)
		if (!c->status[i])
			return true;
	return false;
}

static bool lengths_fit(const struct tes_columns *c, size_t n_entries)
{
	size_t n_replica = c->n_extents ? n_entries : 0;

	return (!c->n_extents || c->n_extents == c->n) && c->n_size == c->n &&
	       c->n_generation == c->n && n_entries != SIZE_MAX &&
	       c->n_segment == n_entries && c->n_address == n_entries &&
	       c->n_replica == n_replica && c->n_length == n_replica &&
	       (!c->n_crc || c->n_crc == n_entries);
}

/* Entry @e, which continues @before; NULL: it is the key's first. */
static int take_extent(const struct tes_columns *c, size_t e, uint64_t size,
		       const struct tes_extent_at *before,
		       struct tes_extent_at *out)
{
	uint32_t replica = c->replica ? c->replica[e] : 0;
	bool next = before && replica == before->replica;

	memset(out, 0, sizeof(*out));
	if (next)
		out->offset = before->offset + before->length;
	else if (before && before->offset + before->length != size)
		return -EBADMSG;
	else if (replica != (before ? before->replica + 1u : 0))
		return -EBADMSG;
	out->address = c->address[e];
	out->length = c->length ? c->length[e] : size;
	if (!out->length || out->length > size - out->offset ||
	    replica >= TES_REPLICAS_MAX || c->segment[e] >= c->n_segments)
		return -EBADMSG;
	out->replica = (uint8_t)replica;
	out->index = next ? (uint16_t)(before->index + 1) : 0;
	if (next && !out->index)
		return -EBADMSG;
	out->place = c->segment[e];
	out->crc = c->crc ? c->crc[e] : 0;
	return 0;
}

static void set_counts(struct tes_layout *layout)
{
	uint32_t i = layout->n_extents;
	uint16_t count = 0;

	while (i-- > 0) {
		struct tes_extent_at *x = &layout->extents[i];

		if (!count)
			count = (uint16_t)(x->index + 1);
		x->count = count;
		if (!x->index)
			count = 0;
	}
}

static int decode_key(const struct tes_columns *c, size_t first, uint64_t size,
		      uint32_t base, struct tes_layout *layout)
{
	struct tes_extent_at *x = NULL;
	uint32_t i;
	int rc;

	for (i = 0; i < layout->n_extents; i++) {
		rc = take_extent(c, first + i, size, x, &layout->extents[i]);
		if (rc)
			return rc;
		x = &layout->extents[i];
	}
	if (!x || x->offset + x->length != size)
		return -EBADMSG;
	layout->n_replicas = x->replica + 1u;
	set_counts(layout);
	for (i = 0; i < layout->n_extents; i++)
		layout->extents[i].place += base;
	return 0;
}

int tes_layouts_decode(const struct tes_columns *c, struct tei_arena *arena,
		       uint32_t base, struct tes_layout *out)
{
	size_t n_entries, first = 0, i;
	struct tes_extent_at *all;
	int rc;

	memset(out, 0, c->n * sizeof(*out));
	if (c->n_status != c->n)
		return -EBADMSG;
	if (!any_accepted(c))
		return 0;
	n_entries = count_entries(c);
	if (!lengths_fit(c, n_entries))
		return -EBADMSG;
	all = tei_arena_alloc(arena, n_entries * sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (i = 0; i < c->n; i++) {
		uint32_t n = c->n_extents ? c->extents[i] : 1;

		if (!c->status[i]) {
			out[i].extents = all + first;
			out[i].n_extents = n;
			rc = decode_key(c, first, c->size[i], base, &out[i]);
			if (rc)
				return rc;
		}
		first += n;
	}
	return 0;
}
