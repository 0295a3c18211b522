/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tasks.h - a core with owners that execute tasks
 *
 * Sessions 1, 2 .. are owners on machines of their own, each with one segment,
 * called "a", "b" ..; the session after them has none.
 */
#ifndef TESTS_UNIT_STORE_CORE_TASKS_H
#define TESTS_UNIT_STORE_CORE_TASKS_H

#include "tests/unit/store_core/rig.h"

#define SEGMENT 0x10000u /* bytes of each */

/* Owners in a mask, see tasks_at(). */
#define A 1u
#define B 2u
#define C 4u
#define D 8u
#define E 16u

/* What an executor was sent. */
struct order {
	bool there;
	tes_session_id executor;
	uint8_t id[TES_CORE_ID_LEN];
	uint64_t generation, size;
	size_t n;
	uint64_t address[16], length[16];
};

static MAYBE struct tes_core_config tasks_config(void)
{
	struct tes_core_config c = rig_config;

	c.tasks_pending_max = c.tasks_processing_max = 100;
	c.tasks_finished_max = 100;
	c.task_pending_ms = c.task_processing_ms = 300000;
	c.task_retries = 3;
	return c;
}

static MAYBE const char *owner_name(unsigned int i)
{
	static const char *const names[] = {"a", "b", "c", "d", "e"};

	return names[i % 5];
}

/* Where owner @i's segment begins. */
static MAYBE uint64_t base_of(unsigned int i)
{
	return (uint64_t)(i + 1) << 32;
}

/* Session @s lends what is called and numbered as owner @i's segment. */
static MAYBE void tasks_lend(struct rig *r, tes_session_id s, unsigned int i,
			     uint64_t size)
{
	rig_name = owner_name(i);
	assert_int_equal(rig_mount(r, s, (char)('m' + i), base_of(i), size), 0);
	rig_name = NULL;
}

static MAYBE void tasks_owner(struct rig *r, unsigned int i, uint64_t size)
{
	static const char hosts[] = "abcde";
	tes_session_id s = i + 1;

	rig_host = &hosts[i];
	assert_int_equal(rig_join(r, s, (char)('a' + i), (char)('A' + i)), 0);
	rig_plain(r, TES_EVENT_HEARTBEAT, s);
	tasks_lend(r, s, i, size);
	rig_host = NULL;
}

static MAYBE void tasks_init(struct rig *r, const struct tes_core_config *c,
			     unsigned int n)
{
	struct tes_core_config usual = tasks_config();

	rig_buries = rig_executes = true;
	rig_init(r, c ? c : &usual);
	for (unsigned int i = 0; i < n; i++)
		tasks_owner(r, i, SEGMENT);
	assert_int_equal(rig_join(r, n + 1, 'w', 'W'), 0);
	rig_plain(r, TES_EVENT_HEARTBEAT, n + 1);
}

/* A put of 1000 bytes with a replica on each segment that @names tells. */
static MAYBE struct grant tasks_put(struct rig *r, tes_session_id s,
				    const char *key, const char *names)
{
	const char *preferred[4];
	struct tes_core_replicate how = {.replica_num = 0,
					 .preferred = preferred};
	uint32_t all;
	struct grant g;

	for (; names[how.n_preferred]; how.n_preferred++)
		preferred[how.n_preferred] = owner_name(
			(unsigned int)(names[how.n_preferred] - 'a'));
	how.replica_num = (uint32_t)how.n_preferred;
	all = (1u << how.replica_num) - 1;
	g = rig_start_as(r, s, key, 1000, &how, NULL, false);
	if (how.replica_num == 1)
		assert_int_equal(rig_end(r, s, key, g.generation), 0);
	else
		assert_int_equal(rig_end_all(r, s, key, g.generation,
					     how.replica_num, all),
				 0);
	return g;
}

/* Those of the last step, at most @room. */
static MAYBE size_t tasks_orders(const struct rig *r, struct order *out,
				 size_t room)
{
	size_t n = 0;

	for (size_t i = 0; i < r->out.n && n < room; i++) {
		const struct tes_action *a = &r->out.at[i];
		struct order *o = &out[n];

		if (a->type != TES_ACTION_TASK)
			continue;
		n++;
		*o = (struct order){.there = true, .executor = a->session};
		memcpy(o->id, a->u.task.id, sizeof(o->id));
		assert_int_equal(a->u.task.source.n, 1);
		o->generation = a->u.task.source.generation[0];
		o->size = a->u.task.source.size[0];
		o->n = a->u.task.n;
		assert_in_range(o->n, 1, 16);
		memcpy(o->address, a->u.task.address, o->n * sizeof(uint64_t));
		memcpy(o->length, a->u.task.length, o->n * sizeof(uint64_t));
	}
	return n;
}

static MAYBE struct order tasks_order(const struct rig *r)
{
	struct order o = {.there = false};

	tasks_orders(r, &o, 1);
	return o;
}

static MAYBE int32_t tasks_create(struct rig *r, tes_session_id s,
				  const char *key, const char *source,
				  const char *const *targets, size_t n,
				  uint8_t *id)
{
	struct tes_core_key k = rig_key(key);
	struct tes_event ev = {.type = TES_EVENT_TASK_CREATE,
			       .session = s,
			       .n = 1,
			       .keys = &k};
	const struct tes_action *a;

	ev.u.task_create.move = source != NULL;
	ev.u.task_create.source = source;
	ev.u.task_create.targets = targets;
	ev.u.task_create.n_targets = n;
	a = rig_step(r, &ev);
	if (!a->u.reply.code && id)
		memcpy(id, a->u.reply.task->id, TES_CORE_ID_LEN);
	return a->u.reply.code;
}

static MAYBE int32_t tasks_copy(struct rig *r, tes_session_id s,
				const char *key, const char *target,
				uint8_t *id)
{
	return tasks_create(r, s, key, NULL, &target, 1, id);
}

static MAYBE int32_t tasks_move(struct rig *r, tes_session_id s,
				const char *key, const char *source,
				const char *target, uint8_t *id)
{
	return tasks_create(r, s, key, source, &target, 1, id);
}

static MAYBE struct tes_core_task tasks_query(struct rig *r, tes_session_id s,
					      const uint8_t *id)
{
	struct tes_event ev = {.type = TES_EVENT_TASK_QUERY, .session = s};
	const struct tes_action *a;

	ev.u.task_query.id = id;
	a = rig_step(r, &ev);
	if (a->u.reply.code)
		return (struct tes_core_task){.code = a->u.reply.code};
	assert_memory_equal(a->u.reply.task->id, id, TES_CORE_ID_LEN);
	return *a->u.reply.task;
}

static MAYBE void tasks_answer(struct rig *r, const struct order *o,
			       int32_t status, bool quiet, uint32_t crc)
{
	struct tes_event ev = {.type = TES_EVENT_TASK_DONE,
			       .session = o->executor};

	ev.u.task_done.id = o->id;
	ev.u.task_done.status = status;
	ev.u.task_done.quiet = quiet;
	ev.u.task_done.crcs = &crc;
	ev.u.task_done.n_crcs = 1;
	assert_null(rig_step(r, &ev));
}

/* Done, with the checksum that rig_end() gives; those of several replicas have
 * none. */
static MAYBE void tasks_done(struct rig *r, const struct order *o)
{
	tasks_answer(r, o, 0, false, (uint32_t)o->generation * 3);
}

/* Two owners; "k" on "a" is being copied to "b", for session 3. */
static MAYBE struct order
tasks_begin(struct rig *r, const struct tes_core_config *c, uint8_t *id)
{
	struct order o;

	tasks_init(r, c, 2);
	tasks_put(r, 3, "k", "a");
	assert_int_equal(tasks_copy(r, 3, "k", "b", id), 0);
	o = tasks_order(r);
	assert_true(o.there);
	return o;
}

/* So the task has ended, and nothing is left of it. */
static MAYBE void tasks_failed(struct rig *r, tes_session_id s,
			       const uint8_t *id, int32_t code)
{
	struct tes_core_task t = tasks_query(r, s, id);

	assert_int_equal(t.state, TES_TASK_FAILED);
	assert_int_equal(t.code, code);
	assert_true(*t.message);
	assert_int_equal(rig_figures(r).tasks_processing, 0);
	assert_int_equal(rig_figures(r).tasks_pending, 0);
	assert_int_equal(rig_figures(r).building, 0);
}

/* The owners at whose segments the replicas of @key lie, as a mask. */
static MAYBE unsigned int tasks_where(struct rig *r, tes_session_id s,
				      const char *key)
{
	const struct tes_action *a =
		rig_ask(r, TES_EVENT_LOOKUP, s, key, false);
	unsigned int mask = 0;

	if (a->u.reply.status[0])
		return 0;
	for (size_t i = 0; i < a->u.reply.n_entries; i++)
		mask |= 1u << ((a->u.reply.address[i] >> 32) - 1);
	return mask;
}

/* The same without a lease. */
static MAYBE unsigned int tasks_at(const struct rig *r, const char *key)
{
	struct tes_core_place places[64];
	struct tes_core_key k = rig_key(key);
	unsigned int mask = 0;
	uint64_t size;
	size_t n = 0;

	if (tes_core_key_query(r->core, "default", &k, places, 64, &n, &size))
		return 0;
	for (size_t i = 0; i < n; i++)
		mask |= 1u << ((places[i].address >> 32) - 1);
	return mask;
}

#endif
