/* SPDX-License-Identifier: Apache-2.0 */
/* test_sysfs.c - machines read from copies of /sys */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine.h"
#include "tests/lib/faults.h"

static void a_machine_with_one_nic_is_seen(void **state)
{
	struct te_topo_machine all;
	struct te_topo_nic nic;
	struct machine m;

	(void)state;
	machine_open(&m, "one-nic");
	te_topo_machine(m.topo, &all);
	assert_int_equal(all.n_nics, 1);
	assert_int_equal(all.n_nodes, 1);
	assert_int_equal(all.n_cpus, 2);
	assert_int_equal(all.n_cores, 2);
	assert_int_equal(all.n_memories, 1);
	assert_int_equal(all.n_notes, 0);
	assert_int_equal(all.bytes, 13461708ull * 1024);
	nic = nic_named(m.topo, "eth0");
	assert_int_equal(nic.kind, TE_TOPO_ETH);
	assert_int_equal(nic.state, TE_TOPO_UP);
	assert_int_equal(nic.speed_bps, 0); /* -1: it does not say */
	assert_int_equal(nic.numa_node, 0); /* there is but one */
	assert_string_equal(nic.pci.path, "pci0000:00/0000:00:03.0");
	assert_string_equal(rails_of(m.topo, "cpu:0"), "eth0 |");
	machine_close(&m);
}

static void a_port_with_rdma_and_its_interface_are_one_nic(void **state)
{
	struct te_topo_nic nic;
	struct machine m;

	(void)state;
	machine_open(&m, "two-nics");
	nic = nic_named(m.topo, "ens1np0");
	assert_int_equal(nic_at(m.topo, "ens1np0"), nic_at(m.topo, "mlx5_0"));
	assert_string_equal(nic.name, "mlx5_0");
	assert_string_equal(nic.rdma, "mlx5_0");
	assert_int_equal(nic.rdma_port, 1);
	assert_int_equal(nic.kind, TE_TOPO_ROCE);
	assert_int_equal(nic.speed_bps, 100000000000);
	assert_int_equal(nic.pci.width, 16);
	assert_int_equal(nic.pci.mtps, 8000);
	assert_in_range(nic.pci.path_bps, 126000000000, 126040000000);
	assert_int_equal(nic_named(m.topo, "ens2").kind, TE_TOPO_ETH);
	/* 25 of 100 Gbit/s is not too slow to be preferred. */
	assert_string_equal(rails_of(m.topo, "cpu:0"), "mlx5_0 ens2 |");
	machine_close(&m);
}

static void two_sockets_with_gpus_are_seen(void **state)
{
	struct te_topo_memory gpu;
	struct te_topo_machine all;
	struct machine m;

	(void)state;
	machine_open(&m, "eight-nics");
	te_topo_machine(m.topo, &all);
	assert_int_equal(all.n_packages, 2);
	assert_int_equal(all.n_nodes, 2);
	assert_int_equal(all.n_cpus, 64);
	assert_int_equal(all.n_cores, 32);
	assert_int_equal(all.n_nics, 10);
	assert_int_equal(all.n_gpus, 8);
	assert_int_equal(all.n_memories, 10);
	assert_int_equal(te_topo_node_distance(m.topo, 0, 1), 21);
	assert_int_equal(te_topo_node_distance(m.topo, 1, 1), 10);
	gpu = memory_named(m.topo, "cuda:5");
	assert_int_equal(gpu.kind, TE_TOPO_CUDA);
	assert_int_equal(gpu.numa_node, 1);
	assert_string_equal(gpu.pci.bus_id, "0000:9b:00.0");
	assert_int_equal(nic_named(m.topo, "ib3").kind, TE_TOPO_IB);
	assert_int_equal(nic_named(m.topo, "eno2").state, TE_TOPO_DOWN);
	machine_close(&m);
}

static void cpus_of_a_node_are_listed(void **state)
{
	uint32_t cpus[64];
	struct machine m;
	size_t n = TEST_COUNT(cpus);

	(void)state;
	machine_open(&m, "eight-nics");
	assert_int_equal(te_topo_node_cpus(m.topo, 1, cpus, &n), 0);
	assert_int_equal(n, 32);
	assert_int_equal(cpus[0], 16);
	assert_int_equal(cpus[16], 48);
	n = 0;
	assert_int_equal(te_topo_node_cpus(m.topo, 0, NULL, &n), 0);
	assert_int_equal(n, 32);
	assert_int_equal(te_topo_node_cpus(m.topo, 7, NULL, &n), -ENOENT);
	machine_close(&m);
}

static void interfaces_without_a_device_are_seen_on_demand(void **state)
{
	struct te_topo_nic nic;
	struct machine m;
	uint32_t index;

	(void)state;
	machine_open(&m, "crooked");
	assert_int_equal(te_topo_find_nic(m.topo, "veth7", &index), -ENOENT);
	te_topo_destroy(m.topo);
	machine_look(&m, TE_TOPO_VIRTUAL);
	nic = nic_named(m.topo, "veth7");
	assert_true(nic.is_virtual);
	assert_int_equal(nic.speed_bps, 10000000000);
	machine_close(&m);
}

static void two_ports_of_one_device_are_two_nics(void **state)
{
	static const char port[] = "sys/class/infiniband/mlx5_0/ports/2/";
	static const char *const files[][2] = {
		{"link_layer", "Ethernet\n"},
		{"state", "1: DOWN\n"},
		{"rate", "100 Gb/sec (4X EDR)\n"},
	};
	struct machine m;
	char path[256];
	size_t i;

	(void)state;
	machine_unpack(&m, "two-nics");
	for (i = 0; i < TEST_COUNT(files); i++) {
		snprintf(path, sizeof(path), "%s%s", port, files[i][0]);
		test_tree_write(m.dir, path, files[i][1]);
	}
	machine_look(&m, 0);
	assert_int_equal(nic_named(m.topo, "mlx5_0/2").rdma_port, 2);
	assert_int_equal(nic_named(m.topo, "mlx5_0/2").state, TE_TOPO_DOWN);
	assert_string_equal(nic_named(m.topo, "mlx5_0/2").interface, "");
	assert_string_equal(nic_named(m.topo, "mlx5_0").interface, "ens1np0");
	machine_close(&m);
}

static void rdma_in_software_is_where_its_interface_is(void **state)
{
	static const char *const says[] = {
		"ports/1/gid_attrs/ndevs/0", /* while it has an address */
		"parent",
	};
	struct machine m;
	char path[256];
	size_t i;

	(void)state;
	for (i = 0; i < TEST_COUNT(says); i++) {
		machine_unpack(&m, "two-nics");
		test_tree_write(m.dir,
				"sys/class/infiniband/rxe0/ports/1/link_layer",
				"Ethernet\n");
		test_tree_write(m.dir, "sys/class/infiniband/rxe0/ports/1/rate",
				"2.5 Gb/sec (1X SDR)\n");
		snprintf(path, sizeof(path), "sys/class/infiniband/rxe0/%s",
			 says[i]);
		test_tree_write(m.dir, path, "ens2\n");
		machine_look(&m, 0);
		assert_string_equal(nic_named(m.topo, "ens2").name, "rxe0");
		assert_int_equal(nic_named(m.topo, "rxe0").kind, TE_TOPO_ROCE);
		assert_int_equal(nic_named(m.topo, "rxe0").numa_node, 0);
		assert_string_equal(nic_named(m.topo, "rxe0").pci.bus_id,
				    "0000:65:00.0");
		/* Not the rate that the port makes up. */
		assert_int_equal(nic_named(m.topo, "rxe0").speed_bps,
				 25000000000);
		machine_close(&m);
	}
}

static void nic_of_libfabric_and_its_interface_are_one(void **state)
{
	char path[TEST_PATH_MAX + 64];
	struct te_topo_nic nic;
	struct machine m;

	(void)state;
	machine_unpack(&m, "two-nics");
	test_tree_write(m.dir, "sys/class/cxi/cxi0/uevent", "\n");
	snprintf(path, sizeof(path), "%s/class/cxi/cxi0/device", m.root);
	assert_int_equal(symlink("../../../devices/pci0000:64/0000:64:01.0/"
				 "0000:65:00.0",
				 path),
			 0);
	machine_look(&m, 0);
	nic = nic_named(m.topo, "cxi0");
	assert_string_equal(nic.interface, "ens2");
	assert_string_equal(nic.rdma, "");
	assert_int_equal(nic.kind, TE_TOPO_RDMA);
	assert_int_equal(nic.state, TE_TOPO_UP);
	assert_int_equal(nic.numa_node, 0);
	assert_int_equal(nic.speed_bps, 25000000000);
	assert_int_equal(nic_at(m.topo, "ens2"), nic_at(m.topo, "cxi0"));
	machine_close(&m);
}

static void strange_text_is_unknown_and_not_an_error(void **state)
{
	static const char net[] = "sys/class/net/ens2/";
	static const char *const strange[] = {
		"",     "\n",     "\x01\x02",   "99999999999999999999\n",
		"-7\n", "fast\n", "\xff\xfe\n",
	};
	char path[128], long_line[6000];
	struct machine m;
	size_t i;

	(void)state;
	machine_unpack(&m, "two-nics");
	snprintf(path, sizeof(path), "%sspeed", net);
	for (i = 0; i < TEST_COUNT(strange); i++) {
		test_tree_write(m.dir, path, strange[i]);
		machine_look(&m, 0);
		assert_int_equal(nic_named(m.topo, "ens2").speed_bps, 0);
		te_topo_destroy(m.topo);
	}
	memset(long_line, '1', sizeof(long_line));
	long_line[sizeof(long_line) - 1] = '\0';
	test_tree_write(m.dir, path, long_line);
	test_tree_write(m.dir, "sys/devices/system/node/node0/cpulist",
			long_line);
	machine_look(&m, 0);
	assert_int_equal(nic_named(m.topo, "ens2").speed_bps, 0);
	machine_close(&m);
}

static void a_list_of_cpus_without_sense_is_noted(void **state)
{
	static const char *const lists[] = {"7-3\n", "0-\n",         "0,0\n",
					    "x\n",   "0-99999999\n", "1,\n"};
	struct machine m;
	size_t i;

	(void)state;
	machine_unpack(&m, "two-nics");
	for (i = 0; i < TEST_COUNT(lists); i++) {
		test_tree_write(m.dir, "sys/devices/system/node/node0/cpulist",
				lists[i]);
		machine_look(&m, 0);
		assert_true(has_note(m.topo, TE_TOPO_NOTE_SKIPPED, "cpu:0"));
		te_topo_destroy(m.topo);
	}
	m.topo = NULL;
	machine_close(&m);
}

static void a_link_out_of_the_tree_leads_nowhere(void **state)
{
	char path[TEST_PATH_MAX + 64];
	struct machine m;

	(void)state;
	machine_unpack(&m, "one-nic");
	snprintf(path, sizeof(path), "%s/class/net/eth0/device", m.root);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/usr", path), 0);
	machine_look(&m, TE_TOPO_VIRTUAL);
	assert_string_equal(nic_named(m.topo, "eth0").pci.path, "");
	assert_true(nic_named(m.topo, "eth0").is_virtual);
	machine_close(&m);
}

static void what_is_no_file_is_not_read(void **state)
{
	char path[TEST_PATH_MAX + 64];
	struct machine m;

	(void)state;
	machine_unpack(&m, "one-nic");
	snprintf(path, sizeof(path), "%s/class/net/eth0/speed", m.root);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0); /* would block who opens it */
	machine_look(&m, 0);
	assert_int_equal(nic_named(m.topo, "eth0").speed_bps, 0);
	machine_close(&m);
}

static void a_folder_that_is_no_sys_is_refused(void **state)
{
	struct te_topo_source source = {0};
	struct te_topo *topo = NULL;
	char dir[TEST_PATH_MAX], error[300];

	(void)state;
	test_tmpdir_create(dir);
	source.sysfs_root = dir;
	assert_int_equal(te_topo_load(&source, &topo, error, sizeof(error)),
			 -ENOENT);
	assert_non_null(strstr(error, dir));
	source.sysfs_root = "/no/such/folder";
	assert_int_equal(te_topo_load(&source, &topo, error, sizeof(error)),
			 -ENOENT);
	assert_non_null(strstr(error, "/no/such/folder"));
	source.sysfs_root = NULL;
	source.flags = 1u << 31;
	assert_int_equal(te_topo_load(&source, &topo, error, sizeof(error)),
			 -EINVAL);
	assert_null(topo);
	test_tmpdir_remove(dir);
}

static void a_machine_without_nodes_has_one(void **state)
{
	char path[TEST_PATH_MAX + 64], moved[TEST_PATH_MAX + 64];
	struct te_topo_machine all;
	struct machine m;

	(void)state;
	machine_unpack(&m, "two-nics");
	snprintf(path, sizeof(path), "%s/devices/system/node", m.root);
	snprintf(moved, sizeof(moved), "%s/elsewhere", m.root);
	assert_int_equal(rename(path, moved), 0);
	machine_look(&m, 0);
	te_topo_machine(m.topo, &all);
	assert_int_equal(all.n_nodes, 1);
	assert_int_equal(all.n_cpus, 16);
	assert_int_equal(all.n_cores, 8);
	assert_int_equal(nic_named(m.topo, "ens2").numa_node, 0);
	machine_close(&m);
}

static void this_machine_can_be_looked_at(void **state)
{
	struct te_topo_machine all;
	struct te_topo *topo;
	char error[300] = "";

	(void)state;
	if (te_topo_load(NULL, &topo, error, sizeof(error)))
		fail_msg("%s", error);
	te_topo_machine(topo, &all);
	assert_true(all.n_nodes >= 1);
	assert_true(all.n_cpus >= 1);
	te_topo_destroy(topo);
}

static void a_failed_allocation_leaves_nothing(void **state)
{
	struct te_topo_source source = {0};
	struct te_topo *topo;
	struct machine m;
	int rc = -1;

	(void)state;
	machine_unpack(&m, "crooked");
	source.sysfs_root = m.root;
	for (struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	     test_faults_next(&f);) {
		topo = NULL;
		rc = te_topo_load(&source, &topo, NULL, 0);
		if (rc) {
			assert_int_equal(rc, -ENOMEM);
			assert_null(topo);
		}
		te_topo_destroy(topo);
	}
	assert_int_equal(rc, 0);
	machine_close(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_machine_with_one_nic_is_seen),
		cmocka_unit_test(
			a_port_with_rdma_and_its_interface_are_one_nic),
		cmocka_unit_test(two_sockets_with_gpus_are_seen),
		cmocka_unit_test(cpus_of_a_node_are_listed),
		cmocka_unit_test(
			interfaces_without_a_device_are_seen_on_demand),
		cmocka_unit_test(two_ports_of_one_device_are_two_nics),
		cmocka_unit_test(rdma_in_software_is_where_its_interface_is),
		cmocka_unit_test(nic_of_libfabric_and_its_interface_are_one),
		cmocka_unit_test(strange_text_is_unknown_and_not_an_error),
		cmocka_unit_test(a_list_of_cpus_without_sense_is_noted),
		cmocka_unit_test(a_link_out_of_the_tree_leads_nowhere),
		cmocka_unit_test(what_is_no_file_is_not_read),
		cmocka_unit_test(a_folder_that_is_no_sys_is_refused),
		cmocka_unit_test(a_machine_without_nodes_has_one),
		cmocka_unit_test(this_machine_can_be_looked_at),
		cmocka_unit_test(a_failed_allocation_leaves_nothing),
	};

	return cmocka_run_group_tests_name("sysfs", tests, NULL, NULL);
}
