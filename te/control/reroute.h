/* SPDX-License-Identifier: Apache-2.0 */
/* reroute.h - control connections that go on by another network */
#ifndef TE_CONTROL_REROUTE_H
#define TE_CONTROL_REROUTE_H

#include <stdbool.h>
#include <stdint.h>

struct te_engine;
struct tei_peer;
struct tei_rail_box;

void tei_reroute_init(struct te_engine *engine);
/* The device of @box has lost its link. Token. */
void tei_reroute_rail_lost(struct tei_rail_box *box);

/* ---- control thread ---- */

/*
 * The connection has ended with @err, or could not be made, and is closed.
 * True: the next is on its way to another address of the peer.
 */
bool tei_reroute(struct tei_peer *peer, int err);
/* ms that a step or an answer may take before another way is tried. */
uint64_t tei_reroute_patience(const struct tei_peer *peer);
/* The peer has answered on this way. */
void tei_reroute_answered(struct tei_peer *peer);

#endif
