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
 * says itself that it has no link needs no breaker: see te/worker/rail.c.
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
struct tei_peer_work;
struct tei_rail_box;
struct tei_worker;

/*
 * Shows other workers until when the rail is not to be counted on for the peer:
 * it is paused towards it, or its link takes long to come up.
 */
void tei_health_show(struct tei_peer_work *peer, uint32_t rail);
/* Notes whether a link takes too long to come up, and shows that. */
void tei_health_overdue(struct tei_link *link, bool overdue);
/* @link broke, or was not to be had. */
void tei_health_hold(struct tei_link *link);
/* Counts a failure of our own to open an endpoint: there is no link. */
void tei_health_refused(struct tei_peer_work *peer, uint32_t rail, int err);
/* The peer has answered since: the pair is at fault, or the device. */
void tei_health_blame(struct tei_link *link, int err);
/* A slice went well over a pair or a device that is on trial. */
void tei_health_proven(struct tei_link *link);

/* Tells whether links may be opened; if not, until when, as far as known. */
bool tei_health_lets(struct tei_peer_work *peer, uint32_t rail,
		     uint64_t *until);

/* ---- how fast a rail delivers to a peer, as it was seen ---- */

/*
 * The rate is what was done after a first slice, over the time since that one,
 * while something was in flight all along: so the way there and back is no
 * part of it. Some milliseconds of work outweigh what was before. The delay is
 * what a slice takes beyond the time for its bytes, seen on slices that found
 * the rail empty. Both serve to order rails and to keep the end of a transfer
 * short; none of them decides who gets the next slice of a long one, since
 * rails that have room ask for it.
 *
 * Pure: times are arguments, in ns.
 */

/* Zeroed: nothing is known. */
struct tei_meter {
	uint64_t rate;        /* bytes a second, 0: unknown */
	uint64_t peak;        /* the highest that rate ever was */
	uint64_t delay;       /* ns */
	uint64_t since, last; /* the running sample */
	uint64_t bytes;       /* done in it, after `since` */
	uint64_t used_at;     /* when the last slice was done */
	/* A slice that found the rail empty, until its delay is known. */
	uint64_t lone_took, lone_bytes;
	/*
	 * Time of the first posted slice and bytes since, as long as there is
	 * no sample.
	 */
	uint64_t busy_since, busy_bytes;
	bool running; /* the sample is */
	bool guess;   /* the rate is from lone slices: too low, if anything */
};

/* A slice is posted, and nothing was in flight. */
void tei_meter_start(struct tei_meter *m);
/*
 * Notes, before done(), that the slice was posted at @posted and found the rail
 * empty. The delay is an average of what is seen; after a second without use
 * what is seen then replaces it.
 */
void tei_meter_lone(struct tei_meter *m, uint64_t now, uint64_t posted,
		    uint64_t bytes);
/* A slice of @bytes is done; @busy: others are in flight. */
void tei_meter_done(struct tei_meter *m, uint64_t now, uint64_t bytes,
		    bool busy);
/* Ends an instant: nothing more will be done at the same time. */
void tei_meter_settle(struct tei_meter *m);
/* Lowers the rate of a link that makes no progress with bytes in flight. */
void tei_meter_stalled(struct tei_meter *m);
/*
 * Rate to plan with: the measured one, and as time goes by without use more and
 * more @prior, the rate of others (0: unknown).
 */
uint64_t tei_meter_rate(const struct tei_meter *m, uint64_t now,
			uint64_t prior);
/*
 * Delay to plan with: the measured one, and as time goes by without use more
 * and more @prior, the least of others, where that is less. So a rail that one
 * slice saw delayed is not left out of short transfers for good.
 */
uint64_t tei_meter_delay(const struct tei_meter *m, uint64_t now,
			 uint64_t prior);

#endif
