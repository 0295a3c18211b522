/* SPDX-License-Identifier: Apache-2.0 */
/* offer.h - what owners have from a life of the master before this one */
#ifndef STORE_CORE_OFFER_H
#define STORE_CORE_OFFER_H

struct tei_action;
struct tei_core;
struct tei_event;
struct tei_session;

void tei_core_on_offer(struct tei_core *core, const struct tei_event *ev,
		       const struct tei_session *s, struct tei_action *reply);

#endif
