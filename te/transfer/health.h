/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health.h - whose fault it was when a link broke, and what follows
 *
 * Three can be at fault. The *peer*: then its control connection is gone as
 * well, or will be, and nothing is held against our rails. The *pair* of a
 * rail of ours and one of the peer's: the peer lives, as its answer over
 * control shows, but this way to it does not work; the pair is paused. The
 * *device*: several peers that live cannot be reached by it and nothing else
 * went well on it meanwhile; then all of its pairs are paused. A device that
 * says itself that it has no link needs no breaker: see rail_state.c.
 *
 * Since the verdict takes a round trip, a pair whose link broke is held at
 * once, and the verdict lengthens the pause or lets it pass.
 *
 * Threads: the token.
 */
#ifndef TE_TRANSFER_HEALTH_H
#define TE_TRANSFER_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

struct tei_link;
struct tei_pair;
struct tei_peer;
struct tei_rail_box;
struct tei_worker;

/* @link broke, or was not to be had. */
void tei_health_hold(struct tei_link *link);
/* As hold(), but no link came of it at all: a local error. */
void tei_health_refused(struct tei_peer *peer, uint32_t rail, int err);
/* The peer has answered since: the pair is at fault, or the device. */
void tei_health_blame(struct tei_link *link, int err);
/* A slice went well over a pair or a device that is on trial. */
void tei_health_proven(struct tei_link *link);

/* Whether links may be opened; if not, until when, as far as known. */
bool tei_health_lets(struct tei_peer *peer, uint32_t rail, uint64_t *until);

#endif
