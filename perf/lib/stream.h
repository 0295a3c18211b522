/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h - the raw stream: the most that one TCP connection carries
 */
#ifndef PERF_LIB_STREAM_H
#define PERF_LIB_STREAM_H

#include "perf/lib/bare.h"

/*
 * One stream for shape->seconds; size and batch do not matter. With several
 * addresses one after the other, and the rates are added: what rails of their
 * own could carry together. Done when all of it has arrived.
 */
int tei_stream_run(const struct tei_bare_peer *peer,
		   const struct tei_bare_shape *shape,
		   struct tei_bare_figure *out);
/* The other side of a connection. */
int tei_stream_serve(int fd, const struct tei_bare_work *work, char *memory,
		     uint64_t len);

#endif
