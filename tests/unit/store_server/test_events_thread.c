/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_events_thread.c - the publisher's thread, without ZeroMQ
 *
 * The socket is one of this file, which takes a message only when it may. So
 * what happens is decided here, and the thread sanitizer sees all of it.
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "store/server/events.h"
#include "store/server/events_zmq.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define SOON_MS 60000

static struct {
	struct tei_mutex mu;
	struct tei_cond cond;
	bool held;
	uint64_t numbers[64]; /* of messages */
	size_t n;
} wire;

int tes_events_socket_open(const char *endpoint, int n_waiting, bool insecure,
			   struct tes_events_socket **out,
			   char why[TES_EVENTS_WHY_LEN])
{
	(void)endpoint;
	(void)n_waiting;
	(void)insecure;
	(void)why;
	*out = NULL;
	return 0;
}

void tes_events_socket_close(struct tes_events_socket *s)
{
	(void)s;
}

const char *tes_events_socket_endpoint(const struct tes_events_socket *s)
{
	(void)s;
	return "here";
}

int tes_events_socket_send(struct tes_events_socket *s,
			   const struct tes_events_part *parts, size_t n)
{
	uint64_t number;

	(void)s;
	assert_int_equal(n, 3);
	memcpy(&number, parts[1].bytes, sizeof(number));
	tei_mutex_lock(&wire.mu);
	while (wire.held)
		tei_cond_wait(&wire.cond, &wire.mu, UINT64_MAX);
	assert_true(wire.n < 64);
	wire.numbers[wire.n++] = be64toh(number);
	tei_mutex_unlock(&wire.mu);
	return 0;
}

static void hold(bool held)
{
	tei_mutex_lock(&wire.mu);
	wire.held = held;
	tei_cond_broadcast(&wire.cond);
	tei_mutex_unlock(&wire.mu);
}

static struct tes_events *begin(void)
{
	static char endpoint[] = "x", backend[] = "pool";
	struct tes_server_settings settings = {
		.enable_kv_events = true,
		.kv_events_bind_endpoint = endpoint,
		.kv_events_backend_id = backend,
		.kv_events_emit_object_key = true,
		.kv_events_queue_capacity = 100,
	};
	char error[TEI_CONF_ERROR_LEN];
	struct tes_events *e;

	wire.n = 0;
	assert_int_equal(tes_events_start(&settings, &e, error), 0);
	assert_string_equal(tes_events_endpoint(e), "here");
	return e;
}

static void say(struct tes_events *e, unsigned int n)
{
	const struct tes_core_item item = {.key = {"1", 1},
					   .tenant = {"default", 7}};

	while (n--)
		tes_events_note(TES_CORE_STORED, &item, e);
}

static struct tes_events_figures figures(struct tes_events *e)
{
	struct tes_events_figures f;

	tes_events_figures(e, &f);
	return f;
}

static bool is_empty(void *e)
{
	return figures(e).queued == 0;
}

static bool first_is_out(void *e)
{
	return figures(e).events == 1;
}

static void what_a_held_socket_misses_is_dropped_and_counted(void **state)
{
	struct tes_events *e = begin();
	struct tes_events_figures f;

	(void)state;
	say(e, 1);
	assert_true(test_wait_until(first_is_out, e, SOON_MS));
	hold(true);
	say(e, 1); /* its message waits, the queue is free */
	assert_true(test_wait_until(is_empty, e, SOON_MS));
	say(e, 250);
	f = figures(e);
	assert_int_equal(f.queued, 100);
	assert_int_equal(f.dropped, 150);
	hold(false);
	assert_true(test_wait_until(is_empty, e, SOON_MS));
	tes_events_stop(e);
	/* 1, 1, and 64 and 36 behind a gap. */
	assert_int_equal(wire.n, 4);
	assert_int_equal(wire.numbers[0], 1);
	assert_int_equal(wire.numbers[1], 2);
	assert_int_equal(wire.numbers[2], 153);
	assert_int_equal(wire.numbers[3], 154);
}

static void what_waits_at_the_end_is_published(void **state)
{
	struct tes_events *e = begin();

	(void)state;
	say(e, 70);
	tes_events_stop(e);
	assert_true(wire.n >= 2);
	assert_int_equal(wire.numbers[wire.n - 1], wire.n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			what_a_held_socket_misses_is_dropped_and_counted),
		cmocka_unit_test(what_waits_at_the_end_is_published),
	};

	tei_mutex_init(&wire.mu);
	tei_cond_init(&wire.cond);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
