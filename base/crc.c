/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crc.c - CRC32C by ISA-L, and its combination for neighbouring pieces
 *
 * A CRC without the inversions at both ends is linear: the state after A and
 * then B is the state after A moved on by |B| zero bytes, XOR the state of B
 * started from 0. Moving on by n bytes is a multiplication by x^(8n) modulo
 * the polynomial. So pieces can be summed in any order.
 */
#include "base/crc.h"

#include <isa-l/crc.h>

#define PART (1u << 30) /* ISA-L takes an int */

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

#define POLY 0x82f63b78u /* Castagnoli, bit 31 is x^0 */
#define X_0  0x80000000u
#define X_8  0x00800000u

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
