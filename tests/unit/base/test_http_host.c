/* SPDX-License-Identifier: Apache-2.0 */
/* test_http_host.c - a request is for this host, or refused */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/unit/base/http_site.h"

static int status_for(const char *host)
{
	char text[5000];

	snprintf(text, sizeof(text), "GET /echo HTTP/1.1\r\nHost: %s\r\n\r\n",
		 host);
	return site_status(text);
}

static void expect(const char *const names[], size_t n, int status)
{
	for (size_t i = 0; i < n; i++) {
		if (status_for(names[i]) != status)
			print_error("Host: %s\n", names[i]);
		assert_int_equal(status_for(names[i]), status);
	}
}

static void a_name_that_points_here_is_not_this_host(void **state)
{
	static const char *const others[] = {
		"evil.example",
		"evil.example:80",
		"",
		"localhost.x",
		"127.0.0.1.evil",
		"[::1.x]",
		"127.0.0.1@evil",
		"localhost evil",
		".",
		"[]",
		":80",
		"localhost..",
		"[::1]evil.example",
		"[::1]evil.example:80",
		"[::1].evil.example",
		"[::1]:80.evil.example",
		"[::1",
		"[localhost]",
		"[127.0.0.1]",
		"::1",
		"127.0.0.1:80.evil.example",
		"localhost:evil.example",
		"localhost:-1",
	};
	unsigned int before = site_count(TEI_HTTP_FORBIDDEN);
	char most[4096];

	(void)state;
	site_start_as(false, NULL);
	expect(others, TEST_COUNT(others), 403);
	assert_non_null(strstr(site_answer, "allow_host"));
	assert_true(site_count(TEI_HTTP_FORBIDDEN) > before);
	memset(most, 'a', sizeof(most) - 1);
	most[sizeof(most) - 1] = '\0';
	assert_int_equal(status_for(most), 403);
	/* Also where there is nothing: what paths there are is not told. */
	assert_int_equal(site_status("GET / HTTP/1.1\r\nHost: evil\r\n\r\n"),
			 403);
}

static void addresses_and_the_machines_name_are(void **state)
{
	static const char *const names[] = {
		"localhost", "LOCALHOST.:80", "127.0.0.1",    "[::1]:8080",
		"[::1]",     "10.1.2.3:9003", "127.0.0.1:80", "localhost:",
	};
	char own[256];

	(void)state;
	site_start_as(false, "");
	expect(names, TEST_COUNT(names), 200);
	assert_int_equal(gethostname(own, sizeof(own)), 0);
	assert_int_equal(status_for(own), 200);
	assert_int_equal(site_status("GET /echo HTTP/1.0\r\n\r\n"), 200);
}

static void names_that_are_told_are_this_host(void **state)
{
	static const char *const told[] = {
		"proxy.example", "PROXY.example:80", "other.:1", "localhost",
		"dotted",        "Dotted.:80",       "ported",   "ported.:81"};
	static const char *const others[] = {
		"proxy", "proxy.example,other",
		"third", "proxy.example.x",
		"",      ".",
		":80",   "dotted..",
	};
	char names[] = ", proxy.example,Other ,dotted.,ported:8080,.:1,:80,";

	(void)state;
	site_start_as(false, names);
	memset(names, 'x', sizeof(names) - 1); /* it has a copy */
	expect(told, TEST_COUNT(told), 200);
	expect(others, TEST_COUNT(others), 403);
}

static void who_serves_other_hosts_has_any_name_unless_told(void **state)
{
	(void)state;
	site_start_as(true, NULL);
	assert_int_equal(status_for("node7.cluster"), 200);
	site_start_as(true, "proxy");
	assert_int_equal(status_for("node7.cluster"), 403);
	assert_int_equal(status_for("proxy"), 200);
}

static void two_names_are_malformed(void **state)
{
	(void)state;
	site_start_as(true, NULL);
	assert_int_equal(site_status("GET /echo HTTP/1.1\r\nHost: localhost\r\n"
				     "host: localhost\r\n\r\n"),
			 400);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_that_points_here_is_not_this_host),
		cmocka_unit_test(addresses_and_the_machines_name_are),
		cmocka_unit_test(names_that_are_told_are_this_host),
		cmocka_unit_test(
			who_serves_other_hosts_has_any_name_unless_told),
		cmocka_unit_test(two_names_are_malformed),
	};

	return cmocka_run_group_tests(tests, site_set_up, site_tear_down);
}
