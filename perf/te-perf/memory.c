/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - memory of one side: the host's, or a GPU's */
#include "perf/te-perf/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "perf/lib/pattern.h"
#include "perf/lib/reference.h"
#include "perf/lib/room.h"

#define BOUNCE_LEN (8u << 20) /* whole words */
#define OPEN_MS    10000

static int allocate(struct memory *m, const char *location)
{
	void *addr = NULL;
	int rc = 0;

	if (m->foreign)
		addr = tei_map_touched(m->len);
	else
		rc = te_memory_alloc_at(m->engine, m->len, location, &addr);
	m->addr = addr;
	return rc || addr ? rc : -ENOMEM;
}

int memory_open(struct memory *m, const struct options *o, const char *location,
		struct te_engine *engine, uint64_t len, uint32_t access)
{
	struct te_region r = {
		.length = len, .access = access, .location = location};
	int rc;

	*m = (struct memory){
		.engine = engine,
		.len = len,
		.foreign = o->foreign,
		.of_gpu = options_name_gpu(location),
	};
	/* A listener learns only now what an initiator wants. */
	if (!m->of_gpu && !tei_room_fits("te-perf", "a working set takes", len,
					 "give a smaller --working-set"))
		return -ENOMEM;
	rc = allocate(m, location);
	if (rc)
		return rc;
	if (!m->of_gpu)
		tei_pattern_fill(m->addr, len, 0, 0);
	r.addr = m->addr;
	return te_region_add(engine, &r, &m->region);
}

static void close_bounce(struct memory *m)
{
	te_batch_destroy(m->batch);
	if (m->self)
		te_segment_close(m->engine, m->self);
	if (m->bounce_region)
		te_region_remove(m->engine, m->bounce_region);
	te_memory_free(m->engine, m->bounce);
}

void memory_close(struct memory *m)
{
	if (!m->addr)
		return;
	if (m->bounce)
		close_bounce(m);
	if (m->region)
		te_region_remove(m->engine, m->region);
	if (m->foreign)
		munmap(m->addr, m->len);
	else
		te_memory_free(m->engine, m->addr);
	*m = (struct memory){.addr = NULL};
}

/* ---- a GPU's, by way of the host's ---- */

static int open_bounce(struct memory *m)
{
	struct te_region r = {.length = BOUNCE_LEN,
			      .access = TE_ACCESS_REMOTE_READ |
					TE_ACCESS_REMOTE_WRITE};
	void *bounce;
	int rc;

	if (m->batch)
		return 0;
	rc = te_memory_alloc(m->engine, BOUNCE_LEN, &bounce);
	if (rc)
		return rc;
	m->bounce = r.addr = bounce;
	rc = te_region_add(m->engine, &r, &m->bounce_region);
	if (!rc)
		rc = te_segment_open(m->engine, te_engine_name(m->engine),
				     OPEN_MS, &m->self);
	if (!rc)
		rc = te_batch_create(m->engine, 1, &m->batch);
	return rc;
}

/* Moves bytes between the GPU's memory and the bounce memory. -errno. */
static int move(struct memory *m, uint32_t op, uint64_t offset, uint64_t len)
{
	struct iovec piece = {m->addr + offset, len};
	const struct te_request r = {
		.op = op,
		.segment = m->self,
		.remote = (uintptr_t)m->bounce,
		.pieces = &piece,
		.n_pieces = 1,
	};
	struct te_completion done;
	int rc = te_batch_submit(m->batch, &r, 1);

	if (!rc)
		rc = te_batch_wait(m->batch, UINT32_MAX);
	if (!rc)
		rc = te_batch_result(m->batch, 0, &done);
	if (!rc)
		rc = te_batch_reset(m->batch);
	return rc ? rc : done.error;
}

/*
 * Makes the first bytes at @offset visible to the processor. Returns how many,
 * up to @len, *@out: where, until the next call; -errno.
 */
static int64_t view(struct memory *m, uint64_t offset, uint64_t len,
		    const char **out)
{
	int rc;

	if (!m->of_gpu) {
		*out = m->addr + offset;
		return (int64_t)len;
	}
	if (len > BOUNCE_LEN)
		len = BOUNCE_LEN;
	rc = open_bounce(m);
	if (!rc)
		rc = move(m, TE_WRITE, offset, len);
	*out = m->bounce;
	return rc ? rc : (int64_t)len;
}

/* ---- contents ---- */

int memory_fill(struct memory *m, uint64_t len, uint64_t seed)
{
	uint64_t at, n;
	int rc;

	if (!m->of_gpu) {
		tei_pattern_fill(m->addr, len, seed, 0);
		return 0;
	}
	rc = open_bounce(m);
	for (at = 0; !rc && at < len; at += n) {
		n = len - at < BOUNCE_LEN ? len - at : BOUNCE_LEN;
		tei_pattern_fill(m->bounce, n, seed, at);
		rc = move(m, TE_READ, at, n);
	}
	return rc;
}

int memory_spoil(struct memory *m)
{
	char *first = m->addr;
	int rc = 0;

	if (m->of_gpu) {
		rc = open_bounce(m);
		if (!rc)
			rc = move(m, TE_WRITE, 0, 1);
		if (rc)
			return rc;
		first = m->bounce;
	}
	*first ^= 1;
	return m->of_gpu ? move(m, TE_READ, 0, 1) : 0;
}

int memory_wrong(struct memory *m, uint64_t offset, uint64_t len, uint64_t seed,
		 uint64_t *wrong)
{
	const char *bytes;
	int64_t n;

	for (; len; offset += (uint64_t)n, len -= (uint64_t)n) {
		n = view(m, offset, len, &bytes);
		if (n < 0)
			return (int)n;
		*wrong += tei_pattern_wrong(bytes, (uint64_t)n, seed, offset);
	}
	return 0;
}

static uint64_t differing(const char *a, const char *b, uint64_t len)
{
	uint64_t n = 0;

	if (!memcmp(a, b, len))
		return 0;
	for (uint64_t i = 0; i < len; i++)
		n += a[i] != b[i];
	return n;
}

int memory_differing(struct memory *m, uint64_t offset, const char *bytes,
		     uint64_t len, uint64_t *wrong)
{
	const char *ours;
	int64_t n;

	for (; len; offset += (uint64_t)n, bytes += n, len -= (uint64_t)n) {
		n = view(m, offset, len, &ours);
		if (n < 0)
			return (int)n;
		*wrong += differing(bytes, ours, (uint64_t)n);
	}
	return 0;
}
