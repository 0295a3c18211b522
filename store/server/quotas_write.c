/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quotas_write.c - the file of tenants' quotas: writing
 *
 * A new file beside the old one, which takes its place when it is on the disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "store/server/quotas.h"

#define HEAD                                                                \
	"# Written by mooncake_master when a quota was changed; read when " \
	"it starts.\n"

/* With the largest unit that leaves it whole. */
static void print_bytes(FILE *f, uint64_t bytes)
{
	static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
	size_t unit = 0;

	while (bytes % 1024 == 0 &&
	       unit + 1 < sizeof(units) / sizeof(units[0])) {
		bytes /= 1024;
		unit++;
	}
	(void)fprintf(f, "%" PRIu64 "%s", bytes, units[unit]);
}

/* Bytes of the character at @at that YAML does not take as it is, or takes for
 * the end of a line: it is U+@out; 0: it takes it. */
static size_t special(const char *at, unsigned int *out)
{
	static const struct {
		const char bytes[4];
		unsigned int number;
	} others[] = {{"\xe2\x80\xa8", 0x2028},
		      {"\xe2\x80\xa9", 0x2029},
		      {"\xef\xbb\xbf", 0xfeff},
		      {"\xef\xbf\xbe", 0xfffe},
		      {"\xef\xbf\xbf", 0xffff}};
	unsigned char second = (unsigned char)at[1];

	*out = second;
	if (*at == '\xc2' && second < 0xa0)
		return 2;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		*out = others[i].number;
		if (strncmp(at, others[i].bytes, 3) == 0)
			return 3;
	}
	return 0;
}

static void print_name(FILE *f, const char *name)
{
	unsigned int number;
	size_t len;

	(void)fputc('"', f);
	for (; *name; name += len ? len : 1) {
		len = special(name, &number);
		if (len) {
			(void)fprintf(f, "\\u%04X", number);
			continue;
		}
		if (*name == '"' || *name == '\\')
			(void)fputc('\\', f);
		(void)fputc(*name, f);
	}
	(void)fputc('"', f);
}

/* Every error shows in ferror(). */
static void print(FILE *f, const struct tes_quotas *q)
{
	(void)fprintf(f, HEAD "version: 1\ntenants:%s\n", q->n ? "" : " []");
	for (size_t i = 0; i < q->n; i++) {
		(void)fprintf(f, "  - name: ");
		print_name(f, q->at[i].name);
		(void)fprintf(f, "\n    quota: ");
		print_bytes(f, q->at[i].bytes);
		(void)fputc('\n', f);
	}
}

static int fill(int fd, mode_t mode, const struct tes_quotas *q)
{
	FILE *f = fdopen(fd, "wb");
	int rc = 0;

	if (!f) {
		rc = -errno;
		(void)close(fd);
		return rc;
	}
	print(f, q);
	if (ferror(f) || fflush(f) || fchmod(fd, mode) || fsync(fd))
		rc = errno ? -errno : -EIO;
	if (fclose(f) && !rc)
		rc = -errno;
	return rc;
}

/* The folder of @path; negative: errno. */
static int open_folder(const char *path)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) + 1 : 0;
	int fd;

	memcpy(folder, path, len);
	folder[len] = '\0';
	fd = open(len ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int fill_beside(char *beside, const char *path, mode_t mode,
		       const struct tes_quotas *q)
{
	int fd = mkostemp(beside, O_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	rc = fill(fd, mode, q);
	if (!rc && rename(beside, path))
		rc = -errno;
	if (rc)
		(void)unlink(beside);
	return rc;
}

/*
 * Once the file has its name the change is made, whatever becomes of the
 * folder: not every one can be synced.
 */
static int replace(const char *path, mode_t mode, const struct tes_quotas *q)
{
	char beside[PATH_MAX + 16];
	int folder = open_folder(path), rc;

	if (folder < 0)
		return folder;
	(void)snprintf(beside, sizeof(beside), "%s.XXXXXX", path);
	rc = fill_beside(beside, path, mode, q);
	if (!rc && fsync(folder))
		LOG_WARN("master: %s: it may be as before after a crash of "
			 "this host: %s",
			 path, strerror(errno));
	(void)close(folder);
	return rc;
}

int tes_quotas_write(const char *path, const struct tes_quotas *q)
{
	char real[PATH_MAX];
	struct stat st;

	if (!realpath(path, real) || stat(real, &st))
		return -errno;
	return replace(real, st.st_mode & 0777, q);
}
