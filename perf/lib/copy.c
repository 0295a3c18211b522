/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c - the two ways to copy memory that transfers are measured against
 *
 * Streaming stores do not read the target's cache lines before they overwrite
 * them, so a cold copy moves two thirds of the bytes that memcpy() moves.
 */
#include "perf/lib/copy.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx512f"))) static void
copy_avx512(char *to, const char *from, size_t len)
{
	for (size_t i = 0; i < len; i += 256) {
		__m512i a = _mm512_loadu_si512(from + i);
		__m512i b = _mm512_loadu_si512(from + i + 64);
		__m512i c = _mm512_loadu_si512(from + i + 128);
		__m512i d = _mm512_loadu_si512(from + i + 192);

		_mm512_stream_si512((void *)(to + i), a);
		_mm512_stream_si512((void *)(to + i + 64), b);
		_mm512_stream_si512((void *)(to + i + 128), c);
		_mm512_stream_si512((void *)(to + i + 192), d);
	}
}

__attribute__((target("avx2"))) static void
copy_avx2(char *to, const char *from, size_t len)
{
	for (size_t i = 0; i < len; i += 64) {
		__m256i a = _mm256_loadu_si256((const void *)(from + i));
		__m256i b = _mm256_loadu_si256((const void *)(from + i + 32));

		_mm256_stream_si256((void *)(to + i), a);
		_mm256_stream_si256((void *)(to + i + 32), b);
	}
}

static void copy_sse2(char *to, const char *from, size_t len)
{
	for (size_t i = 0; i < len; i += 32) {
		__m128i a = _mm_loadu_si128((const void *)(from + i));
		__m128i b = _mm_loadu_si128((const void *)(from + i + 16));

		_mm_stream_si128((void *)(to + i), a);
		_mm_stream_si128((void *)(to + i + 16), b);
	}
}

void tei_copy_streaming(void *to, const void *from, size_t len)
{
	size_t whole = len & ~(size_t)255;

	if (__builtin_cpu_supports("avx512f"))
		copy_avx512(to, from, whole);
	else if (__builtin_cpu_supports("avx2"))
		copy_avx2(to, from, whole);
	else
		copy_sse2(to, from, whole);
	_mm_sfence();
	memcpy((char *)to + whole, (const char *)from + whole, len - whole);
}

const char *tei_copy_streaming_name(void)
{
	if (__builtin_cpu_supports("avx512f"))
		return "avx512";
	return __builtin_cpu_supports("avx2") ? "avx2" : "sse2";
}
#else
void tei_copy_streaming(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

const char *tei_copy_streaming_name(void)
{
	return "memcpy";
}
#endif
