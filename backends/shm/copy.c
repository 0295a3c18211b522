/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c - streaming copies with AVX-512, AVX2 and SSE2
 *
 * Each kernel copies whole lines to an aligned target: groups of four pages
 * side by side, a line of each in turn, then what is left line by line. The
 * rest is the same for all: what comes before the first line and after the
 * last goes by memcpy().
 */
#include "backends/shm/copy.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define LINE  ((size_t)64)
#define PAGE  ((size_t)4096)
#define PAGES ((size_t)4)

/* Kernels: @len is in lines, @to at one. */
typedef void kernel_fn(char *to, const char *from, size_t len);

#define AVX512 __attribute__((target("avx512f")))
#define AVX2   __attribute__((target("avx2")))

AVX512 static inline void line_avx512(char *to, const char *from)
{
	_mm512_stream_si512((void *)to, _mm512_loadu_si512(from));
}

AVX2 static inline void line_avx2(char *to, const char *from)
{
	__m256i a = _mm256_loadu_si256((const void *)from);
	__m256i b = _mm256_loadu_si256((const void *)(from + 32));

	_mm256_stream_si256((void *)to, a);
	_mm256_stream_si256((void *)(to + 32), b);
}

static inline void line_sse2(char *to, const char *from)
{
	__m128i a = _mm_loadu_si128((const void *)from);
	__m128i b = _mm_loadu_si128((const void *)(from + 16));
	__m128i c = _mm_loadu_si128((const void *)(from + 32));
	__m128i d = _mm_loadu_si128((const void *)(from + 48));

	_mm_stream_si128((void *)to, a);
	_mm_stream_si128((void *)(to + 16), b);
	_mm_stream_si128((void *)(to + 32), c);
	_mm_stream_si128((void *)(to + 48), d);
}

/* A kernel around one way to copy a line; a function cannot be passed in. */
#define KERNEL(name_, target_, line_)                                          \
	target_ static void name_(char *to, const char *from, size_t len)      \
	{                                                                      \
		for (; len >= PAGES * PAGE; len -= PAGES * PAGE) {             \
			for (size_t i = 0; i < PAGE; i += LINE) {              \
				line_(to + i, from + i);                       \
				line_(to + PAGE + i, from + PAGE + i);         \
				line_(to + 2 * PAGE + i, from + 2 * PAGE + i); \
				line_(to + 3 * PAGE + i, from + 3 * PAGE + i); \
			}                                                      \
			to += PAGES * PAGE;                                    \
			from += PAGES * PAGE;                                  \
		}                                                              \
		for (size_t i = 0; i < len; i += LINE)                         \
			line_(to + i, from + i);                               \
	}

KERNEL(kernel_avx512, AVX512, line_avx512)
KERNEL(kernel_avx2, AVX2, line_avx2)
KERNEL(kernel_sse2, , line_sse2)

static void copy(kernel_fn *kernel, char *to, const char *from, size_t len)
{
	size_t head = -(uintptr_t)to & (LINE - 1), lines;

	if (head > len)
		head = len;
	memcpy(to, from, head);
	lines = (len - head) & ~(LINE - 1);
	kernel(to + head, from + head, lines);
	_mm_sfence();
	memcpy(to + head + lines, from + head + lines, len - head - lines);
}

static void copy_avx512(void *to, const void *from, size_t len)
{
	copy(kernel_avx512, to, from, len);
}

static void copy_avx2(void *to, const void *from, size_t len)
{
	copy(kernel_avx2, to, from, len);
}

static void copy_sse2(void *to, const void *from, size_t len)
{
	copy(kernel_sse2, to, from, len);
}

shm_copy_fn *tei_shm_copy_variant(unsigned int i)
{
	shm_copy_fn *fns[3];
	unsigned int n = 0;

	if (__builtin_cpu_supports("avx512f"))
		fns[n++] = copy_avx512;
	if (__builtin_cpu_supports("avx2"))
		fns[n++] = copy_avx2;
	fns[n++] = copy_sse2;
	return i < n ? fns[i] : NULL;
}
#else
static void copy_plain(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

shm_copy_fn *tei_shm_copy_variant(unsigned int i)
{
	return i ? NULL : copy_plain;
}
#endif

shm_copy_fn *tei_shm_copy_streaming(void)
{
	return tei_shm_copy_variant(0);
}
