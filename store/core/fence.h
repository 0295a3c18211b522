/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h - puts that were given up, and their space */
#ifndef STORE_CORE_FENCE_H
#define STORE_CORE_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "store/core/bury.h"
#include "store/core/core.h"

struct tes_extent;
struct tes_object;
struct tes_session;

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

/* A new one, to be sent to @owner. NULL: no memory. */
struct tes_fence *tes_core_fence_new(struct tes_core *core,
				     struct tes_session *owner, bool burial);
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
