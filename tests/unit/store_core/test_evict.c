/* SPDX-License-Identifier: Apache-2.0 */
/* test_evict.c - which objects go when space is short */
#include "tests/unit/store_core/rig.h"

#define SLOT (4096 - 64) /* 16 of them fill the rig's segment */

static void name(char key[16], int i)
{
	snprintf(key, 16, "k%d", i);
}

static void put_many(struct rig *r, int from, int to)
{
	char key[16];

	for (int i = from; i < to; i++) {
		name(key, i);
		assert_int_equal(rig_put(r, 2, key, SLOT).status, 0);
	}
}

/* SIZE does not touch anything. */
static bool there(struct rig *r, int i)
{
	char key[16];

	name(key, i);
	return rig_ask(r, TES_EVENT_SIZE, 2, key, false)->u.reply.status[0] ==
	       0;
}

static void a_full_pool_makes_room_for_the_new(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	put_many(&r, 0, 100);
	for (int i = 0; i < 100; i++)
		assert_int_equal(there(&r, i), i >= 84);
	assert_int_equal(rig_figures(&r).evicted_objects_total, 84);
	assert_int_equal(rig_figures(&r).evicted_bytes_total, 84 * 4096);
	assert_int_equal(rig_figures(&r).evictions_attempted_total, 84);
	assert_int_equal(rig_figures(&r).evictions_successful_total, 84);
	assert_int_equal(rig_figures(&r).used_bytes, 0x10000);
	rig_fini(&r);
}

static void what_was_asked_for_stays_longer(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	put_many(&r, 0, 16);
	g = rig_lookup(&r, 2, "k0");
	rig_release(&r, 2, "k0", g.generation);
	assert_int_equal(rig_start(&r, 2, "k1", SLOT).status, -705);
	put_many(&r, 16, 18);
	assert_true(there(&r, 0));
	assert_true(there(&r, 1));
	assert_false(there(&r, 2));
	assert_false(there(&r, 3));
	rig_fini(&r);
}

static void ticks_evict_from_high_to_low_watermark(void **state)
{
	struct tes_core_config c = rig_config;
	struct rig r;

	(void)state;
	c.high_watermark = 0.75;
	c.eviction_ratio = 0.25;
	rig_init(&r, &c);
	rig_pair(&r);
	put_many(&r, 0, 12);
	rig_tick(&r);
	assert_int_equal(rig_figures(&r).objects, 12); /* at, not above */
	assert_int_equal(rig_figures(&r).evictions_attempted_total, 0);
	put_many(&r, 12, 13);
	rig_tick(&r);
	assert_int_equal(rig_figures(&r).objects, 8);
	assert_int_equal(rig_figures(&r).evictions_attempted_total, 1);
	assert_false(tes_core_busy(r.core));
	rig_fini(&r);
}

static void a_tick_evicts_a_bounded_number(void **state)
{
	struct tes_core_config c = rig_config;
	struct rig r;
	int ticks = 0;

	(void)state;
	c.high_watermark = 0.9;
	c.eviction_ratio = 0.9;
	c.step_objects = 32; /* to look at; an eviction costs eight of these */
	rig_init(&r, &c);
	rig_pair(&r);
	put_many(&r, 0, 16);
	do {
		rig_tick(&r);
		ticks++;
	} while (tes_core_busy(r.core));
	assert_int_equal(rig_figures(&r).objects, 0);
	assert_in_range(ticks, 4, 5);
	rig_fini(&r);
}

static void make_room(struct rig *r, size_t n)
{
	struct tes_event ev = {.type = TES_EVENT_MAKE_ROOM, .n = n};

	assert_null(rig_step(r, &ev));
}

static void room_is_made_for_twice_what_was_started(void **state)
{
	struct tes_core_config c = rig_config;
	struct rig r;

	(void)state;
	c.high_watermark = 0.75;
	c.eviction_ratio = 0.5;
	rig_init(&r, &c);
	rig_pair(&r);
	put_many(&r, 0, 12);
	assert_false(tes_core_short(r.core)); /* at the watermark, not above */
	make_room(&r, 2);
	assert_int_equal(rig_figures(&r).objects, 12);
	put_many(&r, 12, 13);
	assert_true(tes_core_short(r.core));
	make_room(&r, 2);
	assert_int_equal(rig_figures(&r).objects, 9);
	assert_true(tes_core_short(r.core)); /* down to the low watermark */
	make_room(&r, 5);
	assert_int_equal(rig_figures(&r).objects, 4);
	assert_false(tes_core_short(r.core));
	make_room(&r, 5);
	assert_int_equal(rig_figures(&r).objects, 4);
	rig_fini(&r);
}

static void room_is_made_in_bounded_steps(void **state)
{
	struct tes_core_config c = rig_config;
	struct rig r;
	char key[16];

	(void)state;
	c.high_watermark = 0.5;
	c.eviction_ratio = 0.5;
	c.step_objects = 1; /* of ticks */
	rig_init(&r, &c);
	rig_pair(&r);
	for (int i = 0; i < 512; i++) {
		name(key, i);
		assert_int_equal(rig_put(&r, 2, key, 64).status, 0);
	}
	make_room(&r, SIZE_MAX);
	assert_int_equal(rig_figures(&r).objects, 512 - 2 * TES_CORE_ROOM_KEYS);
	rig_fini(&r);
}

static void a_start_evicts_a_bounded_number_and_is_asked_again(void **state)
{
	struct tes_core_config c = rig_config;
	uint64_t before = 0, evicted;
	struct grant g;
	struct rig r;
	char key[16];
	int starts = 0;

	(void)state;
	c.step_objects = 1;
	rig_init(&r, &c);
	rig_pair(&r);
	for (int i = 0; i < 512; i++) {
		name(key, i);
		assert_int_equal(rig_put(&r, 2, key, 64).status, 0);
	}
	do {
		g = rig_start(&r, 2, "large", 0x10000 - 64);
		evicted = rig_figures(&r).evicted_objects_total - before;
		assert_in_range(evicted, 1, 8);
		before += evicted;
		if (g.status)
			assert_int_equal(g.retry_ms, 1);
		starts++;
	} while (g.status == -200);
	assert_int_equal(g.status, 0);
	assert_in_range(starts, 512 / 8, 512 / 4);
	rig_fini(&r);
}

static void what_is_being_built_is_not_evicted(void **state)
{
	struct grant g;
	struct rig r;
	char key[16];

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	for (int i = 0; i < 16; i++) {
		name(key, i);
		assert_int_equal(rig_start(&r, 2, key, SLOT).status, 0);
	}
	g = rig_start(&r, 2, "k16", SLOT);
	assert_int_equal(g.status, -200);
	assert_true(g.retry_ms > 0);
	assert_int_equal(rig_figures(&r).evicted_objects_total, 0);
	rig_fini(&r);
}

static void nothing_is_evicted_for_what_can_never_fit(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	put_many(&r, 0, 16);
	assert_int_equal(rig_mount(&r, 2, 'n', 0x100000, 0x20000), 0);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	/* It would fit on the suspect segment only. */
	g = rig_start(&r, 1, "large", 0x18000);
	assert_int_equal(g.status, -200);
	assert_int_equal(g.retry_ms, 0);
	assert_int_equal(rig_figures(&r).objects, 16);
	rig_fini(&r);
}

static void objects_of_a_suspect_owner_are_not_evicted(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	put_many(&r, 0, 16);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	assert_int_equal(rig_mount(&r, 2, 'n', 0x100000, 0x10000), 0);
	put_many(&r, 16, 64);
	assert_int_equal(rig_figures(&r).objects, 32);
	assert_int_equal(rig_join(&r, 5, 'o', 'O'), 0);
	for (int i = 0; i < 16; i++)
		assert_true(there(&r, i));
	put_many(&r, 64, 128);
	assert_int_equal(rig_figures(&r).objects, 32);
	for (int i = 0; i < 16; i++)
		assert_false(there(&r, i));
	rig_fini(&r);
}

static void placement_uses_all_segments(void **state)
{
	struct tes_core_segment s;
	size_t cursor = 0;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rig_mount(&r, 1, (char)('n' + i),
					   0x100000u * (unsigned int)(i + 1),
					   0x10000),
				 0);
	put_many(&r, 0, 32);
	while (tes_core_segment_next(r.core, &cursor, &s))
		assert_true(s.used > 0);
	put_many(&r, 32, 64);
	assert_int_equal(rig_figures(&r).evicted_objects_total, 0);
	rig_fini(&r);
}

static void an_object_costs_at_most_200_bytes_beside_its_key(void **state)
{
	struct tes_core_figures before, after;
	char key[32];
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	assert_int_equal(rig_join(&r, 1, 'o', 'O'), 0);
	assert_int_equal(rig_mount(&r, 1, 'm', 0x10000, 1u << 30), 0);
	before = rig_figures(&r);
	for (int i = 0; i < 50000; i++) {
		snprintf(key, sizeof(key), "key of an object %d", i);
		assert_int_equal(rig_put(&r, 1, key, 4096).status, 0);
	}
	after = rig_figures(&r);
	print_message("%.1f bytes an object\n",
		      (double)(after.metadata_bytes - before.metadata_bytes) /
			      50000);
	assert_true(after.metadata_bytes - before.metadata_bytes <=
		    200 * 50000);
	rig_fini(&r);
}

/* Fifteen small segments, each full of one object. */
static void fill_small_segments(struct rig *r)
{
	char key[24];

	for (int i = 0; i < 15; i++) {
		rig_mount(r, 1, (char)('A' + i),
			  0x1000000 + 0x10000 * (uint64_t)i, 0x2000);
		snprintf(key, sizeof(key), "small%d", i);
		assert_int_equal(rig_put(r, 2, key, 0x2000 - 64).status, 0);
	}
}

static void what_frees_no_room_for_a_put_stays(void **state)
{
	struct tes_core_replicate how = {.replica_num = 1, .hard_pin = true};
	struct grant g;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	g = rig_start_as(&r, 2, "hard", 0xc000 - 64, &how, NULL, false);
	assert_int_equal(rig_end(&r, 2, "hard", g.generation), 0);
	assert_int_equal(rig_put(&r, 2, "fill", 0x4000 - 64).status, 0);
	fill_small_segments(&r);
	/* Not even where there is something that can go. */
	assert_int_equal(rig_start(&r, 2, "big", 0x8000).status, -200);
	assert_int_equal(rig_figures(&r).evicted_objects_total, 1);
	assert_int_equal(rig_figures(&r).objects, 16);
	/* And those that stayed go in their turn, the oldest first. */
	assert_int_equal(rig_start(&r, 2, "mid", 0x4000 - 64).status, 0);
	assert_int_equal(rig_start(&r, 2, "next", 0x2000 - 64).status, 0);
	assert_int_equal(rig_lookup(&r, 2, "small0").status, -704);
	assert_int_equal(rig_lookup(&r, 2, "small1").status, 0);
	rig_fini(&r);
}

static void what_goes_with_its_group_is_counted(void **state)
{
	struct tes_core_config c = rig_config;
	char key[24], group[24];
	struct rig r;

	(void)state;
	c.step_objects = 8;
	c.high_watermark = 0.9;
	c.eviction_ratio = 0.9;
	rig_init(&r, &c);
	rig_pair(&r);
	for (int i = 0; i < 240; i++) {
		struct grant g;

		snprintf(key, sizeof(key), "%d", i);
		snprintf(group, sizeof(group), "g%d", i % 8);
		g = rig_start_as(&r, 2, key, 256 - 64, NULL, group, false);
		assert_int_equal(g.status, 0);
		assert_int_equal(rig_end(&r, 2, key, g.generation), 0);
	}
	r.now += 10;
	rig_tick(&r);
	/* One group at most beyond the eight of a step. */
	assert_in_range(rig_figures(&r).evicted_objects_total, 8, 8 + 30);
	assert_true(tes_core_busy(r.core));
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_frees_no_room_for_a_put_stays),
		cmocka_unit_test(what_goes_with_its_group_is_counted),
		cmocka_unit_test(a_full_pool_makes_room_for_the_new),
		cmocka_unit_test(what_was_asked_for_stays_longer),
		cmocka_unit_test(ticks_evict_from_high_to_low_watermark),
		cmocka_unit_test(a_tick_evicts_a_bounded_number),
		cmocka_unit_test(room_is_made_for_twice_what_was_started),
		cmocka_unit_test(room_is_made_in_bounded_steps),
		cmocka_unit_test(
			a_start_evicts_a_bounded_number_and_is_asked_again),
		cmocka_unit_test(what_is_being_built_is_not_evicted),
		cmocka_unit_test(nothing_is_evicted_for_what_can_never_fit),
		cmocka_unit_test(objects_of_a_suspect_owner_are_not_evicted),
		cmocka_unit_test(placement_uses_all_segments),
		cmocka_unit_test(
			an_object_costs_at_most_200_bytes_beside_its_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
