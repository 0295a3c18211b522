/* SPDX-License-Identifier: Apache-2.0 */
/* test_inventory.c - what an owner knows of the objects in its segment */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/chance.h"
#include "base/mem.h"
#include "store/owner/inventory.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"

#define SIZE  65536u
#define EPOCH 9u

/* An object of one extent. */
static int add(struct tes_inventory *d, const char *key, uint64_t generation,
	       uint64_t offset, uint64_t length)
{
	const struct tes_inventory_place place = {
		.offset = offset, .length = length, .crc = (uint32_t)offset};
	const struct tes_inventory_entry entry = {
		.key = key,
		.key_len = strlen(key),
		.generation = generation,
		.gen_epoch = EPOCH,
		.size = length,
		.places = &place,
		.n_places = 1,
	};

	return tes_inventory_add(d, &entry);
}

/* One of three extents: 1000 bytes at each offset. */
static int add_three(struct tes_inventory *d, const char *key,
		     uint64_t generation, const uint64_t offset[3])
{
	struct tes_inventory_place places[3];
	const struct tes_inventory_entry entry = {
		.key = key,
		.key_len = strlen(key),
		.generation = generation,
		.gen_epoch = EPOCH,
		.size = 3000,
		.no_crc = true,
		.places = places,
		.n_places = 3,
	};

	for (size_t i = 0; i < 3; i++)
		places[i] = (struct tes_inventory_place){
			.offset = offset[i], .length = 1000, .crc = 7};
	return tes_inventory_add(d, &entry);
}

static bool has(const struct tes_inventory *d, uint64_t offset,
		uint64_t generation)
{
	return tes_inventory_find(d, offset, EPOCH, generation) != NULL;
}

static void an_object_is_found_by_any_of_its_places(void **state)
{
	const uint64_t at[3] = {4096, 0, 8192};
	const struct tes_inventory_object *o;
	struct tes_inventory d;

	(void)state;
	tes_inventory_init(&d, SIZE, 1);
	assert_int_equal(add_three(&d, "abc", 5, at), 0);
	for (size_t i = 0; i < 3; i++) {
		o = tes_inventory_find(&d, at[i], EPOCH, 5);
		assert_non_null(o);
		assert_int_equal(o->size, 3000);
		assert_int_equal(o->n_extents, 3);
		assert_int_equal(o->extents[i].offset, at[i]);
		assert_int_equal(o->extents[i].length, 1000);
		assert_int_equal(o->extents[i].crc, 7);
		assert_true(o->flags & TES_INVENTORY_NO_CRC);
		assert_int_equal(o->key_len, 3);
		assert_memory_equal(tes_inventory_key(o), "abc", 3);
	}
	assert_false(has(&d, 64, 5));
	assert_false(has(&d, 0, 4));
	assert_null(tes_inventory_find(&d, 0, EPOCH + 1, 5));
	tes_inventory_clear(&d);
}

static void a_dropped_object_leaves_nothing_behind(void **state)
{
	const uint64_t at[3] = {4096, 0, 8192};
	struct tes_inventory d;

	(void)state;
	tes_inventory_init(&d, SIZE, 1);
	assert_int_equal(add_three(&d, "abc", 5, at), 0);
	assert_false(tes_inventory_drop(&d, 0, EPOCH, 6));
	assert_true(tes_inventory_drop(&d, 8192, EPOCH, 5));
	assert_false(tes_inventory_drop(&d, 8192, EPOCH, 5));
	assert_int_equal(d.n_objects + d.n_extents, 0);
	assert_int_equal(d.heap_bytes + d.key_bytes, 0);
	assert_null(d.root);
}

static void an_object_is_the_tenants_that_put_it(void **state)
{
	static const char *const tenants[] = {"red", "blue", NULL, "red"};
	const struct tes_inventory_object *o;
	struct tes_inventory_place place = {.length = 100};
	struct tes_inventory_entry entry = {.key = "k",
					    .key_len = 1,
					    .gen_epoch = EPOCH,
					    .size = 100,
					    .places = &place,
					    .n_places = 1};
	struct tes_inventory d;

	(void)state;
	tes_inventory_init(&d, SIZE, 1);
	for (uint64_t i = 0; i < 4; i++) {
		place.offset = i * 1024;
		entry.generation = i + 1;
		entry.tenant = tenants[i];
		assert_int_equal(tes_inventory_add(&d, &entry), 0);
	}
	assert_int_equal(d.n_tenants, 2);
	for (uint64_t i = 0; i < 4; i++) {
		o = tes_inventory_find(&d, i * 1024, EPOCH, i + 1);
		assert_non_null(o);
		if (tenants[i])
			assert_string_equal(tes_inventory_tenant(&d, o),
					    tenants[i]);
		else
			assert_null(tes_inventory_tenant(&d, o));
	}
	tes_inventory_clear(&d);
	assert_int_equal(d.n_tenants, 0);
}

static void what_a_newer_object_overlaps_is_forgotten(void **state)
{
	const uint64_t at[3] = {1024, 4096, 16384};
	struct tes_inventory d;

	(void)state;
	tes_inventory_init(&d, SIZE, 1);
	assert_int_equal(add(&d, "left", 1, 0, 960), 0); /* up to 1024 */
	assert_int_equal(add_three(&d, "parts", 2, at), 0);
	assert_int_equal(add(&d, "right", 3, 32768, 100), 0);
	assert_int_equal(d.n_objects, 3);
	/* Begins where "left" ends and ends where nothing is: all but that. */
	assert_int_equal(add(&d, "new", 4, 17408, 10), 0);
	assert_false(has(&d, 1024, 2));
	assert_true(has(&d, 0, 1) && has(&d, 32768, 3) && has(&d, 17408, 4));
	assert_int_equal(d.n_extents, 3);
	assert_int_equal(add(&d, "all", 5, 0, SIZE - 64), 0);
	assert_int_equal(d.n_objects, 1);
	tes_inventory_clear(&d);
}

static void the_same_commit_twice_is_one(void **state)
{
	struct tes_inventory d;

	(void)state;
	tes_inventory_init(&d, SIZE, 1);
	assert_int_equal(add(&d, "a", 1, 64, 100), 0);
	assert_int_equal(add(&d, "a", 1, 64, 100), 0);
	assert_int_equal(d.n_objects, 1);
	tes_inventory_clear(&d);
}

static void what_does_not_hold_is_refused_and_changes_nothing(void **state)
{
	static const uint64_t apart[3] = {1024, 4096, 16384};
	static const uint64_t over[3] = {1024, 2048, 16384};
	static const struct {
		uint64_t offset, length;
	} bad[] = {{1, 100},       {SIZE, 1},        {SIZE - 64, 1},
		   {0, SIZE - 63}, {64, UINT64_MAX}, {UINT64_MAX - 63, 128},
		   {0, 0}};
	struct tes_inventory d;

	(void)state;
	tes_inventory_init(&d, SIZE, 1);
	assert_int_equal(add(&d, "a", 1, 0, SIZE - 64), 0);
	for (size_t i = 0; i < TEST_COUNT(bad); i++)
		assert_int_equal(add(&d, "b", 2, bad[i].offset, bad[i].length),
				 -EINVAL);
	assert_int_equal(add(&d, "", 2, 0, 100), -EINVAL);
	assert_int_equal(add_three(&d, "b", 2, over), -EINVAL);
	assert_true(has(&d, 0, 1));
	assert_int_equal(add_three(&d, "b", 2, apart), 0);
	assert_false(has(&d, 0, 1));
	tes_inventory_clear(&d);
}

static void
without_memory_the_overlapped_are_forgotten_all_the_same(void **state)
{
	struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	struct tes_inventory d;

	(void)state;
	while (test_faults_next(&f)) {
		int rc;

		tes_inventory_init(&d, SIZE, 1);
		rc = add(&d, "a", 1, 0, 1000);
		if (!rc)
			rc = add(&d, "b", 2, 512, 1000);
		assert_true(rc == 0 || rc == -ENOMEM);
		assert_false(!rc && has(&d, 0, 1));
		assert_int_equal(has(&d, 512, 2), rc == 0);
		tes_inventory_clear(&d);
	}
}

static void a_walk_shows_each_object_once_in_order_of_place(void **state)
{
	const uint64_t at[3] = {4096, 0, 8192};
	const struct tes_inventory_object *o;
	struct tes_inventory d;
	uint64_t cursor = 0, seen[4] = {0};
	size_t n = 0;

	(void)state;
	tes_inventory_init(&d, SIZE, 1);
	assert_int_equal(add_three(&d, "parts", 2, at), 0);
	assert_int_equal(add(&d, "x", 3, 2048, 100), 0);
	assert_int_equal(add(&d, "y", 4, 32768, 100), 0);
	while ((o = tes_inventory_next(&d, &cursor))) {
		assert_true(n < 4);
		seen[n++] = o->generation;
		if (n == 1) /* what is added behind is shown */
			assert_int_equal(add(&d, "z", 5, 49152, 10), 0);
		if (n == 3) /* and what went is not */
			break;
	}
	assert_int_equal(n, 3);
	assert_int_equal(seen[0], 3);
	assert_int_equal(seen[1], 2);
	assert_int_equal(seen[2], 4);
	assert_true(tes_inventory_drop(&d, 49152, EPOCH, 5));
	assert_null(tes_inventory_next(&d, &cursor));
	tes_inventory_clear(&d);
}

static void a_sweep_forgets_what_was_not_told_again(void **state)
{
	struct tes_inventory d;

	(void)state;
	tes_inventory_init(&d, SIZE, 1);
	assert_int_equal(add(&d, "a", 1, 0, 100), 0);
	assert_int_equal(add(&d, "b", 2, 1024, 100), 0);
	assert_int_equal(add(&d, "c", 3, 2048, 100), 0);
	tes_inventory_begin(&d); /* cut off */
	assert_int_equal(add(&d, "c", 3, 2048, 100), 0);
	tes_inventory_begin(&d);
	assert_int_equal(add(&d, "b", 2, 1024, 100), 0);
	tes_inventory_sweep(&d);
	assert_true(!has(&d, 0, 1) && has(&d, 1024, 2) && !has(&d, 2048, 3));
	tes_inventory_clear(&d);
}

/* malloc is asked: what we count is what it gave, or more. */
static void an_object_costs_at_most_100_bytes_beside_its_key(void **state)
{
	struct tes_inventory d;
	char key[300];

	(void)state;
	for (size_t len = 1; len < sizeof(key); len++) {
		uint64_t cursor = 0;
		const struct tes_inventory_object *o;
		size_t room;

		memset(key, 'k', len);
		key[len] = 0;
		tes_inventory_init(&d, SIZE, 1);
		assert_int_equal(add(&d, key, 1, 64, 100), 0);
		o = tes_inventory_next(&d, &cursor);
		room = malloc_usable_size((void *)(uintptr_t)o);
		assert_true(d.heap_bytes <= TES_INVENTORY_OBJECT_MAX);
		assert_true(d.heap_bytes + len >= room + sizeof(size_t));
		tes_inventory_clear(&d);
	}
}

/* ---- at random, against a plain array ---- */

#define UNITS (SIZE / 64)

struct model {
	uint64_t unit[UNITS];  /* generation of the extent that covers it */
	uint64_t first[UNITS]; /* generation + 1 where a first one begins */
};

static void model_forget(struct model *m, uint64_t generation)
{
	for (size_t i = 0; i < UNITS; i++) {
		if (m->unit[i] == generation)
			m->unit[i] = 0;
		if (m->first[i] == generation + 1)
			m->first[i] = 0;
	}
}

static void model_add(struct model *m, uint64_t generation, uint64_t offset,
		      uint64_t length)
{
	size_t from = offset / 64, n = (64 + length + 63) / 64;

	for (size_t i = from; i < from + n; i++)
		if (m->unit[i] && m->unit[i] != generation)
			model_forget(m, m->unit[i]);
	for (size_t i = from; i < from + n; i++)
		m->unit[i] = generation;
}

static void model_check(const struct model *m, const struct tes_inventory *d)
{
	const struct tes_inventory_object *o;
	uint64_t cursor = 0;
	size_t n = 0, want = 0;

	while ((o = tes_inventory_next(d, &cursor))) {
		assert_int_equal(m->first[o->extents[0].offset / 64],
				 o->generation + 1);
		n++;
	}
	for (size_t i = 0; i < UNITS; i++)
		want += m->first[i] != 0;
	assert_int_equal(n, want);
	assert_int_equal(n, d->n_objects);
}

static void random_step(struct tes_inventory *d, struct model *m,
			uint64_t generation, uint64_t *random)
{
	uint64_t at[3], length = 1 + tei_chance(random) % 3000;

	for (size_t i = 0; i < 3; i++)
		at[i] = (tei_chance(random) % 300 + 300 * i) * 64;
	switch (tei_chance(random) % 3) {
	case 0:
		assert_int_equal(add(d, "k", generation, at[0], length), 0);
		model_add(m, generation, at[0], length);
		m->first[at[0] / 64] = generation + 1;
		break;
	case 1:
		if (add_three(d, "k", generation, at))
			break; /* they met */
		for (size_t i = 0; i < 3; i++)
			model_add(m, generation, at[i], 1000);
		m->first[at[0] / 64] = generation + 1;
		break;
	default:
		length = m->unit[at[1] / 64];
		if (length && tes_inventory_drop(d, at[1], EPOCH, length))
			model_forget(m, length);
	}
}

static void random_additions_agree_with_an_array(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= TEST_TIMES(40); seed++) {
		struct model *m = calloc(1, sizeof(*m));
		uint64_t random = seed;
		struct tes_inventory d;

		assert_non_null(m);
		tes_inventory_init(&d, SIZE, seed);
		for (uint64_t g = 1; g <= 300; g++) {
			random_step(&d, m, g, &random);
			model_check(m, &d);
		}
		tes_inventory_clear(&d);
		free(m);
	}
}

static void how_an_object_is_kept_is_remembered(void **state)
{
	const struct tes_inventory_place place = {.offset = 0, .length = 10};
	const struct tes_inventory_rare kept[] = {
		{.attributes = 0},
		{.attributes = 1},
		{.attributes = 1 | 9u << 8},
		{.attributes = 16u << 8},
		{.attributes = 3u << 8, .pin_until_ms = 77},
		{.attributes = 1 | 1000u << 8, .group_len = 5},
	};
	struct tes_inventory_entry entry = {
		.key = "key",
		.key_len = 3,
		.gen_epoch = EPOCH,
		.size = 10,
		.no_crc = true,
		.group = "group that is longer",
		.places = &place,
		.n_places = 1,
	};
	struct tes_inventory d;

	(void)state;
	tes_inventory_init(&d, SIZE, 1);
	for (size_t i = 0; i < TEST_COUNT(kept); i++) {
		const struct tes_inventory_object *o;
		struct tes_inventory_rare got;
		const char *group;

		entry.generation = i + 1;
		entry.rare = kept[i];
		assert_int_equal(tes_inventory_add(&d, &entry), 0);
		o = tes_inventory_find(&d, 0, EPOCH, i + 1);
		assert_non_null(o);
		assert_memory_equal(tes_inventory_key(o), "key", 3);
		assert_true(o->flags & TES_INVENTORY_NO_CRC);
		group = tes_inventory_rare(o, &got);
		assert_int_equal(got.attributes, kept[i].attributes);
		assert_int_equal(got.pin_until_ms, kept[i].pin_until_ms);
		assert_int_equal(got.group_len, kept[i].group_len);
		if (got.group_len)
			assert_memory_equal(group, "group", 5);
		/* The first ones cost nothing. */
		assert_int_equal(d.heap_bytes > TES_INVENTORY_OBJECT_MAX,
				 i >= 3);
	}
	tes_inventory_clear(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(how_an_object_is_kept_is_remembered),
		cmocka_unit_test(an_object_is_found_by_any_of_its_places),
		cmocka_unit_test(a_dropped_object_leaves_nothing_behind),
		cmocka_unit_test(an_object_is_the_tenants_that_put_it),
		cmocka_unit_test(what_a_newer_object_overlaps_is_forgotten),
		cmocka_unit_test(the_same_commit_twice_is_one),
		cmocka_unit_test(
			what_does_not_hold_is_refused_and_changes_nothing),
		cmocka_unit_test(
			without_memory_the_overlapped_are_forgotten_all_the_same),
		cmocka_unit_test(
			a_walk_shows_each_object_once_in_order_of_place),
		cmocka_unit_test(a_sweep_forgets_what_was_not_told_again),
		cmocka_unit_test(
			an_object_costs_at_most_100_bytes_beside_its_key),
		cmocka_unit_test(random_additions_agree_with_an_array),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
