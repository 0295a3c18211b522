/* SPDX-License-Identifier: Apache-2.0 */
/* copied.h - tasks at work: what comes of a copy */
#ifndef STORE_CORE_COPIED_H
#define STORE_CORE_COPIED_H

struct tei_core;
struct tei_event;
struct tei_extent;
struct tei_object;
struct tei_session;
struct tei_task;

/* The extent with which the replica begins that is to be moved; NULL: none. */
struct tei_extent *tei_core_task_source(const struct tei_task *t);
/* One target of @t has its copy. */
void tei_core_task_copied(struct tei_core *core, struct tei_task *t);
void tei_core_on_task_done(struct tei_core *core, const struct tei_event *ev,
			   struct tei_session *s);
/* Time out and settle. */
void tei_core_copies_tick(struct tei_core *core, unsigned int *budget);
/* Give up what @o, which is BUSY, is copied to. -ENOMEM: nothing changed. */
int tei_core_task_abort(struct tei_core *core, struct tei_object *o);

#endif
