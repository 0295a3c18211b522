/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unmatched.h - rails that reach none of a peer's, though both have the backend
 *
 * They stay unused, and the rate is what the others carry: it is told once for
 * each rail, counted (te_rail_unmatched_total), and shown by te_engine_rails().
 */
#ifndef TE_TRANSFER_UNMATCHED_H
#define TE_TRANSFER_UNMATCHED_H

struct tei_peer;

/* After tei_pairs_match(). Token. */
void tei_unmatched_look(struct tei_peer *peer);

#endif
