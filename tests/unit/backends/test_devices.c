/* SPDX-License-Identifier: Apache-2.0 */
/* test_devices.c - interfaces as rails of tcp: named, found, matched */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>

#include "backends/tcp/tcp.h"
#include "base/clock.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/fake_core.h"

extern const struct tei_backend_ops tei_backend_tcp;

struct seen {
	int n;
	struct tei_device device[8];
};

static int note(const struct tei_device *device, void *arg)
{
	struct seen *seen = arg;

	if (seen->n < 8)
		seen->device[seen->n] = *device;
	seen->n++;
	return 0;
}

static int probe(char *devices, struct seen *seen)
{
	struct tcp_config config = {.devices = devices};
	struct tei_search search = {
		.config = &config, .found = note, .arg = seen};

	*seen = (struct seen){0};
	return tei_backend_tcp.probe(&search);
}

static void one_rail_stands_for_the_whole_network_by_default(void **state)
{
	char none[] = "";
	struct seen seen;

	(void)state;
	assert_int_equal(probe(NULL, &seen), 0);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.device[0].address.ss.ss_family, AF_UNSPEC);
	assert_int_equal(probe(none, &seen), 0);
	assert_int_equal(seen.n, 1);
}

static void each_name_in_the_list_is_a_rail(void **state)
{
	char list[] = "lo, 127.0.0.2";
	const struct sockaddr_in *in;
	struct seen seen;

	(void)state;
	assert_int_equal(probe(list, &seen), 0);
	assert_int_equal(seen.n, 2);
	assert_string_equal(seen.device[0].name, "lo");
	assert_string_equal(seen.device[1].name, "127.0.0.2");
	in = (const void *)&seen.device[1].address.ss;
	assert_int_equal(ntohl(in->sin_addr.s_addr), 0x7f000002);
}

static void unknown_device_is_refused(void **state)
{
	char list[] = "no-such-device0", far[] = "192.0.2.77";
	struct seen seen;

	(void)state;
	assert_int_equal(probe(list, &seen), -EINVAL);
	assert_int_equal(probe(far, &seen), -EINVAL);
	assert_int_equal(seen.n, 0);
}

static void all_leaves_the_loopback_out(void **state)
{
	char list[] = "all";
	struct seen seen;
	int i;

	(void)state;
	assert_int_equal(probe(list, &seen), 0);
	for (i = 0; i < seen.n && i < 8; i++)
		assert_string_not_equal(seen.device[i].name, "lo");
}

/* ---- who reaches whom ---- */

static struct tcp_network network(const char *ip, uint8_t prefix)
{
	struct tcp_network n = {.prefix = prefix};

	n.family = strchr(ip, ':') ? 6 : 4;
	assert_int_equal(
		inet_pton(n.family == 4 ? AF_INET : AF_INET6, ip, n.ip), 1);
	return n;
}

static int rank(struct tcp_network mine, struct tcp_network other)
{
	_Alignas(max_align_t) static unsigned char
		memory[sizeof(struct tei_rail) + sizeof(struct tcp_rail)];
	struct tei_rail *rail = (struct tei_rail *)(void *)memory;
	uint8_t blob[TCP_NETWORK_LEN];

	memset(memory, 0, sizeof(memory));
	tcp_rail(rail)->network = mine;
	tei_tcp_network_encode(&other, blob);
	return tei_tcp_rail_match(rail, NULL, blob, sizeof(blob));
}

static void same_network_is_the_best_match(void **state)
{
	struct tcp_network any = {0};
	int same, routed, one_any;

	(void)state;
	same = rank(network("10.0.0.1", 24), network("10.0.0.2", 24));
	routed = rank(network("10.0.0.1", 24), network("10.0.1.2", 24));
	one_any = rank(any, network("10.0.1.2", 24));
	assert_true(same > routed && routed > one_any && one_any > 0);
	assert_int_equal(
		rank(network("10.0.15.1", 20), network("10.0.0.2", 20)), same);
	assert_int_equal(
		rank(network("10.0.16.1", 20), network("10.0.0.2", 20)),
		routed);
	assert_int_equal(rank(network("fd00::1", 64), network("fd00::2", 64)),
			 same);
}

static void families_and_loopback_do_not_mix(void **state)
{
	(void)state;
	assert_int_equal(rank(network("10.0.0.1", 24), network("fd00::2", 64)),
			 0);
	assert_int_equal(rank(network("127.0.0.1", 8), network("10.0.0.1", 24)),
			 0);
	assert_int_equal(rank(network("::1", 128), network("fd00::2", 64)), 0);
}

static void garbage_matches_nothing(void **state)
{
	_Alignas(max_align_t) static unsigned char
		memory[sizeof(struct tei_rail) + sizeof(struct tcp_rail)];
	struct tei_rail *rail = (struct tei_rail *)(void *)memory;
	uint8_t blob[TCP_NETWORK_LEN + 1] = {5, 0};

	(void)state;
	assert_int_equal(tei_tcp_rail_match(rail, NULL, blob, TCP_NETWORK_LEN),
			 0);
	blob[0] = 4;
	blob[1] = 33;
	assert_int_equal(tei_tcp_rail_match(rail, NULL, blob, TCP_NETWORK_LEN),
			 0);
	assert_int_equal(tei_tcp_rail_match(rail, NULL, blob, sizeof(blob)), 0);
}

/* ---- links ---- */

static struct rlimit limit;

static void take_descriptors(void)
{
	struct rlimit none;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
}

static void give_descriptors(void)
{
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* A rail that stands for the loopback. */
static struct tcp_rail *open_lo(struct fake_rail *r)
{
	struct tcp_rail *rail;
	struct tei_address *a;

	assert_int_equal(fake_rail_open(r, &tei_backend_tcp, NULL), 0);
	rail = tcp_rail(r->rail);
	a = &r->rail->device.address;
	*a = (struct tei_address){.len = sizeof(struct sockaddr_in)};
	((struct sockaddr_in *)(void *)&a->ss)->sin_family = AF_INET;
	assert_int_equal(
		inet_pton(AF_INET, "127.0.0.1",
			  &((struct sockaddr_in *)(void *)&a->ss)->sin_addr),
		1);
	assert_int_equal(tei_tcp_link_open(rail), 0);
	fake_n_downs = 0;
	return rail;
}

static void missing_descriptors_are_no_missing_link(void **state)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;
	struct fake_rail r;
	struct tcp_rail *rail = open_lo(&r);

	(void)state;
	take_descriptors();
	tei_tcp_link_check(rail);
	assert_false(rail->link_unsure);
	/* Another interface has its address now; which one? */
	rail->ifindex = 0x7fffff;
	tei_tcp_link_check(rail);
	give_descriptors();
	assert_int_equal(fake_n_downs, 0);
	assert_true(rail->link_unsure);
	while (rail->link_unsure && tei_now_ms() < end)
		assert_true(fake_turn(r.rail) >= 0);
	assert_int_equal(fake_n_downs, 0);
	assert_int_equal(rail->ifindex, (int)if_nametoindex("lo"));
	fake_rail_close(&r);
}

static void interface_that_is_gone_is_down(void **state)
{
	struct fake_rail r;
	struct tcp_rail *rail = open_lo(&r);
	struct sockaddr_in *in = (void *)&r.rail->device.address.ss;

	(void)state;
	assert_int_equal(inet_pton(AF_INET, "192.0.2.77", &in->sin_addr), 1);
	rail->ifindex = 0x7fffff;
	tei_tcp_link_check(rail);
	assert_int_equal(fake_n_downs, 1);
	fake_rail_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			one_rail_stands_for_the_whole_network_by_default),
		cmocka_unit_test(each_name_in_the_list_is_a_rail),
		cmocka_unit_test(unknown_device_is_refused),
		cmocka_unit_test(all_leaves_the_loopback_out),
		cmocka_unit_test(same_network_is_the_best_match),
		cmocka_unit_test(families_and_loopback_do_not_mix),
		cmocka_unit_test(garbage_matches_nothing),
		cmocka_unit_test(missing_descriptors_are_no_missing_link),
		cmocka_unit_test(interface_that_is_gone_is_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
