/* SPDX-License-Identifier: Apache-2.0 */
/* test_news.c - what is told of owners */
#include "tests/unit/store_core/rig.h"

/* Ticks of 100 ms until something is told of an owner. */
static const struct tes_action *next_news(struct rig *r)
{
	uint64_t end = r->now + 2 * rig_config.client_ttl_ms;
	const struct tes_action *a = NULL;

	while (!a && r->now < end) {
		rig_pass(r, 100, "2");
		a = rig_find(r, TES_ACTION_OWNER);
	}
	assert_non_null(a);
	return a;
}

static void silence_is_told_once_and_so_is_its_end(void **state)
{
	const struct tes_action *a;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	a = next_news(&r);
	assert_int_equal(a->session, 1);
	assert_int_equal(a->u.owner.news, TES_OWNER_SILENT);
	assert_false(a->u.owner.left);
	assert_true(a->u.owner.silent_ms >= rig_config.suspect_ms);
	rig_pass(&r, 100, "2");
	assert_null(rig_find(&r, TES_ACTION_OWNER));
	rig_plain(&r, TES_EVENT_HEARTBEAT, 1);
	a = rig_find(&r, TES_ACTION_OWNER);
	assert_non_null(a);
	assert_int_equal(a->u.owner.news, TES_OWNER_BACK);
	assert_string_equal(a->u.owner.engine, "o:1");
	rig_fini(&r);
}

static void who_stays_silent_is_told_to_be_gone(void **state)
{
	const struct tes_action *a;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(next_news(&r)->u.owner.news, TES_OWNER_SILENT);
	a = next_news(&r);
	assert_int_equal(a->u.owner.news, TES_OWNER_GONE);
	assert_true(a->u.owner.silent_ms >= rig_config.client_ttl_ms);
	rig_fini(&r);
}

static void an_owner_that_left_is_told_apart(void **state)
{
	const struct tes_action *a;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	a = rig_find(&r, TES_ACTION_OWNER);
	assert_non_null(a);
	assert_int_equal(a->u.owner.news, TES_OWNER_SILENT);
	assert_true(a->u.owner.left);
	rig_fini(&r);
}

static void who_lends_nothing_is_not_worth_a_word(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	assert_null(rig_find(&r, TES_ACTION_OWNER));
	assert_int_equal(rig_unmount(&r, 1, 'm'), 0);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	assert_null(rig_find(&r, TES_ACTION_OWNER));
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence_is_told_once_and_so_is_its_end),
		cmocka_unit_test(who_stays_silent_is_told_to_be_gone),
		cmocka_unit_test(an_owner_that_left_is_told_apart),
		cmocka_unit_test(who_lends_nothing_is_not_worth_a_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
