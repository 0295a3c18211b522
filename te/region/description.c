/* SPDX-License-Identifier: Apache-2.0 */
/* description.c - what engines tell each other of their rails and regions */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "te/core/control.pb-c.h"
#include "te/core/engine.h"
#include "te/region/description.h"
#include "te/region/region.h"
#include "te/worker/worker.h"

#define OWN_DESCRIPTION_MAX ((size_t)1 << 28)

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

/* *held_back: rails that are to be described as without a link, a bit each. */
static int describe_regions(struct te_engine *engine, tei_group_mask mask,
			    struct tei_arena *arena, Te__Description *out,
			    uint64_t *held_back)
{
	struct tei_regions *r = engine->regions;
	int rc;

	tei_mutex_lock(&r->mu);
	rc = describe(r, engine->worker->n_rails, mask, arena, out);
	*held_back = tei_deferred_hold_back(r);
	tei_mutex_unlock(&r->mu);
	return rc;
}

/* ---- all of it ---- */

static int fill_match(struct tei_rail *rail, bool is_held_back,
		      struct tei_arena *arena, Te__Rail *m)
{
	size_t len = TEI_BLOB_MAX;

	if (!rail->ops->rail_describe || is_held_back)
		return 0;
	m->match.data = tei_arena_alloc(arena, len);
	if (!m->match.data)
		return -ENOMEM;
	m->match.len = len;
	return rail->ops->rail_describe(rail, m->match.data, &m->match.len);
}

static int fill_rail(struct te_engine *engine, uint32_t i, bool is_held_back,
		     struct tei_arena *arena, Te__Rail **out)
{
	struct tei_device device = tei_rail_device(engine->worker->rails[i]);
	struct tei_rail *rail = &engine->worker->rails[i]->rail;
	Te__Rail *m = tei_arena_alloc(arena, sizeof(*m));

	if (!m)
		return -ENOMEM;
	te__rail__init(m);
	m->index = i;
	/* The generated code lacks const; it only reads. */
	m->backend = (char *)(uintptr_t)rail->ops->name;
	m->device = rail->device.name;
	m->speed_bps = device.speed_bps;
	m->numa_node = device.numa_node;
	*out = m;
	return fill_match(rail, is_held_back, arena, m);
}

static int describe_rails(struct te_engine *engine, uint64_t held_back,
			  struct tei_arena *arena, Te__Description *out)
{
	uint32_t i, n = engine->worker->n_rails;
	uint64_t described = 0;
	int rc = 0;

	out->rails = tei_arena_calloc(arena, n, sizeof(*out->rails));
	if (!out->rails)
		return -ENOMEM;
	out->n_rails = n;
	for (i = 0; !rc && i < n; i++) {
		rc = fill_rail(engine, i, held_back >> i & 1, arena,
			       &out->rails[i]);
		if (!rc && out->rails[i]->match.len)
			described |= (uint64_t)1 << i;
	}
	tei_deferred_described(engine->regions, described);
	return rc;
}

/*
 * Adds where else our control port is reached: at the addresses of our rails.
 */
static int fill_control(struct te_engine *engine, struct tei_arena *arena,
			Te__Description *out)
{
	uint32_t i, n = 0;

	if (engine->config.bind)
		return 0; /* nowhere else */
	out->control = tei_arena_calloc(arena, TEI_REMOTE_CONTROL_MAX,
					sizeof(*out->control));
	if (!out->control)
		return -ENOMEM;
	for (i = 0; i < engine->worker->n_rails && n < TEI_REMOTE_CONTROL_MAX;
	     i++) {
		struct tei_device device =
			tei_rail_device(engine->worker->rails[i]);
		ProtobufCBinaryData *to = &out->control[n];

		to->data = tei_arena_alloc(arena, 16);
		if (!to->data)
			return -ENOMEM;
		to->len = tei_address_bytes(&device.address, to->data);
		n += to->len > 0;
	}
	out->n_control = n;
	out->control_port = engine->port;
	return 0;
}

int tei_describe(struct te_engine *engine, tei_group_mask mask,
		 struct tei_arena *arena, Te__Description *out)
{
	uint64_t held_back;
	int rc;

	/* Read first: a change meanwhile has a later one, and is sent again. */
	out->version = atomic_load(&engine->regions->version);
	rc = describe_regions(engine, mask, arena, out, &held_back);
	if (!rc)
		rc = describe_rails(engine, held_back, arena, out);
	if (!rc)
		rc = fill_control(engine, arena, out);
	return rc;
}

struct tei_remote *tei_describe_self(struct te_engine *engine)
{
	Te__Description description = TE__DESCRIPTION__INIT;
	struct tei_remote *remote = NULL;
	struct tei_arena arena;
	int rc;

	tei_arena_init(&arena, OWN_DESCRIPTION_MAX);
	rc = tei_describe(engine, ~(tei_group_mask)0, &arena, &description);
	if (!rc)
		rc = tei_remote_make(&description, &remote);
	if (rc)
		LOG_WARN("engine: description not made: %s", te_strerror(rc));
	tei_arena_fini(&arena);
	return rc ? NULL : remote;
}

/* ---- a peer's: made, shared and searched ---- */

#define RAILS_MAX 64

static bool shape_is_right(const Te__Description *d)
{
	size_t n = d->n_id;

	return d->n_rails <= RAILS_MAX && d->n_addr == n && d->n_length == n &&
	       d->n_access == n && d->n_location == n &&
	       (!d->n_near || d->n_near == n) && d->n_key == n * d->n_rails;
}

static bool blobs_fit(const Te__Description *d, size_t *total)
{
	size_t i;

	for (i = 0; i < d->n_rails; i++) {
		if (d->rails[i]->match.len > TEI_BLOB_MAX)
			return false;
	}
	*total = 0;
	for (i = 0; i < d->n_key; i++) {
		if (d->key[i].len > TEI_KEY_MAX)
			return false;
		*total += d->key[i].len;
	}
	return true;
}

/* Copies addresses of the control port; those without room are left out. */
static bool copy_control(struct tei_remote *remote, const Te__Description *d)
{
	size_t i;

	if (d->n_control && (!d->control_port || d->control_port > UINT16_MAX))
		return false;
	for (i = 0; i < d->n_control && i < TEI_REMOTE_CONTROL_MAX; i++) {
		if (!tei_address_from_bytes(
			    d->control[i].data, d->control[i].len,
			    (uint16_t)d->control_port, &remote->control[i]))
			return false;
	}
	remote->n_control = (uint32_t)i;
	return true;
}

static void fill_rails(struct tei_remote *remote, const Te__Description *d)
{
	size_t i;

	for (i = 0; i < d->n_rails; i++) {
		struct tei_remote_rail *to = &remote->rails[i];
		const Te__Rail *from = d->rails[i];

		to->index = from->index;
		to->speed_bps = from->speed_bps;
		snprintf(to->backend, sizeof(to->backend), "%s", from->backend);
		to->match_len = (uint32_t)from->match.len;
		if (from->match.len)
			memcpy(to->match, from->match.data, from->match.len);
	}
	remote->n_rails = (uint32_t)d->n_rails;
}

static void fill_regions(struct tei_remote *remote, const Te__Description *d)
{
	struct tei_blob *key = remote->keys;
	uint8_t *at = remote->bytes;
	size_t i;

	for (i = 0; i < d->n_key; i++) {
		if (!d->key[i].len)
			continue;
		memcpy(at, d->key[i].data, d->key[i].len);
		key[i] = (struct tei_blob){at, d->key[i].len};
		at += d->key[i].len;
	}
	for (i = 0; i < d->n_id; i++) {
		struct tei_remote_region *to = &remote->regions[i];

		to->id = d->id[i];
		to->addr = d->addr[i];
		to->length = d->length[i];
		to->access = d->access[i];
		to->near = d->n_near ? d->near[i] : 0;
		to->key = &key[i * d->n_rails];
		snprintf(to->location, sizeof(to->location), "%s",
			 d->location[i]);
	}
	remote->n_regions = d->n_id;
}

static int by_address(const void *a, const void *b)
{
	const struct tei_remote_region *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static bool regions_are_right(const struct tei_remote *remote)
{
	uint64_t end = 0;
	size_t i;

	for (i = 0; i < remote->n_regions; i++) {
		const struct tei_remote_region *region = &remote->regions[i];

		if (!region->length || region->addr < end ||
		    region->addr + region->length < region->addr)
			return false;
		end = region->addr + region->length;
	}
	return true;
}

static int take_room(struct tei_remote *remote, const Te__Description *d,
		     size_t key_bytes)
{
	remote->rails = tei_calloc(d->n_rails + 1, sizeof(*remote->rails));
	remote->regions = tei_calloc(d->n_id + 1, sizeof(*remote->regions));
	remote->keys = tei_calloc(d->n_key + 1, sizeof(*remote->keys));
	remote->bytes = tei_malloc(key_bytes + 1);
	if (!remote->rails || !remote->regions || !remote->keys ||
	    !remote->bytes)
		return -ENOMEM;
	return 0;
}

int tei_remote_make(const Te__Description *from, struct tei_remote **out)
{
	struct tei_remote *remote;
	size_t key_bytes;
	int rc;

	if (!shape_is_right(from) || !blobs_fit(from, &key_bytes))
		return -EPROTO;
	remote = tei_calloc(1, sizeof(*remote));
	if (!remote)
		return -ENOMEM;
	atomic_init(&remote->refs, 1);
	remote->version = from->version;
	remote->epoch_ending = from->epoch_ending;
	rc = take_room(remote, from, key_bytes);
	if (rc)
		goto put;
	fill_rails(remote, from);
	fill_regions(remote, from);
	qsort(remote->regions, remote->n_regions, sizeof(*remote->regions),
	      by_address);
	rc = -EPROTO;
	if (!regions_are_right(remote) || !copy_control(remote, from))
		goto put;
	*out = remote;
	return 0;

put:
	tei_remote_put(remote);
	return rc;
}

struct tei_remote *tei_remote_get(struct tei_remote *remote)
{
	atomic_fetch_add_explicit(&remote->refs, 1, memory_order_relaxed);
	return remote;
}

void tei_remote_put(struct tei_remote *remote)
{
	if (!remote)
		return;
	/*
	 * The last one must see what the others did before they release the
	 * token.
	 */
	if (atomic_fetch_sub_explicit(&remote->refs, 1, memory_order_acq_rel) >
	    1)
		return;
	tei_free(remote->rails);
	tei_free(remote->regions);
	tei_free(remote->keys);
	tei_free(remote->bytes);
	tei_free(remote);
}

bool tei_remote_has_backend(const struct tei_remote *remote,
			    const char *backend)
{
	uint32_t i;

	for (i = 0; i < remote->n_rails; i++) {
		if (!strcmp(remote->rails[i].backend, backend))
			return true;
	}
	return false;
}

const struct tei_remote_region *tei_remote_find(const struct tei_remote *remote,
						uint64_t addr, uint64_t length)
{
	size_t low = 0, high = remote->n_regions;
	const struct tei_remote_region *region;

	while (low < high) { /* the first region that begins above addr */
		size_t mid = (low + high) / 2;

		if (remote->regions[mid].addr > addr)
			high = mid;
		else
			low = mid + 1;
	}
	if (!low)
		return NULL;
	region = &remote->regions[low - 1];
	if (length > region->length ||
	    addr - region->addr > region->length - length)
		return NULL;
	return region;
}
