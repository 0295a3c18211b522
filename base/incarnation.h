/* SPDX-License-Identifier: Apache-2.0 */
/*
 * incarnation.h - the name of one life, which its owner alone can take
 *
 * An engine draws a secret at its start; a hash of that is its incarnation.
 * Others may hear it, show it and compare it; only those who were told the
 * secret can say where it comes from. The master is told by the engine's
 * clients, and makes the incarnation itself, so both use this function.
 * docs/wire.md has the formula.
 *
 * Threads: any.
 */
#ifndef BASE_INCARNATION_H
#define BASE_INCARNATION_H

#include <stdint.h>

#define TEI_LIFE_SECRET_LEN 32
#define TEI_INCARNATION_LEN 16

/* Makes the incarnation of the engine with @secret. -ENOMEM (of OpenSSL). */
int tei_incarnation(const uint8_t secret[TEI_LIFE_SECRET_LEN],
		    uint8_t out[TEI_INCARNATION_LEN]);

#endif
