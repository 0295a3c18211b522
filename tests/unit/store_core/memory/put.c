/* SPDX-License-Identifier: Apache-2.0 */
/* put.c - puts, removes and look-ups */
#include "tests/unit/store_core/memory/world.h"

static void take_grant(struct world *w, const struct tes_action *a, int c,
		       int k, uint64_t size)
{
	bool many = a->u.reply.extents != NULL;
	uint64_t at = 0;
	struct flight *f = world_new_flight(w);

	f->client = c;
	f->life = w->clients[c].life;
	f->key = k;
	f->size = size;
	f->generation = a->u.reply.generation[0];
	CHECK(w, f->generation < N_GENS);
	w->key_of[f->generation] = 1 + k;
	for (size_t i = 0; i < (many ? a->u.reply.extents[0] : 1); i++) {
		struct part p = {
			.mount = world_mount_at(a->u.reply.address[i]),
			.address = a->u.reply.address[i],
			.length = many ? a->u.reply.length[i] : size,
			.replica = many ? a->u.reply.replica[i] : 0,
		};

		if (i && p.replica != f->parts[i - 1].replica)
			at = 0;
		p.at = at;
		at += p.length;
		CHECK(w, f->n < PARTS);
		f->parts[f->n++] = p;
	}
	world_check_alone(w, f);
}

void world_start(struct world *w)
{
	struct tes_event ev = {.type = TES_EVENT_PUT_START, .n = 1};
	int c = world_any_client(w), k = (int)world_roll(w, N_KEYS);
	struct tes_core_replicate how = {.replica_num = 1 + world_roll(w, 2)};
	struct tes_core_key key = rig_key(world_key_name(k));
	uint64_t size = UNIT * (1 + world_roll(w, 60));
	const struct tes_action *a;

	if (c < 0)
		return;
	ev.session = w->clients[c].number;
	ev.keys = &key;
	ev.u.put_start.sizes = &size;
	ev.u.put_start.how = &how;
	ev.u.put_start.upsert = !world_roll(w, 3);
	a = world_step(w, &ev);
	if (!a)
		return;
	world_met.busy += a->u.reply.status[0] == -708;
	if (!a->u.reply.status[0])
		take_grant(w, a, c, k, size);
}

void world_end(struct world *w)
{
	struct tes_event ev = {.type = TES_EVENT_PUT_END, .n = 1};
	struct flight *f = world_any_flight(w, false);
	uint32_t crcs[PARTS], n, written = 0, quiet = UINT32_MAX;
	bool ok = world_roll(w, 6);
	struct tes_core_key key;

	if (!f || f->done || f->life != w->clients[f->client].life ||
	    !w->clients[f->client].number)
		return;
	n = (uint32_t)f->n;
	for (int p = 0; p < f->n; p++) {
		world_write(w, f, &f->parts[p], ok);
		crcs[p] = world_crc_of(w, &f->parts[p]);
		written |= 1u << f->parts[p].replica;
	}
	for (int p = 0; p < f->n; p++)
		if (!world_can_land(w, &f->parts[p]) || !ok)
			written &= ~(1u << f->parts[p].replica);
	if (!ok)
		quiet = world_roll(w, 2) ? UINT32_MAX : 0;
	key = rig_key(world_key_name(f->key));
	ev.session = w->clients[f->client].number;
	ev.keys = &key;
	ev.u.put_end.generations = &f->generation;
	ev.u.put_end.extents = &n;
	ev.u.put_end.crcs = crcs;
	ev.u.put_end.written = &written;
	ev.u.put_end.quiet = &quiet;
	ev.u.put_end.epoch = EPOCH;
	f->done = true;
	if (quiet)
		f->there = false;
	if (rig_figures(&w->rig).building || !w->faulty)
		world_step(w, &ev);
}

void world_remove(struct world *w)
{
	struct tes_event ev = {.type = TES_EVENT_REMOVE, .n = 1};
	struct tes_core_key key =
		rig_key(world_key_name((int)world_roll(w, N_KEYS)));
	int c = world_any_client(w);
	const struct tes_action *a;

	if (c < 0)
		return;
	ev.session = w->clients[c].number;
	ev.keys = &key;
	ev.u.remove.force = world_roll(w, 2);
	a = world_step(w, &ev);
	world_met.busy += a && a->u.reply.status[0] == -708;
}

void world_lookup(struct world *w)
{
	struct tes_event ev = {.type = TES_EVENT_LOOKUP, .n = 1};
	struct tes_core_key key =
		rig_key(world_key_name((int)world_roll(w, N_KEYS)));
	int c = world_any_client(w);

	if (c < 0)
		return;
	ev.session = w->clients[c].number;
	ev.keys = &key;
	world_step(w, &ev);
}
