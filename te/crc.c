/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crc.c - CRC32C, and the combination of CRCs of neighbouring pieces
 *
 * A CRC without the inversions at both ends is linear: the state after A and
 * then B is the state after A moved on by |B| zero bytes, XOR the state of B
 * started from 0. Moving on by n bytes is a multiplication by x^(8n) modulo
 * the polynomial. So pieces can be summed in any order.
 */
#include "te/crc.h"

#include <isa-l/crc.h>
#include <te/te.h>

#include "te/backend.h"

#define POLY    0x82f63b78u /* Castagnoli, bit 31 is x^0 */
#define X_0     0x80000000u
#define X_8     0x00800000u
#define PART    (1u << 30) /* ISA-L takes an int */
#define INVERSE 0xffffffffu

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; a; a <<= 1) {
		if (a & X_0)
			product ^= b;
		b = (b >> 1) ^ (b & 1 ? POLY : 0);
	}
	return product;
}

uint32_t tei_crc32c_shift(uint32_t state, uint64_t len)
{
	uint32_t power = X_8; /* x^(8 * 2^i) */

	for (; len && state; len >>= 1) {
		if (len & 1)
			state = multiply(state, power);
		power = multiply(power, power);
	}
	return state;
}

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
	return state;
}

uint32_t te_crc32c(uint32_t crc, const void *bytes, size_t len)
{
	return tei_crc32c_raw(crc ^ INVERSE, bytes, len) ^ INVERSE;
}

/* The inversions of A's end and B's start and end cancel out but for B's. */
uint32_t te_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b)
{
	return tei_crc32c_shift(crc_a, len_b) ^ crc_b;
}
