/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.h - a target that also submits requests: to other targets, as it is told
 *
 * The lines of serve.h's protocol that this adds, with their answers:
 *
 *	pair NAME IN OUT SHARES LEN LOCATIONS   pair
 *		the engine NAME lends LEN bytes at LOCATIONS, of which we use
 *		share IN of SHARES with our share OUT
 *	local LEN FOREIGN LOCATIONS             local
 *		memory of our own for all pairs
 *	load READ_SHARE SIZE BATCH THREADS DURATION_MS TIMEOUT_MS RATE PAUSE_NS
 *	     INTERVAL_NS FLAGS SEED             prepared
 *		what each pair does next; its bytes are made new
 *	go                                      going
 *	progress                                progress REQUESTS RUNNING
 *		ended well in all pairs; pairs that are not over
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
 * with the load's error, each kind of error of its requests and how many had it,
 * and the buckets of its histogram that are not empty. LATE_NS is that of a
 * load_result. A check has a line "checked ERROR BYTES WRONG" for each pair. An
 * ERROR is a name: errors.h.
 */
#ifndef PERF_TE_PERF_AGENT_H
#define PERF_TE_PERF_AGENT_H

#include <stdbool.h>
#include <te/te.h>

#include "perf/te-perf/memory.h"
#include "perf/te-perf/options.h"

/* Flags of a load. */
enum agent_flags {
	AGENT_HOT = 1 << 0,
	AGENT_RANDOM = 1 << 1,
	AGENT_UNALIGNED = 1 << 2,
	AGENT_STAMP = 1 << 3,
	AGENT_KEEP_GOING = 1 << 4,
};

struct agent_pair;

struct agent {
	const struct options *options; /* not owned; working_set: the most */
	struct te_engine *engine;      /* not owned */
	struct memory local;
	uint32_t n_pairs, shares;
	struct agent_pair *pair[64]; /* pair[n_pairs] */
};

/*
 * Answers a line on stdout, by "error" and why what cannot be done. False: it is
 * no line of an agent. Blocks: for memory, requests and the end of a load.
 */
bool agent_answer(struct agent *a, const char *line);
/* Ends loads, and closes pairs and memory. All zero is fine. */
void agent_fini(struct agent *a);

#endif
