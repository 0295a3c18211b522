/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapped.h - whether memory named by a number is there
 *
 * Python's callers name memory by address and length. A wrong one must end as an
 * error, not as a signal: who is about to touch memory that nobody has
 * registered asks first. Another thread may still unmap it in between.
 */
#ifndef PYTHON_MAPPED_H
#define PYTHON_MAPPED_H

#include <stdbool.h>
#include <stdint.h>

/* Every page is mapped, in whatever way. Nothing is touched. */
bool py_is_mapped(uint64_t addr, uint64_t length);

/*
 * And can be read, or @writable: written. Its pages are there afterwards, so ask
 * only of what is used at once. Blocks: while the kernel finds them.
 */
bool py_is_usable(uint64_t addr, uint64_t length, bool writable);

/*
 * What mapped memory may be used for: PROT_READ | PROT_WRITE, or part of that.
 * Looks at both ends alone if they may be written. Blocks: as above, for them.
 */
int py_protection(uint64_t addr, uint64_t length);

#endif
