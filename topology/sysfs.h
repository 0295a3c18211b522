/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sysfs.h - reading /sys, or a copy of it, as text that nobody vouches for
 *
 * Every name and number goes through here: files are regular and short, text
 * is printable, links stay inside the root. A file that is missing or strange
 * is "unknown" to the callers, never an error.
 */
#ifndef TOPOLOGY_SYSFS_H
#define TOPOLOGY_SYSFS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "topology/topo.h"

struct tei_sysfs {
	char root[PATH_MAX]; /* without links, without a final slash */
	bool live;           /* it is this machine's */
	struct te_topo *t;
	struct tei_topo_error *e;
	uint32_t flags; /* enum te_topo_flags */
};

#define TEI_SYSFS_TEXT 4096

/*
 * The first line of a file below the root. -ENOENT ..., -EBADMSG: not text or
 * too long; @out is then "".
 */
int tei_sysfs_text(const struct tei_sysfs *s, char *out, size_t room,
		   const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* A decimal or 0x number at the start of a file; @otherwise: there is none. */
int64_t tei_sysfs_number(const struct tei_sysfs *s, int64_t otherwise,
			 const char *format, ...)
	__attribute__((format(printf, 3, 4)));
bool tei_sysfs_exists(const struct tei_sysfs *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/*
 * Where a link leads, as a path below devices/. False: nowhere, outside of
 * the root, or too long.
 */
bool tei_sysfs_device(const struct tei_sysfs *s, char out[TEI_TOPO_PATH_MAX],
		      const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Calls @fn for each entry of a folder whose name tei_topo_is_name(), in
 * natural order, until one returns non-zero; returns that. No folder: 0.
 */
int tei_sysfs_each(struct tei_sysfs *s, const char *folder,
		   int (*fn)(struct tei_sysfs *s, const char *name));

/* The parts of the picture. -ENOMEM and the like; the line is written. */
int tei_sysfs_add_nodes(struct tei_sysfs *s);
int tei_sysfs_add_nics(struct tei_sysfs *s);
int tei_sysfs_add_gpus(struct tei_sysfs *s);

/* Bus id, path, links and NUMA node of a device by its path below devices/. */
bool tei_sysfs_pci(const struct tei_sysfs *s, const char *path,
		   struct tei_topo_pci *pci, int32_t *node);

/* The line for an entry that could not be added. */
int tei_sysfs_full(struct tei_sysfs *s, int rc, const char *what);

#endif
