/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - conformance <backend>: what every backend must do, through te.h
 *
 * The same tests for each, by name. `--peer <backend> <name>` is the other
 * process of the tests that need one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/conformance/rig.h"

static const struct {
	const char *name, *backend;
	bool self, one_process, arena, nic;
} backends[] = {
	{"loop", "loop", .self = true, .one_process = true},
	{"sim", "sim", .one_process = true},
	{"shm", "shm", .arena = true},
	{"shm.foreign", "shm", .arena = false},
	{"tcp", "tcp", .arena = false},
	{"verbs", "verbs", .arena = false, .nic = true},
};

static bool choose(const char *name)
{
	for (size_t i = 0; i < TEST_COUNT(backends); i++) {
		if (strcmp(backends[i].name, name))
			continue;
		rig_name = backends[i].name;
		rig_backend = backends[i].backend;
		rig_arena = backends[i].arena;
		rig_nic = backends[i].nic;
		rig_self = backends[i].self;
		rig_one_process = backends[i].one_process;
		return true;
	}
	fprintf(stderr, "conformance: no backend \"%s\"\n", name);
	return false;
}

/* cmocka wants an array whose size the compiler knows. */
static int run(const char *name, const struct CMUnitTest *tests, size_t n)
{
	return _cmocka_run_group_tests(name, tests, n, NULL, NULL);
}

/* Whether this host has what the backend goes by. */
static bool is_possible(void)
{
	struct te_config *config;
	struct te_engine *engine;
	int rc;

	if (te_config_create(&config))
		return true; /* the tests will tell */
	rc = te_config_set(config, "backends", rig_backend, NULL, 0);
	if (!rc)
		rc = te_engine_create(config, "127.0.0.1", &engine);
	te_config_destroy(config);
	if (!rc)
		te_engine_destroy(engine);
	return rc != -ENODEV;
}

int main(int argc, char **argv)
{
	int failed = 0;

	if (argc == 4 && !strcmp(argv[1], "--peer"))
		return choose(argv[2]) ? rig_peer_main(argv[3]) : 2;
	if (argc < 2 || !choose(argv[1])) {
		fprintf(stderr, "usage: conformance <backend> [test]\n");
		return 2;
	}
	if (!is_possible()) {
		printf("no device for the backend %s\n", rig_backend);
		return 77;
	}
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	failed += run("data", rig_data_tests, rig_n_data_tests);
	failed += run("refusal", rig_refusal_tests, rig_n_refusal_tests);
	failed += run("load", rig_load_tests, rig_n_load_tests);
	failed += run("trouble", rig_trouble_tests, rig_n_trouble_tests);
	failed += run("limits", rig_limits_tests, rig_n_limits_tests);
	return failed ? 1 : 0;
}
