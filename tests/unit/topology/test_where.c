/* SPDX-License-Identifier: Apache-2.0 */
/* test_where.c - memory is found on a node of this machine */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/lib/test.h"
#include "topology/topo.h"

static void touched_and_untouched_memory_is_on_a_node(void **state)
{
	struct te_topo *topo;
	char *page, error[300];

	(void)state;
	assert_int_equal(te_topo_load(NULL, &topo, error, sizeof(error)), 0);
	page = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(page != MAP_FAILED);
	assert_non_null(tei_topo_node_of(topo, tei_topo_node_at(page)));
	memset(page, 1, 1 << 16);
	assert_non_null(tei_topo_node_of(topo, tei_topo_node_at(page + 77)));
	munmap(page, 1 << 16);
	te_topo_destroy(topo);
}

static void an_address_that_is_not_mapped_has_a_node_all_the_same(void **state)
{
	(void)state;
	assert_true(tei_topo_node_at((void *)(uintptr_t)4096) >= 0);
	assert_true(tei_topo_node_at((void *)UINTPTR_MAX) >= 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(touched_and_untouched_memory_is_on_a_node),
		cmocka_unit_test(
			an_address_that_is_not_mapped_has_a_node_all_the_same),
	};

	return cmocka_run_group_tests_name("where", tests, NULL, NULL);
}
