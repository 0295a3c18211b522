/* SPDX-License-Identifier: Apache-2.0 */
/* test_pin.c - what eviction spares, what goes together, what goes at once */
#include "tests/unit/store_core/rig.h"

#define PIECE (4096 - 64) /* 16 of them fill the segment */

static void put_as(struct rig *r, const char *key,
		   const struct tes_core_replicate *how, const char *group)
{
	struct grant g = rig_start_as(r, 2, key, PIECE, how, group, false);

	assert_int_equal(g.status, 0);
	assert_int_equal(rig_end(r, 2, key, g.generation), 0);
}

/* Puts @n objects @name 0, 1, ...; how many are there then. */
static int fill_with(struct rig *r, char name, int n)
{
	int good = 0, status;
	char key[16];

	for (int i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "%c%d", name, i);
		status = rig_put(r, 2, key, PIECE).status;
		good += status == 0 || status == -705;
	}
	return good;
}

static int fill(struct rig *r, int n)
{
	return fill_with(r, 'x', n);
}

static bool there(struct rig *r, const char *key)
{
	return rig_ask(r, TES_EVENT_SIZE, 2, key, false)->u.reply.status[0] ==
	       0;
}

static void a_hard_pin_is_never_evicted(void **state)
{
	struct tes_core_replicate how = {.replica_num = 1, .hard_pin = true};
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	put_as(&r, "a", &how, NULL);
	rig_lookup(&r, 2, "a"); /* also when a lease on it ends */
	assert_int_equal(fill(&r, 40), 40);
	rig_pass(&r, rig_config.lease_ttl_ms + 100, "12");
	assert_int_equal(fill(&r, 40), 40);
	assert_true(there(&r, "a"));
	/* An upsert keeps the pin. */
	rig_end(&r, 2, "a",
		rig_start_as(&r, 2, "a", PIECE, NULL, NULL, true).generation);
	assert_int_equal(fill(&r, 40), 40);
	assert_true(there(&r, "a"));
	assert_int_equal(rig_remove(&r, 2, "a", true), 0);
	rig_fini(&r);
}

static void a_pool_of_hard_pins_is_full(void **state)
{
	struct tes_core_replicate how = {.replica_num = 1, .hard_pin = true};
	char key[16];
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	for (int i = 0; i < 16; i++) {
		snprintf(key, sizeof(key), "h%d", i);
		put_as(&r, key, &how, NULL);
	}
	assert_int_equal(rig_put(&r, 2, "a", PIECE).status, -200);
	rig_fini(&r);
}

static void a_soft_pin_holds_for_its_time(void **state)
{
	struct tes_core_replicate how = {.replica_num = 1,
					 .soft_pin = TES_CORE_SOFT_ENABLE,
					 .soft_pin_ttl_ms = 60000};
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	put_as(&r, "a", &how, NULL);
	assert_int_equal(fill(&r, 40), 40);
	rig_pass(&r, 59000, "12");
	assert_int_equal(fill(&r, 40), 40);
	assert_true(there(&r, "a"));
	rig_pass(&r, 1000, "12");
	assert_int_equal(fill_with(&r, 'y', 40), 40);
	assert_false(there(&r, "a"));
	rig_fini(&r);
}

static void soft_pins_go_last_and_only_when_allowed(void **state)
{
	struct tes_core_replicate how = {.replica_num = 1,
					 .soft_pin = TES_CORE_SOFT_ENABLE};
	struct tes_core_config config = rig_config;
	char key[16];

	(void)state;
	for (int allowed = 0; allowed < 2; allowed++) {
		struct rig r;

		config.evict_soft_pinned = allowed;
		rig_init(&r, &config);
		rig_pair(&r);
		for (int i = 0; i < 15; i++) {
			snprintf(key, sizeof(key), "s%d", i);
			put_as(&r, key, &how, NULL);
		}
		assert_int_equal(fill(&r, 5), 5);
		assert_true(there(&r, "s0"));
		rig_lookup(&r, 2, "x4"); /* nothing but pins is left */
		assert_int_equal(rig_put(&r, 2, "a", PIECE).status,
				 allowed ? 0 : -200);
		rig_fini(&r);
	}
}

static void an_upsert_keeps_sets_or_ends_a_soft_pin(void **state)
{
	struct tes_core_replicate how = {.replica_num = 1,
					 .soft_pin = TES_CORE_SOFT_ENABLE};
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	put_as(&r, "a", &how, NULL);
	how.soft_pin = TES_CORE_SOFT_PRESERVE;
	rig_end(&r, 2, "a",
		rig_start_as(&r, 2, "a", PIECE, &how, NULL, true).generation);
	assert_int_equal(fill(&r, 40), 40);
	assert_true(there(&r, "a"));
	how.soft_pin = TES_CORE_SOFT_DISABLE;
	rig_end(&r, 2, "a",
		rig_start_as(&r, 2, "a", PIECE, &how, NULL, true).generation);
	assert_int_equal(fill_with(&r, 'y', 40), 40);
	assert_false(there(&r, "a"));
	rig_fini(&r);
}

static void soft_pins_are_counted_while_they_hold(void **state)
{
	struct tes_core_replicate how = {.replica_num = 1,
					 .soft_pin = TES_CORE_SOFT_ENABLE,
					 .soft_pin_ttl_ms = 60000};
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(fill(&r, 1), 1);
	assert_int_equal(rig_figures(&r).soft_pinned, 0);
	put_as(&r, "a", &how, NULL);
	put_as(&r, "b", &how, NULL);
	assert_int_equal(rig_figures(&r).soft_pinned, 2);
	assert_int_equal(rig_remove(&r, 2, "b", true), 0);
	assert_int_equal(rig_figures(&r).soft_pinned, 1);
	rig_pass(&r, 59000, "12");
	rig_lookup(&r, 2, "a"); /* its lease outlives the pin */
	assert_int_equal(rig_figures(&r).soft_pinned, 1);
	rig_pass(&r, 1000 + 2 * rig_config.lease_ttl_ms, "12");
	assert_int_equal(rig_figures(&r).soft_pinned, 0);
	how.hard_pin = true; /* nothing would tell when that has ended */
	put_as(&r, "hard", &how, NULL);
	assert_int_equal(rig_figures(&r).soft_pinned, 0);
	how.hard_pin = false;
	put_as(&r, "c", &how, NULL);
	how.soft_pin = TES_CORE_SOFT_DISABLE;
	rig_end(&r, 2, "c",
		rig_start_as(&r, 2, "c", PIECE, &how, NULL, true).generation);
	assert_int_equal(rig_figures(&r).soft_pinned, 0);
	rig_fini(&r);
}

static void sizes_of_values_are_counted(void **state)
{
	struct tes_core_figures f;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(rig_put(&r, 2, "a", 4096).status, 0);
	assert_int_equal(rig_put(&r, 2, "b", 4097).status, 0);
	assert_int_equal(rig_put(&r, 2, "c", 20000).status, 0);
	f = rig_figures(&r);
	assert_int_equal(f.sizes[0], 1);
	assert_int_equal(f.sizes[1], 1);
	assert_int_equal(f.sizes[2], 1);
	assert_int_equal(f.stored_bytes_total, 28193);
	rig_fini(&r);
}

static void a_group_is_evicted_together(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	put_as(&r, "g1", NULL, "g");
	put_as(&r, "g2", NULL, "g");
	put_as(&r, "g3", NULL, "g");
	put_as(&r, "h1", NULL, "h");
	rig_lookup(&r, 2, "g3"); /* best effort: not what is being read */
	assert_int_equal(fill(&r, 12), 12);
	assert_int_equal(rig_figures(&r).evicted_objects_total, 0);
	assert_int_equal(rig_put(&r, 2, "a", PIECE).status, 0);
	assert_int_equal(rig_figures(&r).evicted_objects_total, 2);
	assert_false(there(&r, "g1") || there(&r, "g2"));
	assert_true(there(&r, "g3") && there(&r, "h1"));
	rig_fini(&r);
}

static void metadata_of_emptied_cores_is_as_before(void **state)
{
	struct tes_core_replicate how = {.replica_num = 1,
					 .soft_pin = TES_CORE_SOFT_ENABLE,
					 .data_type = 3};
	uint64_t before;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	/* Until then keys that were removed are remembered. */
	rig_pass(&r, 6 * rig_config.client_ttl_ms + 200, "12");
	before = rig_figures(&r).metadata_bytes;
	put_as(&r, "g1", &how, "group");
	put_as(&r, "g2", &how, "group");
	assert_true(rig_figures(&r).metadata_bytes > before);
	rig_remove(&r, 2, "g1", true);
	rig_remove(&r, 2, "g2", true);
	assert_int_equal(rig_figures(&r).metadata_bytes, before);
	assert_int_equal(rig_figures(&r).key_bytes, 0);
	rig_fini(&r);
}

static bool begins_with(const void *key, size_t len, void *letter,
			unsigned int *cost)
{
	*cost += 5;
	return len && *(const char *)key == *(const char *)letter;
}

static int remove_all(struct rig *r, tes_session_id s, bool force, char *letter)
{
	struct tes_event ev = {.type = TES_EVENT_REMOVE_ALL, .session = s};

	ev.u.remove_all.force = force;
	ev.u.remove_all.match = letter ? begins_with : NULL;
	ev.u.remove_all.arg = letter;
	assert_int_equal(rig_try(r, &ev), 0);
	return r->out.n ? r->out.at[0].u.reply.code : 1;
}

/* How many were removed when the walk's reply has come. */
static uint64_t walked(struct rig *r, tes_session_id s)
{
	struct tes_event tick = {.type = TES_EVENT_TICK};
	uint64_t cookie = r->cookie;

	for (int i = 0; i < 100000; i++) {
		const struct tes_action *a;

		assert_true(tes_core_busy(r->core));
		assert_int_equal(rig_try(r, &tick), 0);
		a = rig_bury(r);
		if (!a)
			continue;
		assert_int_equal(a->session, s);
		assert_int_equal(a->cookie, cookie);
		assert_int_equal(a->u.reply.of, TES_EVENT_REMOVE_ALL);
		return a->u.reply.removed;
	}
	fail_msg("the walk never ends");
	return 0;
}

static void remove_all_spares_what_is_read_or_asked_for(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(fill(&r, 10), 10);
	rig_start(&r, 2, "building", 100);
	rig_lookup(&r, 2, "x1");
	rig_exist(&r, 2, "x2");
	assert_int_equal(remove_all(&r, 2, false, NULL), 1);
	assert_int_equal(walked(&r, 2), 8);
	assert_true(there(&r, "x1") && there(&r, "x2"));
	assert_int_equal(remove_all(&r, 2, true, NULL), 1);
	assert_int_equal(walked(&r, 2), 2);
	assert_int_equal(rig_figures(&r).objects, 0);
	assert_int_equal(rig_figures(&r).building, 1);
	rig_fini(&r);
}

static void remove_all_may_be_for_some_keys(void **state)
{
	char letter = 'b';
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_put(&r, 2, "a1", 100);
	rig_put(&r, 2, "b1", 100);
	rig_put(&r, 2, "b2", 100);
	assert_int_equal(remove_all(&r, 2, true, &letter), 1);
	assert_int_equal(walked(&r, 2), 2);
	assert_true(there(&r, "a1"));
	rig_fini(&r);
}

static void a_walk_takes_small_steps_and_others_go_on(void **state)
{
	enum { N = 5000 };
	struct tes_core_config config = rig_config;
	struct tes_event tick = {.type = TES_EVENT_TICK};
	uint64_t before = N, cookie;
	char key[16];
	struct rig r;

	(void)state;
	config.step_objects = 16;
	rig_init(&r, &config);
	rig_pair(&r);
	assert_int_equal(rig_mount(&r, 1, 'n', 1 << 30, 1 << 28), 0);
	for (int i = 0; i < N; i++) {
		snprintf(key, sizeof(key), "w%d", i);
		assert_int_equal(rig_put(&r, 2, key, 100).status, 0);
	}
	assert_int_equal(remove_all(&r, 2, true, NULL), 1);
	cookie = r.cookie;
	assert_int_equal(remove_all(&r, 2, true, NULL), -600);
	while (rig_figures(&r).objects > 1000) {
		assert_int_equal(rig_try(&r, &tick), 0);
		assert_true(before - rig_figures(&r).objects <= 64);
		assert_null(rig_bury(&r));
		before = rig_figures(&r).objects;
	}
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	r.cookie = cookie;
	for (;;) {
		const struct tes_action *a;

		assert_int_equal(rig_try(&r, &tick), 0);
		a = rig_bury(&r);
		if (!a)
			continue;
		assert_int_equal(a->cookie, cookie);
		assert_int_equal(a->u.reply.removed, N);
		break;
	}
	assert_int_equal(rig_figures(&r).objects, 0);
	rig_fini(&r);
}

static int clear_by(struct rig *r, tes_session_id s, const char *key,
		    const char *segment)
{
	struct tes_core_key k = rig_key(key);
	struct tes_event ev = {.type = TES_EVENT_REPLICA_CLEAR,
			       .session = s,
			       .n = 1,
			       .keys = &k};

	ev.u.replica_clear.segment = segment;
	return rig_settle(r, &ev)->u.reply.status[0];
}

static int clear(struct rig *r, const char *key, const char *segment)
{
	return clear_by(r, 2, key, segment);
}

static void a_replica_can_be_given_up(void **state)
{
	struct tes_core_replicate how = {.replica_num = 2};
	struct grant g;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_name = "other";
	assert_int_equal(rig_mount(&r, 2, 'n', 0x90000, 0x10000), 0);
	rig_name = NULL;
	g = rig_start_as(&r, 2, "a", 100, &how, NULL, false);
	rig_end_all(&r, 2, "a", g.generation, 2, 3);
	assert_int_equal(rig_figures(&r).used_bytes, 2 * 192);
	assert_int_equal(clear(&r, "a", "none"), -710);
	assert_int_equal(clear(&r, "b", "other"), -704);
	assert_int_equal(clear_by(&r, 1, "a", "other"), -601); /* no writer */
	rig_exist(&r, 2, "a");
	assert_int_equal(clear(&r, "a", "other"), -706);
	rig_pass(&r, rig_config.lease_ttl_ms, "12");
	assert_int_equal(clear(&r, "a", "other"), 0);
	assert_int_equal(rig_figures(&r).used_bytes, 192);
	assert_true(there(&r, "a"));
	assert_int_equal(clear(&r, "a", ""), 0);
	assert_int_equal(rig_figures(&r).used_bytes, 0);
	assert_false(there(&r, "a"));
	rig_fini(&r);
}

static void pins_end_in_their_order(void **state)
{
	struct tes_core_replicate how = {.replica_num = 1,
					 .soft_pin = TES_CORE_SOFT_ENABLE,
					 .soft_pin_ttl_ms = 60000};
	struct grant g;
	char key[16];
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	for (int i = 0; i < 256; i++) {
		if (i == 250)
			how.soft_pin_ttl_ms = 1000;
		snprintf(key, sizeof(key), "%d", i);
		g = rig_start_as(&r, 2, key, 256 - 64, &how, NULL, false);
		assert_int_equal(rig_end(&r, 2, key, g.generation), 0);
	}
	g = rig_start(&r, 2, "new", 256 - 64);
	assert_int_equal(g.status, -200);
	assert_int_equal(g.retry_ms, 1000);
	r.now += 1000;
	/* Those that are over go at once, whatever is pinned beside them. */
	for (int i = 0; i < 6; i++) {
		snprintf(key, sizeof(key), "n%d", i);
		assert_int_equal(rig_put(&r, 2, key, 256 - 64).status, 0);
		rig_lookup(&r, 2, key);
	}
	assert_int_equal(rig_lookup(&r, 2, "0").status, 0);
	assert_int_equal(rig_lookup(&r, 2, "255").status, -704);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pins_end_in_their_order),
		cmocka_unit_test(a_hard_pin_is_never_evicted),
		cmocka_unit_test(a_pool_of_hard_pins_is_full),
		cmocka_unit_test(a_soft_pin_holds_for_its_time),
		cmocka_unit_test(soft_pins_go_last_and_only_when_allowed),
		cmocka_unit_test(an_upsert_keeps_sets_or_ends_a_soft_pin),
		cmocka_unit_test(soft_pins_are_counted_while_they_hold),
		cmocka_unit_test(sizes_of_values_are_counted),
		cmocka_unit_test(a_group_is_evicted_together),
		cmocka_unit_test(metadata_of_emptied_cores_is_as_before),
		cmocka_unit_test(remove_all_spares_what_is_read_or_asked_for),
		cmocka_unit_test(remove_all_may_be_for_some_keys),
		cmocka_unit_test(a_walk_takes_small_steps_and_others_go_on),
		cmocka_unit_test(a_replica_can_be_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
