/* SPDX-License-Identifier: Apache-2.0 */
/* test_task.c - tasks: which there may be, and what they come to */
#include <te/te.h>

#include "tests/unit/store_core/tasks.h"

static void a_copy_is_one_more_replica(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	const struct tes_action *told;
	struct tes_core_task t;
	struct order o;
	struct rig r;

	(void)state;
	o = tasks_begin(&r, NULL, id);
	assert_int_equal(o.executor, 1);
	assert_int_equal(o.size, 1000);
	assert_int_equal(o.n, 1);
	assert_int_equal(o.address[0], base_of(1));
	assert_int_equal(tasks_query(&r, 3, id).state, TES_TASK_PROCESSING);
	assert_int_equal(tasks_at(&r, "k"), A);

	tasks_done(&r, &o);
	told = rig_find(&r, TES_ACTION_COMMITTED);
	assert_non_null(told);
	assert_int_equal(tasks_where(&r, 3, "k"), A | B);
	t = tasks_query(&r, 3, id);
	assert_int_equal(t.state, TES_TASK_SUCCESS);
	assert_int_equal(t.client[0], 'a');
	assert_false(t.move);
	assert_int_equal(rig_figures(&r).building, 0);
	assert_int_equal(rig_figures(&r).objects, 1);
	assert_int_equal(rig_figures(&r).tasks_succeeded_total, 1);
	rig_fini(&r);
}

static void copies_to_several_go_one_after_the_other(void **state)
{
	const char *targets[] = {"b", "a", "c"};
	uint8_t id[TES_CORE_ID_LEN];
	struct order o, next;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_put(&r, 4, "k", "a");
	assert_int_equal(tasks_create(&r, 4, "k", NULL, targets, 3, id), 0);
	o = tasks_order(&r);
	assert_int_equal(o.address[0] >> 32, 2);
	tasks_done(&r, &o);
	assert_int_equal(tasks_query(&r, 4, id).state, TES_TASK_PENDING);
	rig_tick(&r);
	next = tasks_order(&r);
	assert_true(next.there);
	assert_int_equal(next.address[0] >> 32, 3);
	assert_memory_not_equal(o.id, next.id, sizeof(o.id));
	tasks_done(&r, &next);
	assert_int_equal(tasks_query(&r, 4, id).state, TES_TASK_SUCCESS);
	assert_int_equal(tasks_where(&r, 4, "k"), A | B | C);
	rig_fini(&r);
}

static void what_cannot_be_copied_is_refused(void **state)
{
	const char *many[TES_CORE_TARGETS_MAX + 1];
	struct rig r;

	(void)state;
	for (size_t i = 0; i <= TES_CORE_TARGETS_MAX; i++)
		many[i] = "b";
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "a");
	assert_int_equal(rig_start(&r, 3, "building", 10).status, 0);
	assert_int_equal(tasks_copy(&r, 3, "none", "b", NULL), -704);
	assert_int_equal(tasks_copy(&r, 3, "building", "b", NULL), -703);
	assert_int_equal(tasks_copy(&r, 3, "k", "x", NULL), -101);
	assert_int_equal(tasks_move(&r, 3, "k", "b", "a", NULL), -710);
	assert_int_equal(tasks_move(&r, 3, "k", "a", "a", NULL), -600);
	assert_int_equal(tasks_create(&r, 3, "k", NULL, many, 0, NULL), -600);
	assert_int_equal(tasks_create(&r, 3, "k", NULL, many, 33, NULL), -600);
	assert_int_equal(tasks_create(&r, 3, "k", "a", many, 2, NULL), -600);
	assert_int_equal(rig_figures(&r).tasks_pending, 0);
	assert_int_equal(tasks_copy(&r, 3, "k", "b", NULL), 0);
	assert_int_equal(tasks_copy(&r, 3, "k", "b", NULL), -708);
	rig_fini(&r);
}

static void what_is_being_copied_is_neither_removed_nor_replaced(void **state)
{
	struct tes_core_key k = rig_key("k");
	struct tes_event clear = {.type = TES_EVENT_REPLICA_CLEAR,
				  .session = 3,
				  .n = 1,
				  .keys = &k};
	struct tes_event all = {.type = TES_EVENT_REMOVE_ALL, .session = 3};
	const struct tes_action *a;
	struct order o;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "a");
	tasks_put(&r, 3, "other", "a");
	assert_int_equal(tasks_copy(&r, 3, "k", "b", NULL), 0);
	o = tasks_order(&r);
	assert_int_equal(rig_remove(&r, 3, "k", false), -708);
	assert_int_equal(rig_remove(&r, 3, "k", true), -708);
	assert_int_equal(rig_start_as(&r, 3, "k", 10, NULL, NULL, true).status,
			 -708);
	assert_int_equal(rig_start(&r, 3, "k", 10).status, -705);
	clear.u.replica_clear.segment = "";
	assert_int_equal(rig_settle(&r, &clear)->u.reply.status[0], -708);
	all.u.remove_all.force = true;
	assert_null(rig_step(&r, &all));
	rig_tick(&r);
	a = rig_bury(&r);
	assert_non_null(a);
	assert_int_equal(a->u.reply.removed, 1);
	assert_int_equal(tasks_at(&r, "k"), A);

	tasks_done(&r, &o);
	assert_int_equal(tasks_at(&r, "k"), A | B);
	assert_int_equal(rig_remove(&r, 3, "k", true), 0);
	rig_fini(&r);
}

static void what_is_being_copied_is_not_evicted(void **state)
{
	struct tes_core_config c = tasks_config();
	struct order o;
	struct rig r;
	char key[16];

	(void)state;
	tasks_init(&r, &c, 2);
	tasks_put(&r, 3, "k", "a");
	assert_int_equal(tasks_copy(&r, 3, "k", "b", NULL), 0);
	o = tasks_order(&r);
	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "x%d", i);
		assert_int_equal(rig_put(&r, 3, key, 1000).status, 0);
	}
	assert_true(rig_figures(&r).evicted_objects_total > 100);
	assert_int_equal(tasks_at(&r, "k"), A);
	tasks_done(&r, &o);
	assert_int_equal(tasks_at(&r, "k"), A | B);
	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "y%d", i);
		assert_int_equal(rig_put(&r, 3, key, 1000).status, 0);
	}
	assert_int_equal(tasks_at(&r, "k"), 0);
	rig_fini(&r);
}

static void an_upsert_under_way_is_waited_for(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct grant g;
	struct order o;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "a");
	g = rig_start_as(&r, 3, "k", 500, NULL, NULL, true);
	assert_int_equal(g.status, 0);
	assert_int_equal(tasks_copy(&r, 3, "k", "b", id), 0);
	assert_false(tasks_order(&r).there);
	rig_tick(&r);
	assert_false(tasks_order(&r).there);
	/* It is about the key, and so about the new value. */
	assert_int_equal(rig_end(&r, 3, "k", g.generation), 0);
	rig_tick(&r);
	o = tasks_order(&r);
	if (o.there) { /* else it is on "b" already */
		assert_int_equal(o.generation, g.generation);
		tasks_done(&r, &o);
	}
	assert_int_equal(tasks_query(&r, 3, id).state, TES_TASK_SUCCESS);
	rig_fini(&r);
}

static void a_moved_replica_goes_when_its_readers_have(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct grant g;
	struct order o;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "a");
	g = rig_lookup(&r, 3, "k");
	assert_int_equal(tasks_move(&r, 3, "k", "a", "b", id), 0);
	o = tasks_order(&r);
	tasks_done(&r, &o);
	assert_int_equal(tasks_at(&r, "k"), A | B);
	assert_int_equal(tasks_query(&r, 3, id).state, TES_TASK_PROCESSING);
	assert_int_equal(rig_remove(&r, 3, "k", true), -708);
	rig_release(&r, 3, "k", g.generation);
	rig_pass(&r, 6000, "123");
	assert_int_equal(tasks_at(&r, "k"), B);
	assert_int_equal(tasks_query(&r, 3, id).state, TES_TASK_SUCCESS);
	assert_true(tasks_query(&r, 3, id).move);
	assert_int_equal(rig_figures(&r).objects, 1);
	rig_fini(&r);
}

static void readers_hold_a_move_up_for_one_lease_only(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "a");
	assert_int_equal(tasks_move(&r, 3, "k", "a", "b", id), 0);
	o = tasks_order(&r);
	rig_lookup(&r, 3, "k");
	tasks_done(&r, &o);
	for (int i = 0; i < 7; i++) {
		rig_lookup(&r, 3, "k");
		rig_pass(&r, 800, "123");
	}
	assert_int_equal(tasks_at(&r, "k"), B);
	assert_int_equal(tasks_query(&r, 3, id).state, TES_TASK_SUCCESS);
	rig_fini(&r);
}

static void the_only_replica_that_is_left_is_not_moved_away(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "a");
	rig_lookup(&r, 3, "k");
	assert_int_equal(tasks_move(&r, 3, "k", "a", "b", id), 0);
	o = tasks_order(&r);
	tasks_done(&r, &o);
	/* The target goes while readers are waited for. */
	assert_int_equal(rig_unmount(&r, 2, 'n'), 0);
	rig_pass(&r, 20000, "123");
	assert_int_equal(tasks_at(&r, "k"), A);
	assert_int_equal(tasks_query(&r, 3, id).state, TES_TASK_FAILED);
	assert_int_equal(tasks_query(&r, 3, id).code, -101);
	assert_int_equal(rig_remove(&r, 3, "k", true), 0);
	rig_fini(&r);
}

static void a_move_to_where_it_is_fails(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "ab");
	assert_int_equal(tasks_move(&r, 3, "k", "a", "b", id), 0);
	assert_int_equal(tasks_query(&r, 3, id).code, -711);
	assert_int_equal(tasks_at(&r, "k"), A | B);
	rig_fini(&r);
}

static void an_owner_works_on_four_at_a_time(void **state)
{
	struct order first = {.there = false};
	struct rig r;
	char key[16];

	(void)state;
	tasks_init(&r, NULL, 2);
	for (int i = 0; i < 6; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		tasks_put(&r, 3, key, "a");
		assert_int_equal(tasks_copy(&r, 3, key, "b", NULL), 0);
		assert_int_equal(tasks_order(&r).there, i < 4);
		if (!i)
			first = tasks_order(&r);
	}
	assert_int_equal(rig_figures(&r).tasks_processing, 4);
	assert_int_equal(rig_figures(&r).tasks_pending, 2);
	tasks_done(&r, &first);
	assert_true(tasks_order(&r).there);
	assert_int_equal(rig_figures(&r).tasks_processing, 4);
	assert_int_equal(rig_figures(&r).tasks_pending, 1);
	rig_fini(&r);
}

static void too_many_that_wait_are_refused(void **state)
{
	struct tes_core_config c = tasks_config();
	struct rig r;
	char key[16];

	(void)state;
	c.tasks_pending_max = 2;
	c.tasks_processing_max = 1;
	tasks_init(&r, &c, 2);
	for (int i = 0; i < 4; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		tasks_put(&r, 3, key, "a");
		assert_int_equal(tasks_copy(&r, 3, key, "b", NULL),
				 i < 3 ? 0 : -1401);
	}
	assert_int_equal(rig_figures(&r).tasks_processing, 1);
	assert_int_equal(rig_figures(&r).tasks_pending, 2);
	rig_fini(&r);
}

static int32_t put_and_copy(struct rig *r, tes_session_id s, const char *key)
{
	tasks_put(r, s, key, "a");
	return tasks_copy(r, s, key, "b", NULL);
}

/* Four clients, so a share is a fourth of the places. */
static void who_takes_all_places_leaves_others_their_share(void **state)
{
	struct tes_core_config c = tasks_config();
	struct rig r;
	char key[16];

	(void)state;
	c.tasks_pending_max = 8;
	c.tasks_processing_max = 1;
	tasks_init(&r, &c, 2);
	assert_int_equal(rig_join(&r, 4, 'x', 'X'), 0);
	for (int i = 0; i < 9; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		assert_int_equal(put_and_copy(&r, 3, key), 0);
	}
	assert_int_equal(rig_figures(&r).tasks_pending, 8);
	assert_int_equal(put_and_copy(&r, 3, "k9"), -1401);
	assert_int_equal(put_and_copy(&r, 4, "m0"), 0);
	assert_int_equal(put_and_copy(&r, 4, "m1"), 0);
	assert_int_equal(put_and_copy(&r, 4, "m2"), -1401);
	/* Its tasks stay when another life takes its place, with a new share. */
	assert_int_equal(rig_join(&r, 5, 'x', 'Y'), 0);
	rig_tick(&r);
	assert_int_equal(rig_figures(&r).tasks_pending, 10);
	assert_int_equal(put_and_copy(&r, 5, "n0"), 0);
	rig_fini(&r);
}

static void only_so_many_finished_ones_are_remembered(void **state)
{
	struct tes_core_config c = tasks_config();
	uint8_t id[3][TES_CORE_ID_LEN];
	struct order o;
	struct rig r;
	char key[16];

	(void)state;
	c.tasks_finished_max = 2;
	tasks_init(&r, &c, 2);
	for (int i = 0; i < 3; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		tasks_put(&r, 3, key, "a");
		assert_int_equal(tasks_copy(&r, 3, key, "b", id[i]), 0);
		o = tasks_order(&r);
		tasks_done(&r, &o);
	}
	assert_int_equal(tasks_query(&r, 3, id[0]).code, -1400);
	assert_int_equal(tasks_query(&r, 3, id[1]).state, TES_TASK_SUCCESS);
	assert_int_equal(tasks_query(&r, 3, id[2]).state, TES_TASK_SUCCESS);
	/* Nor is another master's known, nor an attempt's. */
	id[1][7] ^= 1;
	assert_int_equal(tasks_query(&r, 3, id[1]).code, -1400);
	assert_int_equal(tasks_query(&r, 3, o.id).code, -1400);
	rig_fini(&r);
}

static uint8_t value[150 * 1024];

/* "k" lies in one extent on "a", and "b" has several smaller holes only. */
static void init_holes(struct rig *r)
{
	struct tes_core_config c = tasks_config();
	uint32_t crc = te_crc32c(0, value, sizeof(value)), one = 1;
	struct tes_core_key k = rig_key("k");
	struct tes_event end = {
		.type = TES_EVENT_PUT_END, .session = 3, .n = 1, .keys = &k};
	struct grant g;

	rig_buries = rig_executes = true;
	rig_init(r, &c);
	assert_int_equal(rig_join(r, 3, 'w', 'W'), 0);
	rig_plain(r, TES_EVENT_HEARTBEAT, 3);
	tasks_owner(r, 1, 400 * 1024);
	assert_int_equal(rig_put(r, 3, "h0", 120 * 1024).status, 0);
	assert_int_equal(rig_put(r, 3, "h1", 100 * 1024).status, 0);
	assert_int_equal(rig_put(r, 3, "h2", 120 * 1024).status, 0);
	assert_int_equal(rig_put(r, 3, "h3", 50 * 1024).status, 0);
	assert_int_equal(rig_remove(r, 3, "h0", true), 0);
	assert_int_equal(rig_remove(r, 3, "h2", true), 0);
	tasks_owner(r, 0, 400 * 1024);
	g = rig_start(r, 3, "k", sizeof(value));
	assert_int_equal(g.address >> 32, 1);
	end.u.put_end.generations = &g.generation;
	end.u.put_end.epoch = EPOCH;
	end.u.put_end.written = &one;
	end.u.put_end.crcs = &crc;
	assert_int_equal(rig_settle(r, &end)->u.reply.status[0], 0);
}

/* As the executor has read it; @wrong: but for one byte. */
static void answer_parts(struct rig *r, const struct order *o, bool wrong)
{
	struct tes_event ev = {.type = TES_EVENT_TASK_DONE,
			       .session = o->executor};
	uint32_t crcs[16];
	size_t at = 0;

	value[sizeof(value) - 1] ^= wrong;
	for (size_t i = 0; i < o->n; i++) {
		crcs[i] = te_crc32c(0, value + at, o->length[i]);
		at += o->length[i];
	}
	assert_int_equal(at, sizeof(value));
	value[sizeof(value) - 1] ^= wrong;
	ev.u.task_done.id = o->id;
	ev.u.task_done.crcs = crcs;
	ev.u.task_done.n_crcs = o->n;
	assert_null(rig_step(r, &ev));
}

static void a_copy_cut_up_in_other_pieces_is_compared_as_a_whole(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	uint64_t used;
	struct order o;
	struct rig r;

	(void)state;
	for (size_t i = 0; i < sizeof(value); i++)
		value[i] = (uint8_t)(i * 7 + i / 251);
	init_holes(&r);
	used = rig_figures(&r).used_bytes;
	assert_int_equal(tasks_copy(&r, 3, "k", "b", id), 0);
	o = tasks_order(&r);
	assert_true(o.there && o.n > 1);
	answer_parts(&r, &o, true);
	assert_int_equal(tasks_query(&r, 3, id).code, -801);
	assert_int_equal(rig_figures(&r).used_bytes, used);

	assert_int_equal(tasks_copy(&r, 3, "k", "b", id), 0);
	o = tasks_order(&r);
	answer_parts(&r, &o, false);
	assert_int_equal(tasks_query(&r, 3, id).state, TES_TASK_SUCCESS);
	assert_int_equal(tasks_at(&r, "k"), A | B);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_is_one_more_replica),
		cmocka_unit_test(copies_to_several_go_one_after_the_other),
		cmocka_unit_test(what_cannot_be_copied_is_refused),
		cmocka_unit_test(
			what_is_being_copied_is_neither_removed_nor_replaced),
		cmocka_unit_test(what_is_being_copied_is_not_evicted),
		cmocka_unit_test(an_upsert_under_way_is_waited_for),
		cmocka_unit_test(a_moved_replica_goes_when_its_readers_have),
		cmocka_unit_test(readers_hold_a_move_up_for_one_lease_only),
		cmocka_unit_test(
			the_only_replica_that_is_left_is_not_moved_away),
		cmocka_unit_test(a_move_to_where_it_is_fails),
		cmocka_unit_test(an_owner_works_on_four_at_a_time),
		cmocka_unit_test(too_many_that_wait_are_refused),
		cmocka_unit_test(
			who_takes_all_places_leaves_others_their_share),
		cmocka_unit_test(only_so_many_finished_ones_are_remembered),
		cmocka_unit_test(
			a_copy_cut_up_in_other_pieces_is_compared_as_a_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
