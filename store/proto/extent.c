/* SPDX-License-Identifier: Apache-2.0 */
/* extent.c - the header that every extent begins with */
#include "store/proto/extent.h"

#include <errno.h>

#include <isa-l/crc.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "base/crc.h"

#define CRC_LEN (TES_EXTENT_HEADER_LEN - 4)

static uint32_t header_crc(const uint8_t header[TES_EXTENT_HEADER_LEN])
{
	/* ISA-L takes a non-const pointer and does not write through it. */
	uint32_t crc = crc32_iscsi((unsigned char *)(uintptr_t)header, CRC_LEN,
				   0xffffffffu);

	tei_vector_clear_upper();
	return crc;
}

void tes_extent_encode(const struct tes_extent_header *h,
		       uint8_t out[TES_EXTENT_HEADER_LEN])
{
	struct tei_writer w;

	tei_writer_init(&w, out, TES_EXTENT_HEADER_LEN);
	tei_write_u32(&w, TES_EXTENT_MAGIC);
	tei_write_u16(&w, h->index);
	tei_write_u16(&w, h->count);
	tei_write_u64(&w, h->gen_epoch);
	tei_write_u64(&w, h->generation);
	tei_write_u64(&w, h->digest);
	tei_write_u64(&w, h->object_size);
	tei_write_u64(&w, h->offset);
	tei_write_u64(&w, h->length);
	tei_write_u32(&w, 0); /* flags */
	tei_write_u32(&w, header_crc(out));
}

static bool parts_hold(const struct tes_extent_header *h)
{
	return h->count >= 1 && h->index < h->count &&
	       h->length <= h->object_size &&
	       h->offset <= h->object_size - h->length;
}

int tes_extent_decode(const uint8_t in[TES_EXTENT_HEADER_LEN],
		      struct tes_extent_header *out)
{
	struct tes_extent_header h;
	struct tei_reader r;
	uint32_t magic, flags, crc;

	tei_reader_init(&r, in, TES_EXTENT_HEADER_LEN);
	magic = tei_read_u32(&r);
	h.index = tei_read_u16(&r);
	h.count = tei_read_u16(&r);
	h.gen_epoch = tei_read_u64(&r);
	h.generation = tei_read_u64(&r);
	h.digest = tei_read_u64(&r);
	h.object_size = tei_read_u64(&r);
	h.offset = tei_read_u64(&r);
	h.length = tei_read_u64(&r);
	flags = tei_read_u32(&r);
	crc = tei_read_u32(&r);

	if (magic != TES_EXTENT_MAGIC || flags || crc != header_crc(in))
		return -EBADMSG;
	if (!parts_hold(&h))
		return -EBADMSG;
	*out = h;
	return 0;
}

bool tes_extent_same(const struct tes_extent_header *a,
		     const struct tes_extent_header *b)
{
	return a->gen_epoch == b->gen_epoch && a->generation == b->generation &&
	       a->object_size == b->object_size && a->offset == b->offset &&
	       a->length == b->length && a->index == b->index &&
	       a->count == b->count;
}

uint64_t tes_key_digest(const void *key, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(key, len, seed);
}
