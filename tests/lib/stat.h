/* SPDX-License-Identifier: Apache-2.0 */
/* stat.h - an engine's counters, for tests */
#ifndef TESTS_LIB_STAT_H
#define TESTS_LIB_STAT_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <te/te.h>

/*
 * The sum of the counters of that name, with @label or any when NULL, however
 * many there are: each rail has some of its own.
 */
static inline uint64_t test_stat(struct te_engine *engine, const char *name,
				 const char *label)
{
	struct te_stat *stats = NULL;
	size_t i, room, n = 0;
	uint64_t sum = 0;
	int rc;

	do {
		room = n;
		stats = realloc(stats, (room + 1) * sizeof(*stats));
		assert(stats);
		rc = te_engine_stats(engine, stats, &n);
		assert(!rc);
	} while (n > room);
	for (i = 0; i < n; i++) {
		if (!strcmp(stats[i].name, name) &&
		    (!label || !strcmp(stats[i].label, label)))
			sum += stats[i].value;
	}
	free(stats);
	return sum;
}

#endif
