/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c - what the master says of the objects in an owner's segments */
#include "store/owner/keep.h"

#include <string.h>

#include <openssl/rand.h>

#include "base/clock.h"
#include "store/client/client.h"
#include "store/proto/extent.h"
#include "store/proto/objects.h"
#include "store/proto/store.pb-c.h"

#define PUSH_ARENA_MAX (16u << 20) /* decoded */

void tes_keep_init(struct tes_keep *keep, uint64_t bytes)
{
	uint64_t salt = 0;

	/* Only against long paths: any salt is right. */
	(void)RAND_bytes((unsigned char *)&salt, sizeof(salt));
	tei_mutex_init(&keep->mu);
	tes_directory_init(&keep->directory, bytes, salt);
	keep->epoch = 0;
	keep->offering = false;
}

void tes_keep_fini(struct tes_keep *keep)
{
	tes_directory_clear(&keep->directory);
	tei_mutex_fini(&keep->mu);
}

/* ---- commits ---- */

/* The segment that has @address, and where; NULL: none of ours. */
static struct tes_segment *segment_of(struct te_store *store, uint64_t address,
				      uint64_t *offset)
{
	tei_list_for_each (node, &store->segments.list) {
		struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);
		uint64_t base = (uint64_t)(uintptr_t)segment->memory;

		if (segment->leaving || !base || address < base ||
		    address - base >= segment->bytes)
			continue;
		*offset = address - base;
		return segment;
	}
	return NULL;
}

static bool columns_fit(const Store__Objects *m)
{
	size_t bytes = 0;

	for (size_t i = 0; i < m->n_key_lens; i++)
		bytes += m->key_lens[i];
	return tes_objects_fit(m) && m->keys.len == bytes;
}

/* The directory keeps those that it is told of. */
static bool tenants_fit(const Store__Objects *m)
{
	for (size_t i = 0; i < m->n_tenants; i++)
		if (strnlen(m->tenants[i], TES_STORE_TENANT_MAX + 1) >
		    TES_STORE_TENANT_MAX)
			return false;
	return true;
}

/* How it is to be kept. */
static void take_rare(const Store__Objects *m, size_t i,
		      struct tes_directory_entry *e)
{
	uint32_t group = m->n_group ? m->group[i] : 0;
	size_t len = 0;

	if (m->n_attributes)
		e->rare.attributes = m->attributes[i];
	if (m->n_soft_pin_ms && m->soft_pin_ms[i])
		e->rare.pin_until_ms = tei_now_ms() + m->soft_pin_ms[i];
	if (group && group <= m->n_groups)
		len = strlen(m->groups[group - 1]);
	if (!len || len > TEI_NAME_LEN_MAX)
		return;
	e->group = m->groups[group - 1];
	e->rare.group_len = (uint16_t)len;
}

/* Whose object @i is; NULL: `default`. */
static const char *tenant_of(const Store__Objects *m, size_t i)
{
	if (!m->n_tenant || !m->tenant[i] || m->tenant[i] > m->n_tenants)
		return NULL;
	return m->tenants[m->tenant[i] - 1];
}

/* Object @i, whose first entry is @entry and whose key is @key. */
static void add(struct te_store *store, const Store__Objects *m, size_t i,
		size_t entry, const uint8_t *key)
{
	struct tes_directory_place places[TES_DIRECTORY_EXTENTS_MAX];
	size_t n = m->n_extents ? m->extents[i] : 1;
	struct tes_directory_entry e = {
		.key = key,
		.key_len = m->key_lens[i],
		.generation = m->generation[i],
		.gen_epoch = m->gen_epoch[i],
		.size = m->size[i],
		.no_crc = m->n_no_crc && m->no_crc[i],
		.tenant = tenant_of(m, i),
		.places = places,
		.n_places = n,
	};
	struct tes_segment *segment = NULL;

	take_rare(m, i, &e);
	if (!n || n > TES_DIRECTORY_EXTENTS_MAX)
		return;
	for (size_t k = 0; k < n; k++) {
		struct tes_segment *at = segment_of(
			store, m->address[entry + k], &places[k].offset);

		if (!at || (segment && at != segment))
			return;
		segment = at;
		places[k].length = m->length[entry + k];
		places[k].crc = m->crc[entry + k];
	}
	tei_mutex_lock(&segment->keep.mu);
	/* Without memory it is lost with the master, and only then. */
	(void)tes_directory_add(&segment->keep.directory, &e);
	tei_mutex_unlock(&segment->keep.mu);
}

static struct tes_segment *segment_named(struct te_store *store,
					 const ProtobufCBinaryData *id)
{
	tei_list_for_each (node, &store->segments.list) {
		struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		if (id->len == sizeof(segment->id) &&
		    memcmp(id->data, segment->id, id->len) == 0)
			return segment;
	}
	return NULL;
}

static void committed(struct te_store *store, const Store__Committed *m)
{
	struct tes_segment *all = segment_named(store, &m->segment);
	const Store__Objects *objects = m->objects;
	const uint8_t *key = objects->keys.data;
	size_t entry = 0;

	if (all && m->begins) {
		tei_mutex_lock(&all->keep.mu);
		tes_directory_begin(&all->keep.directory);
		tei_mutex_unlock(&all->keep.mu);
	}
	for (size_t i = 0; i < objects->n_key_lens; i++) {
		add(store, objects, i, entry, key);
		key += objects->key_lens[i];
		entry += objects->n_extents ? objects->extents[i] : 1;
	}
	if (all && m->ends) {
		tei_mutex_lock(&all->keep.mu);
		tes_directory_sweep(&all->keep.directory);
		tei_mutex_unlock(&all->keep.mu);
	}
}

void tes_keep_on_committed(struct tes_master_link *link,
			   const struct tei_frame *f)
{
	struct tei_arena arena;
	const Store__Committed *m;

	tei_arena_init(&arena, PUSH_ARENA_MAX);
	m = store__committed__unpack(&arena.pb, f->len, f->body);
	if (!m || !m->objects || !columns_fit(m->objects) ||
	    !tenants_fit(m->objects))
		tei_frame_bad(link->pulse, "malformed commits");
	else
		committed(link->store, m);
	tei_arena_fini(&arena);
}

/* ---- burials ---- */

static void bury(struct te_store *store, const Store__Bury *m, size_t i)
{
	uint64_t offset;
	struct tes_segment *segment = segment_of(store, m->address[i], &offset);

	if (!segment || offset % TES_DIRECTORY_UNIT ||
	    segment->bytes - offset < TES_EXTENT_HEADER_LEN)
		return;
	tei_mutex_lock(&segment->keep.mu);
	if (m->burial)
		tes_keep_void(segment, offset, m->gen_epoch[i],
			      m->generation[i]);
	(void)tes_directory_drop(&segment->keep.directory, offset,
				 m->gen_epoch[i], m->generation[i]);
	tei_mutex_unlock(&segment->keep.mu);
}

static void answer(struct tes_master_link *link, uint64_t burial)
{
	Store__Buried m = STORE__BURIED__INIT;

	m.burial = burial;
	if (tei_frame_send(link->pulse, STORE__STORE_TYPE__STORE_BURIED, 0, 0,
			   &m.base))
		tes_master_link_lose(link, "a burial could not be answered");
}

void tes_keep_on_bury(struct tes_master_link *link, const struct tei_frame *f)
{
	struct tei_arena arena;
	const Store__Bury *m;

	tei_arena_init(&arena, PUSH_ARENA_MAX);
	m = store__bury__unpack(&arena.pb, f->len, f->body);
	if (!m || m->n_generation != m->n_address ||
	    m->n_gen_epoch != m->n_address) {
		tei_frame_bad(link->pulse, "malformed burial");
		goto out;
	}
	for (size_t i = 0; i < m->n_address; i++)
		bury(link->store, m, i);
	if (m->burial)
		answer(link, m->burial);
out:
	tei_arena_fini(&arena);
}
