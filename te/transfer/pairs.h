/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs.h - which of our rails goes with which of a peer's
 *
 * Rails of the same backend can be paired when the backend says that one
 * reaches the other. Each rail of ours gets one of the peer's: the best ranks
 * first, no rail of the peer a second time before each has been taken once,
 * and of equals those with the same place in both lists.
 */
#ifndef TE_TRANSFER_PAIRS_H
#define TE_TRANSFER_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

struct tei_peer;
struct tei_remote;
struct tei_remote_region;

/* Set usable, remote_pos and remote_rail of peer->w.pairs. True: news. Token. */
bool tei_pairs_match(struct tei_peer *peer);
/*
 * Whether rail @mine, which reaches none of the peer's, may come to: it has no
 * link, or a rail of the peer's of its backend has never had one. Token.
 */
bool tei_pairs_may_come(const struct tei_peer *peer, uint32_t mine);
/* A bit for each rail of ours by which @region of @remote is reached. Token. */
uint64_t tei_pairs_that_reach(const struct tei_peer *peer,
			      const struct tei_remote *remote,
			      const struct tei_remote_region *region);
/* The same for those whose rail of the peer is near @region. Token. */
uint64_t tei_pairs_near(const struct tei_peer *peer,
			const struct tei_remote_region *region);

#endif
