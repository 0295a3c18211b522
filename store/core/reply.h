/* SPDX-License-Identifier: Apache-2.0 */
/* reply.h - actions and their columns, in the caller's arena */
#ifndef STORE_CORE_REPLY_H
#define STORE_CORE_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/core/core.h"

struct tei_arena;
struct tes_actions;
struct tes_core;
struct tes_core_objects;
struct tes_mount;
struct tes_object;
struct tes_session;

/* Entries of a reply; the keys after them get one replica each. */
#define TES_CORE_ENTRIES_MANY 65536

/* What the columns of entries of a reply have room for. */
struct tes_reply_room {
	struct tei_arena *arena;
	size_t entries, names;
	struct tes_core_segment_name *segments;
};

/*
 * The reply to @ev with its columns zeroed, appended to @out. NULL: the arena
 * is full and nothing was appended. @code: not 0, no columns.
 */
struct tes_action *tes_core_reply(struct tes_core *core,
				  const struct tes_event *ev, int32_t code,
				  struct tes_actions *out);
/* Room for @n more actions without allocation. -ENOMEM. */
int tes_core_actions_reserve(struct tes_actions *out, size_t n);
struct tes_action *tes_core_action_add(struct tes_actions *out,
				       enum tes_action_type type,
				       tes_session_id session);
/*
 * Where key i, which is @o, lies; NULL: it is nowhere. To be called for every
 * key, in order. False: the arena is full, and the key is nowhere.
 */
bool tes_core_reply_place(struct tes_core *core, struct tes_action *reply,
			  const struct tes_event *ev, size_t i,
			  const struct tes_object *o);
/* Fences and closes that are due, as far as the arena has room. */
void tes_core_flush(struct tes_core *core, struct tes_actions *out);

/* tell.h - owners are told what was committed to their memory */

/* @o has become READY: its owners will be told at the end of the step. */
void tes_core_committed(struct tes_core *core, struct tes_object *o);
/* All that @m holds has to be told again. */
void tes_core_sync(struct tes_core *core, struct tes_mount *m);
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
