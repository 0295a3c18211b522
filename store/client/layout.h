/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - where the extents of an object lie, as a reply names them
 *
 * Replies carry columns of entries (store.proto); whoever writes or reads
 * wants, for each key, its extents with their place in the value. Nothing of
 * a reply is believed: what does not add up to whole replicas is refused.
 */
#ifndef STORE_CLIENT_LAYOUT_H
#define STORE_CLIENT_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "store/proto/store.pb-c.h"

#define TES_REPLICAS_MAX 32 /* a bit each */

struct tes_extent_at {
	uint64_t address;        /* of the header, in its owner */
	uint64_t offset, length; /* its part of the value */
	uint32_t place;          /* index into the call's places */
	uint32_t crc;
	uint16_t index, count; /* of its replica's extents */
	uint8_t replica;
};

/* Extents by replica, then by offset. No extents: the key has none. */
struct tes_layout {
	struct tes_extent_at *extents; /* extents[n_extents] */
	uint32_t n_extents, n_replicas;
};

/* Columns of a reply; those that are absent are NULL and 0. */
struct tes_columns {
	size_t n; /* keys that were asked for */
	const int32_t *status;
	size_t n_status;
	const uint64_t *size; /* of the objects; size[n_size] */
	size_t n_size;
	const uint64_t *generation;
	size_t n_generation;
	const uint32_t *extents;
	size_t n_extents;
	/* Entries. */
	const uint32_t *segment, *replica, *crc;
	size_t n_segment, n_replica, n_crc;
	const uint64_t *address, *length;
	size_t n_address, n_length;
	size_t n_segments; /* that entries may name */
};

/* Initializers of the columns that a start's and a look-up's replies share. */
#define TES_COLUMNS_OF(reply)                                               \
	.status = (reply)->status, .n_status = (reply)->n_status,           \
	.generation = (reply)->generation,                                  \
	.n_generation = (reply)->n_generation, .extents = (reply)->extents, \
	.n_extents = (reply)->n_extents, .segment = (reply)->segment,       \
	.n_segment = (reply)->n_segment, .replica = (reply)->replica,       \
	.n_replica = (reply)->n_replica, .address = (reply)->address,       \
	.n_address = (reply)->n_address, .length = (reply)->length,         \
	.n_length = (reply)->n_length, .n_segments = (reply)->n_segments

/*
 * @out: out[columns->n], those of keys with a status are empty
 * @base: place of segment 0
 *
 * -EBADMSG (the columns do not fit each other), -ENOMEM.
 */
int tes_layouts_decode(const struct tes_columns *columns,
		       struct tei_arena *arena, uint32_t base,
		       struct tes_layout *out);

#endif
