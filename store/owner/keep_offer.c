/* SPDX-License-Identifier: Apache-2.0 */
/* keep_offer.c - what there is, for a master that knows nothing of it */
#include "store/owner/keep.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "store/client/client.h"
#include "store/proto/keys.h"
#include "store/proto/objects.h"
#include "store/proto/store.pb-c.h"

/* Of one offer. */
#define OFFER_OBJECTS   1024u
#define OFFER_KEY_BYTES (1u << 20)
#define OFFER_ARENA_MAX (16u << 20)
#define OFFER_NS        (5 * TEI_NS_PER_S)

/* One batch. */
struct offer {
	struct te_store *store;
	struct tes_segment *segment;
	uint64_t generation, seed; /* of the link; of digests */
	uint64_t cursor;
	struct tei_arena arena;
	Store__Objects objects;
	struct tes_key_column keys;
	bool last, failed; /* failed: no memory */
	bool rare;         /* some object is to be kept in a special way */
};

static int offer_init(struct offer *o)
{
	struct tei_arena *arena = &o->arena;
	size_t n = OFFER_OBJECTS, e = n * TES_DIRECTORY_EXTENTS_MAX;
	Store__Objects *m = &o->objects;

	store__objects__init(m);
	m->generation = tei_arena_alloc(arena, n * sizeof(m->generation[0]));
	m->gen_epoch = tei_arena_alloc(arena, n * sizeof(m->gen_epoch[0]));
	m->size = tei_arena_alloc(arena, n * sizeof(m->size[0]));
	m->extents = tei_arena_alloc(arena, n * sizeof(m->extents[0]));
	m->no_crc = tei_arena_alloc(arena, n * sizeof(m->no_crc[0]));
	m->address = tei_arena_alloc(arena, e * sizeof(m->address[0]));
	m->length = tei_arena_alloc(arena, e * sizeof(m->length[0]));
	m->crc = tei_arena_alloc(arena, e * sizeof(m->crc[0]));
	m->attributes = tei_arena_alloc(arena, n * sizeof(m->attributes[0]));
	m->soft_pin_ms = tei_arena_alloc(arena, n * sizeof(m->soft_pin_ms[0]));
	m->group = tei_arena_alloc(arena, n * sizeof(m->group[0]));
	m->groups = tei_arena_alloc(arena, n * sizeof(m->groups[0]));
	if (!m->attributes || !m->soft_pin_ms || !m->group || !m->groups)
		return -ENOMEM;
	m->tenant = tei_arena_alloc(arena, n * sizeof(m->tenant[0]));
	m->tenants = tei_arena_alloc(arena, n * sizeof(m->tenants[0]));
	if (!m->generation || !m->gen_epoch || !m->size || !m->extents ||
	    !m->no_crc || !m->address || !m->length || !m->crc || !m->tenant ||
	    !m->tenants)
		return -ENOMEM;
	return tes_key_column_init(&o->keys, arena, n, OFFER_KEY_BYTES);
}

/* As it was told, less the time since. */
static void add_rare(struct offer *o, const struct tes_directory_object *it,
		     size_t i)
{
	Store__Objects *m = &o->objects;
	struct tes_directory_rare rare;
	const char *group = tes_directory_rare(it, &rare);
	uint64_t now = tei_now_ms();
	char *name = NULL;

	m->attributes[i] = rare.attributes;
	m->soft_pin_ms[i] =
		rare.pin_until_ms > now ? rare.pin_until_ms - now : 0;
	m->group[i] = 0;
	o->rare |= rare.attributes || m->soft_pin_ms[i] || rare.group_len;
	if (rare.group_len)
		name = tei_arena_calloc(&o->arena, rare.group_len + 1u, 1);
	if (!name)
		return; /* it has none, or stays alone */
	memcpy(name, group, rare.group_len);
	m->groups[m->n_groups++] = name;
	m->group[i] = (uint32_t)m->n_groups;
}

/* A copy: the directory may be cleared before the message goes. */
static int copy_name(struct offer *o, const char *name)
{
	size_t len = strlen(name) + 1;
	char *copy = tei_arena_alloc(&o->arena, len);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, name, len);
	o->objects.tenants[o->objects.n_tenants++] = copy;
	return 0;
}

/* What the column says of @it. -ENOMEM. */
static int tenant_column(struct offer *o, const struct tes_directory_object *it,
			 uint32_t *out)
{
	const char *name =
		tes_directory_tenant(&o->segment->keep.directory, it);
	Store__Objects *m = &o->objects;
	size_t i = m->n_tenants;

	*out = 0;
	if (!name)
		return 0;
	while (i && strcmp(m->tenants[i - 1], name) != 0)
		i--;
	if (!i && copy_name(o, name))
		return -ENOMEM;
	*out = (uint32_t)(i ? i : m->n_tenants);
	return 0;
}

static void offer_add(struct offer *o, const struct tes_directory_object *it)
{
	uint64_t base = (uint64_t)(uintptr_t)o->segment->memory;
	Store__Objects *m = &o->objects;
	size_t i = o->keys.n, k = m->n_address;

	tes_key_column_add(&o->keys, tes_directory_key(it), it->key_len);
	m->generation[i] = it->generation;
	m->gen_epoch[i] = it->gen_epoch;
	m->size[i] = it->size;
	m->extents[i] = it->n_extents;
	m->no_crc[i] = it->flags & TES_DIRECTORY_NO_CRC;
	add_rare(o, it, i);
	o->failed |= tenant_column(o, it, &m->tenant[i]) != 0;
	for (size_t j = 0; j < it->n_extents; j++, k++) {
		m->address[k] = base + it->extents[j].offset;
		m->length[k] = it->extents[j].length;
		m->crc[k] = it->extents[j].crc;
	}
	m->n_address = k;
}

/* The next ones; what is not there any more is forgotten. */
static void offer_fill(struct offer *o)
{
	struct tes_keep *keep = &o->segment->keep;
	const struct tes_directory_object *it;

	tei_mutex_lock(&keep->mu);
	while (o->keys.n < OFFER_OBJECTS &&
	       o->keys.bytes.len <= OFFER_KEY_BYTES - TES_DIRECTORY_KEY_MAX) {
		it = tes_directory_next(&keep->directory, &o->cursor);
		o->last = !it;
		if (!it)
			break;
		if (it->gen_epoch == keep->epoch)
			continue; /* it is this master's own */
		if (tes_keep_renew(o->segment, it, o->seed))
			offer_add(o, it);
		else
			(void)tes_directory_drop(&keep->directory,
						 it->extents[0].offset,
						 it->gen_epoch, it->generation);
	}
	tei_mutex_unlock(&keep->mu);
	o->objects.keys = o->keys.bytes;
	o->objects.key_lens = o->keys.lens;
	o->objects.n_key_lens = o->objects.n_generation =
		o->objects.n_gen_epoch = o->objects.n_size =
			o->objects.n_extents = o->objects.n_no_crc =
				o->objects.n_tenant = o->keys.n;
	o->objects.n_length = o->objects.n_crc = o->objects.n_address;
	o->objects.n_attributes = o->objects.n_soft_pin_ms =
		o->objects.n_group = o->rare ? o->keys.n : 0;
}

/* Refused ones have been replaced, or are not what they were. */
static int take_reply(struct offer *o, const Store__OfferReply *reply)
{
	struct tes_keep *keep = &o->segment->keep;
	const Store__Objects *m = &o->objects;
	uint64_t base = (uint64_t)(uintptr_t)o->segment->memory;
	size_t entry = 0;

	if (reply->status)
		return reply->status;
	if (reply->n_object != m->n_key_lens)
		return tes_bad_reply("offer");
	for (size_t i = 0; i < reply->n_object; i++) {
		if (reply->object[i] == TE_STORE_INTERNAL_ERROR)
			return TE_STORE_INTERNAL_ERROR; /* no memory there */
		if (reply->object[i]) {
			tei_mutex_lock(&keep->mu);
			(void)tes_directory_drop(
				&keep->directory, m->address[entry] - base,
				m->gen_epoch[i], m->generation[i]);
			tei_mutex_unlock(&keep->mu);
		}
		entry += m->extents[i];
	}
	return 0;
}

static int offer_some(struct offer *o)
{
	Store__Offer msg = STORE__OFFER__INIT;
	const Store__OfferReply *answer;
	struct tes_reply reply;
	int code;

	tei_arena_reset(&o->arena);
	o->rare = false;
	if (offer_init(o))
		return TE_STORE_INTERNAL_ERROR;
	offer_fill(o);
	if (o->failed)
		return TE_STORE_INTERNAL_ERROR;
	msg.segment.data = o->segment->id;
	msg.segment.len = sizeof(o->segment->id);
	msg.objects = &o->objects;
	msg.last = o->last;
	code = tes_channel_call(&o->store->channel, o->generation,
				STORE__STORE_TYPE__STORE_OFFER, &msg.base,
				&o->arena, tei_now_ns() + OFFER_NS, &reply);
	if (code)
		return code;
	answer =
		store__offer_reply__unpack(&o->arena.pb, reply.len, reply.body);
	return answer ? take_reply(o, answer) : tes_bad_reply("offer");
}

/* ---- mounting ---- */

/* The master knows of nothing here, and it will use the space. */
static void forget_all(struct tes_segment *segment)
{
	struct tes_keep *keep = &segment->keep;
	const struct tes_directory_object *o;
	uint64_t cursor = 0;

	tei_mutex_lock(&keep->mu);
	while ((o = tes_directory_next(&keep->directory, &cursor)))
		for (size_t i = 0; i < o->n_extents; i++)
			tes_keep_void(segment, o->extents[i].offset,
				      o->gen_epoch, o->generation);
	tes_directory_clear(&keep->directory);
	tei_mutex_unlock(&keep->mu);
}

bool tes_keep_offers(const struct tes_segment *segment)
{
	return segment->keep.epoch != 0;
}

int tes_keep_mounted(struct te_store *store, struct tes_segment *segment,
		     const struct tes_keep_master *master)
{
	struct tes_keep *keep = &segment->keep;
	struct offer o = {
		.store = store,
		.segment = segment,
		.generation = master->generation,
		.seed = master->digest_seed,
	};
	bool first = !keep->epoch;
	int code = 0;

	if (keep->epoch != master->epoch)
		keep->offering = !first;
	else if (!keep->offering && !master->kept)
		forget_all(segment);
	keep->epoch = master->epoch;
	if (first)
		return 0;
	/* Nothing to offer: it only has to be said. */
	if (!keep->offering)
		o.cursor = UINT64_MAX;
	keep->offering = true;
	tei_arena_init(&o.arena, OFFER_ARENA_MAX);
	while (!code && !o.last)
		code = offer_some(&o);
	tei_arena_fini(&o.arena);
	if (!code)
		keep->offering = false;
	return code;
}
