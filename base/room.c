/* SPDX-License-Identifier: Apache-2.0 */
/* room.c - how much memory this process and its children can still take */
#include "base/room.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN_MAX ((uint64_t)1 << 30)

/* Where a kind of control groups keeps what. */
struct groups {
	const char *mount;
	const char *limits[2]; /* each in bytes, or a word: there is none */
	const char *used, *reclaimable;
};

static const struct groups groups_v1 = {
	"/sys/fs/cgroup/memory",
	{"memory.limit_in_bytes", "memory.limit_in_bytes"},
	"memory.usage_in_bytes",
	"total_inactive_file "};
static const struct groups groups_v2 = {"/sys/fs/cgroup",
					{"memory.max", "memory.high"},
					"memory.current",
					"inactive_file "};

/* Holds the least room that any limit has left, while they are read in turn. */
struct look {
	struct tei_room room;
	bool with_margin;
};

/*
 * Reads the number after @name, which begins a line of the file; "": the first.
 * A limit of "max" is none. False: there is no number.
 */
static bool read_number(const char *path, const char *name, uint64_t *out)
{
	FILE *f = fopen(path, "re");
	bool found = false;
	char line[256];

	while (f && !found && fgets(line, sizeof(line), f)) {
		const char *at = line + strlen(name);

		if (strncmp(line, name, strlen(name)) != 0)
			continue;
		at += strspn(at, " \t");
		found = isdigit((unsigned char)*at);
		if (found) /* ULLONG_MAX, where it is too large */
			*out = strtoull(at, NULL, 10);
	}
	if (f)
		fclose(f);
	return found;
}

static bool group_number(const char *folder, const char *file, const char *name,
			 uint64_t *out)
{
	char path[PATH_MAX + 64];

	return snprintf(path, sizeof(path), "%s/%s", folder, file) <
		       (int)sizeof(path) &&
	       read_number(path, name, out);
}

static void take_less(struct look *look, uint64_t left, uint64_t limit,
		      const char *whose)
{
	uint64_t margin = limit / 10 < MARGIN_MAX ? limit / 10 : MARGIN_MAX;

	if (look->with_margin)
		left -= margin < left ? margin : left;
	if (left < look->room.bytes)
		look->room = (struct tei_room){left, whose};
}

/*
 * Lowers the room to what one group leaves; pages of files that nobody reads
 * count as free, since the kernel drops them.
 */
static void look_at_group(const char *folder, const struct groups *g,
			  struct look *look)
{
	uint64_t limit, used, spare = 0;

	if (!group_number(folder, g->used, "", &used))
		return;
	(void)group_number(folder, "memory.stat", g->reclaimable, &spare);
	used -= spare < used ? spare : used;
	for (int i = 0; i < 2; i++) {
		if (group_number(folder, g->limits[i], "", &limit))
			take_less(look, used < limit ? limit - used : 0, limit,
				  "the limit of its control group");
	}
}

/* Looks at the group @name and at all above it: each may have a limit. */
static void look_at_groups(const char *root, const struct groups *g,
			   const char *name, struct look *look)
{
	char folder[PATH_MAX];
	size_t top = strlen(root) + strlen(g->mount);
	char *slash;

	if (snprintf(folder, sizeof(folder), "%s%s%s", root, g->mount, name) >=
	    (int)sizeof(folder))
		return;
	do {
		look_at_group(folder, g, look);
		slash = strrchr(folder, '/');
		if (slash)
			*slash = 0;
	} while (slash && (size_t)(slash - folder) >= top);
}

/*
 * Looks at the group of a line "0::/name", or "4:memory:/name" of the first
 * version.
 */
static void look_at_line(const char *root, char *line, struct look *look)
{
	char *kind = strchr(line, ':'), *name;

	name = kind ? strchr(kind + 1, ':') : NULL;
	if (!name)
		return;
	*name++ = 0;
	name[strcspn(name, "\n")] = 0;
	if (!kind[1])
		look_at_groups(root, &groups_v2, name, look);
	else if (strstr(kind, "memory"))
		look_at_groups(root, &groups_v1, name, look);
}

static struct tei_room look_at_all(const char *root, bool with_margin)
{
	struct look look = {{UINT64_MAX, "nothing that is known"}, with_margin};
	char path[PATH_MAX], line[PATH_MAX];
	uint64_t kib, all = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	(void)read_number(path, "MemTotal:", &all);
	if (read_number(path, "MemAvailable:", &kib) &&
	    kib < UINT64_MAX / 1024 && all < UINT64_MAX / 1024)
		take_less(&look, kib * 1024, all * 1024,
			  "the memory of this host");
	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		look_at_line(root, line, &look);
	if (f)
		fclose(f);
	return look.room;
}

struct tei_room tei_room_left(const char *root)
{
	return look_at_all(root, false);
}

struct tei_room tei_room_spare(const char *root)
{
	return look_at_all(root, true);
}
