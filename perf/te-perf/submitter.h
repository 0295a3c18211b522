/* SPDX-License-Identifier: Apache-2.0 */
/*
 * submitter.h - a target that also submits requests to other targets
 *
 * The lines of serve.h's protocol that this adds, with their answers:
 *
 *	pair NAME IN OUT SHARES LEN LOCATIONS   pair
 *		the engine NAME lends LEN bytes at LOCATIONS; the pair uses
 *		share IN of SHARES of them, and share OUT of local memory
 *	local LEN FOREIGN LOCATIONS             local
 *		opens local memory, for all pairs
 *	load READ_SHARE SIZE BATCH THREADS DURATION_MS TIMEOUT_MS RATE PAUSE_NS
 *	     INTERVAL_NS FLAGS SEED             prepared
 *		says what each pair does next, and makes its bytes new
 *	go                                      going
 *	progress                                progress REQUESTS RUNNING
 *		requests of all pairs that ended well; pairs that run
 *	stop                                    stopping
 *	result                                  moved ..
 *	check PERCENT                           checked ..
 *
 * A result is awaited until all pairs are over. It has for each pair, in the
 * order of the pairs,
 *
 *	moved ERROR REQUESTS ELAPSED_NS GAP_NS LATE_NS BEHIND CARRIER
 *	failed ERROR N
 *	latency SUM MAX
 *	bucket I N
 *	end
 *
 * with the load's error, each kind of error of its requests and how many had
 * it, and the buckets of its histogram that are not empty. LATE_NS is that of a
 * load_result. A check has a line "checked ERROR BYTES WRONG" for each pair. An
 * ERROR is a name: errors.h.
 */
#ifndef PERF_TE_PERF_SUBMITTER_H
#define PERF_TE_PERF_SUBMITTER_H

#include <stdbool.h>
#include <te/te.h>

#include "perf/te-perf/memory.h"
#include "perf/te-perf/options.h"

/* Flags of a load. */
enum submitter_flags {
	SUBMITTER_HOT = 1 << 0,
	SUBMITTER_RANDOM = 1 << 1,
	SUBMITTER_UNALIGNED = 1 << 2,
	SUBMITTER_STAMP = 1 << 3,
	SUBMITTER_KEEP_GOING = 1 << 4,
};

struct submitter_pair;

struct submitter {
	const struct options *options; /* not owned; working_set: the most */
	struct te_engine *engine;      /* not owned */
	struct memory local;
	uint32_t n_pairs, shares;
	struct submitter_pair *pair[64]; /* pair[n_pairs] */
};

/*
 * Answers a line on stdout, by "error" and why if it cannot be served. Returns
 * false if it is no line of a submitter. Blocks: for memory, requests and the
 * end of a load.
 */
bool submitter_answer(struct submitter *s, const char *line);
/* Ends loads, and closes pairs and memory. @s may be all zero. */
void submitter_fini(struct submitter *s);

#endif
