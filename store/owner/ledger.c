/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c - what the master says of the objects in an owner's segments */
#include "store/owner/ledger.h"

#include <errno.h>
#include <openssl/rand.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mapped.h"
#include "store/client/client.h"
#include "store/owner/segment.h"
#include "store/proto/extent.h"
#include "store/proto/keys.h"
#include "store/proto/objects.h"
#include "store/proto/store.pb-c.h"

/* ---- headers of extents in our memory: void, renew ---- */

/* NULL: the file behind it is shorter now. */
static uint8_t *header_at(const struct tes_segment *segment, uint64_t offset)
{
	uint8_t *at = (uint8_t *)segment->memory + offset;

	if (segment->mapping &&
	    !tei_is_there((uintptr_t)at, TES_EXTENT_HEADER_LEN, true))
		return NULL;
	return at;
}

/* Void the header at @offset if it is of that generation. */
static void void_header(const struct tes_segment *segment, uint64_t offset,
			uint64_t gen_epoch, uint64_t generation)
{
	uint8_t bytes[TES_EXTENT_HEADER_LEN];
	uint8_t *at = header_at(segment, offset);
	struct tes_extent_header h;

	if (!at)
		return;
	memcpy(bytes, at, sizeof(bytes));
	if (tes_extent_decode(bytes, &h) == 0 && h.gen_epoch == gen_epoch &&
	    h.generation == generation)
		memset(at, 0, sizeof(bytes));
}

/*
 * Rewrites the header of extent @i, which begins at @offset of the object, if
 * the digest is another. Else the master may have had the object offered
 * before, in an offer whose answer was lost, and given its space to a writer
 * since, who must not be overwritten.
 */
static bool renew_header(const struct tes_segment *segment,
			 const struct tes_inventory_object *o, size_t i,
			 uint64_t offset, uint64_t seed)
{
	const struct tes_extent_header expected = {
		.gen_epoch = o->gen_epoch,
		.generation = o->generation,
		.object_size = o->size,
		.offset = offset,
		.length = o->extents[i].length,
		.index = (uint16_t)i,
		.count = (uint16_t)o->n_extents,
	};
	uint8_t bytes[TES_EXTENT_HEADER_LEN];
	uint8_t *at = header_at(segment, o->extents[i].offset);
	struct tes_extent_header h;
	uint64_t digest;

	if (!at)
		return false;
	memcpy(bytes, at, sizeof(bytes));
	if (tes_extent_decode(bytes, &h) || !tes_extent_same(&h, &expected))
		return false;
	digest = tes_key_digest(tes_inventory_key(o), o->key_len, seed);
	if (h.digest == digest)
		return true;
	h.digest = digest;
	tes_extent_encode(&h, bytes);
	memcpy(at, bytes, sizeof(bytes));
	return true;
}

/*
 * Tells whether all extents of @o are what their headers say; then these are
 * given the digest of @seed, which every master draws anew.
 */
static bool renew_headers(const struct tes_segment *segment,
			  const struct tes_inventory_object *o, uint64_t seed)
{
	uint64_t offset = 0;

	for (size_t i = 0; i < o->n_extents; i++) {
		if (!renew_header(segment, o, i, offset, seed))
			return false;
		offset += o->extents[i].length;
	}
	return true;
}

/* ---- the offer: what we hold, for a restarted master ---- */

/* Limits of one offer. */
#define OFFER_OBJECTS   1024u
#define OFFER_KEY_BYTES (1u << 20)
#define OFFER_ARENA_MAX (16u << 20)
#define OFFER_NS        (5 * TEI_NS_PER_S)

/* Objects that were refused as of masters unknown to this one. */
struct later {
	uint64_t n, from, to; /* epochs */
};

/* A batch of objects on its way to the master. */
struct offer {
	struct te_store *store;
	struct tes_segment *segment;
	uint64_t generation, seed; /* of the link; of digests */
	uint64_t cursor;
	struct later later;
	struct tei_arena arena;
	Store__Objects objects;
	struct tes_key_column keys;
	bool last, failed; /* failed: no memory */
	bool rare;         /* some object is to be kept in a special way */
	bool quiet;        /* nobody writes here before the last offer */
};

static int offer_init(struct offer *o)
{
	struct tei_arena *arena = &o->arena;
	size_t n = OFFER_OBJECTS, e = n * TES_INVENTORY_EXTENTS_MAX;
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

/* Adds the rules as the master sent them, less the time since. */
static void add_rare(struct offer *o, const struct tes_inventory_object *it,
		     size_t i)
{
	Store__Objects *m = &o->objects;
	struct tes_inventory_rare rare;
	const char *group = tes_inventory_rare(it, &rare);
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

/* A copy: the inventory may be cleared before the message goes. */
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

/* Sets *out to the entry of @it in the column of tenants. -ENOMEM. */
static int tenant_column(struct offer *o, const struct tes_inventory_object *it,
			 uint32_t *out)
{
	const char *name =
		tes_inventory_tenant(&o->segment->ledger.inventory, it);
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

static void offer_add(struct offer *o, const struct tes_inventory_object *it)
{
	uint64_t base = (uint64_t)(uintptr_t)o->segment->memory;
	Store__Objects *m = &o->objects;
	size_t i = o->keys.n, k = m->n_address;

	tes_key_column_add(&o->keys, tes_inventory_key(it), it->key_len);
	m->generation[i] = it->generation;
	m->gen_epoch[i] = it->gen_epoch;
	m->size[i] = it->size;
	m->extents[i] = it->n_extents;
	m->no_crc[i] = it->flags & TES_INVENTORY_NO_CRC;
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
	struct tes_ledger *ledger = &o->segment->ledger;
	const struct tes_inventory_object *it;

	tei_mutex_lock(&ledger->mu);
	while (o->keys.n < OFFER_OBJECTS &&
	       o->keys.bytes.len <= OFFER_KEY_BYTES - TES_INVENTORY_KEY_MAX) {
		it = tes_inventory_next(&ledger->inventory, &o->cursor);
		/* Said by itself: what is refused is void by then. */
		o->last = !it && !o->keys.n;
		if (!it)
			break;
		if (renew_headers(o->segment, it, o->seed))
			offer_add(o, it);
		else
			(void)tes_inventory_drop(&ledger->inventory,
						 it->extents[0].offset,
						 it->gen_epoch, it->generation);
	}
	tei_mutex_unlock(&ledger->mu);
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

/* Gives up object @i, whose first entry is @entry. */
static void give_up(struct offer *o, size_t i, size_t entry)
{
	struct tes_ledger *ledger = &o->segment->ledger;
	const Store__Objects *m = &o->objects;
	uint64_t base = (uint64_t)(uintptr_t)o->segment->memory;

	tei_mutex_lock(&ledger->mu);
	for (size_t k = 0; o->quiet && k < m->extents[i]; k++)
		void_header(o->segment, m->address[entry + k] - base,
			    m->gen_epoch[i], m->generation[i]);
	(void)tes_inventory_drop(&ledger->inventory, m->address[entry] - base,
				 m->gen_epoch[i], m->generation[i]);
	tei_mutex_unlock(&ledger->mu);
}

static void add_later(struct later *later, uint64_t epoch)
{
	if (!later->n || epoch < later->from)
		later->from = epoch;
	if (epoch > later->to)
		later->to = epoch;
	later->n++;
}

/* Refused ones have been replaced, or are not what they were. */
static int take_reply(struct offer *o, const Store__OfferReply *reply)
{
	const Store__Objects *m = &o->objects;
	size_t entry = 0;

	if (reply->status)
		return reply->status;
	if (reply->n_object != m->n_key_lens)
		return tes_bad_reply("offer");
	for (size_t i = 0; i < reply->n_object; i++) {
		if (reply->object[i] == TE_STORE_INTERNAL_ERROR)
			return TE_STORE_INTERNAL_ERROR; /* no memory there */
		if (reply->object[i] == TE_STORE_INVALID_VERSION)
			add_later(&o->later, m->gen_epoch[i]);
		if (reply->object[i])
			give_up(o, i, entry);
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
	struct tes_ledger *ledger = &segment->ledger;
	const struct tes_inventory_object *o;
	uint64_t cursor = 0;

	tei_mutex_lock(&ledger->mu);
	while ((o = tes_inventory_next(&ledger->inventory, &cursor)))
		for (size_t i = 0; i < o->n_extents; i++)
			void_header(segment, o->extents[i].offset, o->gen_epoch,
				    o->generation);
	tes_inventory_clear(&ledger->inventory);
	tei_mutex_unlock(&ledger->mu);
}

static void tell_later(const struct tes_segment *segment,
		       const struct later *later, uint64_t epoch)
{
	char id[TEI_ID_ROOM];

	tei_id_text(segment->id, id);
	LOG_WARN("segment %s: given up: %llu objects of epochs %llu to %llu, "
		 "later than epoch %llu of this master, which knows nothing of "
		 "them. Masters of one pool share their --epoch_key_file",
		 id, (unsigned long long)later->n,
		 (unsigned long long)later->from, (unsigned long long)later->to,
		 (unsigned long long)epoch);
}

/*
 * Others may have removed or replaced it since, and no master be left that
 * knows: had the last one lived on, it would be lost as well.
 */
static void give_all_up(struct tes_segment *segment)
{
	struct tes_ledger *ledger = &segment->ledger;
	char id[TEI_ID_ROOM];
	size_t n;

	tei_mutex_lock(&ledger->mu);
	n = ledger->inventory.n_objects;
	tei_mutex_unlock(&ledger->mu);
	tei_id_text(segment->id, id);
	LOG_WARN("segment %s: given up: %zu objects: this process stood still "
		 "for longer than --client_ttl, and another master has come",
		 id, n);
	forget_all(segment);
	ledger->offering = false;
}

bool tes_ledger_offers(const struct tes_segment *segment)
{
	return segment->ledger.mounted;
}

void tes_ledger_doubt(struct tes_segment *segment, uint64_t digest_seed)
{
	struct tes_ledger *ledger = &segment->ledger;

	if (ledger->mounted)
		return;
	ledger->mounted = true;
	ledger->seed = digest_seed;
}

int tes_ledger_mounted(struct te_store *store, struct tes_segment *segment,
		       const struct tes_ledger_master *master)
{
	struct tes_ledger *ledger = &segment->ledger;
	struct offer o = {
		.store = store,
		.segment = segment,
		.generation = master->generation,
		.seed = master->digest_seed,
		.quiet = !master->kept,
	};
	bool first = !ledger->mounted;
	bool other = !first && ledger->seed != master->digest_seed;
	int code = 0;

	if (other && master->slept)
		give_all_up(segment);
	else if (other)
		ledger->offering = true;
	else if (!ledger->offering && !master->kept)
		forget_all(segment);
	ledger->mounted = true;
	ledger->seed = master->digest_seed;
	if (first)
		return 0;
	/* Nothing to offer: it only has to be said. */
	if (!ledger->offering)
		o.cursor = UINT64_MAX;
	ledger->offering = true;
	tei_arena_init(&o.arena, OFFER_ARENA_MAX);
	while (!code && !o.last)
		code = offer_some(&o);
	tei_arena_fini(&o.arena);
	if (o.later.n)
		tell_later(segment, &o.later, master->epoch);
	if (!code)
		ledger->offering = false;
	return code;
}

#define PUSH_ARENA_MAX (16u << 20) /* decoded */

void tes_ledger_init(struct tes_ledger *ledger, uint64_t bytes)
{
	uint64_t salt = 0;

	/* Only against long paths: any salt is right. */
	(void)RAND_bytes((unsigned char *)&salt, sizeof(salt));
	tei_mutex_init(&ledger->mu);
	tes_inventory_init(&ledger->inventory, bytes, salt);
	ledger->mounted = false;
	ledger->seed = 0;
	ledger->offering = false;
}

void tes_ledger_fini(struct tes_ledger *ledger)
{
	tes_inventory_clear(&ledger->inventory);
	tei_mutex_fini(&ledger->mu);
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

/* The inventory keeps the tenants that are added to it. */
static bool tenants_fit(const Store__Objects *m)
{
	for (size_t i = 0; i < m->n_tenants; i++)
		if (strnlen(m->tenants[i], TES_STORE_TENANT_MAX + 1) >
		    TES_STORE_TENANT_MAX)
			return false;
	return true;
}

/* Reads the rules by which an object is to be kept. */
static void take_rare(const Store__Objects *m, size_t i,
		      struct tes_inventory_entry *e)
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

/* Tenant of object @i; NULL: `default`. */
static const char *tenant_of(const Store__Objects *m, size_t i)
{
	if (!m->n_tenant || !m->tenant[i] || m->tenant[i] > m->n_tenants)
		return NULL;
	return m->tenants[m->tenant[i] - 1];
}

/* Adds object @i, whose first entry is @entry and whose key is @key. */
static void add_object(struct te_store *store, const Store__Objects *m,
		       size_t i, size_t entry, const uint8_t *key)
{
	struct tes_inventory_place places[TES_INVENTORY_EXTENTS_MAX];
	size_t n = m->n_extents ? m->extents[i] : 1;
	struct tes_inventory_entry e = {
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
	if (!n || n > TES_INVENTORY_EXTENTS_MAX)
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
	tei_mutex_lock(&segment->ledger.mu);
	/* Without memory it is lost with the master, and only then. */
	(void)tes_inventory_add(&segment->ledger.inventory, &e);
	tei_mutex_unlock(&segment->ledger.mu);
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
		tei_mutex_lock(&all->ledger.mu);
		tes_inventory_begin(&all->ledger.inventory);
		tei_mutex_unlock(&all->ledger.mu);
	}
	for (size_t i = 0; i < objects->n_key_lens; i++) {
		add_object(store, objects, i, entry, key);
		key += objects->key_lens[i];
		entry += objects->n_extents ? objects->extents[i] : 1;
	}
	if (all && m->ends) {
		tei_mutex_lock(&all->ledger.mu);
		tes_inventory_sweep(&all->ledger.inventory);
		tei_mutex_unlock(&all->ledger.mu);
	}
}

static void take_committed(struct tes_master_link *link,
			   const Store__Committed *m)
{
	tes_master_link_epoch(link, m->epoch, &m->epoch_proof);
	committed(link->store, m);
}

void tes_ledger_on_committed(struct tes_master_link *link,
			     const struct tei_frame *f)
{
	struct tei_arena arena;
	const Store__Committed *m;

	tei_arena_init(&arena, PUSH_ARENA_MAX);
	m = store__committed__unpack(&arena.pb, f->len, f->body);
	if (!m || !m->objects || !columns_fit(m->objects) ||
	    !tenants_fit(m->objects))
		tei_frame_bad(link->heartbeat, "malformed commits");
	else
		take_committed(link, m);
	tei_arena_fini(&arena);
}

/* ---- burials ---- */

static void bury(struct te_store *store, const Store__Bury *m, size_t i)
{
	uint64_t offset;
	struct tes_segment *segment = segment_of(store, m->address[i], &offset);

	if (!segment || offset % TES_INVENTORY_UNIT ||
	    segment->bytes - offset < TES_EXTENT_HEADER_LEN)
		return;
	tei_mutex_lock(&segment->ledger.mu);
	if (m->burial)
		void_header(segment, offset, m->gen_epoch[i], m->generation[i]);
	(void)tes_inventory_drop(&segment->ledger.inventory, offset,
				 m->gen_epoch[i], m->generation[i]);
	tei_mutex_unlock(&segment->ledger.mu);
}

static void answer_burial(struct tes_master_link *link, uint64_t burial)
{
	Store__Buried m = STORE__BURIED__INIT;

	m.burial = burial;
	if (tei_frame_send(link->heartbeat, STORE__STORE_TYPE__STORE_BURIED, 0,
			   0, &m.base))
		tes_master_link_lose(link, "a burial could not be answered");
}

void tes_ledger_on_bury(struct tes_master_link *link, const struct tei_frame *f)
{
	struct tei_arena arena;
	const Store__Bury *m;

	tei_arena_init(&arena, PUSH_ARENA_MAX);
	m = store__bury__unpack(&arena.pb, f->len, f->body);
	if (!m || m->n_generation != m->n_address ||
	    m->n_gen_epoch != m->n_address) {
		tei_frame_bad(link->heartbeat, "malformed burial");
		goto out;
	}
	for (size_t i = 0; i < m->n_address; i++)
		bury(link->store, m, i);
	if (m->burial)
		answer_burial(link, m->burial);
out:
	tei_arena_fini(&arena);
}
