/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h - puts that were given up, and their space */
#ifndef STORE_CORE_FENCE_H
#define STORE_CORE_FENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "store/core/core.h"

struct tes_extent;
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

struct tes_fence {
	struct tes_session *owner;
	struct tei_list link;    /* owner's fences */
	struct tei_list age;     /* core's fences, oldest first */
	struct tei_list unsent;  /* core's unsent */
	struct tei_list extents; /* by link */
	uint64_t id, created_ms;
	bool sent; /* once sent it covers no further extents */
	uint8_t writer[TES_CORE_ID_LEN];
	/* A burial is one, too, without writer: */
	bool burial;
	struct tes_graves graves;
	struct tes_waiter *waiter; /* not owned; or NULL */
};

/*
 * Give up the BUILDING object @o: its key is free at once, its extents when
 * their owners have confirmed that the writer cannot write any more. -ENOMEM:
 * nothing was changed, try later.
 */
int tes_core_discard(struct tes_core *core, struct tes_object *o);
/*
 * Make sure that fences for these replicas (a mask) of @o can be had without
 * memory, for tes_core_chain_fence() in the same step. -ENOMEM.
 */
int tes_core_fences_reserve(struct tes_core *core, const struct tes_object *o,
			    uint32_t replicas);
/*
 * Free the extents of @chain: those of @replicas (a mask) when @writer cannot
 * write to them any more, the others at once.
 */
void tes_core_chain_fence(struct tes_core *core, struct tes_extent *chain,
			  const struct tes_session *writer, uint32_t replicas);
bool tes_core_discard_due(const struct tes_core *core,
			  const struct tes_object *o);
void tes_core_on_fenced(struct tes_core *core, const struct tes_event *ev,
			struct tes_session *owner);
void tes_core_fences_tick(struct tes_core *core, unsigned int *budget);
/* Whether nothing waits for @f any more: its space was unmounted meanwhile. */
bool tes_core_fence_moot(struct tes_fence *f);
/* Its owner is gone: it is neither sent nor timed any more. */
void tes_core_fence_cease(struct tes_fence *f);
void tes_core_fence_free(struct tes_core *core, struct tes_fence *f);
/* Fences that @owner has not answered get their full time once more. */
void tes_core_fences_restart(struct tes_core *core, struct tes_session *owner);
/* They are due (again): @owner can be reached. */
void tes_core_fences_resend(struct tes_core *core, struct tes_session *owner);

#endif
