/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crc.c - CRC32C of bytes
 */
#include <isa-l/crc.h>
#include <te/te.h>

#include "base/crc.h"
#include "te/backend.h"

#define PART    (1u << 30) /* ISA-L takes an int */
#define INVERSE 0xffffffffu

uint32_t tei_crc32c_raw(uint32_t state, const void *bytes, size_t len)
{
	/* The library's prototype lacks const; it only reads. */
	unsigned char *at = (unsigned char *)(uintptr_t)bytes;

	while (len) {
		size_t part = len < PART ? len : PART;

		state = crc32_iscsi(at, (int)part, state);
		at += part;
		len -= part;
	}
	tei_vector_clear_upper();
	return state;
}

uint32_t te_crc32c(uint32_t crc, const void *bytes, size_t len)
{
	return tei_crc32c_raw(crc ^ INVERSE, bytes, len) ^ INVERSE;
}

uint32_t te_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b)
{
	return tei_crc32c_join(crc_a, crc_b, len_b);
}
