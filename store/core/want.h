/* SPDX-License-Identifier: Apache-2.0 */
/* want.h - what clients ask about tasks */
#ifndef STORE_CORE_WANT_H
#define STORE_CORE_WANT_H

struct tei_action;
struct tei_core;
struct tei_event;
struct tei_session;

void tei_core_on_task_create(struct tei_core *core, const struct tei_event *ev,
			     const struct tei_session *s,
			     struct tei_action *reply);
void tei_core_on_task_query(struct tei_core *core, const struct tei_event *ev,
			    const struct tei_session *s,
			    struct tei_action *reply);

#endif
