/* SPDX-License-Identifier: Apache-2.0 */
/* test_lookup.c - addresses of names, found without holding up a loop */
#include <errno.h>
#include <stdatomic.h>

#include "base/fault.h"
#include "base/lookup.h"
#include "base/loop.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

static atomic_int n_found;

static void on_found(void *arg, const struct tei_address *to, int n)
{
	(void)arg;
	if (n > 0 && tei_address_port(to) == 4321)
		atomic_fetch_add(&n_found, 1);
}

static bool all_found(void *arg)
{
	return atomic_load(&n_found) == *(int *)arg;
}

struct start {
	struct tei_loop *loop;
	const char *name;
	struct tei_lookup *lookup;
	int rc;
};

static void do_start(void *arg)
{
	struct start *s = arg;

	s->rc = tei_lookup_start(s->loop, s->name, on_found, NULL, &s->lookup);
}

static void do_stop(void *arg)
{
	struct start *s = arg;

	tei_lookup_stop(s->lookup);
}

static void names_and_numbers_are_found(void **state)
{
	struct start s = {0};
	int wanted = 2;
	struct start t;

	(void)state;
	atomic_store(&n_found, 0);
	assert_int_equal(tei_loop_create("test", &s.loop), 0);
	t = s;
	s.name = "127.0.0.1:4321";
	t.name = "localhost:4321";
	assert_true(tei_loop_do(s.loop, do_start, &s));
	assert_int_equal(s.rc, 0);
	assert_true(tei_loop_do(s.loop, do_start, &t));
	assert_int_equal(t.rc, 0);
	assert_true(test_wait_until(all_found, &wanted, 60000));
	assert_true(tei_loop_do(s.loop, do_stop, &s));
	assert_true(tei_loop_do(s.loop, do_stop, &t));
	tei_loop_stop(s.loop);
	tei_loop_destroy(s.loop);
}

static void a_stopped_look_up_is_silent(void **state)
{
	struct start s = {.name = "localhost:4321"};
	int i;

	(void)state;
	atomic_store(&n_found, 0);
	assert_int_equal(tei_loop_create("test", &s.loop), 0);
	for (i = 0; i < 20; i++) {
		assert_true(tei_loop_do(s.loop, do_start, &s));
		assert_int_equal(s.rc, 0);
		tei_loop_do(s.loop, do_stop, &s);
	}
	tei_loop_stop(s.loop);
	tei_loop_destroy(s.loop);
}

static void a_name_without_port_is_refused(void **state)
{
	struct tei_lookup *lookup;

	(void)state;
	assert_int_equal(
		tei_lookup_start(NULL, "host", on_found, NULL, &lookup),
		-EINVAL);
	assert_int_equal(tei_lookup_start(NULL, "", on_found, NULL, &lookup),
			 -EINVAL);
}

static void a_name_that_hangs_is_given_up_at_once(void **state)
{
	struct start s = {.name = "localhost:4321"};

	(void)state;
	atomic_store(&n_found, 0);
	tei_fault_slow_names(600000);
	assert_int_equal(tei_loop_create("test", &s.loop), 0);
	assert_true(tei_loop_do(s.loop, do_start, &s));
	assert_int_equal(s.rc, 0);
	tei_loop_do(s.loop, do_stop, &s);
	tei_loop_stop(s.loop);
	tei_loop_destroy(s.loop);
	tei_fault_slow_names(0);
	assert_int_equal(n_found, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_numbers_are_found),
		cmocka_unit_test(a_stopped_look_up_is_silent),
		cmocka_unit_test(a_name_without_port_is_refused),
		cmocka_unit_test(a_name_that_hangs_is_given_up_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
