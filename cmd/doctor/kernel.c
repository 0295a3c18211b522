/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.c - what the kernel can, what it is let do, and its clock */
#include <errno.h>
#include <string.h>

#include "cmd/doctor/host.h"

static const struct tei_rule clock_rule = {
	"clock.source",
	"one that is read without a system call: tsc, "
	"kvm-clock, arch_sys_counter, ...",
	"clocksource=tsc tsc=reliable on the kernel's command line, where the "
	"firmware keeps the counters of all CPUs together"};
static const struct tei_rule memfd = {
	"kernel.memfd", "memfd_create(): memory shared with peers of this host",
	"Linux 3.17 or later; a seccomp profile that lets it through"};
static const struct tei_rule process_vm = {
	"kernel.process_vm",
	"process_vm_readv(): memory of peers of this host "
	"that cannot be mapped",
	"a seccomp profile that lets it through (--cap-add=SYS_PTRACE)"};
static const struct tei_rule ptrace = {
	"kernel.ptrace_scope", "0: peers of this user may copy directly",
	"sysctl kernel.yama.ptrace_scope=0, or memory of te_memory_alloc()"};
static const struct tei_rule pidfd = {
	"kernel.pidfd",
	"pidfd_open(): the end of a peer of this host is seen "
	"at once",
	"Linux 5.3 or later; a seccomp profile that lets it through"};
static const struct tei_rule io_uring = {
	"kernel.io_uring", "io_uring: disks without a thread per request",
	"Linux 5.1 or later; sysctl kernel.io_uring_disabled=0; a seccomp "
	"profile that lets it through"};

static void check_clock(const struct tei_host *h, struct tei_report *r)
{
	static const char *const slow[] = {"hpet", "acpi_pm", "jiffies",
					   "refined-jiffies", "pit"};
	enum tei_mark mark = TEI_MARK_OK;
	char name[64];
	size_t i;

	if (!tei_host_line(h, name, sizeof(name),
			   "sys/devices/system/clocksource/clocksource0/"
			   "current_clocksource")) {
		tei_report_add(r, TEI_MARK_UNKNOWN, &clock_rule, "",
			       "sysfs does not say");
		return;
	}
	for (i = 0; i < sizeof(slow) / sizeof(slow[0]); i++)
		if (!strcmp(name, slow[i]))
			mark = TEI_MARK_WARN;
	tei_report_add(r, mark, &clock_rule, "", "%s", name);
}

static void check_ptrace(const struct tei_host *h, struct tei_report *r)
{
	int64_t scope =
		tei_host_number(h, -1, "proc/sys/kernel/yama/ptrace_scope");

	if (scope < 0)
		return; /* a kernel without Yama restricts nothing */
	tei_report_add(r, scope ? TEI_MARK_WARN : TEI_MARK_OK, &ptrace, "",
		       "%lld", (long long)scope);
}

static void add_probe(const struct tei_rule *rule, int rc, struct tei_report *r)
{
	tei_report_add(r, rc ? TEI_MARK_WARN : TEI_MARK_OK, rule, "", "%s",
		       rc == -ENOSYS ? "not in this kernel"
		       : rc          ? strerror(-rc)
				     : "there");
}

void tei_check_kernel(const struct tei_host *h, struct tei_report *r)
{
	check_clock(h, r);
	check_ptrace(h, r);
	if (!h->probes.known)
		return;
	add_probe(&memfd, h->probes.memfd, r);
	add_probe(&process_vm, h->probes.process_vm, r);
	add_probe(&pidfd, h->probes.pidfd, r);
	add_probe(&io_uring, h->probes.io_uring, r);
}

void tei_check_host(const struct tei_host *h, struct tei_report *r)
{
	tei_check_rdma(h, r);
	tei_check_fabric(h, r);
	tei_check_pci(h, r);
	tei_check_gpu(h, r);
	tei_check_numa(h, r);
	tei_check_limits(h, r);
	tei_check_memory(h, r);
	tei_check_kernel(h, r);
}
