/* SPDX-License-Identifier: Apache-2.0 */
/* region_describe.c - the columns of a Description, for one peer's eyes */
#include <errno.h>
#include <string.h>

#include "te/api/engine.h"
#include "te/control/control.pb-c.h"
#include "te/region/region.h"

static bool may_see(const struct tei_region *region, tei_group_mask mask)
{
	if (!region->shown || !region->access)
		return false;
	return region->group < 0 || (mask >> region->group & 1);
}

static int make_columns(struct tei_arena *arena, size_t n, size_t n_keys,
			Te__Description *d)
{
	d->id = tei_arena_calloc(arena, n + 1, sizeof(*d->id));
	d->addr = tei_arena_calloc(arena, n + 1, sizeof(*d->addr));
	d->length = tei_arena_calloc(arena, n + 1, sizeof(*d->length));
	d->access = tei_arena_calloc(arena, n + 1, sizeof(*d->access));
	d->near = tei_arena_calloc(arena, n + 1, sizeof(*d->near));
	d->location = tei_arena_calloc(arena, n + 1, sizeof(*d->location));
	d->key = tei_arena_calloc(arena, n_keys + 1, sizeof(*d->key));
	if (!d->id || !d->addr || !d->length || !d->access || !d->location ||
	    !d->near || !d->key)
		return -ENOMEM;
	d->n_id = d->n_addr = d->n_length = d->n_access = d->n_location = n;
	d->n_key = n_keys;
	return 0;
}

static void *copy(struct tei_arena *arena, const void *bytes, size_t len)
{
	void *to = tei_arena_alloc(arena, len);

	if (to)
		memcpy(to, bytes, len);
	return to;
}

static int fill_row(struct tei_arena *arena, const struct tei_region *region,
		    uint32_t n_rails, size_t row, Te__Description *d)
{
	ProtobufCBinaryData *keys = &d->key[row * n_rails];
	uint32_t i;

	d->id[row] = region->id;
	d->addr[row] = region->addr;
	d->length[row] = region->length;
	d->access[row] = region->access;
	d->near[row] = region->near;
	d->location[row] =
		copy(arena, region->location, strlen(region->location) + 1);
	if (!d->location[row])
		return -ENOMEM;
	for (i = 0; i < n_rails; i++) {
		const struct tei_key *key = region->key[i];

		if (!key)
			continue;
		keys[i].data = copy(arena, key->bytes, key->len);
		if (!keys[i].data)
			return -ENOMEM;
		keys[i].len = key->len;
	}
	return 0;
}

static int describe(struct tei_regions *r, uint32_t n_rails,
		    tei_group_mask mask, struct tei_arena *arena,
		    Te__Description *d) TEI_REQUIRES(r->mu)
{
	size_t i, n = 0, row = 0;
	int rc;

	for (i = 0; i < r->n; i++)
		n += may_see(r->sorted[i], mask);
	rc = make_columns(arena, n, n * n_rails, d);
	if (atomic_load_explicit(&r->any_near, memory_order_relaxed))
		d->n_near = n;
	for (i = 0; !rc && i < r->n; i++) {
		if (may_see(r->sorted[i], mask))
			rc = fill_row(arena, r->sorted[i], n_rails, row++, d);
	}
	return rc;
}

int tei_regions_describe(struct te_engine *engine, tei_group_mask mask,
			 struct tei_arena *arena, Te__Description *out)
{
	struct tei_regions *r = &engine->regions;
	int rc;

	tei_mutex_lock(&r->mu);
	rc = describe(r, engine->worker.n_rails, mask, arena, out);
	tei_mutex_unlock(&r->mu);
	return rc;
}
