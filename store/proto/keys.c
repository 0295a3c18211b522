/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - the key column of batch messages */
#include "store/proto/keys.h"

#include <errno.h>

int tes_key_column_init(struct tes_key_column *column, struct tei_arena *arena,
			size_t n, size_t bytes)
{
	column->bytes.data = tei_arena_alloc(arena, bytes);
	column->bytes.len = 0;
	column->lens = tei_arena_alloc(arena, n * sizeof(*column->lens));
	column->n = 0;
	return column->bytes.data && column->lens ? 0 : -ENOMEM;
}
