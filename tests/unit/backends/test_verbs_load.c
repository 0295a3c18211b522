/* SPDX-License-Identifier: Apache-2.0 */
/* test_verbs_load.c - the module is whole, and hosts without devices stay quiet */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "backends/verbs/verbs.h"
#include "base/log.h"
#include "tests/lib/fake_verbs/fake_verbs.h"
#include "tests/lib/test.h"

extern const struct tei_backend_ops tei_backend_verbs;

static char line[512]; /* the last that was logged */
static int n_errors, n_others;

static void keep(int level, const char *text, void *arg)
{
	(void)arg;
	(void)snprintf(line, sizeof(line), "%s", text);
	if (level == TEI_LOG_ERROR)
		n_errors++;
	else if (level != TEI_LOG_DEBUG)
		n_others++;
}

static int set_up(void **state)
{
	(void)state;
	line[0] = '\0';
	n_errors = n_others = 0;
	tei_log_set_sink(keep, NULL);
	tei_log_set_level(TEI_LOG_DEBUG);
	fake_verbs_start(1);
	fake_verbs_port(0, 1)->state = IBV_PORT_DOWN;
	tei_verbs_use(&fake_verbs);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tei_verbs_use(NULL);
	fake_verbs_stop();
	tei_log_set_level(TEI_LOG_WARN);
	tei_log_set_sink(NULL, NULL);
	return 0;
}

static int count(const struct tei_device *device, void *arg)
{
	unsigned int *n = arg;

	(void)device;
	++*n;
	return 0;
}

/* How many devices, or why not. */
static int probe(bool named, char *devices)
{
	struct verbs_config config = {.devices = devices,
				      .lanes = 2,
				      .depth = 256,
				      .mtu = 4096,
				      .reads = 16,
				      .inline_max = 64,
				      .pieces = 4};
	unsigned int n = 0;
	const struct tei_search search = {
		.config = &config, .named = named, .found = count, .arg = &n};
	int rc = tei_backend_verbs.probe(&search);

	return rc ? rc : (int)n;
}

static void module_holds_the_table(void **state)
{
	char why[TEI_MODULE_ERROR_LEN];
	const struct verbs_provider *api =
		tei_module_load(NULL, "te_verbs", "tei_verbs_provider",
				VERBS_PROVIDER_ABI, why);

	(void)state;
	assert_non_null(api);
	/* The first and the last entry. */
	assert_non_null(api->get_device_list);
	assert_non_null(api->ack_async_event);
}

static void port_that_is_up_is_found(void **state)
{
	(void)state;
	fake_verbs_port(0, 1)->state = IBV_PORT_ACTIVE;
	assert_int_equal(probe(false, NULL), 1);
	assert_int_equal(probe(true, NULL), 1);
	assert_int_equal(n_errors, 0);
}

static void nothing_usable_is_an_error_only_to_who_asked_for_it(void **state)
{
	(void)state;
	fake_verbs_device(0)->max_qp = 0;
	assert_int_equal(probe(false, NULL), 0);
	assert_int_equal(n_errors, 0);
	assert_string_equal(line, "backend verbs: not used: "
				  "no port of any device can be used");
	assert_int_equal(probe(true, NULL), 0);
	assert_int_equal(n_errors, 1);
}

static void want_of_descriptors_is_no_want_of_devices(void **state)
{
	struct rlimit before, tight;
	int free_fd = dup(0), n;

	(void)state;
	assert_true(free_fd >= 0);
	close(free_fd);
	fake_verbs_port(0, 1)->state = IBV_PORT_ACTIVE;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	tight = before;
	tight.rlim_cur = (rlim_t)free_fd + 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	n = probe(false, NULL);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(n, -EMFILE);
	assert_int_equal(probe(false, NULL), 1);
}

/* On a host that has devices the module finds out; else it is not even tried. */
static void module_is_loaded_only_for_devices(void **state)
{
	static char none[] = "no_such_device";
	int n;

	(void)state;
	tei_verbs_use(NULL);
	n = probe(false, NULL);
	if (n)
		skip();
	assert_null(tei_verbs_in_use());
	assert_int_equal(n_errors + n_others, 0);
	assert_non_null(strstr(line, "no device in /sys/class/infiniband"));
	assert_int_equal(probe(false, none), -EINVAL);
	assert_non_null(strstr(line, "no device is called no_such_device"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(module_holds_the_table),
		TEST(port_that_is_up_is_found),
		TEST(nothing_usable_is_an_error_only_to_who_asked_for_it),
		TEST(want_of_descriptors_is_no_want_of_devices),
		TEST(module_is_loaded_only_for_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
