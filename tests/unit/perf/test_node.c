/* SPDX-License-Identifier: Apache-2.0 */
/* test_node.c - NUMA nodes are named as te_memory_alloc_at() names them */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "perf/lib/node.h"

static int mode_now(void)
{
	int mode = -1;

	(void)syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0);
	return mode;
}

static void any_node_is_the_default(void **state)
{
	int node = 7;

	(void)state;
	assert_int_equal(tei_node_parse("test", "location", NULL, &node), 0);
	assert_int_equal(node, TEI_NODE_ANY);
	node = 7;
	assert_int_equal(tei_node_parse("test", "location", "*", &node), 0);
	assert_int_equal(node, TEI_NODE_ANY);
}

static void what_names_no_node_is_refused(void **state)
{
	static const char *const bad[] = {
		"",       "0",      "cpu",    "cpu:",     "cpu:x",
		"cpu:1x", "cuda:0", "cpu:-1", "cpu:9999", "cpu:99999"};
	int node;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(
			tei_node_parse("test", "location", bad[i], &node),
			-EINVAL);
}

/* Containers may forbid policies: then cpu:0 is refused, and nothing is set. */
static void the_policy_is_as_before_when_it_ends(void **state)
{
	struct tei_node_policy old;
	int before = mode_now(), node;

	(void)state;
	if (tei_node_parse("test", "location", "cpu:0", &node))
		skip();
	assert_int_equal(node, 0);
	assert_int_equal(mode_now(), before);
	assert_int_equal(tei_node_begin(node, &old), 0);
	assert_int_equal(mode_now(), MPOL_PREFERRED);
	tei_node_end(&old);
	assert_int_equal(mode_now(), before);
	assert_int_equal(tei_node_begin(TEI_NODE_ANY, &old), 0);
	assert_int_equal(mode_now(), before);
	tei_node_end(&old);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_node_is_the_default),
		cmocka_unit_test(what_names_no_node_is_refused),
		cmocka_unit_test(the_policy_is_as_before_when_it_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
