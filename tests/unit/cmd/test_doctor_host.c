/* SPDX-License-Identifier: Apache-2.0 */
/* test_doctor_host.c - limits, links, nodes and the kernel are judged */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/copy.h"
#include "patient.h"

#define NIC     "sys/bus/pci/devices/0000:17:00.0/"
#define LIMITS  "Limit                     Soft Limit           Hard Limit\n"
#define LOCKED  LIMITS "Max locked memory         "
#define FILES   LIMITS "Max open files            "
#define THREADS LIMITS "Max processes             "

static void limits_that_are_low_are_found(void **state)
{
	static const struct ailment list[] = {
		{"proc/self/limits", LOCKED "65536     65536  bytes\n",
		 "limits.memlock", "", TEI_MARK_FAIL, "64 KiB"},
		{"proc/self/limits", LOCKED "8589934592     unlimited  bytes\n",
		 "limits.memlock", "", TEI_MARK_WARN, "8388608 KiB"},
		{"proc/self/limits", LOCKED "unlimited   unlimited  bytes\n",
		 "limits.memlock", "", TEI_MARK_OK, "unlimited"},
		{"proc/self/limits", FILES "1024     4096  files\n",
		 "limits.nofile", "", TEI_MARK_WARN, "1024"},
		{"proc/self/limits", THREADS "100   100  processes\n",
		 "limits.nproc", "", TEI_MARK_WARN, "100"},
	};
	struct patient p;

	(void)state;
	patients_show("two-nics", list, TEST_COUNT(list));
	patient_open(&p, "two-nics");
	test_tree_write(p.dir, "proc/self/limits", list[0].text);
	test_tree_write(p.dir, "proc/self/status",
			"CapEff:\t0000000000004000\n");
	patient_look(&p);
	patient_has(&p, "limits.memlock", "", TEI_MARK_OK, "CAP_IPC_LOCK");
	patient_close(&p);
}

static void memory_that_is_missing_is_found(void **state)
{
	struct patient p;

	(void)state;
	patient_open(&p, "two-nics");
	test_tree_write(p.dir, "proc/meminfo", "HugePages_Total: 0\n");
	test_tree_write(p.dir, "sys/kernel/mm/transparent_hugepage/enabled",
			"always madvise [never]\n");
	p.probes.shm_bytes = 64 << 20;
	patient_look(&p);
	patient_has(&p, "memory.hugepages", "", TEI_MARK_WARN,
		    "none reserved; on demand: no");
	patient_has(&p, "memory.shm", "", TEI_MARK_WARN, "64 MiB");
	patient_close(&p);
}

static void links_below_what_they_can_are_found(void **state)
{
	static const struct ailment list[] = {
		{NIC "current_link_width", "4\n", "pci.link", "mlx5_0",
		 TEI_MARK_WARN, "4 of 16 lanes"},
		{NIC "current_link_speed", "2.5 GT/s PCIe\n", "pci.link",
		 "mlx5_0", TEI_MARK_WARN, "2.5 of 8 GT/s"},
		{NIC "iommu_group/type", "DMA-FQ\n", "pci.iommu", "mlx5_0",
		 TEI_MARK_WARN, "DMA-FQ"},
		{NIC "iommu_group/type", "identity\n", "pci.iommu", "mlx5_0",
		 TEI_MARK_OK, "identity"},
	};

	(void)state;
	patients_show("two-nics", list, TEST_COUNT(list));
}

/* Kernels before 4.19 do not show the type of a group. */
static void the_command_line_tells_of_groups_without_a_type(void **state)
{
	static const struct ailment list[] = {
		{"proc/cmdline", "quiet intel_iommu=on iommu=pt\n", "pci.iommu",
		 "mlx5_0", TEI_MARK_OK, "pass-through"},
		{"proc/cmdline", "iommu.passthrough=1 quiet\n", "pci.iommu",
		 "mlx5_0", TEI_MARK_OK, "pass-through"},
		{"proc/cmdline", "quiet intel_iommu=on xiommu=pt\n",
		 "pci.iommu", "mlx5_0", TEI_MARK_UNKNOWN, "is not shown"},
		{NIC "iommu_group/type", "\x01\n", "pci.iommu", "mlx5_0",
		 TEI_MARK_UNKNOWN, "is not shown"},
	};
	struct patient p;
	size_t i;

	(void)state;
	patient_open(&p, "two-nics");
	test_tree_write(p.dir, NIC "iommu_group/name", "dmar0\n");
	for (i = 0; i < TEST_COUNT(list); i++) {
		test_tree_write(p.dir, list[i].path, list[i].text);
		patient_look(&p);
		patient_has(&p, list[i].check, list[i].object, list[i].mark,
			    list[i].found);
	}
	patient_close(&p);
}

static void nodes_that_are_far_are_found(void **state)
{
	static const struct ailment list[] = {
		{"proc/self/status", "Cpus_allowed_list:\t0-3,7\n", "numa.cpus",
		 "", TEI_MARK_OK, "0-3,7"},
		{"proc/self/status", "Cpus_allowed_list:\t900\n", "numa.cpus",
		 "", TEI_MARK_WARN, "900"},
		{"proc/self/status", "Cpus_allowed_list:\tx\n", "numa.cpus", "",
		 TEI_MARK_WARN, "x"},
		{"proc/sys/kernel/numa_balancing", "1\n", "numa.balancing", "",
		 TEI_MARK_WARN, "on"},
	};
	struct patient p;

	(void)state;
	patients_show("eight-nics", list, TEST_COUNT(list));
	patient_open(&p, "crooked");
	patient_look(&p);
	patient_has(&p, "numa.nic", "lost0", TEI_MARK_WARN, "does not say");
	patient_has(&p, "numa.nic", "mlx5_0", TEI_MARK_OK, "node 0");
	patient_close(&p);
}

static void what_the_kernel_refuses_is_found(void **state)
{
	static const struct ailment list[] = {
		{"sys/devices/system/clocksource/clocksource0/"
		 "current_clocksource",
		 "hpet\n", "clock.source", "", TEI_MARK_WARN, "hpet"},
		{"sys/devices/system/clocksource/clocksource0/"
		 "current_clocksource",
		 NULL, "clock.source", "", TEI_MARK_UNKNOWN, "not say"},
		{"proc/sys/kernel/yama/ptrace_scope", "1\n",
		 "kernel.ptrace_scope", "", TEI_MARK_WARN, "1"},
	};
	struct patient p;

	(void)state;
	patients_show("two-nics", list, TEST_COUNT(list));
	patient_open(&p, "two-nics");
	p.probes.io_uring = -ENOSYS;
	p.probes.process_vm = -EPERM;
	patient_look(&p);
	patient_has(&p, "kernel.io_uring", "", TEI_MARK_WARN, "not in this");
	patient_has(&p, "kernel.process_vm", "", TEI_MARK_WARN, "permitted");
	patient_has(&p, "kernel.memfd", "", TEI_MARK_OK, "there");
	patient_has(&p, "kernel.pidfd", "", TEI_MARK_OK, "there");
	patient_close(&p);
}

static void the_running_kernel_answers(void **state)
{
	struct tei_probes probes;

	(void)state;
	tei_probe(&probes);
	assert_true(probes.known);
	assert_int_equal(probes.memfd, 0);
	assert_true(probes.io_uring <= 0 && probes.pidfd <= 0);
	for (int i = 0; i < 50 && !probes.copy_kernel; i++)
		tei_probe(&probes);
	assert_non_null(tei_copier_find(probes.copy_kernel));
	assert_true(probes.memcpy_gb_per_s > 0);
	assert_true(probes.copy_gb_per_s >= probes.memcpy_gb_per_s);
}

static void the_fastest_copy_is_shown(void **state)
{
	struct patient p;

	(void)state;
	patient_open(&p, "two-nics");
	patient_look(&p);
	patient_has(&p, "memory.copy", "", TEI_MARK_OK,
		    "avx2-2 9.9 GB/s, memcpy 6.5");
	patient_close(&p);
	patient_open(&p, "two-nics");
	p.probes.copy_kernel = NULL;
	patient_look(&p);
	patient_has(&p, "memory.copy", "", TEI_MARK_UNKNOWN, "too busy");
	patient_close(&p);
}

static void slow_wake_ups_are_named(void **state)
{
	struct patient p;

	(void)state;
	patient_open(&p, "two-nics");
	patient_look(&p);
	patient_has(&p, "clock.wakeup", "", TEI_MARK_OK, "8.8 us");
	patient_close(&p);
	patient_open(&p, "two-nics");
	p.probes.wakeup_ns = 55100;
	patient_look(&p);
	patient_has(&p, "clock.wakeup", "", TEI_MARK_WARN, "55.1 us");
	patient_close(&p);
	patient_open(&p, "two-nics");
	p.probes.wakeup_ns = 0;
	patient_look(&p);
	patient_has(&p, "clock.wakeup", "", TEI_MARK_UNKNOWN, "too busy");
	patient_close(&p);
}

/* Who is in thousands of groups has them before what is looked for. */
static void fields_behind_long_lines_are_found(void **state)
{
	static char status[100000];
	const size_t groups = 80000;
	struct patient p;
	size_t len;

	(void)state;
	len = (size_t)snprintf(status, sizeof(status), "Groups:\t");
	memset(status + len, '1', groups);
	(void)snprintf(status + len + groups, sizeof(status) - len - groups,
		       "CapEff:\n" /* no line of its own */
		       "CapEff:\t0000000000004000\n");
	patient_open(&p, "two-nics");
	test_tree_write(p.dir, "proc/self/limits",
			LOCKED "65536     65536  bytes\n");
	test_tree_write(p.dir, "proc/self/status", status);
	patient_look(&p);
	patient_has(&p, "limits.memlock", "", TEI_MARK_OK, "CAP_IPC_LOCK");
	patient_close(&p);
}

/* A copy's mode says nothing of the host that it came from. */
static void only_nodes_of_this_host_are_opened(void **state)
{
	const struct tei_host here = {.root = ""};
	struct tei_host copy = {.root = NULL};
	char path[TEST_PATH_MAX + 8];
	struct patient p;

	(void)state;
	assert_int_equal(tei_host_may_open(&here, "dev/null"), 0);
	assert_int_equal(tei_host_may_open(&here, "dev"), -EISDIR);
	assert_int_equal(tei_host_may_open(&here, "dev/none"), -ENOENT);
	patient_open(&p, "two-nics");
	copy.root = p.dir;
	(void)snprintf(path, sizeof(path), "%s/node", p.dir);
	assert_int_equal(mkfifo(path, 0), 0);
	assert_int_equal(tei_host_may_open(&copy, "node"), 0);
	assert_int_equal(tei_host_may_open(&copy, "dev"), -EISDIR);
	assert_int_equal(tei_host_may_open(&copy, "none"), -ENOENT);
	patient_close(&p);
}

static void an_empty_machine_is_looked_at(void **state)
{
	struct patient p = {.probes = {.known = false}};

	(void)state;
	test_tmpdir_create(p.dir);
	test_tree_write(p.dir, "sys/devices/none", "");
	patient_look(&p);
	patient_has(&p, "rdma.devices", "", TEI_MARK_WARN, "none");
	assert_int_equal(p.report.count[TEI_MARK_FAIL], 0);
	patient_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_that_are_low_are_found),
		cmocka_unit_test(memory_that_is_missing_is_found),
		cmocka_unit_test(links_below_what_they_can_are_found),
		cmocka_unit_test(
			the_command_line_tells_of_groups_without_a_type),
		cmocka_unit_test(nodes_that_are_far_are_found),
		cmocka_unit_test(what_the_kernel_refuses_is_found),
		cmocka_unit_test(the_running_kernel_answers),
		cmocka_unit_test(the_fastest_copy_is_shown),
		cmocka_unit_test(slow_wake_ups_are_named),
		cmocka_unit_test(fields_behind_long_lines_are_found),
		cmocka_unit_test(only_nodes_of_this_host_are_opened),
		cmocka_unit_test(an_empty_machine_is_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
