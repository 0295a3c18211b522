/* SPDX-License-Identifier: Apache-2.0 */
/* patient.c - machines of files for te-doctor to look at */
#include "patient.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PORT "sys/class/infiniband/mlx5_0/ports/1/"

/* What every machine has, and what RDMA by mlx5_0 needs. */
static const char *const common[][2] = {
	{"proc/self/limits",
	 "Limit                     Soft Limit           Hard Limit\n"
	 "Max processes             96365                96365    processes\n"
	 "Max open files            1048576              1048576  files\n"
	 "Max locked memory         unlimited            unlimited  bytes\n"},
	{"proc/self/status", "Name:\tte-doctor\nCapEff:\t0000000000000000\n"
			     "Cpus_allowed_list:\t0-63\n"},
	{"proc/meminfo", "MemTotal: 1 kB\nHugePages_Total: 8\n"
			 "HugePages_Free: 4\n"},
	{"proc/sys/kernel/yama/ptrace_scope", "0\n"},
	{"proc/sys/kernel/numa_balancing", "0\n"},
	{"sys/kernel/mm/transparent_hugepage/enabled",
	 "always [madvise] never\n"},
	{"sys/devices/system/clocksource/clocksource0/current_clocksource",
	 "tsc\n"},
};

static const char *const roce[][2] = {
	{"sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n"},
	{"dev/infiniband/uverbs0", ""},
	{PORT "phys_state", "5: LinkUp\n"},
	{PORT "gids/0", "fe80:0000:0000:0000:0200:00ff:fe00:0001\n"},
	{PORT "gid_attrs/types/0", "IB/RoCE v1\n"},
	{PORT "gid_attrs/ndevs/0", "ens1np0\n"},
	{PORT "gids/1", "0000:0000:0000:0000:0000:ffff:0a09:0001\n"},
	{PORT "gid_attrs/types/1", "RoCE v2\n"},
	{PORT "gid_attrs/ndevs/1", "ens1np0\n"},
	{"sys/class/net/ens1np0/mtu", "9000\n"},
	{"sys/class/net/ens1np0/ecn/roce_rp/enable/3", "1\n"},
	{"sys/class/net/ens1np0/ecn/roce_np/enable/3", "1\n"},
	{"proc/net/route",
	 "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
	 "ens2\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
	 "ens2\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
	 "ens1np0\t0000090A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"},
};

static const char *const infiniband[][2] = {
	{PORT "phys_state", "5: LinkUp\n"},
	{PORT "lid", "0x11\n"},
	{"sys/module/nvidia_peermem/version", "1\n"},
};

#define GPU "sys/devices/pci0000:15/0000:15:01.0/0000:18:00.0/"
#define LIB "usr/lib/x86_64-linux-gnu/"

/* An H100 and NVIDIA's software. */
static const char *const gpu[][2] = {
	{GPU "vendor", "0x10de\n"},
	{GPU "class", "0x030200\n"},
	/* Of base addresses of 64 bits the second is on the third line. */
	{GPU "resource",
	 "0x0000024042000000 0x0000024042ffffff 0x000000000014220c\n"
	 "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
	 "0x0000022000000000 0x0000023fffffffff 0x000000000014220c\n"
	 "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
	 "0x0000024040000000 0x0000024041ffffff 0x000000000014220c\n"
	 "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
	 "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"},
	{"sys/bus/pci/drivers/nvidia/new_id", ""},
	{"sys/module/nvidia/version", "550.54.14\n"},
	{"proc/driver/nvidia/version",
	 "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  "
	 "Release Build  (dvs-builder@U16)  Thu Feb 22 01:44:30 UTC 2024\n"
	 "GCC version:  gcc version 12.3.0\n"},
	{"proc/sys/kernel/osrelease", "5.15.0-113-generic\n"},
	{LIB "libcuda.so.550.54.14", ""},
	{LIB "libnvidia-ml.so.550.54.14", ""},
	{"run/nvidia-persistenced/socket", ""},
};

static void write_all(const struct patient *p, const char *const (*files)[2],
		      size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		test_tree_write(p->dir, files[i][0], files[i][1]);
}

static void add_gpu(const struct patient *p)
{
	write_all(p, gpu, TEST_COUNT(gpu));
	patient_link(p, "sys/bus/pci/devices/0000:18:00.0", "../../../../" GPU);
	patient_link(p, "sys/bus/pci/drivers/nvidia/0000:18:00.0",
		     "../../../../../" GPU);
	patient_link(p, LIB "libcuda.so.1", "libcuda.so.550.54.14");
	patient_link(p, LIB "libnvidia-ml.so.1", "libnvidia-ml.so.550.54.14");
}

void patient_open(struct patient *p, const char *tree)
{
	bool with_gpu = !strcmp(tree, "one-gpu");
	char name[128];

	*p = (struct patient){.probes = {.known = true,
					 .shm_bytes = 8ull << 30,
					 .copy_kernel = "avx2-2",
					 .copy_gb_per_s = 9.87,
					 .memcpy_gb_per_s = 6.54,
					 .wakeup_ns = 8765}};
	test_tmpdir_create(p->dir);
	(void)snprintf(name, sizeof(name), "topology/%s.tree",
		       with_gpu ? "one-nic" : tree);
	test_tree_unpack(name, p->dir);
	write_all(p, common, TEST_COUNT(common));
	if (!strcmp(tree, "two-nics"))
		write_all(p, roce, TEST_COUNT(roce));
	else
		write_all(p, infiniband, TEST_COUNT(infiniband));
	if (with_gpu)
		add_gpu(p);
}

void patient_lose(const struct patient *p, const char *path)
{
	char full[TEST_PATH_MAX + 256];

	(void)snprintf(full, sizeof(full), "%s/%s", p->dir, path);
	assert_int_equal(remove(full), 0);
}

void patient_link(const struct patient *p, const char *path, const char *target)
{
	char full[TEST_PATH_MAX + 256];

	(void)snprintf(full, sizeof(full), "%s/%s", p->dir, path);
	(void)remove(full);
	assert_int_equal(symlink(target, full), 0);
}

void patient_look(struct patient *p)
{
	char sys[TEST_PATH_MAX + 8], error[300];
	struct te_topo_source source = {.sysfs_root = sys};
	struct tei_host host = {.root = p->dir, .probes = p->probes};
	struct te_topo *topo;

	(void)snprintf(sys, sizeof(sys), "%s/sys", p->dir);
	if (te_topo_load(&source, &topo, error, sizeof(error)))
		fail_msg("%s", error);
	host.topo = topo;
	tei_report_fini(&p->report);
	tei_check_host(&host, &p->report);
	te_topo_destroy(topo);
	assert_false(p->report.short_of_memory);
}

void patient_has(const struct patient *p, const char *check, const char *object,
		 enum tei_mark mark, const char *text)
{
	const struct tei_finding *f;
	size_t i;

	for (i = 0; i < p->report.n; i++) {
		f = &p->report.findings[i];
		if (!strcmp(f->rule->check, check) &&
		    !strcmp(f->object, object) && f->mark == mark &&
		    strstr(f->found, text))
			return;
	}
	(void)tei_report_text(&p->report, stderr);
	fail_msg("not found: %s %s %s: %s", tei_mark_name(mark), check, object,
		 text);
}

void patient_close(struct patient *p)
{
	tei_report_fini(&p->report);
	test_tmpdir_remove(p->dir);
}

/* What a file is, so that it can be made the same again. */
struct before {
	bool was_there;
	char text[4096];
};

static void remember(const struct patient *p, const char *path,
		     struct before *out)
{
	const struct tei_host host = {.root = p->dir};

	out->was_there = tei_host_exists(&host, "%s", path);
	(void)tei_host_bytes(&host, out->text, sizeof(out->text), "%s", path);
}

static void restore(const struct patient *p, const char *path,
		    const struct before *before)
{
	if (before->was_there)
		test_tree_write(p->dir, path, before->text);
	else
		patient_lose(p, path);
}

static void show(struct patient *p, const struct ailment *a)
{
	struct before before;

	remember(p, a->path, &before);
	if (a->text)
		test_tree_write(p->dir, a->path, a->text);
	else
		patient_lose(p, a->path);
	patient_look(p);
	patient_has(p, a->check, a->object, a->mark, a->found);
	restore(p, a->path, &before);
}

void patients_show(const char *tree, const struct ailment *list, size_t n)
{
	struct patient p;
	size_t i;

	patient_open(&p, tree);
	for (i = 0; i < n; i++)
		show(&p, &list[i]);
	patient_close(&p);
}
