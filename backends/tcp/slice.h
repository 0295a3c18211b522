/* SPDX-License-Identifier: Apache-2.0 */
/* slice.h - what the tcp backend keeps of a slice; walking its local pieces */
#ifndef TCP_SLICE_H
#define TCP_SLICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "te/backend.h"

struct tcp_lane;

struct tcp_cursor {
	uint32_t piece;  /* index in iov */
	uint64_t offset; /* in that piece */
	uint64_t at;     /* in the slice */
};

struct tcp_slice {
	struct tcp_lane *lane; /* NULL: refused by post(), done() is due */
	uint64_t id;           /* 0: nothing of it has gone */
	struct tcp_cursor announced; /* by headers that have gone, or come */
	struct tcp_cursor passed;    /* sent or received */
	bool sent;                   /* wholly announced, or asked for */
	bool lent; /* to the kernel, last by number @lent_by */
	uint32_t lent_by;
	int over; /* how it ended for the peer, while it is held */
};

static inline struct tcp_slice *tcp_slice(const struct tei_slice *slice)
{
	return (struct tcp_slice *)(uintptr_t)slice->priv;
}

void tei_tcp_cursor_init(struct tcp_cursor *c, const struct tei_slice *slice);
/*
 * Put the memory of the next @want bytes into iov[max] and move @c past it.
 * Returns the bytes covered: fewer when @max is reached.
 */
uint64_t tei_tcp_gather(const struct tei_slice *slice, struct tcp_cursor *c,
			uint64_t want, struct iovec *iov, uint32_t max,
			uint32_t *n_iov);
void tei_tcp_skip(const struct tei_slice *slice, struct tcp_cursor *c,
		  uint64_t n);
/* The next @n bytes have passed: move slice's own cursor, take the CRC. */
void tei_tcp_pass(struct tei_slice *slice, uint64_t n);
/* Copy the next @n bytes out of the slice, and move @c past them. */
void tei_tcp_copy_out(const struct tei_slice *slice, struct tcp_cursor *c,
		      uint8_t *to, uint64_t n);

#endif
