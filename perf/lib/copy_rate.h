/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_rate.h - how fast bytes are copied without us, block by block
 */
#ifndef PERF_LIB_COPY_RATE_H
#define PERF_LIB_COPY_RATE_H

#include "perf/lib/bare.h"

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
