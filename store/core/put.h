/* SPDX-License-Identifier: Apache-2.0 */
/* put.h - reservations: a put or an upsert begins, ends, is revoked */
#ifndef STORE_CORE_PUT_H
#define STORE_CORE_PUT_H

#include <stdint.h>

#include "store/core/place.h"

struct tes_action;
struct tei_arena;
struct tes_core;
struct tes_core_replicate;
struct tes_event;
struct tes_object;
struct tes_session;

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

#endif
