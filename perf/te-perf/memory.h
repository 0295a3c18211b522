/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - memory of one side: the host's, or a GPU's
 *
 * No processor may touch a GPU's; what is written to it or compared with it
 * goes by way of memory of the host, by requests of the engine to itself.
 */
#ifndef PERF_TE_PERF_MEMORY_H
#define PERF_TE_PERF_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <te/te.h>

#include "perf/te-perf/options.h"

struct memory {
	struct te_engine *engine; /* not owned */
	char *addr;               /* addr[len]; NULL: it is not open */
	uint64_t len;
	te_region_id region;
	bool foreign, of_gpu;
	/* Way to a GPU's, once it is filled or compared: */
	char *bounce; /* the host's */
	te_region_id bounce_region;
	te_segment_id self;
	struct te_batch *batch;
};

/*
 * Opens memory of the wanted kind at @location, as of te_memory_alloc_at(). The
 * host's is touched. -errno; memory_close() it after a failure, too.
 */
int memory_open(struct memory *m, const struct options *o, const char *location,
		struct te_engine *engine, uint64_t len, uint32_t access);
void memory_close(struct memory *m);
/* Writes the pattern of @seed to the first @len bytes. -errno. */
int memory_fill(struct memory *m, uint64_t len, uint64_t seed);
/* Makes the first byte another one. -errno. */
int memory_spoil(struct memory *m);
/* Adds to *@wrong how many bytes at @offset differ from the pattern. -errno. */
int memory_wrong(struct memory *m, uint64_t offset, uint64_t len, uint64_t seed,
		 uint64_t *wrong);
/* Adds to *@wrong how many bytes at @offset differ from @bytes. -errno. */
int memory_differing(struct memory *m, uint64_t offset, const char *bytes,
		     uint64_t len, uint64_t *wrong);

#endif
