/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenant.c - owners of key spaces, and their shares of the pool
 *
 * A tenant is there as long as something needs it: a quota, a session, an
 * object. Only then its number is given to another one. The first, `default`,
 * always is; while tenants are off it is everybody, without a limit.
 */
#include "store/core/tenant.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "store/core/object.h"
#include "store/core/policy.h"
#include "store/core/state.h"

/* Objects of one tenant that are evicted before the next is chosen. */
#define TURNS  32u
#define SPREAD 0x9e3779b97f4a7c15u /* of tenants' seeds; odd */

static const char default_name[] = "default";

uint64_t tes_core_hash(const struct tes_core *core, const void *bytes,
		       size_t len)
{
	return XXH3_64bits_withSeed(bytes, len, core->config.hash_seed);
}

uint64_t tes_core_hash_of(const struct tes_core *core, uint16_t tenant,
			  const void *bytes, size_t len)
{
	return XXH3_64bits_withSeed(bytes, len,
				    core->config.hash_seed + tenant * SPREAD);
}

bool tes_core_tenant_name_valid(const char *name)
{
	size_t len = 0;

	if (!*name || *name == '_')
		return false;
	for (; name[len]; len++)
		if ((unsigned char)name[len] < ' ' || name[len] == 0x7f ||
		    len == TES_CORE_TENANT_MAX)
			return false;
	return true;
}

/* ---- what each may have ---- */

__extension__ typedef unsigned __int128 wide;

static uint64_t share_of(const struct tes_core *core,
			 const struct tes_tenant *t, wide sum)
{
	if (!core->config.tenants)
		return UINT64_MAX;
	if (!t->registered)
		return 0;
	if (sum <= core->pool_bytes)
		return t->requested;
	return (uint64_t)((wide)t->requested * core->pool_bytes / sum);
}

static void set_share(const struct tes_core *core, struct tes_tenant *t,
		      wide sum)
{
	t->effective = share_of(core, t, sum);
	tes_policy_set_capacity(&t->policy,
				t->effective && t->effective < core->pool_bytes
					? t->effective
					: core->pool_bytes);
}

/* Costs as many steps as there are tenants: once for all that changes it. */
static void set_shares(struct tes_core *core)
{
	wide sum = 0;

	core->shares_due = false;
	for (size_t i = 0; i < core->n_tenants; i++)
		if (core->tenants[i] && core->tenants[i]->registered)
			sum += core->tenants[i]->requested;
	for (size_t i = 0; i < core->n_tenants; i++) {
		struct tes_tenant *t = core->tenants[i];

		if (t)
			set_share(core, t, sum);
	}
}

void tes_core_tenants_share(struct tes_core *core)
{
	if (core->shares_due)
		set_shares(core);
}

/* ---- life ---- */

static size_t tenant_bytes(const struct tes_tenant *t)
{
	return sizeof(*t) + strlen(t->name) + 1;
}

static uint64_t hash_of(const struct tes_core *core, const char *name)
{
	return tes_core_hash(core, name, strlen(name));
}

static void set_registered(struct tes_core *core, struct tes_tenant *t, bool is)
{
	core->n_without_quota += t->registered;
	core->n_without_quota -= is;
	t->registered = is;
}

/* Creates a tenant without a quota, so that the others' shares stay. */
static struct tes_tenant *new_tenant(struct tes_core *core, const char *name,
				     size_t index)
{
	size_t len = strlen(name);
	struct tes_tenant *t = tei_calloc(1, sizeof(*t) + len + 1);

	if (!t)
		return NULL;
	t->index = (uint16_t)index;
	memcpy(t->name, name, len + 1);
	tes_policy_init(&t->policy);
	core->heap_bytes += tenant_bytes(t);
	core->tenants[index] = t;
	core->n_without_quota++;
	tei_hash_insert(&core->tenant_names, &t->by_name, hash_of(core, name));
	if (index >= core->n_tenants)
		core->n_tenants = index + 1;
	set_share(core, t, 0);
	return t;
}

int tes_core_tenants_init(struct tes_core *core)
{
	size_t room = core->config.tenants ? TES_CORE_TENANTS_MAX : 1;
	struct tes_tenant *t;

	core->tenants = tei_calloc(room, sizeof(*core->tenants));
	if (!core->tenants)
		return -ENOMEM;
	if (tei_hash_init(&core->tenant_names) < 0)
		goto free_tenants;
	t = new_tenant(core, default_name, 0);
	if (!t)
		goto fini_names;
	core->heap_bytes += room * sizeof(*core->tenants);
	core->free_tenant = 1;
	set_registered(core, t, !core->config.tenants);
	set_share(core, t, 0);
	return 0;

fini_names:
	tei_hash_fini(&core->tenant_names);
free_tenants:
	tei_free(core->tenants);
	return -ENOMEM;
}

static void free_tenant(struct tes_core *core, struct tes_tenant *t)
{
	assert(!t->charged && !t->objects && !t->users);
	core->heap_bytes -= tenant_bytes(t);
	core->n_without_quota -= !t->registered;
	tei_hash_remove(&core->tenant_names, &t->by_name);
	core->tenants[t->index] = NULL;
	if (t->index < core->free_tenant)
		core->free_tenant = t->index;
	tes_policy_fini(&t->policy);
	tei_free(t);
}

void tes_core_tenants_free(struct tes_core *core)
{
	for (size_t i = 0; i < core->n_tenants; i++) {
		if (!core->tenants[i])
			continue;
		tes_policy_fini(&core->tenants[i]->policy);
		tei_free(core->tenants[i]);
	}
	tei_hash_fini(&core->tenant_names);
	tei_free(core->tenants);
}

struct tes_tenant *tes_core_tenant_find(const struct tes_core *core,
					const char *name)
{
	struct tei_hash_node *n;

	if (!core->config.tenants || !name || !*name)
		return core->tenants[0];
	n = tei_hash_first(&core->tenant_names, hash_of(core, name));
	for (; n; n = tei_hash_next(&core->tenant_names, n)) {
		struct tes_tenant *t =
			TEI_CONTAINER(n, struct tes_tenant, by_name);

		if (strcmp(t->name, name) == 0)
			return t;
	}
	return NULL;
}

/* NULL: no memory, or no place. */
static struct tes_tenant *add_tenant(struct tes_core *core, const char *name)
{
	size_t i = core->free_tenant;

	while (i < core->n_tenants && core->tenants[i])
		i++;
	core->free_tenant = i;
	if (i == TES_CORE_TENANTS_MAX || strlen(name) > TES_CORE_TENANT_MAX)
		return NULL;
	core->idle_tenants = true; /* perhaps nothing comes of it */
	return new_tenant(core, name, i);
}

/* Hellos name tenants at will: half of the places is for those with a quota. */
struct tes_tenant *tes_core_tenant_get(struct tes_core *core, const char *name)
{
	struct tes_tenant *t = tes_core_tenant_find(core, name);

	if (t || core->n_without_quota >= TES_CORE_TENANTS_MAX / 2)
		return t;
	return add_tenant(core, name);
}

/* ---- who makes room ---- */

/* Part of its share that it has. */
static double fullness(const struct tes_tenant *t)
{
	return (double)t->charged / (t->effective ? (double)t->effective : 0.5);
}

struct tes_tenant *tes_core_tenant_payer(struct tes_core *core)
{
	struct tes_tenant *best = core->tenants[core->payer];

	if (core->payer_turns && best && !tes_policy_empty(&best->policy)) {
		core->payer_turns--;
		return best;
	}
	best = NULL;
	for (size_t i = 0; i < core->n_tenants; i++) {
		struct tes_tenant *t = core->tenants[i];

		if (t && !tes_policy_empty(&t->policy) &&
		    (!best || fullness(t) > fullness(best)))
			best = t;
	}
	core->payer = best ? best->index : 0;
	core->payer_turns = TURNS;
	return best;
}

/* ---- who is there ---- */

void tes_core_tenants_tick(struct tes_core *core)
{
	if (!core->idle_tenants)
		return;
	core->idle_tenants = false;
	for (size_t i = 1; i < core->n_tenants; i++) {
		struct tes_tenant *t = core->tenants[i];

		if (t && !t->registered && !t->objects && !t->users)
			free_tenant(core, t);
	}
	while (core->n_tenants > 1 && !core->tenants[core->n_tenants - 1])
		core->n_tenants--;
	if (core->payer >= core->n_tenants)
		core->payer = 0;
}

size_t tes_core_tenants_bytes(const struct tes_core *core)
{
	size_t bytes = 0;

	for (size_t i = 0; i < core->n_tenants; i++)
		if (core->tenants[i])
			bytes += tes_policy_bytes(&core->tenants[i]->policy);
	return bytes;
}

static void describe_tenant(const struct tes_tenant *t,
			    struct tes_core_tenant *out)
{
	*out = (struct tes_core_tenant){
		.name = t->name,
		.requested = t->requested,
		.effective = t->effective,
		.charged = t->charged,
		.objects = t->objects,
		.evicted_bytes_total = t->evicted_bytes_total,
		.rejects_total = t->rejects_total,
		.registered = t->registered,
	};
}

bool tes_core_tenant_next(const struct tes_core *core, size_t *cursor,
			  struct tes_core_tenant *out)
{
	while (*cursor < core->n_tenants) {
		const struct tes_tenant *t = core->tenants[(*cursor)++];

		if (!t || (!t->registered && !t->objects))
			continue;
		describe_tenant(t, out);
		return true;
	}
	return false;
}

bool tes_core_tenant_query(const struct tes_core *core, const char *name,
			   struct tes_core_tenant *out)
{
	const struct tes_tenant *t = tes_core_tenant_find(core, name);

	if (!t || (!t->registered && !t->objects))
		return false;
	describe_tenant(t, out);
	return true;
}

static size_t n_registered(const struct tes_core *core)
{
	size_t n = 0;

	for (size_t i = 0; i < core->n_tenants; i++)
		n += core->tenants[i] && core->tenants[i]->registered;
	return n;
}

int tes_core_tenant_set(struct tes_core *core, const char *name, uint64_t bytes)
{
	struct tes_tenant *t;

	if (!core->config.tenants)
		return -ENOTSUP;
	if (!tes_core_tenant_name_valid(name) || !bytes)
		return -EINVAL;
	t = tes_core_tenant_find(core, name);
	if (!t && n_registered(core) >= TES_CORE_TENANTS_MAX / 2)
		return -ENOSPC;
	if (!t)
		t = add_tenant(core, name);
	if (!t)
		return -ENOMEM;
	t->requested = bytes;
	set_registered(core, t, true);
	set_shares(core);
	return 0;
}

int tes_core_tenant_unset(struct tes_core *core, const char *name)
{
	struct tes_tenant *t = tes_core_tenant_find(core, name);

	if (!core->config.tenants)
		return -ENOTSUP;
	if (!t || !t->registered)
		return -ENOENT;
	if (t->objects)
		return -EBUSY;
	set_registered(core, t, false);
	t->requested = 0;
	core->idle_tenants = true;
	set_shares(core);
	return 0;
}
