/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.h - the key column of batch messages
 *
 * All keys' bytes end to end, and the length of each. A message takes it as
 *
 *	msg.keys = column.bytes;
 *	msg.key_lens = column.lens;
 *	msg.n_key_lens = column.n;
 */
#ifndef STORE_PROTO_KEYS_H
#define STORE_PROTO_KEYS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"

struct tes_key_column {
	ProtobufCBinaryData bytes;
	uint32_t *lens; /* lens[n] */
	size_t n;
};

/* Room for @n keys of @bytes bytes in all. -ENOMEM. */
int tes_key_column_init(struct tes_key_column *column, struct tei_arena *arena,
			size_t n, size_t bytes);

static inline void tes_key_column_add(struct tes_key_column *column,
				      const void *key, size_t len)
{
	memcpy(column->bytes.data + column->bytes.len, key, len);
	column->bytes.len += len;
	column->lens[column->n++] = (uint32_t)len;
}

#endif
