/* SPDX-License-Identifier: Apache-2.0 */
/* spread.c - requests to memory that rails have in part */
#include "te/transfer/spread.h"

#include "te/core/engine.h"
#include "te/region/description.h"
#include "te/transfer/parts.h"
#include "te/transfer/peer.h"
#include "te/transfer/request.h"
#include "te/worker/worker.h"

/*
 * Tells whether rail @i, of those that may have a part only, has the byte of
 * @region at @address; *@room as key_covers().
 */
static bool has_byte(const struct tei_peer_work *peer,
		     const struct tei_remote *remote,
		     const struct tei_remote_region *region, int i,
		     uint64_t address, uint64_t *room)
{
	const struct tei_backend_ops *ops = peer->worker->rails[i]->rail.ops;
	uint32_t pos = peer->pairs[i].remote_pos;

	return pos < remote->n_rails && region->key[pos].bytes &&
	       ops->key_covers(region->key[pos].bytes, region->key[pos].len,
			       address, room);
}

uint64_t tei_spread_of(const struct tei_peer_work *peer,
		       const struct tei_remote *remote,
		       const struct tei_remote_region *region, uint64_t rails)
{
	uint64_t left, some = 0;

	for (left = rails & peer->worker->spreads; left; left &= left - 1) {
		uint64_t room = region->length;

		if (!has_byte(peer, remote, region, __builtin_ctzll(left),
			      region->addr, &room) ||
		    room < region->length)
			some |= left & -left;
	}
	return some;
}

uint64_t tei_spread_at(const struct tei_peer_work *peer,
		       const struct tei_remote *remote,
		       const struct tei_remote_region *region, uint64_t rails,
		       uint64_t address, uint64_t *room)
{
	uint64_t left, have = rails & ~peer->worker->spreads;

	for (left = rails & peer->worker->spreads; left; left &= left - 1) {
		uint64_t same = *room;

		if (has_byte(peer, remote, region, __builtin_ctzll(left),
			     address, &same))
			have |= left & -left;
		*room = same < *room ? same : *room;
	}
	return have;
}

uint64_t tei_spread_offset(const struct tei_request *r)
{
	if (r->n_redo)
		return tei_work_redo(r)->offset;
	return r->cursor < r->length ? r->cursor : r->length - 1;
}

uint64_t tei_spread_next(const struct tei_request *r, uint64_t *room)
{
	uint64_t offset = tei_spread_offset(r);

	*room = r->length - offset;
	return tei_spread_at(r->peer, r->held, r->region, r->reach,
			     r->remote + offset, room) &
	       ~r->avoid;
}

bool tei_spread_has_gap(const struct tei_request *r,
			const struct tei_remote *remote,
			const struct tei_remote_region *region, uint64_t rails,
			uint64_t from, uint64_t to)
{
	uint64_t room;

	for (; from < to; from += room) {
		room = to - from;
		if (!tei_spread_at(r->peer, remote, region, rails,
				   r->remote + from, &room))
			return true;
	}
	return false;
}
