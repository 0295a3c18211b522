/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_silence.c - peers that leave, or fall silent, in the middle
 *
 * Sockets of the test's own speak the protocol: as a visitor that leaves
 * things behind, or as an owner that no longer answers.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/tcp/wire.h"
#include "base/bytes.h"
#include "base/frame.h"
#include "te/control.h"
#include "te/control.pb-c.h"
#include "te/engine.h"
#include "te/group.h"
#include "te/guest.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/rig.h"
#include "tests/unit/te/visitor.h"

#define FRAME_MAX 65536

static struct te_engine *engine;

static int set_up(void **state)
{
	static const char *const quick[] = {"connect_timeout", "200ms", NULL};

	(void)state;
	engine = rig_engine(quick);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	te_engine_destroy(engine);
	return 0;
}

/* ---- visitors ---- */

static uint32_t tcp_rail_number(void)
{
	uint32_t i = 0;

	while (strncmp(te_rail_name(engine, i), "tcp/", 4))
		i++;
	return i;
}

static bool all_are_gone(void *arg)
{
	return rig_stat(engine, "te_endpoint_drops_served_total", NULL) >=
	       *(uint64_t *)arg;
}

static void endpoints_that_nobody_comes_to_are_closed(void **state)
{
	const struct tcp_address mine = {.port = 1, .lanes = 1};
	uint8_t address[TCP_ADDRESS_LEN], body[FRAME_MAX];
	uint64_t n = TEI_GUEST_LINKS_MAX;
	Te__Connect m = TE__CONNECT__INIT;
	Te__Connected *c;
	uint8_t who[TE_INCARNATION_LEN] = "a visitor";
	uint64_t epoch;
	int fd = visitor_greet(engine, who, &epoch);

	(void)state;
	tei_tcp_address_encode(&mine, address);
	m.backend = (char *)(uintptr_t) "tcp";
	m.rail = tcp_rail_number();
	m.epoch = epoch;
	m.address.data = address;
	m.address.len = sizeof(address);
	for (uint64_t i = 1; i <= n; i++) {
		size_t len = sizeof(body);

		m.endpoint = i;
		visitor_say(fd, TE__CONTROL_TYPE__CONTROL_CONNECT, i, &m.base);
		assert_int_equal(visitor_hear(fd, body, &len),
				 TE__CONTROL_TYPE__CONTROL_CONNECT);
		c = te__connected__unpack(NULL, len, body);
		assert_non_null(c);
		assert_int_equal(c->status, 0);
		te__connected__free_unpacked(c, NULL);
	}
	close(fd);
	assert_true(test_wait_until(all_are_gone, &n, RIG_WAIT_MS));
}

static void pass(void *arg)
{
	(void)arg;
}

/* Until then it would cost what all the changes take to tell. */
static void visitor_that_does_not_read_gets_the_last_word(void **state)
{
	enum { N = 1500, CHANGES = 400 };
	static uint8_t memory[2 * N + 1];
	static uint8_t body[1 << 20];
	Te__Describe m = TE__DESCRIBE__INIT;
	uint8_t who[TE_INCARNATION_LEN] = "one that sleeps";
	int fd = visitor_greet(engine, who, NULL);
	Te__Description *d;
	size_t len, n = 0;
	te_region_id id;

	(void)state;
	for (unsigned int i = 0; i < N; i++)
		rig_region(engine, memory + 2 * i, 1, RIG_ANY);
	visitor_say(fd, TE__CONTROL_TYPE__CONTROL_DESCRIBE, 1, &m.base);
	for (unsigned int i = 0; i < CHANGES; i++) {
		id = rig_region(engine, memory + 2 * N, 1, RIG_ANY);
		assert_true(tei_loop_do(engine->loop, pass, NULL));
		if (i + 1 < CHANGES)
			assert_int_equal(te_region_remove(engine, id), 0);
		assert_true(tei_loop_do(engine->loop, pass, NULL));
	}
	for (uint64_t last = 0; last != engine->regions.version; n++) {
		len = sizeof(body);
		assert_true(visitor_hear(fd, body, &len) >= 0);
		d = te__description__unpack(NULL, len, body);
		assert_non_null(d);
		last = d->version;
		te__description__free_unpacked(d, NULL);
	}
	assert_true(n < CHANGES);
	close(fd);
}

/* ---- owners ---- */

static void put_reply(int fd, uint16_t type, uint64_t id,
		      const ProtobufCMessage *m)
{
	uint8_t bytes[FRAME_MAX];
	size_t len = protobuf_c_message_get_packed_size(m);
	struct tei_writer w;

	assert_true(len + TEI_FRAME_HEADER_LEN <= sizeof(bytes));
	tei_writer_init(&w, bytes, TEI_FRAME_HEADER_LEN);
	tei_write_u32(&w, (uint32_t)len);
	tei_write_u16(&w, type);
	tei_write_u16(&w, TEI_FRAME_REPLY);
	tei_write_u64(&w, id);
	protobuf_c_message_pack(m, bytes + TEI_FRAME_HEADER_LEN);
	len += TEI_FRAME_HEADER_LEN;
	(void)!send(fd, bytes, len, MSG_NOSIGNAL);
}

/* The length of the next frame's body; its id. */
static size_t get_frame(int fd, uint8_t *body, uint64_t *id)
{
	uint8_t head[TEI_FRAME_HEADER_LEN];
	struct tei_reader r;
	size_t len;

	if (recv(fd, head, sizeof(head), MSG_WAITALL) != sizeof(head))
		return SIZE_MAX;
	tei_reader_init(&r, head, sizeof(head));
	len = tei_read_u32(&r);
	tei_read_u16(&r);
	tei_read_u16(&r);
	*id = tei_read_u64(&r);
	assert_true(len <= FRAME_MAX);
	if (len)
		assert_int_equal(recv(fd, body, len, MSG_WAITALL), len);
	return len;
}

struct owner {
	char name[64];
	int listener;
	unsigned int n_answers; /* frames that it answers; then silence */
	pthread_t thread;
};

static void answer_hello(int fd, uint64_t id)
{
	uint8_t who[TE_INCARNATION_LEN] = "an owner", nonce[TEI_NONCE_LEN];
	Te__Hello m = TE__HELLO__INIT;

	visitor_fill_hello(&m, who, nonce);
	m.epoch = 1;
	put_reply(fd, TE__CONTROL_TYPE__CONTROL_HELLO, id, &m.base);
}

/* One region of 4096 bytes at 4096, reached by a tcp rail. */
static void answer_describe(int fd, uint64_t id)
{
	Te__Description m = TE__DESCRIPTION__INIT;
	Te__Rail rail = TE__RAIL__INIT, *rails = &rail;
	uint64_t number = 4096;
	uint32_t access = RIG_ANY;
	char *location = (char *)(uintptr_t) "cpu:0";
	ProtobufCBinaryData key = {8, (uint8_t *)&number};

	rail.backend = (char *)(uintptr_t) "tcp";
	rail.device = (char *)(uintptr_t) "0";
	m.version = 1;
	m.rails = &rails;
	m.id = m.addr = m.length = &number;
	m.access = &access;
	m.location = &location;
	m.key = &key;
	m.n_rails = m.n_id = m.n_addr = m.n_length = m.n_access = 1;
	m.n_location = m.n_key = 1;
	put_reply(fd, TE__CONTROL_TYPE__CONTROL_DESCRIBE, id, &m.base);
}

/* Each connection gets so many answers, until the listener is shut. */
static void *own(void *arg)
{
	struct owner *o = arg;
	uint8_t body[FRAME_MAX];
	uint64_t id;
	int fd;

	while ((fd = accept(o->listener, NULL, NULL)) >= 0) {
		for (unsigned int i = 0; get_frame(fd, body, &id) != SIZE_MAX;
		     i++) {
			if (i >= o->n_answers)
				continue;
			if (i == 0)
				answer_hello(fd, id);
			else
				answer_describe(fd, id);
		}
		close(fd);
	}
	return NULL;
}

static void owner_start(struct owner *o, unsigned int n_answers)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);

	o->n_answers = n_answers;
	o->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(o->listener >= 0);
	assert_int_equal(bind(o->listener, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(o->listener, 16), 0);
	assert_int_equal(getsockname(o->listener, (struct sockaddr *)&at, &len),
			 0);
	snprintf(o->name, sizeof(o->name), "127.0.0.1:%u", ntohs(at.sin_port));
	assert_int_equal(pthread_create(&o->thread, NULL, own, o), 0);
}

/* After the engine is gone, and with it the connections. */
static void owner_stop(struct owner *o)
{
	shutdown(o->listener, SHUT_RDWR);
	pthread_join(o->thread, NULL);
	close(o->listener);
}

static void owner_that_never_answers_costs_only_time(void **state)
{
	te_segment_id id;
	struct owner o;

	set_up(state);
	owner_start(&o, 0);
	assert_int_equal(te_segment_open(engine, o.name, 500, &id), -ETIMEDOUT);
	assert_int_equal(te_peer_probe(engine, o.name, 300, NULL), -ETIMEDOUT);
	tear_down(state);
	owner_stop(&o);
}

static void owner_that_says_only_hello_costs_only_time(void **state)
{
	te_segment_id id;
	struct owner o;

	set_up(state);
	owner_start(&o, 1);
	assert_int_equal(te_segment_open(engine, o.name, 500, &id), -ETIMEDOUT);
	tear_down(state);
	owner_stop(&o);
}

/* It describes itself and then falls silent: no endpoint is ever opened. */
static void requests_to_a_silent_owner_end_at_their_deadline(void **state)
{
	uint8_t local[16] = {0};
	struct iovec piece = {local, sizeof(local)};
	struct te_request request;
	struct te_completion done;
	te_segment_id id;
	struct owner o;

	set_up(state);
	owner_start(&o, 2);
	assert_int_equal(te_segment_open(engine, o.name, 2000, &id), 0);
	request = rig_request(id, TE_WRITE, (void *)4096, &piece);
	request.timeout_ms = 700;
	done = rig_run(engine, &request);
	assert_int_equal(done.error, -ETIMEDOUT);
	assert_int_equal(done.flags, TE_REMOTE_QUIET);
	tear_down(state);
	owner_stop(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			endpoints_that_nobody_comes_to_are_closed, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			visitor_that_does_not_read_gets_the_last_word, set_up,
			tear_down),
		cmocka_unit_test(owner_that_never_answers_costs_only_time),
		cmocka_unit_test(owner_that_says_only_hello_costs_only_time),
		cmocka_unit_test(
			requests_to_a_silent_owner_end_at_their_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
