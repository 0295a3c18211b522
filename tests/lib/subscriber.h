/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subscriber.h - a ZeroMQ SUB socket that reads the master's events
 *
 * Messages are decoded by msgpack's own parser, and checked for their form.
 * Needs the libraries, which most tests do not.
 */
#ifndef TESTS_LIB_SUBSCRIBER_H
#define TESTS_LIB_SUBSCRIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <msgpack.h>
#include <zmq.h>

struct subscriber {
	void *context, *socket;
	zmq_msg_t payload; /* of the last message, which points into it */
	msgpack_unpacked message;
	uint64_t sequence;        /* of the message */
	const msgpack_object *at; /* at[n]: its events that are left */
	size_t n;
};

void subscriber_open(struct subscriber *s, const char *endpoint);
void subscriber_close(struct subscriber *s);

/* The next event, of the next message perhaps; NULL: none for @timeout_ms. */
const msgpack_object *subscriber_next(struct subscriber *s, int timeout_ms);

/* The value of @name in an event; NULL: it has none. */
const msgpack_object *event_at(const msgpack_object *event, const char *name);
/* Whether the value is the string @text. */
bool event_is(const msgpack_object *event, const char *name, const char *text);
/* A value that must be a number. */
uint64_t event_number(const msgpack_object *event, const char *name);

#endif
