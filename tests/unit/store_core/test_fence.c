/* SPDX-License-Identifier: Apache-2.0 */
/* test_fence.c - puts that were given up, and their space */
#include "tests/unit/store_core/rig.h"

#define ALL (0x10000 - 64)

/* The fence of the last step: to session 1, against writer 'W'. */
static uint64_t fence_of(const struct rig *r)
{
	const struct tes_action *a = rig_find(r, TES_ACTION_FENCE);

	assert_non_null(a);
	assert_int_equal(a->session, 1);
	assert_int_equal(a->u.fence.writer[0], 'W');
	return a->u.fence.fence;
}

/* Let @ms pass, both alive, until a step sends a fence; it must. */
static uint64_t pass_to_fence(struct rig *r, uint64_t ms, const char *alive)
{
	for (uint64_t end = r->now + ms; r->now < end;) {
		rig_pass(r, 100, alive);
		if (rig_find(r, TES_ACTION_FENCE))
			return fence_of(r);
	}
	fail_msg("no fence");
	return 0;
}

static void space_of_a_late_put_waits_for_its_fence(void **state)
{
	uint64_t fence, old;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	old = rig_start(&r, 2, "a", ALL).generation;
	fence = pass_to_fence(&r, rig_config.put_discard_ms + 100, "12");
	assert_int_equal(rig_figures(&r).fencing, 1);
	assert_int_equal(rig_figures(&r).used_bytes, 0x10000);
	assert_int_equal(rig_start(&r, 1, "a", 100).status, -200);
	assert_true(rig_start(&r, 1, "a", 100).retry_ms > 0);
	assert_int_equal(rig_end(&r, 2, "a", old), -704);
	rig_fenced(&r, 1, fence + 1, true); /* not this one */
	rig_fenced(&r, 2, fence, true);     /* not his */
	assert_int_equal(rig_figures(&r).fencing, 1);
	rig_fenced(&r, 1, fence, true);
	assert_int_equal(rig_figures(&r).fencing, 0);
	assert_int_equal(rig_figures(&r).used_bytes, 0);
	assert_int_equal(rig_start(&r, 1, "a", ALL).status, 0);
	assert_int_equal(rig_figures(&r).discarded_puts_total, 1);
	rig_fini(&r);
}

static void a_key_is_free_at_once_when_its_writer_is_gone(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	g = rig_start(&r, 2, "a", 100);
	assert_int_equal(rig_join(&r, 3, 'w', 'V'), 0); /* restarted */
	assert_int_not_equal(rig_start(&r, 3, "a", 100).address, g.address);
	rig_fini(&r);
}

static void one_fence_covers_all_that_a_writer_left_at_an_owner(void **state)
{
	uint64_t fence;
	char key[16];
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	for (int i = 0; i < 20; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		assert_int_equal(rig_start(&r, 2, key, 100).status, 0);
	}
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	fence = pass_to_fence(&r, rig_config.suspect_ms + 300, "1");
	assert_int_equal(rig_figures(&r).fences_total, 1);
	assert_int_equal(rig_figures(&r).fencing, 20);
	rig_fenced(&r, 1, fence, true);
	assert_int_equal(rig_figures(&r).used_bytes, 0);
	rig_tick(&r);
	assert_false(tes_core_busy(r.core));
	rig_fini(&r);
}

static void an_owner_that_does_not_confirm_is_dropped(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_start(&r, 2, "a", 100);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	pass_to_fence(&r, rig_config.suspect_ms + 300, "1");
	rig_pass(&r, rig_config.fence_timeout_ms - 100, "1");
	assert_int_equal(rig_figures(&r).sessions, 1);
	rig_pass(&r, 100, "1");
	assert_int_equal(rig_find(&r, TES_ACTION_CLOSE)->session, 1);
	assert_int_equal(rig_figures(&r).fences_failed_total, 1);
	rig_pass(&r, 200, "");
	assert_int_equal(rig_figures(&r).sessions, 0);
	assert_int_equal(rig_figures(&r).segments, 0);
	assert_int_equal(rig_figures(&r).fencing, 0);
	assert_false(tes_core_busy(r.core));
	rig_fini(&r);
}

static void an_owner_that_cannot_fence_is_dropped(void **state)
{
	uint64_t fence;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_start(&r, 2, "a", 100);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	fence = pass_to_fence(&r, rig_config.suspect_ms + 300, "1");
	rig_fenced(&r, 1, fence, false);
	assert_int_equal(rig_find(&r, TES_ACTION_CLOSE)->session, 1);
	assert_int_equal(rig_figures(&r).capacity_bytes, 0);
	rig_fini(&r);
}

static void a_fence_that_is_pending_keeps_its_space_and_no_more(void **state)
{
	struct tes_event ev = {.type = TES_EVENT_FENCED, .session = 1};
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_start(&r, 2, "a", 100);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	ev.u.fenced.fence = pass_to_fence(&r, rig_config.suspect_ms + 300, "1");
	ev.u.fenced.pending = true;
	assert_null(rig_step(&r, &ev));
	rig_pass(&r, 3 * rig_config.fence_timeout_ms, "1");
	assert_int_equal(rig_figures(&r).sessions, 1);
	assert_int_equal(rig_figures(&r).fencing, 1);
	rig_fenced(&r, 1, ev.u.fenced.fence, true);
	assert_int_equal(rig_figures(&r).fencing, 0);
	assert_int_equal(rig_figures(&r).used_bytes, 0);
	rig_fini(&r);
}

static void a_fence_is_sent_again_on_the_owners_new_connection(void **state)
{
	const struct tes_action *a;
	uint64_t fence;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_start(&r, 2, "a", 100);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	fence = pass_to_fence(&r, rig_config.suspect_ms + 300, "1");
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	assert_int_equal(rig_join(&r, 7, 'o', 'O'), 0);
	assert_null(rig_find(&r, TES_ACTION_FENCE)); /* no way to it yet */
	rig_pass(&r, rig_config.fence_timeout_ms - 200, "");
	rig_plain(&r, TES_EVENT_HEARTBEAT, 7);
	a = rig_find(&r, TES_ACTION_FENCE);
	assert_non_null(a);
	assert_int_equal(a->session, 7);
	assert_int_equal(a->u.fence.fence, fence);
	rig_fenced(&r, 7, fence, true);
	assert_int_equal(rig_figures(&r).used_bytes, 0);
	rig_fini(&r);
}

static void a_fence_waits_for_an_owner_that_has_left(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_start(&r, 2, "a", 100);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	rig_pass(&r, rig_config.suspect_ms - 100, "1");
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	rig_pass(&r, 200, "1");
	assert_int_equal(rig_figures(&r).fences_total, 1);
	assert_int_equal(rig_join(&r, 7, 'o', 'O'), 0);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 7);
	assert_int_equal(rig_find(&r, TES_ACTION_FENCE)->session, 7);
	rig_fini(&r);
}

static void an_owner_dies_with_its_own_puts(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_start(&r, 1, "a", 100);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	rig_pass(&r, rig_config.suspect_ms + 200, "2");
	assert_int_equal(rig_figures(&r).fences_total, 0);
	assert_int_equal(rig_figures(&r).building, 0);
	assert_false(tes_core_busy(r.core));
	rig_fini(&r);
}

static void unmounted_space_needs_no_fence(void **state)
{
	uint64_t fence;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_start(&r, 2, "a", 100);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	fence = pass_to_fence(&r, rig_config.suspect_ms + 300, "1");
	rig_unmount(&r, 1, 'm');
	rig_pass(&r, rig_config.fence_timeout_ms + 100, "1");
	assert_int_equal(rig_figures(&r).fencing, 0);
	assert_int_equal(rig_figures(&r).sessions, 1);
	rig_fenced(&r, 1, fence, false);
	assert_int_equal(rig_figures(&r).sessions, 1);
	rig_fini(&r);
}

#define FENCED     1100u
#define FENCE_FULL 1024u

/* Its owner has not been heard of yet, and confirms a part at a time. */
static void a_fence_has_a_limit(void **state)
{
	uint64_t first = 0;
	size_t n = 0;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	assert_int_equal(rig_join(&r, 1, 'o', 'O'), 0);
	assert_int_equal(rig_mount(&r, 1, 'm', 0x10000, 1u << 24), 0);
	assert_int_equal(rig_join(&r, 2, 'w', 'W'), 0);
	/* Each gives up the one before. */
	for (unsigned int i = 0; i <= FENCED; i++)
		assert_int_equal(
			rig_start_as(&r, 2, "k", 10, NULL, NULL, true).status,
			0);
	assert_int_equal(rig_figures(&r).fencing, FENCED);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 1);
	for (size_t i = 0; i < r.out.n; i++) {
		if (r.out.at[i].type != TES_ACTION_FENCE)
			continue;
		if (!n++)
			first = r.out.at[i].u.fence.fence;
	}
	assert_int_equal(n, 2);
	rig_fenced(&r, 1, first, true);
	assert_int_equal(rig_figures(&r).fencing, FENCED - FENCE_FULL);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(space_of_a_late_put_waits_for_its_fence),
		cmocka_unit_test(a_key_is_free_at_once_when_its_writer_is_gone),
		cmocka_unit_test(
			one_fence_covers_all_that_a_writer_left_at_an_owner),
		cmocka_unit_test(an_owner_that_does_not_confirm_is_dropped),
		cmocka_unit_test(an_owner_that_cannot_fence_is_dropped),
		cmocka_unit_test(
			a_fence_that_is_pending_keeps_its_space_and_no_more),
		cmocka_unit_test(
			a_fence_is_sent_again_on_the_owners_new_connection),
		cmocka_unit_test(a_fence_waits_for_an_owner_that_has_left),
		cmocka_unit_test(an_owner_dies_with_its_own_puts),
		cmocka_unit_test(unmounted_space_needs_no_fence),
		cmocka_unit_test(a_fence_has_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
