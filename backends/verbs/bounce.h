/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bounce.h - registered memory of a rail, for local pieces that are not
 *
 * Blocks of one size, registered once, when the rail is opened. A work request
 * whose local memory is not registered has a block of its own while it is posted:
 * what it writes is copied there before, what it has read is copied from there when
 * it is done. Who finds no block waits, as for room in a queue pair.
 *
 * A block is given back when its work request has come back or its queue pair is
 * destroyed, so that no device touches what the next one has in it.
 *
 * Threads: holder of the drive token.
 */
#ifndef VERBS_BOUNCE_H
#define VERBS_BOUNCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "backends/verbs/port.h"

#define VERBS_BLOCK_LEN (64u << 10) /* bytes */

struct verbs_bounce {
	struct ibv_mr *mr; /* NULL: there are no blocks */
	uint8_t *memory;
	uint8_t **free; /* free[n_free] of n */
	uint32_t n, n_free;
	bool told; /* that it is used */
};

/*
 * As many blocks as the settings want; none when they cannot be had, which is
 * logged: then only registered memory is carried.
 */
void tei_verbs_bounce_init(struct verbs_bounce *bounce,
			   const struct verbs_port *port, struct ibv_pd *pd);
/* All blocks have been given back. */
void tei_verbs_bounce_fini(struct verbs_bounce *bounce,
			   const struct verbs_port *port);

/* NULL: all are in use. */
uint8_t *tei_verbs_bounce_take(struct verbs_bounce *bounce);
void tei_verbs_bounce_give(struct verbs_bounce *bounce, uint8_t *block);

/*
 * Between @block and the @length bytes of pieces that begin @skip bytes behind
 * the start of iov[0].
 */
void tei_verbs_bounce_fill(uint8_t *block, const struct iovec *iov,
			   uint64_t skip, uint64_t length);
/* The reverse. -EFAULT: not all of them are there, or may be written. */
int tei_verbs_bounce_empty(const uint8_t *block, const struct iovec *iov,
			   uint64_t skip, uint64_t length);

#endif
