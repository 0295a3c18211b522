/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sealed.c - memory that two processes share
 *
 * A process that maps another's file gets SIGBUS when that file is truncated,
 * or when no huge page is left. So the file must be a memfd of ordinary pages
 * whose size is sealed. A hole that the other process punches reads as zeros.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fault.h"
#include "store/proto/agent.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static int create(uint64_t length, int seals)
{
	int fd, rc;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	if (length > INT64_MAX)
		return -EINVAL;
	fd = memfd_create("te-dummy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)length) && !fcntl(fd, F_ADD_SEALS, seals))
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

int tes_sealed_create(uint64_t length)
{
	return create(length, SEALS | F_SEAL_SEAL);
}

int tes_sealed_create_open(uint64_t length)
{
	return create(length, SEALS);
}

int tes_sealed_close(int fd)
{
	if (!fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))
		return 0;
	return errno == EINVAL ? -EOPNOTSUPP : -errno;
}

int tes_sealed_check(int fd, uint64_t length)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	/* Only memfds and their like have seals at all. */
	if (seals < 0 || (seals & SEALS) != SEALS)
		return -EINVAL;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < 0 ||
	    (uint64_t)st.st_size != length)
		return -EINVAL;
	if (fstatfs(fd, &fs) || fs.f_type != TMPFS_MAGIC)
		return -EINVAL;
	return 0;
}
