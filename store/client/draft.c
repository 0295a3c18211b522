/* SPDX-License-Identifier: Apache-2.0 */
/* draft.c - objects that are being put in parts */
#include "store/client/draft.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/proto/extent.h"

int tes_drafts_init(struct tes_drafts *drafts, struct tes_owners *owners)
{
	drafts->owners = owners;
	tei_mutex_init(&drafts->mu);
	if (!tei_hash_init(&drafts->table))
		return 0;
	tei_mutex_fini(&drafts->mu);
	return -ENOMEM;
}

/* ---- one ---- */

void tes_draft_destroy(struct tes_drafts *drafts, struct tes_draft *draft)
{
	uint32_t i;

	if (!draft)
		return;
	for (i = 0; i < draft->n_places; i++)
		if (draft->places[i].owner)
			tes_owners_put(drafts->owners, draft->places[i].owner);
	tei_free(draft->parts);
	tei_free(draft->places);
	tei_free(draft->layout.extents);
	tei_free(draft->crc_to);
	tei_free(draft->key);
	tei_free(draft);
}

static void *copy_of(const void *bytes, size_t len)
{
	void *copy = tei_malloc(len ? len : 1);

	return copy ? memcpy(copy, bytes, len) : NULL;
}

struct tes_draft *tes_draft_create(struct tes_drafts *drafts, const void *key,
				   size_t key_len,
				   const struct tes_layout *layout,
				   const struct tes_draft_place *places,
				   uint32_t n_places)
{
	struct tes_draft *draft = tei_calloc(1, sizeof(*draft));
	uint32_t i;

	if (!draft)
		return NULL;
	draft->key = copy_of(key, key_len);
	draft->key_len = (uint32_t)key_len;
	draft->layout = *layout;
	draft->layout.extents =
		copy_of(layout->extents,
			layout->n_extents * sizeof(layout->extents[0]));
	draft->places = copy_of(places, n_places * sizeof(places[0]));
	draft->crc_to = tei_calloc(layout->n_extents, sizeof(*draft->crc_to));
	if (!draft->key || !draft->layout.extents || !draft->places ||
	    !draft->crc_to) {
		tes_draft_destroy(drafts, draft);
		return NULL;
	}
	draft->n_places = n_places;
	for (i = 0; i < n_places; i++)
		if (places[i].owner)
			tes_owners_ref(drafts->owners, places[i].owner);
	return draft;
}

/* ---- all of them ---- */

static uint64_t hash_of(const void *key, size_t len)
{
	return tes_key_digest(key, len, 0);
}

static struct tes_draft *find(struct tes_drafts *drafts, const void *key,
			      size_t len) TEI_REQUIRES(drafts->mu)
{
	struct tei_hash_node *node =
		tei_hash_first(&drafts->table, hash_of(key, len));

	for (; node; node = tei_hash_next(&drafts->table, node)) {
		struct tes_draft *draft =
			TEI_CONTAINER(node, struct tes_draft, node);

		if (draft->key_len == len && memcmp(draft->key, key, len) == 0)
			return draft;
	}
	return NULL;
}

static void destroy_node(struct tei_hash_node *node, void *arg)
{
	struct tes_drafts *drafts = arg;

	tei_hash_remove(&drafts->table, node);
	tes_draft_destroy(drafts, TEI_CONTAINER(node, struct tes_draft, node));
}

void tes_drafts_fini(struct tes_drafts *drafts)
{
	size_t cursor = 0;

	while (drafts->table.n_nodes)
		if (!tei_hash_walk(&drafts->table, &cursor, 64, destroy_node,
				   drafts))
			cursor = 0;
	tei_hash_fini(&drafts->table);
	tei_mutex_fini(&drafts->mu);
}

int tes_drafts_add(struct tes_drafts *drafts, struct tes_draft *draft)
{
	int rc = -EEXIST;

	tei_mutex_lock(&drafts->mu);
	if (!find(drafts, draft->key, draft->key_len)) {
		tei_hash_insert(&drafts->table, &draft->node,
				hash_of(draft->key, draft->key_len));
		rc = 0;
	}
	tei_mutex_unlock(&drafts->mu);
	return rc;
}

struct tes_draft *tes_drafts_enter(struct tes_drafts *drafts, const void *key,
				   size_t key_len)
{
	struct tes_draft *draft;

	tei_mutex_lock(&drafts->mu);
	draft = find(drafts, key, key_len);
	if (draft)
		draft->n_writers++;
	tei_mutex_unlock(&drafts->mu);
	return draft;
}

void tes_drafts_leave(struct tes_drafts *drafts, struct tes_draft *draft)
{
	tei_mutex_lock(&drafts->mu);
	draft->n_writers--;
	tei_mutex_unlock(&drafts->mu);
}

static bool is_whole(const struct tes_draft *draft)
{
	return draft->n_parts == 1 && !draft->parts[0].from &&
	       draft->parts[0].to == draft->size;
}

int tes_drafts_take(struct tes_drafts *drafts, const void *key, size_t key_len,
		    bool whole, struct tes_draft **out)
{
	struct tes_draft *draft;
	int rc = 0;

	tei_mutex_lock(&drafts->mu);
	draft = find(drafts, key, key_len);
	if (!draft)
		rc = -ENOENT;
	else if (draft->n_writers)
		rc = -EBUSY;
	else if (whole && draft->alive && !is_whole(draft))
		rc = -ENODATA;
	else
		tei_hash_remove(&drafts->table, &draft->node);
	tei_mutex_unlock(&drafts->mu);
	if (!rc)
		*out = draft;
	return rc;
}

/* ---- what is there ---- */

static int reserve(struct tes_draft *draft)
{
	size_t room = draft->room ? draft->room * 2 : 8;
	struct tes_draft_part *parts;

	if (draft->n_parts < draft->room)
		return 0;
	parts = tei_realloc(draft->parts, room * sizeof(*parts));
	if (!parts)
		return -ENOMEM;
	draft->parts = parts;
	draft->room = room;
	return 0;
}

/* Parts that touch or overlap the new one become one with it. */
static void insert(struct tes_draft *draft, struct tes_draft_part part)
{
	struct tes_draft_part *parts = draft->parts;
	size_t first = 0, end;

	while (first < draft->n_parts && parts[first].to < part.from)
		first++;
	for (end = first; end < draft->n_parts && parts[end].from <= part.to;
	     end++) {
		if (parts[end].from < part.from)
			part.from = parts[end].from;
		if (parts[end].to > part.to)
			part.to = parts[end].to;
	}
	memmove(&parts[first + 1], &parts[end],
		(draft->n_parts - end) * sizeof(*parts));
	draft->n_parts = draft->n_parts - (end - first) + 1;
	parts[first] = part;
}

int tes_draft_note(struct tes_drafts *drafts, struct tes_draft *draft,
		   uint64_t from, uint64_t to)
{
	int rc;

	tei_mutex_lock(&drafts->mu);
	rc = reserve(draft);
	if (!rc)
		insert(draft, (struct tes_draft_part){from, to});
	tei_mutex_unlock(&drafts->mu);
	return rc;
}

void tes_draft_fail(struct tes_drafts *drafts, struct tes_draft *draft,
		    uint8_t replica, bool loud)
{
	tei_mutex_lock(&drafts->mu);
	draft->alive &= ~(1u << replica);
	if (loud)
		draft->loud |= 1u << replica;
	tei_mutex_unlock(&drafts->mu);
}

uint32_t tes_draft_alive(struct tes_drafts *drafts, struct tes_draft *draft)
{
	uint32_t alive;

	tei_mutex_lock(&drafts->mu);
	alive = draft->alive;
	tei_mutex_unlock(&drafts->mu);
	return alive;
}

void tes_draft_sum(struct tes_drafts *drafts, struct tes_draft *draft,
		   uint32_t k, uint64_t from, uint64_t len, uint32_t crc)
{
	struct tes_extent_at *x = &draft->layout.extents[k];

	tei_mutex_lock(&drafts->mu);
	if (from == draft->crc_to[k]) {
		x->crc = te_crc32c_combine(x->crc, crc, len);
		draft->crc_to[k] += len;
	} else {
		draft->no_crc = true;
	}
	tei_mutex_unlock(&drafts->mu);
}

bool tes_draft_has_crc(const struct tes_draft *draft)
{
	uint32_t k;

	for (k = 0; k < draft->layout.n_extents && !draft->no_crc; k++) {
		const struct tes_extent_at *x = &draft->layout.extents[k];

		if (draft->alive & 1u << x->replica &&
		    draft->crc_to[k] != x->length)
			return false;
	}
	return !draft->no_crc;
}
