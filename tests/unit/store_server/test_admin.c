/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_admin.c - removals of all keys that overlap, and whose asker goes
 */
#include <string.h>

#include <event2/buffer.h>

#include "store/server/admin.h"
#include "tests/lib/test.h"
#include "tests/unit/store_server/bare.h"

static struct evbuffer *body;

static int start(void **state)
{
	(void)state;
	body = evbuffer_new();
	return body ? bare_start("false") : -1;
}

static int stop(void **state)
{
	(void)state;
	bare_stop();
	evbuffer_free(body);
	return 0;
}

static int ask(struct tei_http_reply *reply)
{
	const struct tei_http_request request = {.method = TEI_HTTP_POST,
						 .path = "/api/v1/remove_all"};

	*reply = (struct tei_http_reply){.body = body};
	return tes_server_admin_remove_all(&request, reply, server);
}

static void finish(struct tei_http_reply *reply)
{
	while (reply->more(body, reply->state) > 0)
		;
	reply->done(reply->state);
}

static void tick(void)
{
	struct tes_event ev = {.type = TES_EVENT_TICK};

	assert_int_equal(tes_server_step(server, &ev, NULL, NULL), 0);
}

static void one_removal_at_a_time(void **state)
{
	struct tei_http_reply first, second;

	(void)state;
	assert_int_equal(ask(&first), 200);
	assert_int_equal(ask(&second), 503);
	assert_null(second.more);
	finish(&first);
	assert_int_equal(ask(&second), 200);
	finish(&second);
}

/* It goes on, and only then there can be another one. */
static void a_removal_outlives_who_asked_for_it(void **state)
{
	struct tei_http_reply first, second;

	(void)state;
	assert_int_equal(ask(&first), 200);
	first.done(first.state);
	assert_int_equal(ask(&second), 503);
	tick();
	assert_int_equal(ask(&second), 200);
	finish(&second);
}

static void the_end_of_one_is_seen_by_whoever_waits(void **state)
{
	struct tei_http_reply reply;

	(void)state;
	assert_int_equal(ask(&reply), 200);
	tick(); /* the server's own */
	evbuffer_drain(body, evbuffer_get_length(body));
	assert_int_equal(reply.more(body, reply.state), 0);
	assert_true(evbuffer_get_length(body) > 0);
	reply.done(reply.state);
}

#define T(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(one_removal_at_a_time),
		T(a_removal_outlives_who_asked_for_it),
		T(the_end_of_one_is_seen_by_whoever_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
