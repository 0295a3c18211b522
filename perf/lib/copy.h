/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.h - the two ways to copy memory that transfers are measured against
 */
#ifndef PERF_LIB_COPY_H
#define PERF_LIB_COPY_H

#include <stddef.h>

#include "perf/lib/bare.h"

/*
 * Copy past the caches with the widest streaming stores of this CPU, or as
 * memcpy() where there are none. @to must be aligned to 64 bytes.
 */
void tei_copy_streaming(void *to, const void *from, size_t len);
/* Name of the stores used: "avx512", "avx2", "sse2", "memcpy". */
const char *tei_copy_streaming_name(void);

enum tei_mover {
	TEI_MOVER_MEMCPY,
	TEI_MOVER_STREAMING, /* copy.h */
	TEI_MOVER_VM_READ,   /* process_vm_readv() of the peer's memory */
	TEI_MOVER_VM_WRITE,
};

/*
 * Copy blocks of shape->size for shape->seconds on @n_threads threads, each
 * over its own part of the span. process_vm_* takes shape->batch blocks a call
 * and needs a peer on this host. *out: GB/s of all together. -errno; -EPERM:
 * the kernel forbids it.
 */
int tei_copy_rate(const struct tei_bare_peer *peer,
		  const struct tei_bare_shape *shape, enum tei_mover mover,
		  uint32_t n_threads, double *out);

#endif
