/* SPDX-License-Identifier: Apache-2.0 */
/* test_events.c - a real master publishes what is stored and removed */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/integration/master/caller.h"
#include "tests/lib/subscriber.h"
#include "tests/lib/test.h"

#define MIB    (1u << 20)
#define N_KEYS 500
#define SAID   "kv_events publisher enabled on "

static struct master master;
static struct caller *owner;
static struct subscriber subscriber;

/* Until it hears of the greeting's key, which is no number. */
static void join(void)
{
	uint64_t end = tei_now_ms() + SOON_MS;

	do {
		assert_true(tei_now_ms() < end);
		caller_put(owner, "hello");
		assert_int_equal(caller_remove(owner, "hello", true), 0);
	} while (!subscriber_next(&subscriber, 10));
}

static int start(void **state)
{
	static const char *const args[] = {
		"--enable_kv_events", "--kv_events_bind_endpoint=tcp://*:*",
		"--kv_events_backend_id=pool", NULL};
	char endpoint[64];
	const char *said;

	(void)state;
	master_start(&master, args);
	said = test_process_line(master.process, SAID, SOON_MS);
	assert_non_null(said);
	said = strrchr(strstr(said, SAID), ':');
	assert_non_null(said);
	snprintf(endpoint, sizeof(endpoint), "tcp://127.0.0.1:%lu",
		 strtoul(said + 1, NULL, 10));
	subscriber_open(&subscriber, endpoint);
	owner = caller_join(&master, 1, false);
	assert_int_equal(caller_mount(owner, 1, MIB), 0);
	join();
	return 0;
}

static int stop(void **state)
{
	(void)state;
	caller_close(owner);
	subscriber_close(&subscriber);
	master_stop(&master);
	return 0;
}

/* The next event that is no greeting: its key, and what became of it. */
static void expect(const char *type, const char *key)
{
	const msgpack_object *e;

	do {
		e = subscriber_next(&subscriber, SOON_MS);
		assert_non_null(e);
	} while (event_is(e, "object_key", "hello"));
	assert_true(event_is(e, "event_type", type));
	assert_true(event_is(e, "object_key", key));
	assert_true(event_is(e, "backend_id", "pool"));
}

static void puts_and_removes_are_published(void **state)
{
	(void)state;
	caller_put(owner, "0x10");
	expect("stored", "0x10");
	assert_int_equal(caller_remove(owner, "0x10", true), 0);
	expect("removed", "0x10");
}

static void all_that_is_removed_is_published(void **state)
{
	char key[16], *answer;
	size_t left = N_KEYS;
	int status;

	(void)state;
	for (unsigned int i = 0; i < N_KEYS; i++) {
		snprintf(key, sizeof(key), "%u", i);
		caller_put(owner, key);
		expect("stored", key);
	}
	answer = master_ask(&master, "POST /api/v1/remove_all?force=true",
			    &status);
	assert_int_equal(status, 200);
	free(answer);
	while (left--) {
		const msgpack_object *e = subscriber_next(&subscriber, SOON_MS);

		assert_non_null(e);
		assert_true(event_is(e, "event_type", "removed"));
	}
}

static void the_status_counts_them(void **state)
{
	int status;
	char *answer = master_get(&master, "/kv_events/status", &status);

	(void)state;
	assert_int_equal(status, 200);
	assert_non_null(strstr(answer, "\"enabled\":true"));
	assert_non_null(strstr(answer, "\"dropped_events\":0"));
	assert_null(strstr(answer, "\"published_events\":0"));
	assert_null(strstr(answer, "\"skipped_unparsed_keys\":0"));
	free(answer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(puts_and_removes_are_published),
		cmocka_unit_test(all_that_is_removed_is_published),
		cmocka_unit_test(the_status_counts_them),
	};

#if defined(__SANITIZE_THREAD__)
	/* It does not see how libzmq's threads agree with each other. */
	(void)tests;
	(void)start;
	(void)stop;
	return 77;
#else
	return cmocka_run_group_tests(tests, start, stop);
#endif
}
