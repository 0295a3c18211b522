/* SPDX-License-Identifier: Apache-2.0 */
/* keep_headers.c - headers of extents in our own memory: voided, renewed */
#include "store/owner/keep.h"

#include <string.h>

#include "base/mapped.h"
#include "store/owner/segment.h"
#include "store/proto/extent.h"

/* NULL: the file behind it is shorter now. */
static uint8_t *header_at(const struct tes_segment *segment, uint64_t offset)
{
	uint8_t *at = (uint8_t *)segment->memory + offset;

	if (segment->mapping &&
	    !tei_is_there((uintptr_t)at, TES_EXTENT_HEADER_LEN, true))
		return NULL;
	return at;
}

void tes_keep_void(const struct tes_segment *segment, uint64_t offset,
		   uint64_t gen_epoch, uint64_t generation)
{
	uint8_t bytes[TES_EXTENT_HEADER_LEN];
	uint8_t *at = header_at(segment, offset);
	struct tes_extent_header h;

	if (!at)
		return;
	memcpy(bytes, at, sizeof(bytes));
	if (tes_extent_decode(bytes, &h) == 0 && h.gen_epoch == gen_epoch &&
	    h.generation == generation)
		memset(at, 0, sizeof(bytes));
}

/* Of extent @i, which begins at @offset of the object. */
static bool renew_header(const struct tes_segment *segment,
			 const struct tes_directory_object *o, size_t i,
			 uint64_t offset, uint64_t seed)
{
	const struct tes_extent_header told = {
		.gen_epoch = o->gen_epoch,
		.generation = o->generation,
		.object_size = o->size,
		.offset = offset,
		.length = o->extents[i].length,
		.index = (uint16_t)i,
		.count = (uint16_t)o->n_extents,
	};
	uint8_t bytes[TES_EXTENT_HEADER_LEN];
	uint8_t *at = header_at(segment, o->extents[i].offset);
	struct tes_extent_header h;

	if (!at)
		return false;
	memcpy(bytes, at, sizeof(bytes));
	if (tes_extent_decode(bytes, &h) || !tes_extent_same(&h, &told))
		return false;
	h.digest = tes_key_digest(tes_directory_key(o), o->key_len, seed);
	tes_extent_encode(&h, bytes);
	memcpy(at, bytes, sizeof(bytes));
	return true;
}

bool tes_keep_renew(const struct tes_segment *segment,
		    const struct tes_directory_object *o, uint64_t seed)
{
	uint64_t offset = 0;

	for (size_t i = 0; i < o->n_extents; i++) {
		if (!renew_header(segment, o, i, offset, seed))
			return false;
		offset += o->extents[i].length;
	}
	return true;
}
