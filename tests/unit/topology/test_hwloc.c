/* SPDX-License-Identifier: Apache-2.0 */
/* test_hwloc.c - the XML of lstopo is a machine too */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "machine.h"

static struct te_topo *load_xml(void)
{
	char path[1024], error[600] = "";
	struct te_topo_source source = {.hwloc_xml = path};
	struct te_topo *topo = NULL;

	snprintf(path, sizeof(path), "%s",
		 test_data("topology/eight-nics.xml"));
	if (te_topo_load(&source, &topo, error, sizeof(error)))
		fail_msg("%s", error);
	return topo;
}

static void its_xml_and_its_sys_show_the_same_machine(void **state)
{
	static const char *const gpus[] = {"cuda:0", "cuda:3", "cuda:4",
					   "cuda:7"};
	struct te_topo *topo = load_xml();
	struct te_topo_machine a, b;
	struct te_topo_distance x, y;
	struct machine m;
	uint32_t i, k;

	(void)state;
	machine_open(&m, "eight-nics");
	te_topo_machine(topo, &a);
	te_topo_machine(m.topo, &b);
	assert_int_equal(a.n_packages, b.n_packages);
	assert_int_equal(a.n_nodes, b.n_nodes);
	assert_int_equal(a.n_cpus, b.n_cpus);
	assert_int_equal(a.n_cores, b.n_cores);
	assert_int_equal(a.n_nics, b.n_nics);
	assert_int_equal(a.n_memories, b.n_memories);
	assert_int_equal(a.bytes, b.bytes);
	for (i = 0; i < a.n_memories; i++) {
		for (k = 0; k < a.n_nics; k++) {
			te_topo_distance(topo, i, k, &x);
			te_topo_distance(m.topo, i, k, &y);
			assert_int_equal(x.near, y.near);
			assert_int_equal(x.pci_hops, y.pci_hops);
			assert_int_equal(x.numa, y.numa);
		}
	}
	for (i = 0; i < TEST_COUNT(gpus); i++)
		assert_string_equal(memory_named(topo, gpus[i]).pci.path,
				    memory_named(m.topo, gpus[i]).pci.path);
	assert_int_equal(nic_named(topo, "mlx5_3").kind, TE_TOPO_IB);
	assert_int_equal(nic_named(topo, "eno1").kind, TE_TOPO_ETH);
	te_topo_destroy(topo);
	machine_close(&m);
}

static void sys_has_the_say_and_xml_adds_names(void **state)
{
	char path[1024], error[600] = "";
	struct te_topo_source source = {.hwloc_xml = path};
	struct machine m;

	(void)state;
	machine_unpack(&m, "eight-nics");
	snprintf(path, sizeof(path), "%s",
		 test_data("topology/eight-nics.xml"));
	source.sysfs_root = m.root;
	if (te_topo_load(&source, &m.topo, error, sizeof(error)))
		fail_msg("%s", error);
	assert_int_equal(nic_named(m.topo, "mlx5_0").speed_bps, 400000000000);
	assert_string_equal(nic_named(m.topo, "mlx5_0").model, "ConnectX-7");
	assert_string_equal(memory_named(m.topo, "cuda:0").model,
			    "H100 SXM5 80GB");
	machine_close(&m);
}

static void what_is_no_xml_is_refused_and_named(void **state)
{
	static const char *const texts[] = {
		"",
		"no xml\n",
		"<?xml version=\"1.0\"?>\n<topology>",
		("<?xml version=\"1.0\"?>\n<topology version=\"9.0\">"
		 "</topology>\n"),
	};
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16], error[700];
	struct te_topo_source source = {.hwloc_xml = path};
	struct te_topo *topo = NULL;
	size_t i;

	(void)state;
	test_tmpdir_create(dir);
	snprintf(path, sizeof(path), "%s/m.xml", dir);
	assert_int_equal(te_topo_load(&source, &topo, error, sizeof(error)),
			 -ENOENT);
	assert_non_null(strstr(error, path));
	for (i = 0; i < TEST_COUNT(texts); i++) {
		test_tree_write(dir, "m.xml", texts[i]);
		assert_int_equal(
			te_topo_load(&source, &topo, error, sizeof(error)),
			-EBADMSG);
		assert_non_null(strstr(error, path));
	}
	assert_null(topo);
	test_tmpdir_remove(dir);
}

static void names_of_this_machine_can_be_asked_for(void **state)
{
	const struct te_topo_source source = {.flags = TE_TOPO_DETAIL};
	struct te_topo *topo;
	char error[300] = "";

	(void)state;
	if (te_topo_load(&source, &topo, error, sizeof(error)))
		fail_msg("%s", error);
	te_topo_destroy(topo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_xml_and_its_sys_show_the_same_machine),
		cmocka_unit_test(sys_has_the_say_and_xml_adds_names),
		cmocka_unit_test(what_is_no_xml_is_refused_and_named),
		cmocka_unit_test(names_of_this_machine_can_be_asked_for),
	};

	return cmocka_run_group_tests_name("hwloc", tests, NULL, NULL);
}
