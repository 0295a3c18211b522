/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.c - what te-replay's processes have in common, in one memfd
 */
#include "perf/te-replay/share.h"

#include <string.h>
#include <sys/mman.h>

#include "perf/lib/process.h"

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
	void *at;
	int rc = tei_shared_create("te-replay", len, &at, out_fd);

	if (rc)
		return rc;
	*out = at;
	(*out)->len = len;
	(*out)->requests_at = requests_at;
	(*out)->ids_at = ids_at;
	copy_trace(*out, t);
	return 0;
}

int share_open(int fd, struct share **out)
{
	void *at;
	int rc = tei_shared_open(fd, sizeof(**out), &at);

	if (!rc)
		*out = at;
	return rc;
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
