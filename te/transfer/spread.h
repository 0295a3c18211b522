/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spread.h - requests to memory that rails have in part
 *
 * A region that is too large for one device is spread over several rails
 * (te/region/spread.c). Each part of a request then goes by a rail that has its
 * bytes, and ends where some rail's part of the region does: so it can go by
 * another rail that has the first of them.
 *
 * Threads: the token.
 */
#ifndef TE_TRANSFER_SPREAD_H
#define TE_TRANSFER_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

struct tei_peer_work;
struct tei_remote;
struct tei_remote_region;
struct tei_request;

/* Returns those of @rails, which reach @region of @remote, that have a part. */
uint64_t tei_spread_of(const struct tei_peer_work *peer,
		       const struct tei_remote *remote,
		       const struct tei_remote_region *region, uint64_t rails);

/*
 * Returns those of @rails that reach the byte of @region at @address; *@room is
 * lowered to the bytes from there on of which that holds for each of @rails.
 */
uint64_t tei_spread_at(const struct tei_peer_work *peer,
		       const struct tei_remote *remote,
		       const struct tei_remote_region *region, uint64_t rails,
		       uint64_t address, uint64_t *room);

/*
 * Returns the offset of what the request posts next: less than its length, also
 * where it has posted all.
 */
uint64_t tei_spread_offset(const struct tei_request *r);

/*
 * Returns the rails that reach what the request, which is resolved, posts next,
 * other than those that it avoids; *@room: so much of it at a time.
 */
uint64_t tei_spread_next(const struct tei_request *r, uint64_t *room);

/* Tells whether none of @rails reaches some byte from @from to @to of @r. */
bool tei_spread_has_gap(const struct tei_request *r,
			const struct tei_remote *remote,
			const struct tei_remote_region *region, uint64_t rails,
			uint64_t from, uint64_t to);

#endif
