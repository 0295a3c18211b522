/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pattern.c - bytes that can be made again from a seed and compared
 *
 * Must be cheap beside the transfer it checks: one multiplication and two
 * shifts a word, which compilers turn into vectors.
 */
#include "perf/lib/pattern.h"

#include <string.h>

#include "base/chance.h"

static inline uint64_t word_at(uint64_t base, uint64_t i)
{
	uint64_t x = base + i * TEI_CHANCE_STEP;

	x ^= x >> 32;
	return x ^ (x << 15);
}

void tei_pattern_fill(void *to, uint64_t len, uint64_t seed, uint64_t offset)
{
	uint64_t base = tei_chance_mix(seed + 1), first = offset / 8,
		 n = len / 8;
	char *at = to;
	uint64_t word;

	for (uint64_t i = 0; i < n; i++) {
		word = word_at(base, first + i);
		memcpy(at + i * 8, &word, 8);
	}
	word = word_at(base, first + n);
	memcpy(at + n * 8, &word, len % 8);
}

static uint64_t wrong_in_word(const char *at, uint64_t word, uint64_t len)
{
	char want[8];
	uint64_t wrong = 0;

	memcpy(want, &word, 8);
	for (uint64_t i = 0; i < len; i++)
		wrong += at[i] != want[i];
	return wrong;
}

static uint64_t count_wrong(const char *at, uint64_t len, uint64_t base,
			    uint64_t first)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < len; i += 8)
		wrong += wrong_in_word(at + i, word_at(base, first + i / 8),
				       len - i < 8 ? len - i : 8);
	return wrong;
}

/* From a whole word on. */
static uint64_t wrong_in_words(const char *at, uint64_t len, uint64_t base,
			       uint64_t first)
{
	uint64_t differ = 0, word, n = len / 8;

	/* The usual case, all equal, without a branch per word. */
	for (uint64_t i = 0; i < n; i++) {
		memcpy(&word, at + i * 8, 8);
		differ |= word ^ word_at(base, first + i);
	}
	if (!differ)
		return wrong_in_word(at + n * 8, word_at(base, first + n),
				     len % 8);
	return count_wrong(at, len, base, first);
}

uint64_t tei_pattern_wrong(const void *bytes, uint64_t len, uint64_t seed,
			   uint64_t offset)
{
	uint64_t base = tei_chance_mix(seed + 1), skip = offset % 8;
	uint64_t word = word_at(base, offset / 8), head = 0, wrong;
	char want[8];

	if (!skip)
		return wrong_in_words(bytes, len, base, offset / 8);
	head = len < 8 - skip ? len : 8 - skip;
	memcpy(want, &word, 8);
	memcpy(&word, want + skip, head);
	wrong = wrong_in_word(bytes, word, head);
	return wrong + wrong_in_words((const char *)bytes + head, len - head,
				      base, offset / 8 + 1);
}
