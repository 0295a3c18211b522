/* SPDX-License-Identifier: Apache-2.0 */
/* test_read.c - look-up, release, exist, size, remove, and their leases */
#include "tests/unit/store_core/rig.h"

/* An owner (session 1), and a writer (2) that has put "a". */
static struct grant start_with_a(struct rig *r)
{
	rig_init(r, NULL);
	rig_pair(r);
	return rig_put(r, 2, "a", 10);
}

static void what_was_never_put_is_not_found(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(rig_lookup(&r, 1, "a").status, -704);
	assert_int_equal(rig_exist(&r, 1, "a"), 0);
	assert_int_equal(rig_remove(&r, 1, "a", true), -704);
	assert_int_equal(
		rig_ask(&r, TES_EVENT_SIZE, 1, "a", false)->u.reply.status[0],
		-704);
	assert_int_equal(rig_remove(&r, 1, "", true), -600);
	rig_fini(&r);
}

static void a_size_is_told_without_a_lease(void **state)
{
	const struct tes_action *a;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_put(&r, 2, "a", 123);
	a = rig_ask(&r, TES_EVENT_SIZE, 1, "a", false);
	assert_int_equal(a->u.reply.status[0], 0);
	assert_int_equal(a->u.reply.size[0], 123);
	assert_int_equal(rig_remove(&r, 1, "a", false), 0);
	rig_fini(&r);
}

static void a_lease_refuses_remove_until_its_time(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_put(&r, 2, "read", 10);
	rig_put(&r, 2, "seen", 10);
	assert_int_equal(rig_lookup(&r, 1, "read").status, 0);
	assert_int_equal(rig_exist(&r, 1, "seen"), 1);
	rig_pass(&r, rig_config.lease_ttl_ms - 1, "12");
	assert_int_equal(rig_remove(&r, 1, "read", false), -706);
	assert_int_equal(rig_remove(&r, 1, "seen", false), -706);
	rig_pass(&r, 1, "12");
	assert_int_equal(rig_remove(&r, 1, "read", false), 0);
	assert_int_equal(rig_remove(&r, 1, "seen", false), 0);
	assert_int_equal(rig_figures(&r).used_bytes, 0);
	rig_fini(&r);
}

static void force_removes_what_is_leased_but_not_what_is_built(void **state)
{
	struct rig r;

	(void)state;
	start_with_a(&r);
	rig_lookup(&r, 1, "a");
	assert_int_equal(rig_remove(&r, 1, "a", true), 0);
	rig_start(&r, 2, "b", 10);
	assert_int_equal(rig_remove(&r, 1, "b", true), -703);
	rig_fini(&r);
}

static void a_released_lease_still_refuses_remove(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	g = start_with_a(&r);
	rig_lookup(&r, 1, "a");
	rig_release(&r, 1, "a", g.generation);
	rig_release(&r, 1, "a", g.generation);
	assert_int_equal(rig_remove(&r, 1, "a", false), -706);
	rig_pass(&r, rig_config.lease_ttl_ms, "12");
	assert_int_equal(rig_remove(&r, 1, "a", false), 0);
	rig_release(&r, 1, "a", g.generation);
	rig_fini(&r);
}

/* Whether a put of all 64 KiB finds room, that is, evicts everything. */
static bool all_can_go(struct rig *r)
{
	return rig_start(r, 2, "all", 0x10000 - 64).status == 0;
}

/* Session @s is the last that reads "a". */
static void check_last(struct rig *r, tes_session_id s, uint64_t generation)
{
	assert_false(all_can_go(r));
	rig_release(r, s, "a", generation);
	assert_true(all_can_go(r));
}

static void
a_read_lease_holds_off_eviction_until_all_readers_are_done(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	g = start_with_a(&r);
	rig_lookup(&r, 1, "a");
	rig_lookup(&r, 2, "a");
	assert_false(all_can_go(&r));
	rig_release(&r, 1, "a", g.generation + 1);
	rig_release(&r, 1, "a", g.generation);
	check_last(&r, 2, g.generation);
	assert_int_equal(rig_lookup(&r, 1, "a").status, -704);
	rig_fini(&r);
}

static void a_late_release_ends_nobody_elses_lease(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	g = start_with_a(&r);
	rig_lookup(&r, 1, "a");
	rig_pass(&r, rig_config.lease_ttl_ms, "12");
	rig_lookup(&r, 2, "a");
	rig_release(&r, 1, "a", g.generation);
	check_last(&r, 2, g.generation);
	rig_fini(&r);
}

static void a_release_said_twice_ends_nobody_elses_lease(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	g = start_with_a(&r);
	rig_lookup(&r, 1, "a");
	rig_release(&r, 2, "a", g.generation);
	assert_false(all_can_go(&r));
	rig_lookup(&r, 1, "a");
	rig_lookup(&r, 2, "a");
	for (int i = 0; i < 4; i++)
		rig_release(&r, 2, "a", g.generation);
	rig_release(&r, 1, "a", g.generation);
	check_last(&r, 1, g.generation);
	rig_fini(&r);
}

static struct grant start_with_three_readers(struct rig *r)
{
	struct grant g = start_with_a(r);

	assert_int_equal(rig_join(r, 3, 'x', 'X'), 0);
	for (tes_session_id s = 1; s <= 3; s++)
		rig_lookup(r, s, "a");
	return g;
}

static void leases_of_three_readers_end_by_time(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	g = start_with_three_readers(&r);
	for (tes_session_id s = 1; s <= 3; s++)
		rig_release(&r, s, "a", g.generation);
	assert_false(all_can_go(&r));
	rig_pass(&r, rig_config.lease_ttl_ms, "12");
	assert_true(all_can_go(&r));
	rig_fini(&r);
}

static void readers_are_told_apart_again_when_all_are_forgotten(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	g = start_with_three_readers(&r);
	rig_pass(&r, 2 * rig_config.lease_ttl_ms, "12");
	rig_lookup(&r, 1, "a");
	check_last(&r, 1, g.generation);
	rig_fini(&r);
}

static void a_reader_who_never_releases_is_forgotten(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	g = start_with_a(&r);
	rig_lookup(&r, 1, "a");
	/* Its lease, and as long again. */
	rig_pass(&r, 2 * rig_config.lease_ttl_ms, "12");
	rig_lookup(&r, 2, "a");
	check_last(&r, 2, g.generation);
	rig_fini(&r);
}

static void an_existence_check_does_not_hold_off_eviction(void **state)
{
	struct rig r;

	(void)state;
	start_with_a(&r);
	assert_int_equal(rig_exist(&r, 1, "a"), 1);
	assert_true(all_can_go(&r));
	rig_fini(&r);
}

static void a_full_pool_says_when_a_lease_ends(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	start_with_a(&r);
	rig_lookup(&r, 1, "a");
	rig_pass(&r, 1000, "12");
	rig_put(&r, 2, "b", 10);
	rig_lookup(&r, 1, "b");
	g = rig_start(&r, 2, "all", 0x10000 - 64);
	assert_int_equal(g.status, -200);
	assert_int_equal(g.retry_ms, rig_config.lease_ttl_ms - 1000);
	assert_int_equal(rig_figures(&r).alloc_failures_total, 1);
	rig_pass(&r, rig_config.lease_ttl_ms, "12");
	assert_true(all_can_go(&r));
	rig_fini(&r);
}

static void a_lease_that_is_over_yields_before_the_next_tick(void **state)
{
	struct tes_core_config c = rig_config;
	struct rig r;

	(void)state;
	c.lease_ttl_ms = 500;
	rig_init(&r, &c);
	rig_pair(&r);
	rig_put(&r, 2, "a", 10);
	rig_lookup(&r, 1, "a");
	r.now += 499;
	assert_false(all_can_go(&r));
	r.now += 1;
	assert_true(all_can_go(&r));
	rig_fini(&r);
}

static void a_batch_is_answered_key_by_key(void **state)
{
	struct tes_core_key k[3] = {rig_key("a"), rig_key("none"),
				    rig_key("b")};
	struct tes_event ev = {
		.type = TES_EVENT_LOOKUP, .session = 2, .n = 3, .keys = k};
	const struct tes_action *a;
	struct rig r;

	(void)state;
	start_with_a(&r);
	rig_put(&r, 2, "b", 20);
	a = rig_step(&r, &ev);
	assert_int_equal(a->u.reply.n, 3);
	assert_int_equal(a->u.reply.status[0], 0);
	assert_int_equal(a->u.reply.status[1], -704);
	assert_int_equal(a->u.reply.status[2], 0);
	assert_int_equal(a->u.reply.size[2], 20);
	assert_int_equal(a->u.reply.n_segments, 1);
	assert_int_equal(a->u.reply.lease_ms, rig_config.lease_ttl_ms);
	ev.n = 0;
	assert_int_equal(rig_step(&r, &ev)->u.reply.code, -600);
	rig_fini(&r);
}

/* ---- batches in parts ---- */

#define MANY 100u

static void name_many(char names[MANY][8], struct tes_core_key keys[MANY])
{
	for (size_t i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "k%zu", i % (MANY - 1));
		keys[i] = rig_key(names[i]);
	}
}

/* The next part of @ev; what it was told, up to then. */
static const struct tes_action *step_part(struct rig *r, struct tes_event *ev)
{
	struct tes_core_part *part = ev->part;

	part->from = part->to;
	part->to = ev->n - part->from > TES_CORE_PART
			   ? part->from + TES_CORE_PART
			   : ev->n;
	assert_int_equal(tes_core_step(r->core, ev, r->now, &r->out), 0);
	assert_true(r->out.n > 0);
	r->out.n = 1;
	return &r->out.at[0];
}

static const struct tes_action *step_parts(struct rig *r, struct tes_event *ev)
{
	const struct tes_action *a;

	tei_arena_reset(&r->arena);
	r->out = (struct tes_actions){.arena = &r->arena};
	ev->cookie = ++r->cookie;
	do {
		a = step_part(r, ev);
	} while (ev->part->to < ev->n);
	assert_int_equal(a->type, TES_ACTION_REPLY);
	assert_int_equal(a->cookie, ev->cookie);
	return a;
}

/* Puts and reads of MANY keys, of which the last is the first once more. */
static void a_batch_may_be_handled_in_parts(void **state)
{
	uint64_t sizes[MANY], generations[MANY];
	uint32_t written[MANY], crcs[MANY];
	struct tes_core_part parts[3] = {{0}, {0}, {0}};
	struct tes_core_key keys[MANY];
	struct tes_event ev = {
		.type = TES_EVENT_PUT_START, .session = 2, .n = MANY};
	const struct tes_action *a;
	char names[MANY][8];
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	name_many(names, keys);
	for (size_t i = 0; i < MANY; i++) {
		sizes[i] = 10 + i;
		written[i] = 1;
		crcs[i] = (uint32_t)i;
	}
	ev.keys = keys;
	ev.u.put_start.sizes = sizes;
	ev.u.put_start.upsert = true;
	ev.part = &parts[0];
	a = step_parts(&r, &ev);
	assert_int_equal(a->u.reply.n, MANY);
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(a->u.reply.status[i],
				 i == MANY - 1 ? -705 : 0);
	memcpy(generations, a->u.reply.generation, sizeof(generations));
	memset(&ev.u, 0, sizeof(ev.u));
	ev.type = TES_EVENT_PUT_END;
	ev.n = MANY - 1;
	ev.u.put_end.generations = generations;
	ev.u.put_end.written = written;
	ev.u.put_end.crcs = crcs;
	ev.u.put_end.epoch = EPOCH;
	ev.part = &parts[1];
	a = step_parts(&r, &ev);
	for (size_t i = 0; i < ev.n; i++)
		assert_int_equal(a->u.reply.status[i], 0);
	memset(&ev.u, 0, sizeof(ev.u));
	ev.type = TES_EVENT_LOOKUP;
	ev.n = MANY;
	ev.part = &parts[2];
	a = step_parts(&r, &ev);
	for (size_t i = 0; i < MANY; i++) {
		assert_int_equal(a->u.reply.status[i], 0);
		assert_int_equal(a->u.reply.size[i], sizes[i % (MANY - 1)]);
		assert_int_equal(a->u.reply.crc[i], i % (MANY - 1));
		assert_string_equal(
			a->u.reply.segments[a->u.reply.segment[i]].engine,
			"o:1");
	}
	rig_fini(&r);
}

/* Between two parts others ask, and the owner of everything goes. */
static void others_come_between_two_parts(void **state)
{
	struct tes_core_key keys[MANY];
	struct tes_core_part part = {0};
	struct tes_event ev = {.type = TES_EVENT_EXIST,
			       .session = 2,
			       .n = MANY,
			       .keys = keys,
			       .part = &part};
	struct tes_actions mine;
	char names[MANY][8];
	struct tei_arena arena;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	name_many(names, keys);
	assert_int_equal(rig_put(&r, 2, "k0", 100).status, 0);
	assert_int_equal(rig_put(&r, 2, "k99", 100).status, 0);
	tei_arena_init(&arena, 1 << 20);
	mine = (struct tes_actions){.arena = &arena};
	ev.cookie = ++r.cookie;
	part.to = TES_CORE_PART;
	assert_int_equal(tes_core_step(r.core, &ev, r.now, &mine), 0);
	assert_int_equal(mine.n, 1);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	assert_int_equal(rig_exist(&r, 2, "k0"), 0);
	part.from = TES_CORE_PART;
	part.to = MANY;
	assert_int_equal(tes_core_step(r.core, &ev, r.now, &mine), 0);
	assert_int_equal(mine.at[0].u.reply.status[0], 1);
	for (size_t i = 1; i < MANY - 1; i++)
		assert_int_equal(mine.at[0].u.reply.status[i], 0);
	tes_core_part_abort(r.core, &part);
	tei_arena_fini(&arena);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_never_put_is_not_found),
		cmocka_unit_test(a_size_is_told_without_a_lease),
		cmocka_unit_test(a_lease_refuses_remove_until_its_time),
		cmocka_unit_test(
			force_removes_what_is_leased_but_not_what_is_built),
		cmocka_unit_test(a_released_lease_still_refuses_remove),
		cmocka_unit_test(
			a_read_lease_holds_off_eviction_until_all_readers_are_done),
		cmocka_unit_test(a_late_release_ends_nobody_elses_lease),
		cmocka_unit_test(a_release_said_twice_ends_nobody_elses_lease),
		cmocka_unit_test(leases_of_three_readers_end_by_time),
		cmocka_unit_test(
			readers_are_told_apart_again_when_all_are_forgotten),
		cmocka_unit_test(a_reader_who_never_releases_is_forgotten),
		cmocka_unit_test(an_existence_check_does_not_hold_off_eviction),
		cmocka_unit_test(a_full_pool_says_when_a_lease_ends),
		cmocka_unit_test(
			a_lease_that_is_over_yields_before_the_next_tick),
		cmocka_unit_test(a_batch_is_answered_key_by_key),
		cmocka_unit_test(a_batch_may_be_handled_in_parts),
		cmocka_unit_test(others_come_between_two_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
