/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mounts.c - segments that are lent and taken back while the pool runs
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/integration/master/caller.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define MIB 1048576u

static int set_up(void **state)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	assert_non_null(pool);
	pool_start(pool, pool_patient);
	*state = pool;
	return 0;
}

static int tear_down(void **state)
{
	pool_stop(*state);
	free(*state);
	return 0;
}

static void segments_come_and_go(void **state)
{
	uint8_t first[TE_STORE_SEGMENT_ID_LEN], second[TE_STORE_SEGMENT_ID_LEN];
	struct te_store *store = pool_client(*state, 0);
	uint8_t bytes[5000], room[5000];

	pool_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(pool_put(store, "a", bytes, sizeof(bytes)), -200);
	assert_int_equal(te_store_mount(store, MIB, first), 0);
	assert_int_equal(pool_capacity(store), MIB);
	assert_int_equal(pool_put(store, "a", bytes, sizeof(bytes)), 0);
	assert_int_equal(te_store_mount(store, 2 * MIB, second), 0);
	assert_int_equal(pool_capacity(store), 3 * MIB);
	assert_int_equal(pool_get(store, "a", room, sizeof(room)), 5000);
	assert_memory_equal(room, bytes, sizeof(room));
	/* What lies in the one that goes is gone, and only that. */
	assert_int_equal(te_store_unmount(store, first, 0), 0);
	pool_await_capacity(store, 2 * MIB);
	assert_int_equal(pool_get(store, "a", room, sizeof(room)), -704);
	assert_int_equal(pool_put(store, "b", bytes, sizeof(bytes)), 0);
	assert_int_equal(pool_get(store, "b", room, sizeof(room)), 5000);
	assert_int_equal(te_store_unmount(store, first, 0), -101);
	assert_int_equal(te_store_unmount(store, second, 0), 0);
	pool_await_capacity(store, 0);
	assert_int_equal(te_store_health(store), 0);
	te_store_close(store);
}

static void mistakes_mount_nothing(void **state)
{
	struct te_store *store = pool_client(*state, 0);
	uint8_t id[TE_STORE_SEGMENT_ID_LEN] = {1};

	assert_int_equal(te_store_mount(store, 0, id), -600);
	assert_int_equal(te_store_mount(store, 100, id), -600);
	assert_int_equal(te_store_mount(store, UINT64_MAX, id), -600);
	assert_int_equal(te_store_mount(NULL, MIB, id), -600);
	assert_int_equal(te_store_mount(store, MIB, NULL), -600);
	assert_int_equal(te_store_unmount(store, id, 0), -101);
	assert_int_equal(te_store_unmount(store, id, 1), -101);
	assert_int_equal(te_store_unmount(store, id, UINT64_MAX), -600);
	assert_int_equal(te_store_unmount(store, NULL, 0), -600);
	assert_int_equal(pool_capacity(store), 0);
	te_store_close(store);
}

/* ---- files ---- */

static void make_file(char *path, size_t room, const char *dir, size_t bytes)
{
	int fd;

	(void)snprintf(path, room, "%s/segment", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(close(fd), 0);
}

static void part_of_a_file_can_be_lent(void **state)
{
	struct te_store *store = pool_client(*state, 0);
	uint8_t one[TE_STORE_SEGMENT_ID_LEN], two[TE_STORE_SEGMENT_ID_LEN];
	uint8_t bytes[5000], room[5000];
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];

	test_tmpdir_create(dir);
	make_file(path, sizeof(path), dir, 3 * MIB);
	pool_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(te_store_mount_shared(store, path, MIB, MIB, one), 0);
	assert_int_equal(pool_capacity(store), MIB);
	assert_int_equal(pool_put(store, "f", bytes, sizeof(bytes)), 0);
	assert_int_equal(pool_get(store, "f", room, sizeof(room)), 5000);
	assert_memory_equal(room, bytes, sizeof(room));
	/* Not twice, nor a part of it; its neighbour may be lent. */
	assert_int_equal(te_store_mount_shared(store, path, MIB, MIB, two),
			 -600);
	assert_int_equal(te_store_mount_shared(store, path, 0, 2 * MIB, two),
			 -600);
	assert_int_equal(te_store_mount_shared(store, path, 0, MIB, two), 0);
	assert_int_equal(pool_capacity(store), 2 * MIB);
	assert_int_equal(te_store_unmount(store, one, 0), 0);
	pool_await_capacity(store, MIB);
	assert_int_equal(te_store_mount_shared(store, path, MIB, MIB, one), 0);
	te_store_close(store);
	test_tmpdir_remove(dir);
}

static void files_that_do_not_fit_are_refused(void **state)
{
	struct te_store *store = pool_client(*state, 0);
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];

	test_tmpdir_create(dir);
	make_file(path, sizeof(path), dir, MIB);
	assert_int_equal(te_store_mount_shared(store, path, 0, 2 * MIB, id),
			 -600);
	assert_int_equal(te_store_mount_shared(store, path, 4096, MIB, id),
			 -600);
	assert_int_equal(te_store_mount_shared(store, path, 2 * MIB, MIB, id),
			 -600);
	assert_int_equal(te_store_mount_shared(store, path, 100, 4096, id),
			 -600);
	assert_int_equal(te_store_mount_shared(store, path, 0, 5000, id), -600);
	assert_int_equal(
		te_store_mount_shared(store, path, UINT64_MAX - 4095, 4096, id),
		-600);
	assert_int_equal(te_store_mount_shared(store, dir, 0, 4096, id), -600);
	assert_int_equal(
		te_store_mount_shared(store, "/nonexistent", 0, 4096, id),
		-600);
	assert_int_equal(te_store_mount_shared(store, NULL, 0, 4096, id), -600);
	assert_int_equal(pool_capacity(store), 0);
	te_store_close(store);
	test_tmpdir_remove(dir);
}

/* ---- masters that are away ---- */

static bool healthy(void *arg)
{
	return te_store_health(arg) == 0;
}

static bool unhealthy(void *arg)
{
	return te_store_health(arg) != 0;
}

static void all_are_mounted_again_at_a_new_master(void **state)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	struct te_store *store;
	struct pool pool;

	(void)state;
	pool_start(&pool, pool_patient);
	store = pool_client(&pool, MIB);
	assert_int_equal(te_store_mount(store, 2 * MIB, id), 0);
	pool_kill(&pool);
	assert_true(test_wait_until(unhealthy, store, POOL_START_MS));
	pool_restart(&pool, pool_patient);
	assert_true(test_wait_until(healthy, store, POOL_START_MS));
	assert_int_equal(pool_capacity(store), 3 * MIB);
	assert_int_equal(te_store_unmount(store, id, 0), 0);
	pool_await_capacity(store, MIB);
	te_store_close(store);
	pool_stop(&pool);
}

static bool lends_one_more(void *store)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];

	return te_store_mount(store, 4096, id) == 0;
}

static void a_store_lends_as_many_segments_as_it_may(void **state)
{
	struct te_store *store = pool_client(*state, MIB);
	uint8_t first[TE_STORE_SEGMENT_ID_LEN], id[TE_STORE_SEGMENT_ID_LEN];
	int code, n = 1;

	assert_int_equal(te_store_mount(store, 4096, first), 0);
	while ((code = te_store_mount(store, 4096, id)) == 0)
		assert_true(++n < 4096);
	assert_int_equal(n, 255);
	assert_int_equal(code, -1010);
	assert_int_equal(te_store_health(store), 0);
	assert_int_equal(te_store_unmount(store, first, 0), 0);
	/* Its place is free when the master has dropped what was there. */
	assert_true(test_wait_until(lends_one_more, store, POOL_START_MS));
	te_store_close(store);
}

static void what_left_meanwhile_is_unmounted_later(void **state)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN], other[TE_STORE_SEGMENT_ID_LEN];
	struct te_store *store, *witness;
	struct pool *pool = *state;

	store = pool_hasty_client(pool, MIB, 1000, 1000);
	witness = pool_client(pool, 0);
	while (te_store_mount(store, 2 * MIB, id)) /* it is hasty */
		;
	pool_await_capacity(witness, 3 * MIB);
	test_process_signal(pool->master, SIGSTOP);
	assert_int_equal(te_store_unmount(store, id, 0), 0);
	assert_int_equal(te_store_unmount(store, id, 0), -101);
	assert_int_equal(te_store_mount(store, MIB, other), -900);
	test_process_signal(pool->master, SIGCONT);
	pool_await_capacity(witness, MIB);
	te_store_close(store);
	te_store_close(witness);
}

static void a_segment_is_read_until_its_grace_is_over(void **state)
{
	uint8_t first[TE_STORE_SEGMENT_ID_LEN], second[TE_STORE_SEGMENT_ID_LEN];
	struct te_store *store = pool_client(*state, 0);
	uint8_t bytes[5000], room[5000];

	pool_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(te_store_mount(store, MIB, first), 0);
	assert_int_equal(pool_put(store, "a", bytes, sizeof(bytes)), 0);
	assert_int_equal(te_store_unmount(store, first, 3600000), 0);
	assert_int_equal(pool_put(store, "b", bytes, sizeof(bytes)), -200);
	assert_int_equal(te_store_mount(store, MIB, second), 0);
	assert_int_equal(pool_put(store, "b", bytes, sizeof(bytes)), 0);
	assert_int_equal(pool_get(store, "a", room, sizeof(room)), 5000);
	assert_memory_equal(room, bytes, sizeof(room));
	assert_int_equal(te_store_unmount(store, first, 3600000), 0);
	/* Shorter than before: it goes without a further word. */
	assert_int_equal(te_store_unmount(store, first, 1), 0);
	pool_await_capacity(store, MIB);
	assert_int_equal(pool_get(store, "a", room, sizeof(room)), -704);
	assert_int_equal(pool_get(store, "b", room, sizeof(room)), 5000);
	assert_int_equal(te_store_unmount(store, second, 3600000), 0);
	assert_int_equal(te_store_unmount(store, second, 0), 0);
	pool_await_capacity(store, 0);
	assert_int_equal(te_store_unmount(store, second, 0), -101);
	te_store_close(store);
}

static void a_new_master_hears_of_a_grace(void **state)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	struct te_store *store;
	struct pool pool;

	(void)state;
	pool_start(&pool, pool_patient);
	store = pool_client(&pool, 0);
	assert_int_equal(te_store_mount(store, MIB, id), 0);
	assert_int_equal(te_store_unmount(store, id, 3600000), 0);
	pool_kill(&pool);
	assert_true(test_wait_until(unhealthy, store, POOL_START_MS));
	pool_restart(&pool, pool_patient);
	pool_await_capacity(store, MIB);
	assert_true(test_wait_until(healthy, store, POOL_START_MS));
	assert_int_equal(pool_put(store, "a", "a", 1), -200);
	assert_int_equal(te_store_unmount(store, id, 1), 0);
	pool_await_capacity(store, 0);
	te_store_close(store);
	pool_stop(&pool);
}

static void a_store_closes_while_the_master_stands_still(void **state)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	struct te_store *store;
	struct pool *pool = *state;

	store = pool_client(pool, MIB);
	assert_int_equal(te_store_mount(store, MIB, id), 0);
	test_process_signal(pool->master, SIGSTOP);
	te_store_close(store);
	test_process_signal(pool->master, SIGCONT);
}

/* ---- names of owners ---- */

static struct master raw_master(const struct pool *pool)
{
	static const char line[] = "HTTP metrics server started on port ";
	const char *http = strstr(test_process_output(pool->master), line);

	assert_non_null(http);
	return (struct master){
		.rpc = (uint16_t)atoi(strchr(pool->address, ':') + 1),
		.http = (uint16_t)atoi(http + strlen(line))};
}

/* Where half of the memory is not there, half of them fail. */
static void put_some(struct te_store *store, int round)
{
	char key[32];

	for (int i = 0; i < 60; i++) {
		(void)snprintf(key, sizeof(key), "k%d-%d", round, i);
		assert_int_equal(pool_put(store, key, "v", 1), 0);
	}
}

static void a_stranger_lends_nothing_under_an_owners_name(void **state)
{
	struct pool *pool = *state;
	struct master m = raw_master(pool);
	struct te_store *owner = pool_client(pool, MIB);
	struct caller *stranger = caller_join(&m, 1, false);
	char why[128];

	assert_int_equal(
		caller_mount_as(stranger, 1, te_store_hostname(owner), why),
		-601);
	assert_non_null(strstr(why, "has this name"));
	assert_int_equal(pool_capacity(owner), MIB);
	put_some(owner, 0);
	caller_close(stranger);
	te_store_close(owner);
}

/* A port that was free just now. */
static uint16_t free_port(void)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(in);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const void *)&in, sizeof(in)), 0);
	assert_int_equal(getsockname(fd, (void *)&in, &len), 0);
	(void)close(fd);
	return ntohs(in.sin_port);
}

struct refusals {
	struct master m;
	struct caller *heart; /* of who has the name, and lives */
	uint64_t before;
};

static uint64_t n_refused(const struct master *m)
{
	return master_metric(m, "master_mount_segment_failures_total");
}

static bool was_refused_twice(void *arg)
{
	struct refusals *r = arg;
	bool remount;

	caller_heartbeat(r->heart, 0, &remount);
	return n_refused(&r->m) >= r->before + 2;
}

/* As an owner that was started anew, while its host has not yet told that the
 * one before is dead. */
static void an_owner_waits_for_its_name(void **state)
{
	struct pool *pool = *state;
	struct refusals r = {.m = raw_master(pool)};
	struct te_store_config config = {
		.size = sizeof(config),
		.setup_timeout_ms = TE_STORE_NO_WAIT,
		.master = pool->address,
		.segment_bytes = MIB,
	};
	struct caller *before;
	struct te_store *owner, *user = pool_client(pool, 0);
	char name[32], why[128];

	(void)snprintf(name, sizeof(name), "127.0.0.1:%u", free_port());
	caller_engine = name;
	before = caller_join(&r.m, 1, false);
	r.heart = caller_join(&r.m, 1, true);
	caller_engine = NULL;
	assert_int_equal(caller_mount_as(before, 1, name, why), 0);
	config.host = name;
	r.before = n_refused(&r.m);
	assert_int_equal(te_store_setup(&config, &owner), 0);
	assert_true(test_wait_until(was_refused_twice, &r, POOL_START_MS));
	assert_int_not_equal(te_store_health(owner), 0);
	caller_close(r.heart);
	caller_close(before);
	assert_true(test_wait_until(healthy, owner, POOL_START_MS));
	assert_int_equal(pool_put(user, "k", "v", 1), 0);
	te_store_close(owner);
	te_store_close(user);
}

static bool lends_as_owner(void *stranger)
{
	return caller_mount_as(stranger, 4, "owner:1", NULL) == 0;
}

/* While it is silent a stranger may seem to have come in its place. */
static void a_silent_owner_has_its_name_again(void **state)
{
	struct pool *pool = *state;
	struct master m = raw_master(pool);
	struct te_store *user = pool_client(pool, MIB);
	struct caller *owner = caller_join(&m, 3, false);
	struct caller *stranger = caller_join(&m, 4, false);

	assert_int_equal(caller_mount_as(owner, 3, "owner:1", NULL), 0);
	assert_int_equal(caller_mount_as(stranger, 4, "owner:1", NULL), -601);
	caller_close(owner);
	assert_true(test_wait_until(lends_as_owner, stranger, SOON_MS));
	owner = caller_join(&m, 3, false);
	assert_int_equal(caller_unmount(stranger, 4), -101);
	assert_int_equal(caller_mount_as(stranger, 4, "owner:1", NULL), -601);
	assert_int_equal(caller_unmount(owner, 3), 0);
	pool_await_capacity(user, MIB);
	caller_close(owner);
	caller_close(stranger);
	te_store_close(user);
}

struct pings {
	struct master m;
	uint64_t before;
};

static bool came_twice(void *arg)
{
	struct pings *p = arg;

	return master_metric(&p->m, "master_ping_requests_total") >=
	       p->before + 2;
}

/* Heartbeats bring what proves its name to the next master. */
static void await_heartbeats(const struct pool *pool)
{
	struct pings p = {.m = raw_master(pool)};

	p.before = master_metric(&p.m, "master_ping_requests_total");
	assert_true(test_wait_until(came_twice, &p, POOL_START_MS));
}

static void an_owner_has_its_name_again_at_a_new_master(void **state)
{
	struct caller *stranger;
	struct te_store *owner;
	char name[32];
	struct pool pool;
	struct master m;

	(void)state;
	pool_start(&pool, pool_patient);
	owner = pool_client(&pool, MIB);
	(void)snprintf(name, sizeof(name), "%s", te_store_hostname(owner));
	await_heartbeats(&pool);
	for (int life = 0; life < 2; life++) {
		pool_kill(&pool);
		assert_true(test_wait_until(unhealthy, owner, POOL_START_MS));
		pool_restart(&pool, pool_patient);
		m = raw_master(&pool);
		/* It is the first, as a rule, and its engine is so called. */
		caller_engine = name;
		stranger = caller_join(&m, 1, false);
		caller_engine = NULL;
		(void)caller_mount_as(stranger, 1, name, NULL);
		assert_true(test_wait_until(healthy, owner, POOL_START_MS));
		assert_int_equal(caller_mount_as(stranger, 1, name, NULL),
				 -601);
		assert_int_equal(pool_capacity(owner), MIB);
		put_some(owner, life + 1);
		await_heartbeats(&pool);
		caller_close(stranger);
	}
	te_store_close(owner);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segments_come_and_go),
		cmocka_unit_test(mistakes_mount_nothing),
		cmocka_unit_test(part_of_a_file_can_be_lent),
		cmocka_unit_test(files_that_do_not_fit_are_refused),
		cmocka_unit_test(all_are_mounted_again_at_a_new_master),
		cmocka_unit_test(a_store_lends_as_many_segments_as_it_may),
		cmocka_unit_test(what_left_meanwhile_is_unmounted_later),
		cmocka_unit_test(a_segment_is_read_until_its_grace_is_over),
		cmocka_unit_test(a_new_master_hears_of_a_grace),
		cmocka_unit_test(a_store_closes_while_the_master_stands_still),
		cmocka_unit_test(a_stranger_lends_nothing_under_an_owners_name),
		cmocka_unit_test(an_owner_waits_for_its_name),
		cmocka_unit_test(a_silent_owner_has_its_name_again),
		cmocka_unit_test(an_owner_has_its_name_again_at_a_new_master),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
