/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.c - what te-replay's processes have in common, in one memfd
 */
#include "perf/te-replay/share.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int map(int fd, uint64_t len, struct share **out)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	*out = p;
	return 0;
}

static void copy_trace(struct share *s, const struct tei_trace *t)
{
	char *base = (char *)s;

	s->n_requests = t->n_requests;
	s->n_ids = t->n_ids;
	memcpy(base + s->requests_at, t->requests,
	       t->n_requests * sizeof(*t->requests));
	if (t->n_ids)
		memcpy(base + s->ids_at, t->ids, t->n_ids * sizeof(*t->ids));
	for (uint64_t i = 0; i < t->n_requests; i++)
		if (t->requests[i].n_blocks > s->max_blocks)
			s->max_blocks = t->requests[i].n_blocks;
}

int share_create(const struct tei_trace *t, struct share **out, int *out_fd)
{
	uint64_t requests_at = sizeof(**out);
	uint64_t ids_at = requests_at + t->n_requests * sizeof(*t->requests);
	uint64_t len = ids_at + t->n_ids * sizeof(*t->ids);
	int fd = memfd_create("te-replay", MFD_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	rc = ftruncate(fd, (off_t)len) ? -errno : map(fd, len, out);
	if (rc) {
		close(fd);
		return rc;
	}
	(*out)->len = len;
	(*out)->requests_at = requests_at;
	(*out)->ids_at = ids_at;
	copy_trace(*out, t);
	*out_fd = fd;
	return 0;
}

int share_open(int fd, struct share **out)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if ((uint64_t)st.st_size < sizeof(**out))
		return -EINVAL;
	return map(fd, (uint64_t)st.st_size, out);
}

void share_close(struct share *s)
{
	if (s)
		munmap(s, s->len);
}

const struct tei_trace_request *share_request(const struct share *s,
					      uint64_t index)
{
	const char *base = (const char *)s;

	return (const struct tei_trace_request
			*)(const void *)(base + s->requests_at) +
	       index;
}

const uint64_t *share_ids(const struct share *s,
			  const struct tei_trace_request *r)
{
	const char *base = (const char *)s;

	return (const uint64_t *)(const void *)(base + s->ids_at) + r->first;
}
