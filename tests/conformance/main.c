/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - conformance <backend>[.<places>]: what every backend must do, through
 * te.h
 *
 * The same tests for each, by name, with memory of the host and of GPUs:
 * gpu_local, gpu_remote or gpu_both. `--peer <backend> <name>` is the other process
 * of the tests that need one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/rig.h"
#ifdef RIG_FAKE_OFI
#include "backends/ofi/ofi.h"
#include "tests/lib/fake_ofi/fake_ofi.h"
#endif
#ifdef RIG_FAKE_VERBS
#include "backends/verbs/verbs.h"
#include "tests/lib/fake_verbs/fake_verbs.h"
#endif

/* The real provider, on the interface that every host has. */
static const char *const ofi_tcp[] = {"ofi.provider", "tcp", "ofi.devices",
				      "lo", NULL};

static const char *const ofi_net[] = {"ofi.provider", "net", "ofi.devices",
				      "lo", NULL};
/* The lab has such devices. */
static const char *const ofi_verbs[] = {"ofi.provider", "verbs", NULL};

#ifdef RIG_FAKE_VERBS
/* NICs in memory, which get to a GPU's by dma-buf. */
static void start_verbs(int unused)
{
	(void)unused;
	setenv("WITH_NVIDIA_PEERMEM", "0", 1);
	fake_verbs_start(2);
	tei_verbs_use(&fake_verbs);
}
#endif

#ifdef RIG_FAKE_OFI
static const char *const fake_tcp[] = {"ofi.provider", "tcp", NULL};
static const char *const fake_rc[] = {"ofi.provider", "verbs", NULL};
static const char *const fake_efa[] = {"ofi.provider", "efa", NULL};
static const char *const fake_cxi[] = {"ofi.provider", "cxi", NULL};

static void start_ofi(int shape)
{
	(void)setenv("FI_CXI_MR_MATCH_EVENTS", "1", 1);
	(void)setenv("FI_EFA_ENABLE_SHM_TRANSFER", "0", 1);
	fake_ofi_start((enum fake_ofi_shape)shape, 2);
	for (unsigned int i = 0; i < 2; i++)
		fake_ofi_limits(i)->handshakes = shape == FAKE_OFI_EFA;
	tei_ofi_use(&fake_ofi);
}

/* NICs that take memory of GPUs, until they are given some. */
static void start_ofi_without_dmabufs(int shape)
{
	start_ofi(shape);
	fake_ofi_refuse_dmabufs(FI_EOPNOTSUPP);
}

/* NICs that take it and have no way to it. */
static void start_ofi_without_gpudirect(int shape)
{
	start_ofi(shape);
	fake_ofi_keep_dmabufs(true);
}
#endif

static const struct {
	const char *name, *backend;
	bool self, one_process, arena, nic;
	const char *const *settings; /* names and values; NULL at the end */
	void (*start)(int arg);      /* starts devices in memory */
	int arg;
} backends[] = {
	{"loop", "loop", .self = true, .one_process = true},
	{"sim", "sim", .one_process = true},
	{"shm", "shm", .arena = true},
	{"shm.foreign", "shm", .arena = false},
	{"tcp", "tcp", .arena = false},
	{"verbs", "verbs", .arena = false, .nic = true},
	{"ofi.tcp", "ofi", .nic = true, .settings = ofi_tcp},
	{"ofi.net", "ofi", .nic = true, .settings = ofi_net},
	{"ofi.verbs", "ofi", .nic = true, .settings = ofi_verbs},
#ifdef RIG_FAKE_VERBS
	{"verbs.fake", "verbs", .one_process = true, .nic = true,
	 .start = start_verbs},
#endif
#ifdef RIG_FAKE_OFI
	{"ofi.fake", "ofi", .one_process = true, .nic = true,
	 .settings = fake_tcp, .start = start_ofi, .arg = FAKE_OFI_TCP},
	{"ofi.fake.verbs", "ofi", .one_process = true, .nic = true,
	 .settings = fake_rc, .start = start_ofi, .arg = FAKE_OFI_VERBS},
	{"ofi.fake.efa", "ofi", .one_process = true, .nic = true,
	 .settings = fake_efa, .start = start_ofi, .arg = FAKE_OFI_EFA},
	{"ofi.fake.efa.no_dmabuf", "ofi", .one_process = true, .nic = true,
	 .settings = fake_efa, .start = start_ofi_without_dmabufs,
	 .arg = FAKE_OFI_EFA},
	{"ofi.fake.efa.no_gpudirect", "ofi", .one_process = true, .nic = true,
	 .settings = fake_efa, .start = start_ofi_without_gpudirect,
	 .arg = FAKE_OFI_EFA},
	{"ofi.fake.cxi", "ofi", .one_process = true, .nic = true,
	 .settings = fake_cxi, .start = start_ofi, .arg = FAKE_OFI_CXI},
#endif
};

static const struct {
	const char *name;
	bool remote, local;
} places[] = {
	{"", .remote = false},
	{".gpu_local", .local = true},
	{".gpu_remote", .remote = true},
	{".gpu_both", .remote = true, .local = true},
};

/* The row of `places` that ends the name; what is before it: *@len. */
static size_t find_places(const char *name, size_t *len)
{
	size_t i = TEST_COUNT(places);

	while (i--) {
		size_t tail = strlen(places[i].name);

		*len = strlen(name) - tail;
		if (tail <= strlen(name) &&
		    !strcmp(name + *len, places[i].name))
			break;
	}
	return i;
}

static bool choose(const char *name)
{
	size_t len, place = find_places(name, &len);

	for (size_t i = 0; i < TEST_COUNT(backends); i++) {
		if (strlen(backends[i].name) != len ||
		    strncmp(backends[i].name, name, len))
			continue;
		rig_variant = name;
		rig_name = backends[i].name;
		rig_backend = backends[i].backend;
		rig_settings = backends[i].settings;
		rig_remote_gpu = places[place].remote;
		rig_local_gpu = places[place].local;
		rig_arena = backends[i].arena && !rig_remote_gpu;
		rig_nic = backends[i].nic;
		rig_self = backends[i].self;
		rig_one_process = backends[i].one_process;
		if (place)
			rig_gpus_start();
		if (backends[i].start)
			backends[i].start(backends[i].arg);
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
	struct te_config *config = rig_config();
	struct te_engine *engine;
	int rc = te_engine_create(config, "127.0.0.1", &engine);

	te_config_destroy(config);
	if (!rc)
		te_engine_destroy(engine);
	return rc != -ENODEV;
}

int main(int argc, char **argv)
{
	bool gpu, all = true;
	int failed = 0;

	if (argc == 4 && !strcmp(argv[1], "--peer"))
		return choose(argv[2]) ? rig_peer_main(argv[3]) : 2;
	if (argc < 2 || !choose(argv[1])) {
		fprintf(stderr,
			"usage: conformance <backend>[.<places>] [test]\n");
		return 2;
	}
	if (!is_possible()) {
		printf("no device for the backend %s\n", rig_backend);
		return 77;
	}
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	gpu = rig_remote_gpu || rig_local_gpu;
	if (rig_remote_gpu)
		all = rig_find_way();
	if (!all)
		printf("peers do not reach a GPU's memory by %s: tests of data "
		       "only, by %s\n",
		       rig_name, rig_backend);
	failed += run("data", rig_data_tests, rig_n_data_tests);
	if (gpu)
		failed += run("gpu", rig_gpu_tests, rig_n_gpu_tests);
	if (all) {
		failed +=
			run("refusal", rig_refusal_tests, rig_n_refusal_tests);
		failed += run("load", rig_load_tests, rig_n_load_tests);
		failed +=
			run("trouble", rig_trouble_tests, rig_n_trouble_tests);
		failed += run("limits", rig_limits_tests, rig_n_limits_tests);
	}
	if (gpu && !failed)
		rig_gpus_stop();
	return failed ? 1 : 0;
}
