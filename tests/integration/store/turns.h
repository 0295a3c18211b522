/* SPDX-License-Identifier: Apache-2.0 */
/* turns.h - keys of a pool that is attacked; see attacker.c */
#ifndef TESTS_STORE_TURNS_H
#define TESTS_STORE_TURNS_H

#include <stddef.h>
#include <stdio.h>

#define TURNS_BATCH    4096u
#define TURNS_KEY_LEN  64u
#define TURNS_HEAD_MAX 15000u /* bytes of a URL */

/* Writes key @i; returns its length. So many a's that "a.*a.*a.*[xyz]Q?" takes
 * nearly all the steps that a match may. */
static inline size_t turns_key(char *out, size_t i)
{
	return (size_t)snprintf(out, TURNS_KEY_LEN,
				"aaaaaaaaaaaaaaaaaaaaaaaa/%zu", i);
}

#endif
