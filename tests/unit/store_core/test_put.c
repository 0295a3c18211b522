/* SPDX-License-Identifier: Apache-2.0 */
/* test_put.c - reservations: start, end, revoke */
#include "tests/unit/store_core/rig.h"

static void a_put_is_visible_after_its_end_only(void **state)
{
	struct grant g, l;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	g = rig_start(&r, 2, "a", 1000);
	assert_int_equal(g.status, 0);
	assert_int_equal(g.address % 64, 0);
	assert_in_range(g.address, 0x10000, 0x20000 - 1088);
	assert_int_equal(rig_lookup(&r, 2, "a").status, -703);
	assert_int_equal(rig_exist(&r, 2, "a"), 0);
	assert_int_equal(rig_figures(&r).building, 1);
	assert_int_equal(rig_figures(&r).used_bytes, 1088);
	assert_int_equal(rig_end(&r, 2, "a", g.generation), 0);
	l = rig_lookup(&r, 1, "a");
	assert_int_equal(l.status, 0);
	assert_int_equal(l.size, 1000);
	assert_int_equal(l.address, g.address);
	assert_int_equal(l.generation, g.generation);
	assert_int_equal(l.crc, (uint32_t)g.generation * 3);
	assert_int_equal(rig_figures(&r).objects, 1);
	assert_int_equal(rig_figures(&r).building, 0);
	rig_fini(&r);
}

static void a_key_that_is_there_is_not_put_again(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(rig_put(&r, 2, "a", 1000).status, 0);
	assert_int_equal(rig_start(&r, 2, "a", 1000).status, -705);
	assert_int_equal(rig_start(&r, 1, "a", 5).status, -705);
	assert_int_equal(rig_start(&r, 2, "b", 1000).status, 0);
	assert_int_equal(rig_start(&r, 1, "b", 1000).status, -705);
	assert_int_equal(rig_start(&r, 2, "b", 1000).status, -705);
	rig_fini(&r);
}

/*
 * Another thread of the same process may have got the answer and write there
 * still: two writers in one extent would outlive each other's end.
 */
static void
a_start_asked_again_on_a_new_connection_gets_space_of_its_own(void **state)
{
	const struct tes_action *fence;
	struct grant g, again;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	g = rig_start(&r, 2, "a", 1000);
	assert_int_equal(rig_join(&r, 3, 'w', 'W'), 0);
	assert_int_equal(rig_start(&r, 1, "a", 1000).status, -705);
	again = rig_start(&r, 3, "a", 1000);
	assert_int_equal(again.status, 0);
	assert_int_not_equal(again.generation, g.generation);
	assert_int_not_equal(again.address, g.address);
	fence = rig_find(&r, TES_ACTION_FENCE);
	assert_non_null(fence);
	assert_int_equal(fence->session, 1);
	assert_int_equal(fence->u.fence.writer[0], 'W');
	assert_int_equal(rig_figures(&r).fencing, 1);
	assert_int_equal(rig_end(&r, 3, "a", g.generation), -704);
	assert_int_equal(rig_start(&r, 3, "a", 1000).status, -705);
	assert_int_equal(rig_end(&r, 3, "a", again.generation), 0);
	rig_fini(&r);
}

/* Session 2 has begun "a"; session 3 is another writer. */
static struct grant rig_two_writers(struct rig *r)
{
	rig_init(r, NULL);
	rig_pair(r);
	assert_int_equal(rig_join(r, 3, 'v', 'V'), 0);
	return rig_start(r, 2, "a", 1000);
}

/* The put of session 3 has space of its own, and that of session 2 is over. */
static void assert_taken_over(struct rig *r, const struct grant *g)
{
	const struct tes_action *fence;
	struct grant other = rig_start(r, 3, "a", 500), l;

	assert_int_equal(other.status, 0);
	assert_int_not_equal(other.address, g->address);
	fence = rig_find(r, TES_ACTION_FENCE);
	assert_non_null(fence);
	assert_int_equal(fence->u.fence.writer[0], 'W');
	assert_int_equal(rig_figures(r).fencing, 1);
	assert_int_equal(rig_end(r, 3, "a", other.generation), 0);
	assert_int_equal(rig_exist(r, 1, "a"), 1);
	l = rig_lookup(r, 1, "a");
	assert_int_equal(l.address, other.address);
	assert_int_equal(l.size, 500);
	assert_int_equal(rig_join(r, 4, 'w', 'W'), 0);
	assert_int_equal(rig_end(r, 4, "a", g->generation), -700);
	assert_int_equal(rig_lookup(r, 1, "a").address, other.address);
}

static void a_put_whose_writer_has_left_keeps_nobody_away(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	g = rig_two_writers(&r);
	assert_int_equal(rig_start(&r, 3, "a", 500).status, -705);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	assert_taken_over(&r, &g);
	rig_fini(&r);
}

static void a_put_whose_writer_is_silent_keeps_nobody_away(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	g = rig_two_writers(&r);
	rig_pass(&r, rig_config.suspect_ms - 100, "13");
	assert_int_equal(rig_start(&r, 3, "a", 500).status, -705);
	rig_pass(&r, 100, "13");
	assert_taken_over(&r, &g);
	rig_fini(&r);
}

/* Unless somebody else wanted the key meanwhile. */
static void a_writer_that_is_back_goes_on(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	g = rig_two_writers(&r);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	assert_int_equal(rig_join(&r, 4, 'w', 'W'), 0);
	assert_int_equal(rig_start(&r, 3, "a", 500).status, -705);
	assert_int_equal(rig_end(&r, 4, "a", g.generation), 0);
	assert_int_equal(rig_exist(&r, 3, "a"), 1);
	rig_fini(&r);
}

static void a_batch_that_names_a_key_twice_starts_it_once(void **state)
{
	struct tes_core_key k[4] = {rig_key("a"), rig_key("b"), rig_key("a"),
				    rig_key("b")};
	uint64_t sizes[4] = {100, 200, 100, 200};
	struct tes_event ev = {
		.type = TES_EVENT_PUT_START, .session = 2, .n = 4, .keys = k};
	const struct tes_action *a;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(rig_start(&r, 2, "a", 100).status, 0);
	assert_int_equal(rig_join(&r, 3, 'w', 'W'), 0);
	ev.session = 3;
	ev.u.put_start.sizes = sizes;
	a = rig_step(&r, &ev);
	assert_int_equal(a->u.reply.status[0], 0); /* asked before */
	assert_int_equal(a->u.reply.status[1], 0);
	assert_int_equal(a->u.reply.status[2], -705);
	assert_int_equal(a->u.reply.status[3], -705);
	assert_int_equal(a->u.reply.n_segments, 1);
	assert_string_equal(a->u.reply.segments[0].engine, "o:1");
	assert_int_equal(a->u.reply.segments[0].incarnation[0], 'O');
	assert_int_equal(a->u.reply.gen_epoch[0], EPOCH);
	assert_int_equal(rig_start(&r, 3, "a", 100).status, -705);
	rig_fini(&r);
}

static void bad_arguments_are_refused_one_by_one(void **state)
{
	char long_key[TES_CORE_KEY_MAX + 2];
	struct tes_core_key k[7] = {rig_key(""),
				    {.bytes = long_key},
				    {.bytes = long_key},
				    rig_key("zero"),
				    rig_key("large"),
				    rig_key("huge"),
				    {.bytes = NULL, .len = 3}};
	uint64_t sizes[7] = {1, 1, 1, 0, 0x10000 - 63, UINT64_MAX - 20, 1};
	struct tes_event ev = {
		.type = TES_EVENT_PUT_START, .session = 2, .n = 7, .keys = k};
	static const int want[7] = {-600, -600, 0, -600, -200, -600, -600};
	const struct tes_action *a;
	struct rig r;

	(void)state;
	memset(long_key, 'k', sizeof(long_key));
	k[1].len = TES_CORE_KEY_MAX + 1;
	k[2].len = TES_CORE_KEY_MAX;
	rig_init(&r, NULL);
	rig_pair(&r);
	ev.u.put_start.sizes = sizes;
	a = rig_step(&r, &ev);
	for (int i = 0; i < 7; i++)
		assert_int_equal(a->u.reply.status[i], want[i]);
	assert_int_equal(rig_figures(&r).building, 1);
	rig_fini(&r);
}

static void an_end_must_be_exact(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	g = rig_start(&r, 2, "a", 100);
	assert_int_equal(rig_end(&r, 1, "a", g.generation), -601);
	assert_int_equal(rig_end(&r, 2, "a", g.generation + 1), -704);
	assert_int_equal(rig_end_as(&r, 2, "a", g.generation, EPOCH - 1, true),
			 -704);
	assert_int_equal(rig_end(&r, 2, "b", g.generation), -704);
	assert_int_equal(rig_figures(&r).late_ends_total, 4);
	assert_int_equal(rig_figures(&r).building, 1);
	assert_int_equal(rig_end(&r, 2, "a", g.generation), 0);
	assert_int_equal(rig_end(&r, 2, "a", g.generation), 0);
	assert_int_equal(rig_end(&r, 2, "a", g.generation + 1), -700);
	assert_int_equal(rig_end_as(&r, 2, "a", g.generation, EPOCH, false),
			 -700);
	assert_int_equal(rig_lookup(&r, 2, "a").status, 0);
	rig_fini(&r);
}

static void a_revoked_put_leaves_no_trace(void **state)
{
	struct grant g, h;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	g = rig_start(&r, 2, "a", 100);
	assert_int_equal(rig_end_as(&r, 2, "a", g.generation, EPOCH, false), 0);
	assert_int_equal(rig_figures(&r).used_bytes, 0);
	assert_int_equal(rig_figures(&r).key_bytes, 0);
	assert_int_equal(rig_lookup(&r, 2, "a").status, -704);
	h = rig_start(&r, 2, "a", 100);
	assert_int_equal(h.status, 0);
	assert_true(h.generation > g.generation);
	rig_fini(&r);
}

static void a_stranger_gets_nothing(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(rig_start(&r, 9, "a", 100).status, -103);
	assert_int_equal(rig_lookup(&r, 9, "a").status, -103);
	assert_int_equal(rig_mount(&r, 9, 'n', 0x90000, 0x10000), -103);
	assert_int_equal(rig_unmount(&r, 2, 'm'), -101);
	assert_int_equal(rig_unmount(&r, 1, 'z'), -101);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 9);
	rig_plain(&r, TES_EVENT_LEAVE, 9);
	rig_fenced(&r, 9, 1, true);
	rig_fini(&r);
}

static void mounts_are_checked(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(rig_mount(&r, 1, 'm', 0x10000, 0x10000), 0);
	assert_int_equal(rig_mount(&r, 1, 'm', 0x10000, 0x8000), -102);
	/* Ids of others, which they can see, keep nobody away. */
	assert_int_equal(rig_mount(&r, 2, 'm', 0x10000, 0x10000), 0);
	assert_int_equal(rig_unmount(&r, 2, 'm'), 0);
	assert_int_equal(rig_mount(&r, 1, 'm', 0x10000, 0x10000), 0);
	assert_int_equal(rig_mount(&r, 1, 'n', 0x18000, 0x10000), -600);
	assert_int_equal(rig_mount(&r, 1, 'n', 0x20000, 1023), -600);
	assert_int_equal(rig_mount(&r, 1, 'n', 0x20001, 4096), -600);
	assert_int_equal(rig_mount(&r, 1, 'n', UINT64_MAX - 4095, 8192), -600);
	assert_int_equal(rig_mount(&r, 1, 'n', 0x20000, UINT64_MAX), -600);
	assert_int_equal(rig_mount(&r, 1, 'n', 0x20000, 4096 + 63), 0);
	assert_int_equal(rig_figures(&r).segments, 2);
	assert_int_equal(rig_figures(&r).capacity_bytes, 0x10000 + 4096);
	rig_fini(&r);
}

static const char *why; /* the last mount was refused */

static int mount_numbered(struct rig *r, tes_session_id s, uint64_t i,
			  enum tes_event_type type)
{
	uint8_t segment[TES_CORE_ID_LEN] = {0};
	struct tes_event ev = {.type = type, .session = s};
	const struct tes_action *reply;

	memcpy(segment, &i, sizeof(i));
	segment[8] = (uint8_t)s;
	ev.u.mount.segment = segment;
	ev.u.mount.name = rig_usual_name(s);
	ev.u.mount.base = 0x100000 + i * 4096;
	ev.u.mount.size = 4096;
	reply = rig_step(r, &ev);
	why = reply->u.reply.why;
	return reply->u.reply.code;
}

/* Mounts what is left to @s of its share; returns the code that ends it. */
static int mount_all(struct rig *r, tes_session_id s)
{
	uint64_t n = 0;
	int code;

	while ((code = mount_numbered(r, s, n, TES_EVENT_MOUNT)) == 0)
		assert_true(++n <= TES_CORE_MOUNTS_EACH);
	return code;
}

static void a_client_has_a_share_of_the_mounts(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(mount_all(&r, 1), -1010);
	assert_int_equal(rig_figures(&r).segments, TES_CORE_MOUNTS_EACH);
	assert_non_null(strstr(why, "256"));
	/* One that is being dropped takes its place until it is gone. */
	assert_int_equal(mount_numbered(&r, 1, 0, TES_EVENT_UNMOUNT), 0);
	assert_int_equal(mount_numbered(&r, 1, 0, TES_EVENT_MOUNT), -1010);
	rig_tick(&r);
	assert_int_equal(mount_numbered(&r, 1, 0, TES_EVENT_MOUNT), 0);
	assert_int_equal(mount_numbered(&r, 1, 1, TES_EVENT_MOUNT), 0);
	assert_int_equal(mount_numbered(&r, 2, 0, TES_EVENT_MOUNT), 0);
	assert_int_equal(rig_start(&r, 2, "a", 0x10000 - 64).status, 0);
	rig_fini(&r);
}

static void a_source_has_a_share_of_the_mounts(void **state)
{
	tes_session_id s = 0;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_source = 7;
	while (rig_figures(&r).segments < TES_CORE_MOUNTS_SOURCE) {
		s++;
		assert_int_equal(rig_join(&r, s, (char)s, (char)s), 0);
		assert_int_equal(mount_all(&r, s), -1010);
	}
	s++;
	assert_int_equal(rig_join(&r, s, (char)s, (char)s), 0);
	assert_int_equal(mount_numbered(&r, s, 0, TES_EVENT_MOUNT), -1010);
	assert_non_null(strstr(why, "3072"));
	rig_source = 8;
	while (rig_figures(&r).segments < TES_CORE_MOUNTS_MAX) {
		s++;
		assert_int_equal(rig_join(&r, s, (char)s, (char)s), 0);
		assert_int_equal(mount_all(&r, s), -1010);
	}
	s++;
	rig_source = 9;
	assert_int_equal(rig_join(&r, s, (char)s, (char)s), 0);
	rig_source = 0;
	assert_int_equal(mount_numbered(&r, s, 0, TES_EVENT_MOUNT), -1010);
	assert_non_null(strstr(why, "4096"));
	/* Of those that are being dropped, too. */
	assert_int_equal(mount_numbered(&r, 1, 0, TES_EVENT_UNMOUNT), 0);
	assert_int_equal(mount_numbered(&r, s, 0, TES_EVENT_MOUNT), -1010);
	rig_tick(&r);
	assert_int_equal(mount_numbered(&r, s, 0, TES_EVENT_MOUNT), 0);
	rig_fini(&r);
}

static void the_largest_segment_decides_what_can_be_put(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(rig_mount(&r, 1, 'n', 0x20000, 0x10000), 0);
	assert_int_equal(rig_mount(&r, 1, 'p', 0x30000, 0x8000), 0);
	assert_int_equal(rig_unmount(&r, 1, 'm'), 0);
	assert_int_equal(rig_start(&r, 2, "a", 0x10000 - 64).status, 0);
	assert_int_equal(rig_unmount(&r, 1, 'n'), 0);
	g = rig_start(&r, 2, "b", 0x8000 - 63);
	assert_int_equal(g.status, -200);
	assert_int_equal(g.retry_ms, 0); /* waiting will not help */
	assert_int_equal(rig_start(&r, 2, "b", 0x8000 - 64).status, 0);
	/* What is there is told first. */
	assert_int_equal(rig_start(&r, 1, "b", 0x10000 - 64).status, -705);
	rig_fini(&r);
}

static void segments_are_listed_in_mount_order(void **state)
{
	struct tes_core_segment s;
	size_t cursor = 0;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(rig_mount(&r, 2, 'n', 0x40000, 0x8000), 0);
	assert_true(tes_core_segment_next(r.core, &cursor, &s));
	assert_int_equal(s.id[0], 'm');
	assert_string_equal(s.engine, "o:1");
	assert_string_equal(s.name, "name");
	assert_int_equal(s.size, 0x10000);
	assert_true(tes_core_segment_next(r.core, &cursor, &s));
	assert_int_equal(s.id[0], 'n');
	assert_false(tes_core_segment_next(r.core, &cursor, &s));
	rig_fini(&r);
}

static void bad_configurations_are_refused(void **state)
{
	struct tes_core_config c = rig_config;
	struct tes_core *core;

	(void)state;
	c.high_watermark = 1.01;
	assert_int_equal(tes_core_create(&c, &core), -EINVAL);
	c = rig_config;
	c.eviction_ratio = -0.1;
	assert_int_equal(tes_core_create(&c, &core), -EINVAL);
	c = rig_config;
	c.lease_ttl_ms = 0;
	assert_int_equal(tes_core_create(&c, &core), -EINVAL);
	tes_core_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_put_is_visible_after_its_end_only),
		cmocka_unit_test(a_key_that_is_there_is_not_put_again),
		cmocka_unit_test(
			a_start_asked_again_on_a_new_connection_gets_space_of_its_own),
		cmocka_unit_test(a_put_whose_writer_has_left_keeps_nobody_away),
		cmocka_unit_test(
			a_put_whose_writer_is_silent_keeps_nobody_away),
		cmocka_unit_test(a_writer_that_is_back_goes_on),
		cmocka_unit_test(a_batch_that_names_a_key_twice_starts_it_once),
		cmocka_unit_test(bad_arguments_are_refused_one_by_one),
		cmocka_unit_test(an_end_must_be_exact),
		cmocka_unit_test(a_revoked_put_leaves_no_trace),
		cmocka_unit_test(a_stranger_gets_nothing),
		cmocka_unit_test(mounts_are_checked),
		cmocka_unit_test(a_client_has_a_share_of_the_mounts),
		cmocka_unit_test(a_source_has_a_share_of_the_mounts),
		cmocka_unit_test(the_largest_segment_decides_what_can_be_put),
		cmocka_unit_test(segments_are_listed_in_mount_order),
		cmocka_unit_test(bad_configurations_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
