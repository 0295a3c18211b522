/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.h - the two ways to copy memory that transfers are measured against
 */
#ifndef PERF_LIB_COPY_H
#define PERF_LIB_COPY_H

#include <stddef.h>

/*
 * Copy past the caches with the widest streaming stores of this CPU, or as
 * memcpy() where there are none. @to must be aligned to 64 bytes.
 */
void tei_copy_streaming(void *to, const void *from, size_t len);
/* Which one that is: "avx512", "avx2", "sse2", "memcpy". */
const char *tei_copy_streaming_name(void);

#endif
