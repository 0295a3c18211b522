/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.h - the look-ups that an engine has under way
 *
 * Few at once: a thread each, which a resolver may hold for long. Who comes
 * when all are taken waits for one to end. Control thread.
 */
#ifndef TE_CONTROL_NAMES_H
#define TE_CONTROL_NAMES_H

#include "base/list.h"

#define TEI_NAMES_AT_ONCE 8u

struct te_engine;
struct tei_peer;

struct tei_names {
	unsigned int n;          /* look-ups that were started */
	struct tei_list waiting; /* peers, by c.of_names */
};

void tei_names_init(struct tei_names *names);
/*
 * Find the addresses of @peer's name; tei_peer_found() follows, at once when
 * the name is numeric.
 */
void tei_names_look_up(struct tei_peer *peer);
/* No tei_peer_found() comes any more. */
void tei_names_give_up(struct tei_peer *peer);

/* peer.c: c.address has @n addresses, or @n says what is wrong. */
void tei_peer_found(struct tei_peer *peer, int n);

#endif
