/* SPDX-License-Identifier: Apache-2.0 */
/* tell.h - owners are told what was committed to their memory */
#ifndef STORE_CORE_TELL_H
#define STORE_CORE_TELL_H

struct tei_actions;
struct tei_arena;
struct tei_core;
struct tei_core_objects;
struct tei_mount;
struct tei_object;
struct tei_session;

/* @o has become READY: its owners will be told at the end of the step. */
void tei_core_committed(struct tei_core *core, struct tei_object *o);
/* All that @m holds has to be told again. */
void tei_core_sync(struct tei_core *core, struct tei_mount *m);
void tei_core_tell_flush(struct tei_core *core, struct tei_actions *out);
/*
 * The replica of @o that lies at @owner, as columns of one object. *@out->n is
 * 0: there is none. -ENOMEM: the arena is full.
 */
int tei_core_objects_one(const struct tei_core *core,
			 const struct tei_object *o,
			 const struct tei_session *owner,
			 struct tei_core_objects *out, struct tei_arena *arena);
/* Tell some of what is to be told again. */
void tei_core_sync_some(struct tei_core *core, struct tei_actions *out);

#endif
