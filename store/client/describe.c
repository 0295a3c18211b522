/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - where objects lie, for people and for those who place work */
#include <stdio.h>
#include <string.h>

#include "store/client/get.h"
#include "store/proto/extent.h"

_Static_assert(sizeof(struct te_store_replica) == 304, "pinned");

struct output {
	struct te_store_replica *out; /* out[room] */
	size_t room, n;
};

static void add(struct output *o, const struct tes_get *get,
		const struct tes_get_entry *entry,
		const struct tes_extent_at *first)
{
	struct te_store_replica *r;

	if (o->n++ >= o->room)
		return;
	r = &o->out[o->n - 1];
	memset(r, 0, sizeof(*r));
	r->status = TE_STORE_REPLICA_COMPLETE;
	r->n_extents = first->count;
	r->address = first->address + TES_EXTENT_HEADER_LEN;
	r->size = entry->size;
	(void)snprintf(r->segment, sizeof(r->segment), "%s",
		       get->places.at[first->place].name);
}

static void describe_key(const struct tes_get *get,
			 const struct tes_get_entry *entry, int *results,
			 struct output *o)
{
	const struct tes_layout *layout = &entry->layout;
	uint32_t k;

	results[entry->item] = (int)layout->n_replicas;
	for (k = 0; k < layout->n_extents; k += layout->extents[k].count)
		add(o, get, entry, &layout->extents[k]);
}

static void describe_chunk(struct te_store *store,
			   const struct te_store_key *keys, size_t n,
			   int *results, struct output *o)
{
	struct tes_get get = {.store = store, .keys = keys, .n = n};
	int rc = tes_get_look_up(&get);
	size_t i;

	for (i = 0; i < n; i++)
		results[i] = rc ? TE_STORE_INTERNAL_ERROR : (int)get.results[i];
	if (rc)
		return;
	for (i = 0; i < get.n_todo; i++)
		if (get.entries[i].open)
			describe_key(&get, &get.entries[i], results, o);
	tes_get_looked_up(&get);
}

int tes_direct_replicas(struct te_store *store, const struct te_store_key *keys,
			size_t n, int *results, struct te_store_replica *out,
			size_t *n_out)
{
	struct output o = {.out = out};
	size_t from, len, i;
	int n_found = 0;

	if (!tes_keys_given(store, keys, n, results) || !n_out ||
	    (*n_out && !out))
		return TE_STORE_INVALID_PARAMS;
	o.room = *n_out;
	for (from = 0; from < n; from += len) {
		len = tes_chunk(keys, from, n);
		describe_chunk(store, keys + from, len, results + from, &o);
	}
	*n_out = o.n;
	for (i = 0; i < n; i++)
		n_found += results[i] > 0;
	return n_found;
}
