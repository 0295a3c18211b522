/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warm.h - endpoints that are opened before the first request
 *
 * Who warms up waits on its own stack; the token opens what requests would use
 * and looks again whenever the peer is run, which is when a link has come up
 * or was closed.
 */
#ifndef TE_TRANSFER_WARM_H
#define TE_TRANSFER_WARM_H

struct tei_peer;

/* The peer is run: see how far those are that wait. Token. */
void tei_warm_look(struct tei_peer *peer);

#endif
