/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoch_key.c - the file of the epoch secret: reading, and making it once
 *
 * A new secret is written beside its place and linked there, which fails where
 * another master was faster: then that one's is read.
 */
#include "store/server/epoch_key.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "store/server/random.h"

#define NAME "epoch.key"

/* ---- where it is ---- */

/* Appends @name to the directory @dir. -ENAMETOOLONG. */
static int join_path(const char *dir, size_t dir_len, const char *name,
		     char out[PATH_MAX])
{
	int n = snprintf(out, PATH_MAX, "%.*s/%s", (int)dir_len, dir, name);

	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* Value of a variable that holds an absolute path, or NULL. */
static const char *directory_in(const char *variable)
{
	const char *value = getenv(variable);

	return value && value[0] == '/' ? value : NULL;
}

/* -ENOENT: this user has no state directory. */
static int default_path(char out[PATH_MAX])
{
	const char *dir = directory_in("STATE_DIRECTORY");

	if (dir) /* of systemd, which may name several */
		return join_path(dir, strcspn(dir, ":"), NAME, out);
	dir = directory_in("XDG_STATE_HOME");
	if (dir)
		return join_path(dir, strlen(dir), "te/" NAME, out);
	dir = directory_in("HOME");
	if (dir)
		return join_path(dir, strlen(dir), ".local/state/te/" NAME,
				 out);
	if (geteuid() == 0)
		return join_path("/var/lib/te", strlen("/var/lib/te"), NAME,
				 out);
	return -ENOENT;
}

/* Makes the directories that @path lies in, for this user only. */
static int make_directories(const char *path)
{
	char dir[PATH_MAX];

	(void)snprintf(dir, sizeof(dir), "%s", path);
	for (char *slash = strchr(dir + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(dir, 0700) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return 0;
}

/* ---- reading ---- */

static int read_all(int fd, uint8_t *to, size_t len)
{
	while (len) {
		ssize_t n = read(fd, to, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EBADMSG;
		to += n;
		len -= (size_t)n;
	}
	return 0;
}

/* -EPERM: somebody else may have written or read it; -EBADMSG: no secret. */
static int check_file(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size != TES_STORE_EPOCH_KEY_LEN)
		return -EBADMSG;
	return st.st_uid != geteuid() || st.st_mode & 077 ? -EPERM : 0;
}

static int read_key(const char *path, uint8_t key[TES_STORE_EPOCH_KEY_LEN])
{
	/* Whatever lies there, a pipe for instance, it must not hold us up. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int rc;

	if (fd < 0)
		return -errno;
	rc = check_file(fd);
	if (!rc)
		rc = read_all(fd, key, TES_STORE_EPOCH_KEY_LEN);
	(void)close(fd);
	return rc;
}

/* ---- making ---- */

static int write_key(int fd, const uint8_t key[TES_STORE_EPOCH_KEY_LEN])
{
	ssize_t n = write(fd, key, TES_STORE_EPOCH_KEY_LEN);

	if (n != TES_STORE_EPOCH_KEY_LEN)
		return n < 0 ? -errno : -ENOSPC;
	return fsync(fd) ? -errno : 0;
}

/* Makes the file, unless it is there by then. */
static int make_file(const char *path)
{
	uint8_t key[TES_STORE_EPOCH_KEY_LEN];
	char beside[PATH_MAX];
	int rc = tes_server_random(key, sizeof(key)), fd;

	if (rc)
		return rc;
	if (snprintf(beside, sizeof(beside), "%s.XXXXXX", path) >=
	    (int)sizeof(beside))
		return -ENAMETOOLONG;
	fd = mkostemp(beside, O_CLOEXEC); /* 0600 */
	if (fd < 0)
		return -errno;
	rc = write_key(fd, key);
	(void)close(fd);
	if (!rc && link(beside, path) && errno != EEXIST)
		rc = -errno;
	(void)unlink(beside);
	return rc;
}

static int read_or_make(const char *path, uint8_t key[TES_STORE_EPOCH_KEY_LEN])
{
	int rc = read_key(path, key);

	if (rc != -ENOENT)
		return rc;
	rc = make_directories(path);
	if (!rc)
		rc = make_file(path);
	return rc ? rc : read_key(path, key);
}

/* ---- failing ---- */

static const char *reason(int rc)
{
	switch (rc) {
	case -EPERM:
		return "it is not this user's alone: it must belong to him and "
		       "have mode 0600";
	case -EBADMSG:
		return "it is no file of 32 bytes: remove it, and one is made";
	case -ELOOP:
		return "it is a symbolic link: name the file itself";
	default:
		return strerror(-rc);
	}
}

static void warn_of_path(const char *path, int rc)
{
	LOG_WARN("master: epoch key %s: %s; a restarted master will not know "
		 "this one's epochs for its own. Mend the file or name another "
		 "one (--epoch_key_file)",
		 path, reason(rc));
}

int tes_epoch_key_load(const char *path, uint8_t key[TES_STORE_EPOCH_KEY_LEN])
{
	char place[PATH_MAX] = "(no HOME or XDG_STATE_HOME)";
	int rc;

	if (*path)
		rc = snprintf(place, sizeof(place), "%s", path) >=
				     (int)sizeof(place)
			     ? -ENAMETOOLONG
			     : 0;
	else
		rc = default_path(place);
	if (!rc)
		rc = read_or_make(place, key);
	if (!rc)
		return 0;
	warn_of_path(place, rc);
	return tes_server_random(key, TES_STORE_EPOCH_KEY_LEN);
}
