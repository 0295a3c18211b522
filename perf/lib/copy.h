/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.h - copies of memory that transfers are measured against
 */
#ifndef PERF_LIB_COPY_H
#define PERF_LIB_COPY_H

#include "base/copy.h"
#include "perf/lib/bare.h"

enum tei_mover {
	TEI_MOVER_MEMCPY,
	TEI_MOVER_KERNEL,  /* one of base/copy.h */
	TEI_MOVER_VM_READ, /* process_vm_readv() of the peer's memory */
	TEI_MOVER_VM_WRITE,
};

/*
 * Copy blocks of shape->size for shape->seconds on @n_threads threads, each
 * over its own part of the span. process_vm_* takes shape->batch blocks a call
 * and needs a peer on this host. @kernel: of TEI_MOVER_KERNEL. *out: GB/s of
 * all together. -errno; -EPERM: the kernel forbids it.
 */
int tei_copy_rate(const struct tei_bare_peer *peer,
		  const struct tei_bare_shape *shape, enum tei_mover mover,
		  const struct tei_copier *kernel, uint32_t n_threads,
		  double *out);

/*
 * Returns the kernel that copies blocks of shape->size fastest, by turns over
 * the peer's memory and span (base/copy_choice.h).
 */
const struct tei_copier *tei_copy_best(const struct tei_bare_peer *peer,
				       const struct tei_bare_shape *shape);

#endif
