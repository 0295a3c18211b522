/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_sum.c - CRC32C taken from the registers of a streaming copy
 *
 * A remainder of some lines is moved on past the lines that follow by
 * multiplications without carries ("folding"), here four lines or pages in
 * turn, which hide each other's latency. What is left of 64 bytes goes by the
 * CRC32C instruction. See "Fast CRC Computation for Generic Polynomials Using
 * PCLMULQDQ Instruction" (Intel, 2009).
 */
#include "base/copy_sum.h"

#include <string.h>

#include "base/crc.h"

uint32_t tei_copier_sum(const struct tei_copier *copier, uint32_t crc, void *to,
			void *keep, const void *from, size_t len)
{
	if (copier->sum && tei_copy_sums())
		return copier->sum(crc, to, from, len);
	copier->keep(to, keep, from, len);
	return tei_crc32c_raw(crc, keep, len);
}

#if defined(__x86_64__)
#include <immintrin.h>

#define LINE  ((size_t)TEI_COPY_LINE)
#define PAGE  ((size_t)TEI_COPY_PAGE)
#define PAGES ((size_t)4)
_Static_assert(PAGES *PAGE == TEI_COPY_GROUP, "as the header says");

/* x^(8 * PAGE - 33) modulo the polynomial of CRC32C; bit 31 is x^0. */
#define PAGE_LATER 0x82f89c77LL

#define SUMS __attribute__((target("sse4.2,pclmul")))

/*
 * Moves a state on by a page of zero bytes. The product without carries of two
 * reflected numbers lacks a factor x; the instruction multiplies by x^32 and
 * reduces.
 */
SUMS static inline uint32_t page_later(uint32_t crc)
{
	__m128i product = _mm_clmulepi64_si128(
		_mm_cvtsi64_si128(crc), _mm_cvtsi64_si128(PAGE_LATER), 0);

	return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

SUMS static inline uint64_t sum_line(uint64_t crc, const char *line)
{
	uint64_t word;

	for (size_t i = 0; i < LINE; i += sizeof(word)) {
		memcpy(&word, line + i, sizeof(word));
		crc = _mm_crc32_u64(crc, word);
	}
	return crc;
}

/* ---- from the registers that are stored ---- */

#define FOLDS                                                              \
	__attribute__((                                                    \
		target("avx512f,vpclmulqdq,pclmul,sse4.2"))) static inline \
		__attribute__((always_inline))

bool tei_copy_sums(void)
{
	return __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("vpclmulqdq") &&
	       __builtin_cpu_supports("sse4.2");
}

/*
 * x^(512 * n + 32) and x^(512 * n - 32) modulo the polynomial, reflected, times
 * x: what the lower and upper half of each 128 bits are multiplied by to move
 * them on by @lines lines, 1, 2 or 4.
 */
FOLDS __m512i factors(size_t lines)
{
	const __m128i pair = lines == 1 ? _mm_set_epi64x(0x9e4addf8, 0x740eef02)
			     : lines == 2
				     ? _mm_set_epi64x(0x0d3b6092, 0x6992cea2)
				     : _mm_set_epi64x(0xb9e02b86, 0xdcb17aa4);

	return _mm512_broadcast_i32x4(pair);
}

/* Moves @sum on by what @by stands for, and takes in @line. */
FOLDS __m512i fold(__m512i sum, __m512i by, __m512i line)
{
	return _mm512_xor_si512(
		line,
		_mm512_xor_si512(_mm512_clmulepi64_epi128(sum, by, 0x00),
				 _mm512_clmulepi64_epi128(sum, by, 0x11)));
}

/* Returns the state after the line @line, begun with 0. */
FOLDS uint32_t reduce(__m512i line)
{
	char bytes[64];

	_mm512_storeu_si512(bytes, line);
	return (uint32_t)sum_line(0, bytes);
}

/* A state is taken in by adding it to the first bytes that follow. */
FOLDS __m512i begin(uint32_t crc, __m512i line)
{
	return _mm512_xor_si512(
		line, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
}

#define TURN ((size_t)4) /* lines */

/* Copies @len bytes of each of @pages pages, a multiple of TURN lines. */
FOLDS uint32_t sum_pages(uint32_t crc, char *to, const char *from, size_t len,
			 size_t pages)
{
	const size_t lines = TURN / pages;
	const __m512i by = factors(lines), by_one = factors(1);
	__m512i v[TURN], sum[TURN] = {_mm512_setzero_si512()};
	size_t i, p, k;

	for (k = 1; k < TURN; k++)
		sum[k] = sum[0];
	for (i = 0; i < len; i += lines * LINE) {
		for (p = 0; p < pages; p++)
			for (k = 0; k < lines; k++)
				v[p * lines + k] = _mm512_loadu_si512(
					from + p * PAGE + i + k * LINE);
		for (k = 0; k < TURN; k++)
			sum[k] = fold(sum[k], by, v[k]);
		if (!i)
			sum[0] = begin(crc, sum[0]);
		for (p = 0; p < pages; p++)
			for (k = 0; k < lines; k++)
				_mm512_stream_si512(
					(void *)(to + p * PAGE + i + k * LINE),
					v[p * lines + k]);
	}
	for (p = 0; p < pages; p++) {
		__m512i all = sum[p * lines];

		for (k = 1; k < lines; k++)
			all = fold(all, by_one, sum[p * lines + k]);
		crc = p ? page_later(crc) ^ reduce(all) : reduce(all);
	}
	return crc;
}

/* Copies @len bytes, whole lines, to @to, which is at one. */
FOLDS uint32_t sum_lines(uint32_t crc, char *to, const char *from, size_t len,
			 size_t pages)
{
	size_t part = pages * PAGE, at = 0;

	if (pages > 1 && !tei_copy_is_down(to, from))
		for (; at + part <= len; at += part)
			crc = sum_pages(crc, to + at, from + at, PAGE, pages);
	part = (len - at) & ~(TURN * LINE - 1);
	if (part)
		crc = sum_pages(crc, to + at, from + at, part, 1);
	for (at += part; at < len; at += LINE) {
		__m512i line = _mm512_loadu_si512(from + at);

		_mm512_stream_si512((void *)(to + at), line);
		crc = reduce(begin(crc, line));
	}
	return crc;
}

/* Copies less than a line by way of memory that nobody else changes. */
static uint32_t sum_rest(uint32_t crc, char *to, const char *from, size_t len)
{
	char bytes[TEI_COPY_LINE];

	if (!len)
		return crc;
	memcpy(bytes, from, len);
	memcpy(to, bytes, len);
	return tei_crc32c_raw(crc, bytes, len);
}

FOLDS uint32_t sum_all(uint32_t crc, char *to, const char *from, size_t len,
		       size_t pages)
{
	size_t head = -(uintptr_t)to & (LINE - 1), lines;

	if (head > len)
		head = len;
	crc = sum_rest(crc, to, from, head);
	lines = (len - head) & ~(LINE - 1);
	crc = sum_lines(crc, to + head, from + head, lines, pages);
	head += lines;
	return sum_rest(crc, to + head, from + head, len - head);
}

#define SUM_OF(pages_)                                                      \
	__attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))         \
	uint32_t tei_copy_sum_avx512_##pages_(uint32_t crc, void *to,       \
					      const void *from, size_t len) \
	{                                                                   \
		return sum_all(crc, to, from, len, pages_);                 \
	}
SUM_OF(1)
SUM_OF(2)
SUM_OF(4)

/* ---- of a source that does not change ---- */

/*
 * Copies and sums a line of each of PAGES pages. Sums come before the first
 * store, since a load waits for a store to the same address in a page. Four of
 * them hide each other's latency.
 */
SUMS static inline void sum_turn(uint64_t *crc, char *to, const char *from)
{
	__m128i v[PAGES][LINE / sizeof(__m128i)];
	const size_t step = sizeof(v[0][0]);

	for (size_t p = 0; p < PAGES; p++)
		for (size_t k = 0; k < LINE / step; k++)
			v[p][k] = _mm_loadu_si128(
				(const void *)(from + p * PAGE + k * step));
	for (size_t p = 0; p < PAGES; p++)
		crc[p] = sum_line(crc[p], from + p * PAGE);
	for (size_t p = 0; p < PAGES; p++)
		for (size_t k = 0; k < LINE / step; k++)
			_mm_stream_si128((void *)(to + p * PAGE + k * step),
					 v[p][k]);
}

/* Begins with the state before the first page; the others begin with 0. */
SUMS static uint32_t sum_group(uint32_t crc, void *to, const void *from)
{
	uint64_t sums[PAGES] = {crc};

	for (size_t i = 0; i < PAGE; i += LINE)
		sum_turn(sums, (char *)to + i, (const char *)from + i);
	crc = (uint32_t)sums[0];
	for (size_t p = 1; p < PAGES; p++)
		crc = page_later(crc) ^ (uint32_t)sums[p];
	return crc;
}

/* Sums go upwards, as not all copies do. */
tei_sum_group_fn *tei_copy_summing(const void *to, const void *from)
{
	return __builtin_cpu_supports("sse4.2") &&
			       __builtin_cpu_supports("pclmul") &&
			       !tei_copy_is_down(to, from)
		       ? sum_group
		       : NULL;
}
#else
bool tei_copy_sums(void)
{
	return false;
}

tei_sum_group_fn *tei_copy_summing(const void *to, const void *from)
{
	(void)to;
	(void)from;
	return NULL;
}
#endif
