/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_nodes.c - a host of two NUMA nodes with eight NICs, by two workers
 *
 * The NICs are those of the fake provider. Each worker has a node's; memory of
 * a node is moved by the NICs, and so by the worker, of that node.
 */
#include <stdio.h>
#include <stdlib.h>

#include "backends/verbs/verbs.h"
#include "te/core/engine.h"
#include "te/worker/worker.h"
#include "tests/lib/fake_verbs/fake_verbs.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/rig.h"

#define N_NICS    8u
#define N_NODES   2u
#define N         64u         /* requests of a batch */
#define PART      (64u << 10) /* bytes of a request, which stays whole */
#define MERGED    (4 * PART)  /* bytes of a slice of several, at most */
#define HALF      (N / N_NODES * PART)
#define N_BATCHES 16u

static char folder[TEST_PATH_MAX], file[TEST_PATH_MAX + 16];
static uint8_t *remote, *local;
static struct te_engine *owner, *user;
static te_segment_id segment;

/* Nodes alternate, as slots of a machine may. */
static uint32_t node_of_nic(uint32_t nic)
{
	return nic % N_NODES;
}

static void describe_machine(char *text, size_t room)
{
	size_t len = (size_t)snprintf(text, room, "{\"nics\": [");

	for (uint32_t i = 0; i < N_NICS; i++)
		len += (size_t)snprintf(
			text + len, room - len,
			"%s{\"name\": \"fake%u\", \"numa_node\": %u}",
			i ? ", " : "", i, node_of_nic(i));
	(void)snprintf(text + len, room - len,
		       "], \"mems\": [{\"name\": \"cpu:0\", \"numa_node\": 0},"
		       " {\"name\": \"cpu:1\", \"numa_node\": 1}]}");
}

/* None is asked for: one for each node. */
static struct te_engine *engine_of(uint8_t *memory)
{
	const char *const settings[] = {"backends", "verbs", "topology", file,
					"workers",  "0",     NULL};
	struct te_engine *engine = rig_engine(settings);
	struct te_region region = {.length = HALF, .access = RIG_ANY};
	te_region_id id;

	for (uint32_t i = 0; i < N_NODES; i++) {
		region.addr = memory + (size_t)i * HALF;
		region.location = i ? "cpu:1" : "cpu:0";
		assert_int_equal(te_region_add(engine, &region, &id), 0);
	}
	return engine;
}

static int set_up(void **state)
{
	char machine[1024];

	(void)state;
	fake_verbs_start(N_NICS);
	tei_verbs_use(&fake_verbs);
	describe_machine(machine, sizeof(machine));
	test_tmpdir_create(folder);
	test_tree_write(folder, "machine.json", machine);
	(void)snprintf(file, sizeof(file), "%s/machine.json", folder);
	remote = calloc(N, PART);
	local = calloc(N, PART);
	assert_true(remote && local);
	rig_fill(local, (size_t)N * PART);
	owner = engine_of(remote);
	user = engine_of(local);
	segment = rig_segment(user, owner);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	te_engine_destroy(user);
	te_engine_destroy(owner);
	free(local);
	free(remote);
	test_tmpdir_remove(folder);
	tei_verbs_use(NULL);
	fake_verbs_stop();
	return 0;
}

/* Requests of each node have a deadline of their own: they make a cohort. */
static void move_all(void)
{
	struct te_request requests[N];
	struct iovec pieces[N];
	struct te_completion done;
	struct te_batch *batch;

	for (uint32_t i = 0; i < N; i++) {
		size_t at = (size_t)i * PART;

		pieces[i] = (struct iovec){local + at, PART};
		requests[i] =
			rig_request(segment, TE_WRITE, remote + at, &pieces[i]);
		requests[i].timeout_ms = RIG_WAIT_MS + i / (N / N_NODES);
	}
	assert_int_equal(te_batch_create(user, N, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, N), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(te_batch_result(batch, i, &done), 0);
		assert_int_equal(done.error, 0);
	}
	te_batch_destroy(batch);
}

static uint64_t sent_by(uint32_t rail)
{
	return atomic_load(&user->worker->rails[rail]->rail.sent_bytes);
}

static void each_worker_has_the_rails_of_a_node(void **state)
{
	(void)state;
	assert_int_equal(user->n_workers, N_NODES);
	assert_int_equal(user->worker->n_rails, N_NICS);
	for (uint32_t i = 0; i < N_NICS; i++) {
		const struct tei_rail_box *box = user->worker->rails[i];

		assert_int_equal(box->rail.device.numa_node, node_of_nic(i));
		assert_int_equal(box->worker->index, node_of_nic(i));
		assert_int_equal(box->worker->node, node_of_nic(i));
	}
}

static bool have_all_carried(void *arg)
{
	bool all = true;

	(void)arg;
	move_all();
	for (uint32_t i = 0; i < N_NICS; i++)
		all &= sent_by(i) > 0;
	return all;
}

/*
 * Tells whether each NIC carried its share of some batches more: half to twice
 * of an eighth. What is measured of a NIC while its thread waits for a core may
 * leave it out for some seconds.
 */
static bool have_shares(void *arg)
{
	uint64_t before[N_NICS],
		eighth = (uint64_t)N_BATCHES * PART * N / N_NICS;
	bool fair = true;

	(void)arg;
	for (uint32_t i = 0; i < N_NICS; i++)
		before[i] = sent_by(i);
	for (uint32_t i = 0; i < N_BATCHES; i++)
		move_all();
	for (uint32_t i = 0; i < N_NICS; i++) {
		uint64_t sent = sent_by(i) - before[i];

		fair &= 2 * sent >= eighth && sent <= 2 * eighth;
	}
	return fair;
}

static void each_nic_carries_its_share(void **state)
{
	(void)state;
	assert_true(test_wait_until(have_shares, NULL, RIG_WAIT_MS));
	assert_memory_equal(local, remote, (size_t)N * PART);
}

static uint64_t slices_of(uint32_t worker)
{
	return atomic_load(&user->worker[worker].stats.slices);
}

static void bytes_of_a_node_go_by_its_worker(void **state)
{
	uint64_t sent[N_NODES] = {0};

	(void)state;
	assert_true(test_wait_until(have_all_carried, NULL, RIG_WAIT_MS));
	assert_memory_equal(local, remote, (size_t)N * PART);
	for (uint32_t i = 0; i < N_NICS; i++)
		sent[node_of_nic(i)] += sent_by(i);
	assert_int_equal(sent[0], sent[1]);
	for (uint32_t i = 0; i < N_NODES; i++)
		assert_true(slices_of(i) >= sent[i] / MERGED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			each_worker_has_the_rails_of_a_node, set_up, tear_down),
		cmocka_unit_test_setup_teardown(each_nic_carries_its_share,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			bytes_of_a_node_go_by_its_worker, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
