/* SPDX-License-Identifier: Apache-2.0 */
/* want.h - what clients ask about tasks */
#ifndef STORE_CORE_WANT_H
#define STORE_CORE_WANT_H

struct tes_action;
struct tes_core;
struct tes_event;
struct tes_session;

void tes_core_on_task_create(struct tes_core *core, const struct tes_event *ev,
			     const struct tes_session *s,
			     struct tes_action *reply);
void tes_core_on_task_query(struct tes_core *core, const struct tes_event *ev,
			    const struct tes_session *s,
			    struct tes_action *reply);

#endif
