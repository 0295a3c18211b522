/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - unpack a folder from a text file */
#include "tests/lib/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/test.h"

#define PATH_ROOM 1024

const char *test_data(const char *name)
{
	static char path[PATH_ROOM];

	snprintf(path, sizeof(path), "%s/%s", TEST_DATA_DIR, name);
	return path;
}

static void make_folders(char *path)
{
	char *slash = path;

	while ((slash = strchr(slash + 1, '/'))) {
		*slash = '\0';
		if (mkdir(path, 0777) && errno != EEXIST)
			fail_msg("%s: %s", path, strerror(errno));
		*slash = '/';
	}
}

static void write_bytes(const char *path, const void *bytes, size_t len)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void join(char out[PATH_ROOM], const char *dir, const char *path)
{
	assert_true(snprintf(out, PATH_ROOM, "%s/%s", dir, path) < PATH_ROOM);
	make_folders(out);
}

void test_tree_write(const char *dir, const char *path, const char *text)
{
	char full[PATH_ROOM];

	join(full, dir, path);
	unlink(full);
	write_bytes(full, text, strlen(text));
}

static void write_hex(const char *path, const char *hex)
{
	unsigned char bytes[256];
	unsigned int value;
	size_t n = 0;

	for (; sscanf(hex, "%2x", &value) == 1 && n < sizeof(bytes); hex += 2)
		bytes[n++] = (unsigned char)value;
	write_bytes(path, bytes, n);
}

static void unpack_line(const char *dir, char *line)
{
	char full[PATH_ROOM];
	size_t path = strcspn(line, " ");

	line[strcspn(line, "\n")] = '\0';
	if (*line == '#' || !*line)
		return;
	if (path && line[path - 1] == ':') {
		line[path - 1] = '\0';
		join(full, dir, line);
		/* With the newline that the kernel ends a line with. */
		memcpy(line + path + strlen(line + path), "\n", 2);
		write_bytes(full, line + path + 1, strlen(line + path + 1));
	} else if (!strncmp(line + path, " -> ", 4)) {
		line[path] = '\0';
		join(full, dir, line);
		assert_int_equal(symlink(line + path + 4, full), 0);
	} else {
		assert_memory_equal(line + path, " = ", 3);
		line[path] = '\0';
		join(full, dir, line);
		write_hex(full, line + path + 3);
	}
}

void test_tree_unpack(const char *name, const char *dir)
{
	char line[2 * PATH_ROOM + 2];
	FILE *f = fopen(test_data(name), "r");

	if (!f)
		fail_msg("%s: %s", test_data(name), strerror(errno));
	while (fgets(line, sizeof(line) - 2, f))
		unpack_line(dir, line);
	fclose(f);
}
