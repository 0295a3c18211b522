/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector.h - vector registers that a library leaves half used
 *
 * Code for wide registers has to clear their upper parts before it returns.
 * Else every later use of their lower parts waits for them, in all code that is
 * compiled for processors without them. ISA-L 2.30 does not: a checksum of 4
 * KiB took 42 ns, and made the next 20 ns of copying small structures 140.
 */
#ifndef BASE_VECTOR_H
#define BASE_VECTOR_H

#ifdef __x86_64__
#include <immintrin.h>

__attribute__((target("avx"))) static inline void tei_vector_clear_avx(void)
{
	_mm256_zeroupper();
}
#endif

/* After a call into such a library; about a nanosecond. */
static inline void tei_vector_clear_upper(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx"))
		tei_vector_clear_avx();
#endif
}

#endif
