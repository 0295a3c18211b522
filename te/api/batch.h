/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.h - room for the piece lists of a batch's requests
 *
 * Chunks that are kept at reset, so that a batch that is used again for the
 * same shape of work allocates nothing.
 */
#ifndef TE_API_BATCH_H
#define TE_API_BATCH_H

#include <stddef.h>
#include <sys/uio.h>

#include "base/list.h"

/* @n entries that stay where they are until reset or free. NULL: no memory. */
struct iovec *tei_pieces_get(struct tei_list *chunks, size_t n);
void tei_pieces_reset(struct tei_list *chunks);
void tei_pieces_free(struct tei_list *chunks);

#endif
