/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.c - the machine that te-doctor looks at: its files, the kernel's
 * answers, and the checks of limits, memory and kernel; check_host() runs all
 * checks
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/copy_choice.h"
#include "base/wakeup.h"
#include "cmd/doctor/host.h"

#define LINE_MAX_LEN 32768

static bool join_path(const struct tei_host *h, char out[PATH_MAX],
		      const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));
static bool join_path(const struct tei_host *h, char out[PATH_MAX],
		      const char *format, va_list args)
{
	int root = snprintf(out, PATH_MAX, "%s/", h->root), len;

	if (root < 0 || root >= PATH_MAX)
		return false;
	len = vsnprintf(out + root, (size_t)(PATH_MAX - root), format, args);
	return len >= 0 && len < PATH_MAX - root;
}

/* A file, and no device or pipe. The fd, or -1. */
static int open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || (!fstat(fd, &st) && S_ISREG(st.st_mode)))
		return fd;
	close(fd);
	return -1;
}

static size_t slurp(const char *path, void *out, size_t room)
{
	int fd = open_file(path);
	size_t len = 0;
	ssize_t n = 1;

	if (fd < 0)
		return 0;
	while (len < room - 1 && n > 0) { /* files of /proc come in parts */
		n = read(fd, (char *)out + len, room - 1 - len);
		if (n > 0)
			len += (size_t)n;
	}
	close(fd);
	return len;
}

/* Read what fits, and add a 0. Returns the number of bytes; 0: none. */
static size_t read_below(const struct tei_host *h, char *out, size_t room,
			 const char *format, va_list args)
	__attribute__((format(printf, 4, 0)));
static size_t read_below(const struct tei_host *h, char *out, size_t room,
			 const char *format, va_list args)
{
	char path[PATH_MAX];
	size_t len = 0;

	if (join_path(h, path, format, args))
		len = slurp(path, out, room);
	out[len] = '\0';
	return len;
}

size_t tei_host_bytes(const struct tei_host *h, void *out, size_t room,
		      const char *format, ...)
{
	va_list args;
	size_t len;

	va_start(args, format);
	len = read_below(h, out, room, format, args);
	va_end(args);
	return len;
}

/* Cut at the end of the line; what is not printable makes it no text. */
static bool tidy(char *text, size_t len)
{
	size_t end = strcspn(text, "\n"), i;
	bool is_text = len > 0 && (end < len || strlen(text) == len);

	text[end] = '\0';
	for (i = 0; i < end; i++)
		if ((text[i] < 0x20 && text[i] != '\t') || text[i] >= 0x7f)
			is_text = false;
	if (!is_text)
		text[0] = '\0';
	return is_text;
}

bool tei_host_line(const struct tei_host *h, char *out, size_t room,
		   const char *format, ...)
{
	va_list args;
	size_t len;

	va_start(args, format);
	len = read_below(h, out, room, format, args);
	va_end(args);
	return tidy(out, len);
}

/* Cut into lines: some of /proc/self/status are longer than a page. */
static bool find_line(FILE *file, const char *field, char *line, int room)
{
	bool begins = true, found = false;

	while (!found && fgets(line, room, file)) {
		found = begins && !strncmp(line, field, strlen(field));
		begins = strchr(line, '\n') != NULL;
	}
	return found;
}

bool tei_host_field(const struct tei_host *h, char *out, size_t room,
		    const char *path, const char *field)
{
	char full[PATH_MAX], line[LINE_MAX_LEN];
	int len = snprintf(full, sizeof(full), "%s/%s", h->root, path);
	int fd = len < 0 || len >= PATH_MAX ? -1 : open_file(full);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	bool found = file && find_line(file, field, line, sizeof(line));
	const char *value = found ? line + strlen(field) : "";

	if (file)
		(void)fclose(file);
	else if (fd >= 0)
		close(fd);
	value += strspn(value, " \t");
	(void)snprintf(out, room, "%.*s", (int)strcspn(value, "\n"), value);
	return found;
}

int64_t tei_host_number(const struct tei_host *h, int64_t otherwise,
			const char *format, ...)
{
	char text[64], *end;
	long long value;
	va_list args;

	va_start(args, format);
	(void)read_below(h, text, sizeof(text), format, args);
	va_end(args);
	errno = 0;
	value = strtoll(text, &end, strncmp(text, "0x", 2) ? 10 : 16);
	return errno || end == text ? otherwise : value;
}

bool tei_host_exists(const struct tei_host *h, const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;
	bool exists;

	va_start(args, format);
	exists = join_path(h, path, format, args) && access(path, F_OK) == 0;
	va_end(args);
	return exists;
}

bool tei_host_link(const struct tei_host *h, char *out, size_t room,
		   const char *format, ...)
{
	char path[PATH_MAX];
	ssize_t len = -1;
	va_list args;

	va_start(args, format);
	if (join_path(h, path, format, args))
		len = readlink(path, out, room);
	va_end(args);
	if (len < 0 || (size_t)len == room)
		len = 0;
	out[len] = '\0';
	return len > 0;
}

int tei_host_may_open(const struct tei_host *h, const char *path)
{
	char full[PATH_MAX];
	int len = snprintf(full, sizeof(full), "%s/%s", h->root, path);
	struct stat st;
	int fd;

	if (len < 0 || len >= PATH_MAX)
		return -ENAMETOOLONG;
	if (*h->root && stat(full, &st))
		return -errno;
	if (*h->root)
		return S_ISDIR(st.st_mode) ? -EISDIR : 0;
	fd = open(full, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static int is_wanted(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && strlen(entry->d_name) < TEI_HOST_NAME;
}

void tei_host_each(const struct tei_host *h, const char *folder,
		   tei_entry_fn *fn, void *arg)
{
	char path[PATH_MAX];
	struct dirent **entries;
	bool more = true;
	int i, count;

	(void)snprintf(path, sizeof(path), "%s/%s", h->root, folder);
	count = scandir(path, &entries, is_wanted, versionsort);
	for (i = 0; i < count; i++) {
		more = more && fn(entries[i]->d_name, arg);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

/* An entry that is looked for by its number. */
struct nth {
	size_t before; /* so many come first */
	char *out;     /* NULL: found */
};

static bool take_nth(const char *name, void *arg)
{
	struct nth *nth = arg;

	if (nth->before-- > 0)
		return true;
	memcpy(nth->out, name, strlen(name) + 1);
	nth->out = NULL;
	return false;
}

bool tei_host_entry(const struct tei_host *h, const char *folder, size_t n,
		    char out[TEI_HOST_NAME])
{
	struct nth nth = {.before = n, .out = out};

	tei_host_each(h, folder, take_nth, &nth);
	return !nth.out;
}

static int result_of(long rc)
{
	if (rc < 0)
		return -errno;
	close((int)rc);
	return 0;
}

/*
 * Probes without arguments, which fails in any case; how, says whether it is
 * there.
 */
static int probe_io_uring(void)
{
	int rc = result_of(syscall(SYS_io_uring_setup, 0, NULL));

	return rc == -ENOSYS || rc == -EPERM || rc == -EACCES ? rc : 0;
}

static int probe_process_vm(void)
{
	char from = 1, to = 0;
	struct iovec local = {&to, 1}, remote = {&from, 1};

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1
		       ? 0
		       : -errno;
}

#define SCRATCH_LEN ((size_t)4 << 20) /* of each side */
#define PIECE_LEN   ((size_t)64 << 10)

/*
 * Compares the kernels that copy memory, on memory that processes share and
 * that is in no cache.
 */
static void probe_copies(struct tei_probes *out)
{
	struct tei_copy_result result;
	char *scratch = mmap(NULL, 2 * SCRATCH_LEN, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (scratch == MAP_FAILED)
		return;
	memset(scratch, 1, 2 * SCRATCH_LEN);
	tei_copy_compare(scratch, scratch + SCRATCH_LEN, SCRATCH_LEN, PIECE_LEN,
			 true, &result);
	munmap(scratch, 2 * SCRATCH_LEN);
	if (result.best_gb_per_s <= 0)
		return;
	out->copy_kernel = result.best->name;
	out->copy_gb_per_s = result.best_gb_per_s;
	out->memcpy_gb_per_s = result.memcpy_gb_per_s;
}

void tei_probe(struct tei_probes *out)
{
	struct statvfs shm;

	*out = (struct tei_probes){
		.known = true,
		.io_uring = probe_io_uring(),
		.memfd = result_of(memfd_create("te-doctor", MFD_CLOEXEC)),
		.process_vm = probe_process_vm(),
		.pidfd = result_of(syscall(SYS_pidfd_open, getpid(), 0)),
	};
	if (!statvfs("/dev/shm", &shm))
		out->shm_bytes = (uint64_t)shm.f_blocks * shm.f_frsize;
	probe_copies(out);
	while (!tei_wakeup_measure(-1))
		; /* it gives up after some */
	out->wakeup_ns = tei_wakeup_ns();
	tei_probe_libfabric(out);
}

#define CAP_IPC_LOCK_BIT 14
#define GIB              (1ull << 30)
#define FILES_WANTED     65536
#define THREADS_WANTED   4096
#define WAKEUP_SLOW_NS   30000

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
static const struct tei_rule copies = {
	"memory.copy",
	"a measurement of the kernels that copy memory between processes: "
	"engines make it with their own large copies",
	"run te-doctor again while the host is less busy, or name a kernel by "
	"the setting copy_kernel"};

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

/*
 * Checks the limit of locked memory; without an RDMA device nothing is locked.
 */
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
	if (!privileged && (tei_host_entry(h, "sys/class/infiniband", 0, dev) ||
			    tei_host_entry(h, "sys/class/cxi", 0, dev)))
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

static void check_limits(const struct tei_host *h, struct tei_report *r)
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

static void check_copies(const struct tei_probes *p, struct tei_report *r)
{
	if (p->copy_kernel)
		tei_report_add(r, TEI_MARK_OK, &copies, "",
			       "%s %.1f GB/s, memcpy %.1f", p->copy_kernel,
			       p->copy_gb_per_s, p->memcpy_gb_per_s);
	else
		tei_report_add(r, TEI_MARK_UNKNOWN, &copies, "",
			       "the host was too busy to tell");
}

static void check_memory(const struct tei_host *h, struct tei_report *r)
{
	check_huge(h, r);
	if (!h->probes.known)
		return;
	tei_report_add(r,
		       h->probes.shm_bytes < GIB ? TEI_MARK_WARN : TEI_MARK_OK,
		       &shm, "", "%" PRIu64 " MiB", h->probes.shm_bytes >> 20);
	check_copies(&h->probes, r);
}

static const struct tei_rule clock_rule = {
	"clock.source",
	"one that is read without a system call: tsc, "
	"kvm-clock, arch_sys_counter, ...",
	"clocksource=tsc tsc=reliable on the kernel's command line, where the "
	"firmware keeps the counters of all CPUs together"};
static const struct tei_rule wakeup = {
	"clock.wakeup",
	"a woken thread runs within 30 us (on a busy host a wait for a core "
	"is part of it)",
	"cores that poll before they halt, for some CPU time: on a guest of KVM "
	"modprobe cpuidle_haltpoll force=1 where "
	"/sys/devices/system/cpu/cpuidle/current_driver is not haltpoll, and "
	"echo 1000000 > /sys/module/haltpoll/parameters/guest_halt_poll_ns; on "
	"other guests (x86) idle=poll on the kernel's command line; on bare "
	"metal no deep idle states (cpupower idle-set -D 20)"};
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

static void check_wakeup(const struct tei_probes *p, struct tei_report *r)
{
	if (p->wakeup_ns)
		tei_report_add(r,
			       p->wakeup_ns > WAKEUP_SLOW_NS ? TEI_MARK_WARN
							     : TEI_MARK_OK,
			       &wakeup, "", "%.1f us",
			       (double)p->wakeup_ns / 1e3);
	else
		tei_report_add(r, TEI_MARK_UNKNOWN, &wakeup, "",
			       "the host was too busy to tell, or refuses "
			       "exact timers");
}

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

static void check_kernel(const struct tei_host *h, struct tei_report *r)
{
	check_clock(h, r);
	if (h->probes.known)
		check_wakeup(&h->probes, r);
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
	tei_check_libfabric(h, r);
	tei_check_pci(h, r);
	tei_check_gpu(h, r);
	tei_check_numa(h, r);
	check_limits(h, r);
	check_memory(h, r);
	check_kernel(h, r);
}
