/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h - puts that were given up, and their space */
#ifndef STORE_CORE_FENCE_H
#define STORE_CORE_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "store/core/bury.h"
#include "store/core/core.h"

struct tei_extent;
struct tei_object;
struct tei_session;

struct tei_fence {
	struct tei_session *owner;
	struct tei_list link;    /* owner's fences */
	struct tei_list age;     /* core's fences, oldest first */
	struct tei_list unsent;  /* core's unsent */
	struct tei_list extents; /* by link */
	uint64_t id, created_ms;
	bool sent; /* once sent it covers no further extents */
	uint8_t writer[TEI_CORE_ID_LEN];
	/* A burial is one, too, without writer: */
	bool burial;
	struct tei_graves graves;
	struct tei_waiter *waiter; /* not owned; or NULL */
};

/* A new one, to be sent to @owner. NULL: no memory. */
struct tei_fence *tei_core_fence_new(struct tei_core *core,
				     struct tei_session *owner, bool burial);
/*
 * Give up the BUILDING object @o: its key is free at once, its extents when
 * their owners have confirmed that the writer cannot write any more. -ENOMEM:
 * nothing was changed, try later.
 */
int tei_core_discard(struct tei_core *core, struct tei_object *o);
/*
 * Make sure that fences for these replicas (a mask) of @o can be had without
 * memory, for tei_core_chain_fence() in the same step. -ENOMEM.
 */
int tei_core_fences_reserve(struct tei_core *core, const struct tei_object *o,
			    uint32_t replicas);
/*
 * Free the extents of @chain: those of @replicas (a mask) when @writer cannot
 * write to them any more, the others at once.
 */
void tei_core_chain_fence(struct tei_core *core, struct tei_extent *chain,
			  const struct tei_session *writer, uint32_t replicas);
bool tei_core_discard_due(const struct tei_core *core,
			  const struct tei_object *o);
void tei_core_on_fenced(struct tei_core *core, const struct tei_event *ev,
			struct tei_session *owner);
void tei_core_fences_tick(struct tei_core *core, unsigned int *budget);
/* Whether nothing waits for @f any more: its space was unmounted meanwhile. */
bool tei_core_fence_moot(struct tei_fence *f);
/* Its owner is gone: it is neither sent nor timed any more. */
void tei_core_fence_cease(struct tei_fence *f);
void tei_core_fence_free(struct tei_core *core, struct tei_fence *f);
/* Fences that @owner has not answered get their full time once more. */
void tei_core_fences_restart(struct tei_core *core, struct tei_session *owner);
/* They are due (again): @owner can be reached. */
void tei_core_fences_resend(struct tei_core *core, struct tei_session *owner);

#endif
