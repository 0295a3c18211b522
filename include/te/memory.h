/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - whether memory that a number names can be used; for bindings
 *
 * Callers of a binding name memory by a number, and a wrong one must end as an
 * error, not as a signal. Another thread may still unmap the memory between a
 * question and its use. Threads: any. The functions are part of libte.
 */
#ifndef TE_MEMORY_H
#define TE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include <te/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether every page is mapped, in whatever way. Nothing is touched. */
TE_API bool te_memory_is_mapped(uint64_t addr, uint64_t length);
/*
 * Whether it can be read, or @writable: written. The pages are there afterwards,
 * so ask only about what is used at once. Blocks while the kernel finds them.
 */
TE_API bool te_memory_is_usable(uint64_t addr, uint64_t length, bool writable);
/*
 * What mapped memory may be used for: PROT_READ | PROT_WRITE, or part of that.
 * Tests only both ends if they may be written. Blocks as is_usable() does.
 */
TE_API int te_memory_protection(uint64_t addr, uint64_t length);

#ifdef __cplusplus
}
#endif

#endif
