/* SPDX-License-Identifier: Apache-2.0 */
/* test_bury.c - what owners are told, have to bury, and bring with them */
#include "store/core/core.h"
#include "store/core/remove.h"
#include "tests/unit/store_core/rig.h"

#define BASE  0x10000u
#define OLDER 70u /* an epoch before that of the rig */

static void start(struct rig *r)
{
	rig_buries = true;
	rig_init(r, NULL);
	rig_pair(r);
}

static const struct tes_action *send_remove(struct rig *r, const char *key)
{
	struct tes_core_key k = rig_key(key);
	struct tes_event ev = {
		.type = TES_EVENT_REMOVE, .session = 2, .n = 1, .keys = &k};

	return rig_step(r, &ev);
}

static void a_remove_is_answered_when_the_owner_has_buried(void **state)
{
	struct rig_burial burial = {0};
	const struct tes_action *a;
	uint64_t cookie;
	struct grant g;
	struct rig r;

	(void)state;
	start(&r);
	g = rig_put(&r, 2, "a", 1000);
	assert_null(send_remove(&r, "a"));
	cookie = r.cookie;
	a = rig_find(&r, TES_ACTION_BURY);
	assert_non_null(a);
	assert_int_equal(a->session, 1);
	assert_int_equal(a->u.bury.n, 1);
	assert_int_equal(a->u.bury.address[0], g.address);
	assert_int_equal(a->u.bury.generation[0], g.generation);
	assert_int_equal(a->u.bury.gen_epoch[0], EPOCH);
	assert_int_equal(rig_burials(&r, &burial, 1), 1);
	/* It is gone at once, its space is not. */
	assert_int_equal(rig_exist(&r, 2, "a"), 0);
	assert_int_equal(rig_figures(&r).used_bytes, 1088);
	/* A fence's answer of that number is none. */
	rig_fenced(&r, 1, burial.number, true);
	assert_int_equal(rig_figures(&r).used_bytes, 1088);
	rig_buried(&r, 1, burial.number);
	a = rig_find(&r, TES_ACTION_REPLY);
	assert_non_null(a);
	assert_int_equal(a->session, 2);
	assert_int_equal(a->cookie, cookie);
	assert_int_equal(a->u.reply.of, TES_EVENT_REMOVE);
	assert_int_equal(a->u.reply.n, 1);
	assert_int_equal(a->u.reply.status[0], 0);
	assert_int_equal(rig_figures(&r).used_bytes, 0);
	rig_buried(&r, 1, burial.number); /* once more: nothing */
	assert_null(rig_find(&r, TES_ACTION_REPLY));
	rig_fini(&r);
}

static void a_walk_that_waits_for_owners_is_no_work(void **state)
{
	struct tes_event ev = {.type = TES_EVENT_REMOVE_ALL, .session = 2};
	struct rig r;

	(void)state;
	start(&r);
	rig_put(&r, 2, "a", 1000);
	ev.u.remove_all.force = true;
	assert_null(rig_step(&r, &ev));
	assert_true(tes_core_busy(r.core));
	for (int i = 0; i < 64 && tes_core_busy(r.core); i++)
		rig_tick(&r);
	assert_false(tes_core_busy(r.core));
	assert_int_equal(r.n_late, 0);
	rig_fini(&r);
}

/* So that what owners confirm at once, and have to be told again, is little. */
static void a_walk_does_not_run_away_from_owners(void **state)
{
	struct tes_event ev = {.type = TES_EVENT_REMOVE_ALL, .session = 2};
	struct rig_burial burials[64];
	uint64_t n = 3 * TES_CORE_WALK_GRAVES, left = n;
	struct rig r;
	char key[8];

	(void)state;
	start(&r);
	assert_int_equal(rig_mount(&r, 1, 'w', 1u << 24, 1u << 24), 0);
	for (uint64_t i = 0; i < n; i++) {
		(void)snprintf(key, sizeof(key), "%d", (int)i);
		rig_put(&r, 2, key, 1);
	}
	ev.u.remove_all.force = true;
	assert_null(rig_step(&r, &ev));
	while (left) {
		uint64_t before = left;
		size_t n_burials = 0;

		while (tes_core_busy(r.core)) {
			assert_true(n_burials < 64);
			rig_tick(&r);
			n_burials += rig_burials(&r, burials + n_burials,
						 64 - n_burials);
		}
		left = rig_figures(&r).objects;
		assert_in_range(before - left, 1, TES_CORE_WALK_GRAVES + 256);
		for (size_t i = 0; i < n_burials; i++)
			rig_buried(&r, 1, burials[i].number);
	}
	rig_tick(&r);
	assert_int_equal(rig_figures(&r).used_bytes, 0);
	rig_fini(&r);
}

static void an_owner_that_is_lost_holds_up_no_answer(void **state)
{
	struct tes_event leave = {.type = TES_EVENT_LEAVE, .session = 1};
	struct rig r;

	(void)state;
	start(&r);
	rig_put(&r, 2, "a", 1000);
	assert_null(send_remove(&r, "a"));
	assert_int_equal(rig_try(&r, &leave), 0);
	assert_non_null(rig_find(&r, TES_ACTION_REPLY));
	/* It still has to do it, before anything else, when it is back. */
	assert_int_equal(rig_join(&r, 5, 'o', 'O'), 0);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 5);
	assert_non_null(rig_find(&r, TES_ACTION_BURY));
	assert_null(rig_bury(&r));
	assert_int_equal(rig_figures(&r).used_bytes, 0);
	rig_fini(&r);
}

static void one_that_lives_and_never_buries_is_dropped(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	rig_put(&r, 2, "a", 1000);
	assert_null(send_remove(&r, "a"));
	rig_pass(&r, rig_config.client_ttl_ms - 100, "12");
	assert_int_equal(r.n_late, 0);
	assert_int_equal(rig_figures(&r).segments, 1);
	rig_pass(&r, 200, "12");
	assert_int_equal(r.n_late, 1);
	assert_int_equal(rig_figures(&r).segments, 0);
	rig_fini(&r);
}

static void evicted_ones_are_told_and_not_waited_for(void **state)
{
	struct grant g, other;
	struct rig r;

	(void)state;
	start(&r);
	g = rig_put(&r, 2, "a", 40000);
	other = rig_start(&r, 2, "b", 40000);
	assert_int_equal(other.status, 0);
	assert_non_null(rig_find(&r, TES_ACTION_BURY));
	assert_int_equal(rig_find(&r, TES_ACTION_BURY)->u.bury.burial, 0);
	assert_int_equal(rig_find(&r, TES_ACTION_BURY)->u.bury.generation[0],
			 g.generation);
	rig_fini(&r);
}

static void commits_are_told_and_told_again_on_a_new_connection(void **state)
{
	struct tes_event ev = {.type = TES_EVENT_HEARTBEAT, .session = 1};
	struct tes_event tick = {.type = TES_EVENT_TICK};
	const struct tes_core_objects *o;
	const struct tes_action *a;
	struct grant g;
	struct rig r;

	(void)state;
	start(&r);
	g = rig_put(&r, 2, "abc", 1000);
	for (int again = 0; again < 2; again++) {
		a = rig_find(&r, TES_ACTION_COMMITTED);
		assert_non_null(a);
		assert_int_equal(a->session, 1);
		assert_int_equal(a->u.committed.begins, again);
		assert_int_equal(a->u.committed.ends, again);
		o = &a->u.committed.objects;
		assert_int_equal(o->n, 1);
		assert_int_equal(o->keys[0].len, 3);
		assert_memory_equal(o->keys[0].bytes, "abc", 3);
		assert_int_equal(o->generation[0], g.generation);
		assert_int_equal(o->gen_epoch[0], EPOCH);
		assert_int_equal(o->size[0], 1000);
		assert_int_equal(o->extents[0], 1);
		assert_int_equal(o->address[0], g.address);
		assert_int_equal(o->length[0], 1000);
		assert_int_equal(o->crc[0], (uint32_t)g.generation * 3);
		ev.u.heartbeat.fresh = true;
		assert_null(rig_step(&r, &ev));
		assert_true(tes_core_busy(r.core));
		assert_int_equal(rig_try(&r, &tick), 0);
	}
	rig_fini(&r);
}

/* ---- offers ---- */

struct spot {
	uint64_t generation, epoch, address, size;
};

#define AT(generation, epoch, address, size) \
	((struct spot){generation, epoch, address, size})

static int offer(struct rig *r, tes_session_id s, char segment, const char *key,
		 struct spot at, bool last)
{
	struct tes_core_key k = key ? rig_key(key) : (struct tes_core_key){0};
	uint32_t crc = 5;
	struct tes_core_objects objects = {
		.n = key != NULL,
		.n_entries = key != NULL,
		.keys = &k,
		.generation = &at.generation,
		.gen_epoch = &at.epoch,
		.size = &at.size,
		.address = &at.address,
		.length = &at.size,
		.crc = &crc,
	};

	return rig_offer(r, s, segment, &objects, last);
}

/* Owners 1 and 3 with 64 KiB each, of which nothing is known yet. */
static void start_anew(struct rig *r)
{
	rig_buries = true;
	rig_init(r, NULL);
	for (tes_session_id s = 1; s <= 3; s++) {
		assert_int_equal(rig_join(r, s, (char)('n' + s), 'O'), 0);
		rig_plain(r, TES_EVENT_HEARTBEAT, s);
	}
	rig_mount_offering(r, 1, 'm', BASE);
	rig_mount_offering(r, 3, 'n', 2 * BASE);
}

static void what_is_offered_is_there(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	start_anew(&r);
	assert_int_equal(
		offer(&r, 1, 'm', "a", AT(50, OLDER, BASE + 128, 1000), false),
		0);
	/* The same again is no other. */
	assert_int_equal(
		offer(&r, 1, 'm', "a", AT(50, OLDER, BASE + 128, 1000), false),
		0);
	g = rig_lookup(&r, 2, "a");
	assert_int_equal(g.status, 0);
	assert_int_equal(g.address, BASE + 128);
	assert_int_equal(g.generation, 50);
	assert_int_equal(g.crc, 5);
	assert_int_equal(r.out.at[0].u.reply.gen_epoch[0], OLDER);
	assert_true(r.out.at[0].u.reply.unverified[0]);
	assert_int_equal(rig_figures(&r).used_bytes, 1088);
	/* Nothing new before the last offer. */
	assert_int_equal(rig_start(&r, 2, "b", 100).status, -200);
	assert_int_equal(offer(&r, 1, 'm', NULL, AT(0, 0, 0, 0), true), 0);
	g = rig_put(&r, 2, "b", 100);
	assert_int_equal(g.status, 0);
	assert_true(g.address + 192 <= BASE + 128 || g.address >= BASE + 1216);
	assert_int_equal(
		offer(&r, 1, 'm', "c", AT(51, OLDER, BASE + 4096, 10), true),
		-101);
	rig_fini(&r);
}

static void a_put_is_to_wait_while_owners_offer(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	start_anew(&r);
	g = rig_start(&r, 2, "a", 100);
	assert_int_equal(g.status, -200);
	assert_in_range(g.retry_ms, 1, 100);
	g = rig_start(&r, 2, "too large for any", 0x20000);
	assert_int_equal(g.status, -200);
	assert_int_equal(g.retry_ms, 0);
	assert_int_equal(offer(&r, 1, 'm', NULL, AT(0, 0, 0, 0), true), 0);
	assert_int_equal(rig_start(&r, 2, "a", 100).status, 0);
	rig_fini(&r);
}

static void what_does_not_fit_is_refused(void **state)
{
	struct rig r;

	(void)state;
	start_anew(&r);
	assert_int_equal(offer(&r, 1, 'm', "a", AT(1, OLDER, BASE, 100), false),
			 0);
	/* Taken, outside, askew, empty, of this very master. */
	assert_int_equal(
		offer(&r, 1, 'm', "b", AT(2, OLDER, BASE + 128, 100), false),
		-705);
	assert_int_equal(
		offer(&r, 1, 'm', "b", AT(2, OLDER, BASE - 64, 100), false),
		-600);
	assert_int_equal(
		offer(&r, 1, 'm', "b", AT(2, OLDER, 2 * BASE - 64, 1), false),
		-600);
	assert_int_equal(
		offer(&r, 1, 'm', "b", AT(2, OLDER, BASE + 513, 100), false),
		-600);
	assert_int_equal(
		offer(&r, 1, 'm', "b", AT(2, OLDER, BASE + 512, 0), false),
		-600);
	assert_int_equal(
		offer(&r, 1, 'm', "b", AT(2, EPOCH, BASE + 512, 100), false),
		-704);
	assert_int_equal(
		offer(&r, 3, 'm', "b", AT(2, OLDER, BASE + 512, 100), false),
		-101);
	assert_int_equal(rig_figures(&r).objects, 1);
	assert_int_equal(rig_figures(&r).used_bytes, 192);
	rig_fini(&r);
}

static void the_newest_of_a_key_counts_and_its_equals_are_replicas(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	start_anew(&r);
	assert_int_equal(offer(&r, 1, 'm', "a", AT(5, OLDER, BASE, 100), false),
			 0);
	assert_int_equal(
		offer(&r, 3, 'n', "a", AT(4, OLDER, 2 * BASE, 100), false),
		-705);
	assert_int_equal(
		offer(&r, 3, 'n', "a", AT(5, OLDER, 2 * BASE, 100), false), 0);
	(void)rig_lookup(&r, 2, "a");
	assert_int_equal(r.out.at[0].u.reply.n_entries, 2);
	/* A later epoch is newer, whatever the counter; the old one goes. */
	assert_int_equal(offer(&r, 3, 'n', "a",
			       AT(1, OLDER + 1, 2 * BASE + 512, 70), false),
			 0);
	assert_non_null(rig_find(&r, TES_ACTION_BURY));
	g = rig_lookup(&r, 2, "a");
	assert_int_equal(g.generation, 1);
	assert_int_equal(g.size, 70);
	assert_int_equal(rig_figures(&r).objects, 1);
	rig_fini(&r);
}

static void a_put_under_way_yields_to_what_was_there(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	start_anew(&r);
	assert_int_equal(offer(&r, 3, 'n', NULL, AT(0, 0, 0, 0), true), 0);
	g = rig_start(&r, 2, "a", 100);
	assert_int_equal(g.status, 0);
	assert_int_equal(offer(&r, 1, 'm', "a", AT(5, OLDER, BASE, 100), true),
			 0);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, 5);
	assert_int_equal(rig_end(&r, 2, "a", g.generation), -700);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_remove_is_answered_when_the_owner_has_buried),
		cmocka_unit_test(a_walk_that_waits_for_owners_is_no_work),
		cmocka_unit_test(a_walk_does_not_run_away_from_owners),
		cmocka_unit_test(an_owner_that_is_lost_holds_up_no_answer),
		cmocka_unit_test(one_that_lives_and_never_buries_is_dropped),
		cmocka_unit_test(evicted_ones_are_told_and_not_waited_for),
		cmocka_unit_test(
			commits_are_told_and_told_again_on_a_new_connection),
		cmocka_unit_test(what_is_offered_is_there),
		cmocka_unit_test(a_put_is_to_wait_while_owners_offer),
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(
			the_newest_of_a_key_counts_and_its_equals_are_replicas),
		cmocka_unit_test(a_put_under_way_yields_to_what_was_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
