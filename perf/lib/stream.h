/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h - the bare sockets of the reference: one stream, one ping-pong
 */
#ifndef PERF_LIB_STREAM_H
#define PERF_LIB_STREAM_H

#include <stdint.h>

/* A listening loopback socket; *out_port: where. The fd or -errno. */
int tei_stream_listen(uint16_t *out_port);
/* Serve one connection until its end: *to is where received bytes go. */
int tei_stream_serve(int fd, char *to, uint64_t len);

/*
 * Send from from[len], round and round, for about @seconds. Done when the
 * other side has said that all of it has arrived. *out: GB/s. -errno.
 */
int tei_stream_send(uint16_t port, const char *from, uint64_t len,
		    double seconds, double *out);
/* Median round trip of 8 bytes, both sides spinning, in microseconds. */
int tei_stream_pingpong(uint16_t port, double seconds, double *out);

#endif
