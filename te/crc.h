/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crc.h - what the core needs to sum the CRCs of slices
 *
 * tei_crc32c_raw() is in backend.h, the public functions are in te.h.
 */
#ifndef TE_CRC_H
#define TE_CRC_H

#include <stdint.h>

/* The raw state after @len more zero bytes. O(log len). */
uint32_t tei_crc32c_shift(uint32_t state, uint64_t len);

#endif
