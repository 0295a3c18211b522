/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - memory of one side: a region at each of its locations
 *
 * Locations are the host's or a GPU's. No processor may touch a GPU's memory;
 * what is written to it or compared with it goes by way of memory of the host,
 * by requests of the engine to itself. Ranges are of positions (locations.h).
 */
#ifndef PERF_TE_PERF_MEMORY_H
#define PERF_TE_PERF_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <te/te.h>

#include "perf/te-perf/locations.h"

#define PROBE_ROOM 4096 /* bytes behind each part, for urgent requests */

struct memory_part {
	char *addr;   /* addr[len]; NULL: it is not open */
	uint64_t len; /* from span + PROBE_ROOM on */
	te_region_id region;
	bool of_gpu;
};

struct memory {
	struct te_engine *engine; /* not owned */
	struct side side;
	struct memory_part part[LOCATIONS_MAX]; /* part[side.n] */
	bool foreign;
	/* Way to a GPU's, once it is filled or compared: */
	char *bounce; /* the host's */
	te_region_id bounce_region;
	te_segment_id self;
	struct te_batch *batch;
};

/*
 * Opens @len bytes, spread over @locations, as of te_memory_alloc_at(); with
 * @foreign as of malloc(). The host's is touched. -errno, said on stderr;
 * memory_close() it after a failure, too.
 */
int memory_open(struct memory *m, struct te_engine *engine,
		const struct locations *locations, bool foreign, uint64_t len,
		uint32_t access);
void memory_close(struct memory *m);
/*
 * Share @i of @n of memory, which must outlive it; for the calls below, not for
 * memory_close(). memory_share_close() it. Threads: one per share at a time.
 */
struct memory memory_share(const struct memory *m, uint32_t i, uint32_t n);
void memory_share_close(struct memory *share);
/* Tells whether a part is of a GPU. */
bool memory_has_gpu(const struct memory *m);
/* Writes the pattern of @seed to the first @len bytes. -errno. */
int memory_fill(struct memory *m, uint64_t len, uint64_t seed);
/* Makes the first byte another one. -errno. */
int memory_spoil(struct memory *m);
/*
 * Adds to *@wrong how many bytes from @position on differ from the pattern,
 * as it is from @origin on. -errno.
 */
int memory_wrong(struct memory *m, uint64_t position, uint64_t len,
		 uint64_t seed, uint64_t origin, uint64_t *wrong);
/*
 * Adds to *@wrong how many bytes from @position on differ from @bytes. -errno.
 */
int memory_differing(struct memory *m, uint64_t position, const char *bytes,
		     uint64_t len, uint64_t *wrong);
/*
 * Submits requests, waits for all, and makes the batch ready for others. -errno
 * of the first that failed. Blocks.
 */
int batch_run(struct te_batch *batch, const struct te_request *requests,
	      uint32_t n);

#endif
