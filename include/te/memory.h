/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - check memory that a caller names by a number; for bindings
 *
 * Callers of a binding pass addresses as numbers, and a wrong number must end
 * as an error, not as a signal. Another thread may still unmap the memory
 * between a check and its use. Threads: any. The functions are part of libte.
 */
#ifndef TE_MEMORY_H
#define TE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include <te/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Returns whether every page of the range is mapped, with any protection.
 * Touches no page. Blocks: never.
 */
TE_API bool te_memory_is_mapped(uint64_t addr, uint64_t length);
/*
 * Returns whether the range can be read or, if @writable, written. Commits
 * every page of the range, so check only memory that is used immediately.
 * Blocks: while the kernel commits the pages.
 */
TE_API bool te_memory_is_usable(uint64_t addr, uint64_t length, bool writable);
/*
 * Returns how all of the range, which is mapped, may be used: PROT_READ |
 * PROT_WRITE, or a part of these. Before Linux 6.11 it tests only both ends of
 * the range if they are writable, and blocks as te_memory_is_usable() does.
 */
TE_API int te_memory_protection(uint64_t addr, uint64_t length);

#ifdef __cplusplus
}
#endif

#endif
