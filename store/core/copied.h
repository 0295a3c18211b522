/* SPDX-License-Identifier: Apache-2.0 */
/* copied.h - tasks at work: what comes of a copy */
#ifndef STORE_CORE_COPIED_H
#define STORE_CORE_COPIED_H

struct tes_core;
struct tes_event;
struct tes_extent;
struct tes_object;
struct tes_session;
struct tes_task;

/* The extent with which the replica begins that is to be moved; NULL: none. */
struct tes_extent *tes_core_task_source(const struct tes_task *t);
/* One target of @t has its copy. */
void tes_core_task_copied(struct tes_core *core, struct tes_task *t);
void tes_core_on_task_done(struct tes_core *core, const struct tes_event *ev,
			   struct tes_session *s);
/* Time out and settle. */
void tes_core_copies_tick(struct tes_core *core, unsigned int *budget);
/* Give up what @o, which is BUSY, is copied to. -ENOMEM: nothing changed. */
int tes_core_task_abort(struct tes_core *core, struct tes_object *o);

#endif
