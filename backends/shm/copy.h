/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.h - copying past the caches
 *
 * Streaming stores do not read the target's cache lines before they overwrite
 * them, and four pages at a time keep more of the memory's banks busy than one
 * after the other: together 1.7 times memcpy() on cold memory. On small or hot
 * memory they lose.
 */
#ifndef SHM_COPY_H
#define SHM_COPY_H

#include <stddef.h>

/* The ranges do not overlap; any alignment. Stores are visible in order. */
typedef void shm_copy_fn(void *to, const void *from, size_t len);

/* The widest of this CPU; memcpy() where there is none. Any thread. */
shm_copy_fn *tei_shm_copy_streaming(void);

/* All there are that this CPU can do, for tests; NULL after the last. */
shm_copy_fn *tei_shm_copy_variant(unsigned int i);

#endif
