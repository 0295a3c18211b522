/* SPDX-License-Identifier: Apache-2.0 */
/* sysfs.c - bounded reading of files, links and folders below a root */
#include "topology/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIVE_ROOT "/sys"

/* ---- paths ---- */

static bool join(const struct tei_sysfs *s, const char *below, int len,
		 char out[PATH_MAX])
{
	if (len < 0 || len >= PATH_MAX)
		return false;
	len = snprintf(out, PATH_MAX, "%s/%s", s->root, below);
	return len >= 0 && len < PATH_MAX;
}

bool tei_sysfs_exists(const struct tei_sysfs *s, const char *format, ...)
{
	char below[PATH_MAX], path[PATH_MAX];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(below, sizeof(below), format, args);
	va_end(args);
	return join(s, below, len, path) && access(path, F_OK) == 0;
}

bool tei_sysfs_device(const struct tei_sysfs *s, char out[TEI_TOPO_PATH_MAX],
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
	if (!join(s, below, len, path) || !realpath(path, real))
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

/* Up to @room - 1 bytes of a regular file. */
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

int tei_sysfs_text(const struct tei_sysfs *s, char *out, size_t room,
		   const char *format, ...)
{
	char below[PATH_MAX], path[PATH_MAX];
	va_list args;
	int len;

	out[0] = '\0';
	va_start(args, format);
	len = vsnprintf(below, sizeof(below), format, args);
	va_end(args);
	if (!join(s, below, len, path))
		return -ENAMETOOLONG;
	return text_of(path, out, room);
}

int64_t tei_sysfs_number(const struct tei_sysfs *s, int64_t otherwise,
			 const char *format, ...)
{
	char below[PATH_MAX], path[PATH_MAX], text[64], *end;
	long long value;
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(below, sizeof(below), format, args);
	va_end(args);
	if (!join(s, below, len, path) || text_of(path, text, sizeof(text)))
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

int tei_sysfs_each(struct tei_sysfs *s, const char *folder,
		   int (*fn)(struct tei_sysfs *s, const char *name))
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

/* ---- PCI devices ---- */

static uint32_t lanes(const struct tei_sysfs *s, const char *path,
		      const char *which)
{
	int64_t n =
		tei_sysfs_number(s, 0, "devices/%s/%s_link_width", path, which);

	return n > 0 && n <= 64 ? (uint32_t)n : 0;
}

/* "16.0 GT/s PCIe" */
static uint32_t transfers(const struct tei_sysfs *s, const char *path,
			  const char *which)
{
	char text[64];
	double value = 0;

	if (tei_sysfs_text(s, text, sizeof(text), "devices/%s/%s_link_speed",
			   path, which) ||
	    sscanf(text, "%lf GT/s", &value) != 1)
		return 0;
	return value > 0 && value < 1000 ? (uint32_t)(value * 1000 + 0.5) : 0;
}

/* The narrowest of the links on the way from the host bridge to a device. */
static uint64_t path_bps(const struct tei_sysfs *s, const char *below,
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

bool tei_sysfs_pci(const struct tei_sysfs *s, const char *path,
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
	number = tei_sysfs_number(s, -1, "devices/%s/numa_node", below);
	*node = number < 0 || number >= TEI_TOPO_NODE_NUMBERS ? -1
							      : (int32_t)number;
	pci->width = lanes(s, below, "current");
	pci->max_width = lanes(s, below, "max");
	pci->mtps = transfers(s, below, "current");
	pci->max_mtps = transfers(s, below, "max");
	pci->path_bps = path_bps(s, below, below + (at - path));
	return true;
}

/* ---- all of it ---- */

int tei_sysfs_full(struct tei_sysfs *s, int rc, const char *what)
{
	if (rc == -E2BIG)
		return tei_topo_fail(s->e, -EBADMSG,
				     "%s: more %s than any "
				     "machine has",
				     s->root, what);
	return tei_topo_fail(s->e, rc, "out of memory");
}

static int open_root(struct tei_sysfs *s, const char *root)
{
	if (!realpath(root ? root : LIVE_ROOT, s->root))
		return tei_topo_fail(s->e, -errno, "%s: %s",
				     root ? root : LIVE_ROOT, strerror(errno));
	s->live = strcmp(s->root, LIVE_ROOT) == 0;
	if (!s->live && !tei_sysfs_exists(s, "devices") &&
	    !tei_sysfs_exists(s, "class/net"))
		return tei_topo_fail(
			s->e, -ENOENT,
			"%s: no copy of /sys: it has no \"devices\"", s->root);
	return 0;
}

int tei_topo_from_sysfs(struct te_topo *t, const char *root, uint32_t flags,
			struct tei_topo_error *e)
{
	struct tei_sysfs s = {.t = t, .e = e, .flags = flags};
	int rc = open_root(&s, root);

	if (!rc)
		rc = tei_sysfs_add_nodes(&s);
	if (!rc)
		rc = tei_sysfs_add_nics(&s);
	if (!rc)
		rc = tei_sysfs_add_gpus(&s);
	return rc;
}
