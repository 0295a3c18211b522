/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drains.h - a core whose owners do what it asks of them, while it drains
 */
#ifndef TESTS_UNIT_STORE_CORE_DRAINS_H
#define TESTS_UNIT_STORE_CORE_DRAINS_H

#include "tests/unit/store_core/tasks.h"

/* What owners have yet to do. */
struct work {
	struct order orders[256];
	struct rig_burial burials[256];
	size_t n_orders, n_burials;
	int32_t refuse; /* every copy, with this code; 0: none */
	size_t done;    /* orders */
};

/* What the last step asked for. */
static MAYBE void work_take(const struct rig *r, struct work *w)
{
	w->n_orders +=
		tasks_orders(r, &w->orders[w->n_orders], 256 - w->n_orders);
	w->n_burials +=
		rig_burials(r, &w->burials[w->n_burials], 256 - w->n_burials);
}

/* One step of it; false: nothing is left to do. */
static MAYBE bool work_step(struct rig *r, struct work *w)
{
	if (w->n_burials) {
		struct rig_burial b = w->burials[--w->n_burials];

		rig_buried(r, b.owner, b.number);
	} else if (w->n_orders) {
		struct order o = w->orders[--w->n_orders];

		tasks_answer(r, &o, w->refuse, true,
			     (uint32_t)o.generation * 3);
		w->done++;
	} else {
		return false;
	}
	return true;
}

/* All of it, and what comes of it. */
static MAYBE void work_do(struct rig *r, struct work *w)
{
	while (work_step(r, w))
		work_take(r, w);
}

/* A tick 100 ms later, the listed sessions being alive. */
static MAYBE void work_tick(struct rig *r, struct work *w, const char *alive)
{
	r->now += 100;
	for (const char *s = alive; *s; s++) {
		rig_plain(r, TES_EVENT_HEARTBEAT, (tes_session_id)(*s - '0'));
		work_take(r, w);
	}
	rig_tick(r);
}

/* Let @ms pass in such ticks. */
static MAYBE void work_pass(struct rig *r, struct work *w, const char *alive,
			    uint64_t ms)
{
	for (uint64_t end = r->now + ms; r->now < end;) {
		work_tick(r, w, alive);
		work_take(r, w);
		work_do(r, w);
	}
}

/* The same from what the last step asked for on, and nothing fails. */
static MAYBE void drains_work(struct rig *r, const char *alive, uint64_t ms)
{
	struct work w = {.n_orders = 0};

	work_take(r, &w);
	work_do(r, &w);
	work_pass(r, &w, alive, ms);
}

/* Each letter of @segments and @targets names one. */
static MAYBE int32_t drains_create(struct rig *r, const char *segments,
				   const char *targets, uint32_t at_a_time,
				   uint8_t *id)
{
	const char *sources[8], *others[8];
	struct tes_event ev = {.type = TES_EVENT_DRAIN_CREATE};
	const struct tes_action *a;
	size_t n = 0, m = 0;

	for (; segments[n]; n++)
		sources[n] = owner_name((unsigned int)(segments[n] - 'a'));
	for (; targets[m]; m++)
		others[m] = owner_name((unsigned int)(targets[m] - 'a'));
	ev.u.drain_create.segments = sources;
	ev.u.drain_create.n_segments = n;
	ev.u.drain_create.targets = others;
	ev.u.drain_create.n_targets = m;
	ev.u.drain_create.at_a_time = at_a_time;
	a = rig_step(r, &ev);
	if (!a->u.reply.code && id)
		memcpy(id, a->u.reply.drain->id, TES_CORE_ID_LEN);
	return a->u.reply.code;
}

/* A job that empties @segments, to wherever there is room. */
static MAYBE void drains_begin(struct rig *r, const char *segments, uint8_t *id)
{
	assert_int_equal(drains_create(r, segments, "", 0, id), 0);
}

/* @n owners, and a job that empties "a", where all there is is "k". */
static MAYBE void drains_init(struct rig *r, unsigned int n, uint8_t *id)
{
	tasks_init(r, NULL, n);
	tasks_put(r, n + 1, "k", "a");
	drains_begin(r, "a", id);
}

/* Objects "1", "2" .. on "a". */
static MAYBE void drains_fill(struct rig *r, tes_session_id s, unsigned int n)
{
	char key[12];

	for (unsigned int i = 1; i <= n; i++) {
		snprintf(key, sizeof(key), "%u", i);
		tasks_put(r, s, key, "a");
	}
}

/* The start of a put of 1000 bytes that is to be on "a" alone. */
static MAYBE struct grant drains_start(struct rig *r, tes_session_id s,
				       const char *key, bool hard_pin)
{
	const char *name = "a";
	const struct tes_core_replicate how = {.replica_num = 1,
					       .hard_pin = hard_pin,
					       .preferred = &name,
					       .n_preferred = 1};

	return rig_start_as(r, s, key, 1000, &how, NULL, false);
}

/* The code alone when there is none. */
static MAYBE struct tes_core_drain drains_query(struct rig *r,
						const uint8_t *id)
{
	struct tes_event ev = {.type = TES_EVENT_DRAIN_QUERY};
	const struct tes_action *a;

	ev.u.drain.id = id;
	a = rig_step(r, &ev);
	if (a->u.reply.code)
		return (struct tes_core_drain){.code = a->u.reply.code};
	assert_memory_equal(a->u.reply.drain->id, id, TES_CORE_ID_LEN);
	return *a->u.reply.drain;
}

/* Does as drains_work(), by the end of which the job has succeeded. */
static MAYBE void drains_finish(struct rig *r, const char *alive, uint64_t ms,
				const uint8_t *id)
{
	drains_work(r, alive, ms);
	assert_int_equal(drains_query(r, id).state, TES_DRAIN_SUCCEEDED);
}

static MAYBE int32_t drains_cancel(struct rig *r, const uint8_t *id)
{
	struct tes_event ev = {.type = TES_EVENT_DRAIN_CANCEL};

	ev.u.drain.id = id;
	return rig_step(r, &ev)->u.reply.code;
}

/* Of the segment called @name; 0: there is none. */
static MAYBE int drains_status(const struct rig *r, const char *name)
{
	struct tes_core_segment segment;
	size_t cursor = 0;

	while (tes_core_segment_next(r->core, &cursor, &segment))
		if (strcmp(segment.name, name) == 0)
			return (int)segment.status;
	return 0;
}

/* @ev, which finds no memory for its answer, does nothing to "a". */
static MAYBE void drains_unanswered(struct rig *r, struct tes_event *ev)
{
	struct tei_arena small;

	tei_arena_init(&small, 1);
	r->out = (struct tes_actions){.arena = &small};
	assert_int_equal(tes_core_step(r->core, ev, r->now, &r->out), -ENOMEM);
	tei_arena_fini(&small);
	assert_int_equal(drains_status(r, "a"), TES_CORE_SEGMENT_OK);
	assert_int_equal(rig_figures(r).drains_active, 0);
}

/* An owner wants to leave with segment @id, or with all (0). The code when it
 * is refused; 0: the answer comes later. */
static MAYBE int32_t drains_leave(struct rig *r, tes_session_id s, char id,
				  uint64_t timeout_ms)
{
	struct tes_event ev = {.type = TES_EVENT_DRAIN_LEAVE, .session = s};
	uint8_t segment[TES_CORE_ID_LEN];
	const struct tes_action *a;

	memset(segment, id, sizeof(segment));
	ev.u.drain_leave.segment = id ? segment : NULL;
	ev.u.drain_leave.timeout_ms = timeout_ms;
	a = rig_step(r, &ev);
	return a ? a->u.reply.code : 0;
}

#endif
