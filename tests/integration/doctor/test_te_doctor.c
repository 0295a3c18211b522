/* SPDX-License-Identifier: Apache-2.0 */
/* test_te_doctor.c - te-doctor as users and their scripts run it */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/process.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"

#define PATIENCE_MS 60000

static char dir[TEST_PATH_MAX];

static int unpack(void **state)
{
	(void)state;
	test_tmpdir_create(dir);
	test_tree_unpack("topology/one-nic.tree", dir);
	return 0;
}

static int tidy_up(void **state)
{
	(void)state;
	test_tmpdir_remove(dir);
	return 0;
}

static char *run(const char *const args[], int code)
{
	return test_process_run("te-doctor", args, code, PATIENCE_MS);
}

static void warnings_alone_are_no_failure(void **state)
{
	static const char *const strict[] = {"--root", dir, "--strict", NULL};
	static const char *const mild[] = {"--root", dir, NULL};
	char *text = run(mild, 0);

	(void)state;
	test_contains(text, "0 failures, ");
	test_contains(text, "warn     rdma.devices: none in");
	test_contains(text, "wanted: at least one RDMA device");
	test_contains(text, "mend:   ");
	free(text);
	free(run(strict, 1));
}

static void a_failure_ends_with_1(void **state)
{
	static const char *const args[] = {"--root", dir, NULL};
	char *text;

	(void)state;
	test_tree_write(dir, "sys/class/infiniband/mlx5_0/ports/1/state",
			"1: DOWN\n");
	text = run(args, 1);
	test_contains(text, "fail     rdma.node mlx5_0: ");
	test_contains(text, "fail     rdma.port mlx5_0/1: state 1: DOWN");
	/* The worst first. */
	assert_true(strstr(text, "\nfail ") < strstr(text, "\nwarn "));
	free(text);
}

static void json_holds_what_the_text_does(void **state)
{
	static const char *const args[] = {"--root", dir, "--json", NULL};
	json_t *all, *findings, *one;
	json_int_t sum;
	char *text;
	size_t i;

	(void)state;
	test_tree_write(dir, "sys/class/infiniband/mlx5_0/ports/1/state",
			"1: DOWN\n");
	text = run(args, 1);
	all = json_loads(text, 0, NULL);
	assert_non_null(all);
	findings = json_object_get(all, "findings");
	sum = json_integer_value(json_object_get(all, "fail")) +
	      json_integer_value(json_object_get(all, "warn")) +
	      json_integer_value(json_object_get(all, "unknown")) +
	      json_integer_value(json_object_get(all, "ok"));
	assert_int_equal(json_array_size(findings), sum);
	assert_true(json_integer_value(json_object_get(all, "fail")) >= 2);
	json_array_foreach(findings, i, one)
	{
		assert_true(json_is_string(json_object_get(one, "check")));
		assert_true(json_is_string(json_object_get(one, "object")));
		assert_true(json_is_string(json_object_get(one, "mark")));
		assert_true(json_is_string(json_object_get(one, "found")));
		assert_true(json_is_string(json_object_get(one, "wanted")));
		assert_true(json_is_string(json_object_get(one, "mend")));
	}
	json_decref(all);
	free(text);
}

static void this_machine_is_looked_at_without_arguments(void **state)
{
	struct test_process *p =
		test_process_start("te-doctor", (const char *const[]){NULL});
	int rc = test_process_wait(p, PATIENCE_MS);

	(void)state;
	assert_true(rc == 0 || rc == 1); /* whatever it is like */
	test_contains(test_process_output(p), "limits.nofile: ");
	test_contains(test_process_output(p), "kernel.memfd: ");
	test_process_end(p);
}

static void what_cannot_be_is_refused_in_one_line(void **state)
{
	char *text;

	(void)state;
	text = run((const char *const[]){"--root", "/no/such", NULL}, 2);
	test_contains(text, "/no/such");
	free(text);
	text = run((const char *const[]){"--jsno", NULL}, 2);
	test_contains(text, "jsno");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(warnings_alone_are_no_failure),
		cmocka_unit_test(a_failure_ends_with_1),
		cmocka_unit_test(json_holds_what_the_text_does),
		cmocka_unit_test(this_machine_is_looked_at_without_arguments),
		cmocka_unit_test(what_cannot_be_is_refused_in_one_line),
	};

	return cmocka_run_group_tests_name("te_doctor", tests, unpack, tidy_up);
}
