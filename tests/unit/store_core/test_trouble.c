/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_trouble.c - memory that is short: the n-th allocation, a full arena
 *
 * Whatever fails, the same events can go on afterwards and the books balance.
 */
#include "tests/unit/store_core/rig.h"

/* Replicas, an upsert, a group, a pin and a walk. */
static void use_replicas(struct rig *r)
{
	struct tes_core_replicate how = {.replica_num = 2,
					 .soft_pin = TES_CORE_SOFT_ENABLE};
	struct tes_event all = {.type = TES_EVENT_REMOVE_ALL, .session = 2};
	struct tes_event tick = {.type = TES_EVENT_TICK};
	struct grant g;

	rig_mount(r, 2, 'n', 0x90000, 0x10000);
	g = rig_start_as(r, 2, "r", 1000, &how, "group", false);
	/* One is there, the other may be on its way: it is fenced. */
	if (!g.status)
		rig_end_all(r, 2, "r", g.generation, 2, 1);
	g = rig_start_as(r, 2, "r", 2000, &how, NULL, true);
	if (!g.status)
		rig_end_all(r, 2, "r", g.generation, 2, 3);
	rig_start_as(r, 2, "r", 500, &how, NULL, true);
	assert_int_equal(rig_try(r, &all), 0);
	assert_int_equal(rig_try(r, &tick), 0); /* its reply comes here */
}

/* One of everything, ignoring what it answers. */
static void use_everything(struct rig *r)
{
	struct grant g;

	rig_join(r, 1, 'o', 'O');
	rig_join(r, 2, 'w', 'W');
	rig_mount(r, 1, 'm', 0x10000, 0x10000);
	g = rig_start(r, 2, "a", 1000);
	if (!g.status)
		rig_end(r, 2, "a", g.generation);
	rig_lookup(r, 2, "a");
	use_replicas(r);
	rig_start(r, 2, "b", 1000);
	rig_plain(r, TES_EVENT_LEAVE, 2);
	rig_pass(r, 5000, "1");
	rig_join(r, 3, 'w', 'V');
	rig_start(r, 3, "b", 1000);
}

static void check_balance(const struct rig *r)
{
	struct tes_core_figures f = rig_figures(r);
	struct tes_core_segment s;
	uint64_t used = 0, capacity = 0;
	size_t cursor = 0;

	while (tes_core_segment_next(r->core, &cursor, &s)) {
		used += s.suspect ? 0 : s.used;
		capacity += s.suspect ? 0 : s.size;
	}
	assert_int_equal(f.used_bytes, used);
	assert_int_equal(f.capacity_bytes, capacity);
}

static void any_allocation_may_fail(void **state)
{
	unsigned int n = 0;
	struct rig r;
	bool struck;

	(void)state;
	do {
		rig_init(&r, NULL);
		/* The arena keeps a block, so that only the core's fail. */
		assert_non_null(tei_arena_alloc(&r.arena, 60000));
		tei_arena_reset(&r.arena);
		tei_fault_arm(TEI_FAULT_ALLOC, ++n);
		use_everything(&r);
		struck = tei_fault_struck(TEI_FAULT_ALLOC);
		tei_fault_disarm_all();
		check_balance(&r);
		rig_join(&r, 4, 'x', 'X');
		assert_int_equal(rig_mount(&r, 4, 'n', 0x80000, 0x10000), 0);
		assert_int_equal(rig_put(&r, 4, "after", 1000).status, 0);
		assert_int_equal(rig_lookup(&r, 4, "after").status, 0);
		rig_fini(&r);
	} while (struck);
	assert_true(n > 5);
}

static void a_core_is_created_whole_or_not_at_all(void **state)
{
	struct tes_core *core;
	unsigned int n = 0;

	(void)state;
	for (;;) {
		int rc;

		tei_fault_arm(TEI_FAULT_ALLOC, ++n);
		rc = tes_core_create(&rig_config, &core);
		if (!rc)
			break;
		assert_int_equal(rc, -ENOMEM);
	}
	tei_fault_disarm_all();
	tes_core_destroy(core);
	assert_true(n > 3);
}

/* Step with an arena of @cap bytes. */
static int step_within(struct rig *r, struct tes_event *ev, size_t cap)
{
	struct tei_arena arena;
	struct tes_actions out = {.arena = &arena};
	int rc;

	tei_arena_init(&arena, cap);
	rc = tes_core_step(r->core, ev, r->now, &out);
	if (rc < 0)
		assert_int_equal(out.n, 0);
	tei_arena_fini(&arena);
	return rc;
}

static void check_refused_without_a_trace(struct rig *r, struct tes_event *ev)
{
	struct tes_core_figures before = rig_figures(r), after;

	assert_int_equal(step_within(r, ev, 0), -ENOMEM);
	after = rig_figures(r);
	assert_memory_equal(&before, &after, sizeof(before));
}

static void a_full_arena_leaves_the_state_as_it_was(void **state)
{
	uint8_t id[TES_CORE_ID_LEN] = {9};
	struct tes_core_key key = rig_key("a"), new_key = rig_key("new");
	uint64_t size = 100, generation;
	uint32_t crc = 0;
	uint32_t written = 1;
	struct tes_event ev = {.type = TES_EVENT_JOIN, .session = 9};
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	ev.u.join.client_id = ev.u.join.incarnation = id;
	ev.u.join.engine = "e";
	check_refused_without_a_trace(&r, &ev);

	ev = (struct tes_event){.type = TES_EVENT_MOUNT, .session = 1};
	ev.u.mount.segment = id;
	ev.u.mount.name = "n";
	ev.u.mount.base = 0x80000;
	ev.u.mount.size = 0x10000;
	check_refused_without_a_trace(&r, &ev);

	generation = rig_start(&r, 2, "a", 100).generation;
	ev = (struct tes_event){.type = TES_EVENT_PUT_START,
				.session = 2,
				.n = 1,
				.keys = &new_key};
	ev.u.put_start.sizes = &size;
	check_refused_without_a_trace(&r, &ev);

	ev.type = TES_EVENT_PUT_END;
	ev.keys = &key;
	ev.u.put_end.generations = &generation;
	ev.u.put_end.crcs = &crc;
	ev.u.put_end.written = &written;
	ev.u.put_end.epoch = EPOCH;
	check_refused_without_a_trace(&r, &ev);
	assert_int_equal(rig_end(&r, 2, "a", generation), 0);

	ev.type = TES_EVENT_REMOVE;
	ev.u.remove.force = true;
	check_refused_without_a_trace(&r, &ev);
	ev.type = TES_EVENT_LOOKUP;
	check_refused_without_a_trace(&r, &ev);
	assert_int_equal(rig_remove(&r, 2, "a", false), 0);
	rig_fini(&r);
}

static void a_fence_that_finds_no_room_goes_out_later(void **state)
{
	struct tes_event tick = {.type = TES_EVENT_TICK};
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_start(&r, 2, "a", 100);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	rig_pass(&r, rig_config.suspect_ms - 100, "1");
	r.now += 100;
	assert_int_equal(step_within(&r, &tick, 0), 0);
	assert_int_equal(rig_figures(&r).fences_total, 1);
	assert_true(tes_core_busy(r.core));
	rig_tick(&r);
	assert_int_equal(rig_find(&r, TES_ACTION_FENCE)->session, 1);
	assert_int_equal(rig_find(&r, TES_ACTION_CLOSE)->session, 2);
	assert_null(rig_find(&r, TES_ACTION_REPLY));
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_allocation_may_fail),
		cmocka_unit_test(a_core_is_created_whole_or_not_at_all),
		cmocka_unit_test(a_full_arena_leaves_the_state_as_it_was),
		cmocka_unit_test(a_fence_that_finds_no_room_goes_out_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
