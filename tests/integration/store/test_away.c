/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_away.c - a master that stands still, is dead or cannot be reached
 *
 * TEST_AWAY=1 stops it for 30 s with the usual times; else for longer than
 * clients may be silent, which is short.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/integration/master/caller.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define MIB      (1024u * 1024u)
#define N_KEYS   64
#define END_MS   2000  /* within which a client closes */
#define SLACK_MS 20000 /* for machines that have other things to do */

static const char *const hurried[] = {"--client_ttl", "5s", NULL};
static const char *const usual[] = {NULL};

static uint64_t ms_since(uint64_t from_ns)
{
	return (tei_now_ns() - from_ns) / TEI_NS_PER_MS;
}

static void key_of(int i, char key[16])
{
	(void)snprintf(key, 16, "k/%d", i);
}

static void put_all(struct te_store *client)
{
	uint8_t bytes[64];
	char key[16];

	for (int i = 0; i < N_KEYS; i++) {
		key_of(i, key);
		pool_fill(bytes, sizeof(bytes), (uint64_t)i);
		assert_int_equal(pool_put(client, key, bytes, sizeof(bytes)),
				 0);
	}
}

static bool all_right(void *client)
{
	uint8_t bytes[64];
	char key[16];

	for (int i = 0; i < N_KEYS; i++) {
		key_of(i, key);
		if (pool_get(client, key, bytes, sizeof(bytes)) !=
		    sizeof(bytes))
			return false;
		assert_true(pool_is_filled(bytes, sizeof(bytes), (uint64_t)i));
	}
	return true;
}

/* ---- for a while ---- */

static bool is_over(void *until_ns)
{
	return tei_now_ns() >= *(const uint64_t *)until_ns;
}

/* All calls of a client while the master does not answer: they fail in time. */
static void call_in_vain(struct te_store *client, uint64_t until_ns)
{
	struct te_store_key key = pool_key("k/0");
	uint64_t from, worst = 0, n = 0;
	uint8_t room[64];
	int result;

	while (tei_now_ns() < until_ns) {
		from = tei_now_ns();
		assert_true(pool_get(client, "k/0", room, sizeof(room)) < 0);
		assert_true(pool_put(client, "new", "x", 1) < 0);
		assert_true(te_store_exist(client, &key, 1, &result) < 0);
		from = ms_since(from);
		worst = from > worst ? from : worst;
		n += 3;
	}
	print_message("%llu calls in vain, the worst three took %llu ms\n",
		      (unsigned long long)n, (unsigned long long)worst);
	assert_true(n > 0);
	assert_true(worst < 3 * 1000 + SLACK_MS);
}

/* Had anybody been expired his objects would have been dropped. */
static void a_master_that_stood_still_expires_nobody(void **state)
{
	bool real = getenv("TEST_AWAY") != NULL;
	struct test_process *owners[2];
	struct te_store *client, *hasty;
	struct master master;
	struct pool pool;
	uint64_t until;

	(void)state;
	master_start(&master, real ? usual : hurried);
	(void)snprintf(pool.address, sizeof(pool.address), "127.0.0.1:%u",
		       master.rpc);
	owners[0] = pool_owner(&pool, "4 MB");
	owners[1] = pool_owner(&pool, "4 MB");
	client = pool_client(&pool, MIB);
	hasty = pool_hasty_client(&pool, 0, 1000, 1000);
	pool_await_capacity(client, 9 * MIB);
	put_all(client);
	assert_true(test_wait_until(all_right, hasty, POOL_START_MS));
	test_process_signal(master.process, SIGSTOP);
	until = tei_now_ns() + (real ? 30 : 8) * TEI_NS_PER_S;
	call_in_vain(hasty, until);
	assert_true(test_wait_until(is_over, &until, POOL_START_MS));
	test_process_signal(master.process, SIGCONT);
	until = tei_now_ns();
	assert_true(test_wait_until(all_right, client, POOL_START_MS));
	print_message("all is there after %llu ms\n",
		      (unsigned long long)ms_since(until));
	pool_await_capacity(client, 9 * MIB);
	assert_int_equal(master_metric(&master, "te_master_dropped_key_count"),
			 0);
	assert_int_equal(pool_put(client, "new", "x", 1), 0);
	te_store_close(hasty);
	te_store_close(client);
	test_process_end(owners[0]);
	test_process_end(owners[1]);
	master_stop(&master);
}

/* ---- for good ---- */

enum away { STOPPED, KILLED };

static void lose_master(struct pool *pool, enum away how)
{
	if (how == KILLED)
		pool_kill(pool);
	else
		test_process_signal(pool->master, SIGSTOP);
}

static void close_in_time(struct te_store *store, const char *what)
{
	uint64_t from = tei_now_ns();

	te_store_close(store);
	print_message("%s: closed in %llu ms\n", what,
		      (unsigned long long)ms_since(from));
	assert_true(ms_since(from) <= END_MS + SLACK_MS);
}

static void an_owner_of_many_segments_closes_in_time(enum away how)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	struct te_store *store;
	struct pool pool;

	pool_start(&pool, NULL);
	store = pool_client(&pool, MIB);
	for (int i = 0; i < 8; i++)
		assert_int_equal(te_store_mount(store, MIB, id), 0);
	put_all(store);
	lose_master(&pool, how);
	close_in_time(store, "nine segments");
	if (how == STOPPED)
		test_process_signal(pool.master, SIGCONT);
	pool_stop(&pool);
}

static void with_segments_and_the_master_stopped(void **state)
{
	(void)state;
	an_owner_of_many_segments_closes_in_time(STOPPED);
}

static void with_segments_and_the_master_dead(void **state)
{
	(void)state;
	an_owner_of_many_segments_closes_in_time(KILLED);
}

/* Puts that were begun, and will never end. */
static void a_writer_closes_in_time(enum away how)
{
	const struct te_store_key key = pool_key("half");
	const uint64_t size = MIB;
	struct test_process *owner;
	struct te_store *store;
	struct pool pool;
	int result;

	pool_start(&pool, NULL);
	owner = pool_owner(&pool, "4 MB");
	store = pool_client(&pool, 0);
	pool_await_capacity(store, 4 * MIB);
	assert_int_equal(
		te_store_put_open(store, &key, &size, 1, NULL, &result), 0);
	lose_master(&pool, how);
	close_in_time(store, "half a put");
	if (how == STOPPED)
		test_process_signal(pool.master, SIGCONT);
	test_process_end(owner);
	pool_stop(&pool);
}

static void with_puts_and_the_master_stopped(void **state)
{
	(void)state;
	a_writer_closes_in_time(STOPPED);
}

static void with_puts_and_the_master_dead(void **state)
{
	(void)state;
	a_writer_closes_in_time(KILLED);
}

/* ---- from the beginning ---- */

static void try_to_join(const char *master)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.setup_timeout_ms = 1000,
		.master = master,
		.segment_bytes = MIB,
	};
	struct te_store_config later = config;
	struct te_store *store = NULL;
	uint64_t from = tei_now_ns();

	assert_int_equal(te_store_setup(&config, &store), -900);
	assert_null(store);
	print_message("not joined after %llu ms\n",
		      (unsigned long long)ms_since(from));
	assert_true(ms_since(from) <= 1000 + END_MS + SLACK_MS);
	later.setup_timeout_ms = TE_STORE_NO_WAIT;
	assert_int_equal(te_store_setup(&later, &store), 0);
	assert_int_equal(pool_put(store, "a", "x", 1), -900);
	close_in_time(store, "never joined");
}

static void a_master_that_stands_still_is_not_waited_for(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, NULL);
	test_process_signal(pool.master, SIGSTOP);
	try_to_join(pool.address);
	test_process_signal(pool.master, SIGCONT);
	pool_stop(&pool);
}

#define N_CONNECTS 8

/* A port that takes no more connections: what is sent there is lost. */
static void one_that_cannot_be_reached_is_not_either(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), fds[N_CONNECTS];
	socklen_t len = sizeof(at);
	char name[32];

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(fd, 0), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	for (int i = 0; i < N_CONNECTS; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		assert_true(fds[i] >= 0);
		(void)connect(fds[i], (struct sockaddr *)&at, len);
	}
	(void)snprintf(name, sizeof(name), "127.0.0.1:%u", ntohs(at.sin_port));
	try_to_join(name);
	for (int i = 0; i < N_CONNECTS; i++)
		close(fds[i]);
	close(fd);
}

/* ---- a main connection that is full ---- */

struct load {
	pthread_t threads[4];
	struct te_store *store;
	uint64_t until_ns;
};

#define N_ASKED 4096

static void *ask_much(void *arg)
{
	struct te_store_key *keys = calloc(N_ASKED, sizeof(*keys));
	int *results = calloc(N_ASKED, sizeof(*results));
	struct load *load = arg;
	static const char bytes[256];

	if (!keys || !results)
		abort();
	for (int i = 0; i < N_ASKED; i++)
		keys[i] = (struct te_store_key){.bytes = bytes, .len = 256};
	while (tei_now_ns() < load->until_ns)
		(void)te_store_exist(load->store, keys, N_ASKED, results);
	free(keys);
	free(results);
	return NULL;
}

/* For longer than it may be silent: its heartbeats go another way. */
static void an_owner_whose_calls_are_many_is_not_silent(void **state)
{
	struct te_store_key key = pool_key("k/0");
	struct te_store *client;
	struct load load;
	struct pool pool;
	int n_missed = 0;

	(void)state;
	pool_start(&pool, NULL);
	load.store = pool_client(&pool, MIB);
	client = pool_client(&pool, 0);
	put_all(client);
	load.until_ns = tei_now_ns() + 5 * TEI_NS_PER_S;
	for (int i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&load.threads[i], NULL, ask_much, &load),
			0);
	while (tei_now_ns() < load.until_ns) {
		int result = -1;

		(void)te_store_exist(client, &key, 1, &result);
		n_missed += result != 1;
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(load.threads[i], NULL), 0);
	assert_int_equal(n_missed, 0);
	te_store_close(client);
	te_store_close(load.store);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_master_that_stood_still_expires_nobody),
		cmocka_unit_test(with_segments_and_the_master_stopped),
		cmocka_unit_test(with_segments_and_the_master_dead),
		cmocka_unit_test(with_puts_and_the_master_stopped),
		cmocka_unit_test(with_puts_and_the_master_dead),
		cmocka_unit_test(a_master_that_stands_still_is_not_waited_for),
		cmocka_unit_test(one_that_cannot_be_reached_is_not_either),
		cmocka_unit_test(an_owner_whose_calls_are_many_is_not_silent),
	};

	setenv("TE_BACKENDS", "loop,tcp", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
