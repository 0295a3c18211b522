/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - clients and owners come, mount, fence and go */
#include "tests/unit/store_core/memory/world.h"

static void heartbeat(struct world *w, int c)
{
	struct tes_event ev = {.type = TES_EVENT_HEARTBEAT};

	ev.session = w->clients[c].number;
	world_step(w, &ev);
}

/* Anew, or after its connection was lost, or after a restart. */
void world_join(struct world *w)
{
	static const char hosts[N_CLIENTS + 1] = "abcde";
	int c = (int)world_roll(w, N_CLIENTS);
	struct client *it = &w->clients[c];
	bool again = it->number && world_roll(w, 3);

	if ((it->number && world_roll(w, 3)) || w->lives > 200)
		return;
	if (!again) {
		world_drop_client(w, c);
		it->life = ++w->lives;
	}
	/* It will be told all again. */
	for (int i = 0; i < w->n_mounts; i++)
		if (w->mounts[i].client == c)
			world_forget_entries(w, i);
	if (again) {
		struct tes_event ev = {.type = TES_EVENT_LEAVE};

		ev.session = it->number;
		world_step(w, &ev);
	}
	it->number = ++w->numbers;
	it->silent = false;
	rig_host = &hosts[c];
	rig_buries = rig_executes = true;
	CHECK(w, rig_join(&w->rig, it->number, (char)(c + 1), (char)it->life) ==
			 0);
	rig_host = NULL;
	world_take_actions(w);
	heartbeat(w, c);
}

void world_mount(struct world *w)
{
	struct tes_event ev = {.type = TES_EVENT_MOUNT};
	int c = world_any_client(w), i = w->n_mounts, n = 0;
	uint8_t id[TES_CORE_ID_LEN] = {(uint8_t)i, (uint8_t)(i >> 8)};

	for (int j = 0; j < i; j++)
		n += w->mounts[j].there && w->mounts[j].client == c;
	if (c < 0 || i == N_MOUNTS || n == 2)
		return;
	ev.session = w->clients[c].number;
	ev.u.mount.segment = id;
	ev.u.mount.name = world_segment_name(c);
	ev.u.mount.base = world_base_of(i);
	ev.u.mount.size = (uint64_t)UNITS * UNIT;
	w->mounts[i] = (struct memory){.there = true, .client = c};
	w->n_mounts++;
	if (!world_step(w, &ev))
		w->mounts[i].there = false;
}

void world_unmount(struct world *w)
{
	struct tes_event ev = {.type = TES_EVENT_UNMOUNT};
	uint8_t id[TES_CORE_ID_LEN] = {0};
	int i;

	if (!w->n_mounts)
		return;
	i = (int)world_roll(w, (unsigned int)w->n_mounts);
	if (!w->mounts[i].there)
		return;
	id[0] = (uint8_t)i;
	id[1] = (uint8_t)(i >> 8);
	ev.session = w->clients[w->mounts[i].client].number;
	ev.u.mount.segment = id;
	if (!world_step(w, &ev))
		return;
	w->mounts[i].there = false;
	world_forget_entries(w, i);
}

void world_heartbeats(struct world *w)
{
	for (int c = 0; c < N_CLIENTS; c++)
		if (w->clients[c].number && !w->clients[c].silent)
			heartbeat(w, c);
	if (!world_roll(w, 20))
		w->clients[world_roll(w, N_CLIENTS)].silent = true;
	if (!world_roll(w, 4))
		w->clients[world_roll(w, N_CLIENTS)].silent = false;
}

void world_tick(struct world *w)
{
	struct tes_event ev = {.type = TES_EVENT_TICK};

	w->rig.now += world_roll(w, 150);
	world_step(w, &ev);
}

/* What was granted before the fence was sent cannot land any more. */
static void revoke(struct world *w, const struct fence *fence)
{
	int owner = world_client_of(w, fence->owner);

	for (int i = 0; i < N_FLIGHTS; i++) {
		struct flight *f = &w->flights[i];

		if (f->life != fence->writer || f->since > fence->sent)
			continue;
		for (int p = 0; p < f->n; p++)
			f->parts[p].is_void |=
				w->mounts[f->parts[p].mount].client == owner;
	}
}

void world_fenced(struct world *w)
{
	struct tes_event ev = {.type = TES_EVENT_FENCED};
	struct fence *f;

	if (!w->n_fences)
		return;
	f = &w->fences[w->n_fences - 1 -
		       (int)world_roll(w, w->n_fences < 8
						  ? (unsigned int)w->n_fences
						  : 8)];
	if (!f->open || world_client_of(w, f->owner) < 0)
		return;
	f->open = false;
	if (!f->burial)
		revoke(w, f);
	ev.session = f->owner;
	ev.u.fenced.fence = f->id;
	ev.u.fenced.burial = f->burial;
	ev.u.fenced.confirmed = true;
	world_step(w, &ev);
}
