/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pattern.h - bytes that can be made again from a seed and compared
 *
 * Word i of a pattern depends on seed and i only, so any part of it can be
 * checked alone. Lengths may end inside a word; offsets are whole words.
 */
#ifndef PERF_LIB_PATTERN_H
#define PERF_LIB_PATTERN_H

#include <stdint.h>

/* Write the pattern's bytes @offset .. @offset + @len - 1 to @to. */
void tei_pattern_fill(void *to, uint64_t len, uint64_t seed, uint64_t offset);
/* Returns how many bytes of @bytes differ from it; 0 is right. */
uint64_t tei_pattern_wrong(const void *bytes, uint64_t len, uint64_t seed,
			   uint64_t offset);

#endif
