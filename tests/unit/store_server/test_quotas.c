/* SPDX-License-Identifier: Apache-2.0 */
/* test_quotas.c - the file of tenants' quotas: read, refused, written */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/server/quotas.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

static char folder[TEST_PATH_MAX], path[TEST_PATH_MAX + 32];
static char error[TEI_CONF_ERROR_LEN];

static int start(void **state)
{
	(void)state;
	*error = '\0';
	test_tmpdir_create(folder);
	(void)snprintf(path, sizeof(path), "%s/quotas.yaml", folder);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	test_tmpdir_remove(folder);
	return 0;
}

static void put(const char *text)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void names_and_units_are_read_in_any_style(void **state)
{
	static const struct {
		const char *text;
		size_t n;
		uint64_t first;
	} good[] = {
		{"version: 1\ntenants: []\n", 0, 0},
		{"version: 1\ntenants:\n", 0, 0},
		{"tenants: [{name: a, quota: 10}]\nversion: 1\n", 1, 10},
		{"version: 1\ntenants: [{quota: 16MB, name: a}]\n", 1,
		 16u << 20},
		{"version: 1\ntenants:\n  - name: a\n    quota: 2 GB\n"
		 "  - name: 'b c'\n    quota: 1TB\n",
		 2, 2ull << 30},
		{"# why\n---\nversion: 1 # first\ntenants:\n- {name: a, "
		 "quota: \"3KB\"}\n- {name: b, quota: 5B}\n...\n",
		 2, 3072},
	};
	struct tes_quotas q = {.n = 0};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		put(good[i].text);
		assert_int_equal(tes_quotas_read(path, &q, error), 0);
		assert_int_equal(q.n, good[i].n);
		if (q.n) {
			assert_string_equal(q.at[0].name, "a");
			assert_int_equal(q.at[0].bytes, good[i].first);
		}
		tes_quotas_free(&q);
	}
}

static void a_bad_file_is_refused_with_line_and_reason(void **state)
{
	static const struct {
		const char *text, *line, *why;
	} bad[] = {
		{"", "line 1", "version and tenants"},
		{"version: 1\n", "line 1", "version and tenants"},
		{"tenants: []\n", "line 1", "version and tenants"},
		{"version: 2\ntenants: []\n", "line 1", "version is 1"},
		{"version: 1\nversion: 1\ntenants: []\n", "line 2", "twice"},
		{"version: 1\ntenant: []\n", "line 2", "version and tenants"},
		{"version: 1\ntenants: 5\n", "line 2", "list"},
		{"version: 1\ntenants: {a: 1}\n", "line 2", "list"},
		{"version: 1\ntenants: [a]\n", "line 2", "name and quota"},
		{"version: 1\ntenants:\n- name: a\n", "line 3",
		 "name and quota"},
		{"version: 1\ntenants:\n- quota: 1\n", "line 3",
		 "name and quota"},
		{"version: 1\ntenants:\n- name: a\n  quota: 0\n", "line 4",
		 "above 0"},
		{"version: 1\ntenants:\n- name: a\n  quota: -1\n", "line 4",
		 "above 0"},
		{"version: 1\ntenants:\n- name: a\n  quota: 1.5GB\n", "line 4",
		 "whole"},
		{"version: 1\ntenants:\n- name: a\n  quota: 1XB\n", "line 4",
		 "whole"},
		{"version: 1\ntenants:\n- name: a\n  quota: [1]\n", "line 4",
		 "whole"},
		{"version: 1\ntenants:\n- name: a\n  quota: 99999999999TB\n",
		 "line 4", "whole"},
		{"version: 1\ntenants:\n- name: _a\n  quota: 1\n", "line 3",
		 "name"},
		{"version: 1\ntenants:\n- name: \"a\\tb\"\n  quota: 1\n",
		 "line 3", "name"},
		{"version: 1\ntenants:\n- name: \"a\\0b\"\n  quota: 1\n",
		 "line 3", "name"},
		{"version: 1\ntenants:\n- name:\n  quota: 1\n", "line 3",
		 "name"},
		{"version: 1\ntenants:\n- {name: a, quota: 1}\n"
		 "- {name: a, quota: 2}\n",
		 "line 4", "is there"},
		{"version: 1\ntenants:\n- {name: a, quota: 1, rate: 2}\n",
		 "line 3", "name and quota"},
		{"version: 1\ntenants:\n- {name: a, name: b, quota: 1}\n",
		 "line 3", "twice"},
		{"version: 1\ntenants: [{name: a\n", "line", ""},
		{"version: 1\ntenants: []\n---\nversion: 1\n", "line 3",
		 "one document"},
		{"- version\n", "line 1", "expected"},
		{"version: 1\ntenants: &x []\nmore: *x\n", "line 3",
		 "expected"},
	};
	struct tes_quotas q = {.n = 0};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put(bad[i].text);
		assert_int_equal(tes_quotas_read(path, &q, error), -EINVAL);
		assert_int_equal(q.n, 0);
		if (!strstr(error, bad[i].line) || !strstr(error, bad[i].why) ||
		    !strstr(error, "quotas.yaml"))
			fail_msg("%zu: %s", i, error);
	}
}

static void what_is_no_file_is_refused(void **state)
{
	struct tes_quotas q = {.n = 0};

	(void)state;
	assert_int_equal(tes_quotas_read(path, &q, error), -ENOENT);
	assert_non_null(strstr(error, "quotas.yaml"));
	assert_int_equal(tes_quotas_read(folder, &q, error), -EINVAL);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(tes_quotas_read(path, &q, error), -EINVAL);
}

static void what_was_written_is_read_again(void **state)
{
	static const char *const names[] = {"a", "b \"c\" \\d", "\xc3\xa9: #x",
					    "true"};
	static const uint64_t bytes[] = {1, 3ull << 30, 1000, UINT64_MAX / 2};
	struct tes_quotas q = {.n = 0}, again = {.n = 0};
	struct stat st = {.st_mode = 0};

	(void)state;
	put("version: 1\ntenants: []\n");
	assert_int_equal(chmod(path, 0640), 0);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(tes_quotas_add(&q, names[i], bytes[i]), 0);
	assert_int_equal(tes_quotas_write(path, &q), 0);
	assert_int_equal(tes_quotas_read(path, &again, error), 0);
	assert_int_equal(again.n, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_string_equal(again.at[i].name, names[i]);
		assert_int_equal(again.at[i].bytes, bytes[i]);
	}
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	tes_quotas_free(&q);
	tes_quotas_free(&again);
	/* None is fine, too. */
	assert_int_equal(tes_quotas_write(path, &q), 0);
	assert_int_equal(tes_quotas_read(path, &again, error), 0);
	assert_int_equal(again.n, 0);
}

/* Controls, ends of lines and marks, of which YAML takes none as it is. */
static void every_name_that_may_be_is_read_again(void **state)
{
	static const char *const names[] = {
		"\xc2\x80",        "\xc2\x85 x",   "\xc2\x9f",
		"a\xe2\x80\xa8 b", "\xe2\x80\xa9", "\xef\xbb\xbfx",
		"\xef\xbf\xbe",    "\xef\xbf\xbf", "\xc2\xa0",
		"\xe4\xb8\xad",    " a ",          "'\"\\u0041",
	};
	struct tes_quotas q = {.n = 0}, back = {.n = 0};

	(void)state;
	put("");
	for (size_t i = 0; i < TEST_COUNT(names); i++)
		assert_int_equal(tes_quotas_add(&q, names[i], i + 1), 0);
	assert_int_equal(tes_quotas_write(path, &q), 0);
	if (tes_quotas_read(path, &back, error))
		fail_msg("%s", error);
	assert_int_equal(back.n, q.n);
	for (size_t i = 0; i < q.n; i++)
		assert_string_equal(back.at[i].name, q.at[i].name);
	tes_quotas_free(&q);
	tes_quotas_free(&back);
}

/* A link still points to the file; a folder that is gone changes nothing. */
static void a_link_is_followed_and_failure_leaves_the_file(void **state)
{
	struct tes_quotas q = {.n = 0}, again = {.n = 0};
	char link[TEST_PATH_MAX + 32], nowhere[TEST_PATH_MAX + 32];
	struct stat st = {.st_mode = 0};

	(void)state;
	put("version: 1\ntenants: [{name: a, quota: 7}]\n");
	(void)snprintf(link, sizeof(link), "%s/link", folder);
	(void)snprintf(nowhere, sizeof(nowhere), "%s/none/x", folder);
	assert_int_equal(symlink(path, link), 0);
	assert_true(tes_quotas_write(nowhere, &q) < 0);
	assert_int_equal(tes_quotas_add(&q, "b", 8), 0);
	assert_int_equal(tes_quotas_write(link, &q), 0);
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(tes_quotas_read(path, &again, error), 0);
	assert_string_equal(again.at[0].name, "b");
	tes_quotas_free(&q);
	tes_quotas_free(&again);
}

#define T(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(names_and_units_are_read_in_any_style),
		T(a_bad_file_is_refused_with_line_and_reason),
		T(what_is_no_file_is_refused),
		T(what_was_written_is_read_again),
		T(every_name_that_may_be_is_read_again),
		T(a_link_is_followed_and_failure_leaves_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
