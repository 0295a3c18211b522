/* SPDX-License-Identifier: Apache-2.0 */
/* room.c - whether what is to be prepared fits into the memory that is left */
#include "perf/lib/room.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/lib/report.h"

/* Where a kind of control groups keeps what. */
struct groups {
	const char *mount, *limit, *used, *reclaimable;
};

static const struct groups groups_v1 = {
	"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
	"memory.usage_in_bytes", "total_inactive_file "};
static const struct groups groups_v2 = {"/sys/fs/cgroup", "memory.max",
					"memory.current", "inactive_file "};

/*
 * The number after @name, which begins a line of the file; "": the first. A
 * limit of "max" is none. False: there is no number.
 */
static bool read_number(const char *path, const char *name, uint64_t *out)
{
	FILE *f = fopen(path, "re");
	char line[256], *end;
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		const char *at = line + strlen(name);

		if (strncmp(line, name, strlen(name)) != 0)
			continue;
		*out = strtoull(at, &end, 10);
		found = end != at;
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

static void take_less(struct tei_room *room, uint64_t bytes, const char *whose)
{
	if (bytes < room->bytes)
		*room = (struct tei_room){bytes, whose};
}

/* Lowers *room to what one group leaves; pages of files that nobody reads count
 * as free, since the kernel drops them. */
static void look_at_group(const char *folder, const struct groups *g,
			  struct tei_room *room)
{
	uint64_t limit, used, spare = 0;

	if (!group_number(folder, g->limit, "", &limit) ||
	    !group_number(folder, g->used, "", &used))
		return;
	(void)group_number(folder, "memory.stat", g->reclaimable, &spare);
	used -= spare < used ? spare : used;
	take_less(room, used < limit ? limit - used : 0,
		  "the limit of its control group");
}

/* Looks at the group @name and at all above it: each may have a limit. */
static void look_at_groups(const char *root, const struct groups *g,
			   const char *name, struct tei_room *room)
{
	char folder[PATH_MAX];
	size_t top = strlen(root) + strlen(g->mount);
	char *slash;

	if (snprintf(folder, sizeof(folder), "%s%s%s", root, g->mount, name) >=
	    (int)sizeof(folder))
		return;
	do {
		look_at_group(folder, g, room);
		slash = strrchr(folder, '/');
		if (slash)
			*slash = 0;
	} while (slash && (size_t)(slash - folder) >= top);
}

/* Looks at the group of a line "0::/name", or "4:memory:/name" of the first
 * version. */
static void look_at_line(const char *root, char *line, struct tei_room *room)
{
	char *kind = strchr(line, ':'), *name;

	name = kind ? strchr(kind + 1, ':') : NULL;
	if (!name)
		return;
	*name++ = 0;
	name[strcspn(name, "\n")] = 0;
	if (!kind[1])
		look_at_groups(root, &groups_v2, name, room);
	else if (strstr(kind, "memory"))
		look_at_groups(root, &groups_v1, name, room);
}

struct tei_room tei_room_left(const char *root)
{
	struct tei_room room = {UINT64_MAX, "nothing that is known"};
	char path[PATH_MAX], line[PATH_MAX];
	uint64_t kib;
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	if (read_number(path, "MemAvailable:", &kib))
		take_less(&room, kib * 1024, "the memory of this host");
	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		look_at_line(root, line, &room);
	if (f)
		fclose(f);
	return room;
}

bool tei_room_fits(const char *program, const char *what, uint64_t bytes,
		   const char *advice)
{
	struct tei_room room = tei_room_left("");
	char need[24], left[24];

	if (bytes <= room.bytes)
		return true;
	fprintf(stderr, "%s: %s: about %s of memory, but %s leaves %s: %s\n",
		program, what, tei_text_bytes(bytes, need), room.whose,
		tei_text_bytes(room.bytes, left), advice);
	return false;
}
