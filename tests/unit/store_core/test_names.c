/* SPDX-License-Identifier: Apache-2.0 */
/* test_names.c - requests that name segments, where several have one name */
#include "tests/unit/store_core/drains.h"

/* Session @s lends one more segment under the name of its first: number @i. */
static void lend_more(struct rig *r, tes_session_id s, unsigned int i)
{
	rig_name = owner_name((unsigned int)s - 1);
	assert_int_equal(rig_mount(r, s, (char)('m' + i), base_of(i), SEGMENT),
			 0);
	rig_name = NULL;
}

/* The number of the segment that a put of @size bytes got, which prefers each
 * letter of @names. */
static unsigned int put_on(struct rig *r, tes_session_id s, const char *key,
			   uint64_t size, const char *names)
{
	const char *preferred[TES_CORE_PREFERRED_MAX];
	struct tes_core_replicate how = {.replica_num = 1,
					 .preferred = preferred};
	struct grant g;

	for (; names[how.n_preferred]; how.n_preferred++)
		preferred[how.n_preferred] = owner_name(
			(unsigned int)(names[how.n_preferred] - 'a'));
	g = rig_start_as(r, s, key, size, &how, NULL, false);
	assert_int_equal(g.status, 0);
	assert_int_equal(rig_end(r, s, key, g.generation), 0);
	return (unsigned int)(g.address >> 32) - 1;
}

/* Segments called @name that have the status. */
static size_t n_of_status(const struct rig *r, const char *name,
			  enum tes_core_segment_status status)
{
	struct tes_core_segment segment;
	size_t cursor = 0, n = 0;

	while (tes_core_segment_next(r->core, &cursor, &segment))
		n += !strcmp(segment.name, name) && segment.status == status;
	return n;
}

static void the_oldest_with_room_is_preferred(void **state)
{
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	lend_more(&r, 1, 5);
	lend_more(&r, 1, 6);
	assert_int_equal(put_on(&r, 3, "1", SEGMENT - 5000, "a"), 0);
	assert_int_equal(put_on(&r, 3, "2", SEGMENT - 5000, "a"), 5);
	assert_int_equal(put_on(&r, 3, "3", 1000, "a"), 0);
	/* Names of none, and names again, change nothing. */
	assert_int_equal(put_on(&r, 3, "4", 10000, "ecaaaaaaaaaaab"), 6);
	/* The first goes, then the one in the middle. */
	assert_int_equal(rig_unmount(&r, 1, 'm'), 0);
	assert_int_equal(put_on(&r, 3, "5", 1000, "a"), 5);
	lend_more(&r, 1, 7);
	assert_int_equal(rig_unmount(&r, 1, 'm' + 6), 0);
	assert_int_equal(put_on(&r, 3, "6", 1000, "a"), 5);
	assert_int_equal(put_on(&r, 3, "7", 10000, "a"), 7);
	assert_int_equal(rig_unmount(&r, 1, 'm' + 5), 0);
	assert_int_equal(rig_unmount(&r, 1, 'm' + 7), 0);
	assert_int_equal(put_on(&r, 3, "8", 1000, "a"), 1);
	lend_more(&r, 1, 8);
	assert_int_equal(put_on(&r, 3, "9", 1000, "a"), 8);
	rig_fini(&r);
}

static void a_copy_goes_to_any_of_the_name(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	assert_int_equal(put_on(&r, 3, "large", SEGMENT - 1000, "b"), 1);
	lend_more(&r, 2, 5);
	lend_more(&r, 2, 6);
	assert_int_equal(put_on(&r, 3, "k", 5000, "a"), 0);
	assert_int_equal(tasks_copy(&r, 3, "k", "b", id), 0);
	o = tasks_order(&r);
	assert_true(o.there);
	assert_int_equal(o.address[0], base_of(5));
	tasks_done(&r, &o);
	assert_int_equal(tasks_query(&r, 3, id).state, TES_TASK_SUCCESS);
	/* The next one, too: it has none there yet. */
	assert_int_equal(tasks_copy(&r, 3, "k", "b", id), 0);
	o = tasks_order(&r);
	assert_true(o.there);
	assert_int_equal(o.address[0], base_of(6));
	rig_fini(&r);
}

static void a_copy_is_refused_where_none_of_the_name_takes_it(void **state)
{
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	lend_more(&r, 2, 5);
	tasks_put(&r, 3, "k", "a");
	tasks_put(&r, 3, "l", "a");
	assert_int_equal(rig_unmount_later(&r, 2, 'm' + 1, 60000), 0);
	assert_int_equal(tasks_copy(&r, 3, "k", "b", NULL), 0);
	assert_int_equal(rig_unmount_later(&r, 2, 'm' + 5, 60000), 0);
	assert_int_equal(tasks_copy(&r, 3, "l", "b", NULL), -1010);
	assert_int_equal(rig_unmount(&r, 2, 'm' + 1), 0);
	assert_int_equal(tasks_copy(&r, 3, "l", "b", NULL), -1010);
	assert_int_equal(rig_unmount(&r, 2, 'm' + 5), 0);
	assert_int_equal(tasks_copy(&r, 3, "l", "b", NULL), -101);
	rig_fini(&r);
}

static void a_replica_on_any_of_the_name_is_moved(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	assert_int_equal(put_on(&r, 4, "large", SEGMENT - 1000, "a"), 0);
	lend_more(&r, 1, 5);
	assert_int_equal(put_on(&r, 4, "k", 5000, "a"), 5);
	assert_int_equal(tasks_move(&r, 4, "k", "b", "c", NULL), -710);
	assert_int_equal(tasks_move(&r, 4, "k", "e", "c", NULL), -101);
	assert_int_equal(tasks_move(&r, 4, "k", "a", "c", id), 0);
	o = tasks_order(&r);
	assert_true(o.there);
	assert_int_equal(o.address[0], base_of(2));
	tasks_done(&r, &o);
	rig_pass(&r, 1000, "1234");
	assert_int_equal(tasks_query(&r, 4, id).state, TES_TASK_SUCCESS);
	assert_int_equal(tasks_where(&r, 4, "k"), C);
	rig_fini(&r);
}

static void all_of_the_name_are_drained(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	lend_more(&r, 1, 5);
	lend_more(&r, 1, 6);
	assert_int_equal(put_on(&r, 4, "1", SEGMENT - 5000, "a"), 0);
	assert_int_equal(put_on(&r, 4, "2", 10000, "a"), 5);
	assert_int_equal(drains_create(&r, "a", "bc", 0, id), 0);
	assert_int_equal(n_of_status(&r, "a", TES_CORE_SEGMENT_DRAINING), 3);
	drains_finish(&r, "1234", 2000, id);
	assert_int_equal(n_of_status(&r, "a", TES_CORE_SEGMENT_DRAINED), 3);
	assert_int_equal(tasks_where(&r, 4, "1") | tasks_where(&r, 4, "2"),
			 B | C);
	rig_fini(&r);
}

static void a_job_takes_segments_in_mount_order(void **state)
{
	struct order o = {.there = false};
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	lend_more(&r, 1, 5);
	assert_int_equal(put_on(&r, 4, "large", SEGMENT - 1000, "a"), 0);
	assert_int_equal(put_on(&r, 4, "1", 20000, "a"), 5);
	assert_int_equal(put_on(&r, 4, "2", 5000, "b"), 1);
	assert_int_equal(rig_remove(&r, 4, "large", true), 0);
	assert_int_equal(drains_create(&r, "ab", "", 1, NULL), 0);
	for (int i = 0; i < 10 && !o.there; i++) {
		rig_tick(&r);
		o = tasks_order(&r);
	}
	assert_true(o.there);
	assert_int_equal(o.size, 5000);
	rig_fini(&r);
}

static void a_job_wants_all_of_its_names_and_one_of_its_targets(void **state)
{
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	lend_more(&r, 2, 5);
	assert_int_equal(rig_unmount_later(&r, 2, 'm' + 5, 60000), 0);
	assert_int_equal(drains_create(&r, "b", "", 0, NULL), -1010);
	assert_int_equal(drains_create(&r, "a", "b", 0, NULL), 0);
	assert_int_equal(rig_unmount_later(&r, 2, 'm' + 1, 60000), 0);
	assert_int_equal(drains_create(&r, "c", "b", 0, NULL), -1010);
	assert_int_equal(rig_unmount(&r, 2, 'm' + 1), 0);
	assert_int_equal(rig_unmount(&r, 2, 'm' + 5), 0);
	assert_int_equal(drains_create(&r, "c", "b", 0, NULL), -101);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_oldest_with_room_is_preferred),
		cmocka_unit_test(a_copy_goes_to_any_of_the_name),
		cmocka_unit_test(
			a_copy_is_refused_where_none_of_the_name_takes_it),
		cmocka_unit_test(a_replica_on_any_of_the_name_is_moved),
		cmocka_unit_test(all_of_the_name_are_drained),
		cmocka_unit_test(a_job_takes_segments_in_mount_order),
		cmocka_unit_test(
			a_job_wants_all_of_its_names_and_one_of_its_targets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
