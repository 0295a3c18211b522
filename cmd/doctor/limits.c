/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c - what a process may have: locked and huge memory, files, threads */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/doctor/host.h"

#define CAP_IPC_LOCK_BIT 14
#define GIB              (1ull << 30)
#define FILES_WANTED     65536
#define THREADS_WANTED   4096

static const struct tei_rule memlock = {
	"limits.memlock", "unlimited: registered memory is locked",
	"ulimit -l unlimited; LimitMEMLOCK=infinity in the service; "
	"--ulimit memlock=-1 of a container"};
static const struct tei_rule nofile = {
	"limits.nofile", "65536 or more: each peer costs a few",
	"ulimit -n 65536; LimitNOFILE=65536 in the service; --ulimit nofile= "
	"of a container"};
static const struct tei_rule nproc = {
	"limits.nproc", "4096 threads or more",
	"ulimit -u 65536; LimitNPROC=65536 and TasksMax=infinity in the "
	"service; --pids-limit=-1 of a container"};
static const struct tei_rule huge = {
	"memory.hugepages", "huge pages, reserved or on demand",
	"sysctl vm.nr_hugepages=N (2 MiB each), or echo madvise > "
	"/sys/kernel/mm/transparent_hugepage/enabled"};
static const struct tei_rule shm = {
	"memory.shm", "1 GiB or more in /dev/shm",
	"mount -o remount,size=8G /dev/shm; --shm-size=8g of a container"};

/* ---- limits ---- */

/* The soft limit, UINT64_MAX: unlimited. False: the file does not say. */
static bool soft_limit(const struct tei_host *h, const char *name,
		       uint64_t *out)
{
	char text[128], *end;

	if (!tei_host_field(h, text, sizeof(text), "proc/self/limits", name))
		return false;
	*out = UINT64_MAX;
	if (!strncmp(text, "unlimited", 9))
		return true;
	*out = strtoull(text, &end, 10);
	return end != text;
}

static bool may_lock_anything(const struct tei_host *h)
{
	char text[64];

	return tei_host_field(h, text, sizeof(text), "proc/self/status",
			      "CapEff:") &&
	       strtoull(text, NULL, 16) >> CAP_IPC_LOCK_BIT & 1;
}

/* Without an RDMA device nothing is locked. */
static void check_memlock(const struct tei_host *h, struct tei_report *r)
{
	enum tei_mark mark = TEI_MARK_OK;
	bool privileged = may_lock_anything(h);
	char dev[TEI_HOST_NAME];
	uint64_t bytes;

	if (!soft_limit(h, "Max locked memory", &bytes))
		return;
	if (bytes == UINT64_MAX) {
		tei_report_add(r, TEI_MARK_OK, &memlock, "", "unlimited");
		return;
	}
	if (!privileged && tei_host_entry(h, "sys/class/infiniband", 0, dev))
		mark = bytes < GIB ? TEI_MARK_FAIL : TEI_MARK_WARN;
	tei_report_add(r, mark, &memlock, "", "%" PRIu64 " KiB%s", bytes >> 10,
		       privileged            ? ", lifted by CAP_IPC_LOCK"
		       : mark == TEI_MARK_OK ? ", and no RDMA device"
					     : "");
}

static void check_count(const struct tei_host *h, const char *name,
			const char *what, uint64_t wanted,
			const struct tei_rule *rule, struct tei_report *r)
{
	uint64_t n;

	if (!soft_limit(h, name, &n))
		return;
	if (n == UINT64_MAX)
		tei_report_add(r, TEI_MARK_OK, rule, "", "unlimited");
	else
		tei_report_add(r, n < wanted ? TEI_MARK_WARN : TEI_MARK_OK,
			       rule, "", "%" PRIu64 " %s", n, what);
}

void tei_check_limits(const struct tei_host *h, struct tei_report *r)
{
	check_memlock(h, r);
	check_count(h, "Max open files", "files", FILES_WANTED, &nofile, r);
	check_count(h, "Max processes", "threads", THREADS_WANTED, &nproc, r);
}

/* ---- memory ---- */

static uint64_t huge_pages(const struct tei_host *h, const char *field)
{
	char text[64];

	(void)tei_host_field(h, text, sizeof(text), "proc/meminfo", field);
	return strtoull(text, NULL, 10);
}

static void check_huge(const struct tei_host *h, struct tei_report *r)
{
	uint64_t total = huge_pages(h, "HugePages_Total:");
	uint64_t unused = huge_pages(h, "HugePages_Free:");
	char demand[64], reserved[64] = "none reserved";
	bool on_demand;

	on_demand =
		tei_host_line(h, demand, sizeof(demand),
			      "sys/kernel/mm/transparent_hugepage/enabled") &&
		!strstr(demand, "[never]");
	if (total)
		(void)snprintf(reserved, sizeof(reserved),
			       "%" PRIu64 " reserved, %" PRIu64 " of them free",
			       total, unused);
	tei_report_add(r, total || on_demand ? TEI_MARK_OK : TEI_MARK_WARN,
		       &huge, "", "%s; on demand: %s", reserved,
		       on_demand ? "yes" : "no");
}

void tei_check_memory(const struct tei_host *h, struct tei_report *r)
{
	check_huge(h, r);
	if (!h->probes.known)
		return;
	tei_report_add(r,
		       h->probes.shm_bytes < GIB ? TEI_MARK_WARN : TEI_MARK_OK,
		       &shm, "", "%" PRIu64 " MiB", h->probes.shm_bytes >> 20);
}
