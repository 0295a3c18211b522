/* SPDX-License-Identifier: Apache-2.0 */
/* mover.h - move bytes to or from memory of a peer for a while, and time it */
#ifndef CMD_DOCTOR_MOVER_H
#define CMD_DOCTOR_MOVER_H

#include <stdbool.h>
#include <stdint.h>
#include <te/te.h>

/* Where a request to a peer that is silent ends. */
#define TEI_MOVER_TIMEOUT_MS 5000

struct tei_mover {
	struct te_engine *engine; /* not owned */
	te_segment_id segment;
	struct te_batch *batch;
	te_region_id region;
	void *memory;
};

/* What a run came to. */
struct tei_run {
	bool possible;      /* there is memory of the peer's for it */
	int error;          /* of the first request that failed */
	uint64_t bytes, ns; /* moved, and in which time */
};

/* Memory and a batch for one segment. 0, or what getting them failed with. */
int tei_mover_open(struct tei_mover *m, struct te_engine *engine,
		   te_segment_id segment);
void tei_mover_close(struct tei_mover *m);

/*
 * Read from @there (TE_READ) or write to it (TE_WRITE) for @time_ms, once at
 * least; the first batch, which connects, is not timed. Blocks.
 */
void tei_mover_run(struct tei_mover *m, uint32_t op,
		   const struct te_segment_region *there, uint64_t time_ms,
		   struct tei_run *out);
/*
 * Its first bytes, a page at most, in *out until the next call. 0, or why they
 * cannot be read: -errno.
 */
int tei_mover_head(struct tei_mover *m, const struct te_segment_region *there,
		   size_t len, const void **out);

#endif
