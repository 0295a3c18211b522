/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.c - memory made here to be shared, memory of others mapped here
 *
 * What comes from outside is mapped only if it cannot shrink: the seals of a
 * memfd are kept by the kernel, so no size that was right becomes wrong. Forked
 * children do not inherit what is another process's.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/shm/shm.h"
#include "base/fault.h"
#include "base/mem.h"
#include <te/te.h>

#define FIXED (F_SEAL_SHRINK | F_SEAL_GROW)

int tei_shm_pages_make(struct shm_pages **out)
{
	void *at;
	int fd, rc;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	fd = memfd_create("te-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	rc = -ENOMEM;
	if (ftruncate(fd, SHM_PAGES_LEN) ||
	    fcntl(fd, F_ADD_SEALS, FIXED | F_SEAL_SEAL))
		goto close_fd;
	at = mmap(NULL, SHM_PAGES_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		  0);
	if (at == MAP_FAILED)
		goto close_fd;
	(void)madvise(at, SHM_PAGES_LEN, MADV_DONTFORK);
	*out = at;
	return fd;

close_fd:
	close(fd);
	return rc;
}

/* Regular, sealed memory of at least @least bytes; *size: of all of it. */
static int check(int fd, uint64_t least, uint64_t *size)
{
	struct stat st;
	int seals;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return -EPROTO;
	seals = fcntl(fd, F_GET_SEALS); /* fails on files of a disk */
	if (seals < 0 || (seals & FIXED) != FIXED)
		return -EPROTO;
	if (st.st_size <= 0 || (uint64_t)st.st_size < least ||
	    (uint64_t)st.st_size > 2 * (uint64_t)TE_LENGTH_MAX)
		return -EPROTO;
	*size = (uint64_t)st.st_size;
	return 0;
}

static int map(int fd, size_t size, int prot, void **out)
{
	void *at;

	if (tei_fault_check(TEI_FAULT_ALLOC))
		return -ENOMEM;
	at = mmap(NULL, size, prot, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return errno == EACCES || errno == EPERM ? -EPROTO : -ENOMEM;
	(void)madvise(at, size, MADV_DONTFORK);
	(void)madvise(at, size, MADV_DONTDUMP);
	*out = at;
	return 0;
}

int tei_shm_pages_map(int fd, struct shm_pages **out)
{
	uint64_t size;
	void *at;
	int rc = check(fd, SHM_PAGES_LEN, &size);

	if (!rc && size != SHM_PAGES_LEN)
		rc = -EPROTO;
	if (!rc)
		rc = map(fd, SHM_PAGES_LEN, PROT_READ | PROT_WRITE, &at);
	if (!rc)
		*out = at;
	return rc;
}

void tei_shm_pages_unmap(struct shm_pages *pages)
{
	munmap(pages, SHM_PAGES_LEN);
}

int tei_shm_arena_map(int fd, const struct shm_key *key, uint8_t **base,
		      size_t *mapped)
{
	int prot = PROT_READ;
	uint64_t size;
	void *at;
	int rc = check(fd, key->length, &size);

	if (key->access & TE_ACCESS_REMOTE_WRITE)
		prot |= PROT_WRITE;
	if (!rc)
		rc = map(fd, size, prot, &at);
	if (rc)
		return rc;
	(void)madvise(at, size, MADV_HUGEPAGE);
	*base = at;
	*mapped = size;
	return 0;
}
