/* SPDX-License-Identifier: Apache-2.0 */
/* action.c - what the actions of a step tell owners */
#include "tests/unit/store_core/memory/world.h"

static void take_fence(struct world *w, const struct tes_action *a)
{
	for (int i = 0; i < w->n_fences; i++)
		if (w->fences[i].id == a->u.fence.fence) {
			w->fences[i].owner = a->session;
			return; /* sent again */
		}
	CHECK(w, w->n_fences < N_FENCES);
	w->fences[w->n_fences++] =
		(struct fence){.id = a->u.fence.fence,
			       .owner = a->session,
			       .open = true,
			       .writer = a->u.fence.writer[0],
			       .sent = w->step};
}

static void take_bury(struct world *w, const struct tes_action *a)
{
	bool known = false;

	for (size_t i = 0; i < a->u.bury.n; i++)
		for (int e = 0; e < N_ENTRIES; e++)
			if (w->entries[e].address == a->u.bury.address[i] &&
			    w->entries[e].generation == a->u.bury.generation[i])
				w->entries[e].there = false;
	if (!a->u.bury.burial)
		return;
	for (int i = 0; i < w->n_fences; i++)
		if (w->fences[i].id == a->u.bury.burial) {
			known = true;
			w->fences[i].owner = a->session;
		}
	CHECK(w, w->n_fences < N_FENCES);
	if (!known)
		w->fences[w->n_fences++] = (struct fence){
			.id = a->u.bury.burial,
			.owner = a->session,
			.open = true,
			.burial = true,
		};
}

void world_forget_entries(struct world *w, int mount)
{
	for (int e = 0; e < N_ENTRIES; e++)
		w->entries[e].there &= w->entries[e].mount != mount;
}

static void add_entry(struct world *w, struct entry entry)
{
	struct entry *at = NULL;

	for (int e = 0; e < N_ENTRIES; e++) {
		struct entry *it = &w->entries[e];

		if (it->there && it->address == entry.address)
			at = it;
		else if (!at && !it->there)
			at = it;
	}
	CHECK(w, at);
	if (at)
		*at = entry;
}

static void take_committed(struct world *w, const struct tes_action *a)
{
	const struct tes_core_objects *c = &a->u.committed.objects;
	const uint8_t *segment = a->u.committed.segment;
	size_t k = 0;

	if (segment && a->u.committed.begins)
		world_forget_entries(w, segment[0] | segment[1] << 8);
	for (size_t i = 0; i < c->n; i++) {
		add_entry(w, (struct entry){
				     .there = true,
				     .mount = world_mount_at(c->address[k]),
				     .key = world_key_named(&c->keys[i]),
				     .address = c->address[k],
				     .generation = c->generation[i],
			     });
		k += c->extents[i];
	}
}

static void take_order(struct world *w, const struct tes_action *a)
{
	const struct tes_core_objects *c = &a->u.task.source;
	uint64_t at = 0;
	struct flight *f;

	for (int i = 0; i < N_FLIGHTS; i++)
		if (w->flights[i].is_task && w->flights[i].there &&
		    !memcmp(w->flights[i].id, a->u.task.id, TES_CORE_ID_LEN))
			return; /* sent again */
	f = world_new_flight(w);
	f->is_task = true;
	f->client = world_client_of(w, a->session);
	CHECK(w, f->client >= 0);
	f->life = w->clients[f->client].life;
	memcpy(f->id, a->u.task.id, sizeof(f->id));
	f->generation = c->generation[0];
	f->key = world_key_named(&c->keys[0]);
	f->size = c->size[0];
	for (size_t i = 0; i < c->n_entries; i++) {
		f->source[f->n_source++] = (struct part){
			.address = c->address[i],
			.length = c->length[i],
			.at = at,
		};
		at += c->length[i];
	}
	CHECK(w, at == f->size);
	at = 0;
	for (size_t i = 0; i < a->u.task.n; i++) {
		f->parts[f->n++] = (struct part){
			.mount = world_mount_at(a->u.task.address[i]),
			.address = a->u.task.address[i],
			.length = a->u.task.length[i],
			.at = at,
		};
		at += a->u.task.length[i];
	}
	CHECK(w, at == f->size);
	world_check_alone(w, f);
	world_met.orders++;
}

/* Its process is no more, as far as we care. */
void world_drop_client(struct world *w, int c)
{
	for (int i = 0; i < w->n_mounts; i++)
		if (w->mounts[i].there && w->mounts[i].client == c) {
			w->mounts[i].there = false;
			world_forget_entries(w, i);
		}
	w->clients[c].number = 0;
}

void world_take_actions(struct world *w)
{
	const struct tes_actions *out = &w->rig.out;

	for (size_t i = 0; i < out->n; i++) {
		const struct tes_action *a = &out->at[i];

		if (a->type == TES_ACTION_COMMITTED)
			take_committed(w, a);
		else if (a->type == TES_ACTION_BURY)
			take_bury(w, a);
		else if (a->type == TES_ACTION_FENCE)
			take_fence(w, a);
		else if (a->type == TES_ACTION_TASK)
			take_order(w, a);
	}
	for (size_t i = 0; i < out->n; i++)
		if (out->at[i].type == TES_ACTION_CLOSE) {
			int c = world_client_of(w, out->at[i].session);

			if (c >= 0)
				world_drop_client(w, c);
		}
}
