/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_sum.c - CRC32C taken from the registers of a streaming copy
 *
 * Multiplications without carries move the remainder of a line on past the
 * lines that follow ("folding"). Kernels fold four lines in turn, of one, two
 * or four pages, since these hide each other's latency. The CRC32C instruction
 * sums the 64 bytes that are left. See "Fast CRC Computation for Generic
 * Polynomials Using PCLMULQDQ Instruction" (Intel, 2009).
 */
#include "base/copy_sum.h"

#include <assert.h>
#include <string.h>

#include "base/crc.h"

uint32_t tei_copier_sum(const struct tei_copier *copier, uint32_t crc, void *to,
			void *keep, const void *from, size_t len)
{
	assert(keep);
	if (tei_copier_folds(copier))
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

#define TURN ((size_t)TEI_COPY_TURN)

/*
 * Returns what the lower and the upper half of each 128 bits are multiplied by
 * to move them on by @lines lines, 1, 2 or 4: x^(512 * lines + 32) and
 * x^(512 * lines - 32) modulo the polynomial, reflected, times x.
 */
SUMS static inline __m128i fold_factors(size_t lines)
{
	assert(lines == 1 || lines == 2 || lines == 4);
	if (lines == 1)
		return _mm_set_epi64x(0x9e4addf8, 0x740eef02);
	if (lines == 2)
		return _mm_set_epi64x(0x0d3b6092, 0x6992cea2);
	return _mm_set_epi64x(0xb9e02b86, 0xdcb17aa4);
}

/* Copies less than a line by way of memory that nobody else changes. */
static uint32_t sum_rest(uint32_t crc, char *to, const char *from, size_t len)
{
	char bytes[TEI_COPY_LINE];

	if (!len)
		return crc;
	tei_copy_snapshot(bytes, from, len);
	memcpy(to, bytes, len);
	return tei_crc32c_raw(crc, bytes, len);
}

#define FOLDING     __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))
#define OF(name_)   name_##_avx512
#define VECTOR      __m512i
#define AT_ONCE     TURN
#define LOAD        _mm512_loadu_si512
#define STORE       _mm512_storeu_si512
#define STREAM      _mm512_stream_si512
#define ZERO        _mm512_setzero_si512
#define ANY         "v"
#define XOR         _mm512_xor_si512
#define CLMUL       _mm512_clmulepi64_epi128
#define BROADCAST   _mm512_broadcast_i32x4
#define ZERO_EXTEND _mm512_zextsi128_si512
#include "base/copy_fold.inc"

#define FOLDING     __attribute__((target("avx2,vpclmulqdq,pclmul,sse4.2")))
#define OF(name_)   name_##_avx2
#define VECTOR      __m256i
#define AT_ONCE     (TURN / 2) /* 16 registers hold no more beside sums */
#define LOAD        _mm256_loadu_si256
#define STORE       _mm256_storeu_si256
#define STREAM      _mm256_stream_si256
#define ZERO        _mm256_setzero_si256
#define ANY         "x"
#define XOR         _mm256_xor_si256
#define CLMUL       _mm256_clmulepi64_epi128
#define BROADCAST   _mm256_broadcastsi128_si256
#define ZERO_EXTEND _mm256_zextsi128_si256
#include "base/copy_fold.inc"

bool tei_copier_folds(const struct tei_copier *copier)
{
	return copier->sum && __builtin_cpu_supports("vpclmulqdq") &&
	       __builtin_cpu_supports("pclmul") &&
	       __builtin_cpu_supports("sse4.2");
}

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
bool tei_copier_folds(const struct tei_copier *copier)
{
	return copier->sum != NULL;
}

tei_sum_group_fn *tei_copy_summing(const void *to, const void *from)
{
	(void)to;
	(void)from;
	return NULL;
}
#endif
