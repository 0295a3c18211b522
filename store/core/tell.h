/* SPDX-License-Identifier: Apache-2.0 */
/* tell.h - owners are told what was committed to their memory */
#ifndef STORE_CORE_TELL_H
#define STORE_CORE_TELL_H

struct tes_actions;
struct tei_arena;
struct tes_core;
struct tes_core_objects;
struct tes_mount;
struct tes_object;
struct tes_session;

/* @o has become READY: its owners will be told at the end of the step. */
void tes_core_committed(struct tes_core *core, struct tes_object *o);
/* All that @m holds has to be told again. */
void tes_core_sync(struct tes_core *core, struct tes_mount *m);
void tes_core_tell_flush(struct tes_core *core, struct tes_actions *out);
/*
 * The replica of @o that lies at @owner, as columns of one object. *@out->n is
 * 0: there is none. -ENOMEM: the arena is full.
 */
int tes_core_objects_one(const struct tes_core *core,
			 const struct tes_object *o,
			 const struct tes_session *owner,
			 struct tes_core_objects *out, struct tei_arena *arena);
/* Tell some of what is to be told again. */
void tes_core_sync_some(struct tes_core *core, struct tes_actions *out);

#endif
