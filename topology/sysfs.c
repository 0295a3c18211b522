/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sysfs.c - read a topology from /sys, or from a copy of it
 *
 * The tree is untrusted: files are regular and short, text is printable, links
 * stay inside the root. A file that is missing or malformed means "unknown" to
 * the callers, never an error.
 *
 * NICs: a port with RDMA (class/infiniband) is added first; the interface
 * (class/net) of the same device and port then joins it. An InfiniBand port
 * without IP and an interface without RDMA stand alone. RDMA in software (rxe,
 * siw) has no device; it is placed where its interface is. Slingshot's NICs
 * (class/cxi) have an interface, too, and are RDMA devices of libfabric only.
 *
 * GPUs: only a GPU that its compute driver has bound can be used, so the
 * drivers' folders are read instead of every device of the bus. They are
 * numbered by bus id, as with CUDA_DEVICE_ORDER=PCI_BUS_ID.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "topology/topo.h"

struct sysfs {
	char root[PATH_MAX]; /* without links, without a final slash */
	bool live;           /* it is this machine's */
	struct te_topo *t;
	struct tei_topo_error *e;
	uint32_t flags; /* enum te_topo_flags */
};

#define TEXT_MAX 4096

#define LIVE_ROOT "/sys"

/* ---- paths ---- */

static bool join_path(const struct sysfs *s, const char *below, int len,
		      char out[PATH_MAX])
{
	if (len < 0 || len >= PATH_MAX)
		return false;
	len = snprintf(out, PATH_MAX, "%s/%s", s->root, below);
	return len >= 0 && len < PATH_MAX;
}

/* Tells whether the path below the root exists. */
__attribute__((format(printf, 2, 3))) static bool
path_exists(const struct sysfs *s, const char *format, ...)
{
	char below[PATH_MAX], path[PATH_MAX];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(below, sizeof(below), format, args);
	va_end(args);
	return join_path(s, below, len, path) && access(path, F_OK) == 0;
}

/*
 * Resolves where a link leads, as a path below devices/. False: nowhere,
 * outside of the root, or too long.
 */
__attribute__((format(printf, 3, 4))) static bool
resolve_device(const struct sysfs *s, char out[TEI_TOPO_PATH_MAX],
	       const char *format, ...)
{
	static const char inside[] = "/devices/";
	char below[PATH_MAX], path[PATH_MAX], real[PATH_MAX];
	size_t root = strlen(s->root);
	const char *at;
	va_list args;
	int len;

	out[0] = '\0';
	va_start(args, format);
	len = vsnprintf(below, sizeof(below), format, args);
	va_end(args);
	if (!join_path(s, below, len, path) || !realpath(path, real))
		return false;
	if (strncmp(real, s->root, root) != 0 ||
	    strncmp(real + root, inside, sizeof(inside) - 1) != 0)
		return false;
	at = real + root + sizeof(inside) - 1;
	if (strlen(at) >= TEI_TOPO_PATH_MAX)
		return false;
	memcpy(out, at, strlen(at) + 1);
	return true;
}

/* ---- files ---- */

/* Reads up to @room - 1 bytes of a regular file. */
static int slurp(const char *path, char *out, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t n;
	int rc;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EBADMSG;
	}
	n = read(fd, out, room - 1);
	rc = n < 0 ? -errno : 0;
	close(fd);
	out[rc ? 0 : n] = '\0';
	return rc ? rc : (int)n;
}

/* Cut off the line's end; false: it has none, or is not text. */
static bool tidy(char *text, size_t n, size_t room)
{
	size_t i, len = strcspn(text, "\n");

	if (len == n && n == room - 1)
		return false; /* there may be more */
	text[len] = '\0';
	for (i = 0; i < len; i++) {
		if ((text[i] < 0x20 && text[i] != '\t') || text[i] >= 0x7f)
			return false;
	}
	return strlen(text) == len;
}

static int text_of(const char *path, char *out, size_t room)
{
	int n = slurp(path, out, room);

	if (n >= 0 && tidy(out, (size_t)n, room))
		return 0;
	out[0] = '\0';
	return n < 0 ? n : -EBADMSG;
}

/*
 * The first line of a file below the root. -ENOENT ..., -EBADMSG: not text or
 * too long; @out is then "".
 */
__attribute__((format(printf, 4, 5))) static int
read_text(const struct sysfs *s, char *out, size_t room, const char *format,
	  ...)
{
	char below[PATH_MAX], path[PATH_MAX];
	va_list args;
	int len;

	out[0] = '\0';
	va_start(args, format);
	len = vsnprintf(below, sizeof(below), format, args);
	va_end(args);
	if (!join_path(s, below, len, path))
		return -ENAMETOOLONG;
	return text_of(path, out, room);
}

/* A decimal or 0x number at the start of a file; @otherwise: there is none. */
__attribute__((format(printf, 3, 4))) static int64_t
read_number(const struct sysfs *s, int64_t otherwise, const char *format, ...)
{
	char below[PATH_MAX], path[PATH_MAX], text[64], *end;
	long long value;
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(below, sizeof(below), format, args);
	va_end(args);
	if (!join_path(s, below, len, path) ||
	    text_of(path, text, sizeof(text)))
		return otherwise;
	errno = 0;
	value = strtoll(text, &end, strncmp(text, "0x", 2) ? 10 : 16);
	return errno || end == text ? otherwise : value;
}

/* ---- folders ---- */

static int is_wanted(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && tei_topo_is_name(entry->d_name);
}

/* Bus ids are hexadecimal, all else counts in decimal. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
	const char *x = (*a)->d_name, *y = (*b)->d_name;

	if (tei_topo_is_bus_id(x, strlen(x)))
		return strcmp(x, y);
	return tei_topo_compare_names(x, y);
}

/*
 * Calls @fn for each entry of a folder whose name tei_topo_is_name(), in
 * natural order, until one returns non-zero; returns that. No folder: 0.
 */
static int for_each_entry(struct sysfs *s, const char *folder,
			  int (*fn)(struct sysfs *s, const char *name))
{
	char path[PATH_MAX];
	struct dirent **entries;
	int n, i, rc = 0;

	n = snprintf(path, sizeof(path), "%s/%s", s->root, folder);
	if (n < 0 || (size_t)n >= sizeof(path))
		return 0;
	n = scandir(path, &entries, is_wanted, by_name);
	for (i = 0; i < n; i++) {
		if (!rc)
			rc = fn(s, entries[i]->d_name);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return rc;
}

/* @name: an entry that for_each_entry() has checked to be short enough. */
static void copy_name(char out[TEI_TOPO_NAME_MAX], const char *name)
{
	(void)snprintf(out, TEI_TOPO_NAME_MAX, "%.*s", TEI_TOPO_NAME_MAX - 1,
		       name);
}

/* ---- PCI devices ---- */

static uint32_t lanes(const struct sysfs *s, const char *path,
		      const char *which)
{
	int64_t n = read_number(s, 0, "devices/%s/%s_link_width", path, which);

	return n > 0 && n <= 64 ? (uint32_t)n : 0;
}

/* "16.0 GT/s PCIe" */
static uint32_t transfers(const struct sysfs *s, const char *path,
			  const char *which)
{
	char text[64];
	double value = 0;

	if (read_text(s, text, sizeof(text), "devices/%s/%s_link_speed", path,
		      which) ||
	    sscanf(text, "%lf GT/s", &value) != 1)
		return 0;
	return value > 0 && value < 1000 ? (uint32_t)(value * 1000 + 0.5) : 0;
}

/* The narrowest of the links on the way from the host bridge to a device. */
static uint64_t path_bps(const struct sysfs *s, const char *below,
			 const char *pci)
{
	char path[TEI_TOPO_PATH_MAX];
	size_t base = (size_t)(pci - below), len;
	uint64_t best = 0, bps;

	snprintf(path, sizeof(path), "%s", below);
	for (len = strlen(path); len > base; path[len] = '\0') {
		bps = tei_topo_link_bps(transfers(s, path, "current"),
					lanes(s, path, "current"));
		if (bps && (!best || bps < best))
			best = bps;
		while (len > base && path[len] != '/')
			len--;
	}
	return best;
}

/* Bus id, path, links and NUMA node of a device by its path below devices/. */
static bool read_pci(const struct sysfs *s, const char *path,
		     struct tei_topo_pci *pci, int32_t *node)
{
	char below[TEI_TOPO_PATH_MAX];
	const char *at;
	int64_t number;
	size_t len;

	if (!tei_topo_pci_from_path(pci, path))
		return false;
	at = strstr(path, pci->path);
	/* On some machines the host bridge itself is behind something. */
	len = (size_t)(at - path) + strlen(pci->path);
	memcpy(below, path, len);
	below[len] = '\0';
	number = read_number(s, -1, "devices/%s/numa_node", below);
	*node = number < 0 || number >= TEI_TOPO_NODE_NUMBERS ? -1
							      : (int32_t)number;
	pci->width = lanes(s, below, "current");
	pci->max_width = lanes(s, below, "max");
	pci->mtps = transfers(s, below, "current");
	pci->max_mtps = transfers(s, below, "max");
	pci->path_bps = path_bps(s, below, below + (at - path));
	return true;
}

/* The line for an entry that could not be added. */
static int refuse_full(struct sysfs *s, int rc, const char *what)
{
	if (rc == -E2BIG)
		return tei_topo_fail(s->e, -EBADMSG,
				     "%s: more %s than any "
				     "machine has",
				     s->root, what);
	return tei_topo_fail(s->e, rc, "out of memory");
}

#define NODES "devices/system/node"
#define CPUS  "devices/system/cpu"

/* The number behind @prefix; -1: the name is another. */
static int32_t number_of(const char *name, const char *prefix, int32_t max)
{
	size_t len = strlen(prefix);
	char *end;
	long n;

	if (strncmp(name, prefix, len) != 0 || !name[len] ||
	    strspn(name + len, "0123456789") != strlen(name + len))
		return -1;
	errno = 0;
	n = strtol(name + len, &end, 10);
	return errno || n >= max ? -1 : (int32_t)n;
}

/* ---- CPUs ---- */

struct adding {
	struct sysfs *s;
	int32_t node;
	uint32_t core;
};

static int add_cpu(uint32_t number, void *arg)
{
	struct adding *a = arg;
	struct tei_topo_cpu *cpu;
	int rc;

	cpu = tei_topo_add_cpu(a->s->t, number, &rc);
	if (!cpu)
		return refuse_full(a->s, rc, "CPUs");
	cpu->node = a->node;
	return 0;
}

static int note_core(uint32_t number, void *arg)
{
	struct adding *a = arg;
	uint32_t i;

	for (i = 0; i < a->s->t->n_cpus; i++) {
		if (a->s->t->cpus[i].number == number)
			a->s->t->cpus[i].core = a->core;
	}
	return 0;
}

/* Find the CPUs that are threads of one core; known ones are skipped. */
static void find_cores(struct sysfs *s)
{
	struct adding a = {.s = s};
	char text[TEXT_MAX];
	uint32_t i;

	for (i = 0; i < s->t->n_cpus; i++) {
		const struct tei_topo_cpu *cpu = &s->t->cpus[i];

		if (cpu->core != cpu->number)
			continue;
		a.core = cpu->number;
		if (!read_text(s, text, sizeof(text),
			       CPUS "/cpu%u/topology/thread_siblings_list",
			       cpu->number))
			(void)tei_topo_parse_list(text, TEI_TOPO_CPUS_MAX,
						  note_core, &a);
	}
}

/* The CPUs that are left to this process, by cgroup, taskset and the like. */
static void find_allowed(struct sysfs *s)
{
	size_t size = CPU_ALLOC_SIZE(TEI_TOPO_CPUS_MAX);
	cpu_set_t *set = tei_calloc(1, size);
	uint32_t i;

	if (!set)
		return; /* a bound that is not known binds nobody */
	if (!sched_getaffinity(0, size, set)) {
		for (i = 0; i < s->t->n_cpus; i++) {
			struct tei_topo_cpu *cpu = &s->t->cpus[i];

			cpu->allowed = CPU_ISSET_S(cpu->number, size, set);
		}
	}
	tei_free(set);
}

/* ---- nodes ---- */

/* "Node 0 MemTotal:       65782308 kB" */
static uint64_t bytes_of(struct sysfs *s, int32_t node)
{
	char text[TEXT_MAX];
	unsigned long long kib;

	if (read_text(s, text, sizeof(text), NODES "/node%d/meminfo", node) ||
	    sscanf(text, "Node %*u MemTotal: %llu kB", &kib) != 1 ||
	    kib >= 1ull << 50)
		return 0;
	return kib * 1024;
}

static int add_cpus(struct sysfs *s, int32_t node, const char *list)
{
	struct adding a = {.s = s, .node = node};
	int rc = tei_topo_parse_list(list, TEI_TOPO_CPUS_MAX, add_cpu, &a);

	if (rc == -EBADMSG) {
		tei_topo_add_note(s->t, TE_TOPO_NOTE_SKIPPED,
				  "cpu:%d: its list of CPUs makes no sense",
				  node);
		rc = 0;
	}
	return rc;
}

static int add_memory(struct sysfs *s, const struct tei_topo_node *node)
{
	struct tei_topo_memory *m;
	int rc;

	m = tei_topo_add_memory(s->t, &rc);
	if (!m)
		return refuse_full(s, rc, "memories");
	snprintf(m->name, sizeof(m->name), "cpu:%d", node->number);
	m->kind = TE_TOPO_HOST;
	m->numa_node = node->number;
	m->bytes = node->bytes;
	return 0;
}

static int add_node(struct sysfs *s, int32_t number, const char *cpulist)
{
	struct tei_topo_node *node;
	int rc;

	node = tei_topo_add_node(s->t, number, &rc);
	if (!node)
		return refuse_full(s, rc, "NUMA nodes");
	node->bytes = bytes_of(s, number);
	rc = add_memory(s, node);
	return rc ? rc : add_cpus(s, number, cpulist);
}

static int each_node(struct sysfs *s, const char *name)
{
	int32_t number = number_of(name, "node", TEI_TOPO_NODE_NUMBERS);
	char list[TEXT_MAX];

	if (number < 0)
		return 0;
	(void)read_text(s, list, sizeof(list), NODES "/%s/cpulist", name);
	return add_node(s, number, list);
}

/* A kernel without NUMA: all there is makes one node. */
static int add_only_node(struct sysfs *s)
{
	char list[TEXT_MAX];

	(void)read_text(s, list, sizeof(list), CPUS "/online");
	return add_node(s, 0, list);
}

/* The i-th word is the distance to the i-th node, in order of numbers. */
static void find_distances(struct sysfs *s, struct tei_topo_node *node)
{
	char text[TEXT_MAX], *at = text, *end;
	uint32_t i;

	if (read_text(s, text, sizeof(text), NODES "/node%d/distance",
		      node->number))
		return;
	for (i = 0; i < s->t->n_nodes; i++) {
		unsigned long value = strtoul(at, &end, 10);

		if (end == at || value > 255)
			return;
		node->distance[i] = (uint16_t)value;
		at = end;
	}
}

/* The package of a node is that of its first CPU. */
static void find_package(struct sysfs *s, struct tei_topo_node *node)
{
	int64_t package = -1;
	uint32_t i;

	for (i = 0; i < s->t->n_cpus; i++) {
		if (s->t->cpus[i].node != node->number)
			continue;
		package = read_number(
			s, -1, CPUS "/cpu%u/topology/physical_package_id",
			s->t->cpus[i].number);
		break;
	}
	if (package >= 0 && package < TEI_TOPO_NODE_NUMBERS)
		node->package = (int32_t)package;
}

static int add_nodes(struct sysfs *s)
{
	int rc = for_each_entry(s, NODES, each_node);
	uint32_t i;

	if (!rc && !s->t->n_nodes)
		rc = add_only_node(s);
	if (rc)
		return rc;
	for (i = 0; i < s->t->n_nodes; i++) {
		find_distances(s, &s->t->nodes[i]);
		find_package(s, &s->t->nodes[i]);
	}
	find_cores(s);
	if (s->live)
		find_allowed(s);
	return 0;
}

#define ARPHRD_ETHER_TYPE      1
#define ARPHRD_INFINIBAND_TYPE 32
#define PORTS_MAX              8
#define SPEED_MAX_MBPS         100000000 /* 100 Tbit/s: beyond is nonsense */

static bool is_function_of_ours(const struct sysfs *s, const char *pci)
{
	return path_exists(s, "bus/pci/devices/%s/physfn", pci);
}

static void locate(const struct sysfs *s, struct tei_topo_nic *nic,
		   const char *device)
{
	if (!read_pci(s, device, &nic->pci, &nic->numa_node))
		return;
	if (is_function_of_ours(s, nic->pci.bus_id))
		nic->is_virtual = true;
}

/* ---- ports with RDMA ---- */

static uint32_t kind_of_port(const struct sysfs *s, const char *dev,
			     unsigned int port)
{
	char layer[32];

	if (read_text(s, layer, sizeof(layer),
		      "class/infiniband/%s/ports/%u/link_layer", dev, port))
		return TE_TOPO_RDMA;
	if (!strcmp(layer, "InfiniBand"))
		return TE_TOPO_IB;
	return strcmp(layer, "Ethernet") ? TE_TOPO_RDMA : TE_TOPO_ROCE;
}

/* "4: ACTIVE" */
static uint32_t state_of_port(const struct sysfs *s, const char *dev,
			      unsigned int port)
{
	int64_t state = read_number(s, 0, "class/infiniband/%s/ports/%u/state",
				    dev, port);

	if (!state)
		return TE_TOPO_STATE_UNKNOWN;
	return state == 4 ? TE_TOPO_UP : TE_TOPO_DOWN;
}

/* "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)" */
static uint64_t rate_of_port(const struct sysfs *s, const char *dev,
			     unsigned int port)
{
	char text[64];
	double gbps = 0;

	if (read_text(s, text, sizeof(text),
		      "class/infiniband/%s/ports/%u/rate", dev, port) ||
	    sscanf(text, "%lf Gb/sec", &gbps) != 1)
		return 0;
	if (!(gbps > 0 && gbps * 1000 <= SPEED_MAX_MBPS))
		return 0;
	return (uint64_t)(gbps * 1e9 + 0.5);
}

/* The interface below a port of RDMA in software, and its device. */
static bool find_below(const struct sysfs *s, const char *dev,
		       unsigned int port, char out[TEI_TOPO_PATH_MAX])
{
	char name[TEI_TOPO_NAME_MAX];

	/* The first says so only while the port has an address. */
	if (read_text(s, name, sizeof(name),
		      "class/infiniband/%s/ports/%u/gid_attrs/ndevs/0", dev,
		      port) &&
	    read_text(s, name, sizeof(name), "class/infiniband/%s/parent", dev))
		return false;
	return tei_topo_is_name(name) &&
	       resolve_device(s, out, "class/net/%s/device", name);
}

static void locate_port(const struct sysfs *s, struct tei_topo_nic *nic)
{
	char device[TEI_TOPO_PATH_MAX];

	if (resolve_device(s, device, "class/infiniband/%s/device",
			   nic->rdma)) {
		locate(s, nic, device);
	} else if (find_below(s, nic->rdma, nic->rdma_port, device)) {
		locate(s, nic, device);
		nic->speed_bps = 0; /* made up; the interface may know */
	}
}

static int add_port(struct sysfs *s, const char *dev, unsigned int port)
{
	struct tei_topo_nic *nic;
	int rc, len;

	nic = tei_topo_add_nic(s->t, &rc);
	if (!nic)
		return refuse_full(s, rc, "NICs");
	len = snprintf(nic->name, sizeof(nic->name), port > 1 ? "%s/%u" : "%s",
		       dev, port);
	if (len < 0 || (size_t)len >= sizeof(nic->name)) {
		s->t->n_nics--;
		return 0;
	}
	copy_name(nic->rdma, dev);
	nic->rdma_port = port;
	nic->kind = kind_of_port(s, dev, port);
	nic->state = state_of_port(s, dev, port);
	nic->speed_bps = rate_of_port(s, dev, port);
	locate_port(s, nic);
	return 0;
}

static int each_rdma(struct sysfs *s, const char *dev)
{
	unsigned int port;
	int rc = 0;

	for (port = 1; !rc && port <= PORTS_MAX; port++) {
		if (path_exists(s, "class/infiniband/%s/ports/%u", dev, port))
			rc = add_port(s, dev, port);
	}
	return rc;
}

/* ---- NICs that only libfabric reaches ---- */

static int each_cxi(struct sysfs *s, const char *dev)
{
	char device[TEI_TOPO_PATH_MAX];
	struct tei_topo_nic *nic;
	int rc;

	nic = tei_topo_add_nic(s->t, &rc);
	if (!nic)
		return refuse_full(s, rc, "NICs");
	copy_name(nic->name, dev);
	nic->kind = TE_TOPO_RDMA;
	if (resolve_device(s, device, "class/cxi/%s/device", dev))
		locate(s, nic, device);
	return 0;
}

/* ---- interfaces ---- */

static uint64_t speed_of(const struct sysfs *s, const char *name)
{
	int64_t mbps = read_number(s, 0, "class/net/%s/speed", name);

	return mbps > 0 && mbps <= SPEED_MAX_MBPS ? (uint64_t)mbps * 1000000
						  : 0;
}

static uint32_t state_of(const struct sysfs *s, const char *name)
{
	char text[32];

	if (read_text(s, text, sizeof(text), "class/net/%s/operstate", name) ||
	    !strcmp(text, "unknown"))
		return TE_TOPO_STATE_UNKNOWN;
	return strcmp(text, "up") ? TE_TOPO_DOWN : TE_TOPO_UP;
}

/* Whether libfabric alone reaches it; such a device has one port. */
static bool is_of_libfabric(const struct tei_topo_nic *nic)
{
	return nic->kind == TE_TOPO_RDMA && !nic->rdma_port;
}

/* The port with RDMA of this device that has no interface yet. */
static struct tei_topo_nic *port_for(struct sysfs *s, const char *name,
				     const char *path)
{
	int64_t port = read_number(s, 0, "class/net/%s/dev_port", name);
	uint32_t i;

	for (i = 0; i < s->t->n_nics; i++) {
		struct tei_topo_nic *nic = &s->t->nics[i];

		if ((nic->rdma_port == port + 1 || is_of_libfabric(nic)) &&
		    !*nic->interface && *nic->pci.path &&
		    !strcmp(nic->pci.path, path))
			return nic;
	}
	return NULL;
}

static void name_interface(struct tei_topo_nic *nic, const char *name)
{
	copy_name(nic->interface, name);
	if (!*nic->name)
		copy_name(nic->name, name);
}

static int add_interface(struct sysfs *s, const char *name, const char *device,
			 int64_t type)
{
	struct tei_topo_nic *nic;
	int rc;

	nic = tei_topo_add_nic(s->t, &rc);
	if (!nic)
		return refuse_full(s, rc, "NICs");
	name_interface(nic, name);
	nic->kind = type == ARPHRD_ETHER_TYPE ? TE_TOPO_ETH : TE_TOPO_IB;
	nic->state = state_of(s, name);
	nic->speed_bps = speed_of(s, name);
	if (*device)
		locate(s, nic, device);
	else
		nic->is_virtual = true;
	return 0;
}

static int each_interface(struct sysfs *s, const char *name)
{
	int64_t type = read_number(s, 0, "class/net/%s/type", name);
	char device[TEI_TOPO_PATH_MAX];
	struct tei_topo_pci pci = {.path = ""};
	struct tei_topo_nic *nic;

	if (type != ARPHRD_ETHER_TYPE && type != ARPHRD_INFINIBAND_TYPE)
		return 0; /* loopback, tunnels */
	if (!resolve_device(s, device, "class/net/%s/device", name)) {
		if (!(s->flags & TE_TOPO_VIRTUAL))
			return 0;
	} else if (tei_topo_pci_from_path(&pci, device)) {
		nic = port_for(s, name, pci.path);
		if (nic) {
			name_interface(nic, name);
			if (!nic->speed_bps)
				nic->speed_bps = speed_of(s, name);
			if (is_of_libfabric(nic))
				nic->state = state_of(s, name);
			return 0;
		}
	}
	return add_interface(s, name, device, type);
}

static int add_nics(struct sysfs *s)
{
	int rc = for_each_entry(s, "class/infiniband", each_rdma);

	if (!rc)
		rc = for_each_entry(s, "class/cxi", each_cxi);
	return rc ? rc : for_each_entry(s, "class/net", each_interface);
}

#define CLASS_DISPLAY     0x03
#define CLASS_ACCELERATOR 0x12

static bool is_gpu(const struct sysfs *s, const char *bus_id)
{
	int64_t class = read_number(s, 0, "bus/pci/devices/%s/class", bus_id);

	return class >> 16 == CLASS_DISPLAY || class >> 16 == CLASS_ACCELERATOR;
}

static uint32_t count_kind(const struct te_topo *t, uint32_t kind)
{
	uint32_t i, n = 0;

	for (i = 0; i < t->n_memories; i++)
		n += t->memories[i].kind == kind;
	return n;
}

static int add_gpu(struct sysfs *s, const char *bus_id, uint32_t kind,
		   const char *prefix)
{
	char device[TEI_TOPO_PATH_MAX];
	uint32_t number = count_kind(s->t, kind);
	struct tei_topo_memory *m;
	int rc;

	if (!tei_topo_is_bus_id(bus_id, strlen(bus_id)) || !is_gpu(s, bus_id))
		return 0;
	m = tei_topo_add_memory(s->t, &rc);
	if (!m)
		return refuse_full(s, rc, "GPUs");
	snprintf(m->name, sizeof(m->name), "%s:%u", prefix, number);
	m->kind = kind;
	if (!resolve_device(s, device, "bus/pci/devices/%s", bus_id) ||
	    !read_pci(s, device, &m->pci, &m->numa_node))
		tei_topo_add_note(s->t, TE_TOPO_NOTE_AFFINITY,
				  "%s: where %s is cannot be seen", m->name,
				  bus_id);
	return 0;
}

static int each_nvidia(struct sysfs *s, const char *bus_id)
{
	return add_gpu(s, bus_id, TE_TOPO_CUDA, "cuda");
}

static int each_amd(struct sysfs *s, const char *bus_id)
{
	return add_gpu(s, bus_id, TE_TOPO_HIP, "hip");
}

static int add_gpus(struct sysfs *s)
{
	int rc = for_each_entry(s, "bus/pci/drivers/nvidia", each_nvidia);

	return rc ? rc : for_each_entry(s, "bus/pci/drivers/amdgpu", each_amd);
}

/* ---- all of it ---- */

static int open_root(struct sysfs *s, const char *root)
{
	if (!realpath(root ? root : LIVE_ROOT, s->root))
		return tei_topo_fail(s->e, -errno, "%s: %s",
				     root ? root : LIVE_ROOT, strerror(errno));
	s->live = strcmp(s->root, LIVE_ROOT) == 0;
	if (!s->live && !path_exists(s, "devices") &&
	    !path_exists(s, "class/net"))
		return tei_topo_fail(
			s->e, -ENOENT,
			"%s: no copy of /sys: it has no \"devices\"", s->root);
	return 0;
}

int tei_topo_from_sysfs(struct te_topo *t, const char *root, uint32_t flags,
			struct tei_topo_error *e)
{
	struct sysfs s = {.t = t, .e = e, .flags = flags};
	int rc = open_root(&s, root);

	if (!rc)
		rc = add_nodes(&s);
	if (!rc)
		rc = add_nics(&s);
	if (!rc)
		rc = add_gpus(&s);
	return rc;
}
