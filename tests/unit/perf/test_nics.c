/* SPDX-License-Identifier: Apache-2.0 */
/* test_nics.c - why a NIC that is near carried nothing */
#include <string.h>

#include <te/te.h>

#include "perf/lib/nics.h"
#include "tests/lib/test.h"

/* Two nodes with two NICs each, one of which is down, and an Ethernet card. */
static const char picture[] =
	"{\"nics\": ["
	" {\"name\": \"m0\", \"rdma\": \"m0\", \"rdma_port\": 1,"
	"  \"numa_node\": 0},"
	" {\"name\": \"m1\", \"rdma\": \"m1\", \"rdma_port\": 1,"
	"  \"numa_node\": 0},"
	" {\"name\": \"m2\", \"rdma\": \"m2\", \"rdma_port\": 1,"
	"  \"numa_node\": 1},"
	" {\"name\": \"m3\", \"rdma\": \"m3\", \"rdma_port\": 1,"
	"  \"numa_node\": 1, \"state\": \"down\"},"
	" {\"name\": \"eth9\", \"interface\": \"eth9\", \"numa_node\": 0}],"
	" \"mems\": [{\"name\": \"cpu:0\", \"numa_node\": 0},"
	"  {\"name\": \"cpu:1\", \"numa_node\": 1}]}";

static struct te_topo *topo;

static int set_up(void **state)
{
	char error[256] = "";

	(void)state;
	if (te_topo_parse(picture, strlen(picture), &topo, error,
			  sizeof(error)))
		fail_msg("%s", error);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	te_topo_destroy(topo);
	return 0;
}

/* Of the NIC of that name, for memory of @node. */
static const char *why(const char *name, int32_t node,
		       const struct tei_nic_rail *rails, size_t n)
{
	uint32_t nic;

	assert_int_equal(te_topo_find_nic(topo, name, &nic), 0);
	return tei_nic_why_unused(topo, nic, node, rails, n);
}

static void assert_says(const char *text, const char *part)
{
	assert_non_null(text);
	assert_non_null(strstr(text, part));
}

static void what_carried_or_is_far_is_fine(void **state)
{
	const struct tei_nic_rail rails[] = {
		{"verbs/m0/1", TE_RAIL_UP, 0, 1 << 20},
		{"verbs/m1/1", TE_RAIL_UP, 1, 1 << 20},
		{"tcp/0", TE_RAIL_UP, 0, 0},
	};

	(void)state;
	assert_null(why("m0", 0, rails, 3));
	assert_null(why("m1", 0, rails, 3));
	assert_null(why("m2", 0, rails, 3));
	assert_null(why("m3", 0, rails, 3));
	assert_null(why("eth9", 0, rails, 3));
	assert_null(why("m1", -1, rails, 1));
}

static void reasons_are_told_apart(void **state)
{
	struct tei_nic_rail rails[] = {
		{"verbs/m0/1", TE_RAIL_UP, 0, 1 << 20},
		{"verbs/m1/1", TE_RAIL_UP, 1, 0},
		{"verbs/m2", TE_RAIL_DOWN, 0, 0},
	};

	(void)state;
	assert_says(why("m1", 0, rails, 3), "matches no rail of the peer");
	assert_says(why("m1", 0, rails, 1), "filtered out");
	assert_says(why("m2", 1, rails, 3), "down");
	assert_says(why("m3", 1, rails, 3), "down");
	rails[1].state = TE_RAIL_PAUSED;
	rails[1].unmatched_peers = 0;
	assert_says(why("m1", 0, rails, 3), "paused");
	rails[1].state = TE_RAIL_UP; /* the others were enough */
	assert_null(why("m1", 0, rails, 3));
}

static void without_rails_of_such_nics_there_is_nothing_to_say(void **state)
{
	const struct tei_nic_rail rails[] = {
		{"tcp/0", TE_RAIL_UP, 0, 1 << 20},
		{"tcp/m00", TE_RAIL_UP, 0, 1 << 20},
	};

	(void)state;
	assert_null(why("m0", 0, rails, 2));
	assert_null(why("m3", 1, rails, 2));
	assert_null(why("m3", 1, NULL, 0));
}

static void memory_has_a_node_once_it_is_touched(void **state)
{
	static volatile char page[8192];

	(void)state;
	page[4096] = 1;
	assert_in_range(tei_nic_node_at((const char *)page + 4096) + 1, 0,
			1024);
	assert_int_equal(tei_nic_node_at(NULL), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_carried_or_is_far_is_fine),
		cmocka_unit_test(reasons_are_told_apart),
		cmocka_unit_test(
			without_rails_of_such_nics_there_is_nothing_to_say),
		cmocka_unit_test(memory_has_a_node_once_it_is_touched),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
