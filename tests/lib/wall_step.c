/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wall_step.c - a library to be loaded before all others: clocks of which a test
 * moves the wall's
 *
 * The C library's own names, by the system call alone: nothing of it is asked
 * before the page is there, and then it is as without us.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/wall.h"

#define EXPORT __attribute__((visibility("default")))

static _Atomic(struct test_wall_page *) page;

__attribute__((constructor)) static void map_page(void)
{
	const char *path = getenv(TEST_WALL_FILE);
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *at;

	if (fd < 0)
		return;
	at = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		  0);
	(void)close(fd);
	if (at != MAP_FAILED)
		atomic_store(&page, at);
}

EXPORT int clock_gettime(clockid_t id, struct timespec *out)
{
	int rc = (int)syscall(SYS_clock_gettime, id, out);
	struct test_wall_page *p = atomic_load(&page);

	if (rc || !p)
		return rc;
	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) {
		atomic_fetch_add(&p->n_wall, 1);
		out->tv_sec += (time_t)atomic_load(&p->shift_s);
	} else {
		atomic_fetch_add(&p->n_monotonic, 1);
	}
	return 0;
}

EXPORT int gettimeofday(struct timeval *out, void *zone)
{
	struct timespec now;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	out->tv_sec = now.tv_sec;
	out->tv_usec = now.tv_nsec / 1000;
	return 0;
}

EXPORT time_t time(time_t *out)
{
	struct timespec now = {0};

	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}
