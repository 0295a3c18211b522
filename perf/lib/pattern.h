/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pattern.h - bytes that can be made again from a seed and compared
 *
 * Word i of a pattern depends on seed and i only, so any part of it can be
 * checked alone. Lengths may end inside a word.
 */
#ifndef PERF_LIB_PATTERN_H
#define PERF_LIB_PATTERN_H

#include <stdint.h>

/* Writes the pattern's bytes from @offset on, a whole word, to @to. */
void tei_pattern_fill(void *to, uint64_t len, uint64_t seed, uint64_t offset);
/*
 * Returns how many of @bytes differ from those from @offset on, which may be
 * inside a word; 0 is right.
 */
uint64_t tei_pattern_wrong(const void *bytes, uint64_t len, uint64_t seed,
			   uint64_t offset);

#endif
