/* SPDX-License-Identifier: Apache-2.0 */
/*
 * near.h - rails that are near the memory of a request, at both ends
 *
 * Which rails are near a region follows from the picture of the machine when it
 * is registered; the owner of remote memory says it of its own rails. Only rails
 * whose device touches memory by itself count: where the CPU copies, its caches
 * and not the place of the device decide.
 *
 * A request goes by the rails that are near both ends; where there are none, by
 * those near either end. The others are for when these are gone, or carry much
 * less than one of the others would.
 */
#ifndef TE_TRANSFER_NEAR_H
#define TE_TRANSFER_NEAR_H

#include <stdint.h>

struct te_engine;
struct tei_peer;
struct tei_request;

/*
 * A bit for each rail near the request's memory, by its first local piece and
 * its region of the peer; 0: nothing is known, or all are alike. Token.
 */
uint64_t tei_near_of(const struct tei_request *r);

/*
 * Of the rails @able those that should carry what @near is near to; @fit: the
 * ones that are in health. Never 0 where @able is not. Token.
 */
uint64_t tei_near_choose(const struct tei_peer *peer, uint64_t able,
			 uint64_t fit, uint64_t near);

#endif
