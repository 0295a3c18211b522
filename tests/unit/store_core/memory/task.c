/* SPDX-License-Identifier: Apache-2.0 */
/* task.c - copies, moves and drains */
#include "tests/unit/store_core/memory/world.h"

void world_create(struct world *w)
{
	struct tes_event ev = {.type = TES_EVENT_TASK_CREATE, .n = 1};
	struct tes_core_key key =
		rig_key(world_key_name((int)world_roll(w, N_KEYS)));
	const char *targets[2];
	int c = world_any_client(w);

	if (c < 0)
		return;
	targets[0] = world_segment_name((int)world_roll(w, N_CLIENTS));
	targets[1] = world_segment_name((int)world_roll(w, N_CLIENTS));
	ev.session = w->clients[c].number;
	ev.keys = &key;
	ev.u.task_create.targets = targets;
	ev.u.task_create.move = world_roll(w, 2);
	ev.u.task_create.n_targets =
		ev.u.task_create.move ? 1 : 1 + world_roll(w, 2);
	ev.u.task_create.source =
		world_segment_name((int)world_roll(w, N_CLIENTS));
	if (!world_step(w, &ev))
		return;
	world_met.copies += !ev.u.task_create.move;
	world_met.moves += ev.u.task_create.move;
}

/* The executor of some task has an answer. */
void world_answer(struct world *w)
{
	struct tes_event ev = {.type = TES_EVENT_TASK_DONE};
	struct flight *f = world_any_flight(w, true);
	bool ok = world_roll(w, 8), all = true, wrong = !world_roll(w, 12);
	uint32_t crcs[PARTS];

	if (!f || f->done || f->life != w->clients[f->client].life ||
	    !w->clients[f->client].number)
		return;
	for (int p = 0; p < f->n; p++) {
		world_write(w, f, &f->parts[p], ok);
		all &= world_can_land(w, &f->parts[p]);
		/* Read wrong, and copied so. */
		if (wrong && world_can_land(w, &f->parts[p]))
			*world_unit_at(w, f->parts[p].address + UNIT) ^= 1u
									 << 19;
		crcs[p] = world_crc_of(w, &f->parts[p]);
	}
	if (!ok || !all)
		ev.u.task_done.status = -800;
	ev.session = w->clients[f->client].number;
	ev.u.task_done.id = f->id;
	ev.u.task_done.quiet = world_roll(w, 2);
	ev.u.task_done.crcs = crcs;
	ev.u.task_done.n_crcs = (size_t)f->n;
	world_met.done += !ev.u.task_done.status;
	world_met.wrong += wrong && !ev.u.task_done.status;
	world_met.failed += ev.u.task_done.status != 0;
	f->done = true;
	if (!ev.u.task_done.status || ev.u.task_done.quiet)
		f->there = false;
	world_step(w, &ev);
}

/* Bytes arrive, with or without anybody who waits for them. */
void world_land(struct world *w)
{
	struct flight *f = world_any_flight(w, world_roll(w, 2));

	if (!f)
		return;
	for (int p = 0; p < f->n; p++)
		world_write(w, f, &f->parts[p], world_roll(w, 2));
	world_met.late_lands +=
		f->done || f->life != w->clients[f->client].life;
}

static void do_job(struct world *w)
{
	struct tes_event ev = {.type = TES_EVENT_DRAIN_CREATE};
	unsigned int first = world_roll(w, N_CLIENTS), second = first + 1;
	const struct tes_action *a;
	const char *names[2];

	names[0] = world_segment_name((int)first);
	names[1] = world_segment_name((int)(second % N_CLIENTS));
	ev.u.drain_create.segments = names;
	ev.u.drain_create.n_segments = 1 + !world_roll(w, 4);
	ev.u.drain_create.at_a_time = world_roll(w, 4);
	a = world_step(w, &ev);
	if (!a)
		return;
	world_met.drains++;
	memcpy(w->job, a->u.reply.drain->id, sizeof(w->job));
}

static void do_cancel(struct world *w)
{
	struct tes_event ev = {.type = TES_EVENT_DRAIN_CANCEL};

	ev.u.drain.id = w->job;
	world_met.cancels += world_step(w, &ev) != NULL;
}

static void do_leave(struct world *w)
{
	struct tes_event ev = {.type = TES_EVENT_DRAIN_LEAVE};
	int c = world_any_client(w);

	if (c < 0)
		return;
	ev.session = w->clients[c].number;
	ev.u.drain_leave.timeout_ms = world_roll(w, 1000);
	world_step(w,
		   &ev); /* most are answered late, or not: it goes on or not */
	world_met.leaves++;
}

void world_drain(struct world *w)
{
	unsigned int what = world_roll(w, 8);

	if (what < 4)
		do_job(w);
	else if (what < 7)
		do_cancel(w);
	else
		do_leave(w);
}
