/* SPDX-License-Identifier: Apache-2.0 */
/* test_http_page.c - what the HTTP ports of programs have in common */
#include <errno.h>
#include <string.h>

#include <event2/buffer.h>

#include "base/http.h"
#include "base/loop.h"
#include "tests/lib/test.h"

static struct evbuffer *out;

static int set_up(void **state)
{
	(void)state;
	out = evbuffer_new();
	assert_non_null(out);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	evbuffer_free(out);
	return 0;
}

/* All that was written, with a 0 byte behind it. */
static const char *text(void)
{
	assert_int_equal(evbuffer_add(out, "", 1), 0);
	return (const char *)evbuffer_pullup(out, -1);
}

static void a_metric_has_help_type_and_value(void **state)
{
	(void)state;
	tei_http_metric(out, "te_x_total", "counter", "what it is", UINT64_MAX);
	assert_string_equal(text(), "# HELP te_x_total what it is\n"
				    "# TYPE te_x_total counter\n"
				    "te_x_total 18446744073709551615\n");
}

static void health_is_a_status_and_a_reason(void **state)
{
	struct tei_http_reply reply = {.body = out};

	(void)state;
	assert_int_equal(tei_http_health(&reply, true, "why"), 200);
	assert_int_equal(tei_http_health(&reply, false, "why"), 503);
	assert_string_equal(text(), "OK\nwhy\n");
}

static void a_port_that_was_not_opened_is_no_success(void **state)
{
	const struct tei_http_config config = {.what = "test"};
	struct tei_http *http = NULL;
	struct tei_loop *loop;
	uint16_t port = 0;

	(void)state;
	assert_int_equal(tei_loop_create("test", &loop), 0);
	tei_loop_stop(loop);
	assert_int_equal(tei_http_start_from(loop, &config, &port, &http),
			 -ECANCELED);
	assert_null(http);
	tei_loop_destroy(loop);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_metric_has_help_type_and_value),
		TEST(health_is_a_status_and_a_reason),
		TEST(a_port_that_was_not_opened_is_no_success),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
