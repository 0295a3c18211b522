/* SPDX-License-Identifier: Apache-2.0 */
/* pieces.c - chunks of iovecs, the newest first */
#include "te/transfer/pieces.h"

#include "base/mem.h"

#define CHUNK 1024u

struct chunk {
	struct tei_list link;
	size_t used, room;
	struct iovec pieces[];
};

static struct chunk *add(struct tei_list *chunks, size_t n)
{
	size_t room = n > CHUNK ? n : CHUNK;
	struct chunk *chunk;

	chunk = tei_malloc(sizeof(*chunk) + room * sizeof(chunk->pieces[0]));
	if (!chunk)
		return NULL;
	chunk->used = 0;
	chunk->room = room;
	tei_list_add_head(chunks, &chunk->link);
	return chunk;
}

struct iovec *tei_pieces_get(struct tei_list *chunks, size_t n)
{
	struct chunk *chunk = NULL;
	struct iovec *pieces;

	tei_list_for_each (node, chunks) {
		chunk = tei_list_entry(node, struct chunk, link);
		if (chunk->room - chunk->used >= n)
			break;
		chunk = NULL;
	}
	if (!chunk)
		chunk = add(chunks, n);
	if (!chunk)
		return NULL;
	pieces = &chunk->pieces[chunk->used];
	chunk->used += n;
	return pieces;
}

void tei_pieces_reset(struct tei_list *chunks)
{
	tei_list_for_each (node, chunks) {
		tei_list_entry(node, struct chunk, link)->used = 0;
	}
}

void tei_pieces_free(struct tei_list *chunks)
{
	struct tei_list *node;

	while ((node = tei_list_pop(chunks)))
		tei_free(tei_list_entry(node, struct chunk, link));
}
