/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.h - the parent's part of a replay: processes, progress, sums
 */
#ifndef PERF_TE_REPLAY_REPLAY_H
#define PERF_TE_REPLAY_REPLAY_H

#include "perf/lib/trace.h"
#include "perf/te-replay/options.h"

/*
 * Replays @t as @o says, and reports. An exit code; errors are said on stderr.
 */
int replay_run(const struct options *o, const struct tei_trace *t,
	       const char *trace_path, double rate);

#endif
