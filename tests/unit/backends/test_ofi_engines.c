/* SPDX-License-Identifier: Apache-2.0 */
/* test_ofi_engines.c - engines over two domains of the fake libfabric */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/ofi/ofi.h"
#include "base/clock.h"
#include "base/log.h"
#include "tests/lib/fake_ofi/fake_ofi.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"
#include "tests/unit/te/rig.h"

#define LEN        ((size_t)4 << 20)
#define PIECE      ((size_t)64 << 10)
#define N_REQUESTS (LEN / PIECE)
#define ROUNDS     12

static enum fake_ofi_shape shape;
static uint8_t *remote, *local;

struct two {
	struct te_engine *owner, *user;
	te_segment_id segment;
};

static void be_quiet(int level, const char *text, void *arg)
{
	(void)level;
	(void)text;
	(void)arg;
}

static const char *few = "0"; /* ofi.endpoints */

static const char *backends = "ofi";

static const char *const *settings(void)
{
	static const char *all[] = {"backends",
				    NULL,
				    "ofi.provider",
				    NULL,
				    "ofi.endpoints",
				    NULL,
				    "transfer_timeout",
				    "50s",
				    NULL};

	all[1] = backends;
	all[3] = fake_ofi_provider(shape);
	all[5] = few;
	return all;
}

static int set_up(void **state)
{
	(void)state;
	backends = "ofi";
	fake_ofi_start(shape, 2);
	for (unsigned int i = 0; i < 2; i++)
		fake_ofi_limits(i)->handshakes = shape == FAKE_OFI_EFA;
	tei_ofi_use(&fake_ofi);
	remote = calloc(1, LEN);
	local = calloc(1, LEN);
	return remote && local ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	free(remote);
	free(local);
	tei_ofi_use(NULL);
	fake_ofi_stop();
	return 0;
}

static struct two open_two(void)
{
	struct two two = {.owner = rig_engine(settings()),
			  .user = rig_engine(settings())};

	rig_region(two.owner, remote, LEN, RIG_ANY);
	rig_region(two.user, local, LEN, RIG_ANY);
	two.segment = rig_segment(two.user, two.owner);
	return two;
}

static void close_two(struct two *two)
{
	fake_ofi_set_chances(NULL);
	te_engine_destroy(two->user);
	te_engine_destroy(two->owner);
	assert_int_equal(fake_ofi_open(), 0);
}

/* All of one memory to the other, in requests side by side. */
static void move_all(const struct two *two, uint32_t op)
{
	struct te_request requests[N_REQUESTS];
	struct iovec pieces[N_REQUESTS];
	struct te_completion done;
	struct te_batch *batch;

	for (size_t i = 0; i < N_REQUESTS; i++) {
		pieces[i] = (struct iovec){local + i * PIECE, PIECE};
		requests[i] = rig_request(two->segment, op, remote + i * PIECE,
					  &pieces[i]);
	}
	assert_int_equal(te_batch_create(two->user, N_REQUESTS, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, N_REQUESTS), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	for (uint32_t i = 0; i < N_REQUESTS; i++) {
		assert_int_equal(te_batch_result(batch, i, &done), 0);
		assert_int_equal(done.error, 0);
	}
	te_batch_destroy(batch);
}

static void there_and_back(const struct two *two)
{
	rig_fill(local, LEN);
	memset(remote, 0, LEN);
	move_all(two, TE_WRITE);
	assert_memory_equal(local, remote, LEN);
	memset(local, 0, LEN);
	move_all(two, TE_READ);
	assert_memory_equal(local, remote, LEN);
}

static void requests_outlast_resets_and_want_of_room(void **state)
{
	const struct fake_ofi_chances c = {
		.seed = 21, .reset = 5000, .busy = 20000};
	struct two two = open_two();

	(void)state;
	there_and_back(&two);
	fake_ofi_set_chances(&c);
	for (int i = 0; i < ROUNDS; i++)
		there_and_back(&two);
	assert_true(fake_ofi_counts().busy > 0);
	close_two(&two);
}

/* What the core does where an operation ends badly and the peer is there. */
static void requests_outlast_errors_of_the_way(void **state)
{
	struct two two = open_two();

	(void)state;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		static const int errors[] = {FI_EIO, FI_ETIMEDOUT, FI_ECANCELED,
					     FI_EREMOTEIO};

		fake_ofi_spoil(1 + i, errors[i % TEST_COUNT(errors)]);
		there_and_back(&two);
	}
	assert_true(fake_ofi_counts().spoiled > 0);
	close_two(&two);
}

static uint64_t sent_by_second(const struct two *two)
{
	struct te_rail_info rails[2];
	size_t n = TEST_COUNT(rails);

	assert_int_equal(te_engine_rails(two->user, rails, &n), 0);
	assert_int_equal(n, 2);
	return rails[1].sent_bytes;
}

static void
domain_that_is_silent_is_left_for_the_other_and_used_again(void **state)
{
	struct two two = open_two();
	uint64_t until = tei_now_ms() + RIG_WAIT_MS, before;

	(void)state;
	there_and_back(&two);
	fake_ofi_lose(1, 5000); /* a device gives up after a while */
	there_and_back(&two);
	fake_ofi_silence(1, false);
	before = sent_by_second(&two);
	while (sent_by_second(&two) == before) {
		assert_true(tei_now_ms() < until);
		there_and_back(&two);
	}
	close_two(&two);
}

/* A thread that has an engine add and remove a region, until it is told. */
struct adder {
	struct te_engine *engine;
	uint8_t memory[4096];
	atomic_bool stop;
	unsigned int n;
};

static void *add_and_remove(void *arg)
{
	struct adder *adder = arg;
	const struct te_region region = {.addr = adder->memory,
					 .length = sizeof(adder->memory),
					 .access = RIG_ANY};
	te_region_id id;

	while (!atomic_load(&adder->stop) &&
	       !te_region_add(adder->engine, &region, &id) &&
	       !te_region_remove(adder->engine, id))
		adder->n++;
	return NULL;
}

/*
 * Endpoints are opened and regions registered at a time, by two threads. Not by
 * connections: there the end of a key may end those of others.
 */
static void regions_come_and_go_while_endpoints_do(void **state)
{
	static struct adder adder;
	struct two two;
	pthread_t thread;

	(void)state;
	if (shape != FAKE_OFI_EFA && shape != FAKE_OFI_CXI)
		skip();
	two = open_two();
	adder = (struct adder){.engine = two.owner};
	assert_int_equal(pthread_create(&thread, NULL, add_and_remove, &adder),
			 0);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		fake_ofi_spoil(1 + i, FI_ETIMEDOUT);
		there_and_back(&two);
	}
	atomic_store(&adder.stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(adder.n > 0);
	close_two(&two);
}

#define OWNERS 4

/* One endpoint for four peers: they take turns, and nothing is lost. */
static void endpoints_give_way_where_there_are_few(void **state)
{
	struct te_engine *owners[OWNERS];
	te_segment_id segments[OWNERS];
	struct two two;

	(void)state;
	few = "1";
	two.user = rig_engine(settings());
	few = "0";
	rig_region(two.user, local, LEN, RIG_ANY);
	for (size_t i = 0; i < OWNERS; i++) {
		owners[i] = rig_engine(settings());
		rig_region(owners[i], remote, LEN, RIG_ANY);
		segments[i] = rig_segment(two.user, owners[i]);
	}
	for (size_t i = 0; i < 3 * OWNERS; i++) {
		two.segment = segments[i % OWNERS];
		there_and_back(&two);
	}
	assert_true(test_stat(two.user, "te_endpoints_retired_total", "") > 0);
	te_engine_destroy(two.user);
	for (size_t i = 0; i < OWNERS; i++)
		te_engine_destroy(owners[i]);
	assert_int_equal(fake_ofi_open(), 0);
}

#define CROWD 16

/* Far more peers than endpoints, all at a time, while the way is reset. */
static void a_crowd_of_peers_shares_few_endpoints(void **state)
{
	const struct fake_ofi_chances c = {
		.seed = 5, .reset = 500, .busy = 20000};
	struct te_request requests[2 * CROWD];
	struct iovec pieces[2 * CROWD];
	struct te_engine *owners[CROWD], *user;
	struct te_completion done;
	struct te_batch *batch;

	(void)state;
	few = "2";
	user = rig_engine(settings());
	few = "0";
	rig_region(user, local, LEN, RIG_ANY);
	rig_fill(local, LEN);
	for (uint32_t i = 0; i < 2 * CROWD; i++) {
		te_segment_id segment;

		if (i < CROWD) {
			owners[i] = rig_engine(settings());
			rig_region(owners[i], remote + i * PIECE, PIECE,
				   RIG_ANY);
		}
		segment = rig_segment(user, owners[i % CROWD]);
		pieces[i] = (struct iovec){local + i * PIECE / 2, PIECE / 2};
		requests[i] = rig_request(segment, TE_WRITE,
					  remote + (i % CROWD) * PIECE +
						  (i / CROWD) * PIECE / 2,
					  &pieces[i]);
	}
	fake_ofi_set_chances(&c);
	for (int round = 0; round < 2; round++) {
		memset(remote, 0, LEN);
		assert_int_equal(te_batch_create(user, 2 * CROWD, &batch), 0);
		assert_int_equal(te_batch_submit(batch, requests, 2 * CROWD),
				 0);
		assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
		for (uint32_t i = 0; i < 2 * CROWD; i++) {
			assert_int_equal(te_batch_result(batch, i, &done), 0);
			assert_int_equal(done.error, 0);
			assert_memory_equal(
				(void *)(uintptr_t)requests[i].remote,
				pieces[i].iov_base, PIECE / 2);
		}
		te_batch_destroy(batch);
	}
	fake_ofi_set_chances(NULL);
	te_engine_destroy(user);
	for (size_t i = 0; i < CROWD; i++)
		te_engine_destroy(owners[i]);
	assert_int_equal(fake_ofi_open(), 0);
}

/* Also where the provider adds the kind of endpoints to a device's name. */
static void rails_are_where_their_nics_are(void **state)
{
	static const char machine[] =
		"{\"nics\": [{\"name\": \"fake0\", \"numa_node\": 0}, "
		"{\"name\": \"fake1\", \"numa_node\": 1}], "
		"\"mems\": [{\"name\": \"cpu:0\", \"numa_node\": 0}, "
		"{\"name\": \"cpu:1\", \"numa_node\": 1}]}";
	const char *const *all = settings();
	struct te_rail_info rails[4];
	struct te_config *config;
	struct te_engine *engine;
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];
	size_t n = TEST_COUNT(rails);

	(void)state;
	test_tmpdir_create(dir);
	test_tree_write(dir, "machine.json", machine);
	snprintf(path, sizeof(path), "%s/machine.json", dir);
	assert_int_equal(te_config_create(&config), 0);
	for (; *all; all += 2)
		assert_int_equal(te_config_set(config, all[0], all[1], NULL, 0),
				 0);
	assert_int_equal(te_config_set(config, "topology", path, NULL, 0), 0);
	assert_int_equal(te_engine_create(config, "127.0.0.1", &engine), 0);
	te_config_destroy(config);
	assert_int_equal(te_engine_rails(engine, rails, &n), 0);
	assert_int_equal(n, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(rails[i].numa_node, i);
	te_engine_destroy(engine);
	test_tmpdir_remove(dir);
}

/* ---- rails that cannot be opened ---- */

static size_t count_rails(struct te_engine *engine)
{
	struct te_rail_info rails[4];
	size_t n = TEST_COUNT(rails);

	assert_int_equal(te_engine_rails(engine, rails, &n), 0);
	return n;
}

static void starts_with_one_rail(void)
{
	struct te_engine *engine = rig_engine(settings());

	assert_int_equal(count_rails(engine), 1);
	te_engine_destroy(engine);
}

static void engine_does_without_a_domain_that_makes_no_sense(void **state)
{
	(void)state;
	fake_ofi_info(1)->tx_attr->size = 0;
	starts_with_one_rail();
	fake_ofi_info(1)->tx_attr->size = 8;
	fake_ofi_info(1)->domain_attr->mr_key_size = 9;
	starts_with_one_rail();
}

static void engine_does_without_a_domain_that_does_not_open(void **state)
{
	static const enum fake_ofi_call calls[] = {
		FAKE_OFI_FABRIC, FAKE_OFI_DOMAIN, FAKE_OFI_EQ_OPEN};
	static const int errors[] = {FI_EIO, FI_ENOSYS, FI_ENOMEM, FI_EINVAL};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(calls) * TEST_COUNT(errors); i++) {
		fake_ofi_fail(calls[i % TEST_COUNT(calls)], 2,
			      errors[i / TEST_COUNT(calls)]);
		starts_with_one_rail();
		assert_true(fake_ofi_struck());
	}
}

static void engine_fails_with_a_domain_that_is_named(void **state)
{
	struct te_config *config;
	struct te_engine *engine;

	(void)state;
	fake_ofi_info(1)->tx_attr->size = 0;
	assert_int_equal(te_config_create(&config), 0);
	for (const char *const *at = settings(); *at; at += 2)
		assert_int_equal(te_config_set(config, at[0], at[1], NULL, 0),
				 0);
	assert_int_equal(
		te_config_set(config, "ofi.devices", "fake0,fake1", NULL, 0),
		0);
	assert_int_equal(te_engine_create(config, "127.0.0.1", &engine),
			 -EOPNOTSUPP);
	te_config_destroy(config);
}

/* ---- rails that die ---- */

/* Nobody reaches the memory of a rail without connections. */
static void region_of_a_dead_rail_is_removed(void **state)
{
	struct two two = {.owner = rig_engine(settings()),
			  .user = rig_engine(settings())};
	te_region_id ids[2];

	(void)state;
	ids[0] = rig_region(two.owner, remote, LEN, RIG_ANY);
	ids[1] = rig_region(two.user, local, LEN, RIG_ANY);
	two.segment = rig_segment(two.user, two.owner);
	there_and_back(&two);
	fake_ofi_fail(FAKE_OFI_EQ_READ, 1, FI_EIO);
	while (!fake_ofi_struck())
		there_and_back(&two);
	assert_int_equal(
		te_region_remove_within(two.owner, ids[0], RIG_WAIT_MS), 0);
	assert_int_equal(te_region_remove_within(two.user, ids[1], RIG_WAIT_MS),
			 0);
	close_two(&two);
}

/* Devices that do not read and write by themselves: the processes do. */
static void regions_come_and_go_where_bytes_are_emulated(void **state)
{
	struct two two;
	te_region_id id;

	(void)state;
	if (shape != FAKE_OFI_EFA)
		return;
	for (unsigned int d = 0; d < 2; d++)
		fake_ofi_limits(d)->emulated = true;
	two.owner = rig_engine(settings());
	two.user = rig_engine(settings());
	rig_region(two.user, local, LEN, RIG_ANY);
	two.segment = rig_segment(two.user, two.owner);
	for (int i = 0; i < 3; i++) {
		id = rig_region(two.owner, remote, LEN, RIG_ANY);
		there_and_back(&two);
		assert_int_equal(te_region_remove(two.owner, id), 0);
	}
	close_two(&two);
}

/* The provider's own shared memory touches ours after an endpoint is closed. */
static void this_host_is_reached_by_the_device(void **state)
{
	struct two two = open_two();

	(void)state;
	there_and_back(&two);
	assert_int_equal(fake_ofi_counts().by_shm, 0);
	if (shape == FAKE_OFI_EFA) /* memory that each peer takes */
		assert_true(fake_ofi_counts().receives <= 256);
	close_two(&two);
}

/* ---- regions that are too large for each NIC ---- */

/* Each has room for so many bytes more. */
static void limit_to(uint64_t room)
{
	for (unsigned int d = 0; d < 2; d++)
		fake_ofi_limits(d)->registered = fake_ofi_registered(d) + room;
}

/* Engines whose regions both NICs share, three quarters each. */
static struct two open_too_large(void)
{
	struct two two = {.owner = rig_engine(settings()),
			  .user = rig_engine(settings())};
	uint64_t had = fake_ofi_counts().registered;

	limit_to(LEN * 3 / 4 + PIECE / 2);
	rig_region(two.owner, remote, LEN, RIG_ANY);
	assert_int_equal(fake_ofi_counts().registered,
			 had + 2 * (LEN * 3 / 4 - PIECE));
	limit_to(LEN * 3 / 4 + PIECE / 2);
	rig_region(two.user, local, LEN, RIG_ANY);
	two.segment = rig_segment(two.user, two.owner);
	return two;
}

/* One request for all of one memory. */
static void move_at_once(const struct two *two, uint32_t op)
{
	struct iovec piece = {local, LEN};
	struct te_request request =
		rig_request(two->segment, op, remote, &piece);
	struct te_completion done;
	struct te_batch *batch;

	assert_int_equal(te_batch_create(two->user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &request, 1), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_result(batch, 0, &done), 0);
	assert_int_equal(done.error, 0);
	te_batch_destroy(batch);
}

static void region_that_is_too_large_for_each_nic_goes_by_both(void **state)
{
	struct two two;

	(void)state;
	if (shape == FAKE_OFI_CXI)
		skip(); /* keys that are bound: all or nothing */
	two = open_too_large();
	for (int i = 0; i < 3; i++) {
		there_and_back(&two);
		rig_fill(local, LEN);
		memset(remote, 0, LEN);
		move_at_once(&two, TE_WRITE);
		assert_memory_equal(local, remote, LEN);
		memset(local, 0, LEN);
		move_at_once(&two, TE_READ);
		assert_memory_equal(local, remote, LEN);
	}
	assert_true(sent_by_second(&two) > 0);
	close_two(&two);
}

/* Shared memory reaches all of it, but only for peers of this host. */
static void region_with_a_part_that_no_nic_has_is_refused(void **state)
{
	const struct te_region region = {
		.addr = remote, .length = LEN, .access = RIG_ANY};
	struct te_engine *owner;
	uint64_t had;
	te_region_id id;

	(void)state;
	backends = "ofi,shm";
	owner = rig_engine(settings());
	had = fake_ofi_counts().registered;
	limit_to(LEN / 4);
	assert_true(te_region_add(owner, &region, &id) < 0);
	assert_int_equal(fake_ofi_counts().registered, had);
	limit_to(LEN);
	assert_int_equal(te_region_add(owner, &region, &id), 0);
	te_engine_destroy(owner);
	assert_int_equal(fake_ofi_open(), 0);
}

static bool is_driven(void)
{
	struct te_config *config;
	struct te_engine *engine;
	const char *const *at;
	int rc;

	fake_ofi_start(shape, 2);
	tei_ofi_use(&fake_ofi);
	assert_int_equal(te_config_create(&config), 0);
	for (at = settings(); *at; at += 2)
		assert_int_equal(te_config_set(config, at[0], at[1], NULL, 0),
				 0);
	rc = te_engine_create(config, "127.0.0.1", &engine);
	te_config_destroy(config);
	if (!rc)
		te_engine_destroy(engine);
	tei_ofi_use(NULL);
	fake_ofi_stop();
	return !rc;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(requests_outlast_resets_and_want_of_room),
		TEST(requests_outlast_errors_of_the_way),
		TEST(domain_that_is_silent_is_left_for_the_other_and_used_again),
		TEST(regions_come_and_go_while_endpoints_do),
		TEST(endpoints_give_way_where_there_are_few),
		TEST(a_crowd_of_peers_shares_few_endpoints),
		TEST(rails_are_where_their_nics_are),
		TEST(engine_does_without_a_domain_that_makes_no_sense),
		TEST(engine_does_without_a_domain_that_does_not_open),
		TEST(engine_fails_with_a_domain_that_is_named),
		TEST(region_of_a_dead_rail_is_removed),
		TEST(regions_come_and_go_where_bytes_are_emulated),
		TEST(this_host_is_reached_by_the_device),
		TEST(region_that_is_too_large_for_each_nic_goes_by_both),
		TEST(region_with_a_part_that_no_nic_has_is_refused),
	};
	int failed = 0;

	(void)setenv("FI_CXI_MR_MATCH_EVENTS", "1", 1);
	tei_log_set_sink(be_quiet, NULL);
	for (int i = 0; i < FAKE_OFI_SHAPES; i++) {
		shape = (enum fake_ofi_shape)i;
		if (is_driven())
			failed += _cmocka_run_group_tests(
				fake_ofi_provider(shape), tests,
				TEST_COUNT(tests), NULL, NULL);
	}
	return failed;
}
