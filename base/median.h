/* SPDX-License-Identifier: Apache-2.0 */
/* median.h - the median of a few samples */
#ifndef BASE_MEDIAN_H
#define BASE_MEDIAN_H

#include <stddef.h>
#include <stdint.h>

#define TEI_MEDIAN_MOST 16u

/*
 * Returns the median of @values[@n], 0 < @n <= TEI_MEDIAN_MOST, which stay as
 * they are; of an even number the upper one. Any thread.
 */
uint32_t tei_median_of(const uint32_t *values, size_t n);

#endif
