/* SPDX-License-Identifier: Apache-2.0 */
/* remove.h - objects and replicas that users take out */
#ifndef STORE_CORE_REMOVE_H
#define STORE_CORE_REMOVE_H

#include <stdbool.h>

struct tes_action;
struct tes_core;
struct tes_event;
struct tes_object;
struct tes_session;

/* Columns of @reply are there, zeroed. */
void tes_core_on_remove(struct tes_core *core, const struct tes_event *ev,
			const struct tes_session *s, struct tes_action *reply);
void tes_core_on_replica_clear(struct tes_core *core,
			       const struct tes_event *ev,
			       const struct tes_session *s,
			       struct tes_action *reply);
/* Neither read nor asked for, for a remove without force. */
bool tes_core_leased(const struct tes_core *core, const struct tes_object *o);

#endif
