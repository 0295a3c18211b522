/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_dummy.c - clients without an engine, and the daemon that serves them
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "store/proto/agent.h"
#include "tests/integration/store/daemon.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define END_MS  DAEMON_END_MS
#define MIB     (1u << 20)
#define N_KILLS 20

static void greet_badly(const struct daemon *d)
{
	static const uint8_t zeros[TES_GREETING_LEN];
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_true(strlen(d->socket) < sizeof(un.sun_path));
	memcpy(un.sun_path, d->socket, strlen(d->socket) + 1);
	assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(send(fd, zeros, sizeof(zeros), 0), sizeof(zeros));
	(void)close(fd);
}

/* ---- what it can do ---- */

static void values_go_from_and_to_any_memory(void **state)
{
	static const size_t sizes[] = {1, 4095, 4096, 65536, 3 * MIB + 7};
	struct te_store *store;
	uint8_t *shared[2], *own[2];
	struct daemon d = {.http = 0};

	(void)state;
	daemon_start(&d);
	store = daemon_dummy(&d, END_MS);
	for (int i = 0; i < 2; i++) {
		shared[i] = te_store_pool_alloc(store, 4 * MIB);
		own[i] = malloc(4 * MIB);
		assert_true(shared[i] && own[i]);
	}
	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		daemon_put_and_get(store, shared[0], shared[1], sizes[i]);
		daemon_put_and_get(store, shared[0], own[1], sizes[i]);
		daemon_put_and_get(store, own[0], shared[1], sizes[i]);
		daemon_put_and_get(store, own[0], own[1], sizes[i]);
	}
	assert_null(te_store_pool_alloc(store, DAEMON_POOL));
	assert_int_equal(te_store_pool_free(store, shared[0] + 1), -600);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(te_store_pool_free(store, shared[i]), 0);
		free(own[i]);
	}
	assert_non_null(te_store_pool_alloc(store, DAEMON_POOL));
	te_store_close(store);
	daemon_await(&d, "te_agent_memory_bytes 0\n");
	daemon_stop(&d);
}

static void values_larger_than_what_is_copied_through(void **state)
{
	const size_t len = 66u * MIB;
	uint8_t *bytes = malloc(len);
	struct te_store *store;
	struct daemon d = {.http = 0};

	(void)state;
	daemon_start(&d);
	store = daemon_dummy(&d, END_MS);
	assert_non_null(bytes);
	memset(bytes, 1, len);
	assert_int_equal(pool_put(store, "large", bytes, len),
			 TE_STORE_NO_AVAILABLE_HANDLE);
	assert_int_equal(pool_get(store, "large", bytes, len),
			 TE_STORE_INVALID_PARAMS);
	free(bytes);
	te_store_close(store);
	daemon_stop(&d);
}

#define N_MANY 300

static void many_keys_in_a_call(void **state)
{
	static char names[N_MANY][16];
	struct te_store_key keys[N_MANY];
	struct te_store_value values[N_MANY];
	struct te_store_buffer *buffers[N_MANY];
	struct iovec pieces[N_MANY][2];
	int64_t wide[N_MANY];
	int results[N_MANY];
	const size_t half = 128 * 1024;
	uint8_t *bytes = malloc(2 * half * N_MANY);
	struct te_store *store;
	struct daemon d = {.http = 0};
	size_t i;

	(void)state;
	daemon_start(&d);
	store = daemon_dummy(&d, END_MS);
	assert_non_null(bytes);
	for (i = 0; i < N_MANY; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "many-%zu", i);
		keys[i] = (struct te_store_key){
			.bytes = names[i], .len = (uint32_t)strlen(names[i])};
		pieces[i][0] = (struct iovec){bytes + 2 * half * i, half};
		pieces[i][1] =
			(struct iovec){bytes + 2 * half * i + half, half};
		values[i] = (struct te_store_value){.pieces = pieces[i],
						    .n_pieces = 2};
		pool_fill(bytes + 2 * half * i, 2 * half, 1000 + i);
	}
	keys[7].len = 0;
	values[8].n_pieces = 0;
	assert_int_equal(
		te_store_put(store, keys, values, N_MANY, NULL, results), -600);
	for (i = 0; i < N_MANY; i++)
		assert_int_equal(results[i], i == 7 || i == 8 ? -600 : 0);
	assert_int_equal(te_store_exist(store, keys, N_MANY, results), -600);
	assert_int_equal(results[6], 1);
	assert_int_equal(results[8], 0);
	(void)te_store_size(store, keys, N_MANY, wide);
	assert_int_equal(wide[6], 2 * half);
	assert_int_equal(wide[8], -704);
	memset(bytes, 0, 2 * half * N_MANY);
	assert_int_equal(te_store_get(store, keys, values, N_MANY, wide),
			 N_MANY - 2);
	assert_int_equal(
		te_store_get_buffers(store, keys, N_MANY, buffers, wide),
		N_MANY - 2);
	for (i = 0; i < N_MANY; i++) {
		bool there = i != 7 && i != 8;

		assert_int_equal(wide[i] == 2 * half, there);
		assert_int_equal(buffers[i] != NULL, there);
		if (!there)
			continue;
		assert_true(pool_is_filled(bytes + 2 * half * i, 2 * half,
					   1000 + i));
		assert_true(pool_is_filled(te_store_buffer_data(buffers[i]),
					   2 * half, 1000 + i));
		te_store_buffer_free(buffers[i]);
	}
	(void)te_store_remove(store, keys, N_MANY, 1, results);
	assert_int_equal(results[6], 0);
	assert_int_equal(results[8], -704);
	free(bytes);
	te_store_close(store);
	daemon_stop(&d);
}

static void parts_of_values(void **state)
{
	const struct te_store_key keys[2] = {{.bytes = "one", .len = 3},
					     {.bytes = "none", .len = 4}};
	struct te_store_range ranges[4];
	struct te_store *store;
	uint8_t *shared, whole[10000], part[3000];
	int64_t results[4];
	struct daemon d = {.http = 0};

	(void)state;
	daemon_start(&d);
	store = daemon_dummy(&d, END_MS);
	shared = te_store_pool_alloc(store, sizeof(part));
	assert_non_null(shared);
	pool_fill(whole, sizeof(whole), 5);
	assert_int_equal(pool_put(store, "one", whole, sizeof(whole)), 0);
	memset(ranges, 0, sizeof(ranges));
	ranges[0] = (struct te_store_range){
		.key = 0, .offset = 7000, .addr = part, .length = 3000};
	ranges[1] =
		(struct te_store_range){.key = 1, .addr = part, .length = 1};
	ranges[2] = (struct te_store_range){
		.key = 0, .offset = 1, .addr = shared, .length = 2999};
	ranges[3] =
		(struct te_store_range){.key = 9, .addr = part, .length = 1};
	assert_int_equal(
		te_store_get_ranges(store, keys, 2, ranges, 4, results), 2);
	assert_int_equal(results[0], 3000);
	assert_int_equal(results[1], -704);
	assert_int_equal(results[2], 2999);
	assert_int_equal(results[3], -600);
	assert_memory_equal(part, whole + 7000, 3000);
	assert_memory_equal(shared, whole + 1, 2999);
	te_store_close(store);
	daemon_stop(&d);
}

static void how_values_are_kept_reaches_the_master(void **state)
{
	const char *preferred[] = {"127.0.0.1:1"}, *groups[] = {"g"};
	const struct te_store_key key = {.bytes = "kept", .len = 4};
	struct iovec piece = {(void *)(uintptr_t) "bytes", 5};
	const struct te_store_value value = {.pieces = &piece, .n_pieces = 1};
	struct te_store_replicate how = {
		.size = sizeof(how),
		.replica_num = 1,
		.flags = TE_STORE_HARD_PIN,
		.preferred_segments = preferred,
		.n_preferred_segments = 1,
		.group_ids = groups,
		.n_group_ids = 1,
	};
	struct te_store *store;
	struct daemon d = {.http = 0};
	int result = 1;

	(void)state;
	daemon_start(&d);
	store = daemon_dummy(&d, END_MS);
	assert_int_equal(te_store_put(store, &key, &value, 1, &how, &result),
			 0);
	assert_int_equal(result, 0);
	how.replica_num = 0;
	result = 1;
	assert_int_equal(te_store_put(store, &key, &value, 1, &how, &result),
			 -600);
	assert_int_equal(result, 1);
	te_store_close(store);
	daemon_stop(&d);
}

static void objects_are_replaced_found_and_removed(void **state)
{
	const struct te_store_key keys[2] = {{.bytes = "it", .len = 2},
					     {.bytes = "none", .len = 4}};
	struct te_store_replica replicas[2];
	struct te_store *store;
	uint8_t bytes[1000];
	struct iovec piece = {bytes, sizeof(bytes)};
	const struct te_store_value value = {.pieces = &piece, .n_pieces = 1};
	int result = 1, results[2];
	uint64_t removed = 0;
	struct daemon d = {.http = 0};
	size_t n = 2;

	(void)state;
	daemon_start(&d);
	store = daemon_dummy(&d, END_MS);
	pool_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(pool_put(store, "it", bytes, sizeof(bytes)), 0);
	pool_fill(bytes, sizeof(bytes), 2);
	(void)te_store_upsert(store, keys, &value, 1, NULL, &result);
	assert_int_equal(result, 0);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(pool_get(store, "it", bytes, sizeof(bytes)), 1000);
	assert_true(pool_is_filled(bytes, sizeof(bytes), 2));
	assert_int_equal(
		te_store_replicas(store, keys, 2, results, replicas, &n), 1);
	assert_int_equal(n, 1);
	assert_int_equal(results[0], 1);
	assert_int_equal(results[1], -704);
	assert_string_equal(replicas[0].segment, te_store_hostname(store));
	assert_int_equal(replicas[0].size, 1000);
	assert_int_equal(te_store_remove_matching(store, "(", 1, &removed),
			 -600);
	assert_int_equal(te_store_remove_matching(store, "^no", 1, &removed),
			 0);
	assert_int_equal(removed, 0);
	assert_int_equal(te_store_remove_all(store, 1, &removed), 0);
	assert_int_equal(removed, 1);
	assert_int_equal(pool_get(store, "it", bytes, sizeof(bytes)), -704);
	te_store_close(store);
	daemon_stop(&d);
}

static void figures_are_those_of_the_daemon_and_the_pool(void **state)
{
	struct te_store_pool pool;
	struct te_store *store;
	char text[4096];
	struct daemon d = {.http = 0};

	(void)state;
	daemon_start(&d);
	store = daemon_dummy(&d, END_MS);
	assert_int_equal(te_store_health(store), 0);
	assert_non_null(strstr(te_store_hostname(store), "127.0.0.1:"));
	assert_null(te_store_engine(store));
	assert_int_equal(te_store_pool(store, &pool), 0);
	assert_int_equal(pool.capacity_bytes, 256 * MIB);
	daemon_http(&d, "/health", text, sizeof(text));
	assert_non_null(strstr(text, " 200 "));
	daemon_http(&d, "/metrics/summary", text, sizeof(text));
	assert_non_null(strstr(text, "Dummies: 1"));
	greet_badly(&d);
	daemon_await(&d, "te_agent_refused_total{reason=\"bad_greeting\"} 1");
	te_store_close(store);
	daemon_stop(&d);
}

/* ---- who dies ---- */

static void kill_one(const struct daemon *d, const char *what, int id)
{
	char text[16];
	const char *const args[] = {d->socket, what, text, "4194304", NULL};
	struct test_process *p;

	(void)snprintf(text, sizeof(text), "%d", id);
	p = test_process_start("store_dummy", args);
	/* Calls follow each other without a pause: it dies inside of one. */
	for (int i = 0; i <= id % 5; i++)
		assert_non_null(test_process_line(p, "round", POOL_START_MS));
	test_process_signal(p, SIGKILL);
	test_process_end(p);
}

/* Whatever the dead have put is whole or not there. */
static void check_keys(struct te_store *store, uint8_t *room, int id)
{
	for (int i = 0; i < 4; i++) {
		char key[64];
		int64_t len;

		(void)snprintf(key, sizeof(key), "dummy-%d-%d", id, i);
		len = pool_get(store, key, room, 4 * MIB);
		assert_true(len == -704 || len == 4 * MIB);
		if (len > 0)
			assert_true(
				pool_is_filled(room, 4 * MIB, (uint64_t)id));
	}
}

static void nothing_is_left_of_dummies_that_are_killed(void **state)
{
	struct te_store *store;
	struct daemon d = {.http = 0};
	uint8_t *room;

	(void)state;
	daemon_start(&d);
	store = daemon_dummy(&d, END_MS);
	room = te_store_pool_alloc(store, 4 * MIB);
	assert_non_null(room);
	pool_fill(room, 4 * MIB, 1);
	assert_int_equal(pool_put(store, "common", room, 4 * MIB), 0);
	for (int i = 0; i < N_KILLS; i++)
		kill_one(&d, i % 2 ? "get" : "put", 10 + i);
	daemon_await(&d, "te_agent_dummies 1\n");
	daemon_await(&d, "te_agent_waiting_bytes 0\n");
	for (int i = 0; i < N_KILLS; i += 2)
		check_keys(store, room, 10 + i);
	assert_int_equal(pool_get(store, "common", room, 4 * MIB), 4 * MIB);
	assert_true(pool_is_filled(room, 4 * MIB, 1));
	te_store_close(store);
	daemon_await(&d, "te_agent_memory_bytes 0\n");
	daemon_stop(&d);
}

static bool is_well(void *arg)
{
	return te_store_health(arg) == 0;
}

static void a_daemon_that_dies_is_noticed_and_its_heir_found(void **state)
{
	struct te_store *store;
	uint8_t *shared;
	struct daemon d = {.http = 0};

	(void)state;
	daemon_start(&d);
	store = daemon_dummy(&d, END_MS);
	shared = te_store_pool_alloc(store, MIB);
	assert_non_null(shared);
	daemon_put_and_get(store, shared, shared, MIB);
	test_process_signal(d.process, SIGKILL);
	test_process_end(d.process);
	assert_int_equal(pool_put(store, "gone", shared, MIB), -900);
	assert_int_equal(pool_get(store, "gone", shared, MIB), -900);
	assert_int_equal(te_store_health(store), -900);
	daemon_again(&d);
	assert_true(test_wait_until(is_well, store, END_MS));
	daemon_put_and_get(store, shared, shared, MIB);
	te_store_close(store);
	daemon_stop(&d);
}

static void a_daemon_that_stands_still_has_no_hand_on_our_memory(void **state)
{
	struct te_store *store, *patient;
	uint8_t *shared, *own;
	struct daemon d = {.http = 0};

	(void)state;
	daemon_start(&d);
	patient = daemon_dummy(&d, END_MS);
	store = daemon_dummy(&d, 200);
	shared = te_store_pool_alloc(store, 2 * MIB);
	own = malloc(MIB);
	assert_true(shared && own);
	pool_fill(own, MIB, 77);
	assert_int_equal(pool_put(patient, "still", own, MIB), 0);
	test_process_signal(d.process, SIGSTOP);
	assert_int_equal(pool_get(store, "still", shared, MIB), -901);
	assert_int_equal(pool_get(store, "still", own, MIB), -901);
	pool_fill(shared, 2 * MIB, 78);
	pool_fill(own, MIB, 79);
	test_process_signal(d.process, SIGCONT);
	assert_true(test_wait_until(is_well, store, END_MS));
	/* By then the daemon has done all that it had been asked for. */
	daemon_await(&d, "te_agent_waiting_bytes 0\n");
	assert_true(pool_is_filled(shared, 2 * MIB, 78));
	assert_true(pool_is_filled(own, MIB, 79));
	/* What was replaced still does. */
	assert_int_equal(pool_get(patient, "still", own, MIB), MIB);
	assert_int_equal(pool_put(patient, "again", own, MIB), 0);
	assert_true(pool_is_filled(own, MIB, 77));
	te_store_close(store);
	te_store_close(patient);
	free(own);
	daemon_stop(&d);
}

static void a_daemon_that_is_told_ends_though_dummies_are_there(void **state)
{
	struct te_store *store;
	struct daemon d = {.http = 0};

	(void)state;
	daemon_start(&d);
	store = daemon_dummy(&d, END_MS);
	test_process_signal(d.process, SIGTERM);
	assert_int_equal(test_process_wait(d.process, END_MS), 0);
	assert_int_not_equal(access(d.socket, F_OK), 0);
	assert_int_equal(te_store_health(store), -900);
	te_store_close(store);
	daemon_stop(&d);
}

static void two_daemons_do_not_share_a_socket(void **state)
{
	struct test_process *other;
	struct daemon d = {.http = 0};
	const char *args[] = {"--port",
			      "0",
			      "--master_server_address",
			      NULL,
			      "--global_segment_size",
			      "1MB",
			      "--socket_path",
			      NULL,
			      NULL};

	(void)state;
	daemon_start(&d);
	args[3] = d.pool.address;
	args[7] = d.socket;
	other = test_process_start("mooncake_client", args);
	assert_int_equal(test_process_wait(other, END_MS), 2);
	assert_non_null(strstr(test_process_output(other), d.socket));
	test_process_end(other);
	te_store_close(daemon_dummy(&d, END_MS));
	daemon_stop(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_go_from_and_to_any_memory),
		cmocka_unit_test(values_larger_than_what_is_copied_through),
		cmocka_unit_test(many_keys_in_a_call),
		cmocka_unit_test(parts_of_values),
		cmocka_unit_test(how_values_are_kept_reaches_the_master),
		cmocka_unit_test(objects_are_replaced_found_and_removed),
		cmocka_unit_test(figures_are_those_of_the_daemon_and_the_pool),
		cmocka_unit_test(nothing_is_left_of_dummies_that_are_killed),
		cmocka_unit_test(
			a_daemon_that_dies_is_noticed_and_its_heir_found),
		cmocka_unit_test(
			a_daemon_that_stands_still_has_no_hand_on_our_memory),
		cmocka_unit_test(
			a_daemon_that_is_told_ends_though_dummies_are_there),
		cmocka_unit_test(two_daemons_do_not_share_a_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
