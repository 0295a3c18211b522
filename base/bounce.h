/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bounce.h - blocks of memory that stand in for memory which is not registered
 *
 * Devices that access registered memory only have all blocks registered at
 * once, by their owner. An operation whose local memory is not registered has a
 * block of its own while it is posted: what it writes is copied there before,
 * what it has read is copied from there when it is done. Who finds no block
 * waits, as for room in a queue.
 *
 * A block is given back when nothing touches it any more on behalf of its
 * operation.
 *
 * Threads: one at a time.
 */
#ifndef BASE_BOUNCE_H
#define BASE_BOUNCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define TEI_BOUNCE_LEN (64u << 10) /* bytes of a block */

struct tei_bounce {
	uint8_t *memory; /* memory[n * TEI_BOUNCE_LEN], of whole pages */
	uint8_t **free;  /* free[n_free] */
	uint32_t n, n_free;
	bool logged; /* a line says that they are used */
};

/*
 * Makes as many blocks as @length bytes have; they may be none. -ENOMEM: none
 * were made.
 */
int tei_bounce_init(struct tei_bounce *bounce, uint64_t length);
/* Frees the blocks, all of which were given back; afterwards there are none. */
void tei_bounce_fini(struct tei_bounce *bounce);

/* Takes a block; NULL: all are in use, or there are none. */
uint8_t *tei_bounce_take(struct tei_bounce *bounce);
void tei_bounce_give(struct tei_bounce *bounce, uint8_t *block);
/* Says in the log, once, if blocks of the rail @name are in use. */
void tei_bounce_tell(struct tei_bounce *bounce, const char *name);

/*
 * Copies @length bytes of pieces, from @skip bytes behind the start of iov[0],
 * into @block.
 */
void tei_bounce_fill(uint8_t *block, const struct iovec *iov, uint64_t skip,
		     uint64_t length);
/* Copies @block back. -EFAULT: some of the pieces cannot be written. */
int tei_bounce_empty(const uint8_t *block, const struct iovec *iov,
		     uint64_t skip, uint64_t length);

#endif
