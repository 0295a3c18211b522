/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h - tasks at work: who copies what to where */
#ifndef STORE_CORE_COPY_H
#define STORE_CORE_COPY_H

struct tes_actions;
struct tes_core;
struct tes_session;

/* Tasks that one owner works on at a time. */
#define TES_CORE_TASKS_EACH 4

/* Begin with some of those that wait. */
void tes_core_tasks_choose(struct tes_core *core);
/* Begin, time out and settle tasks. */
void tes_core_tasks_tick(struct tes_core *core, unsigned int *budget);
void tes_core_tasks_flush(struct tes_core *core, struct tes_actions *out);
/* All that @s works on is to be sent (again). */
void tes_core_tasks_resend(struct tes_core *core, struct tes_session *s);

#endif
