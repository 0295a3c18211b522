/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefault.h - bring memory in before it is registered
 *
 * A registration pins its pages one after another, and has the kernel find and
 * clear those that are not there yet: most of its time for fresh memory, and one
 * thread's work. Several threads do that beforehand.
 */
#ifndef VERBS_PREFAULT_H
#define VERBS_PREFAULT_H

#include <stdint.h>

/*
 * Its pages are there afterwards, its bytes as they were. Only a hint: what cannot
 * be written, or a kernel before 5.14, is left to the registration. Blocks.
 */
void tei_verbs_prefault(uint64_t addr, uint64_t length);

#endif
