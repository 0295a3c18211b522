/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - memory of one side: a region at each of its locations */
#include "perf/te-perf/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "perf/lib/pattern.h"
#include "perf/lib/reference.h"
#include "perf/lib/room.h"

#define BOUNCE_LEN (8u << 20) /* whole words */
#define GPU_UNIT   (2u << 20)
#define OPEN_MS    10000

static int allocate_part(struct memory *m, struct memory_part *part,
			 const char *location)
{
	uint64_t len = part->len;
	void *addr = NULL;
	int rc = 0;

	/* A listener learns only now what an initiator wants. */
	if (!part->of_gpu &&
	    !tei_room_fits("te-perf", "a working set takes", len,
			   "give a smaller --working-set"))
		return -ENOMEM;
	if (m->foreign)
		addr = tei_map_touched(len);
	else
		rc = te_memory_alloc_at(m->engine, len, location, &addr);
	part->addr = addr;
	return rc || addr ? rc : -ENOMEM;
}

static int open_part(struct memory *m, uint32_t i, const char *location,
		     uint32_t access)
{
	struct memory_part *part = &m->part[i];
	struct te_region r = {.access = access, .location = location};
	int rc;

	part->of_gpu = location_is_gpu(location);
	part->len = m->side.span + PROBE_ROOM;
	/* Only whole units can be copied between processes by GPUs. */
	if (part->of_gpu)
		part->len = (part->len + GPU_UNIT - 1) / GPU_UNIT * GPU_UNIT;
	rc = allocate_part(m, part, location);
	if (rc)
		return rc;
	r.length = part->len;
	if (!part->of_gpu)
		tei_pattern_fill(part->addr, r.length, 0, 0);
	r.addr = part->addr;
	m->side.at[i] = (uintptr_t)part->addr;
	return te_region_add(m->engine, &r, &part->region);
}

int memory_open(struct memory *m, struct te_engine *engine,
		const struct locations *locations, bool foreign, uint64_t len,
		uint32_t access)
{
	int rc = 0;

	*m = (struct memory){
		.engine = engine,
		.side = {.span = side_span(len, locations->n)},
		.foreign = foreign,
	};
	while (!rc && m->side.n < locations->n) {
		rc = open_part(m, m->side.n, locations->name[m->side.n],
			       access);
		m->side.n++;
	}
	if (rc)
		(void)fprintf(stderr, "te-perf: memory: location %s: %s\n",
			      locations->name[m->side.n - 1], te_strerror(rc));
	return rc;
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

static void close_part(const struct memory *m, struct memory_part *part)
{
	if (!part->addr)
		return;
	if (part->region)
		te_region_remove(m->engine, part->region);
	if (m->foreign)
		munmap(part->addr, part->len);
	else
		te_memory_free(m->engine, part->addr);
}

void memory_close(struct memory *m)
{
	if (m->bounce)
		close_bounce(m);
	for (uint32_t i = 0; i < m->side.n; i++)
		close_part(m, &m->part[i]);
	*m = (struct memory){.engine = NULL};
}

struct memory memory_share(const struct memory *m, uint32_t i, uint32_t n)
{
	struct memory share = {
		.engine = m->engine,
		.side = side_share(&m->side, i, n),
		.foreign = m->foreign,
	};

	memcpy(share.part, m->part, sizeof(share.part));
	return share;
}

void memory_share_close(struct memory *share)
{
	if (share->bounce)
		close_bounce(share);
	*share = (struct memory){.engine = NULL};
}

bool memory_has_gpu(const struct memory *m)
{
	for (uint32_t i = 0; i < m->side.n; i++)
		if (m->part[i].of_gpu)
			return true;
	return false;
}

int batch_run(struct te_batch *batch, const struct te_request *requests,
	      uint32_t n)
{
	struct te_completion done;
	int rc = te_batch_submit(batch, requests, n);

	if (!rc)
		rc = te_batch_wait(batch, UINT32_MAX);
	for (uint32_t i = 0; !rc && i < n; i++) {
		rc = te_batch_result(batch, i, &done);
		if (!rc)
			rc = done.error;
	}
	return rc ? rc : te_batch_reset(batch);
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

/* Moves bytes between a GPU's memory and the bounce memory. -errno. */
static int move_bounce(struct memory *m, uint32_t op, uint64_t position,
		       uint64_t len)
{
	uint64_t at = side_at(&m->side, position);
	struct iovec piece = {(void *)(uintptr_t)at, len};
	const struct te_request r = {
		.op = op,
		.segment = m->self,
		.remote = (uintptr_t)m->bounce,
		.pieces = &piece,
		.n_pieces = 1,
	};

	return batch_run(m->batch, &r, 1);
}

/*
 * Bytes of one part at @position that the processor can access: *@out. Returns
 * how many, up to @len; -errno. Of a GPU's memory it is the bounce memory,
 * whose contents are undefined, and *@of_gpu is true.
 */
static int64_t reach_range(struct memory *m, uint64_t position, uint64_t len,
			   char **out, bool *of_gpu)
{
	uint64_t left = side_left(&m->side, position);
	int rc = 0;

	if (len > left)
		len = left;
	*out = (char *)(uintptr_t)side_at(&m->side, position);
	*of_gpu = m->part[position / m->side.span].of_gpu;
	if (!*of_gpu)
		return (int64_t)len;
	if (len > BOUNCE_LEN)
		len = BOUNCE_LEN;
	rc = open_bounce(m);
	*out = m->bounce;
	return rc ? rc : (int64_t)len;
}

/* Does what reach_range() does; the contents are those of the memory. */
static int64_t view_range(struct memory *m, uint64_t position, uint64_t len,
			  char **out, bool *of_gpu)
{
	int64_t n = reach_range(m, position, len, out, of_gpu);
	int rc = 0;

	if (n > 0 && *of_gpu)
		rc = move_bounce(m, TE_WRITE, position, (uint64_t)n);
	return rc ? rc : n;
}

/* ---- contents ---- */

int memory_fill(struct memory *m, uint64_t len, uint64_t seed)
{
	char *bytes;
	bool of_gpu;
	int64_t n;
	int rc = 0;

	for (uint64_t at = 0; !rc && at < len; at += (uint64_t)n) {
		n = reach_range(m, at, len - at, &bytes, &of_gpu);
		if (n < 0)
			return (int)n;
		tei_pattern_fill(bytes, (uint64_t)n, seed, at);
		if (of_gpu)
			rc = move_bounce(m, TE_READ, at, (uint64_t)n);
	}
	return rc;
}

int memory_spoil(struct memory *m)
{
	char *first;
	bool of_gpu;
	int64_t n = view_range(m, 0, 1, &first, &of_gpu);

	if (n < 0)
		return (int)n;
	*first ^= 1;
	return of_gpu ? move_bounce(m, TE_READ, 0, 1) : 0;
}

int memory_wrong(struct memory *m, uint64_t position, uint64_t len,
		 uint64_t seed, uint64_t origin, uint64_t *wrong)
{
	uint64_t n_done = 0;
	char *bytes;
	bool of_gpu;
	int64_t n;

	for (; n_done < len; n_done += (uint64_t)n) {
		n = view_range(m, position + n_done, len - n_done, &bytes,
			       &of_gpu);
		if (n < 0)
			return (int)n;
		*wrong += tei_pattern_wrong(bytes, (uint64_t)n, seed,
					    origin + n_done);
	}
	return 0;
}

static uint64_t count_differing(const char *a, const char *b, uint64_t len)
{
	uint64_t n = 0;

	if (!memcmp(a, b, len))
		return 0;
	for (uint64_t i = 0; i < len; i++)
		n += a[i] != b[i];
	return n;
}

int memory_differing(struct memory *m, uint64_t position, const char *bytes,
		     uint64_t len, uint64_t *wrong)
{
	bool of_gpu;
	char *ours;
	int64_t n;

	for (; len; position += (uint64_t)n, bytes += n, len -= (uint64_t)n) {
		n = view_range(m, position, len, &ours, &of_gpu);
		if (n < 0)
			return (int)n;
		*wrong += count_differing(bytes, ours, (uint64_t)n);
	}
	return 0;
}
