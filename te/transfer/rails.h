/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rails.h - which of our rails goes with which of a peer's, and which of them,
 * and which worker, a request may use
 *
 * Rails of the same backend can be paired when the backend says that one
 * reaches the other. Each rail of ours gets one of the peer's: the best ranks
 * first, no rail of the peer a second time before each has been taken once,
 * and of equals those with the same place in both lists.
 *
 * Threads: the token, unless said otherwise.
 */
#ifndef TE_TRANSFER_RAILS_H
#define TE_TRANSFER_RAILS_H

#include <stdbool.h>
#include <stdint.h>

struct te_engine;
struct tei_peer_work;
struct tei_rail_box;
struct tei_remote;
struct tei_remote_region;
struct tei_request;

/*
 * Set usable, remote_pos and remote_rail of peer->pairs. True: news. Token.
 */
bool tei_pairs_match(struct tei_peer_work *peer);
/*
 * Says anew which workers serve the peer best: a rail of ours is down, or gone.
 * Token.
 */
void tei_pairs_favor(struct tei_peer_work *peer);
/*
 * Tells whether rail @mine, which reaches none of the peer's, may come to: it
 * has no link, or the peer holds a rail of its backend back, as one that has
 * never had a link. Token.
 */
bool tei_pairs_may_come(const struct tei_peer_work *peer, uint32_t mine);
/*
 * A bit for each rail of ours by which @region of @remote is reached; *@across:
 * for those of them that move only between memory of GPUs. Token.
 */
uint64_t tei_pairs_that_reach(struct tei_peer_work *peer,
			      const struct tei_remote *remote,
			      const struct tei_remote_region *region,
			      uint64_t *across);
/* Returns a bit for each rail of other workers that reaches it. Token. */
uint64_t tei_pairs_elsewhere(const struct tei_peer_work *peer,
			     const struct tei_remote *remote,
			     const struct tei_remote_region *region,
			     uint64_t *across);
/*
 * Returns those of the bit set @rails, of any worker, that have a link and are
 * not paused towards the peer, as far as is known here. Token.
 */
uint64_t tei_pairs_live(const struct tei_peer_work *peer, uint64_t rails);
/* Returns rails, of any worker, whose partner is near @region. Token. */
uint64_t tei_pairs_near(const struct tei_peer_work *peer,
			const struct tei_remote_region *region);

/* ---- what the rails of other workers do ---- */

/*
 * Has other workers open links to the peer by rails that are no worse than
 * @tier, where they have none: a link of ours is silent. Token.
 */
void tei_elsewhere_stand_by(struct tei_peer_work *peer, uint32_t tier);
/*
 * Tells whether a link of another worker to the peer works, by another NIC than
 * that of @box: something has come of it after @since (ns), or it owes nothing
 * and its rail has not been given up as silent before, since something last
 * came of the peer. So a peer that is slow loses no rail twice. Token.
 */
bool tei_elsewhere_works(const struct tei_peer_work *peer,
			 const struct tei_rail_box *box, uint64_t since);

/* ---- rails that reach none of a peer's, though both have the backend ---- */

/*
 * Unmatched rails stay unused, and the rate is what the others carry: this is
 * logged once for each rail, counted (te_rail_unmatched_total), and shown by
 * te_engine_rails().
 */

/* Looks again at unmatched rails, after tei_pairs_match(). Token. */
void tei_unmatched_look(struct tei_peer_work *peer);

/* ---- rails that are near the memory of a request, at both ends ---- */

/*
 * Nearness of a rail to a region follows from the topology of the machine when
 * the region is registered; the owner of remote memory says it of its own
 * rails. Only rails whose device touches memory by itself count: where the CPU
 * copies, its caches and not the place of the device decide.
 *
 * A request goes by the rails that are near both ends; where there are none, by
 * those near either end. The others are for when these are gone, or carry much
 * less than one of the others would.
 */

/*
 * A bit for each rail near the request's memory, by its first local piece and
 * its region of the peer. Of a local region that is spread over rails those
 * are near that have the first byte of the piece; 0: nothing is known, or all
 * are alike. Token.
 */
uint64_t tei_near_of(const struct tei_request *r);
/* Finds rails, of any worker, near a request that is not resolved. Token. */
uint64_t tei_near_of_any(const struct tei_request *r,
			 const struct tei_remote_region *region,
			 uint64_t reach);
/* Kinds of local memory of a request, as rails see it. */
struct tei_takers {
	uint64_t rails; /* a bit for each that moves its bytes itself */
	bool stageable; /* what is a GPU's of it can be copied by the host */
	bool all_gpu;   /* all of it is a GPU's, and stageable */
	bool unknown;   /* of an engine with GPUs; some of it is in no region */
};
/* Finds out. Token. */
void tei_takers_of(const struct tei_request *r, struct tei_takers *out);

/*
 * Finds the rails that move the request's bytes: those to the peer that take
 * its local memory. If there is none, or a processor has to see the bytes for
 * their checksum, and the host can copy them: any, at the first worker. Between
 * GPUs of one host those go first that copy from one to the other. Rails that
 * have the region in part count where together they reach all of the request.
 * Sets reach, spread, staged and direct; returns whether some of it may be a
 * GPU's that is not registered. Token.
 */
bool tei_request_reach(struct tei_request *r, const struct tei_remote *remote,
		       const struct tei_remote_region *region);
/*
 * Tells whether the region of a resolved request is spread over rails, and none
 * of those that it does not avoid, of any worker, reaches some byte that is
 * still to be moved. Token.
 */
bool tei_request_lacks_rails(const struct tei_request *r);

/* Returns the part of the peer that serves it best, as is known. Token. */
struct tei_peer_work *tei_pairs_best_part(const struct tei_request *r);

#endif
