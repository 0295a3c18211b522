/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - memory and words that a process shares with its parent */
#include "perf/lib/worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int map(int fd, uint64_t len, void **out)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	*out = p;
	return 0;
}

int tei_shared_create(const char *name, uint64_t len, void **out, int *out_fd)
{
	int fd = memfd_create(name, MFD_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	rc = ftruncate(fd, (off_t)len) ? -errno : map(fd, len, out);
	if (rc)
		close(fd);
	else
		*out_fd = fd;
	return rc;
}

int tei_shared_open(int fd, uint64_t least, void **out)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if ((uint64_t)st.st_size < least)
		return -EINVAL;
	return map(fd, (uint64_t)st.st_size, out);
}

bool tei_worker_hear(const char *word)
{
	char line[64];

	return fgets(line, sizeof(line), stdin) &&
	       !strncmp(line, word, strlen(word));
}

void tei_worker_say(const char *word)
{
	puts(word);
	fflush(stdout);
}
