/* SPDX-License-Identifier: Apache-2.0 */
/* test_text.c - names, lists, paths and rates */
#include <errno.h>
#include <string.h>

#include "tests/lib/test.h"
#include "topology/topo.h"

struct seen {
	uint32_t numbers[16];
	size_t n;
};

static int note(uint32_t number, void *arg)
{
	struct seen *seen = arg;

	assert_true(seen->n < TEST_COUNT(seen->numbers));
	seen->numbers[seen->n++] = number;
	return 0;
}

static void a_list_of_numbers_is_read(void **state)
{
	const uint32_t want[] = {0, 1, 2, 3, 8, 10, 11};
	struct seen seen = {.n = 0};

	(void)state;
	assert_int_equal(tei_topo_parse_list("0-3,8,10-11", 64, note, &seen),
			 0);
	assert_int_equal(seen.n, TEST_COUNT(want));
	assert_memory_equal(seen.numbers, want, sizeof(want));
	assert_int_equal(tei_topo_parse_list("", 64, note, &seen), 0);
}

static void a_malformed_list_is_refused(void **state)
{
	static const char *const wrong[] = {",",   "-",    "1,", "1-",   "3-1",
					    "1,1", "2,1",  " 1", "1 ",   "64",
					    "0x1", "1--2", "-1", "1-64", "1;2"};
	struct seen seen;
	size_t i;

	(void)state;
	for (i = 0; i < TEST_COUNT(wrong); i++) {
		seen.n = 0;
		if (tei_topo_parse_list(wrong[i], 64, note, &seen) != -EBADMSG)
			fail_msg("\"%s\" was taken", wrong[i]);
	}
}

static void a_path_is_cut_down_to_what_is_pci(void **state)
{
	struct tei_topo_pci pci;

	(void)state;
	assert_true(tei_topo_pci_from_path(
		&pci, "pci0000:00/0000:00:03.0/virtio2/net/eth0"));
	assert_string_equal(pci.path, "pci0000:00/0000:00:03.0");
	assert_string_equal(pci.bus_id, "0000:00:03.0");
	assert_true(tei_topo_pci_from_path(
		&pci, "platform/soc/pci0001:00/0001:00:00.0/0001:01:00.1"));
	assert_string_equal(pci.path, "pci0001:00/0001:00:00.0/0001:01:00.1");
	/* A host bridge behind a device, with a long domain. */
	assert_true(tei_topo_pci_from_path(
		&pci, "pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0"));
	assert_string_equal(pci.bus_id, "10000:00:02.0");
	assert_false(tei_topo_pci_from_path(&pci, "virtual/net/veth0"));
	assert_false(tei_topo_pci_from_path(&pci, "pci0000:00"));
	assert_false(tei_topo_pci_from_path(&pci, ""));
}

static void paths_are_compared_by_component(void **state)
{
	uint32_t common, differ;

	(void)state;
	tei_topo_pci_compare("p/a/b/c", "p/a/d/e", &common, &differ);
	assert_int_equal(common, 2);
	assert_int_equal(differ, 4);
	tei_topo_pci_compare("p/a", "p/a/b", &common, &differ);
	assert_int_equal(common, 2);
	assert_int_equal(differ, 1);
	tei_topo_pci_compare("p/ab", "p/a", &common, &differ);
	assert_int_equal(common, 1);
	assert_int_equal(differ, 2);
	tei_topo_pci_compare("", "", &common, &differ);
	assert_int_equal(common + differ, 0);
}

static void a_link_has_the_rate_of_its_generation(void **state)
{
	(void)state;
	assert_int_equal(tei_topo_link_bps(2500, 1), 2000000000);
	assert_in_range(tei_topo_link_bps(16000, 16), 252000000000,
			252100000000);
	assert_in_range(tei_topo_link_bps(64000, 16), 967000000000,
			968100000000);
	assert_int_equal(tei_topo_link_bps(0, 16), 0);
	assert_int_equal(tei_topo_link_bps(16000, 0), 0);
}

static void names_count_in_decimal(void **state)
{
	(void)state;
	assert_true(tei_topo_compare_names("mlx5_2", "mlx5_10") < 0);
	assert_true(tei_topo_compare_names("eth0", "eth0") == 0);
	assert_true(tei_topo_is_name("mlx5_0/2"));
	assert_false(tei_topo_is_name(""));
	assert_false(tei_topo_is_name("a b"));
	assert_false(tei_topo_is_name("a\n"));
	assert_false(tei_topo_is_name("\xc3\xa9"));
}

static void a_model_is_made_printable(void **state)
{
	char out[8];

	(void)state;
	tei_topo_copy_model(out, sizeof(out), "  a\x1b[1mb  ");
	assert_string_equal(out, "a[1mb");
	tei_topo_copy_model(out, sizeof(out), "0123456789");
	assert_string_equal(out, "0123456");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_of_numbers_is_read),
		cmocka_unit_test(a_malformed_list_is_refused),
		cmocka_unit_test(a_path_is_cut_down_to_what_is_pci),
		cmocka_unit_test(paths_are_compared_by_component),
		cmocka_unit_test(a_link_has_the_rate_of_its_generation),
		cmocka_unit_test(names_count_in_decimal),
		cmocka_unit_test(a_model_is_made_printable),
	};

	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
