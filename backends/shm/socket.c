/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket.c - the listening socket, connecting, who is at the other end
 *
 * Paths are used from an open directory, which cannot be exchanged meanwhile,
 * by way of /proc/self/fd; so they may also be longer than a socket address.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "backends/shm/shm.h"
#include "base/fault.h"
#include "base/log.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#ifndef RESOLVE_CACHED /* since Linux 5.12 */
#define RESOLVE_CACHED 0x20
#endif

#define BACKLOG 128

static int open_socket(void)
{
	int fd;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return fd < 0 ? -errno : fd;
}

static int address(int dir_fd, const char *name, struct sockaddr_un *un)
{
	int n;

	*un = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(un->sun_path, sizeof(un->sun_path), "/proc/self/fd/%d/%s",
		     dir_fd, name);
	return n < 0 || (size_t)n >= sizeof(un->sun_path) ? -ENAMETOOLONG : 0;
}

/*
 * Under a name that nobody knows first: a socket that refuses connections is
 * taken for one that was left behind.
 */
static int bind_and_listen(struct shm_rail *rail, int fd, const char *young)
{
	struct sockaddr_un un;
	int rc = address(rail->dir_fd, young, &un);

	if (rc)
		return rc;
	if (bind(fd, (const struct sockaddr *)&un, sizeof(un)))
		return -errno;
	if ((rail->n_uids && fchmodat(rail->dir_fd, young, 0666, 0)) ||
	    listen(fd, BACKLOG) ||
	    renameat(rail->dir_fd, young, rail->dir_fd, rail->name)) {
		rc = -errno;
		(void)unlinkat(rail->dir_fd, young, 0);
	}
	return rc;
}

int tei_shm_listen(struct shm_rail *rail)
{
	char young[SHM_NAME_MAX + 4];
	uint64_t random;
	int fd = open_socket(), rc;

	if (fd < 0)
		return fd;
	rc = -EIO;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		goto close_fd;
	snprintf(rail->name, sizeof(rail->name), "te-%u-%016" PRIx64,
		 rail->host.pid, random);
	snprintf(young, sizeof(young), "new-%s", rail->name + 3);
	rc = bind_and_listen(rail, fd, young);
	if (rc)
		goto close_fd;
	rail->listener.fd = fd;
	return 0;

close_fd:
	close(fd);
	return rc;
}

void tei_shm_unlisten(struct shm_rail *rail)
{
	close(rail->listener.fd);
	(void)unlinkat(rail->dir_fd, rail->name, 0);
}

void tei_shm_path(const struct shm_rail *rail, char out[SHM_PATH_MAX])
{
	size_t len = strlen(rail->dir);

	memcpy(out, rail->dir, len);
	out[len] = '/';
	memcpy(out + len + 1, rail->name, strlen(rail->name) + 1);
}

/* ---- connecting ---- */

/*
 * The path comes from outside, and walking it must not take long: no network,
 * no daemon is asked. What its owner has open is in the cache of names.
 */
static int open_at_once(const char *dir)
{
	const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	struct open_how how = {
		.flags = (uint64_t)flags,
		.resolve = RESOLVE_CACHED,
	};
	long fd = syscall(SYS_openat2, AT_FDCWD, dir, &how, sizeof(how));

	if (fd >= 0)
		return (int)fd;
	if (errno != ENOSYS && errno != EINVAL && errno != EPERM)
		return -errno;
	fd = open(dir, flags); /* an older kernel, or a filter of calls */
	return fd < 0 ? -errno : (int)fd;
}

/* Only into a directory of its own user. */
static int open_dir(const struct shm_address *to, const char **name)
{
	char dir[SHM_PATH_MAX], *slash;
	struct stat st;
	int fd;

	memcpy(dir, to->path, sizeof(dir));
	slash = strrchr(dir, '/');
	if (dir[0] != '/' || !slash || strncmp(slash + 1, "te-", 3))
		return -EPROTO;
	*name = to->path + (slash + 1 - dir);
	*slash = 0;
	fd = open_at_once(dir);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) || st.st_uid != to->uid || (st.st_mode & 022)) {
		close(fd);
		return -EACCES;
	}
	return fd;
}

static int check_peer(int fd, const struct shm_address *to)
{
	uint32_t uid = 0, pid = 0;
	int rc = tei_shm_peer(fd, &uid, &pid);

	if (rc)
		return rc;
	return uid == to->uid && pid == to->pid ? 0 : -EACCES;
}

int tei_shm_connect(const struct shm_rail *rail, const struct shm_address *to)
{
	struct sockaddr_un un;
	const char *name;
	int dir_fd, fd, rc;

	if (!tei_shm_uid_is_allowed(rail, to->uid))
		return -EACCES;
	dir_fd = open_dir(to, &name);
	if (dir_fd < 0)
		return dir_fd;
	fd = open_socket();
	rc = fd < 0 ? fd : address(dir_fd, name, &un);
	if (!rc && connect(fd, (const struct sockaddr *)&un, sizeof(un)))
		rc = -errno;
	if (!rc)
		rc = check_peer(fd, to);
	close(dir_fd);
	if (!rc)
		return fd;
	if (fd >= 0)
		close(fd);
	return rc;
}

int tei_shm_peer(int socket, uint32_t *uid, uint32_t *pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	*uid = cred.uid;
	*pid = (uint32_t)cred.pid;
	return cred.pid > 0 ? 0 : -EACCES; /* 0: of another namespace */
}

/*
 * Where the kernel does not give one for the socket, the number might be
 * another process by now: one that has begun at another time.
 */
int tei_shm_peer_process(int socket, uint32_t pid, uint64_t start)
{
	socklen_t len = sizeof(int);
	int fd = -1;

	if (!getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &len))
		return fd;
	if (errno != ENOPROTOOPT)
		return -errno;
	fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	if (fd < 0)
		return -errno;
	if (tei_shm_is_process(pid, start))
		return fd;
	close(fd);
	return -ESRCH;
}
