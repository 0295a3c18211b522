/* SPDX-License-Identifier: Apache-2.0 */
/* test_json.c - both forms of JSON, out and in again */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "tests/lib/faults.h"

static struct te_topo *parse(const char *text)
{
	struct te_topo *topo = NULL;
	char error[300] = "";

	if (te_topo_parse(text, strlen(text), &topo, error, sizeof(error)))
		fail_msg("%s", error);
	return topo;
}

static void goes_round(const char *name, enum te_topo_form form)
{
	struct te_topo *again;
	struct machine m;
	char *first, *second;

	machine_open(&m, name);
	first = json_of(m.topo, form);
	again = parse(first);
	second = json_of(again, form);
	assert_string_equal(first, second);
	free(first);
	free(second);
	te_topo_destroy(again);
	machine_close(&m);
}

static void every_machine_goes_round(void **state)
{
	static const char *const names[] = {"one-nic", "two-nics", "eight-nics",
					    "crooked"};
	size_t i;

	(void)state;
	for (i = 0; i < TEST_COUNT(names); i++) {
		goes_round(names[i], TE_TOPO_FULL);
		goes_round(names[i], TE_TOPO_MATRIX);
	}
}

static void a_matrix_says_which_nics_serve_a_memory(void **state)
{
	struct te_topo *topo =
		parse("{\"cpu:0\": [[\"mlx5_0\", \"mlx5_1\"], [\"mlx5_2\"]],\n"
		      " \"cpu:1\": [[\"mlx5_2\"], [\"mlx5_1\", \"mlx5_0\"]],\n"
		      " \"cuda:0\": [[], [\"mlx5_1\"]]}");

	(void)state;
	assert_string_equal(rails_of(topo, "cpu:0"), "mlx5_0 mlx5_1 | mlx5_2");
	assert_string_equal(rails_of(topo, "cpu:1"), "mlx5_2 | mlx5_1 mlx5_0");
	assert_string_equal(rails_of(topo, "cuda:0"), "| mlx5_1");
	assert_int_equal(memory_named(topo, "cuda:0").kind, TE_TOPO_CUDA);
	assert_int_equal(nic_named(topo, "mlx5_2").numa_node, 1);
	te_topo_destroy(topo);
}

static void the_matrix_is_written_as_mooncake_writes_it(void **state)
{
	struct machine m;
	char *text;

	(void)state;
	machine_open(&m, "two-nics");
	text = json_of(m.topo, TE_TOPO_MATRIX);
	assert_string_equal(
		text, "{\n  \"cpu:0\": [[\"mlx5_0\", \"ens2\"], []]\n}\n");
	free(text);
	machine_close(&m);
}

static void the_form_of_tent_is_understood(void **state)
{
	struct te_topo *topo = parse(
		"{\"nics\": [{\"name\": \"mlx5_0\", \"pci_bus_id\": "
		"\"0000:3b:00.0\", \"type\": 0, \"numa_node\": 0},"
		"{\"name\": \"mlx5_1\", \"pci_bus_id\": \"\", \"type\": 0, "
		"\"numa_node\": 1}],"
		"\"mems\": [{\"name\": \"cpu:0\", \"pci_bus_id\": \"\", "
		"\"type\": 0, \"numa_node\": 0, \"device_list\": "
		"{\"rank0\": [], \"rank1\": [1], \"rank2\": [0]}}]}");

	(void)state;
	assert_string_equal(rails_of(topo, "cpu:0"), "mlx5_1 | mlx5_0");
	assert_int_equal(nic_named(topo, "mlx5_0").kind, TE_TOPO_RDMA);
	assert_string_equal(nic_named(topo, "mlx5_0").pci.bus_id,
			    "0000:3b:00.0");
	te_topo_destroy(topo);
}

static void without_lists_the_distances_decide(void **state)
{
	struct te_topo *topo = parse(
		"{\"nodes\": [{\"node\": 0, \"cpus\": \"0-1\"}, "
		"{\"node\": 1, \"cpus\": \"2-3\"}],"
		"\"nics\": [{\"name\": \"b\", \"numa_node\": 1}, "
		"{\"name\": \"a\", \"numa_node\": 0}],"
		"\"mems\": [{\"name\": \"cpu:0\"}, {\"name\": \"cpu:1\"}]}");

	(void)state;
	assert_string_equal(rails_of(topo, "cpu:0"), "a | b");
	assert_string_equal(rails_of(topo, "cpu:1"), "b | a");
	te_topo_destroy(topo);
}

static void unknown_fields_are_passed_over(void **state)
{
	struct te_topo *topo = parse(
		"{\"nics\": [{\"name\": \"a\", \"colour\": [1, {}]}], "
		"\"later\": {\"x\": null}, \"mems\": [{\"name\": \"cpu:0\", "
		"\"rails\": [[\"a\"], []], \"heat\": 3.5}]}");

	(void)state;
	assert_string_equal(rails_of(topo, "cpu:0"), "a |");
	te_topo_destroy(topo);
}

static void a_short_buffer_is_refused_and_told_the_length(void **state)
{
	struct machine m;
	char text[16] = "unchanged";
	size_t len = sizeof(text);

	(void)state;
	machine_open(&m, "one-nic");
	assert_int_equal(te_topo_format(m.topo, TE_TOPO_MATRIX, text, &len),
			 -ENOBUFS);
	assert_true(len > sizeof(text));
	assert_string_equal(text, "unchanged");
	assert_int_equal(te_topo_format(m.topo, 9, text, &len), -EINVAL);
	machine_close(&m);
}

static void a_failed_allocation_leaves_nothing(void **state)
{
	static const char text[] =
		"{\"nics\": [{\"name\": \"a\"}], \"nodes\": [{\"node\": 0, "
		"\"cpus\": \"0-9\"}], \"mems\": [{\"name\": \"cpu:0\", "
		"\"rails\": [[\"a\"], []]}, {\"name\": \"cuda:0\"}]}";
	struct te_topo *topo;
	int rc = -1;

	(void)state;
	for (struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	     test_faults_next(&f);) {
		topo = NULL;
		rc = te_topo_parse(text, sizeof(text) - 1, &topo, NULL, 0);
		if (rc) {
			assert_int_equal(rc, -ENOMEM);
			assert_null(topo);
		}
		te_topo_destroy(topo);
	}
	assert_int_equal(rc, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_machine_goes_round),
		cmocka_unit_test(a_matrix_says_which_nics_serve_a_memory),
		cmocka_unit_test(the_matrix_is_written_as_mooncake_writes_it),
		cmocka_unit_test(the_form_of_tent_is_understood),
		cmocka_unit_test(without_lists_the_distances_decide),
		cmocka_unit_test(unknown_fields_are_passed_over),
		cmocka_unit_test(a_short_buffer_is_refused_and_told_the_length),
		cmocka_unit_test(a_failed_allocation_leaves_nothing),
	};

	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
