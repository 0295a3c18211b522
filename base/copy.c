/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c - streaming copies with AVX-512, AVX2 and SSE2
 *
 * Each streaming kernel copies whole lines to an aligned target: groups of
 * pages side by side, then what is left line by line. The rest is the same for
 * all: what comes before the first line and after the last goes by memcpy().
 */
#include "base/copy.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/copy_sum.h"

static void copy_memcpy(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

static void keep_memcpy(void *to, void *keep, const void *from, size_t len)
{
	tei_copy_snapshot(keep, from, len);
	memcpy(to, keep, len);
}

#define COPIER(name_, suffix_)                              \
	{                                                   \
		name_, copy_##suffix_, keep_##suffix_, NULL \
	}
#define COPIER_SUMS(name_, width_, pages_)                                 \
	{                                                                  \
		name_, copy_##width_##_##pages_, keep_##width_##_##pages_, \
			tei_copy_sum_##pages_##_##width_                   \
	}

#if defined(__x86_64__)
#include <immintrin.h>

#define LINE  ((size_t)TEI_COPY_LINE)
#define PAGE  ((size_t)TEI_COPY_PAGE)
#define PAGES ((size_t)4)
_Static_assert(PAGES *PAGE == TEI_COPY_GROUP, "as the header says");

/* Kernels: @len is in lines, @to at one. Without a keep it is @to again. */
typedef void kernel_fn(char *to, char *keep, const char *from, size_t len);

#define AVX512 __attribute__((target("avx512f")))
#define AVX2   __attribute__((target("avx2")))
#define SSE2   __attribute__((target("sse2")))

/*
 * Kernels copy @pages pages side by side, as many lines of each in turn as make
 * TURN together. All loads of a turn come before its first streaming store:
 * where they alternated, the speed depended by 5 % on where the linker put the
 * loop.
 */
#define TURN ((size_t)TEI_COPY_TURN) /* lines; 16 registers of SSE2 */

#define KERNEL(width_, target_, vector_, load_, stream_, store_)               \
	target_ static inline                                                  \
		__attribute__((always_inline)) void turn_##width_(             \
			char *to, char *keep, const char *from, size_t pages,  \
			size_t lines)                                          \
	{                                                                      \
		const size_t step = sizeof(vector_);                           \
		const size_t n = lines * LINE / step;                          \
		vector_ v[TURN * LINE / sizeof(vector_)];                      \
                                                                               \
		for (size_t p = 0; p < pages; p++)                             \
			for (size_t k = 0; k < n; k++)                         \
				v[p * n + k] =                                 \
					load_((const void *)(from + p * PAGE + \
							     k * step));       \
		for (size_t p = 0; p < pages; p++)                             \
			for (size_t k = 0; k < n; k++)                         \
				stream_((void *)(to + p * PAGE + k * step),    \
					v[p * n + k]);                         \
		for (size_t p = 0; p < pages && keep != to; p++)               \
			for (size_t k = 0; k < n; k++)                         \
				store_((void *)(keep + p * PAGE + k * step),   \
				       v[p * n + k]);                          \
	}                                                                      \
	target_ static inline                                                  \
		__attribute__((always_inline)) void kernel_##width_(           \
			char *to, char *keep, const char *from, size_t len,    \
			size_t pages)                                          \
	{                                                                      \
		bool down = pages > 1 && tei_copy_is_down(to, from);           \
		const size_t lines = TURN / pages;                             \
		size_t at, i;                                                  \
                                                                               \
		for (; len >= pages * PAGE; len -= pages * PAGE) {             \
			for (i = 0; i < PAGE; i += lines * LINE) {             \
				at = down ? PAGE - lines * LINE - i : i;       \
				turn_##width_(to + at, keep + at, from + at,   \
					      pages, lines);                   \
			}                                                      \
			to += pages * PAGE;                                    \
			keep += pages * PAGE;                                  \
			from += pages * PAGE;                                  \
		}                                                              \
		for (i = 0; i + TURN * LINE <= len; i += TURN * LINE)          \
			turn_##width_(to + i, keep + i, from + i, 1, TURN);    \
		for (; i < len; i += LINE)                                     \
			turn_##width_(to + i, keep + i, from + i, 1, 1);       \
	}

KERNEL(avx512, AVX512, __m512i, _mm512_loadu_si512, _mm512_stream_si512,
       _mm512_storeu_si512)
KERNEL(avx2, AVX2, __m256i, _mm256_loadu_si256, _mm256_stream_si256,
       _mm256_storeu_si256)
KERNEL(sse2, SSE2, __m128i, _mm_loadu_si128, _mm_stream_si128, _mm_storeu_si128)

/* Copies the rest that is no whole cache line to both. */
static void copy_rest(char *to, char *keep, const char *from, size_t len)
{
	tei_copy_snapshot(keep, from, len);
	if (keep != to)
		memcpy(to, keep, len);
}

static void copy(kernel_fn *kernel, char *to, char *keep, const char *from,
		 size_t len)
{
	size_t head = -(uintptr_t)to & (LINE - 1), lines;

	if (head > len)
		head = len;
	copy_rest(to, keep, from, head);
	lines = (len - head) & ~(LINE - 1);
	kernel(to + head, keep + head, from + head, lines);
	head += lines;
	copy_rest(to + head, keep + head, from + head, len - head);
}

void tei_copy_fence(void)
{
	_mm_sfence();
}

void tei_copy_evict(const void *from, size_t len)
{
	const char *line = from;

	for (size_t i = 0; i < len; i += LINE)
		_mm_clflush(line + i);
	_mm_mfence();
}

/* ---- the kernels ---- */

/* The two of a copier around a kernel with so many pages side by side. */
#define STREAMS(width_, target_, pages_)                                   \
	target_ static void lines_##width_##_##pages_(                     \
		char *to, char *keep, const char *from, size_t len)        \
	{                                                                  \
		kernel_##width_(to, keep, from, len, pages_);              \
	}                                                                  \
	static void copy_##width_##_##pages_(void *to, const void *from,   \
					     size_t len)                   \
	{                                                                  \
		copy(lines_##width_##_##pages_, to, to, from, len);        \
	}                                                                  \
	static void keep_##width_##_##pages_(void *to, void *keep,         \
					     const void *from, size_t len) \
	{                                                                  \
		copy(lines_##width_##_##pages_, to, keep, from, len);      \
	}
#define STREAMS_OF(width_, target_) \
	STREAMS(width_, target_, 1) \
	STREAMS(width_, target_, 2) \
	STREAMS(width_, target_, 4)

STREAMS_OF(avx512, AVX512)
STREAMS_OF(avx2, AVX2)
STREAMS_OF(sse2, SSE2)

static void copy_movsb(void *to, const void *from, size_t len)
{
	__asm__ volatile("rep movsb"
			 : "+D"(to), "+S"(from), "+c"(len)
			 :
			 : "memory");
}

static void keep_movsb(void *to, void *keep, const void *from, size_t len)
{
	tei_copy_snapshot(keep, from, len);
	copy_movsb(to, keep, len);
}

/* A CPU that can run one of them can run all that come before it. */
static const struct tei_copier copiers[] = {
	COPIER("memcpy", memcpy),           COPIER("movsb", movsb),
	COPIER("sse2-1", sse2_1),           COPIER("sse2-2", sse2_2),
	COPIER("sse2-4", sse2_4),
#define N_SSE2 5u
	COPIER_SUMS("avx2-1", avx2, 1),     COPIER_SUMS("avx2-2", avx2, 2),
	COPIER_SUMS("avx2-4", avx2, 4),
#define N_AVX2 8u
	COPIER_SUMS("avx512-1", avx512, 1), COPIER_SUMS("avx512-2", avx512, 2),
	COPIER_SUMS("avx512-4", avx512, 4),
#define N_AVX512 11u
};
_Static_assert(sizeof(copiers) / sizeof(copiers[0]) == TEI_COPY_KERNELS_MAX &&
		       N_AVX512 == TEI_COPY_KERNELS_MAX,
	       "as the header says");

unsigned int tei_copiers(void)
{
	if (!__builtin_cpu_supports("avx2"))
		return N_SSE2;
	return __builtin_cpu_supports("avx512f") ? N_AVX512 : N_AVX2;
}

#define N_ORDERS 3u /* kernels of one width, the plain order first */

const struct tei_copier *tei_copier_plain(void)
{
	return &copiers[tei_copiers() - N_ORDERS];
}
#else
static const struct tei_copier copiers[] = {COPIER("memcpy", memcpy)};

void tei_copy_fence(void)
{
}

void tei_copy_evict(const void *from, size_t len)
{
	(void)from;
	(void)len;
}

unsigned int tei_copiers(void)
{
	return 1;
}

const struct tei_copier *tei_copier_plain(void)
{
	return &copiers[0];
}
#endif

const struct tei_copier *tei_copier_at(unsigned int i)
{
	return &copiers[i];
}

const struct tei_copier *tei_copier_find(const char *name)
{
	for (unsigned int i = 0; i < tei_copiers(); i++) {
		if (!strcmp(copiers[i].name, name))
			return &copiers[i];
	}
	return NULL;
}
