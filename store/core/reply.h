/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply.h - actions that leave a step: replies, and announcements to owners
 */
#ifndef STORE_CORE_REPLY_H
#define STORE_CORE_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "store/core/core.h"

struct tei_arena;
struct tes_core;
struct tes_mount;
struct tes_object;
struct tes_session;
struct tes_step;

/* Room for @n more actions without allocation. -ENOMEM. */
int tes_core_actions_reserve(struct tes_actions *out, size_t n);
struct tes_action *tes_core_action_add(struct tes_actions *out,
				       enum tes_action_type type,
				       tes_session_id session);
/*
 * Appends the reply to the step's event: with its columns, zeroed, or only with
 * the step's code when that is not 0. -ENOMEM: the arena is full and nothing
 * was appended.
 */
int tes_core_reply(struct tes_step *step);
/*
 * Writes where key @i, which is @o, lies; @o is NULL: nowhere. Called for every
 * key, in order. False: the arena is full, and the key is nowhere.
 */
bool tes_core_reply_place(struct tes_step *step, size_t i,
			  const struct tes_object *o);

/* announce.c */
/* Makes a resync due: the owner of @m gets all that @m holds once more. */
void tes_core_resync(struct tes_core *core, struct tes_mount *m);
/* Append the next part of a resync, when one is due. */
void tes_core_resync_tick(struct tes_core *core, struct tes_actions *out);
/* Append what the step has committed, for each owner. */
void tes_core_announce(struct tes_step *step);
/* Makes columns of one object: the replica of @o that lies at @owner. out->n is
 * 0: there is none. -ENOMEM: the arena is full. */
int tes_core_objects_one(const struct tes_core *core,
			 const struct tes_object *o,
			 const struct tes_session *owner,
			 struct tes_core_objects *out, struct tei_arena *arena);

#endif
