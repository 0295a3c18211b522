/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_silence.c - peers that leave, or fall silent, in the middle
 *
 * Sockets of the test's own speak the protocol: as a peer that leaves
 * things behind, or as an owner that no longer answers.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/tcp/wire.h"
#include "te/control/control.h"
#include "te/control/inbound.h"
#include "te/core/control.pb-c.h"
#include "te/core/engine.h"
#include "te/region/region.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/alone.h"
#include "tests/unit/te/owner.h"
#include "tests/unit/te/raw.h"

#define FRAME_MAX 65536

static int set_up(void **state)
{
	static const char *const quick[] = {"connect_timeout", "200ms", NULL};

	(void)state;
	return alone_open(quick);
}

/* ---- inbound peers ---- */

static uint32_t tcp_rail_number(void)
{
	uint32_t i = 0;

	while (strncmp(te_rail_name(engine, i), "tcp/", 4))
		i++;
	return i;
}

static bool all_are_gone(void *arg)
{
	return test_stat(engine, "te_endpoint_drops_served_total", NULL) >=
	       *(uint64_t *)arg;
}

static void endpoints_that_nobody_comes_to_are_closed(void **state)
{
	const struct tcp_address mine = {.port = 1, .lanes = 1};
	uint8_t address[TCP_ADDRESS_LEN], body[FRAME_MAX];
	uint64_t n = TEI_INBOUND_LINKS_MAX;
	Te__Connect m = TE__CONNECT__INIT;
	Te__Connected *c;
	uint8_t who[TE_INCARNATION_LEN] = "a stranger";
	uint64_t epoch;
	int fd = raw_greet(engine, who, &epoch);

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
		raw_send_message(fd, TE__CONTROL_TYPE__CONTROL_CONNECT, i,
				 &m.base);
		assert_int_equal(raw_receive(fd, body, &len),
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
static void peer_that_does_not_read_gets_the_last_word(void **state)
{
	enum { N = 1500, CHANGES = 400 };
	static uint8_t memory[2 * N + 1];
	static uint8_t body[1 << 20];
	Te__Describe m = TE__DESCRIBE__INIT;
	uint8_t who[TE_INCARNATION_LEN] = "one that sleeps";
	int fd = raw_greet(engine, who, NULL);
	Te__Description *d;
	size_t len, n = 0;
	te_region_id id;

	(void)state;
	for (unsigned int i = 0; i < N; i++)
		rig_region(engine, memory + 2 * i, 1, RIG_ANY);
	raw_send_message(fd, TE__CONTROL_TYPE__CONTROL_DESCRIBE, 1, &m.base);
	for (unsigned int i = 0; i < CHANGES; i++) {
		id = rig_region(engine, memory + 2 * N, 1, RIG_ANY);
		assert_true(tei_loop_do(engine->loop, pass, NULL));
		if (i + 1 < CHANGES)
			assert_int_equal(te_region_remove(engine, id), 0);
		assert_true(tei_loop_do(engine->loop, pass, NULL));
	}
	for (uint64_t last = 0; last != engine->regions->version; n++) {
		len = sizeof(body);
		assert_true(raw_receive(fd, body, &len) >= 0);
		d = te__description__unpack(NULL, len, body);
		assert_non_null(d);
		last = d->version;
		te__description__free_unpacked(d, NULL);
	}
	assert_true(n < CHANGES);
	close(fd);
}

/* ---- owners ---- */

static void owner_that_never_answers_costs_only_time(void **state)
{
	te_segment_id id;
	struct owner o;

	set_up(state);
	owner_start(&o, 0, NULL);
	assert_int_equal(te_segment_open(engine, o.name, 500, &id), -ETIMEDOUT);
	assert_int_equal(te_peer_probe(engine, o.name, 300, NULL), -ETIMEDOUT);
	alone_close(state);
	owner_stop(&o);
}

static void owner_that_says_only_hello_costs_only_time(void **state)
{
	te_segment_id id;
	struct owner o;

	set_up(state);
	owner_start(&o, 1, NULL);
	assert_int_equal(te_segment_open(engine, o.name, 500, &id), -ETIMEDOUT);
	alone_close(state);
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
	owner_start(&o, 2, NULL);
	assert_int_equal(te_segment_open(engine, o.name, RIG_WAIT_MS, &id), 0);
	request = rig_request(id, TE_WRITE, (void *)4096, &piece);
	request.timeout_ms = 700;
	done = rig_run(engine, &request);
	assert_int_equal(done.error, -ETIMEDOUT);
	assert_int_equal(done.flags, TE_REMOTE_QUIET);
	alone_close(state);
	owner_stop(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			endpoints_that_nobody_comes_to_are_closed, set_up,
			alone_close),
		cmocka_unit_test_setup_teardown(
			peer_that_does_not_read_gets_the_last_word, set_up,
			alone_close),
		cmocka_unit_test(owner_that_never_answers_costs_only_time),
		cmocka_unit_test(owner_that_says_only_hello_costs_only_time),
		cmocka_unit_test(
			requests_to_a_silent_owner_end_at_their_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
