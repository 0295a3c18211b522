/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dir.c - the directory of the sockets: made, checked, swept
 *
 * Ours alone (0700), or open to pass through (0711) when other users are
 * allowed to attach. A directory that somebody else has put there, or that
 * others may write to, is not used.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "backends/shm/shm.h"
#include "base/log.h"

#define SWEEP_MAX 256

static int choose(struct shm_rail *rail)
{
	const char *set = shm_config(rail)->dir, *run;
	int n;

	run = getenv("XDG_RUNTIME_DIR");
	if (set && *set)
		n = snprintf(rail->dir, SHM_DIR_MAX, "%s", set);
	else if (run && *run == '/' && !rail->n_uids)
		n = snprintf(rail->dir, SHM_DIR_MAX, "%s/te", run);
	else
		n = snprintf(rail->dir, SHM_DIR_MAX, "/tmp/te-%u%s",
			     rail->host.uid, rail->n_uids ? "-open" : "");
	if (n < 0 || n >= SHM_DIR_MAX || rail->dir[0] != '/')
		return -ENAMETOOLONG;
	return 0;
}

static int check(const struct shm_rail *rail, int fd, mode_t mode)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_uid != rail->host.uid || (st.st_mode & 07777 & ~mode))
		return -EPERM;
	return 0;
}

int tei_shm_dir_open(struct shm_rail *rail)
{
	mode_t mode = rail->n_uids ? 0711 : 0700;
	int rc = choose(rail), fd = -1;

	if (!rc && mkdir(rail->dir, 0700) && errno != EEXIST)
		rc = -errno;
	if (!rc) {
		fd = open(rail->dir,
			  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		rc = fd < 0 ? -errno : check(rail, fd, mode);
	}
	if (!rc && rail->n_uids && fchmod(fd, mode))
		rc = -errno;
	if (!rc) {
		rail->dir_fd = fd;
		return 0;
	}
	LOG_WARN("rail shm/0: directory %s: %s", rail->dir,
		 rc == -EPERM ? "not ours alone" : strerror(-rc));
	if (fd >= 0)
		close(fd);
	return rc;
}

/* "te-PID-..." whose process is gone and where nobody listens. */
static bool is_left(const struct shm_rail *rail, const char *name)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	char *end;
	long pid;
	int fd, rc;

	if (strncmp(name, "te-", 3))
		return false;
	pid = strtol(name + 3, &end, 10);
	if (pid <= 0 || *end != '-' || !kill((pid_t)pid, 0) || errno == EPERM)
		return false;
	if ((size_t)snprintf(un.sun_path, sizeof(un.sun_path),
			     "/proc/self/fd/%d/%s", rail->dir_fd,
			     name) >= sizeof(un.sun_path))
		return false;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	rc = connect(fd, (const struct sockaddr *)&un, sizeof(un));
	rc = rc ? errno : 0;
	close(fd);
	return rc == ECONNREFUSED;
}

void tei_shm_dir_sweep(const struct shm_rail *rail)
{
	int fd = openat(rail->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int n = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while (n++ < SWEEP_MAX && (entry = readdir(dir))) {
		if (is_left(rail, entry->d_name))
			(void)unlinkat(rail->dir_fd, entry->d_name, 0);
	}
	closedir(dir);
}
