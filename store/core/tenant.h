/* SPDX-License-Identifier: Apache-2.0 */
/* tenant.h - owners of key spaces, and their shares of the pool */
#ifndef STORE_CORE_TENANT_H
#define STORE_CORE_TENANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "store/core/object.h"
#include "store/core/policy.h"
#include "store/core/state.h"

/* Owner of a key space, with its share of the pool. The first is `default`. */
struct tes_tenant {
	struct tei_hash_node by_name;
	struct tes_policy policy;      /* its objects' */
	uint64_t requested, effective; /* bytes; effective: of what there is */
	uint64_t charged;
	uint64_t evicted_bytes_total, rejects_total;
	size_t objects, users; /* users: sessions and walks */
	uint16_t index;
	bool registered; /* has a quota, or nobody needs one */
	bool tombstoned; /* no key comes back that is not here yet */
	char name[];
};

/* Hash of @bytes, seeded: against chosen keys. */
uint64_t tes_core_hash(const struct tes_core *core, const void *bytes,
		       size_t len);
/* Hash of a name that each tenant has for itself. */
uint64_t tes_core_hash_of(const struct tes_core *core, uint16_t tenant,
			  const void *bytes, size_t len);
/* -ENOMEM. */
int tes_core_tenants_init(struct tes_core *core);
void tes_core_tenants_free(struct tes_core *core);
/* NULL: there is none of that name. Names mean nothing when tenants are off. */
struct tes_tenant *tes_core_tenant_find(const struct tes_core *core,
					const char *name);
/*
 * Finds it or makes it; NULL: no memory, or too many. Those without a quota
 * have half of the places at most.
 */
struct tes_tenant *tes_core_tenant_get(struct tes_core *core, const char *name);
static inline struct tes_tenant *tes_core_tenant_of(const struct tes_core *core,
						    const struct tes_object *o)
{
	return core->tenants[o->tenant];
}
/* True: its quota leaves it so many bytes more. */
static inline bool tes_core_tenant_has_room(const struct tes_tenant *t,
					    uint64_t bytes)
{
	return t->charged <= t->effective && t->effective - t->charged >= bytes;
}
/* Computes the shares of a pool whose size has changed. */
void tes_core_tenants_share(struct tes_core *core);
/* Among tenants with something to evict, the one with most of its share; NULL:
 * nobody has anything. */
struct tes_tenant *tes_core_tenant_payer(struct tes_core *core);
/* Forget those that nobody needs. */
void tes_core_tenants_tick(struct tes_core *core);
size_t tes_core_tenants_bytes(const struct tes_core *core);

#endif
