/* SPDX-License-Identifier: Apache-2.0 */
/* root.c - bounded reading of files and folders below a root */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/doctor/host.h"

#define LINE_MAX_LEN 32768

static bool join(const struct tei_host *h, char out[PATH_MAX],
		 const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));
static bool join(const struct tei_host *h, char out[PATH_MAX],
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

/* What fits of it, and a 0 behind that. How many bytes; 0: none. */
static size_t read_below(const struct tei_host *h, char *out, size_t room,
			 const char *format, va_list args)
	__attribute__((format(printf, 4, 0)));
static size_t read_below(const struct tei_host *h, char *out, size_t room,
			 const char *format, va_list args)
{
	char path[PATH_MAX];
	size_t len = 0;

	if (join(h, path, format, args))
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
	exists = join(h, path, format, args) && access(path, F_OK) == 0;
	va_end(args);
	return exists;
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

bool tei_host_entry(const struct tei_host *h, const char *folder, size_t n,
		    char out[TEI_HOST_NAME])
{
	char path[PATH_MAX];
	struct dirent **entries;
	bool found = false;
	int i, count;

	(void)snprintf(path, sizeof(path), "%s/%s", h->root, folder);
	count = scandir(path, &entries, is_wanted, versionsort);
	for (i = 0; i < count; i++) {
		if ((size_t)i == n) {
			memcpy(out, entries[i]->d_name,
			       strlen(entries[i]->d_name) + 1);
			found = true;
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return found;
}
