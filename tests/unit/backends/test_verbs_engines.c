/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_verbs_engines.c - engines over several NICs of the fake provider
 *
 * A machine with four NICs, two in each of two NUMA nodes; the engines are all on
 * it. What they share is one fabric, so each rail reaches each.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/verbs/verbs.h"
#include "base/clock.h"
#include "tests/lib/fake_verbs/fake_verbs.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/rig.h"

#define N_NICS   4
#define LEN      ((size_t)8 << 20)
#define HALF     (LEN / 2)
#define SHORT_MS 100 /* much longer than a request takes */

static const char picture[] =
	"{\"nics\": [{\"name\": \"fake0\", \"rdma\": \"fake0\","
	"  \"rdma_port\": 1, \"numa_node\": 0},"
	" {\"name\": \"fake1\", \"numa_node\": 0},"
	" {\"name\": \"fake2\", \"numa_node\": 1},"
	" {\"name\": \"fake3\", \"rdma\": \"fake3\","
	"  \"rdma_port\": 1, \"numa_node\": 1}],"
	" \"mems\": [{\"name\": \"cpu:0\", \"numa_node\": 0},"
	"  {\"name\": \"cpu:1\", \"numa_node\": 1}]}";

static char folder[TEST_PATH_MAX], file[TEST_PATH_MAX + 16];
static uint8_t *remote, *local;

static struct te_engine *engine_with(const char *name, const char *value)
{
	const char *const settings[] = {"backends", "verbs", "topology", file,
					name,       value,   NULL};

	return rig_engine(settings);
}

/* Its two halves lie in the two nodes. */
static void add_half(struct te_engine *engine, uint8_t *memory, int half)
{
	struct te_region region = {.addr = memory + (size_t)half * HALF,
				   .length = HALF,
				   .access = RIG_ANY,
				   .location = half ? "cpu:1" : "cpu:0"};
	te_region_id id;

	assert_int_equal(te_region_add(engine, &region, &id), 0);
}

static void add(struct te_engine *engine, uint8_t *memory)
{
	for (int half = 0; half < 2; half++)
		add_half(engine, memory, half);
}

static struct te_rail_info rail(struct te_engine *engine, uint32_t i)
{
	struct te_rail_info rails[N_NICS];
	size_t n = N_NICS;

	assert_int_equal(te_engine_rails(engine, rails, &n), 0);
	assert_int_equal(n, N_NICS);
	return rails[i];
}

static uint64_t carried(struct te_engine *engine, uint32_t i)
{
	struct te_rail_info info = rail(engine, i);

	return info.sent_bytes + info.received_bytes;
}

/* The whole of one half, there and back. */
static void move(struct te_engine *user, te_segment_id segment, int half)
{
	size_t at = (size_t)half * HALF;

	rig_fill(local + at, HALF);
	memset(remote + at, 0, HALF);
	assert_int_equal(rig_move(user, segment, TE_WRITE, remote + at,
				  local + at, HALF),
			 0);
	assert_memory_equal(remote + at, local + at, HALF);
	memset(local + at, 0, HALF);
	assert_int_equal(
		rig_move(user, segment, TE_READ, remote + at, local + at, HALF),
		0);
	assert_memory_equal(remote + at, local + at, HALF);
}

struct two {
	struct te_engine *owner, *user;
	te_segment_id segment;
};

static struct two open_two(const char *name, const char *value)
{
	struct two two = {.owner = engine_with(name, value),
			  .user = engine_with(name, value)};

	add(two.owner, remote);
	add(two.user, local);
	two.segment = rig_segment(two.user, two.owner);
	return two;
}

static void close_two(struct two *two)
{
	te_engine_destroy(two->user);
	te_engine_destroy(two->owner);
}

/* Begins to write a half. */
static struct te_batch *begin_write(const struct two *two, int half)
{
	static struct iovec pieces[2]; /* until the request has ended */
	struct te_request request;
	struct te_batch *batch;
	size_t at = (size_t)half * HALF;

	pieces[half] = (struct iovec){local + at, HALF};
	rig_fill(local + at, HALF);
	memset(remote + at, 0, HALF);
	request =
		rig_request(two->segment, TE_WRITE, remote + at, &pieces[half]);
	assert_int_equal(te_batch_create(two->user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &request, 1), 0);
	return batch;
}

/* Returns how the only request of the batch ended. */
static int end_of(struct te_batch *batch)
{
	struct te_completion completion;

	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_poll(batch, &completion, 1), 1);
	te_batch_destroy(batch);
	return completion.error;
}

static void end_write(struct te_batch *batch, int half)
{
	size_t at = (size_t)half * HALF;

	assert_int_equal(end_of(batch), 0);
	assert_memory_equal(remote + at, local + at, HALF);
}

/* ---- which NICs ---- */

struct only {
	struct two *two;
	int half;
};

static uint64_t carried_by_node(struct te_engine *engine, uint32_t node)
{
	return carried(engine, 2 * node) + carried(engine, 2 * node + 1);
}

static bool goes_by_its_nics(void *arg)
{
	const struct only *only = arg;
	struct te_engine *user = only->two->user;
	uint32_t near = (uint32_t)only->half, far = 1 - near;
	uint64_t by_near = carried_by_node(user, near);
	uint64_t by_far = carried_by_node(user, far);

	move(user, only->two->segment, only->half);
	return carried_by_node(user, near) >= by_near + LEN &&
	       carried_by_node(user, far) == by_far;
}

/* Where a slow machine has near ones taken for broken, others help: again. */
static void memory_of_a_node_goes_by_its_nics(void **state)
{
	struct two two = open_two(NULL, NULL);

	(void)state;
	for (int half = 0; half < 2; half++) {
		struct only only = {&two, half};

		assert_true(
			test_wait_until(goes_by_its_nics, &only, RIG_WAIT_MS));
	}
	for (uint32_t i = 0; i < N_NICS; i++)
		assert_int_equal(rail(two.user, i).numa_node, i / 2);
	close_two(&two);
}

/* The worker of the other node learns of the peer by itself. */
static bool has_two_unmatched(void *arg)
{
	return rail(arg, 2).unmatched_peers == 1 &&
	       rail(arg, 3).unmatched_peers == 1;
}

static void map_says_which_nics_go_together(void **state)
{
	struct two two = open_two("verbs.peers", "fake0=fake1;fake1=fake0;"
						 "fake2=fake9;fake3=fake9");

	(void)state;
	move(two.user, two.segment, 1);
	assert_true(carried_by_node(two.user, 0) >= LEN);
	assert_int_equal(carried_by_node(two.user, 1), 0);
	assert_int_equal(rail(two.user, 0).unmatched_peers, 0);
	assert_true(test_wait_until(has_two_unmatched, two.user, RIG_WAIT_MS));
	close_two(&two);
}

/* ---- memory that NICs do not take ---- */

static int add_near(struct te_engine *engine, const int refusals[N_NICS])
{
	struct te_region region = {.addr = local,
				   .length = HALF,
				   .access = RIG_ANY,
				   .location = "cpu:0"};
	te_region_id id;
	int rc;

	for (unsigned int i = 0; i < N_NICS; i++)
		fake_verbs_refuse_memory(i, refusals[i]);
	rc = te_region_add(engine, &region, &id);
	if (!rc)
		assert_int_equal(te_region_remove(engine, id), 0);
	return rc;
}

static void what_a_nic_ran_out_of_is_told_if_none_takes_the_memory(void **state)
{
	static const int near[] = {ENOMEM, 0, 0, 0};
	static const int far[] = {0, 0, ENOMEM, ENOMEM};
	static const int kind[] = {EOPNOTSUPP, EOPNOTSUPP, 0, EOPNOTSUPP};
	static const int all[] = {EOPNOTSUPP, EOPNOTSUPP, EOPNOTSUPP, ENOMEM};
	static const int none[] = {EOPNOTSUPP, EOPNOTSUPP, EOPNOTSUPP,
				   EOPNOTSUPP};
	struct te_engine *engine = engine_with(NULL, NULL);

	(void)state;
	assert_int_equal(add_near(engine, near), -ENOMEM);
	assert_int_equal(add_near(engine, far), 0);
	assert_int_equal(add_near(engine, kind), 0);
	assert_int_equal(add_near(engine, all), -ENOMEM);
	assert_int_equal(add_near(engine, none), -EOPNOTSUPP);
	te_engine_destroy(engine);
}

static void
nic_without_a_link_that_takes_no_memory_is_done_without(void **state)
{
	static const int first[] = {ENOMEM, 0, 0, 0};
	struct te_engine *engine;

	(void)state;
	fake_verbs_link(0, 1, false);
	engine = engine_with(NULL, NULL);
	assert_int_equal(add_near(engine, first), 0);
	te_engine_destroy(engine);
}

/* ---- links that go ---- */

static struct te_engine *watched;
static uint32_t watched_rail, wanted_state;

static bool is_in_state(void *arg)
{
	(void)arg;
	return rail(watched, watched_rail).state == wanted_state;
}

static void await_state(struct te_engine *engine, uint32_t i, uint32_t state)
{
	watched = engine;
	watched_rail = i;
	wanted_state = state;
	assert_true(test_wait_until(is_in_state, NULL, RIG_WAIT_MS));
}

static void links_that_go_are_replaced_and_used_again(void **state)
{
	struct two two = open_two(NULL, NULL);
	uint64_t before;

	(void)state;
	move(two.user, two.segment, 0);
	for (uint32_t i = 0; i < 2; i++) {
		fake_verbs_link(i, 1, false);
		await_state(two.user, i, TE_RAIL_DOWN);
		await_state(two.owner, i, TE_RAIL_DOWN);
	}
	move(two.user, two.segment, 0);
	assert_true(carried_by_node(two.user, 1) >= LEN);
	for (uint32_t i = 0; i < 2; i++) {
		fake_verbs_link(i, 1, true);
		await_state(two.user, i, TE_RAIL_UP);
		await_state(two.owner, i, TE_RAIL_UP);
	}
	before = carried_by_node(two.user, 0);
	while (carried_by_node(two.user, 0) == before)
		move(two.user, two.segment, 0);
	close_two(&two);
}

/* ---- packets that become too large ---- */

static void set_mtu(enum ibv_mtu mtu)
{
	for (unsigned int i = 0; i < N_NICS; i++)
		fake_verbs_set_mtu(i, 1, mtu);
}

/*
 * Without an event: the connections that there are break when they are used. With
 * one: they are replaced at once.
 */
static void smaller_mtu_costs_connections_and_no_request(void **state)
{
	struct two two;

	(void)state;
	set_mtu(IBV_MTU_4096);
	two = open_two(NULL, NULL);
	move(two.user, two.segment, 0);
	set_mtu(IBV_MTU_1024);
	move(two.user, two.segment, 0);
	move(two.user, two.segment, 1);
	set_mtu(IBV_MTU_512);
	for (unsigned int i = 0; i < N_NICS; i++)
		fake_verbs_tell(i, IBV_EVENT_PORT_ACTIVE, 1);
	move(two.user, two.segment, 0);
	move(two.user, two.segment, 1);
	set_mtu(IBV_MTU_4096);
	move(two.user, two.segment, 0);
	close_two(&two);
}

/* ---- links that come ---- */

struct rail_use {
	struct two *two;
	uint32_t rail;
	uint64_t before; /* bytes that it had carried */
};

static void *move_near(void *arg)
{
	const struct two *two = arg;

	move(two->user, two->segment, 0);
	return NULL;
}

/*
 * Moves from a thread of its own each time: requests of a thread go by the rails
 * of one worker, and threads have workers by turns.
 */
static bool rail_is_used(void *arg)
{
	const struct rail_use *use = arg;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, move_near, use->two), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return carried(use->two->user, use->rail) > use->before;
}

static void await_use(struct two *two, uint32_t i)
{
	struct rail_use use = {two, i, carried(two->user, i)};

	assert_true(test_wait_until(rail_is_used, &use, RIG_WAIT_MS));
}

static void port_gets_its_link_later_and_is_used(void **state)
{
	struct two two;

	(void)state;
	fake_verbs_link(0, 1, false);
	fake_verbs_set_gid(1, 1, 1, NULL, IBV_GID_TYPE_ROCE_V2);
	two = open_two(NULL, NULL);
	move(two.user, two.segment, 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(rail(two.user, i).state, TE_RAIL_DOWN);
		assert_int_equal(rail(two.user, i).unmatched_peers, 0);
		assert_int_equal(carried(two.user, i), 0);
	}
	fake_verbs_link(0, 1, true);
	fake_verbs_set_gid(1, 1, 1, "10.9.1.2", IBV_GID_TYPE_ROCE_V2);
	fake_verbs_tell(1, IBV_EVENT_GID_CHANGE, 1);
	for (uint32_t i = 0; i < 2; i++) {
		await_state(two.user, i, TE_RAIL_UP);
		await_state(two.owner, i, TE_RAIL_UP);
		await_use(&two, i);
	}
	close_two(&two);
}

/* ---- partners that come ---- */

static bool has_retired(void *arg)
{
	return test_stat(arg, "te_endpoints_retired_total", NULL) > 0;
}

static struct te_engine *engine_of_some(const char *devices)
{
	const char *const settings[] = {"backends", "verbs",         "topology",
					file,       "verbs.devices", devices,
					"window",   "256k",          NULL};

	return rig_engine(settings);
}

/*
 * Memory near the user's first rail, which has another partner in the middle of a
 * request: what is left of it has no key of that one.
 */
static void change_partner(const char *devices)
{
	struct te_batch *batch;
	struct two two;

	fake_verbs_link(1, 1, false);
	two.owner = engine_of_some("fake1,fake3");
	two.user = engine_of_some(devices);
	fake_verbs_refuse_memory(1, ENOMEM);
	add(two.owner, remote);
	fake_verbs_refuse_memory(1, 0);
	add(two.user, local);
	two.segment = rig_segment(two.user, two.owner);
	move(two.user, two.segment, 0);
	fake_verbs_hang(0, true);
	batch = begin_write(&two, 0);
	fake_verbs_link(1, 1, true);
	assert_true(test_wait_until(has_retired, two.user, RIG_WAIT_MS));
	fake_verbs_hang(0, false);
	end_write(batch, 0);
	close_two(&two);
}

static void request_goes_on_when_its_rail_has_another_partner(void **state)
{
	(void)state;
	change_partner("fake0,fake2");
}

static void request_goes_on_when_its_only_rail_has_another_partner(void **state)
{
	(void)state;
	change_partner("fake0");
}

static bool is_registering(void *arg)
{
	(void)arg;
	return fake_verbs_counts().registering > 0;
}

/* Peers do not get a NIC as their partner before it has what they ask for. */
static void request_waits_while_the_only_nic_with_a_link_registers(void **state)
{
	struct te_batch *batch;
	struct two two;

	(void)state;
	fake_verbs_link(1, 1, false);
	two.owner = engine_of_some("fake1,fake3");
	fake_verbs_refuse_memory(1, ENOMEM);
	add(two.owner, remote);
	fake_verbs_refuse_memory(1, 0);
	fake_verbs_hold_memory(1, true);
	fake_verbs_link(1, 1, true);
	fake_verbs_link(3, 1, false);
	assert_true(test_wait_until(is_registering, NULL, RIG_WAIT_MS));
	two.user = engine_of_some("fake0");
	add(two.user, local);
	two.segment = rig_segment(two.user, two.owner);
	batch = begin_write(&two, 0);
	assert_int_equal(te_batch_wait(batch, SHORT_MS), -ETIMEDOUT);
	fake_verbs_hold_memory(1, false);
	end_write(batch, 0);
	close_two(&two);
}

static struct te_engine *engine_that_goes_to_fake1(void)
{
	const char *const settings[] = {
		"backends", "verbs",       "topology",    file, "verbs.devices",
		"fake0",    "verbs.peers", "fake0=fake1", NULL};

	return rig_engine(settings);
}

/* A NIC with its first link is of use though it refuses a region for good. */
static void nic_that_refuses_a_region_serves_the_others(void **state)
{
	struct te_batch *batches[2];
	struct two two;

	(void)state;
	fake_verbs_link(1, 1, false);
	two.owner = engine_of_some("fake1,fake3");
	add_half(two.owner, remote, 0);
	fake_verbs_refuse_memory(1, ENOMEM);
	add_half(two.owner, remote, 1);
	two.user = engine_that_goes_to_fake1();
	add(two.user, local);
	two.segment = rig_segment(two.user, two.owner);
	for (int half = 0; half < 2; half++)
		batches[half] = begin_write(&two, half);
	assert_int_equal(te_batch_wait(batches[0], SHORT_MS), -ETIMEDOUT);
	fake_verbs_link(1, 1, true);
	end_write(batches[0], 0);
	assert_int_equal(end_of(batches[1]), -EIO);
	close_two(&two);
}

/* What peers use is not taken from them while one more region is registered. */
static void nic_that_had_a_link_serves_while_it_registers(void **state)
{
	struct two two;

	(void)state;
	two.owner = engine_with(NULL, NULL);
	two.user = engine_that_goes_to_fake1();
	add_half(two.owner, remote, 0);
	add(two.user, local);
	two.segment = rig_segment(two.user, two.owner);
	move(two.user, two.segment, 0);
	fake_verbs_link(1, 1, false);
	await_state(two.owner, 1, TE_RAIL_DOWN);
	fake_verbs_refuse_memory(1, ENOMEM);
	add_half(two.owner, remote, 1);
	fake_verbs_refuse_memory(1, 0);
	fake_verbs_hold_memory(1, true);
	fake_verbs_link(1, 1, true);
	assert_true(test_wait_until(is_registering, NULL, RIG_WAIT_MS));
	move(two.user, two.segment, 0);
	fake_verbs_hold_memory(1, false);
	close_two(&two);
}

static int n_waiting;

static void count_waiting(int level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	n_waiting += strstr(line, "nothing reaches other hosts before rail "
				  "verbs/fake0/1 or another has one") != NULL;
}

/* What is asked for meanwhile waits, and goes when there is a way. */
static void engines_start_before_any_port_has_a_link(void **state)
{
	struct te_batch *batch;
	struct two two;

	(void)state;
	for (unsigned int i = 0; i < N_NICS; i++)
		fake_verbs_link(i, 1, false);
	n_waiting = 0;
	te_log_set(count_waiting, NULL);
	two = open_two(NULL, NULL);
	te_log_set(NULL, NULL);
	assert_int_equal(n_waiting, 2);
	batch = begin_write(&two, 0);
	for (unsigned int i = 0; i < N_NICS; i++)
		fake_verbs_link(i, 1, true);
	end_write(batch, 0);
	close_two(&two);
}

/* ---- endpoints ---- */

#define N_OWNERS (N_NICS + 1) /* one more than all NICs have endpoints for */

/* As many completions as one endpoint reserves. */
static void nic_without_room_serves_all_peers_by_turns(void **state)
{
	struct te_engine *user = engine_with("verbs.completions", "512");
	struct te_engine *owners[N_OWNERS];
	te_segment_id segments[N_OWNERS];

	(void)state;
	add(user, local);
	for (int i = 0; i < N_OWNERS; i++) {
		owners[i] = engine_with(NULL, NULL);
		add(owners[i], remote);
		segments[i] = rig_segment(user, owners[i]);
	}
	for (int i = 0; i < 2 * N_OWNERS; i++)
		move(user, segments[i % N_OWNERS], i & 1);
	assert_true(test_stat(user, "te_endpoints_retired_total", NULL) > 0);
	te_engine_destroy(user);
	for (int i = 0; i < N_OWNERS; i++)
		te_engine_destroy(owners[i]);
}

/* ---- the machine ---- */

static int set_up(void **state)
{
	(void)state;
	fake_verbs_start(N_NICS);
	tei_verbs_use(&fake_verbs);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tei_verbs_use(NULL);
	fake_verbs_stop(); /* nothing is left of all */
	return 0;
}

static int make_machine(void **state)
{
	(void)state;
	test_tmpdir_create(folder);
	test_tree_write(folder, "machine.json", picture);
	(void)snprintf(file, sizeof(file), "%s/machine.json", folder);
	remote = malloc(LEN);
	local = malloc(LEN);
	assert_true(remote && local);
	return 0;
}

static int remove_machine(void **state)
{
	(void)state;
	free(remote);
	free(local);
	test_tmpdir_remove(folder);
	return 0;
}

#define WITH_NICS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_NICS(memory_of_a_node_goes_by_its_nics),
		WITH_NICS(map_says_which_nics_go_together),
		WITH_NICS(
			what_a_nic_ran_out_of_is_told_if_none_takes_the_memory),
		WITH_NICS(
			nic_without_a_link_that_takes_no_memory_is_done_without),
		WITH_NICS(links_that_go_are_replaced_and_used_again),
		WITH_NICS(smaller_mtu_costs_connections_and_no_request),
		WITH_NICS(port_gets_its_link_later_and_is_used),
		WITH_NICS(request_goes_on_when_its_rail_has_another_partner),
		WITH_NICS(
			request_goes_on_when_its_only_rail_has_another_partner),
		WITH_NICS(
			request_waits_while_the_only_nic_with_a_link_registers),
		WITH_NICS(nic_that_refuses_a_region_serves_the_others),
		WITH_NICS(nic_that_had_a_link_serves_while_it_registers),
		WITH_NICS(engines_start_before_any_port_has_a_link),
		WITH_NICS(nic_without_room_serves_all_peers_by_turns),
	};

	return cmocka_run_group_tests(tests, make_machine, remove_machine);
}
