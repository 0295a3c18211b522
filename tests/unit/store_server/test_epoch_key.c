/* SPDX-License-Identifier: Apache-2.0 */
/* test_epoch_key.c - the file of the epoch secret, and files that are none */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/server/epoch_key.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

#define LEN       TES_STORE_EPOCH_KEY_LEN
#define N_THREADS 8

static char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 32];

static int setup(void **state)
{
	(void)state;
	test_tmpdir_create(dir);
	(void)snprintf(path, sizeof(path), "%s/a/b/key", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_tmpdir_remove(dir);
	return 0;
}

static void load(const char *from, uint8_t key[LEN])
{
	static const uint8_t none[LEN];

	memset(key, 0, LEN);
	assert_int_equal(tes_epoch_key_load(from, key), 0);
	assert_memory_not_equal(key, none, LEN);
}

static void what_is_made_is_read_by_the_next(void **state)
{
	uint8_t first[LEN], second[LEN];
	struct stat st;

	(void)state;
	load(path, first);
	load(path, second);
	assert_memory_equal(first, second, LEN);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(st.st_size, LEN);
}

static void *load_one(void *key)
{
	load(path, key);
	return NULL;
}

static void those_who_begin_at_once_agree(void **state)
{
	uint8_t keys[N_THREADS][LEN];
	pthread_t threads[N_THREADS];

	(void)state;
	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, load_one, keys[i]),
			0);
	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (int i = 1; i < N_THREADS; i++)
		assert_memory_equal(keys[0], keys[i], LEN);
}

/* The secret then lasts as long as its master, and the file is as it was. */
static void check_is_not_used(void)
{
	uint8_t first[LEN], second[LEN];

	load(path, first);
	load(path, second);
	assert_memory_not_equal(first, second, LEN);
}

static void a_file_that_others_may_read_is_not_used(void **state)
{
	uint8_t key[LEN];

	(void)state;
	load(path, key);
	assert_int_equal(chmod(path, 0640), 0);
	check_is_not_used();
	assert_int_equal(chmod(path, 0602), 0);
	check_is_not_used();
	if (geteuid())
		return;
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(chown(path, 12345, 0), 0);
	check_is_not_used();
}

static void what_is_no_such_file_is_not_used(void **state)
{
	char other[sizeof(path) + 8];
	uint8_t key[LEN];

	(void)state;
	load(path, key);
	assert_int_equal(truncate(path, LEN - 1), 0);
	check_is_not_used();
	assert_int_equal(truncate(path, LEN + 1), 0);
	check_is_not_used();
	assert_int_equal(unlink(path), 0);
	load(path, key);
	(void)snprintf(other, sizeof(other), "%s.link", path);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	check_is_not_used();
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	check_is_not_used();
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	check_is_not_used();
	/* No directory can be made where a file is. */
	(void)snprintf(path, sizeof(path), "%s/a/b/key.link/c/key", dir);
	check_is_not_used();
}

static void read_default(const char *variable, const char *value,
			 const char *file)
{
	char place[sizeof(path) + 32];
	uint8_t key[LEN], again[LEN];

	assert_int_equal(setenv(variable, value, 1), 0);
	load("", key);
	(void)snprintf(place, sizeof(place), "%s/%s", dir, file);
	load(place, again);
	assert_memory_equal(key, again, LEN);
}

static void its_place_is_the_users_state_directory(void **state)
{
	char value[sizeof(dir) + 32];

	(void)state;
	(void)unsetenv("STATE_DIRECTORY");
	(void)unsetenv("XDG_STATE_HOME");
	read_default("HOME", dir, ".local/state/te/epoch.key");
	(void)snprintf(value, sizeof(value), "%s/xdg", dir);
	read_default("XDG_STATE_HOME", value, "xdg/te/epoch.key");
	(void)snprintf(value, sizeof(value), "%s/sd:/nowhere", dir);
	read_default("STATE_DIRECTORY", value, "sd/epoch.key");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			what_is_made_is_read_by_the_next, setup, teardown),
		cmocka_unit_test_setup_teardown(those_who_begin_at_once_agree,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_file_that_others_may_read_is_not_used, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			what_is_no_such_file_is_not_used, setup, teardown),
		cmocka_unit_test_setup_teardown(
			its_place_is_the_users_state_directory, setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
