/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c - pairing our rails with a peer's */
#include "te/pairs.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "te/engine.h"
#include "te/peer.h"

#define REMOTE_MAX 64

/* The choice among all pairs that are left. */
struct choice {
	int rank;
	uint32_t used; /* how often the peer's rail has been taken */
	uint32_t skew; /* distance of their places */
	uint32_t mine, remote;
};

static int rank_of(const struct tei_peer *peer, uint32_t mine, uint32_t remote)
{
	struct tei_rail *rail = &peer->engine->worker.rails[mine]->rail;
	const struct tei_remote_rail *other = &peer->w.remote->rails[remote];
	struct tei_address from = peer->w.address;

	if (!!(rail->ops->caps & TEI_CAP_SELF) != peer->self ||
	    strcmp(rail->ops->name, other->backend))
		return 0;
	if (!rail->ops->rail_match)
		return 1;
	tei_address_set_port(&from, 0);
	return rail->ops->rail_match(rail, &from, other->match,
				     other->match_len);
}

static bool is_better(const struct choice *a, const struct choice *b)
{
	if (!b->rank || a->used != b->used)
		return !b->rank || a->used < b->used;
	if (a->rank != b->rank)
		return a->rank > b->rank;
	return a->skew < b->skew;
}

static uint32_t place(const struct tei_peer *peer, uint32_t mine)
{
	struct tei_rail_box *const *rails = peer->engine->worker.rails;
	uint32_t i, n = 0;

	for (i = 0; i < mine; i++)
		n += rails[i]->rail.ops == rails[mine]->rail.ops;
	return n;
}

static uint32_t remote_place(const struct tei_remote *remote, uint32_t pos)
{
	uint32_t i, n = 0;

	for (i = 0; i < pos; i++)
		n += !strcmp(remote->rails[i].backend,
			     remote->rails[pos].backend);
	return n;
}

static void consider(const struct tei_peer *peer, uint32_t mine,
		     const uint32_t *used, struct choice *best)
{
	const struct tei_remote *remote = peer->w.remote;
	uint32_t k, p = place(peer, mine);

	for (k = 0; k < remote->n_rails; k++) {
		uint32_t q = remote_place(remote, k);
		struct choice c = {.rank = rank_of(peer, mine, k),
				   .used = used[k],
				   .skew = p > q ? p - q : q - p,
				   .mine = mine,
				   .remote = k};

		if (c.rank && is_better(&c, best))
			*best = c;
	}
}

void tei_pairs_match(struct tei_peer *peer)
{
	uint32_t used[REMOTE_MAX] = {0}, i, n = peer->engine->worker.n_rails;
	struct tei_pair *pairs = peer->w.pairs;
	struct choice best;

	for (i = 0; i < n; i++)
		pairs[i].usable = false;
	do {
		best = (struct choice){.rank = 0};
		for (i = 0; i < n; i++) {
			if (!pairs[i].usable)
				consider(peer, i, used, &best);
		}
		if (!best.rank)
			break;
		used[best.remote]++;
		pairs[best.mine].usable = true;
		pairs[best.mine].remote_pos = best.remote;
		pairs[best.mine].remote_rail =
			peer->w.remote->rails[best.remote].index;
	} while (best.rank);
}

uint64_t tei_pairs_that_reach(const struct tei_peer *peer,
			      const struct tei_remote_region *region)
{
	const struct tei_remote *remote = peer->w.remote;
	uint64_t reach = 0;
	uint32_t i;

	for (i = 0; i < peer->engine->worker.n_rails; i++) {
		const struct tei_pair *pair = &peer->w.pairs[i];

		if (pair->usable && pair->remote_pos < remote->n_rails &&
		    region->key[pair->remote_pos].bytes)
			reach |= (uint64_t)1 << i;
	}
	return reach;
}
