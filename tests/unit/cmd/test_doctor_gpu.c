/* SPDX-License-Identifier: Apache-2.0 */
/* test_doctor_gpu.c - what is between GPUs and NICs is judged */
#include <stdio.h>
#include <string.h>

#include "patient.h"

#define GPU     "sys/bus/pci/devices/0000:18:00.0/"
#define NVRM    "proc/driver/nvidia/version"
#define MODULE  "sys/module/nvidia/version"
#define RELEASE "proc/sys/kernel/osrelease"
#define LIB     "usr/lib/x86_64-linux-gnu/"
#define CUDA    LIB "libcuda.so.1"
#define CLOSED                                                             \
	"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat " \
	"Aug 19 01:15:15 UTC 2023\n"
#define OPEN(version_)                                                       \
	"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " version_ \
	"  Release Build  (builder)\n"

/* Rows of a resource file. */
#define EMPTY  "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
#define BAR0   "0x00000000fb000000 0x00000000fbffffff 0x0000000000040200\n"
#define MIB256 "0x00000000c0000000 0x00000000cfffffff 0x000000000014220c\n"
#define GIB64  "0x0000020000000000 0x0000020fffffffff 0x000000000014220c\n"
#define UNSET  "0x0000000000000000 0x0000000fffffffff 0x000000002014220c\n"
#define PORTS  "0x000000000000f000 0x000000000000f07f 0x0000000000040101\n"

/* As an administrator would like it. */
static void healthy_gpus_have_nothing_to_mend(void **state)
{
	struct patient p;
	size_t i;

	(void)state;
	patient_open(&p, "one-gpu");
	patient_look(&p);
	for (i = 0; i < p.report.n; i++) {
		const struct tei_finding *f = &p.report.findings[i];

		if (!strncmp(f->rule->check, "gpu.", 4) &&
		    f->mark != TEI_MARK_OK)
			fail_msg("%s: %s", f->rule->check, f->found);
	}
	patient_has(&p, "gpu.driver", "", TEI_MARK_OK,
		    "550.54.14, open kernel modules");
	patient_has(&p, "gpu.peermem", "", TEI_MARK_OK,
		    "nvidia_peermem is loaded; dma-buf (kernel modules "
		    "550.54.14, Linux 5.15.0-113-generic)");
	patient_has(&p, "gpu.bar1", "cuda:0", TEI_MARK_OK, "131072 MiB");
	patient_has(&p, "gpu.library", "", TEI_MARK_OK,
		    "/" LIB "libcuda.so.550.54.14");
	patient_has(&p, "gpu.persistence", "", TEI_MARK_OK, "runs");
	patient_has(&p, "pci.iommu", "cuda:0", TEI_MARK_OK, "none");
	patient_close(&p);
}

static bool speaks_of_gpus(const struct patient *p)
{
	size_t i;

	for (i = 0; i < p->report.n; i++)
		if (!strncmp(p->report.findings[i].rule->check, "gpu.", 4))
			return true;
	return false;
}

static void a_host_without_gpus_hears_nothing_of_them(void **state)
{
	struct patient p;

	(void)state;
	patient_open(&p, "two-nics");
	patient_look(&p);
	assert_false(speaks_of_gpus(&p));
	/* A bridge of NVIDIA's, as between its GPUs, is none. */
	test_tree_write(p.dir, "sys/bus/pci/devices/0000:aa:00.0/vendor",
			"0x10de\n");
	test_tree_write(p.dir, "sys/bus/pci/devices/0000:aa:00.0/class",
			"0x068000\n");
	patient_look(&p);
	assert_false(speaks_of_gpus(&p));
	patient_close(&p);
}

/* One that does not belong to a virtual machine is not wanted so. */
static void gpus_with_another_driver_are_found(void **state)
{
	static const struct {
		const char *uevent;
		enum tei_mark mark;
		const char *found;
	} rows[] = {
		{NULL, TEI_MARK_UNKNOWN, "does not name"},
		{"PCI_CLASS=30200\n", TEI_MARK_WARN, "with no driver"},
		{"DRIVER=nouveau\n", TEI_MARK_WARN, "the driver nouveau"},
		{"DRIVER=vfio-pci\n", TEI_MARK_OK, "the driver vfio-pci"},
	};
	static const char folder[] = "sys/bus/pci/devices/0000:aa:00.0";
	char path[96];
	struct patient p;
	size_t i;

	(void)state;
	patient_open(&p, "two-nics");
	(void)snprintf(path, sizeof(path), "%s/vendor", folder);
	test_tree_write(p.dir, path, "0x10de\n");
	(void)snprintf(path, sizeof(path), "%s/class", folder);
	test_tree_write(p.dir, path, "0x030000\n");
	for (i = 0; i < TEST_COUNT(rows); i++) {
		(void)snprintf(path, sizeof(path), "%s/uevent", folder);
		if (rows[i].uevent)
			test_tree_write(p.dir, path, rows[i].uevent);
		patient_look(&p);
		patient_has(&p, "gpu.driver", "0000:aa:00.0", rows[i].mark,
			    rows[i].found);
	}
	(void)snprintf(path, sizeof(path), "%s/physfn/vendor", folder);
	test_tree_write(p.dir, path, "0x10de\n");
	patient_look(&p);
	assert_false(speaks_of_gpus(&p));
	patient_close(&p);
}

static void versions_are_found_where_they_are(void **state)
{
	static const struct {
		const char *nvrm, *module;
		enum tei_mark mark;
		const char *found;
	} rows[] = {
		{CLOSED, "", TEI_MARK_OK, "535.104.05, kernel modules that"},
		{OPEN("580.95"), "\n", TEI_MARK_OK, "580.95, open kernel"},
		{"", "550.54.14\n", TEI_MARK_OK, "550.54.14"},
		{"Kernel Module 7 8. .9 x.1\n", "5\n", TEI_MARK_UNKNOWN,
		 "do not tell"},
		{"\x01\xff", "\xff\xfe", TEI_MARK_UNKNOWN, "do not tell"},
		{"NVRM version: Kernel Module "
		 "1.2345678901234567890123456789012345678901234567890\n",
		 "1.2345678901234567890123456789012345678901234567890\n",
		 TEI_MARK_UNKNOWN, "do not tell"},
		{"", "", TEI_MARK_UNKNOWN, "do not tell"},
	};
	struct patient p;
	size_t i;

	(void)state;
	patient_open(&p, "one-gpu");
	for (i = 0; i < TEST_COUNT(rows); i++) {
		test_tree_write(p.dir, NVRM, rows[i].nvrm);
		test_tree_write(p.dir, MODULE, rows[i].module);
		patient_look(&p);
		patient_has(&p, "gpu.driver", "", rows[i].mark, rows[i].found);
	}
	patient_close(&p);
}

/* Opens one with GPUs and without nvidia_peermem. */
static void open_without_peermem(struct patient *p)
{
	patient_open(p, "one-gpu");
	patient_lose(p, "sys/module/nvidia_peermem/version");
	patient_lose(p, "sys/module/nvidia_peermem");
}

static void gpus_without_a_way_to_nics_are_found(void **state)
{
	static const struct {
		const char *nvrm, *module, *release;
		enum tei_mark mark;
		const char *found;
	} rows[] = {
		{OPEN("550.54.14"), "550.54.14\n", "5.12.0\n", TEI_MARK_OK,
		 "not loaded; dma-buf ("},
		{OPEN("550.54.14"), "550.54.14\n", "6.1.0-rc1\n", TEI_MARK_OK,
		 "not loaded; dma-buf ("},
		{OPEN("550.54.14"), "550.54.14\n", "5.11.22\n", TEI_MARK_WARN,
		 "through the host: nvidia_peermem is not loaded; no dma-buf "
		 "(kernel modules 550.54.14, Linux 5.11.22)"},
		{OPEN("510.47.03"), "510.47.03\n", "6.1.0\n", TEI_MARK_WARN,
		 "no dma-buf (kernel modules 510.47.03"},
		{CLOSED, "535.104.05\n", "6.1.0\n", TEI_MARK_WARN,
		 "535.104.05, which are not open"},
		{CLOSED, "", "", TEI_MARK_WARN, "which are not open"},
		{"", "510.47.03\n", "6.1.0\n", TEI_MARK_WARN, "510.47.03"},
		{"", "550.54.14\n", "6.1.0\n", TEI_MARK_UNKNOWN,
		 "nvidia/version does not tell"},
		{OPEN("550.54.14"), "550.54.14\n", "x\n", TEI_MARK_UNKNOWN,
		 "osrelease does not tell"},
		{OPEN(""), "", "6.1.0\n", TEI_MARK_UNKNOWN, "does not tell"},
	};
	struct patient p;
	size_t i;

	(void)state;
	open_without_peermem(&p);
	for (i = 0; i < TEST_COUNT(rows); i++) {
		test_tree_write(p.dir, NVRM, rows[i].nvrm);
		test_tree_write(p.dir, MODULE, rows[i].module);
		test_tree_write(p.dir, RELEASE, rows[i].release);
		patient_look(&p);
		patient_has(&p, "gpu.peermem", "", rows[i].mark, rows[i].found);
	}
	test_tree_write(p.dir, NVRM, CLOSED);
	test_tree_write(p.dir, "sys/module/nv_peer_mem/version", "1.3\n");
	patient_look(&p);
	patient_has(&p, "gpu.peermem", "", TEI_MARK_OK, "is loaded; no dma");
	patient_close(&p);
}

/* Who has no NIC to read GPU memory misses nothing. */
static void hosts_without_rdma_need_no_way_to_nics(void **state)
{
	char from[TEST_PATH_MAX + 32], to[TEST_PATH_MAX + 32];
	struct patient p;

	(void)state;
	open_without_peermem(&p);
	test_tree_write(p.dir, NVRM, CLOSED);
	(void)snprintf(from, sizeof(from), "%s/sys/class/infiniband", p.dir);
	(void)snprintf(to, sizeof(to), "%s/moved", p.dir);
	assert_int_equal(rename(from, to), 0);
	patient_look(&p);
	patient_has(&p, "gpu.peermem", "", TEI_MARK_OK,
		    "no RDMA device to read GPU memory: nvidia_peermem is not");
	patient_close(&p);
}

static void windows_that_are_small_are_found(void **state)
{
	static const struct ailment list[] = {
		{GPU "resource", BAR0 MIB256 EMPTY GIB64 EMPTY PORTS,
		 "gpu.bar1", "cuda:0", TEI_MARK_WARN, "256 MiB"},
		{GPU "resource", BAR0 GIB64 EMPTY MIB256 EMPTY PORTS,
		 "gpu.bar1", "cuda:0", TEI_MARK_OK, "65536 MiB"},
		{GPU "resource", BAR0 UNSET EMPTY MIB256 EMPTY PORTS,
		 "gpu.bar1", "cuda:0", TEI_MARK_WARN,
		 "gave no address to its 65536 MiB"},
		{GPU "resource", BAR0 EMPTY EMPTY EMPTY EMPTY PORTS, "gpu.bar1",
		 "cuda:0", TEI_MARK_UNKNOWN, "0000:18:00.0 in sysfs does not"},
		{GPU "resource", BAR0 EMPTY EMPTY EMPTY EMPTY EMPTY GIB64,
		 "gpu.bar1", "cuda:0", TEI_MARK_UNKNOWN, "does not show"},
		{GPU "resource", BAR0 "0x00000000c0000000 0x0", "gpu.bar1",
		 "cuda:0", TEI_MARK_UNKNOWN, "does not show"},
		{GPU "resource", "no numbers\n", "gpu.bar1", "cuda:0",
		 TEI_MARK_UNKNOWN, "does not show"},
		{GPU "resource",
		 BAR0 "0x0 0xffffffffffffffffffff 0xffffffffdfffffff\n",
		 "gpu.bar1", "cuda:0", TEI_MARK_OK, "MiB"},
		{GPU "resource", "", "gpu.bar1", "cuda:0", TEI_MARK_UNKNOWN,
		 "does not show"},
		{GPU "resource", NULL, "gpu.bar1", "cuda:0", TEI_MARK_UNKNOWN,
		 "does not show"},
		{GPU "iommu_group/type", "DMA-FQ\n", "pci.iommu", "cuda:0",
		 TEI_MARK_WARN, "DMA-FQ"},
		{GPU "iommu_group/type", "identity\n", "pci.iommu", "cuda:0",
		 TEI_MARK_OK, "identity"},
	};

	(void)state;
	patients_show("one-gpu", list, TEST_COUNT(list));
}

/* The extended capabilities of a bridge: another one, then ACS. */
static void write_acs(const struct patient *p, const char *bridge,
		      unsigned char control, size_t len)
{
	unsigned char bytes[512] = {[0x100] = 1,
				    [0x102] = 1,
				    [0x103] = 0x14,
				    [0x140] = 0x0d,
				    [0x142] = 1};
	char path[TEST_PATH_MAX + 64];
	FILE *f;

	bytes[0x146] = control;
	(void)snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/config",
		       p->dir, bridge);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void bridges_that_redirect_are_found(void **state)
{
	static const unsigned char controls[] = {0, 0x04, 0x08, 0x1d, 0x11};
	static const enum tei_mark marks[] = {TEI_MARK_OK, TEI_MARK_WARN,
					      TEI_MARK_WARN, TEI_MARK_WARN,
					      TEI_MARK_OK};
	struct patient p;
	size_t i;

	(void)state;
	patient_open(&p, "eight-nics");
	for (i = 0; i < TEST_COUNT(controls); i++) {
		write_acs(&p, "0000:17:00.0", controls[i], 512);
		patient_look(&p);
		patient_has(&p, "pci.acs", "0000:17:00.0", marks[i], "");
		/* The other bridges: as a user sees them. */
		patient_has(&p, "pci.acs", "0000:17:01.0", TEI_MARK_UNKNOWN,
			    "only root");
	}
	patient_close(&p);
}

static size_t count_findings(const struct patient *p, const char *check,
			     const char *object)
{
	size_t n = 0, i;

	for (i = 0; i < p->report.n; i++)
		n += !strcmp(p->report.findings[i].rule->check, check) &&
		     !strcmp(p->report.findings[i].object, object);
	return n;
}

/* A switch in a switch: the outer one is above two GPUs. */
static void all_bridges_above_a_gpu_are_looked_at_once(void **state)
{
	struct patient p;

	(void)state;
	patient_open(&p, "eight-nics");
	write_acs(&p, "0000:16:00.0", 0x1d, 512);
	write_acs(&p, "0000:17:01.0", 0x1d, 256);
	write_acs(&p, "0000:39:00.0", 0, 0);
	patient_look(&p);
	patient_has(&p, "pci.acs", "0000:16:00.0", TEI_MARK_WARN, "the CPU");
	patient_has(&p, "pci.acs", "0000:15:01.0", TEI_MARK_UNKNOWN, "root");
	patient_has(&p, "pci.acs", "0000:17:01.0", TEI_MARK_UNKNOWN,
		    "extended configuration is not shown");
	patient_has(&p, "pci.acs", "0000:39:00.0", TEI_MARK_UNKNOWN,
		    "cannot be read");
	assert_int_equal(count_findings(&p, "pci.acs", "0000:15:01.0"), 1);
	assert_int_equal(count_findings(&p, "pci.acs", "0000:16:00.0"), 1);
	assert_int_equal(count_findings(&p, "pci.acs", "pci0000:15"), 0);
	assert_int_equal(count_findings(&p, "pci.acs", "0000:18:00.0"), 0);
	patient_close(&p);
}

static void libraries_of_another_version_are_found(void **state)
{
	struct patient p;

	(void)state;
	patient_open(&p, "one-gpu");
	/* After an upgrade, before a restart. */
	test_tree_write(p.dir, LIB "libcuda.so.560.28.03", "");
	test_tree_write(p.dir, LIB "libnvidia-ml.so.560.28.03", "");
	patient_link(&p, CUDA, "libcuda.so.560.28.03");
	patient_link(&p, LIB "libnvidia-ml.so.1", "libnvidia-ml.so.560.28.03");
	patient_look(&p);
	patient_has(&p, "gpu.library", "", TEI_MARK_FAIL,
		    "libcuda.so.560.28.03, kernel modules 550.54.14: CUDA");
	/* A newer libcuda alone is a package for compatibility. */
	patient_link(&p, LIB "libnvidia-ml.so.1", "libnvidia-ml.so.550.54.14");
	patient_look(&p);
	patient_has(&p, "gpu.library", "", TEI_MARK_UNKNOWN,
		    "made to be compatible");
	test_tree_write(p.dir, MODULE, "");
	test_tree_write(p.dir, NVRM, "");
	patient_look(&p);
	patient_has(&p, "gpu.library", "", TEI_MARK_UNKNOWN,
		    "kernel modules is not known");
	/* One of the right version in any folder is enough. */
	test_tree_write(p.dir, MODULE, "550.54.14\n");
	test_tree_write(p.dir, "usr/lib64/libcuda.so.550.54.14", "");
	patient_link(&p, "usr/lib64/libcuda.so.1", "libcuda.so.550.54.14");
	patient_look(&p);
	patient_has(&p, "gpu.library", "", TEI_MARK_OK, "/usr/lib64/");
	patient_close(&p);
}

/* Debian's alternatives have absolute links; below the root they stay there. */
static void a_library_behind_several_links_is_found(void **state)
{
	struct patient p;

	(void)state;
	patient_open(&p, "one-gpu");
	test_tree_write(p.dir, "etc/alternatives/README", "");
	test_tree_write(p.dir, LIB "nvidia/current/libcuda.so.550.54.14", "");
	patient_link(&p, CUDA, "/etc/alternatives/nvidia--libcuda.so.1");
	patient_link(&p, "etc/alternatives/nvidia--libcuda.so.1",
		     "/" LIB "nvidia/current/libcuda.so.1");
	patient_link(&p, LIB "nvidia/current/libcuda.so.1",
		     "libcuda.so.550.54.14");
	patient_look(&p);
	patient_has(&p, "gpu.library", "", TEI_MARK_OK,
		    "/" LIB "nvidia/current/libcuda.so.550.54.14");
	patient_close(&p);
}

static void a_library_that_is_missing_is_found(void **state)
{
	static const struct {
		const char *target;
		enum tei_mark mark;
		const char *found;
	} rows[] = {
		{"libcuda.so.9.9", TEI_MARK_WARN,
		 LIB "libcuda.so.9.9, which is not there"},
		{"libcuda.so.1", TEI_MARK_WARN, "which is not there"},
		{"/libcuda", TEI_MARK_WARN, "which is not there"},
		{"/", TEI_MARK_UNKNOWN, "does not tell its version"},
		{"libcuda.so", TEI_MARK_UNKNOWN, "does not tell its version"},
	};
	struct patient p;
	size_t i;

	(void)state;
	patient_open(&p, "one-gpu");
	test_tree_write(p.dir, LIB "libcuda.so", "");
	for (i = 0; i < TEST_COUNT(rows); i++) {
		patient_link(&p, CUDA, rows[i].target);
		patient_look(&p);
		patient_has(&p, "gpu.library", "", rows[i].mark, rows[i].found);
	}
	patient_lose(&p, CUDA);
	patient_look(&p);
	patient_has(&p, "gpu.library", "", TEI_MARK_WARN, "no libcuda.so.1 in");
	test_tree_write(p.dir, CUDA, "a file");
	patient_look(&p);
	patient_has(&p, "gpu.library", "", TEI_MARK_UNKNOWN, "does not tell");
	patient_close(&p);
}

/* /sys and /proc alone, as the files of another host often come. */
static void a_copy_without_usr_and_run_is_not_blamed(void **state)
{
	char from[TEST_PATH_MAX + 8], to[TEST_PATH_MAX + 8];
	struct patient p;

	(void)state;
	patient_open(&p, "one-gpu");
	(void)snprintf(from, sizeof(from), "%s/usr", p.dir);
	(void)snprintf(to, sizeof(to), "%s/moved", p.dir);
	assert_int_equal(rename(from, to), 0);
	patient_lose(&p, "run/nvidia-persistenced/socket");
	patient_look(&p);
	patient_has(&p, "gpu.library", "", TEI_MARK_UNKNOWN, "no /usr/lib");
	patient_has(&p, "gpu.persistence", "", TEI_MARK_UNKNOWN,
		    "files do not show");
	patient_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(healthy_gpus_have_nothing_to_mend),
		cmocka_unit_test(a_host_without_gpus_hears_nothing_of_them),
		cmocka_unit_test(gpus_with_another_driver_are_found),
		cmocka_unit_test(versions_are_found_where_they_are),
		cmocka_unit_test(gpus_without_a_way_to_nics_are_found),
		cmocka_unit_test(hosts_without_rdma_need_no_way_to_nics),
		cmocka_unit_test(windows_that_are_small_are_found),
		cmocka_unit_test(bridges_that_redirect_are_found),
		cmocka_unit_test(all_bridges_above_a_gpu_are_looked_at_once),
		cmocka_unit_test(libraries_of_another_version_are_found),
		cmocka_unit_test(a_library_behind_several_links_is_found),
		cmocka_unit_test(a_library_that_is_missing_is_found),
		cmocka_unit_test(a_copy_without_usr_and_run_is_not_blamed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
