/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h - raw request and answer: batches of pieces, and single balls
 */
#ifndef PERF_LIB_EXCHANGE_H
#define PERF_LIB_EXCHANGE_H

#include "perf/lib/bare.h"

/*
 * The bare shape of a closed loop of batches. Write: one sendmsg() of all the
 * pieces, received into as many, then 8 bytes back. Read: 8 bytes there, the
 * pieces back.
 */
int tei_exchange_run(const struct tei_bare_peer *peer,
		     const struct tei_bare_shape *shape,
		     struct tei_bare_figure *out);
/* 8 bytes there and back, after a pause each; only p50_us comes out. */
int tei_pingpong_run(const struct tei_bare_peer *peer,
		     const struct tei_bare_shape *shape,
		     struct tei_bare_figure *out);

/* The other sides of a connection. */
int tei_exchange_serve(int fd, const struct tei_bare_work *work, char *memory,
		       uint64_t len);
int tei_pingpong_serve(int fd, const struct tei_bare_work *work);

#endif
