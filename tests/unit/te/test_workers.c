/* SPDX-License-Identifier: Apache-2.0 */
/* test_workers.c - rails dealt out to workers, and engines with several */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <te/topo.h>

#include "te/core/engine.h"
#include "te/worker/place.h"
#include "te/worker/topology.h"
#include "te/worker/worker.h"
#include "tests/unit/te/rig.h"

/* ---- who drives what ---- */

/* The eight NICs of a host with two nodes, and its shared memory. */
static void describe_host(struct tei_rail_place rails[9])
{
	rails[0] = (struct tei_rail_place){.node = -1, .kept = true};
	for (uint32_t i = 1; i < 9; i++)
		rails[i] = (struct tei_rail_place){.node = i % 2 ? 0 : 1,
						   .tier = 1};
}

static void eight_nics_on_two_nodes_have_two_workers(void **state)
{
	struct tei_rail_place rails[9];

	(void)state;
	describe_host(rails);
	assert_int_equal(tei_place_rails(rails, 9, 0, 16), 2);
	assert_int_equal(rails[0].worker, 0);
	for (uint32_t i = 1; i < 9; i++)
		assert_int_equal(rails[i].worker, rails[i].node);
}

static void workers_have_as_many_rails_as_each_other(void **state)
{
	struct tei_rail_place rails[9];
	uint32_t n, i;

	(void)state;
	for (n = 1; n <= 8; n *= 2) {
		uint32_t sum[8] = {0};

		describe_host(rails);
		assert_int_equal(tei_place_rails(rails, 9, n, 16), n);
		for (i = 1; i < 9; i++) {
			sum[rails[i].worker]++;
			if (n > 1) /* each has one node's only */
				assert_int_equal(rails[i].worker / (n / 2),
						 rails[i].node);
		}
		for (i = 0; i < n; i++)
			assert_int_equal(sum[i], 8 / n);
	}
}

static void one_node_has_one_worker(void **state)
{
	struct tei_rail_place rails[3] = {{.node = -1, .kept = true},
					  {.node = 3, .tier = 1},
					  {.node = 3, .tier = 1}};

	(void)state;
	assert_int_equal(tei_place_rails(rails, 3, 0, 16), 1);
	assert_int_equal(rails[1].worker, 0);
	rails[1].node = rails[2].node = -1;
	assert_int_equal(tei_place_rails(rails, 3, 0, 16), 1);
	assert_int_equal(tei_place_rails(rails, 0, 0, 16), 1);
}

/* Unless that is asked for, or some of the rails reach the GPUs themselves. */
static void rails_that_stage_have_one_worker(void **state)
{
	struct tei_rail_place rails[9];

	(void)state;
	describe_host(rails);
	for (uint32_t i = 1; i < 9; i++)
		rails[i].stages = true;
	assert_int_equal(tei_place_rails(rails, 9, 0, 16), 1);
	for (uint32_t i = 0; i < 9; i++)
		assert_int_equal(rails[i].worker, 0);
	assert_int_equal(tei_place_rails(rails, 9, 2, 16), 2);
	rails[1].stages = false;
	assert_int_equal(tei_place_rails(rails, 9, 0, 16), 2);
}

static void there_are_no_more_workers_than_rails(void **state)
{
	struct tei_rail_place rails[3] = {{.node = -1, .kept = true},
					  {.node = 0, .tier = 1},
					  {.node = 0, .tier = 1}};

	(void)state;
	assert_int_equal(tei_place_rails(rails, 3, 7, 16), 2);
	assert_int_equal(rails[0].worker, 0);
	assert_int_equal(rails[1].worker + rails[2].worker, 1);
	assert_int_equal(tei_place_rails(rails, 1, 7, 16), 1);
}

static void device_is_opened_often_enough_for_all_workers(void **state)
{
	(void)state;
	assert_int_equal(tei_place_copies(1, 4), 4);
	assert_int_equal(tei_place_copies(2, 4), 2);
	assert_int_equal(tei_place_copies(3, 4), 2);
	assert_int_equal(tei_place_copies(8, 4), 1);
	assert_int_equal(tei_place_copies(0, 4), 1);
}

/* ---- threads near their rails ---- */

static void thread_stays_at_a_node_that_has_processors(void **state)
{
	struct te_engine *engine = rig_engine(NULL);
	uint32_t cpus[CPU_SETSIZE];
	size_t n = CPU_SETSIZE, there = 0;
	cpu_set_t before, after;

	(void)state;
	if (!engine->topo || te_topo_node_cpus(engine->topo, 0, cpus, &n)) {
		te_engine_destroy(engine);
		skip();
	}
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	tei_topology_stay_near(engine, 12345);
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&before, &after));
	tei_topology_stay_near(engine, 0);
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	for (size_t i = 0; i < n; i++)
		there += CPU_ISSET(cpus[i], &after) != 0;
	assert_true(CPU_EQUAL(&before, &after) ||
		    there == (size_t)CPU_COUNT(&after));
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	te_engine_destroy(engine);
}

/* ---- engines ---- */

#define N     32u
#define PIECE (1u << 20)

static const char *const four[] = {"workers", "4", "backends", "tcp", NULL};

static uint8_t local[N][PIECE], remote[N][PIECE];

static void one_nic_is_driven_by_several_workers(void **state)
{
	struct te_engine *engine = rig_engine(four);
	uint64_t all = 0;

	(void)state;
	assert_int_equal(engine->n_workers, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_not_equal(engine->worker[i].mine, 0);
		assert_int_equal(all & engine->worker[i].mine, 0);
		all |= engine->worker[i].mine;
	}
	te_engine_destroy(engine);
}

static void there_are_not_endlessly_many(void **state)
{
	struct te_config *config;
	char error[256] = "";

	(void)state;
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(
		te_config_set(config, "workers", "17", error, sizeof(error)),
		-ERANGE);
	assert_non_null(strstr(error, "workers"));
	te_config_destroy(config);
}

static void words_of_workers(int level, const char *line, void *arg)
{
	(void)level;
	if (strstr(line, "engine: workers: 16 are asked for, "))
		*(int *)arg += 1;
}

/* Those that there is work for are used, and the log says so. */
static void more_workers_than_rails_are_told_of(void **state)
{
	const char *const many[] = {"workers", "16", "backends", "loop", NULL};
	struct te_engine *engine;
	int n_lines = 0;

	(void)state;
	te_log_set(words_of_workers, &n_lines);
	engine = rig_engine(many);
	te_log_set(NULL, NULL);
	assert_int_equal(engine->n_workers, 1);
	assert_int_equal(n_lines, 1);
	te_engine_destroy(engine);
}

static void note_lines(int level, const char *line, void *arg)
{
	int *seen = arg;

	seen[0] += strstr(line, "tcp data port") != NULL;
	seen[1] += strstr(line, "each device of tcp is opened once") != NULL;
	(void)level;
}

static bool is_free(uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is;

	assert_true(fd >= 0);
	is = !bind(fd, (struct sockaddr *)&at, sizeof(at));
	close(fd);
	return is;
}

/* Below the ports that Linux hands out, so that nobody is given it meanwhile. */
static uint16_t free_port(void)
{
	uint16_t port = (uint16_t)(20000 + getpid() % 10000);

	while (!is_free(port))
		port++;
	return port;
}

static void device_with_a_fixed_port_is_one_workers(void **state)
{
	char port[8];
	const char *const fixed[] = {"workers",  "4",  "backends", "tcp",
				     "tcp.port", port, NULL};
	struct te_engine *engine;
	int seen[2] = {0};

	(void)state;
	snprintf(port, sizeof(port), "%u", free_port());
	te_log_set(note_lines, seen);
	engine = rig_engine(fixed);
	te_log_set(NULL, NULL);
	assert_int_equal(engine->n_workers, 1);
	assert_int_equal(seen[0], 0); /* no error of a second listener */
	assert_int_equal(seen[1], 1);
	te_engine_destroy(engine);
}

static void write_all(struct te_engine *user, te_segment_id segment,
		      struct te_batch *batch)
{
	struct te_request requests[N];
	struct iovec pieces[N];
	uint32_t i;

	for (i = 0; i < N; i++) {
		pieces[i] = (struct iovec){local[i], PIECE};
		requests[i] =
			rig_request(segment, TE_WRITE, remote[i], &pieces[i]);
	}
	assert_int_equal(te_batch_submit(batch, requests, N), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	for (i = 0; i < N; i++) {
		struct te_completion end;

		assert_int_equal(te_batch_result(batch, i, &end), 0);
		assert_int_equal(end.error, 0);
	}
	(void)user;
}

static bool all_have_moved_slices(const struct te_engine *engine)
{
	for (uint32_t i = 0; i < engine->n_workers; i++)
		if (!atomic_load(&engine->worker[i].stats.slices))
			return false;
	return true;
}

/*
 * Several rounds: the first one finds out what the peer is reached by, and a
 * link that takes long to come up is not waited for.
 */
static void large_submission_goes_by_all_workers(void **state)
{
	struct te_engine *owner = rig_engine(four), *user = rig_engine(four);
	te_segment_id segment;
	struct te_batch *batch;

	(void)state;
	user->shares = true; /* on machines with few processors, too */
	rig_region(owner, remote, sizeof(remote), RIG_ANY);
	segment = rig_segment(user, owner);
	assert_int_equal(te_batch_create(user, N, &batch), 0);
	for (uint32_t round = 0; round < 4 || !all_have_moved_slices(user);
	     round++) {
		rig_fill(local[0], sizeof(local));
		local[0][0] = (uint8_t)round;
		write_all(user, segment, batch);
		assert_memory_equal(local, remote, sizeof(local));
		assert_int_equal(te_batch_reset(batch), 0);
	}
	te_batch_destroy(batch);
	te_engine_destroy(user);
	te_engine_destroy(owner);
}

/* Those that other workers have, too. */
static void batch_is_canceled_wherever_its_requests_are(void **state)
{
	struct te_engine *owner = rig_engine(four), *user = rig_engine(four);
	struct te_request requests[N];
	struct iovec pieces[N];
	te_segment_id segment;
	struct te_batch *batch;

	(void)state;
	rig_region(owner, remote, sizeof(remote), RIG_ANY);
	segment = rig_segment(user, owner);
	assert_int_equal(te_batch_create(user, N, &batch), 0);
	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < N; i++) {
			pieces[i] = (struct iovec){local[i], PIECE};
			requests[i] = rig_request(segment, TE_READ, remote[i],
						  &pieces[i]);
		}
		assert_int_equal(te_batch_submit(batch, requests, N), 0);
		assert_int_equal(te_batch_cancel(batch), 0);
		assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
		assert_int_equal(te_batch_reset(batch), 0);
	}
	te_batch_destroy(batch);
	te_engine_destroy(user);
	te_engine_destroy(owner);
}

/* ---- requests to the engine itself ---- */

static void *write_to_self(void *arg)
{
	struct te_engine *engine = arg;
	te_segment_id own = rig_segment(engine, engine);

	assert_int_equal(
		rig_move(engine, own, TE_WRITE, remote[0], local[0], PIECE), 0);
	return NULL;
}

/* Also from threads whose worker has no rail to the engine itself. */
static void engine_reaches_itself_from_every_thread(void **state)
{
	const char *const two[] = {"workers", "2", NULL};
	struct te_engine *engine = rig_engine(two);
	pthread_t thread;

	(void)state;
	assert_int_equal(engine->n_workers, 2);
	rig_fill(local[0], PIECE);
	for (uint32_t i = 0; i < 4; i++) {
		te_region_id id;

		memset(remote[0], 0, PIECE);
		id = rig_region(engine, remote[0], PIECE, RIG_ANY);
		assert_int_equal(
			pthread_create(&thread, NULL, write_to_self, engine),
			0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_memory_equal(local[0], remote[0], PIECE);
		assert_int_equal(te_region_remove(engine, id), 0);
	}
	te_engine_destroy(engine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eight_nics_on_two_nodes_have_two_workers),
		cmocka_unit_test(workers_have_as_many_rails_as_each_other),
		cmocka_unit_test(one_node_has_one_worker),
		cmocka_unit_test(rails_that_stage_have_one_worker),
		cmocka_unit_test(there_are_no_more_workers_than_rails),
		cmocka_unit_test(device_is_opened_often_enough_for_all_workers),
		cmocka_unit_test(thread_stays_at_a_node_that_has_processors),
		cmocka_unit_test(one_nic_is_driven_by_several_workers),
		cmocka_unit_test(there_are_not_endlessly_many),
		cmocka_unit_test(more_workers_than_rails_are_told_of),
		cmocka_unit_test(device_with_a_fixed_port_is_one_workers),
		cmocka_unit_test(large_submission_goes_by_all_workers),
		cmocka_unit_test(engine_reaches_itself_from_every_thread),
		cmocka_unit_test(batch_is_canceled_wherever_its_requests_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
