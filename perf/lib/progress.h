/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h - a bar on stderr, only when that is a terminal
 */
#ifndef PERF_LIB_PROGRESS_H
#define PERF_LIB_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct tei_progress {
	const char *what; /* not owned */
	bool shown;
	uint64_t start_ns, last_ns;
};

void tei_progress_begin(struct tei_progress *p, const char *what);
/* Draws at most ten times a second. */
void tei_progress_show(struct tei_progress *p, uint64_t done, uint64_t total);
/* Remove the bar. */
void tei_progress_end(struct tei_progress *p);

#endif
