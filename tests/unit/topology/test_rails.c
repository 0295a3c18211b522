/* SPDX-License-Identifier: Apache-2.0 */
/* test_rails.c - which NICs are near a memory, and which CPUs drive a NIC */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "machine.h"

static struct te_topo_distance between(const struct te_topo *topo,
				       const char *memory, const char *nic)
{
	struct te_topo_distance d;

	assert_int_equal(te_topo_distance(topo, memory_at(topo, memory),
					  nic_at(topo, nic), &d),
			 0);
	return d;
}

static void a_gpu_prefers_the_nics_of_its_switch(void **state)
{
	struct machine m;

	(void)state;
	machine_open(&m, "eight-nics");
	assert_string_equal(rails_of(m.topo, "cuda:0"),
			    "mlx5_0 mlx5_1 | mlx5_2 mlx5_3 mlx5_4 mlx5_5 "
			    "mlx5_6 mlx5_7 eno1");
	assert_string_equal(rails_of(m.topo, "cuda:7"),
			    "mlx5_6 mlx5_7 | mlx5_4 mlx5_5 mlx5_0 mlx5_1 "
			    "mlx5_2 mlx5_3 eno1");
	machine_close(&m);
}

static void host_memory_prefers_fast_nics_of_its_node_that_are_up(void **state)
{
	struct machine m;

	(void)state;
	machine_open(&m, "eight-nics");
	/* eno1 has a sixteenth of the speed, eno2 no cable. */
	assert_string_equal(rails_of(m.topo, "cpu:0"),
			    "mlx5_0 mlx5_1 mlx5_2 mlx5_3 | mlx5_4 mlx5_5 "
			    "mlx5_6 mlx5_7 eno1");
	assert_string_equal(rails_of(m.topo, "cpu:1"),
			    "mlx5_4 mlx5_5 mlx5_6 mlx5_7 | mlx5_0 mlx5_1 "
			    "mlx5_2 mlx5_3 eno1");
	machine_close(&m);
}

static void distances_go_from_switch_to_far(void **state)
{
	struct te_topo_distance d;
	struct machine m;

	(void)state;
	machine_open(&m, "eight-nics");
	d = between(m.topo, "cuda:0", "mlx5_1");
	assert_int_equal(d.near, TE_TOPO_NEAR_SWITCH);
	assert_int_equal(d.numa, 10);
	assert_int_equal(d.pci_hops, 4);
	assert_int_equal(d.preferred, 1);
	assert_int_equal(d.rate_bps, 400000000000);
	d = between(m.topo, "cuda:0", "mlx5_2");
	assert_int_equal(d.near, TE_TOPO_NEAR_NODE);
	assert_int_equal(d.preferred, 0);
	d = between(m.topo, "cuda:0", "mlx5_4");
	assert_int_equal(d.near, TE_TOPO_NEAR_FAR);
	assert_int_equal(d.numa, 21);
	d = between(m.topo, "cpu:1", "mlx5_4");
	assert_int_equal(d.near, TE_TOPO_NEAR_NODE);
	assert_int_equal(d.pci_hops, 0);
	machine_close(&m);
}

static void
a_node_of_the_same_socket_is_nearer_than_the_other_socket(void **state)
{
	struct machine m;

	(void)state;
	machine_open(&m, "crooked");
	assert_int_equal(between(m.topo, "cpu:0", "dual0").near,
			 TE_TOPO_NEAR_SOCKET);
	assert_int_equal(between(m.topo, "cpu:2", "dual0").near,
			 TE_TOPO_NEAR_FAR);
	assert_int_equal(between(m.topo, "cpu:2", "lost0").near,
			 TE_TOPO_NEAR_UNKNOWN);
	/* Half the lanes bound what the port could do. */
	assert_in_range(between(m.topo, "cpu:0", "mlx5_0").rate_bps,
			63000000000, 63100000000);
	machine_close(&m);
}

static void a_virtual_function_is_no_preferred_rail(void **state)
{
	struct machine m;

	(void)state;
	machine_open(&m, "crooked");
	assert_true(nic_named(m.topo, "dual0v0").is_virtual);
	assert_string_equal(rails_of(m.topo, "cpu:1"),
			    "dual0 | mlx5_0 lost0 wrong0 dual0v0");
	machine_close(&m);
}

static void a_machine_with_only_slow_nics_prefers_them(void **state)
{
	struct machine m;

	(void)state;
	machine_unpack(&m, "two-nics");
	test_tree_write(m.dir, "sys/class/infiniband/mlx5_0/ports/1/state",
			"1: DOWN\n");
	machine_look(&m, 0);
	assert_string_equal(rails_of(m.topo, "cpu:0"), "ens2 |");
	machine_close(&m);
}

static void what_does_not_exist_has_no_distance(void **state)
{
	struct te_topo_distance d;
	struct te_topo_memory memory;
	struct te_topo_nic nic;
	size_t n = 0, n_preferred;
	struct machine m;
	uint32_t index;

	(void)state;
	machine_open(&m, "one-nic");
	assert_int_equal(te_topo_distance(m.topo, 0, 1, &d), -ENOENT);
	assert_int_equal(te_topo_distance(m.topo, 1, 0, &d), -ENOENT);
	assert_int_equal(te_topo_nic(m.topo, 1, &nic), -ENOENT);
	assert_int_equal(te_topo_memory(m.topo, 1, &memory), -ENOENT);
	assert_int_equal(te_topo_rails(m.topo, 1, NULL, &n, &n_preferred),
			 -ENOENT);
	assert_int_equal(te_topo_worker_cpus(m.topo, 1, NULL, &n), -ENOENT);
	assert_int_equal(te_topo_find_memory(m.topo, "*", &index), -ENOENT);
	machine_close(&m);
}

/* ---- workers ---- */

static size_t cpus_of(const struct te_topo *topo, const char *nic,
		      uint32_t cpus[64])
{
	size_t n = 64;

	assert_int_equal(te_topo_worker_cpus(topo, nic_at(topo, nic), cpus, &n),
			 0);
	assert_true(n <= 64);
	return n;
}

static void nics_of_a_node_share_its_cores_without_overlap(void **state)
{
	unsigned int used[64] = {0};
	uint32_t cpus[64];
	struct machine m;
	char name[32];
	size_t n, i;
	int k;

	(void)state;
	machine_open(&m, "eight-nics");
	for (k = 4; k < 8; k++) { /* those of the second node */
		snprintf(name, sizeof(name), "mlx5_%d", k);
		n = cpus_of(m.topo, name, cpus);
		assert_int_equal(n, 8); /* four cores of two threads */
		for (i = 0; i < n; i++)
			assert_int_equal(used[cpus[i]]++, 0);
	}
	for (i = 0; i < 64; i++)
		assert_int_equal(used[i], i / 16 % 2);
	machine_close(&m);
}

static void a_slow_nic_takes_no_cores_from_the_fast_ones(void **state)
{
	uint32_t cpus[64];
	struct machine m;

	(void)state;
	machine_open(&m, "eight-nics");
	assert_int_equal(cpus_of(m.topo, "mlx5_3", cpus), 8);
	assert_int_equal(cpus[0], 12); /* the last of four shares of sixteen */
	assert_true(cpus_of(m.topo, "eno1", cpus) > 0);
	machine_close(&m);
}

static void more_nics_than_cores_share_them_in_turn(void **state)
{
	static const char text[] =
		"{\"nodes\": [{\"node\": 0, \"cpus\": \"4-5\"}], \"nics\": ["
		"{\"name\": \"a\"}, {\"name\": \"b\"}, {\"name\": \"c\"}]}";
	struct te_topo *topo;
	uint32_t cpus[64];

	(void)state;
	assert_int_equal(te_topo_parse(text, sizeof(text) - 1, &topo, NULL, 0),
			 0);
	assert_int_equal(cpus_of(topo, "a", cpus), 1);
	assert_int_equal(cpus[0], 4);
	assert_int_equal(cpus_of(topo, "b", cpus), 1);
	assert_int_equal(cpus[0], 5);
	assert_int_equal(cpus_of(topo, "c", cpus), 1);
	assert_int_equal(cpus[0], 4);
	te_topo_destroy(topo);
}

static void a_nic_of_no_known_node_may_be_driven_anywhere(void **state)
{
	uint32_t cpus[64];
	struct machine m;

	(void)state;
	machine_open(&m, "crooked");
	assert_int_equal(cpus_of(m.topo, "lost0", cpus), 16);
	assert_int_equal(cpus_of(m.topo, "mlx5_0", cpus), 4);
	machine_close(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gpu_prefers_the_nics_of_its_switch),
		cmocka_unit_test(
			host_memory_prefers_fast_nics_of_its_node_that_are_up),
		cmocka_unit_test(distances_go_from_switch_to_far),
		cmocka_unit_test(
			a_node_of_the_same_socket_is_nearer_than_the_other_socket),
		cmocka_unit_test(a_virtual_function_is_no_preferred_rail),
		cmocka_unit_test(a_machine_with_only_slow_nics_prefers_them),
		cmocka_unit_test(what_does_not_exist_has_no_distance),
		cmocka_unit_test(
			nics_of_a_node_share_its_cores_without_overlap),
		cmocka_unit_test(a_slow_nic_takes_no_cores_from_the_fast_ones),
		cmocka_unit_test(more_nics_than_cores_share_them_in_turn),
		cmocka_unit_test(a_nic_of_no_known_node_may_be_driven_anywhere),
	};

	return cmocka_run_group_tests_name("rails", tests, NULL, NULL);
}
