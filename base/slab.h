/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slab.h - equal-sized items from growing chunks, with a free list
 *
 * Items keep their address for life. Memory goes back only at fini(). Under
 * ASan free items are poisoned.
 *
 * Threads: none of its own.
 */
#ifndef BASE_SLAB_H
#define BASE_SLAB_H

#include <stddef.h>

struct tei_slab {
	size_t item_size; /* rounded up to 16 */
	size_t chunk_items;
	size_t n_used, n_total;
	size_t n_bytes; /* of all chunks */
	void *free;     /* first free item */
	void *chunks;   /* list of chunks, for fini() */
};

/*
 * Allocates nothing. @chunk_items: how many items one growth adds, >= 1; once
 * there are some MiB, a huge page of them.
 */
void tei_slab_init(struct tei_slab *s, size_t item_size, size_t chunk_items);
void tei_slab_fini(struct tei_slab *s);
/* Grow until @n items can be taken without allocation. -ENOMEM. */
int tei_slab_reserve(struct tei_slab *s, size_t n);
/* A zeroed item; NULL: out of memory. */
void *tei_slab_get(struct tei_slab *s);
void tei_slab_put(struct tei_slab *s, void *item);
size_t tei_slab_bytes(const struct tei_slab *s);

#endif
