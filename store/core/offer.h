/* SPDX-License-Identifier: Apache-2.0 */
/* offer.h - what owners have from a life of the master before this one */
#ifndef STORE_CORE_OFFER_H
#define STORE_CORE_OFFER_H

struct tes_action;
struct tes_core;
struct tes_event;
struct tes_session;

void tes_core_on_offer(struct tes_core *core, const struct tes_event *ev,
		       const struct tes_session *s, struct tes_action *reply);

#endif
