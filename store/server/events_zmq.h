/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events_zmq.h - a PUB socket of ZeroMQ
 *
 * libzmq brings a dozen libraries with it, so it is loaded when the first
 * socket is opened, and needed by nobody else.
 *
 * Threads: one per socket at a time.
 */
#ifndef STORE_SERVER_EVENTS_ZMQ_H
#define STORE_SERVER_EVENTS_ZMQ_H

#include <stdbool.h>
#include <stddef.h>

#define TES_EVENTS_WHY_LEN      160
#define TES_EVENTS_ENDPOINT_LEN 256

struct tes_events_socket;

struct tes_events_part {
	const void *bytes;
	size_t len;
};

/*
 * Bind to @endpoint. Messages that a subscriber does not take wait for it,
 * @n_waiting of them at most; what follows is lost to it. Unless @insecure
 * other hosts are refused. -ENOMEM, -ENOPKG (no libzmq), or what ZeroMQ says,
 * with @why.
 */
int tes_events_socket_open(const char *endpoint, int n_waiting, bool insecure,
			   struct tes_events_socket **out,
			   char why[TES_EVENTS_WHY_LEN]);
/* Waits a moment for what subscribers have not taken yet. NULL is fine. */
void tes_events_socket_close(struct tes_events_socket *s);

/* The endpoint with the port that it got. */
const char *tes_events_socket_endpoint(const struct tes_events_socket *s);

/* A message of @n parts, to whom it may concern; never blocks. */
int tes_events_socket_send(struct tes_events_socket *s,
			   const struct tes_events_part *parts, size_t n);

#endif
