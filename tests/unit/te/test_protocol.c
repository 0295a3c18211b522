/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_protocol.c - by what engines reach each other, and who decides
 *
 * The devices are those of the fake provider of verbs.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/verbs/verbs.h"
#include "base/log.h"
#include "tests/lib/fake_verbs/fake_verbs.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/rig.h"

#define LEN ((size_t)1 << 16)

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct tei_mutex mu;
static char lines[4096];    /* guarded by mu */
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

/* How often it has been said. */
static int said(const char *words)
{
	int n = 0;

	tei_mutex_lock(&mu);
	for (const char *at = lines; (at = strstr(at, words)); at++)
		n++;
	tei_mutex_unlock(&mu);
	return n;
}

static int set_up(void **state)
{
	(void)state;
	tei_mutex_init(&mu);
	lines[0] = '\0';
	n_loud = 0;
	tei_log_set_sink(keep, NULL);
	tei_log_set_level(TEI_LOG_INFO);
	fake_verbs_start(1);
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
	tei_mutex_fini(&mu);
	return 0;
}

/* Payload that the rails of a backend have sent; -1: it has none. */
static int64_t sent_by(struct te_engine *engine, const char *backend)
{
	struct te_rail_info rails[16];
	size_t n = TEST_COUNT(rails);
	int64_t sent = -1;

	assert_int_equal(te_engine_rails(engine, rails, &n), 0);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(rails[i].backend, backend) != 0)
			continue;
		sent = (sent < 0 ? 0 : sent) + (int64_t)rails[i].sent_bytes;
	}
	return sent;
}

static uint32_t state_of_first(struct te_engine *engine)
{
	struct te_rail_info rail;
	size_t n = 1;

	assert_int_equal(te_engine_rails(engine, &rail, &n), 0);
	return rail.state;
}

static bool has(struct te_engine *engine, const char *backend)
{
	return sent_by(engine, backend) >= 0;
}

/* A write of registered memory; the error that it ends with. */
static int write_between(struct te_engine *user, struct te_engine *owner)
{
	static uint8_t from[LEN], to[LEN];
	struct iovec piece = {from, LEN};
	struct te_request request;
	struct te_completion done;
	te_segment_id segment;

	rig_fill(from, LEN);
	memset(to, 0, LEN);
	rig_region(user, from, LEN, 0);
	rig_region(owner, to, LEN, RIG_ANY);
	segment = rig_segment(user, owner);
	request = rig_request(segment, TE_WRITE, to, &piece);
	request.timeout_ms = 2000;
	done = rig_run(user, &request);
	if (!done.error)
		assert_memory_equal(from, to, LEN);
	return done.error;
}

static void verbs_goes_before_tcp_and_is_told_of_once(void **state)
{
	const char *const *all = SETTINGS("shm.enabled", "false");
	struct te_engine *user = rig_engine(all), *owner = rig_engine(all);

	(void)state;
	assert_true(has(user, "verbs") && has(user, "tcp"));
	assert_int_equal(write_between(user, owner), 0);
	assert_true(sent_by(user, "verbs") >= (int64_t)LEN);
	assert_int_equal(sent_by(user, "tcp"), 0);
	assert_int_equal(said("reached by verbs, else tcp"), 1);
	te_engine_destroy(user);
	te_engine_destroy(owner);
}

static void memory_goes_before_verbs_on_one_host(void **state)
{
	struct te_engine *user = rig_engine(NULL), *owner = rig_engine(NULL);

	(void)state;
	assert_int_equal(write_between(user, owner), 0);
	assert_int_equal(sent_by(user, "verbs"), 0);
	assert_int_equal(said("reached by shm, else verbs, else tcp"), 1);
	te_engine_destroy(user);
	te_engine_destroy(owner);
}

static void rdma_leaves_tcp_out_where_there_is_a_device(void **state)
{
	struct te_engine *engine = rig_engine(SETTINGS("protocol", "rdma"));

	(void)state;
	assert_true(has(engine, "verbs") && has(engine, "shm"));
	assert_false(has(engine, "tcp"));
	te_engine_destroy(engine);
	assert_int_equal(n_loud, 0);
}

static void rdma_without_a_device_is_tcp_with_one_line(void **state)
{
	struct te_engine *engine;

	(void)state;
	fake_verbs_device(0)->max_qp = 0;
	engine = rig_engine(SETTINGS("protocol", "rdma"));
	assert_true(has(engine, "tcp"));
	assert_false(has(engine, "verbs"));
	assert_int_equal(said("no RDMA device"), 1);
	te_engine_destroy(engine);
	assert_int_equal(n_loud, 1);
}

static void rdma_whose_port_has_no_link_is_tcp_until_it_has(void **state)
{
	struct te_engine *engine;

	(void)state;
	fake_verbs_port(0, 1)->state = IBV_PORT_DOWN;
	engine = rig_engine(SETTINGS("protocol", "rdma"));
	assert_true(has(engine, "verbs") && has(engine, "tcp"));
	assert_int_equal(said("until rail verbs/fake0/1 or another has one"),
			 1);
	te_engine_destroy(engine);
	assert_int_equal(n_loud, 1);
}

static void tcp_leaves_verbs_out(void **state)
{
	struct te_engine *engine = rig_engine(SETTINGS("protocol", "tcp"));

	(void)state;
	assert_true(has(engine, "tcp"));
	assert_false(has(engine, "verbs"));
	te_engine_destroy(engine);
}

/* Creates an engine of protocol @name; its code. */
static int create_by(const char *name)
{
	struct te_config *config;
	struct te_engine *engine;
	int rc;

	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(te_config_set(config, "protocol", name, NULL, 0), 0);
	rc = te_engine_create(config, "127.0.0.1", &engine);
	te_config_destroy(config);
	if (!rc)
		te_engine_destroy(engine);
	return rc;
}

static void nvlink_leaves_verbs_out(void **state)
{
	static const char *const names[] = {"nvlink_intra", "nvlink"};
	struct te_engine *user, *owner;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		user = rig_engine(SETTINGS("protocol", names[i]));
		owner = rig_engine(SETTINGS("protocol", names[i]));
		assert_true(has(user, "tcp") && has(user, "shm"));
		assert_false(has(user, "verbs"));
		assert_int_equal(write_between(user, owner), 0);
		te_engine_destroy(user);
		te_engine_destroy(owner);
	}
	assert_int_equal(n_loud, 0);
}

static void nvlink_of_one_host_goes_before_rdma(void **state)
{
	struct te_engine *engine;

	(void)state;
	setenv("MC_INTRANODE_NVLINK", "1", 1);
	engine = rig_engine(SETTINGS("protocol", "rdma"));
	unsetenv("MC_INTRANODE_NVLINK");
	assert_true(has(engine, "tcp") && has(engine, "shm"));
	assert_false(has(engine, "verbs"));
	te_engine_destroy(engine);
	assert_int_equal(n_loud, 0);
}

static void nvlink_between_trays_is_refused_with_words(void **state)
{
	(void)state;
	setenv("MC_FORCE_MNNVL", "1", 1);
	assert_int_equal(create_by("nvlink"), -EINVAL);
	assert_int_equal(said("fabric handles, by which GPUs of several trays "
			      "reach each other, are not supported"),
			 1);
	assert_int_equal(n_loud, 1);
	assert_int_equal(create_by("rdma"), 0);
	assert_int_equal(said("MC_FORCE_MNNVL has no effect"), 1);
	assert_int_equal(n_loud, 2);
	setenv("MC_USE_NVLINK_IPC", "1", 1);
	assert_int_equal(create_by("nvlink"), 0);
	unsetenv("MC_USE_NVLINK_IPC");
	setenv("MC_FORCE_MNNVL", "0", 1);
	assert_int_equal(create_by("nvlink"), 0);
	unsetenv("MC_FORCE_MNNVL");
	assert_int_equal(n_loud, 2);
}

static void backends_that_are_listed_go_before_the_protocol(void **state)
{
	struct te_engine *engine =
		rig_engine(SETTINGS("protocol", "rdma", "backends", "tcp"));

	(void)state;
	assert_true(has(engine, "tcp"));
	assert_false(has(engine, "verbs"));
	te_engine_destroy(engine);
}

static void backend_by_name_is_not_replaced_by_another(void **state)
{
	struct te_engine *user = rig_engine(SETTINGS("backends", "verbs"));
	struct te_engine *owner = rig_engine(SETTINGS("backends", "tcp"));
	struct te_config *config;
	struct te_engine *none;

	(void)state;
	assert_int_not_equal(write_between(user, owner), 0);
	assert_int_equal(said("reached by no rail of ours"), 1);
	te_engine_destroy(user);
	te_engine_destroy(owner);

	fake_verbs_device(0)->max_qp = 0;
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(te_config_set(config, "backends", "verbs", NULL, 0),
			 0);
	assert_int_equal(te_engine_create(config, "127.0.0.1", &none), -ENODEV);
	te_config_destroy(config);
	assert_int_equal(said("backend verbs: not used: no port"), 1);
}

static void device_that_is_named_and_absent_is_an_error(void **state)
{
	struct te_config *config;
	struct te_engine *none;

	(void)state;
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(
		te_config_set(config, "verbs.devices", "mlx5_77", NULL, 0), 0);
	assert_int_equal(te_engine_create(config, "127.0.0.1", &none), -EINVAL);
	te_config_destroy(config);
	assert_int_equal(said("no device is called mlx5_77"), 1);
}

/* ---- devices of any kind ---- */

static int create_with_devices(const char *devices)
{
	struct te_config *config;
	struct te_engine *engine;
	int rc;

	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(te_config_set(config, "devices", devices, NULL, 0), 0);
	rc = te_engine_create(config, "127.0.0.1", &engine);
	te_config_destroy(config);
	if (!rc)
		te_engine_destroy(engine);
	return rc;
}

static void device_of_any_kind_that_is_absent_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(create_with_devices("mlx5_77"), -EINVAL);
	assert_int_equal(said("no such device on this host: mlx5_77"), 1);
	assert_int_equal(create_with_devices(", "), 0);
}

/* An interface with an address of IPv4; false: there is none. */
static bool find_interface(char name[IF_NAMESIZE])
{
	struct ifaddrs *all;
	bool found = false;

	assert_int_equal(getifaddrs(&all), 0);
	for (const struct ifaddrs *at = all; at && !found; at = at->ifa_next) {
		found = at->ifa_addr && at->ifa_addr->sa_family == AF_INET &&
			(at->ifa_flags & IFF_UP) &&
			!(at->ifa_flags & IFF_LOOPBACK);
		if (found)
			(void)snprintf(name, IF_NAMESIZE, "%s", at->ifa_name);
	}
	freeifaddrs(all);
	return found;
}

static bool has_rail(struct te_engine *engine, const char *name)
{
	const char *rail;
	bool found = false;

	for (uint32_t i = 0; *(rail = te_rail_name(engine, i)); i++)
		found |= !strcmp(rail, name);
	return found;
}

/* The fake NIC is none of it, and has RDMA. */
static void interface_that_is_named_is_what_is_used(void **state)
{
	char name[IF_NAMESIZE], rail[IF_NAMESIZE + 8];
	struct te_engine *engine;

	(void)state;
	if (!find_interface(name))
		skip();
	(void)snprintf(rail, sizeof(rail), "tcp/%s", name);
	engine = rig_engine(SETTINGS("devices", name, "protocol", "rdma"));
	assert_true(has_rail(engine, rail));
	assert_false(has(engine, "verbs"));
	te_engine_destroy(engine);
	assert_int_equal(said("\" has RDMA: bytes go by tcp"), 1);
	assert_int_equal(n_loud, 1);
	engine = rig_engine(SETTINGS("devices", name, "tcp.devices",
				     "127.0.0.1", "protocol", "tcp"));
	assert_true(has(engine, "tcp"));
	assert_false(has_rail(engine, rail));
	te_engine_destroy(engine);
	assert_int_equal(n_loud, 1);
}

static void variables_of_mooncake_choose_devices(void **state)
{
	struct te_engine *engine;

	(void)state;
	setenv("MC_TE_FILTERS_EXCLUDE", "other,fake0", 1);
	engine = rig_engine(NULL);
	assert_false(has(engine, "verbs"));
	te_engine_destroy(engine);
	setenv("MC_TE_FILTERS_EXCLUDE", "other", 1);
	setenv("MC_TE_FILTERS", "fake0/1", 1);
	setenv("MC_GID_INDEX", "-1", 1);
	setenv("MC_IB_PORT", "1", 1);
	setenv("MC_IB_SL", "-1", 1);
	setenv("MC_IB_TC", "-1", 1);
	engine = rig_engine(SETTINGS("backends", "verbs"));
	assert_int_equal(state_of_first(engine), TE_RAIL_UP);
	te_engine_destroy(engine);
	setenv("MC_GID_INDEX", "6", 1); /* an entry that is not in use */
	engine = rig_engine(SETTINGS("backends", "verbs"));
	assert_int_equal(state_of_first(engine), TE_RAIL_DOWN);
	te_engine_destroy(engine);
	unsetenv("MC_TE_FILTERS_EXCLUDE");
	unsetenv("MC_TE_FILTERS");
	unsetenv("MC_GID_INDEX");
	unsetenv("MC_IB_PORT");
	unsetenv("MC_IB_SL");
	unsetenv("MC_IB_TC");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(verbs_goes_before_tcp_and_is_told_of_once),
		TEST(memory_goes_before_verbs_on_one_host),
		TEST(rdma_leaves_tcp_out_where_there_is_a_device),
		TEST(rdma_without_a_device_is_tcp_with_one_line),
		TEST(rdma_whose_port_has_no_link_is_tcp_until_it_has),
		TEST(tcp_leaves_verbs_out),
		TEST(nvlink_leaves_verbs_out),
		TEST(nvlink_of_one_host_goes_before_rdma),
		TEST(nvlink_between_trays_is_refused_with_words),
		TEST(backends_that_are_listed_go_before_the_protocol),
		TEST(backend_by_name_is_not_replaced_by_another),
		TEST(device_that_is_named_and_absent_is_an_error),
		TEST(device_of_any_kind_that_is_absent_is_an_error),
		TEST(interface_that_is_named_is_what_is_used),
		TEST(variables_of_mooncake_choose_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
