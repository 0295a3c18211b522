/* SPDX-License-Identifier: Apache-2.0 */
/*
 * available.c - how much memory this process can still get
 *
 * Formats: proc_meminfo(5), cgroups(7), and "Memory Interface Files" of the
 * kernel's admin-guide/cgroup-v2.
 */
#include "base/available.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_LEN 16384 /* memory.stat has about 2,000 bytes */

/* text[TEXT_LEN]. False: there is no such file. */
static bool read_text(char *text, const char *path)
{
	FILE *f = fopen(path, "re");
	size_t n;

	if (!f)
		return false;
	n = fread(text, 1, TEXT_LEN - 1, f);
	text[n] = '\0';
	fclose(f);
	return n > 0;
}

/* The number behind @key at the begin of a line. */
static bool find_number(const char *text, const char *key, uint64_t *out)
{
	size_t len = strlen(key);
	const char *line = text;

	while (strncmp(line, key, len) != 0) {
		line = strchr(line, '\n');
		if (!line)
			return false;
		line++;
	}
	*out = strtoull(line + len, NULL, 10);
	return true;
}

static uint64_t of_machine(const char *root)
{
	char path[PATH_MAX], text[TEXT_LEN];
	uint64_t kib;

	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	if (!read_text(text, path) || !find_number(text, "MemAvailable:", &kib))
		return UINT64_MAX;
	return kib << 10;
}

/* Cached files give way; memory that is shared does not. */
static uint64_t of_group(const char *dir)
{
	char path[PATH_MAX + 32], text[TEXT_LEN];
	uint64_t max, used, file = 0, shmem = 0;

	snprintf(path, sizeof(path), "%s/memory.max", dir);
	if (!read_text(text, path) || !strncmp(text, "max", 3))
		return UINT64_MAX;
	max = strtoull(text, NULL, 10);
	snprintf(path, sizeof(path), "%s/memory.current", dir);
	if (!read_text(text, path))
		return UINT64_MAX;
	used = strtoull(text, NULL, 10);
	snprintf(path, sizeof(path), "%s/memory.stat", dir);
	if (read_text(text, path)) {
		find_number(text, "file ", &file);
		find_number(text, "shmem ", &shmem);
	}
	if (file > shmem)
		used -= used < file - shmem ? used : file - shmem;
	return used < max ? max - used : 0;
}

/* dir[PATH_MAX] of this process's group. False: it is in none. */
static bool group_dir(const char *root, char *dir)
{
	char path[PATH_MAX], text[TEXT_LEN], *line;
	int n;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	if (!read_text(text, path))
		return false;
	line = strstr(text, "0::/");
	if (!line)
		return false;
	line += strlen("0::");
	line[strcspn(line, "\n")] = '\0';
	n = snprintf(dir, PATH_MAX, "%s/sys/fs/cgroup%s", root, line);
	return n > 0 && n < PATH_MAX;
}

uint64_t tei_memory_available(const char *root)
{
	uint64_t least = of_machine(root), left;
	char dir[PATH_MAX], *end;
	size_t top;

	if (!group_dir(root, dir))
		return least;
	top = strlen(root) + strlen("/sys/fs/cgroup");
	while (strlen(dir) >= top) {
		left = of_group(dir);
		if (left < least)
			least = left;
		end = strrchr(dir, '/');
		*end = '\0';
	}
	return least;
}
