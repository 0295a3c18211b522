/* SPDX-License-Identifier: Apache-2.0 */
/* test_redis_login.c - a redis that wants a password, and its databases */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "tests/integration/directory/service.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/rig.h"

#define PASSWORD "open sesame"

static struct service service;
static atomic_int refusals;

static void count_line(int level, const char *line, void *arg)
{
	(void)arg;
	if (level <= TEI_LOG_WARN && strstr(line, "directory "))
		atomic_fetch_add(&refusals, 1);
	assert_null(strstr(line, PASSWORD));
}

static struct te_engine *engine_with(const char *name, const char *user,
				     const char *password, const char *db)
{
	const char *const settings[] = {
		"metadata_timeout", "30s",   "metadata_server", service.url,
		"redis_db_index",   db,      "redis_username",  user,
		"redis_password",   password};
	struct te_config *config;
	struct te_engine *engine;

	assert_int_equal(te_config_create(&config), 0);
	for (size_t i = 0; i < TEST_COUNT(settings); i += 2)
		assert_int_equal(te_config_set(config, settings[i],
					       settings[i + 1], NULL, 0),
				 0);
	assert_int_equal(te_engine_create(config, name, &engine), 0);
	te_config_destroy(config);
	return engine;
}

static void password_opens_the_database_that_is_named(void **state)
{
	struct te_engine *a = engine_with("locked", "", PASSWORD, "3");
	struct te_engine *b = engine_with("reader", "default", PASSWORD, "3");
	struct te_engine *c = engine_with("stray", "", PASSWORD, "0");
	te_segment_id id;

	(void)state;
	assert_int_equal(te_segment_open(b, "locked", RIG_WAIT_MS, &id), 0);
	assert_int_equal(te_segment_open(c, "locked", 200, &id), -ETIMEDOUT);
	assert_int_equal(refusals, 0);
	te_engine_destroy(a);
	te_engine_destroy(b);
	te_engine_destroy(c);
}

static bool was_refused(void *arg)
{
	(void)arg;
	return atomic_load(&refusals) > 0;
}

static void wrong_password_is_one_warning(void **state)
{
	struct te_engine *a = engine_with("locked", "", "wrong", "0");
	struct te_engine *b = rig_engine(NULL);
	te_segment_id id;

	(void)state;
	assert_true(test_wait_until(was_refused, NULL, RIG_WAIT_MS));
	assert_int_equal(te_segment_open(a, "other", 500, &id), -ETIMEDOUT);
	assert_int_equal(
		te_segment_open(a, te_engine_name(b), RIG_WAIT_MS, &id), 0);
	assert_int_equal(refusals, 1);
	te_engine_destroy(a);
	te_engine_destroy(b);
}

static int end_service(void **state)
{
	(void)state;
	service_end(&service);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(password_opens_the_database_that_is_named),
		cmocka_unit_test(wrong_password_is_one_warning),
	};

	if (!service_start_locked(&service, PASSWORD)) {
		printf("redis is not installed (tools/packages.txt)\n");
		return 77;
	}
	tei_log_set_sink(count_line, NULL);
	return cmocka_run_group_tests(tests, NULL, end_service);
}
