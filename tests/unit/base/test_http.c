/* SPDX-License-Identifier: Apache-2.0 */
/* test_http.c - requests to the HTTP server, and how it refuses them */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/faults.h"
#include "tests/lib/test.h"
#include "tests/unit/base/http_site.h"

static void each_method_finds_its_route(void **state)
{
	static const char *const methods[] = {"GET", "PUT", "POST", "DELETE"};
	const char *body;
	char text[100];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(methods); i++) {
		snprintf(text, sizeof(text), "%s /echo?m=%s HTTP/1.1\r\n\r\n",
			 methods[i], methods[i]);
		assert_int_equal(site_ask(text, &body), 200);
		assert_int_equal(strncmp(body, "m=", 2), 0);
		assert_non_null(strstr(body, methods[i]));
	}
}

static void head_is_get_without_the_body(void **state)
{
	const char *body;

	(void)state;
	assert_int_equal(site_ask("HEAD /echo?a=b HTTP/1.1\r\n\r\n", &body),
			 200);
	assert_string_equal(body, "");
	assert_non_null(strstr(site_answer, "Content-Length: 4\r\n"));
}

static void an_unknown_path_is_told_what_there_is(void **state)
{
	const char *body;

	(void)state;
	assert_int_equal(site_ask("GET / HTTP/1.1\r\n\r\n", &body), 404);
	assert_non_null(strstr(body, "/echo, /query, /pieces\n"));
	assert_int_equal(site_status("BREW / HTTP/1.1\r\n\r\n"), 404);
	assert_int_equal(site_status("GET /ECHO HTTP/1.1\r\n\r\n"), 404);
}

static void a_wrong_method_is_told_the_right_ones(void **state)
{
	unsigned int before = site_count(TEI_HTTP_METHOD);
	const char *body;

	(void)state;
	assert_int_equal(site_ask("BREW /echo HTTP/1.1\r\n\r\n", &body), 405);
	assert_non_null(
		strstr(site_answer, "Allow: GET, HEAD, PUT, POST, DELETE\r\n"));
	assert_int_equal(site_ask("PUT /query HTTP/1.1\r\n\r\n", &body), 405);
	assert_non_null(strstr(site_answer, "Allow: GET, HEAD\r\n"));
	assert_int_equal(site_count(TEI_HTTP_METHOD), before + 2);
}

static void parameters_are_decoded(void **state)
{
	static const char text[] =
		"GET /echo?a=1&b=%41%2b+%26&&c&=d&e=2&%66=3 HTTP/1.1\r\n\r\n";
	const char *body;

	(void)state;
	assert_int_equal(site_ask(text, &body), 200);
	assert_string_equal(body, "a=1\nb=A+ &\nc=\n=d\ne=2\nf=3\n");
}

static void a_value_may_hold_any_byte(void **state)
{
	const char *body;

	(void)state;
	assert_int_equal(
		site_ask("GET /query?key=%00a%00%ff%0A HTTP/1.1\r\n\r\n",
			 &body),
		200);
	assert_memory_equal(body, "5:\0a\0\xff\n", 7);
	assert_int_equal(site_ask("GET /query?kei=1 HTTP/1.1\r\n\r\n", &body),
			 404);
	assert_int_equal(site_ask("GET /query?key HTTP/1.1\r\n\r\n", &body),
			 200);
	assert_string_equal(body, "0:");
}

static void bad_escapes_are_refused(void **state)
{
	static const char *const bad[] = {"%",   "%4", "a%",     "%g1",
					  "%1g", "%%", "key=%1", "%=1"};
	unsigned int before = site_count(TEI_HTTP_MALFORMED);
	char text[100];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		snprintf(text, sizeof(text), "GET /echo?%s HTTP/1.1\r\n\r\n",
			 bad[i]);
		assert_int_equal(site_status(text), 400);
	}
	assert_int_equal(site_count(TEI_HTTP_MALFORMED),
			 before + TEST_COUNT(bad));
}

/*
 * A proxy that takes a bare line feed for a line end would see other fields
 * than we do.
 */
static void what_hides_a_field_is_refused(void **state)
{
	static const char *const fields[] = {
		"X: a\nHost: evil",
		"X: a\rHost: evil",
		"X: a\n\nHost: evil",
		"X\n: a",
		"X : a",
		"X\t: a",
		" X: a",
		"X: a\r\n b",
		"X: \x1b[2J",
		"X: \x7f",
		"X(y): a",
		"\x9b: a",
		": a",
		"X",
		"Ho\nst: evil",
		"X: a\n Host: evil",
	};
	unsigned int before = site_count(TEI_HTTP_MALFORMED);
	char text[200];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(fields); i++) {
		snprintf(text, sizeof(text), "GET /echo HTTP/1.1\r\n%s\r\n\r\n",
			 fields[i]);
		assert_int_equal(site_status(text), 400);
		assert_non_null(strstr(site_answer, "a field is malformed"));
	}
	assert_int_equal(site_count(TEI_HTTP_MALFORMED),
			 before + TEST_COUNT(fields));
	assert_int_equal(site_status("GET /echo HTTP/1.1\r\n"
				     "X-a_b.1:\ta\tb \xc3\xa9\r\n\r\n"),
			 200);
}

static void refusals_say_what_is_wrong(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{"GET /echo?%4 HTTP/1.1\r\n\r\n",
		 "\r\n\r\na parameter has % without two digits\n"},
		{"GET /echo HTTP/1.1\r\nContent-Length: 1\r\n\r\nx",
		 "\r\n\r\nno body expected\n"},
		{"PUT /echo HTTP/1.1\r\nContent-Length: 1073741824\r\n\r\n",
		 "\r\n\r\na body has at most 100000 bytes\n"},
		{"PUT /echo HTTP/1.1\r\nContent-Length: x\r\n\r\n",
		 "\r\n\r\nContent-Length should be one number\n"},
		{"PUT /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
		 "\r\n\r\na body needs a Content-Length\n"},
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		assert_true(site_status(cases[i].text) >= 400);
		assert_non_null(strstr(site_answer, cases[i].words));
	}
}

static void too_many_parameters_are_refused(void **state)
{
	char text[200];
	size_t at = (size_t)snprintf(text, sizeof(text), "GET /echo?");

	(void)state;
	for (int i = 0; i < TEI_HTTP_PARAMS_MAX + 1; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "a%d=1&",
				       i);
	(void)snprintf(text + at, sizeof(text) - at, " HTTP/1.1\r\n\r\n");
	assert_int_equal(site_status(text), 400);
}

static void a_parameter_may_be_there_once(void **state)
{
	(void)state;
	assert_int_equal(site_status("GET /query?key=a&kez=b HTTP/1.1\r\n\r\n"),
			 200);
	assert_int_equal(site_status("GET /query?key=a&key=a HTTP/1.1\r\n\r\n"),
			 400);
	assert_int_equal(site_status("GET /query?key=a&k%65y HTTP/1.1\r\n\r\n"),
			 400);
}

/* 128 of them are all that there is room for. */
static void who_says_nothing_keeps_nobody_out(void **state)
{
	unsigned int before = site_count(TEI_HTTP_FULL);
	int silent[128];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(silent); i++) {
		silent[i] = site_dial();
		if (i % 2)
			site_say(silent[i], "GET /echo", 9);
	}
	for (int i = 0; i < 8; i++)
		assert_int_equal(
			site_status("GET /query?key=a HTTP/1.1\r\n\r\n"), 200);
	assert_true(site_count(TEI_HTTP_FULL) > before);
	for (size_t i = 0; i < TEST_COUNT(silent); i++)
		close(silent[i]);
}

static void a_page_of_another_site_may_only_look(void **state)
{
	(void)state;
	assert_int_equal(site_status("POST /echo HTTP/1.1\r\n"
				     "Origin: http://elsewhere\r\n\r\n"),
			 403);
	assert_int_equal(site_status("GET /echo HTTP/1.1\r\n"
				     "Origin: http://elsewhere\r\n\r\n"),
			 200);
}

static void a_request_out_of_memory_harms_no_other(void **state)
{
	struct test_faults f = {.kind = TEI_FAULT_ALLOC};

	(void)state;
	while (test_faults_next(&f)) {
		int fd = site_dial();

		/* Refused or not: it ends, and the next one is served. */
		(void)send(fd, "GET /echo?a=b HTTP/1.1\r\n\r\n", 26,
			   MSG_NOSIGNAL);
		while (recv(fd, site_answer, SITE_ROOM, 0) > 0)
			;
		close(fd);
	}
	assert_int_equal(site_status("GET /echo HTTP/1.1\r\n\r\n"), 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_method_finds_its_route),
		cmocka_unit_test(head_is_get_without_the_body),
		cmocka_unit_test(an_unknown_path_is_told_what_there_is),
		cmocka_unit_test(a_wrong_method_is_told_the_right_ones),
		cmocka_unit_test(parameters_are_decoded),
		cmocka_unit_test(a_value_may_hold_any_byte),
		cmocka_unit_test(bad_escapes_are_refused),
		cmocka_unit_test(what_hides_a_field_is_refused),
		cmocka_unit_test(refusals_say_what_is_wrong),
		cmocka_unit_test(too_many_parameters_are_refused),
		cmocka_unit_test(a_parameter_may_be_there_once),
		cmocka_unit_test(who_says_nothing_keeps_nobody_out),
		cmocka_unit_test(a_page_of_another_site_may_only_look),
		cmocka_unit_test(a_request_out_of_memory_harms_no_other),
	};

	return cmocka_run_group_tests(tests, site_set_up, site_tear_down);
}
