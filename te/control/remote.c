/* SPDX-License-Identifier: Apache-2.0 */
/* remote.c - make, share and search a peer's description */
#include "te/control/remote.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "te/control/control.pb-c.h"

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

/* Those beyond our room are left out; others have the same owner. */
static bool fill_control(struct tei_remote *remote, const Te__Description *d)
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
	if (!regions_are_right(remote) || !fill_control(remote, from))
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
	/* The last one must see what the others did before they let go. */
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
