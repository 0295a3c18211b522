/* SPDX-License-Identifier: Apache-2.0 */
/* reply.h - actions and their columns, in the caller's arena */
#ifndef STORE_CORE_REPLY_H
#define STORE_CORE_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/core/core.h"

struct tei_arena;
struct tei_object;

/* Entries of a reply; the keys after them get one replica each. */
#define TEI_CORE_ENTRIES_MANY 65536

/* What the columns of entries of a reply have room for. */
struct tei_reply_room {
	struct tei_arena *arena;
	size_t entries, names;
	struct tei_core_segment_name *segments;
};

/*
 * The reply to @ev with its columns zeroed, appended to @out. NULL: the arena
 * is full and nothing was appended. @code: not 0, no columns.
 */
struct tei_action *tei_core_reply(struct tei_core *core,
				  const struct tei_event *ev, int32_t code,
				  struct tei_actions *out);
/* Room for @n more actions without allocation. -ENOMEM. */
int tei_core_actions_reserve(struct tei_actions *out, size_t n);
struct tei_action *tei_core_action_add(struct tei_actions *out,
				       enum tei_action_type type,
				       tei_session_id session);
/*
 * Where key i, which is @o, lies; NULL: it is nowhere. To be called for every
 * key, in order. False: the arena is full, and the key is nowhere.
 */
bool tei_core_reply_place(struct tei_core *core, struct tei_action *reply,
			  const struct tei_event *ev, size_t i,
			  const struct tei_object *o);
/* Fences and closes that are due, as far as the arena has room. */
void tei_core_flush(struct tei_core *core, struct tei_actions *out);

#endif
