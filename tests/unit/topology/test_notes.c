/* SPDX-License-Identifier: Apache-2.0 */
/* test_notes.c - what is wrong with a machine is said */
#include "machine.h"

static void a_machine_in_order_has_no_notes(void **state)
{
	struct te_topo_machine all;
	struct machine m;

	(void)state;
	machine_open(&m, "two-nics");
	te_topo_machine(m.topo, &all);
	assert_int_equal(all.n_notes, 0);
	machine_close(&m);
}

static void everything_crooked_is_noted(void **state)
{
	struct te_topo_machine all;
	struct machine m;

	(void)state;
	machine_open(&m, "crooked");
	assert_true(has_note(m.topo, TE_TOPO_NOTE_PCIE,
			     "mlx5_0: PCIe runs with x4 of x16 lanes"));
	assert_true(has_note(m.topo, TE_TOPO_NOTE_PCIE,
			     "mlx5_0: PCIe carries 63 of the port's 200"));
	assert_true(has_note(m.topo, TE_TOPO_NOTE_AFFINITY,
			     "lost0: its NUMA node is unknown"));
	assert_true(has_note(m.topo, TE_TOPO_NOTE_AFFINITY,
			     "wrong0: says NUMA node 7"));
	assert_true(has_note(m.topo, TE_TOPO_NOTE_AFFINITY, "dual0v0"));
	assert_true(has_note(m.topo, TE_TOPO_NOTE_AFFINITY,
			     "cuda:0: no NIC that is up is in its socket"));
	te_topo_machine(m.topo, &all);
	assert_int_equal(all.n_notes, 6);
	machine_close(&m);
}

static void a_port_without_cable_is_noted(void **state)
{
	struct machine m;

	(void)state;
	machine_open(&m, "eight-nics");
	assert_true(has_note(m.topo, TE_TOPO_NOTE_LINK, "eno2"));
	machine_close(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_machine_in_order_has_no_notes),
		cmocka_unit_test(everything_crooked_is_noted),
		cmocka_unit_test(a_port_without_cable_is_noted),
	};

	return cmocka_run_group_tests_name("notes", tests, NULL, NULL);
}
