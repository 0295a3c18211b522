/* SPDX-License-Identifier: Apache-2.0 */
/* evictable.h - which objects may be evicted, and which not yet */
#ifndef STORE_CORE_EVICTABLE_H
#define STORE_CORE_EVICTABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "store/core/object.h"
#include "store/core/policy.h"
#include "store/core/tenant.h"

struct tei_core;
struct tei_session;

static inline struct tei_object *tei_core_object_at(struct tei_list *link)
{
	return tei_list_entry(link, struct tei_object, link);
}
static inline struct tei_policy *tei_core_policy_of(const struct tei_core *core,
						    const struct tei_object *o)
{
	return &tei_core_tenant_of(core, o)->policy;
}
/* What its extents take. */
uint64_t tei_core_object_room(const struct tei_object *o);
/* Out of whatever list its link is in; from none to the one where it belongs. */
void tei_core_take_out(struct tei_core *core, struct tei_object *o);
void tei_core_put_back(struct tei_core *core, struct tei_object *o);
/* @o has just become READY, without link: where it belongs. */
void tei_core_evictable(struct tei_core *core, struct tei_object *o);
/* @o goes: out of what eviction knows. */
void tei_core_unevictable(struct tei_core *core, struct tei_object *o);
/* It was asked for. */
void tei_core_touch(struct tei_core *core, struct tei_object *o);
/* @o is no longer parked, or need not be: a replica of it went. */
void tei_core_unpark(struct tei_core *core, struct tei_object *o);
/* Out of eviction's sight until unpark(); meanwhile nothing else happens. */
void tei_core_shelter(struct tei_core *core, struct tei_object *o);
/* A task begins: BUSY, and out of sight, until unhold(). */
void tei_core_hold(struct tei_core *core, struct tei_object *o);
/* Nothing happens when it is not BUSY. */
void tei_core_unhold(struct tei_core *core, struct tei_object *o);
/* Softly pinned now. */
bool tei_core_pinned(const struct tei_core *core, const struct tei_object *o);
/* A read lease from now on. */
void tei_core_lease(struct tei_core *core, struct tei_object *o,
		    const struct tei_session *s);
/* It is over, or its readers are done: what is left yields to eviction. */
void tei_core_unlease(struct tei_core *core, struct tei_object *o);
/* The first of the leases is over. */
bool tei_core_lease_over(const struct tei_core *core);
/* Whose pin ends first; some object is pinned. */
struct tei_object *tei_core_first_pinned(const struct tei_core *core);
/* Those whose owner is back, and those whose lease is over. */
void tei_core_take_in(struct tei_core *core, unsigned int *budget);
/* At most @n whose pin is over are as others again; how many. */
unsigned int tei_core_end_pins(struct tei_core *core, unsigned int n);

#endif
