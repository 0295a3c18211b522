/* SPDX-License-Identifier: Apache-2.0 */
/* bury.h - objects that must not come back */
#ifndef STORE_CORE_BURY_H
#define STORE_CORE_BURY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "store/core/core.h"

struct tei_fence;
struct tei_object;
struct tei_session;

/* Where headers are to be voided. */
struct tei_grave {
	uint64_t address, generation, gen_epoch;
};
struct tei_graves {
	struct tei_grave *at; /* at[n] */
	size_t n, room;
};

/* A reply that waits for burials. */
struct tei_waiter {
	struct tei_list link; /* core's answers, once nothing is left */
	tei_session_id session;
	uint64_t cookie;
	enum tei_event_type of;
	unsigned int left; /* burials that are not confirmed */
	size_t graves;     /* in these */
	bool armed;        /* the event is over */
	size_t n;
	int32_t status[]; /* status[n] */
};

/* Whether some owner of @o has to void headers. */
bool tei_core_may_bury(const struct tei_object *o);
/*
 * Make sure that @o, which is READY, can be buried without memory in the same
 * step. -ENOMEM.
 */
int tei_core_bury_reserve(struct tei_core *core, const struct tei_object *o);
/*
 * Forget @o; its extents are free when their owners have voided the headers.
 * The reply of the event under way, if it may wait, waits for those owners that
 * are live.
 */
void tei_core_bury(struct tei_core *core, struct tei_object *o);
/* The same with one replica of it. */
void tei_core_bury_replica(struct tei_core *core, struct tei_object *o,
			   uint8_t replica);
/* Its owners will be told, no matter when, that @o is forgotten. */
void tei_core_notice(struct tei_core *core, const struct tei_object *o);
/* @owner is not live any more: nobody waits for what it has to bury. */
void tei_core_bury_excuse(struct tei_core *core, struct tei_session *owner);
/* For a reply with @n statuses. NULL: no memory. */
struct tei_waiter *tei_core_waiter_new(const struct tei_event *ev, size_t n);
void tei_core_waiter_leave(struct tei_core *core, struct tei_fence *f);
/* The event is over: its reply, the last in @out, goes or waits. */
void tei_core_waiter_end(struct tei_core *core, struct tei_actions *out);
void tei_core_burials_tick(struct tei_core *core);
/* Into the action for the owner. -ENOMEM: the arena is full. */
int tei_core_graves_put(struct tei_action *a, const struct tei_graves *graves,
			struct tei_arena *arena);
void tei_core_graves_free(struct tei_core *core, struct tei_graves *graves);
/* What is due, as far as the arena has room. */
void tei_core_notices_flush(struct tei_core *core, struct tei_actions *out);
void tei_core_answers_flush(struct tei_core *core, struct tei_actions *out);
void tei_core_bury_fini(struct tei_core *core);

#endif
