/* SPDX-License-Identifier: Apache-2.0 */
/* median.c - the median of a few samples */
#include "base/median.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

uint32_t tei_median_of(const uint32_t *values, size_t n)
{
	uint32_t sorted[TEI_MEDIAN_MOST];

	assert(n > 0 && n <= TEI_MEDIAN_MOST);
	memcpy(sorted, values, n * sizeof(sorted[0]));
	qsort(sorted, n, sizeof(sorted[0]), compare);
	return sorted[n / 2];
}
