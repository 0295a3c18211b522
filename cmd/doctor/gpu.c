/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.c - what is between GPUs and NICs, and what of NVIDIA's software is there
 *
 * By files alone: the driver's library costs seconds and memory of each GPU
 * when it is started, and it may be what has to be explained.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/doctor/gpu_driver.h"
#include "cmd/doctor/host.h"

#define NVIDIA  0x10de
#define DISPLAY 0x03 /* class of PCI devices: GPUs, with a screen or not */

static const struct tei_rule acs_rule = {
	"pci.acs", "bridges that send traffic between their devices directly",
	"switch ACS off in the firmware, or setpci -s BRIDGE "
	"ECAP_ACS+0x6.w=0000 at each start"};
static const struct tei_rule bar_rule = {
	"gpu.bar1",
	"more than 256 MiB, best the size of the GPU's memory: NICs reach "
	"memory through it, and registering more fails with ENOMEM",
	"switch Above 4G Decoding and Resizable BAR on in the firmware"};
static const struct tei_rule driver_rule = {
	"gpu.driver", "NVIDIA's kernel modules",
	"install the driver, modprobe nvidia; where nouveau has the GPU, "
	"blacklist it and restart; dmesg | grep NVRM tells why not"};
static const struct tei_rule peermem_rule = {
	"gpu.peermem", "nvidia_peermem, or the open driver with dma-buf",
	"modprobe nvidia-peermem, or open kernel modules >= 515 with "
	"Linux >= 5.12"};
static const struct tei_rule library_rule = {
	"gpu.library", "libcuda.so.1, of the version of the kernel modules",
	"another version: restart the host after an upgrade, or unload and "
	"load the modules, then containers; none: install the driver's "
	"libraries, in a container --gpus=all, or set cuda_library"};
static const struct tei_rule persistence_rule = {
	"gpu.persistence",
	"nvidia-persistenced: without it the first use of an idle GPU takes "
	"seconds",
	"systemctl enable --now nvidia-persistenced, on the host; nvidia-smi "
	"-pm 1 does the same until a restart"};

/* ---- bridges above a GPU ---- */

#define CONFIG_LEN    4096
#define USERS_PART    64    /* bytes of it that users may read */
#define EXTENDED      0x100 /* where extended capabilities begin */
#define ACS_ID        0x000d
#define ACS_CONTROL   6
#define ACS_REDIRECTS 0x000c /* requests, completions between peers */

static unsigned int word(const unsigned char *at)
{
	return at[0] | (unsigned int)at[1] << 8;
}

/* Control bits of ACS; -1: the bridge has none. */
static int acs_of(const unsigned char *config, size_t len)
{
	unsigned int at = EXTENDED, hops = 0;

	while (at >= EXTENDED && at + 8 <= len && hops++ < CONFIG_LEN / 8) {
		if (word(config + at) == ACS_ID)
			return (int)word(config + at + ACS_CONTROL);
		at = word(config + at + 2) >> 4 & 0xffc;
	}
	return -1;
}

static void check_bridge(const struct tei_host *h, const char *bus_id,
			 struct tei_report *r)
{
	unsigned char config[CONFIG_LEN + 1];
	size_t len = tei_host_bytes(h, config, sizeof(config),
				    "sys/bus/pci/devices/%s/config", bus_id);
	int acs = acs_of(config, len);
	bool redirects = acs > 0 && acs & ACS_REDIRECTS;

	if (len <= EXTENDED)
		tei_report_add(
			r, TEI_MARK_UNKNOWN, &acs_rule, bus_id, "%s",
			!len ? "its configuration cannot be read"
			: len <= USERS_PART
				? "only root may read its configuration"
				: "its extended configuration is not shown");
	else
		tei_report_add(r, redirects ? TEI_MARK_WARN : TEI_MARK_OK,
			       &acs_rule, bus_id, "%s",
			       redirects ? "sends it by way of the CPU"
					 : "sends it directly");
}

static bool is_gpu(const struct te_topo_memory *m)
{
	return m->kind == TE_TOPO_CUDA || m->kind == TE_TOPO_HIP;
}

/* Tells whether a GPU before this one is below the "/bridge/", too. */
static bool was_checked(const struct tei_host *h, uint32_t index,
			const char *bridge)
{
	struct te_topo_memory m;
	uint32_t i;

	for (i = 0; i < index && !te_topo_memory(h->topo, i, &m); i++)
		if (is_gpu(&m) && strstr(m.pci.path, bridge))
			return true;
	return false;
}

/*
 * Redirects of any bridge touch the traffic to NICs that are not below it.
 * The path is "pci0000:15/0000:15:01.0/0000:16:00.0": a root, bridges, the GPU.
 */
static void check_bridges(const struct tei_host *h, uint32_t index,
			  const char *path, struct tei_report *r)
{
	const char *at = strchr(path, '/'), *end;
	char bridge[TEI_HOST_NAME];

	for (; at; at = end) {
		end = strchr(at + 1, '/');
		if (!end)
			return; /* that is the GPU */
		(void)snprintf(bridge, sizeof(bridge), "%.*s",
			       (int)(end - at + 1), at);
		if (was_checked(h, index, bridge))
			continue;
		bridge[strlen(bridge) - 1] = '\0';
		check_bridge(h, bridge + 1, r);
	}
}

/* ---- the window into a GPU's memory ---- */

#define MIB        (1ull << 20)
#define BARS       6
#define IS_MEMORY  0x200ull      /* IORESOURCE_MEM */
#define NO_ADDRESS 0x20000000ull /* IORESOURCE_UNSET */

struct bar {
	uint64_t first, last, flags;
};

static bool take_number(char **at, uint64_t *out)
{
	char *begin = *at;

	*out = strtoull(begin, at, 16);
	return *at != begin;
}

/*
 * Finds NVIDIA's BAR1 in a resource file, which has a line for each 32 bits of
 * base addresses. It is the second region of memory: on the second line, or,
 * where the first has 64 bits (H100), on the third. False: none is found.
 */
static bool find_bar1(char *table, struct bar *out)
{
	int i, n = 0;

	for (i = 0; i < BARS; i++) {
		if (!take_number(&table, &out->first) ||
		    !take_number(&table, &out->last) ||
		    !take_number(&table, &out->flags))
			return false;
		if (out->flags & IS_MEMORY && out->last > out->first)
			n++;
		if (n == 2)
			return true;
	}
	return false;
}

static void check_bar1(const struct tei_host *h, const struct te_topo_memory *m,
		       struct tei_report *r)
{
	struct bar bar = {0};
	uint64_t mib;
	char table[2048];

	if (!tei_host_bytes(h, table, sizeof(table),
			    "sys/bus/pci/devices/%s/resource", m->pci.bus_id) ||
	    !find_bar1(table, &bar)) {
		tei_report_add(r, TEI_MARK_UNKNOWN, &bar_rule, m->name,
			       "the resource file of %s in sysfs does not show "
			       "it",
			       m->pci.bus_id);
		return;
	}
	mib = (bar.last - bar.first) / MIB + 1;
	if (bar.flags & NO_ADDRESS)
		tei_report_add(r, TEI_MARK_WARN, &bar_rule, m->name,
			       "the firmware gave no address to its %llu MiB",
			       (unsigned long long)mib);
	else
		tei_report_add(r, mib > 256 ? TEI_MARK_OK : TEI_MARK_WARN,
			       &bar_rule, m->name, "%llu MiB",
			       (unsigned long long)mib);
}

/* Returns how many of the GPUs are NVIDIA's. */
static size_t check_gpus(const struct tei_host *h, struct tei_report *r)
{
	struct te_topo_memory m;
	size_t n_nvidia = 0;
	uint32_t i;

	for (i = 0; !te_topo_memory(h->topo, i, &m); i++) {
		if (!is_gpu(&m))
			continue;
		check_bridges(h, i, m.pci.path, r);
		tei_check_iommu(h, m.name, m.pci.bus_id, r);
		if (m.kind != TE_TOPO_CUDA)
			continue;
		check_bar1(h, &m, r);
		n_nvidia++;
	}
	return n_nvidia;
}

/* ---- kernel modules ---- */

static void check_driver(const struct tei_gpu_driver *driver,
			 struct tei_report *r)
{
	static const char *const kinds[] = {
		", kernel modules that are not open", ", open kernel modules",
		""};

	if (*driver->version)
		tei_report_add(r, TEI_MARK_OK, &driver_rule, "", "%s%s",
			       driver->version, kinds[driver->open]);
	else
		tei_report_add(r, TEI_MARK_UNKNOWN, &driver_rule, "",
			       "/sys/module/nvidia/version and "
			       "/proc/driver/nvidia/version do not tell the "
			       "version");
}

/* A place to put findings about PCI devices. */
struct walk {
	const struct tei_host *h;
	struct tei_report *r;
};

static bool has_other_driver(const struct tei_host *h, const char *bus_id)
{
	static const char device[] = "sys/bus/pci/devices";

	return tei_host_number(h, 0, "%s/%s/vendor", device, bus_id) ==
		       NVIDIA &&
	       tei_host_number(h, 0, "%s/%s/class", device, bus_id) >> 16 ==
		       DISPLAY &&
	       !tei_host_exists(h, "%s/%s/physfn", device, bus_id) &&
	       !tei_host_exists(h, "sys/bus/pci/drivers/nvidia/%s", bus_id);
}

/* Names the driver of a GPU that is not NVIDIA's own. */
static bool check_device(const char *bus_id, void *arg)
{
	const struct walk *walk = arg;
	char path[TEI_HOST_NAME + 32], name[64];
	enum tei_mark mark = TEI_MARK_WARN;

	if (!has_other_driver(walk->h, bus_id))
		return true;
	(void)snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/uevent",
		       bus_id);
	if (!tei_host_exists(walk->h, "%s", path)) {
		tei_report_add(walk->r, TEI_MARK_UNKNOWN, &driver_rule, bus_id,
			       "sysfs does not name its driver");
		return true;
	}
	(void)tei_host_field(walk->h, name, sizeof(name), path, "DRIVER=");
	if (!strcmp(name, "vfio-pci"))
		mark = TEI_MARK_OK; /* on purpose: a virtual machine has it */
	tei_report_add(walk->r, mark, &driver_rule, bus_id,
		       "a GPU of NVIDIA with %s%s",
		       *name ? "the driver " : "no driver", name);
	return true;
}

/* ---- the way of a GPU's memory to NICs ---- */

static void check_peermem(const struct tei_host *h,
			  const struct tei_gpu_driver *driver,
			  struct tei_report *r)
{
	bool peermem = tei_gpu_has_peermem(h);
	static const char *const dma_buf[] = {"no dma-buf", "dma-buf",
					      "dma-buf is not known"};
	char why[128], dev[TEI_HOST_NAME];
	enum tei_known has = tei_gpu_has_dma_buf(h, driver, why, sizeof(why));
	enum tei_mark mark = TEI_MARK_OK;
	const char *so = "";

	if (!peermem && has == TEI_NOT_KNOWN)
		mark = TEI_MARK_UNKNOWN;
	if (!peermem && has == TEI_NO) {
		bool rdma = tei_host_entry(h, "sys/class/infiniband", 0, dev);

		mark = rdma ? TEI_MARK_WARN : TEI_MARK_OK;
		so = rdma ? "GPU memory goes through the host: "
			  : "no RDMA device to read GPU memory: ";
	}
	tei_report_add(r, mark, &peermem_rule, "",
		       "%snvidia_peermem is %s; %s (%s)", so,
		       peermem ? "loaded" : "not loaded", dma_buf[has], why);
}

/* ---- libraries ---- */

#define LINKS_MAX 8 /* of alternatives: two or three */
#define PATH_LEN  512

static const char *const folders[] = {
	"usr/lib/x86_64-linux-gnu",
	"usr/lib/aarch64-linux-gnu",
	"usr/lib64",
	"usr/lib",
	"usr/local/nvidia/lib64",
	"run/opengl-driver/lib",
	"run/nvidia/driver/usr/lib/x86_64-linux-gnu",
	"run/nvidia/driver/usr/lib/aarch64-linux-gnu",
	"run/nvidia/driver/usr/lib64",
};
#define N_FOLDERS (sizeof(folders) / sizeof(folders[0]))

/* Finding about a library: each value knows more of it than those before. */
enum found { NOWHERE, LEADS_NOWHERE, NAMELESS, OTHER, SAME };

struct library {
	enum found found;
	char path[PATH_LEN];
	char version[TEI_GPU_VERSION_LEN]; /* of OTHER and SAME */
};

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Goes one link further. False: it is none. */
static bool follow(const struct tei_host *h, char path[PATH_LEN])
{
	char link[PATH_LEN], *target = link;
	size_t folder = (size_t)(name_of(path) - path);

	if (!tei_host_link(h, link, sizeof(link), "%s", path))
		return false;
	if (*target == '/') {
		target += strspn(target, "/");
		folder = 0;
	}
	if (folder + strlen(target) >= PATH_LEN)
		return false;
	memcpy(path + folder, target, strlen(target) + 1);
	return true;
}

/* "usr/lib64/libcuda.so.550.54.14": the version is what is behind ".so.". */
static bool take_version(const char *path, char out[TEI_GPU_VERSION_LEN])
{
	const char *text = strstr(name_of(path), ".so.");
	size_t len = text ? tei_gpu_version_len(text + 4) : 0;

	if (!len || text[4 + len])
		return false;
	memcpy(out, text + 4, len + 1);
	return true;
}

/* The version is in the name of the file that links lead to. */
static void find_in(const struct tei_host *h, const char *folder,
		    const char *name, const struct tei_gpu_driver *driver,
		    struct library *out)
{
	int links = 0;
	bool named;

	*out = (struct library){.found = NOWHERE};
	(void)snprintf(out->path, sizeof(out->path), "%s/%s", folder, name);
	while (!(named = take_version(out->path, out->version)) &&
	       links < LINKS_MAX && follow(h, out->path))
		links++;
	if (!tei_host_exists(h, "%s", out->path))
		out->found = links ? LEADS_NOWHERE : NOWHERE;
	else if (!named)
		out->found = NAMELESS;
	else
		out->found =
			strcmp(out->version, driver->version) ? OTHER : SAME;
}

/* The best of all folders: which one a process takes is not known here. */
static void find_library(const struct tei_host *h, const char *name,
			 const struct tei_gpu_driver *driver,
			 struct library *best)
{
	struct library library;
	size_t i;

	*best = (struct library){.found = NOWHERE};
	for (i = 0; i < N_FOLDERS; i++) {
		find_in(h, folders[i], name, driver, &library);
		if (library.found > best->found)
			*best = library;
	}
}

/*
 * A package for forward compatibility brings a newer libcuda alone; an upgrade
 * brings all libraries.
 */
static void check_other(const struct tei_host *h, const struct library *cuda,
			const struct tei_gpu_driver *driver,
			struct tei_report *r)
{
	struct library ml;

	find_library(h, "libnvidia-ml.so.1", driver, &ml);
	if (!*driver->version)
		tei_report_add(r, TEI_MARK_UNKNOWN, &library_rule, "",
			       "/%.96s; the version of the kernel modules is "
			       "not known",
			       cuda->path);
	else
		tei_report_add(
			r, ml.found == SAME ? TEI_MARK_UNKNOWN : TEI_MARK_FAIL,
			&library_rule, "", "/%.96s, kernel modules %s%s",
			cuda->path, driver->version,
			ml.found == SAME ? ": made to be compatible, perhaps"
					 : ": CUDA does not start");
}

static void check_library(const struct tei_host *h,
			  const struct tei_gpu_driver *driver,
			  struct tei_report *r)
{
	struct library cuda;

	find_library(h, "libcuda.so.1", driver, &cuda);
	if (cuda.found == OTHER)
		check_other(h, &cuda, driver, r);
	else if (cuda.found == SAME)
		tei_report_add(r, TEI_MARK_OK, &library_rule, "", "/%.120s",
			       cuda.path);
	else if (cuda.found == NAMELESS)
		tei_report_add(r, TEI_MARK_UNKNOWN, &library_rule, "",
			       "the name of /%.96s does not tell its version",
			       cuda.path);
	else if (cuda.found == LEADS_NOWHERE)
		tei_report_add(r, TEI_MARK_WARN, &library_rule, "",
			       "libcuda.so.1 leads to /%.96s, which is not "
			       "there",
			       cuda.path);
	else if (!tei_host_exists(h, "usr/lib"))
		tei_report_add(r, TEI_MARK_UNKNOWN, &library_rule, "",
			       "there is no /usr/lib to look into");
	else
		tei_report_add(r, TEI_MARK_WARN, &library_rule, "",
			       "no libcuda.so.1 in /%s and %zu other folders",
			       folders[0], N_FOLDERS - 1);
}

/* Files show the daemon only, not the mode that nvidia-smi -pm 1 sets. */
static void check_persistence(const struct tei_host *h, struct tei_report *r)
{
	bool runs = tei_host_exists(h, "run/nvidia-persistenced/socket");

	tei_report_add(r, runs ? TEI_MARK_OK : TEI_MARK_UNKNOWN,
		       &persistence_rule, "",
		       runs ? "it runs"
			    : "no /run/nvidia-persistenced/socket; files do "
			      "not show what nvidia-smi -pm has set");
}

void tei_check_gpu(const struct tei_host *h, struct tei_report *r)
{
	struct walk walk = {.h = h, .r = r};
	struct tei_gpu_driver driver;

	tei_host_each(h, "sys/bus/pci/devices", check_device, &walk);
	if (!check_gpus(h, r))
		return;
	tei_gpu_driver_find(h, &driver);
	check_driver(&driver, r);
	check_peermem(h, &driver, r);
	check_library(h, &driver, r);
	check_persistence(h, r);
}
