/* SPDX-License-Identifier: Apache-2.0 */
/* put.h - reservations: a put or an upsert begins, ends, is revoked */
#ifndef STORE_CORE_STEP_H
#define STORE_CORE_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "store/core/core.h"
#include "store/core/replica.h"

struct tei_arena;
struct tes_action;
struct tes_core;
struct tes_core_replicate;
struct tes_event;
struct tes_object;
struct tes_session;
struct tes_tenant;
struct tes_waiter;

/* Of a soft pin, when the configuration says nothing. */
#define TES_CORE_PIN_MAX_MS 86400000u

struct tes_starts {
	struct tes_wish wish;
	struct tes_object **started; /* started[n]; NULL: not */
};

/* 0, or what to answer instead of starting anything. @how may be NULL. */
int32_t tes_core_how_valid(const struct tes_core *core,
			   const struct tes_core_replicate *how);
/* -ENOMEM: the arena is full. */
int tes_core_starts_init(struct tes_core *core, struct tes_starts *starts,
			 const struct tes_event *ev,
			 const struct tes_session *s, struct tei_arena *arena);

/* Columns of @reply are there, zeroed. */
void tes_core_on_put_start(struct tes_core *core, const struct tes_event *ev,
			   struct tes_session *s, struct tes_action *reply,
			   struct tes_starts *starts);
void tes_core_on_put_end(struct tes_core *core, const struct tes_event *ev,
			 struct tes_session *s, struct tes_action *reply);

/* lookup.h - what readers ask: look-up, release, exist, size */

/* Columns of @reply are there, zeroed. */
void tes_core_on_lookup(struct tes_core *core, const struct tes_event *ev,
			const struct tes_session *s, struct tes_action *reply);
void tes_core_on_release(struct tes_core *core, const struct tes_event *ev,
			 const struct tes_session *s);
void tes_core_on_exist(struct tes_core *core, const struct tes_event *ev,
		       const struct tes_session *s, struct tes_action *reply);
void tes_core_on_size(struct tes_core *core, const struct tes_event *ev,
		      const struct tes_session *s, struct tes_action *reply);

/* remove.h - objects and replicas that users take out */

/* Columns of @reply are there, zeroed. */
void tes_core_on_remove(struct tes_core *core, const struct tes_event *ev,
			const struct tes_session *s, struct tes_action *reply);
void tes_core_on_replica_clear(struct tes_core *core,
			       const struct tes_event *ev,
			       const struct tes_session *s,
			       struct tes_action *reply);
/* Neither read nor asked for, for a remove without force. */
bool tes_core_leased(const struct tes_core *core, const struct tes_object *o);

/* walk.h - removes that look at the whole table */

/* Of a walk, that are not confirmed: then it waits for the owners. They may
 * confirm all at once, which is some milliseconds of work. */
#define TES_CORE_WALK_GRAVES 4096

/* A remove_all under way. */
struct tes_walk {
	struct tei_list link; /* core's walks */
	tes_session_id session;
	uint64_t cookie, removed;
	size_t cursor;
	struct tes_tenant *tenant;
	bool force, done;
	struct tes_waiter *waiter; /* counts what is to be buried */
	tes_core_match_fn *match;
	void *arg;
};

/* A walk begins, or is refused with a reply at once. -ENOMEM: of the arena. */
int tes_core_on_remove_all(struct tes_core *core, const struct tes_event *ev,
			   struct tes_actions *out);
void tes_core_walks_tick(struct tes_core *core, unsigned int *budget);
/* The replies of walks that are through. */
void tes_core_walks_flush(struct tes_core *core, struct tes_actions *out);
/* Whether there is one to go on with: others wait for owners. */
bool tes_core_walking(const struct tes_core *core);
void tes_core_walks_free(struct tes_core *core);

/* offer.h - what owners have from a life of the master before this one */

void tes_core_on_offer(struct tes_core *core, const struct tes_event *ev,
		       const struct tes_session *s, struct tes_action *reply);

#endif
