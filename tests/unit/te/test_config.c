/* SPDX-License-Identifier: Apache-2.0 */
/* test_config.c - settings are tried when they are set */
#include "te/core/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <te/te.h>

#include "base/copy.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"

static void later_setting_wins(void **state)
{
	struct te_config *config;
	struct tei_config values;

	(void)state;
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(te_config_set(config, "slice_max", "2m", NULL, 0), 0);
	assert_int_equal(te_config_set(config, "slice-max", "4m", NULL, 0), 0);
	assert_int_equal(te_config_set(config, "bind", "::1", NULL, 0), 0);
	assert_int_equal(tei_config_make(config, tei_backends, &values), 0);
	assert_int_equal(values.slice_max, 4 << 20);
	assert_string_equal(values.bind, "::1");
	assert_int_equal(values.connect_timeout, 2000);
	tei_config_fini(&values);
	te_config_destroy(config);
}

static void wrong_setting_is_named_and_changes_nothing(void **state)
{
	struct te_config *config;
	struct tei_config values;
	char error[200];

	(void)state;
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(te_config_set(config, "slice_max", "lots", error,
				       sizeof(error)),
			 -EINVAL);
	assert_non_null(strstr(error, "slice_max"));
	assert_non_null(strstr(error, "lots"));
	assert_int_equal(
		te_config_set(config, "slice_max", "1", error, sizeof(error)),
		-ERANGE);
	assert_int_equal(
		te_config_set(config, "no_such", "1", error, sizeof(error)),
		-ENOENT);
	assert_int_equal(tei_config_make(config, tei_backends, &values), 0);
	assert_int_equal(values.slice_max, 1 << 20);
	tei_config_fini(&values);
	te_config_destroy(config);
}

static void set_weighs_more_than_environment(void **state)
{
	struct te_config *config;
	struct tei_config values;

	(void)state;
	setenv("MOONCAKE_INSECURE", "1", 1);
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(tei_config_make(config, tei_backends, &values), 0);
	assert_true(values.insecure);
	tei_config_fini(&values);
	assert_int_equal(te_config_set(config, "insecure", "false", NULL, 0),
			 0);
	assert_int_equal(tei_config_make(config, tei_backends, &values), 0);
	assert_false(values.insecure);
	tei_config_fini(&values);
	te_config_destroy(config);
	setenv("MOONCAKE_INSECURE", "perhaps", 1);
	assert_int_equal(tei_config_make(NULL, tei_backends, &values), -EINVAL);
	unsetenv("MOONCAKE_INSECURE");
}

/* Returns the value of fake.allow_uids; it lives until the next call. */
static const char *users_of_backend(const struct te_config *config,
				    const char *of_engine)
{
	static const struct tei_setting rows[] = {
		{.name = "fake.allow_uids", .type = TEI_CONF_UIDS},
	};
	static const struct tei_backend_ops fake = {
		.name = "fake", .settings = rows, .n_settings = 1};
	static char kept[64];
	char *values[1];

	assert_int_equal(
		tei_config_make_backend(config, &fake, NULL, of_engine, values),
		0);
	(void)snprintf(kept, sizeof(kept), "%s", values[0] ? values[0] : "");
	tei_config_fini_backend(&fake, values);
	return kept;
}

static void users_of_an_engine_are_those_of_its_backends(void **state)
{
	struct te_config *config;
	struct tei_config values;
	char error[256];

	(void)state;
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(
		te_config_set(config, "allow_uids", "me", error, sizeof(error)),
		-EINVAL);
	test_contains(error, "'me' is not a list of user ids");
	assert_int_equal(te_config_set(config, "allow_uids", "7,9", NULL, 0),
			 0);
	assert_int_equal(tei_config_make(config, tei_backends, &values), 0);
	assert_string_equal(values.allow_uids, "7,9");
	tei_config_fini(&values);
	setenv("MOONCAKE_ALLOW_UIDS", "5", 1);
	assert_int_equal(tei_config_make(NULL, tei_backends, &values), 0);
	assert_string_equal(values.allow_uids, "5");
	tei_config_fini(&values);
	unsetenv("MOONCAKE_ALLOW_UIDS");
	assert_string_equal(users_of_backend(config, NULL), "");
	assert_string_equal(users_of_backend(config, "7,9"), "7,9");
	te_config_destroy(config);
}

static void list_names_backends(void **state)
{
	(void)state;
	assert_true(tei_config_lists(NULL, "tcp"));
	assert_true(tei_config_lists("", "tcp"));
	assert_true(tei_config_lists("tcp", "tcp"));
	assert_true(tei_config_lists("loop,tcp", "tcp"));
	assert_true(tei_config_lists("loop, tcp", "tcp"));
	assert_true(tei_config_lists("tcp,loop", "tcp"));
	assert_false(tei_config_lists("tcpx", "tcp"));
	assert_false(tei_config_lists("xtcp", "tcp"));
	assert_false(tei_config_lists("loop", "tcp"));
}

/* Has te_config_set() refuse a list of backends, with these words. */
static void refuses_backends(struct te_config *config, const char *list,
			     const char *words)
{
	char error[TEI_CONF_ERROR_LEN] = "";

	assert_int_equal(
		te_config_set(config, "backends", list, error, sizeof(error)),
		-EINVAL);
	test_contains(error, "setting backends: ");
	test_contains(error, words);
}

static void assert_backends(const struct te_config *config, const char *list)
{
	struct tei_config values;

	assert_int_equal(tei_config_make(config, tei_backends, &values), 0);
	assert_string_equal(values.backends, list);
	tei_config_fini(&values);
}

static void a_list_of_backends_names_those_that_exist(void **state)
{
	struct te_config *config;

	(void)state;
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(
		te_config_set(config, "backends", " tcp ,shm", NULL, 0), 0);
	refuses_backends(config, "foo",
			 "there is no \"foo\"; there are auto, loop, shm, "
			 "verbs, ofi, tcp");
	refuses_backends(config, "tcp,tpc", "there is no \"tpc\"");
	refuses_backends(config, "tcp shm", "there is no \"tcp shm\"");
	refuses_backends(config, "tc", "there is no \"tc\"");
	refuses_backends(config, "auto,foo", "auto stands alone");
	refuses_backends(config, "tcp,auto", "auto stands alone");
	refuses_backends(config, "tcp,,shm", "has an empty entry; there are");
	refuses_backends(config, "tcp, ", "has an empty entry; there are");
	assert_backends(config, " tcp ,shm");
	assert_int_equal(te_config_set(config, "backends", "auto", NULL, 0), 0);
	assert_backends(config, "auto");
	te_config_destroy(config);
}

/* A wrong variable is refused even where te_config_set() overrides it. */
static void backends_of_the_environment_exist(void **state)
{
	struct te_config *config;
	struct tei_config values;

	(void)state;
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(te_config_set(config, "backends", "tcp", NULL, 0), 0);
	setenv("TE_BACKENDS", "tcp,foo", 1);
	assert_int_equal(tei_config_make(NULL, tei_backends, &values), -EINVAL);
	assert_int_equal(tei_config_make(config, tei_backends, &values),
			 -EINVAL);
	/* A caller that opens no backend gets the other settings. */
	assert_int_equal(tei_config_make(NULL, NULL, &values), 0);
	tei_config_fini(&values);
	setenv("TE_BACKENDS", "shm", 1);
	assert_backends(config, "tcp");
	assert_backends(NULL, "shm");
	unsetenv("TE_BACKENDS");
	te_config_destroy(config);
}

static void longer_request_has_more_time(void **state)
{
	struct tei_config values;

	(void)state;
	assert_int_equal(tei_config_make(NULL, tei_backends, &values), 0);
	assert_int_equal(tei_config_transfer_ms(&values, 1), 30000);
	assert_int_equal(tei_config_transfer_ms(&values, 5ull << 30), 35000);
	tei_config_fini(&values);
}

static void lack_of_memory_leaves_nothing(void **state)
{
	(void)state;
	for (struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	     test_faults_next(&f);) {
		struct te_config *config;
		struct tei_config values;

		if (te_config_create(&config))
			continue;
		te_config_set(config, "bind", "127.0.0.1", NULL, 0);
		te_config_set(config, "tcp.lanes", "2", NULL, 0);
		if (!tei_config_make(config, tei_backends, &values))
			tei_config_fini(&values);
		te_config_destroy(config);
	}
}

/* An unknown kernel is refused when it is set, with those that exist. */
static void a_kernel_of_copies_is_one_that_exists(void **state)
{
	struct te_config *config;
	char error[TEI_CONF_ERROR_LEN];

	(void)state;
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(te_config_set(config, "copy_kernel", "avx1024-8",
				       error, sizeof(error)),
			 -EINVAL);
	test_contains(error, "copy_kernel");
	test_contains(error, "avx1024-8");
	test_contains(error, "auto|" TEI_COPY_KERNELS);
	assert_int_equal(te_config_set(config, "copy_kernel", "auto", error,
				       sizeof(error)),
			 0);
	assert_int_equal(te_config_set(config, "copy_kernel", "avx512-4", error,
				       sizeof(error)),
			 0);
	te_config_destroy(config);
}

static void a_kernel_that_cannot_run_is_refused(void **state)
{
	struct tei_config values = {.copy_kernel = "auto"};
	const struct tei_copier *copier = tei_copier_at(0);

	(void)state;
	assert_int_equal(tei_config_check_copies(&values, &copier), 0);
	assert_null(copier);
	for (unsigned int i = 0; i < tei_copiers(); i++) {
		values.copy_kernel = tei_copier_at(i)->name;
		assert_int_equal(tei_config_check_copies(&values, &copier), 0);
		assert_ptr_equal(copier, tei_copier_at(i));
	}
	/* One of a processor that is still to come. */
	values.copy_kernel = "avx1024-8";
	assert_int_equal(tei_config_check_copies(&values, &copier),
			 -EOPNOTSUPP);
	assert_null(copier);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(later_setting_wins),
		cmocka_unit_test(wrong_setting_is_named_and_changes_nothing),
		cmocka_unit_test(set_weighs_more_than_environment),
		cmocka_unit_test(users_of_an_engine_are_those_of_its_backends),
		cmocka_unit_test(list_names_backends),
		cmocka_unit_test(a_list_of_backends_names_those_that_exist),
		cmocka_unit_test(backends_of_the_environment_exist),
		cmocka_unit_test(longer_request_has_more_time),
		cmocka_unit_test(lack_of_memory_leaves_nothing),
		cmocka_unit_test(a_kernel_of_copies_is_one_that_exists),
		cmocka_unit_test(a_kernel_that_cannot_run_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
