/* SPDX-License-Identifier: Apache-2.0 */
/* test_net.c - names, addresses, listening */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/net.h"
#include "tests/lib/test.h"

static char logged[512];
static int n_logged;

static void keep(int level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	strncpy(logged, line, sizeof(logged) - 1);
	n_logged++;
}

static int setup(void **state)
{
	(void)state;
	tei_log_set_sink(keep, NULL);
	n_logged = 0;
	return 0;
}

static void names_split_and_join(void **state)
{
	static const struct {
		const char *name, *host;
		uint16_t port;
		const char *joined;
	} cases[] = {
		{"node-a", "node-a", 0, "node-a:0"},
		{"node-a:1", "node-a", 1, "node-a:1"},
		{"1.2.3.4:65535", "1.2.3.4", 65535, "1.2.3.4:65535"},
		{"h:0", "h", 0, "h:0"},
		{"::1", "::1", 0, "[::1]:0"},
		{"fe80::1%eth0", "fe80::1%eth0", 0, "[fe80::1%eth0]:0"},
		{"[::1]", "::1", 0, "[::1]:0"},
		{"[2001:db8::2]:80", "2001:db8::2", 80, "[2001:db8::2]:80"},
		{"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8", 0,
		 "[1:2:3:4:5:6:7:8]:0"},
	};
	char host[TEI_HOST_LEN_MAX + 1], joined[TEI_NAME_LEN_MAX + 1];
	uint16_t port;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		assert_int_equal(tei_name_split(cases[i].name, host, &port), 0);
		assert_string_equal(host, cases[i].host);
		assert_int_equal(port, cases[i].port);
		tei_name_join(host, port, joined);
		assert_string_equal(joined, cases[i].joined);
	}
}

static void malformed_names_are_refused(void **state)
{
	static const char *const bad[] = {
		"",      ":",       ":80",    "h:",   "h:65536",       "h:-1",
		"h:8x",  "[::1",    "::1]",   "[]:1", "[::1]80",       "[::1]:",
		"h:0x1", "[::1]:x", "[a]b:1", "h: 1", "h:99999999999",
	};
	char host[TEI_HOST_LEN_MAX + 1], name[400];
	uint16_t port;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(bad); i++)
		if (tei_name_split(bad[i], host, &port) != -EINVAL)
			fail_msg("taken: %s", bad[i]);
	memset(name, 'x', sizeof(name));
	name[TEI_HOST_LEN_MAX] = '\0';
	assert_int_equal(tei_name_split(name, host, &port), 0);
	name[TEI_HOST_LEN_MAX] = 'x';
	name[TEI_HOST_LEN_MAX + 1] = '\0';
	assert_int_equal(tei_name_split(name, host, &port), -EINVAL);
}

static struct tei_address address(const char *host, uint16_t port)
{
	struct tei_address a;

	assert_int_equal(tei_resolve(host, port, &a, 1), 1);
	return a;
}

static void numeric_hosts_resolve_and_print(void **state)
{
	static const char *const hosts[][2] = {
		{"127.0.0.1", "127.0.0.1:9"},
		{"::1", "[::1]:9"},
		{"::ffff:10.1.2.3", "10.1.2.3:9"},
	};
	char text[TEI_NAME_LEN_MAX + 1];
	struct tei_address a;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(hosts); i++) {
		a = address(hosts[i][0], 9);
		tei_address_text(&a, text);
		assert_string_equal(text, hosts[i][1]);
		assert_int_equal(tei_address_port(&a), 9);
	}
	tei_address_set_port(&a, 10);
	assert_int_equal(tei_address_port(&a), 10);
	assert_int_equal(tei_resolve("no such host", 1, &a, 1), -EHOSTUNREACH);
}

static void hosts_are_the_same_in_either_form(void **state)
{
	static const char *const hosts[] = {"127.0.0.1", "10.1.2.3", "::1",
					    "2001:db8::1"};
	struct tei_address a, b;
	uint8_t bytes[16];
	size_t len;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(hosts); i++) {
		a = address(hosts[i], 9);
		len = tei_address_bytes(&a, bytes);
		assert_int_equal(len, i < 2 ? 4 : 16);
		assert_true(tei_address_from_bytes(bytes, len, 10, &b));
		assert_true(tei_address_same_host(&a, &b));
		assert_int_equal(tei_address_port(&b), 10);
		b = address(hosts[(i + 1) % TEST_COUNT(hosts)], 9);
		assert_false(tei_address_same_host(&a, &b));
	}
	a = address("10.1.2.3", 1);
	b = address("::ffff:10.1.2.3", 2);
	assert_true(tei_address_same_host(&a, &b));
	assert_false(tei_address_from_bytes(bytes, 5, 1, &a));
	a = (struct tei_address){0};
	assert_int_equal(tei_address_bytes(&a, bytes), 0);
	assert_false(tei_address_same_host(&a, &a));
}

static void loopback_and_own_addresses_are_local(void **state)
{
	static const char *const local[] = {"127.0.0.1", "127.9.8.7", "::1",
					    "::ffff:127.0.0.1"};
	static const char *const remote[] = {"192.0.2.1", "2001:db8::1",
					     "::ffff:192.0.2.1", "0.0.0.0",
					     "128.0.0.1"};
	struct ifaddrs *list, *i;
	struct tei_address a;

	(void)state;
	for (size_t n = 0; n < TEST_COUNT(local); n++) {
		a = address(local[n], 1);
		assert_true(tei_address_is_local(&a));
	}
	for (size_t n = 0; n < TEST_COUNT(remote); n++) {
		a = address(remote[n], 1);
		assert_false(tei_address_is_local(&a));
	}
	assert_int_equal(getifaddrs(&list), 0);
	for (i = list; i; i = i->ifa_next) {
		socklen_t len = sizeof(struct sockaddr_in);

		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
			continue;
		memset(&a, 0, sizeof(a));
		memcpy(&a.ss, i->ifa_addr, len);
		a.len = len;
		assert_true(tei_address_is_local(&a));
	}
	freeifaddrs(list);
	memset(&a, 0, sizeof(a));
	a.ss.ss_family = AF_UNIX;
	assert_false(tei_address_is_local(&a));
}

static void interface_is_found_by_its_address(void **state)
{
	struct tei_address lo = address("127.0.0.1", 7);
	struct tei_address far = address("192.0.2.1", 7), none = {.len = 0};
	uint8_t prefix;

	(void)state;
	assert_int_equal(tei_interface_of(&lo, &prefix),
			 (int)if_nametoindex("lo"));
	assert_int_equal(prefix, 8);
	assert_int_equal(tei_interface_of(&far, &prefix), 0);
	assert_int_equal(prefix, 32);
	assert_int_equal(tei_interface_of(&none, &prefix), 0);
	assert_int_equal(prefix, 0);
	tei_fault_arm(TEI_FAULT_SOCKET, 1);
	assert_int_equal(tei_interface_of(&lo, &prefix), -EMFILE);
	tei_fault_disarm_all();
}

static void networks_are_compared_to_the_bit(void **state)
{
	static const uint8_t a[4] = {10, 9, 0xa8, 1}, b[4] = {10, 9, 0xaf, 2};

	(void)state;
	assert_true(tei_same_network(a, b, 21));
	assert_false(tei_same_network(a, b, 22));
	assert_true(tei_same_network(a, b, 16));
	assert_true(tei_same_network(a, a, 32));
	assert_false(tei_same_network(a, b, 32));
	assert_false(tei_same_network(a, a, 0));
}

static void taken_port_is_named_in_the_log(void **state)
{
	uint16_t port = 0, again = 0;
	int fd = tei_listen("127.0.0.1", 0, "test port", &port);
	char want[64];

	(void)state;
	assert_true(fd >= 0);
	assert_int_not_equal(port, 0);
	assert_int_equal(tei_listen("127.0.0.1", port, "test port", &again),
			 -EADDRINUSE);
	snprintf(want, sizeof(want), "test port: listen at 127.0.0.1:%u", port);
	assert_non_null(strstr(logged, want));
	close(fd);
	tei_fault_arm(TEI_FAULT_SOCKET, 1);
	assert_int_equal(tei_listen("127.0.0.1", 0, "test port", &port),
			 -EMFILE);
	tei_fault_disarm_all();
	fd = tei_listen(NULL, 0, "test port", &port);
	assert_true(fd >= 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(names_split_and_join, setup),
		cmocka_unit_test_setup(malformed_names_are_refused, setup),
		cmocka_unit_test_setup(numeric_hosts_resolve_and_print, setup),
		cmocka_unit_test_setup(hosts_are_the_same_in_either_form,
				       setup),
		cmocka_unit_test_setup(loopback_and_own_addresses_are_local,
				       setup),
		cmocka_unit_test_setup(interface_is_found_by_its_address,
				       setup),
		cmocka_unit_test_setup(networks_are_compared_to_the_bit, setup),
		cmocka_unit_test_setup(taken_port_is_named_in_the_log, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
