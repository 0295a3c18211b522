/* SPDX-License-Identifier: Apache-2.0 */
/* remove.h - objects and replicas that users take out */
#ifndef STORE_CORE_REMOVE_H
#define STORE_CORE_REMOVE_H

#include <stdbool.h>

struct tei_action;
struct tei_core;
struct tei_event;
struct tei_object;
struct tei_session;

/* Columns of @reply are there, zeroed. */
void tei_core_on_remove(struct tei_core *core, const struct tei_event *ev,
			const struct tei_session *s, struct tei_action *reply);
void tei_core_on_replica_clear(struct tei_core *core,
			       const struct tei_event *ev,
			       const struct tei_session *s,
			       struct tei_action *reply);
/* Neither read nor asked for, for a remove without force. */
bool tei_core_leased(const struct tei_core *core, const struct tei_object *o);

#endif
