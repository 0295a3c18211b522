/* SPDX-License-Identifier: Apache-2.0 */
/* put.h - reservations: a put or an upsert begins, ends, is revoked */
#ifndef STORE_CORE_PUT_H
#define STORE_CORE_PUT_H

#include <stdint.h>

#include "store/core/place.h"

struct tei_action;
struct tei_arena;
struct tei_core;
struct tei_core_replicate;
struct tei_event;
struct tei_object;
struct tei_session;

/* Of a soft pin, when the configuration says nothing. */
#define TEI_CORE_PIN_MAX_MS 86400000u

struct tei_starts {
	struct tei_wish wish;
	struct tei_object **started; /* started[n]; NULL: not */
};

/* 0, or what to answer instead of starting anything. @how may be NULL. */
int32_t tei_core_how_valid(const struct tei_core *core,
			   const struct tei_core_replicate *how);
/* -ENOMEM: the arena is full. */
int tei_core_starts_init(struct tei_core *core, struct tei_starts *starts,
			 const struct tei_event *ev,
			 const struct tei_session *s, struct tei_arena *arena);

/* Columns of @reply are there, zeroed. */
void tei_core_on_put_start(struct tei_core *core, const struct tei_event *ev,
			   struct tei_session *s, struct tei_action *reply,
			   struct tei_starts *starts);
void tei_core_on_put_end(struct tei_core *core, const struct tei_event *ev,
			 struct tei_session *s, struct tei_action *reply);

#endif
