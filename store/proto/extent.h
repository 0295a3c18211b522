/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extent.h - the 64-byte header that every extent begins with
 *
 * Written in front of the data on the same lane, read back with it, and the
 * proof that the bytes are those of the object that was asked for. Layout,
 * little endian (docs/wire.md):
 *
 *   0 magic u32 | 4 index u16 | 6 count u16 | 8 gen_epoch u64 | 16 generation
 *   u64 | 24 key digest u64 | 32 object size u64 | 40 offset u64 | 48 length
 *   u64 | 56 flags u32 (0) | 60 CRC32C u32 of bytes 0 .. 59
 */
#ifndef STORE_PROTO_EXTENT_H
#define STORE_PROTO_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TES_EXTENT_HEADER_LEN 64
#define TES_EXTENT_MAGIC      0x31545854u /* "TXT1" */

struct tes_extent_header {
	uint64_t gen_epoch, generation;
	uint64_t digest;         /* tes_key_digest() */
	uint64_t object_size;    /* of the whole object */
	uint64_t offset, length; /* this extent's part of it */
	uint16_t index, count;
};

void tes_extent_encode(const struct tes_extent_header *h,
		       uint8_t out[TES_EXTENT_HEADER_LEN]);
/* -EBADMSG: magic, CRC, flags or inner lengths do not hold. */
int tes_extent_decode(const uint8_t in[TES_EXTENT_HEADER_LEN],
		      struct tes_extent_header *out);
/*
 * Tells whether they are of the same extent, under whatever seed a digest is.
 */
bool tes_extent_same(const struct tes_extent_header *a,
		     const struct tes_extent_header *b);
/* XXH3-64 with the pool's seed. */
uint64_t tes_key_digest(const void *key, size_t len, uint64_t seed);

#endif
