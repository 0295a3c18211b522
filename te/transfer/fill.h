/* SPDX-License-Identifier: Apache-2.0 */
/* fill.h - giving a peer's waiting requests to its links. Token */
#ifndef TE_TRANSFER_FILL_H
#define TE_TRANSFER_FILL_H

#include <stdbool.h>
#include <stdint.h>

struct tei_peer;

/*
 * Make and post what the links have room for, about @quantum bytes at most,
 * and open links that are missed. True: @quantum is used up.
 */
bool tei_fill(struct tei_peer *peer, uint64_t quantum);
/* Those rails, of the bit set @reach, over which requests would go now. */
uint64_t tei_fill_wants(struct tei_peer *peer, uint64_t reach);
/*
 * Open links that are missed though nothing may wait: those that there are owe
 * all of it, and show no life.
 */
void tei_fill_widen(struct tei_peer *peer);

#endif
