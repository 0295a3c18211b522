/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target.h - the side of te-perf whose memory is written and read
 *
 * A process of its own (this program with --role target), except for backend
 * loop, which cannot leave a process: then the initiator's own engine serves.
 */
#ifndef PERF_TE_PERF_TARGET_H
#define PERF_TE_PERF_TARGET_H

#include <stdint.h>
#include <te/te.h>

#include "perf/lib/process.h"
#include "perf/te-perf/options.h"

struct target {
	struct tei_process process; /* pid 0: we are the target ourselves */
	struct te_engine *engine;   /* the initiator's; not owned */
	uint64_t len;
	void *memory; /* when it is ours */
	te_region_id region;
	te_segment_id segment; /* where to send to */
	uint64_t remote;       /* first address of its memory */
};

/* -errno, said on stderr; nothing is left then. */
int target_open(struct target *t, const struct options *o,
		struct te_engine *engine);
/* CPU time that it has used, 0 when it is this process. */
uint64_t target_cpu_ns(const struct target *t);
/* -EIO: its process did not end well. */
int target_close(struct target *t);

/* What main() does in role "target". An exit code. */
int target_main(const struct options *o);

#endif
