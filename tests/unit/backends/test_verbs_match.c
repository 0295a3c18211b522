/* SPDX-License-Identifier: Apache-2.0 */
/* test_verbs_match.c - which rails of two hosts go together */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/chance.h"
#include "base/fault.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/verbs_rig.h"

#define N_NICS 4

/* @prefix: of the address as it is written. */
static struct verbs_self roce(const char *name, const char *ip, uint8_t prefix)
{
	struct verbs_self self = {.link = VERBS_LINK_ETHERNET,
				  .prefix = prefix};

	(void)snprintf(self.name, sizeof(self.name), "%s", name);
	if (inet_pton(AF_INET6, ip, self.gid.raw) == 1)
		return self;
	self.gid.raw[10] = self.gid.raw[11] = 0xff;
	assert_int_equal(inet_pton(AF_INET, ip, self.gid.raw + 12), 1);
	if (prefix)
		self.prefix = (uint8_t)(96 + prefix);
	return self;
}

static struct verbs_self infiniband(const char *name, uint8_t subnet)
{
	struct verbs_self self = {
		.link = VERBS_LINK_IB,
		.prefix = 64,
		.gid.raw = {0xfe, 0x80, [7] = subnet, [8] = 2, [15] = 1}};

	(void)snprintf(self.name, sizeof(self.name), "%s", name);
	return self;
}

static int rank(struct verbs_self mine, struct verbs_self other)
{
	return tei_verbs_match(NULL, &mine, &other);
}

/* ---- networks ---- */

static void same_network_comes_before_the_same_name_of_another(void **state)
{
	struct verbs_self mine = roce("mlx5_0/1", "10.9.1.1", 24);
	int same = rank(mine, roce("mlx5_7/1", "10.9.1.9", 24));
	int both = rank(mine, roce("mlx5_0/1", "10.9.1.9", 24));
	int routed = rank(mine, roce("mlx5_7/1", "10.9.2.9", 24));
	int named = rank(mine, roce("mlx5_0/1", "10.9.2.9", 24));

	(void)state;
	assert_true(both > same && same > named && named > routed);
	assert_true(routed > 0);
}

static void network_is_as_large_as_the_smaller_side_says(void **state)
{
	struct verbs_self mine = roce("a/1", "10.9.1.1", 24);
	int same = rank(mine, roce("b/1", "10.9.1.2", 24));

	(void)state;
	assert_int_equal(rank(mine, roce("b/1", "10.9.1.2", 16)), same);
	assert_int_equal(rank(mine, roce("b/1", "10.9.2.2", 16)), same);
	assert_int_equal(rank(mine, roce("b/1", "10.9.1.2", 0)), same);
	assert_true(rank(mine, roce("b/1", "10.9.2.2", 0)) < same);
	mine.prefix = 0;
	assert_int_equal(rank(mine, roce("b/1", "10.9.1.2", 24)), same);
	assert_true(rank(mine, roce("b/1", "10.9.1.2", 0)) < same);
}

static void addresses_of_another_kind_are_not_reached(void **state)
{
	struct verbs_self v4 = roce("a/1", "10.9.1.1", 24);
	struct verbs_self v6 = roce("a/1", "fd00::1", 64);
	struct verbs_self link = roce("a/1", "fe80::1", 64);
	struct verbs_self ib = infiniband("a/1", 0);

	(void)state;
	assert_int_equal(rank(v4, v6), 0);
	assert_int_equal(rank(v6, link), 0);
	assert_int_equal(rank(link, v6), 0);
	assert_int_equal(rank(v4, ib), 0);
	assert_int_equal(rank(ib, v4), 0);
	assert_true(rank(v6, roce("b/1", "fd00:1::1", 64)) > 0);
}

static void addresses_of_the_link_go_by_name(void **state)
{
	struct verbs_self mine = roce("a/1", "fe80::1", 64);
	int named = rank(mine, roce("a/1", "fe80::2", 64));
	int other = rank(mine, roce("b/1", "fe80::2", 64));

	(void)state;
	assert_true(named > other && other > 0);
	assert_true(other < rank(roce("a/1", "10.9.1.1", 24),
				 roce("b/1", "10.8.1.1", 24)));
}

static void infiniband_is_reached_in_its_own_subnet_only(void **state)
{
	(void)state;
	assert_true(rank(infiniband("a/1", 1), infiniband("b/1", 1)) > 0);
	assert_int_equal(rank(infiniband("a/1", 1), infiniband("a/1", 2)), 0);
}

/* ---- the user's map ---- */

static int mapped(const char *map, const char *mine, const char *other)
{
	struct verbs_self a = roce(mine, "10.9.1.1", 24);
	struct verbs_self b = roce(other, "10.8.1.1", 24);

	assert_null(tei_verbs_map_fault(map));
	return tei_verbs_match(map, &a, &b);
}

static void map_has_the_last_word(void **state)
{
	const char *map = "mlx5_0=mlx5_2,mlx5_3/2 ; mlx5_1/1 = mlx5_0;";
	int first = mapped(map, "mlx5_0/1", "mlx5_2/1");

	(void)state;
	assert_true(first > mapped(map, "mlx5_0/1", "mlx5_3/2"));
	assert_true(
		mapped(map, "mlx5_0/1", "mlx5_3/2") >
		rank(roce("x/1", "10.9.1.1", 24), roce("x/1", "10.9.1.2", 24)));
	assert_int_equal(mapped(map, "mlx5_0/2", "mlx5_2/2"), first);
	assert_int_equal(mapped(map, "mlx5_0/1", "mlx5_3/1"), 0);
	assert_int_equal(mapped(map, "mlx5_0/1", "mlx5_0/1"), 0);
	assert_int_equal(mapped(map, "mlx5_0/1", "mlx5_22/1"), 0);
	assert_true(mapped(map, "mlx5_1/1", "mlx5_0/1") > 0);
	assert_int_equal(mapped(map, "mlx5_1/1", "mlx5_2/1"), 0);
	/* Not named: as without a map. */
	assert_int_equal(mapped(map, "mlx5_1/2", "mlx5_9/1"),
			 mapped(NULL, "mlx5_1/2", "mlx5_9/1"));
	assert_int_equal(mapped("", "mlx5_1/2", "mlx5_9/1"),
			 mapped(NULL, "mlx5_1/2", "mlx5_9/1"));
}

static void long_map_ranks_its_last_places_alike(void **state)
{
	char map[1024] = "a=";

	(void)state;
	for (int i = 0; i < 100; i++)
		(void)snprintf(map + strlen(map), sizeof(map) - strlen(map),
			       "b%d,", i);
	map[strlen(map) - 1] = 0;
	assert_true(mapped(map, "a/1", "b0/1") > mapped(map, "a/1", "b63/1"));
	assert_int_equal(mapped(map, "a/1", "b64/1"),
			 mapped(map, "a/1", "b99/1"));
	assert_true(mapped(map, "a/1", "b99/1") > 0);
}

static void map_does_not_join_different_links(void **state)
{
	struct verbs_self a = roce("a/1", "10.9.1.1", 24);
	struct verbs_self b = infiniband("b/1", 0);

	(void)state;
	assert_int_equal(tei_verbs_match("a=b", &a, &b), 0);
}

static void malformed_map_is_refused_with_its_cause(void **state)
{
	static const char *const bad[] = {
		"mlx5_0", "=mlx5_1", "mlx5_0=", "a=b,,c",
		"a=b;c",  "a= ;",    "a=,b"};
	char set[64];

	(void)state;
	fake_verbs_start(1);
	tei_verbs_use(&fake_verbs);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct verbs_config config = {.peers = set};

		assert_non_null(tei_verbs_map_fault(bad[i]));
		(void)snprintf(set, sizeof(set), "%s", bad[i]);
		assert_int_equal(
			tei_verbs_ports_find(&fake_verbs, &config, NULL, NULL),
			-EINVAL);
	}
	fake_verbs_stop();
}

/* ---- what comes from outside ---- */

static void rails_come_back_as_they_went(void **state)
{
	struct verbs_self a = roce("mlx5_0/1", "10.9.1.1", 24), b;
	uint8_t bytes[TEI_BLOB_MAX];
	size_t len = sizeof(bytes);

	(void)state;
	assert_int_equal(tei_verbs_self_encode(&a, bytes, &len), 0);
	assert_int_equal(len, 20 + strlen("mlx5_0/1"));
	assert_null(tei_verbs_self_decode(bytes, len, &b));
	assert_memory_equal(&a, &b, sizeof(a));
	for (size_t cut = 0; cut < len; cut++)
		assert_non_null(tei_verbs_self_decode(bytes, cut, &b));
	assert_non_null(tei_verbs_self_decode(bytes, len + 1, &b));
	len = 24;
	assert_int_equal(tei_verbs_self_encode(&a, bytes, &len), -ENOBUFS);
}

static const char *changed(size_t at, uint8_t value)
{
	struct verbs_self a = roce("mlx5_0/1", "10.9.1.1", 24), b;
	uint8_t bytes[TEI_BLOB_MAX];
	size_t len = sizeof(bytes);

	assert_int_equal(tei_verbs_self_encode(&a, bytes, &len), 0);
	bytes[at] = value;
	return tei_verbs_self_decode(bytes, len, &b);
}

static void nonsense_is_refused_with_its_cause(void **state)
{
	(void)state;
	assert_string_equal(changed(0, 2), "unknown version");
	assert_string_equal(changed(1, 0), "unknown kind of link");
	assert_string_equal(changed(1, 3), "unknown kind of link");
	assert_string_equal(changed(2, 129),
			    "network of more bits than an address has");
	assert_string_equal(changed(3 + 12, 127), "GID is no host's");
	assert_string_equal(changed(19, 0), "of a wrong length");
	assert_string_equal(changed(19, 200), "of a wrong length");
	assert_string_equal(changed(20, 0), "name is none");
	assert_string_equal(changed(20, ' '), "name is none");
	assert_string_equal(changed(20, 0x80), "name is none");
	assert_null(changed(20, 'x'));
}

static void random_bytes_are_survived(void **state)
{
	uint64_t chance = 43;
	uint8_t bytes[80];

	(void)state;
	for (int i = 0; i < 200000; i++) {
		size_t len = tei_chance(&chance) % sizeof(bytes);
		struct verbs_self self;

		for (size_t k = 0; k < len; k++)
			bytes[k] = (uint8_t)tei_chance(&chance);
		if (i & 1 && len > 20) {
			bytes[0] = VERBS_WIRE_VERSION;
			bytes[1] = VERBS_LINK_ETHERNET;
			bytes[19] = (uint8_t)(len - 20);
		}
		if (tei_verbs_self_decode(bytes, len, &self))
			continue;
		assert_in_range(strlen(self.name), 1, sizeof(self.name) - 1);
		(void)rank(self, roce("a/1", "10.9.1.1", 24));
	}
}

/* ---- rails of the fake provider ---- */

/* Rank of rail @mine with @settings for what @other says of itself. */
static int rank_of_rails(const char *mine, const char *const settings[],
			 const char *other)
{
	const struct tei_backend_ops *ops = &tei_backend_verbs;
	const struct tei_address anywhere = {.len = 0};
	struct fake_rail a, b;
	uint8_t blob[TEI_BLOB_MAX];
	size_t len = sizeof(blob);
	int found;

	fake_device = mine;
	assert_int_equal(fake_rail_open(&a, ops, settings), 0);
	fake_device = other;
	assert_int_equal(fake_rail_open(&b, ops, NULL), 0);
	assert_int_equal(ops->rail_describe(b.rail, blob, &len), 0);
	found = ops->rail_match(a.rail, &anywhere, blob, len);
	assert_int_equal(ops->rail_match(a.rail, &anywhere, blob, len - 1), 0);
	assert_int_equal(atomic_load(&a.rail->bad_frames), 1);
	fake_rail_close(&b);
	fake_rail_close(&a);
	return found;
}

static void each_rail_prefers_its_namesake_or_what_the_map_says(void **state)
{
	static const char *const map[] = {
		"verbs.peers=fake0=fake3,fake2;fake1=fake0", NULL};
	char mine[32], other[32];
	int best, top;

	(void)state;
	fake_verbs_start(N_NICS);
	tei_verbs_use(&fake_verbs);
	for (int i = 0; i < N_NICS; i++) {
		(void)snprintf(mine, sizeof(mine), "fake%d/1", i);
		best = rank_of_rails(mine, NULL, mine);
		for (int k = 0; k < N_NICS; k++) {
			(void)snprintf(other, sizeof(other), "fake%d/1", k);
			if (k != i)
				assert_in_range(
					rank_of_rails(mine, NULL, other), 1,
					best - 1);
		}
	}
	top = rank_of_rails("fake0/1", map, "fake3/1");
	assert_in_range(rank_of_rails("fake0/1", map, "fake2/1"), 1, top - 1);
	assert_int_equal(rank_of_rails("fake0/1", map, "fake0/1"), 0);
	assert_int_equal(rank_of_rails("fake1/1", map, "fake0/1"), top);
	assert_true(rank_of_rails("fake2/1", map, "fake1/1") > 0);
	fake_verbs_stop();
}

static void rails_of_other_links_and_addresses_do_not_match(void **state)
{
	struct ibv_port_attr *port;

	(void)state;
	fake_verbs_start(3);
	tei_verbs_use(&fake_verbs);
	fake_verbs_set_gid(1, 1, 1, "fd00::1", IBV_GID_TYPE_ROCE_V2);
	port = fake_verbs_port(2, 1);
	port->link_layer = IBV_LINK_LAYER_INFINIBAND;
	port->lid = 7;
	fake_verbs_set_gid(2, 1, 0, "fe80::2:3", IBV_GID_TYPE_IB);
	assert_int_equal(rank_of_rails("fake0/1", NULL, "fake1/1"), 0);
	assert_int_equal(rank_of_rails("fake0/1", NULL, "fake2/1"), 0);
	assert_int_equal(rank_of_rails("fake2/1", NULL, "fake0/1"), 0);
	assert_true(rank_of_rails("fake2/1", NULL, "fake2/1") > 0);
	fake_verbs_stop();
}

static void network_is_that_of_the_interface(void **state)
{
	struct verbs_self lo = roce("a/1", "127.0.0.1", 0);

	(void)state;
	assert_int_equal(tei_verbs_prefix_of(VERBS_LINK_ETHERNET, &lo.gid),
			 96 + 8);
	lo = roce("a/1", "192.0.2.1", 0);
	assert_int_equal(tei_verbs_prefix_of(VERBS_LINK_ETHERNET, &lo.gid), 0);
	assert_int_equal(tei_verbs_prefix_of(VERBS_LINK_IB, &lo.gid), 64);
	tei_fault_arm(TEI_FAULT_SOCKET, 1);
	assert_int_equal(tei_verbs_prefix_of(VERBS_LINK_ETHERNET, &lo.gid),
			 -EMFILE);
	tei_fault_disarm_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			same_network_comes_before_the_same_name_of_another),
		cmocka_unit_test(network_is_as_large_as_the_smaller_side_says),
		cmocka_unit_test(addresses_of_another_kind_are_not_reached),
		cmocka_unit_test(addresses_of_the_link_go_by_name),
		cmocka_unit_test(infiniband_is_reached_in_its_own_subnet_only),
		cmocka_unit_test(map_has_the_last_word),
		cmocka_unit_test(long_map_ranks_its_last_places_alike),
		cmocka_unit_test(map_does_not_join_different_links),
		cmocka_unit_test(malformed_map_is_refused_with_its_cause),
		cmocka_unit_test(rails_come_back_as_they_went),
		cmocka_unit_test(nonsense_is_refused_with_its_cause),
		cmocka_unit_test(random_bytes_are_survived),
		cmocka_unit_test(
			each_rail_prefers_its_namesake_or_what_the_map_says),
		cmocka_unit_test(
			rails_of_other_links_and_addresses_do_not_match),
		cmocka_unit_test(network_is_that_of_the_interface),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
