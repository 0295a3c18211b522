/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fence.h - space that others may still touch: fences and burials
 */
#ifndef STORE_CORE_FENCE_H
#define STORE_CORE_FENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "store/core/core.h"

struct tes_extent;
struct tes_object;
struct tes_session;

/* A header that its owner has to void, and the object that it belongs to. */
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
	size_t graves;     /* extents in these */
	bool armed;        /* event has been handled */
	size_t n;
	int32_t status[]; /* status[n] */
};

struct tes_fence {
	struct tes_session *owner;
	struct tei_list link;    /* owner's fences */
	struct tei_list age;     /* core's fences or burials, oldest first */
	struct tei_list unsent;  /* core's unsent */
	struct tei_list extents; /* extents, by link */
	size_t n_extents;        /* that it was given */
	uint64_t id, created_ms;
	bool sent; /* once sent it covers no further extents */
	uint8_t writer[TES_CORE_ID_LEN];
	/* A burial has no writer, but graves: */
	bool burial;
	struct tes_graves graves;
	struct tes_waiter *waiter; /* not owned; NULL: none */
};

/*
 * Give up the BUILDING object @o: its key is free at once, its extents when
 * their owners have confirmed that the writer cannot write any more. -ENOMEM:
 * nothing was changed, try later.
 */
int tes_core_discard(struct tes_core *core, struct tes_object *o);
/* True: @o, which is BUILDING, is to be given up, as its writer is too late. */
bool tes_core_discard_due(const struct tes_core *core,
			  const struct tes_object *o);
/*
 * Make sure that fences for these replicas (a mask) of @o can be had without
 * memory, for tes_core_fence_chain() in the same step. -ENOMEM.
 */
int tes_core_fences_reserve(struct tes_core *core, const struct tes_object *o,
			    uint32_t replicas);
/*
 * Free the extents of @chain: those of @replicas (a mask) when @writer cannot
 * write to them any more, the others at once.
 */
void tes_core_fence_chain(struct tes_core *core, struct tes_extent *chain,
			  const struct tes_session *writer, uint32_t replicas);

/* True: some owner of @o has to void headers. */
bool tes_core_may_bury(const struct tes_object *o);
/*
 * Make sure that @o, which is READY, can be buried without memory in the same
 * step, for the same @waiter. -ENOMEM.
 */
int tes_core_bury_reserve(struct tes_core *core, const struct tes_object *o,
			  struct tes_waiter *waiter);
/*
 * Forget @o; its extents are free when their owners have voided the headers.
 * @waiter counts the owners that are live; NULL: no reply waits for them.
 */
void tes_core_bury(struct tes_core *core, struct tes_object *o,
		   struct tes_waiter *waiter);
/* Buries one replica of @o in the same way. */
void tes_core_bury_replica(struct tes_core *core, struct tes_object *o,
			   uint8_t replica, struct tes_waiter *waiter);
/* Queues a notice to the owners of @o that it was forgotten. */
void tes_core_notice(struct tes_core *core, const struct tes_object *o);
/* Creates a waiter for a reply with @n statuses. NULL: no memory. */
struct tes_waiter *tes_core_waiter_new(const struct tes_event *ev, size_t n);

/* @owner is not live any more: no reply waits for its burials. */
void tes_core_fences_excuse(struct tes_core *core, struct tes_session *owner);
/* Fences that @owner has not answered get their full time once more. */
void tes_core_fences_restart(struct tes_core *core, struct tes_session *owner);
/* Makes fences due (again): @owner can be reached. */
void tes_core_fences_resend(struct tes_core *core, struct tes_session *owner);
/* @owner is gone: its fences are neither sent nor timed any more. */
void tes_core_fences_abandon(struct tes_core *core, struct tes_session *owner);
void tes_core_fences_free(struct tes_core *core, struct tes_session *owner);

/* Drop owners that have not confirmed in time; discard late puts. */
void tes_core_fences_tick(struct tes_core *core, unsigned int *budget);
/* Append notices, fences and burials that are due. */
void tes_core_fences_flush(struct tes_core *core, struct tes_actions *out);
/* Append replies whose burials are confirmed. */
void tes_core_answers_flush(struct tes_core *core, struct tes_actions *out);
void tes_core_answers_free(struct tes_core *core);

#endif
