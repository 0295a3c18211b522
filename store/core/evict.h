/* SPDX-License-Identifier: Apache-2.0 */
/* evict.h - objects that may be evicted, and eviction when space is short */
#ifndef STORE_CORE_EVICT_H
#define STORE_CORE_EVICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "store/core/object.h"
#include "store/core/policy.h"
#include "store/core/tenant.h"

struct tes_core;
struct tes_object;
struct tes_session;
struct tes_tenant;
struct tes_placement;

static inline struct tes_object *tes_core_object_at(struct tei_list *link)
{
	return tei_list_entry(link, struct tes_object, link);
}
static inline struct tes_policy *tes_core_policy_of(const struct tes_core *core,
						    const struct tes_object *o)
{
	return &tes_core_tenant_of(core, o)->policy;
}
/* @o has just become READY, without link: where it belongs. */
void tes_core_evictable(struct tes_core *core, struct tes_object *o);
/* @o goes: out of what eviction knows. */
void tes_core_unevictable(struct tes_core *core, struct tes_object *o);
/* Notes that @o was asked for. */
void tes_core_touch(struct tes_core *core, struct tes_object *o);
/* @o is no longer parked, or need not be: a replica of it went. */
void tes_core_requeue(struct tes_core *core, struct tes_object *o);
/* Hides @o from eviction until requeue(); meanwhile nothing else happens. */
void tes_core_protect(struct tes_core *core, struct tes_object *o);
/* Hides @o, whose task begins, from eviction until end_busy(). */
void tes_core_make_busy(struct tes_core *core, struct tes_object *o);
/* Ends BUSY; does nothing when @o is not. */
void tes_core_end_busy(struct tes_core *core, struct tes_object *o);
/* True: @o is read or was asked for; a remove without force is refused. */
bool tes_core_leased(const struct tes_core *core, const struct tes_object *o);
/* @o waits in @list, out of the policy's queues. */
void tes_core_evict_later(struct tes_core *core, struct tes_object *o,
			  struct tei_list *list);
/* Ends the lease of @o: its time is over, or its readers are done. Left time
 * refuses removes, but not eviction. */
void tes_core_unlease(struct tes_core *core, struct tes_object *o);

/* ---- eviction: which object goes when space is short ---- */

/* Pause before a call with -200 is made again, when a fence or another writer
 * may free space. */
#define TES_CORE_RETRY_MS 20
/* Effort of the starts of one event, times step_objects. */
#define TES_CORE_EFFORT 64

/* Resets the effort, which the starts of an event share. */
void tes_core_evict_begin(struct tes_core *core);
/* Does as place(), evicting until there is room, nothing can go or the effort
 * is spent. */
bool tes_core_place_or_evict(struct tes_core *core,
			     struct tes_placement *placement,
			     struct tes_object *o);
/*
 * Make sure that @t may have @bytes more, evicting what it has. CODE_QUOTA: it
 * may not; CODE_FULL: the step has done its share.
 */
int32_t tes_core_afford(struct tes_core *core, struct tes_tenant *t,
			uint64_t bytes);
/*
 * Returns ms until a retry makes sense, after place_or_evict() failed; 0:
 * never.
 */
uint32_t tes_core_retry_ms(const struct tes_core *core);
void tes_core_evict_tick(struct tes_core *core, unsigned int *budget);
bool tes_core_evict_busy(const struct tes_core *core);

#endif
