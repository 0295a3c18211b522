/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots.h - how many endpoints to peers a rail has, and which make room
 *
 * A rail opens at most as many endpoints as the setting `endpoints` says, each
 * when it is first needed. Beyond that the one unused for longest is retired:
 *
 *   UP --retired--> gets nothing new --idle--> closed --> who waits may open one
 *
 * A link has a turn of a tenth of a second before that, and a busy one comes after
 * all that are idle, so that peers beyond the limit take turns.
 *
 * Threads: the token, everywhere.
 */
#ifndef TE_TRANSFER_SLOTS_H
#define TE_TRANSFER_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

struct tei_link;
struct tei_peer;
struct tei_rail_box;

void tei_slots_init(struct tei_rail_box *box);
void tei_slots_fini(struct tei_rail_box *box);

/*
 * Whether @peer may open an endpoint on @rail now. False: another one is made to
 * give way, and the peer is run when there is room.
 */
bool tei_slots_let(struct tei_peer *peer, uint32_t rail);
/* The backend has no room for one more, whatever the setting: make some. */
void tei_slots_short(struct tei_rail_box *box);

/* One that is up gets nothing new, and is closed when it is idle. */
void tei_slots_retire(struct tei_link *link);

/* Of an initiator's link: opened, up, nothing in flight any more, closed. */
void tei_slots_opened(struct tei_link *link);
void tei_slots_up(struct tei_link *link);
void tei_slots_idle(struct tei_link *link);
void tei_slots_closed(struct tei_link *link);

#endif
