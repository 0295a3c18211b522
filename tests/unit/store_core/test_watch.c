/* SPDX-License-Identifier: Apache-2.0 */
/* test_watch.c - those who watch learn what is there and what is no more */
#include "tests/unit/store_core/rig.h"

/* What was told, as "+key(group) -key ". */
static char told[4096];

static void note(enum tes_core_news news, const struct tes_core_item *item,
		 void *arg)
{
	size_t len = strlen(told);

	assert_ptr_equal(arg, told);
	assert_int_equal(item->tenant.len, 7);
	assert_memory_equal(item->tenant.bytes, "default", 7);
	len += (size_t)snprintf(told + len, sizeof(told) - len, "%c%.*s",
				news == TES_CORE_STORED ? '+' : '-',
				(int)item->key.len,
				(const char *)item->key.bytes);
	if (item->group.len)
		len += (size_t)snprintf(told + len, sizeof(told) - len,
					"(%.*s)", (int)item->group.len,
					(const char *)item->group.bytes);
	(void)snprintf(told + len, sizeof(told) - len, " ");
}

static void assert_told(const char *what)
{
	assert_string_equal(told, what);
	told[0] = '\0';
}

static void start(struct rig *r)
{
	struct tes_core_config config = rig_config;

	told[0] = '\0';
	config.watch = note;
	config.watch_arg = told;
	rig_init(r, &config);
	rig_pair(r);
}

static void a_put_is_told_at_its_end_and_a_remove(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	start(&r);
	g = rig_start(&r, 2, "a", 100);
	assert_told("");
	assert_int_equal(rig_end(&r, 2, "a", g.generation), 0);
	assert_told("+a ");
	assert_int_equal(rig_end(&r, 2, "a", g.generation), 0); /* once more */
	assert_told("");
	assert_int_equal(rig_remove(&r, 2, "a", true), 0);
	assert_told("-a ");
	assert_int_equal(rig_remove(&r, 2, "a", true), -704);
	assert_told("");
	rig_fini(&r);
	assert_told("");
}

static void what_was_never_there_is_no_news(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	start(&r);
	g = rig_start(&r, 2, "a", 100);
	assert_int_equal(rig_end_as(&r, 2, "a", g.generation, EPOCH, 0), 0);
	rig_start(&r, 2, "b", 100);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	rig_pass(&r, 40000, "1");
	assert_told("");
	rig_fini(&r);
}

static void a_replaced_value_goes_before_the_new_one_comes(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	start(&r);
	rig_put(&r, 2, "a", 100);
	assert_told("+a ");
	g = rig_start_as(&r, 2, "a", 100, NULL, NULL, true);
	assert_told("");
	assert_int_equal(rig_end(&r, 2, "a", g.generation), 0);
	assert_told("-a +a ");
	rig_fini(&r);
}

static void a_group_is_told_with_its_members(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	start(&r);
	g = rig_start_as(&r, 2, "a", 100, NULL, "team", false);
	assert_int_equal(rig_end(&r, 2, "a", g.generation), 0);
	assert_int_equal(rig_remove(&r, 2, "a", true), 0);
	assert_told("+a(team) -a(team) ");
	rig_fini(&r);
}

static void what_is_evicted_is_told(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	rig_put(&r, 2, "a", 40000);
	assert_told("+a ");
	rig_put(&r, 2, "b", 40000);
	assert_told("-a +b ");
	rig_fini(&r);
}

static void what_an_owner_takes_along_is_told(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	rig_put(&r, 2, "a", 100);
	rig_put(&r, 2, "b", 100);
	assert_told("+a +b ");
	rig_plain(&r, TES_EVENT_LEAVE, 1); /* silent: it may come back */
	rig_tick(&r);
	assert_told("");
	rig_pass(&r, 20000, "2");
	assert_told("-a -b ");
	rig_fini(&r);
}

static void all_that_is_removed_is_told(void **state)
{
	struct tes_event ev = {.type = TES_EVENT_REMOVE_ALL, .session = 2};
	struct rig r;
	size_t n = 0;

	(void)state;
	start(&r);
	rig_put(&r, 2, "a", 100);
	rig_put(&r, 2, "b", 100);
	rig_put(&r, 2, "c", 100);
	told[0] = '\0';
	assert_null(rig_step(&r, &ev));
	rig_pass(&r, 1000, "12");
	for (const char *at = told; (at = strchr(at, '-')); at++)
		n++;
	assert_int_equal(n, 3);
	assert_int_equal(strlen(told), 9);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_put_is_told_at_its_end_and_a_remove),
		cmocka_unit_test(what_was_never_there_is_no_news),
		cmocka_unit_test(
			a_replaced_value_goes_before_the_new_one_comes),
		cmocka_unit_test(a_group_is_told_with_its_members),
		cmocka_unit_test(what_is_evicted_is_told),
		cmocka_unit_test(what_an_owner_takes_along_is_told),
		cmocka_unit_test(all_that_is_removed_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
