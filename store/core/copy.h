/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h - tasks at work: who copies what to where */
#ifndef STORE_CORE_COPY_H
#define STORE_CORE_COPY_H

struct tei_actions;
struct tei_core;
struct tei_session;

/* Tasks that one owner works on at a time. */
#define TEI_CORE_TASKS_EACH 4

/* Begin with some of those that wait. */
void tei_core_tasks_choose(struct tei_core *core);
/* Begin, time out and settle tasks. */
void tei_core_tasks_tick(struct tei_core *core, unsigned int *budget);
void tei_core_tasks_flush(struct tei_core *core, struct tei_actions *out);
/* All that @s works on is to be sent (again). */
void tei_core_tasks_resend(struct tei_core *core, struct tei_session *s);

#endif
