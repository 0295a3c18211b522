/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_libfabric.c - which providers an engine goes by, and what it says
 *
 * What needs the library is skipped in a build without it, and on a host whose
 * libfabric has no provider tcp.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"
#include "tests/lib/tmpdir.h"
#include "tests/unit/te/rig.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct tei_mutex mu;
static char lines[8192];    /* guarded by mu */
static unsigned int n_loud; /* at warn or worse; guarded by mu */

static void keep(int level, const char *line, void *arg)
{
	size_t used;

	(void)arg;
	tei_mutex_lock(&mu);
	used = strlen(lines);
	(void)snprintf(lines + used, sizeof(lines) - used, "%s\n", line);
	/* Not that one rail takes but one worker, where more are asked for. */
	n_loud += level <= TEI_LOG_WARN && !strstr(line, "engine: workers:");
	tei_mutex_unlock(&mu);
}

static bool said(const char *words)
{
	bool found;

	tei_mutex_lock(&mu);
	found = strstr(lines, words);
	tei_mutex_unlock(&mu);
	return found;
}

static int set_up(void **state)
{
	(void)state;
	tei_mutex_init(&mu);
	lines[0] = '\0';
	n_loud = 0;
	tei_log_set_sink(keep, NULL);
	tei_log_set_level(TEI_LOG_INFO);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tei_log_set_level(TEI_LOG_WARN);
	tei_log_set_sink(NULL, NULL);
	tei_mutex_fini(&mu);
	return 0;
}

/* @settings: name, value, ..., NULL. What creating an engine returned. */
static int create(const char *const settings[])
{
	struct te_config *config;
	struct te_engine *engine;
	int rc;

	assert_int_equal(te_config_create(&config), 0);
	for (; *settings; settings += 2)
		assert_int_equal(te_config_set(config, settings[0], settings[1],
					       NULL, 0),
				 0);
	rc = te_engine_create(config, "127.0.0.1", &engine);
	te_config_destroy(config);
	if (!rc)
		te_engine_destroy(engine);
	return rc;
}

static void need_backend(void)
{
	if (said("this build is without libfabric"))
		skip();
}

/* The library, with the provider that runs everywhere. */
static void need_tcp(void)
{
	int rc = create(SETTINGS("backends", "ofi", "ofi.provider", "tcp",
				 "ofi.devices", "lo"));

	need_backend();
	if (rc == -EINVAL) /* what is named is missing */
		skip();
	assert_int_equal(rc, 0);
	tei_mutex_lock(&mu);
	lines[0] = '\0';
	n_loud = 0;
	tei_mutex_unlock(&mu);
}

static void efa_without_a_device_is_tcp_and_says_why(void **state)
{
	struct te_engine *engine;

	(void)state;
	if (!access("/sys/bus/pci/drivers/efa", F_OK))
		skip();
	engine = rig_engine(SETTINGS("protocol", "efa"));
	assert_true(te_engine_has_backend(engine, "tcp"));
	assert_false(te_engine_has_backend(engine, "verbs"));
	te_engine_destroy(engine);
	assert_true(said("backend ofi: not used: "));
	assert_true(said("protocol efa: no libfabric device: bytes go by tcp, "
			 "and by shared memory on this host"));
	assert_int_equal(n_loud, 2);
}

static void providers_that_are_refused_are_named_with_the_reason(void **state)
{
	(void)state;
	assert_int_equal(
		create(SETTINGS("backends", "ofi", "ofi.provider", "opx,psm3")),
		-ENODEV);
	need_backend();
	assert_true(said("a key that has ended: opx; "));
	assert_true(said("an endpoint that is closed: psm3"));
}

static void efa_goes_by_the_providers_that_are_named(void **state)
{
	struct te_engine *engine;

	(void)state;
	need_tcp();
	engine = rig_engine(SETTINGS("protocol", "efa", "ofi.provider",
				     "efa,tcp", "ofi.devices", "lo"));
	assert_true(te_engine_has_backend(engine, "ofi"));
	assert_true(te_engine_has_backend(engine, "shm"));
	assert_false(te_engine_has_backend(engine, "tcp"));
	te_engine_destroy(engine);
	assert_true(said("lo (tcp, 128 operations in flight); left out: "));
	assert_true(said(access("/sys/bus/pci/drivers/efa", F_OK)
				 ? ": efa" /* no driver, or no domain */
				 : "not in ofi.devices"));
	assert_int_equal(n_loud, 0);
}

static void library_is_left_alone_by_default(void **state)
{
	(void)state;
	assert_int_equal(create(SETTINGS("protocol", "any")), 0);
	assert_false(said("backend ofi"));
	assert_int_equal(n_loud, 0);
}

static void providers_that_are_not_used_are_refused_with_a_reason(void **state)
{
	(void)state;
	assert_int_equal(create(SETTINGS("backends", "ofi", "ofi.provider",
					 "shm,sockets,ofi_rxm,ofi_rxd")),
			 -ENODEV);
	need_backend();
	assert_true(said("tells nothing of a dead peer; the backend shm does: "
			 "shm; is deprecated and loses completions: sockets; "
			 "is a layer over other providers and breaks with its "
			 "peers: ofi_rxm, ofi_rxd"));
}

static void provider_that_nobody_knows_is_an_error(void **state)
{
	int rc = create(SETTINGS("backends", "ofi", "ofi.provider", "tpc"));

	(void)state;
	need_backend();
	assert_int_equal(rc, -EINVAL);
	assert_true(said("ofi.provider: nothing is known of \"tpc\""));
}

static void device_that_is_absent_is_an_error(void **state)
{
	(void)state;
	need_tcp();
	assert_int_equal(create(SETTINGS("backends", "ofi", "ofi.provider",
					 "tcp", "ofi.devices", "lo,eth77")),
			 -EINVAL);
	assert_true(said("ofi.devices: no domain of tcp is called eth77"));
}

/* Whatever it is that the host lacks: nothing else is used in its place. */
static void device_is_missed_also_without_its_driver(void **state)
{
	(void)state;
	assert_int_equal(
		create(SETTINGS("protocol", "efa", "ofi.devices", "rdmap77s0")),
		-EINVAL);
	assert_true(said("ofi.devices: no "));
	assert_true(said(" is called rdmap77s0"));
}

static void device_is_missed_also_without_the_library(void **state)
{
	char dir[TEST_PATH_MAX];

	(void)state;
	test_tmpdir_create(dir);
	assert_int_equal(
		create(SETTINGS("protocol", "efa", "ofi.provider", "tcp",
				"ofi.devices", "eth77", "module_path", dir)),
		-EINVAL);
	test_tmpdir_remove(dir);
	assert_true(said(" is called eth77"));
}

static void domains_that_are_not_named_are_told(void **state)
{
	(void)state;
	need_tcp();
	(void)create(SETTINGS("backends", "ofi,tcp", "ofi.provider", "tcp"));
	assert_true(said("loopback, which only ofi.devices adds: lo"));
}

static void library_that_is_missing_is_told(void **state)
{
	char dir[TEST_PATH_MAX];

	(void)state;
	test_tmpdir_create(dir);
	assert_int_equal(create(SETTINGS("backends", "ofi", "ofi.provider",
					 "tcp", "module_path", dir)),
			 -ENODEV);
	test_tmpdir_remove(dir);
	need_backend();
	assert_true(said("backend ofi: not used: "));
	assert_true(said("te_ofi.so"));
}

static void library_that_is_too_old_is_told(void **state)
{
	(void)state;
#ifdef OLD_OFI
	assert_int_equal(create(SETTINGS("backends", "ofi", "ofi.provider",
					 "tcp", "module_path", OLD_OFI)),
			 -ENODEV);
	assert_true(said("backend ofi: not used: libfabric is 1.16, older "
			 "than 1.17"));
#else
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: the module stays loaded, and nothing asks again. */
		cmocka_unit_test_setup_teardown(library_that_is_too_old_is_told,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(library_that_is_missing_is_told,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			device_is_missed_also_without_its_driver, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			device_is_missed_also_without_the_library, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			library_is_left_alone_by_default, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			efa_without_a_device_is_tcp_and_says_why, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			providers_that_are_refused_are_named_with_the_reason,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			efa_goes_by_the_providers_that_are_named, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			providers_that_are_not_used_are_refused_with_a_reason,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			provider_that_nobody_knows_is_an_error, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			device_that_is_absent_is_an_error, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			domains_that_are_not_named_are_told, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
