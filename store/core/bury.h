/* SPDX-License-Identifier: Apache-2.0 */
/* bury.h - objects that must not come back */
#ifndef STORE_CORE_BURY_H
#define STORE_CORE_BURY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "store/core/core.h"

struct tes_fence;
struct tes_object;
struct tes_session;

/* Where headers are to be voided. */
struct tes_grave {
	uint64_t address, generation, gen_epoch;
};
struct tes_graves {
	struct tes_grave *at; /* at[n] */
	size_t n, room;
};

/* A reply that waits for burials. */
struct tes_waiter {
	struct tei_list link; /* core's answers, once nothing is left */
	tes_session_id session;
	uint64_t cookie;
	enum tes_event_type of;
	unsigned int left; /* burials that are not confirmed */
	size_t graves;     /* in these */
	bool armed;        /* the event is over */
	size_t n;
	int32_t status[]; /* status[n] */
};

/* Whether some owner of @o has to void headers. */
bool tes_core_may_bury(const struct tes_object *o);
/*
 * Make sure that @o, which is READY, can be buried without memory in the same
 * step. -ENOMEM.
 */
int tes_core_bury_reserve(struct tes_core *core, const struct tes_object *o);
/*
 * Forget @o; its extents are free when their owners have voided the headers.
 * The reply of the event under way, if it may wait, waits for those owners that
 * are live.
 */
void tes_core_bury(struct tes_core *core, struct tes_object *o);
/* The same with one replica of it. */
void tes_core_bury_replica(struct tes_core *core, struct tes_object *o,
			   uint8_t replica);
/* Its owners will be told, no matter when, that @o is forgotten. */
void tes_core_notice(struct tes_core *core, const struct tes_object *o);
/* @owner is not live any more: nobody waits for what it has to bury. */
void tes_core_bury_excuse(struct tes_core *core, struct tes_session *owner);
/* For a reply with @n statuses. NULL: no memory. */
struct tes_waiter *tes_core_waiter_new(const struct tes_event *ev, size_t n);
void tes_core_waiter_leave(struct tes_core *core, struct tes_fence *f);
/* The event is over: its reply, the last in @out, goes or waits. */
void tes_core_waiter_end(struct tes_core *core, struct tes_actions *out);
void tes_core_burials_tick(struct tes_core *core);
/* Into the action for the owner. -ENOMEM: the arena is full. */
int tes_core_graves_put(struct tes_action *a, const struct tes_graves *graves,
			struct tei_arena *arena);
void tes_core_graves_free(struct tes_core *core, struct tes_graves *graves);
/* What is due, as far as the arena has room. */
void tes_core_notices_flush(struct tes_core *core, struct tes_actions *out);
void tes_core_answers_flush(struct tes_core *core, struct tes_actions *out);
void tes_core_bury_fini(struct tes_core *core);

#endif
