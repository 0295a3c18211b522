/* SPDX-License-Identifier: Apache-2.0 */
/* test_module.c - modules are found where they lie, and refused if they differ */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/module.h"
#include "te/directory/module.h"
#include "tests/lib/process.h"
#include "tests/lib/test.h"

#define WAIT_MS 60000

/* One of those that each build has. */
#define NAME   "te_directory_redis"
#define SYMBOL "tei_module_redis"

static char why[TEI_MODULE_ERROR_LEN];

static const void *load(const char *path, uint32_t abi)
{
	return tei_module_load(path, NAME, SYMBOL, abi, why);
}

static void module_beside_the_program_is_found(void **state)
{
	const struct tei_redis_module *table = load(NULL, TEI_DIRECTORY_ABI);

	(void)state;
	assert_non_null(table);
	assert_int_equal(table->base.module.abi, TEI_DIRECTORY_ABI);
	assert_non_null(table->call);
	assert_ptr_equal(load(NULL, TEI_DIRECTORY_ABI), table);
}

static void program_started_by_a_link_finds_it_as_well(void **state)
{
	const char *const args[] = {"module", "load", NULL};

	(void)state;
	free(test_process_run("/proc/self/exe", args, 0, WAIT_MS));
}

static void folders_of_the_path_are_tried_in_turn(void **state)
{
	const char *folder = getenv("TEST_MODULES");
	char path[1024];

	(void)state;
	assert_non_null(folder);
	(void)snprintf(path, sizeof(path), "/no/such/folder::/tmp:%s", folder);
	assert_ptr_equal(load(path, TEI_DIRECTORY_ABI),
			 load(NULL, TEI_DIRECTORY_ABI));
}

static void missing_module_is_named(void **state)
{
	(void)state;
	assert_null(load("/no/such/folder", TEI_DIRECTORY_ABI));
	assert_non_null(strstr(why, "/no/such/folder/" NAME ".so"));
	assert_null(load("", TEI_DIRECTORY_ABI));
	assert_non_null(strstr(why, NAME ".so is nowhere"));
}

static void table_of_another_version_is_refused(void **state)
{
	(void)state;
	assert_null(load(NULL, TEI_DIRECTORY_ABI + 1));
	assert_non_null(strstr(why, "another version"));
	assert_null(tei_module_load(NULL, NAME, "no_such_table",
				    TEI_DIRECTORY_ABI, why));
	assert_non_null(strstr(why, "another version"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(module_beside_the_program_is_found),
		cmocka_unit_test(program_started_by_a_link_finds_it_as_well),
		cmocka_unit_test(folders_of_the_path_are_tried_in_turn),
		cmocka_unit_test(missing_module_is_named),
		cmocka_unit_test(table_of_another_version_is_refused),
	};

	(void)argv;
	if (argc == 2)
		return load(NULL, TEI_DIRECTORY_ABI) ? 0 : 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
