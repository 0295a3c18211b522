/* SPDX-License-Identifier: Apache-2.0 */
/* subscriber.c - a ZeroMQ SUB socket that reads the master's events */
#include "tests/lib/subscriber.h"

#include <endian.h>
#include <string.h>

#include "tests/lib/test.h"

void subscriber_open(struct subscriber *s, const char *endpoint)
{
	int no_end = 0;

	*s = (struct subscriber){.context = zmq_ctx_new()};
	assert_non_null(s->context);
	s->socket = zmq_socket(s->context, ZMQ_SUB);
	assert_non_null(s->socket);
	assert_int_equal(
		zmq_setsockopt(s->socket, ZMQ_RCVHWM, &no_end, sizeof(no_end)),
		0);
	assert_int_equal(zmq_setsockopt(s->socket, ZMQ_SUBSCRIBE, "", 0), 0);
	assert_int_equal(zmq_connect(s->socket, endpoint), 0);
	msgpack_unpacked_init(&s->message);
	assert_int_equal(zmq_msg_init(&s->payload), 0);
}

void subscriber_close(struct subscriber *s)
{
	msgpack_unpacked_destroy(&s->message);
	zmq_msg_close(&s->payload);
	zmq_close(s->socket);
	zmq_ctx_term(s->context);
}

static void receive(struct subscriber *s, zmq_msg_t *part, bool more)
{
	assert_int_equal(zmq_msg_init(part), 0);
	assert_true(zmq_msg_recv(part, s->socket, 0) >= 0);
	assert_int_equal(zmq_msg_more(part), more);
}

/* [timestamp, [event ...], 0] */
static void open_message(struct subscriber *s)
{
	const msgpack_object *o = &s->message.data;

	assert_int_equal(o->type, MSGPACK_OBJECT_ARRAY);
	assert_int_equal(o->via.array.size, 3);
	o = o->via.array.ptr;
	assert_int_equal(o[0].type, MSGPACK_OBJECT_POSITIVE_INTEGER);
	assert_int_equal(o[1].type, MSGPACK_OBJECT_ARRAY);
	assert_int_equal(o[2].via.u64, 0);
	s->at = o[1].via.array.ptr;
	s->n = o[1].via.array.size;
	assert_true(s->n > 0);
}

static bool next_message(struct subscriber *s, int timeout_ms)
{
	zmq_pollitem_t item = {.socket = s->socket, .events = ZMQ_POLLIN};
	zmq_msg_t topic, number;

	if (zmq_poll(&item, 1, timeout_ms) <= 0)
		return false;
	receive(s, &topic, true);
	receive(s, &number, true);
	zmq_msg_close(&s->payload);
	receive(s, &s->payload, false);
	assert_int_equal(zmq_msg_size(&topic), 0);
	assert_int_equal(zmq_msg_size(&number), sizeof(s->sequence));
	memcpy(&s->sequence, zmq_msg_data(&number), sizeof(s->sequence));
	s->sequence = be64toh(s->sequence);
	assert_int_equal(msgpack_unpack_next(&s->message,
					     zmq_msg_data(&s->payload),
					     zmq_msg_size(&s->payload), NULL),
			 MSGPACK_UNPACK_SUCCESS);
	zmq_msg_close(&topic);
	zmq_msg_close(&number);
	open_message(s);
	return true;
}

const msgpack_object *subscriber_next(struct subscriber *s, int timeout_ms)
{
	if (!s->n && !next_message(s, timeout_ms))
		return NULL;
	s->n--;
	assert_int_equal(s->at->type, MSGPACK_OBJECT_MAP);
	return s->at++;
}

const msgpack_object *event_at(const msgpack_object *event, const char *name)
{
	const msgpack_object_map *map = &event->via.map;

	for (size_t i = 0; i < map->size; i++) {
		const msgpack_object *key = &map->ptr[i].key;

		if (key->via.str.size == strlen(name) &&
		    !memcmp(key->via.str.ptr, name, strlen(name)))
			return &map->ptr[i].val;
	}
	return NULL;
}

bool event_is(const msgpack_object *event, const char *name, const char *text)
{
	const msgpack_object *o = event_at(event, name);

	return o && o->type == MSGPACK_OBJECT_STR &&
	       o->via.str.size == strlen(text) &&
	       !memcmp(o->via.str.ptr, text, strlen(text));
}

uint64_t event_number(const msgpack_object *event, const char *name)
{
	const msgpack_object *o = event_at(event, name);

	assert_non_null(o);
	assert_int_equal(o->type, MSGPACK_OBJECT_POSITIVE_INTEGER);
	return o->via.u64;
}
