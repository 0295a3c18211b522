/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slab.c - equal-sized items from growing chunks, with a free list
 *
 * A chunk is a header (the next chunk, how many items) and its items. A free
 * item holds the pointer to the next free one in its first bytes, unpoisoned
 * only while the list is touched.
 */
#include "base/slab.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif

#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#define ALIGN      16
#define HEADER_LEN 64 /* a line of the cache, so that items begin with one */
/*
 * Bytes from which on a slab grows by huge pages; before, too much of one would
 * lie idle.
 */
#define MANY_BYTES (4 * TEI_HUGE_LEN)

struct header {
	struct header *next;
	size_t n_items;
};

_Static_assert(sizeof(struct header) <= HEADER_LEN, "it has room");

static size_t chunk_len(const struct tei_slab *s, size_t n_items)
{
	return HEADER_LEN + s->item_size * n_items;
}

void tei_slab_init(struct tei_slab *s, size_t item_size, size_t chunk_items)
{
	assert(item_size > 0 && chunk_items > 0);
	memset(s, 0, sizeof(*s));
	s->item_size = (item_size + ALIGN - 1) / ALIGN * ALIGN;
	s->chunk_items = chunk_items;
}

void tei_slab_fini(struct tei_slab *s)
{
	struct header *chunk, *next;

	for (chunk = s->chunks; chunk; chunk = next) {
		next = chunk->next;
		ASAN_UNPOISON_MEMORY_REGION(chunk,
					    chunk_len(s, chunk->n_items));
		tei_free(chunk);
	}
	s->free = s->chunks = NULL;
	s->n_used = s->n_total = s->n_bytes = 0;
}

static void push(struct tei_slab *s, void *item)
{
	memcpy(item, &s->free, sizeof(s->free));
	s->free = item;
	ASAN_POISON_MEMORY_REGION(item, s->item_size);
}

static int add_block(struct tei_slab *s)
{
	size_t n = s->chunk_items, in_huge;
	struct header *chunk;
	char *items;

	if (n > (SIZE_MAX - HEADER_LEN) / s->item_size)
		return -ENOMEM;
	in_huge = (TEI_HUGE_LEN - HEADER_LEN) / s->item_size;
	if (s->n_bytes >= MANY_BYTES && n < in_huge) {
		n = in_huge;
		chunk = tei_huge_alloc();
	} else {
		chunk = tei_malloc(chunk_len(s, n));
	}
	if (!chunk)
		return -ENOMEM;
	*chunk = (struct header){s->chunks, n};
	s->chunks = chunk;
	items = (char *)chunk + HEADER_LEN;
	for (size_t i = n; i-- > 0;) /* taken in address order */
		push(s, items + i * s->item_size);
	s->n_total += n;
	s->n_bytes += chunk_len(s, n);
	return 0;
}

int tei_slab_reserve(struct tei_slab *s, size_t n)
{
	while (s->n_total - s->n_used < n) {
		int rc = add_block(s);

		if (rc)
			return rc;
	}
	return 0;
}

void *tei_slab_get(struct tei_slab *s)
{
	void *item;

	if (!s->free && add_block(s))
		return NULL;
	item = s->free;
	assert(item); /* add_block() adds one at least */
	ASAN_UNPOISON_MEMORY_REGION(item, s->item_size);
	memcpy(&s->free, item, sizeof(s->free));
	memset(item, 0, s->item_size);
	s->n_used++;
	return item;
}

void tei_slab_put(struct tei_slab *s, void *item)
{
	assert(s->n_used > 0);
	push(s, item);
	s->n_used--;
}

size_t tei_slab_bytes(const struct tei_slab *s)
{
	return s->n_bytes;
}
