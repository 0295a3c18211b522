/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fallback.c - shared memory is taken by itself, and tcp where it cannot be
 *
 * Two engines as an application makes them, nothing said about backends.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <te/te.h>

#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/user.h"

#define LEN     ((size_t)1 << 20)
#define WAIT_MS 60000
#define ANY     (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)

struct pair {
	char dir[TEST_PATH_MAX]; /* of the owner's sockets */
	struct te_engine *user, *owner;
	te_segment_id segment;
	uint8_t *memory;
};

/* @set: a setting of the owner, or NULL. */
static void pair_open(struct pair *p, const char *set, const char *value)
{
	struct te_region region = {.length = LEN, .access = ANY};
	struct te_config *config;
	te_region_id id;
	void *memory;

	test_tmpdir_create(p->dir);
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(te_config_set(config, "shm.dir", p->dir, NULL, 0), 0);
	if (set)
		assert_int_equal(te_config_set(config, set, value, NULL, 0), 0);
	assert_int_equal(te_engine_create(config, "127.0.0.1", &p->owner), 0);
	assert_int_equal(te_engine_create(NULL, "127.0.0.1", &p->user), 0);
	te_config_destroy(config);
	assert_int_equal(te_memory_alloc(p->owner, LEN, &memory), 0);
	p->memory = memory;
	region.addr = memory;
	assert_int_equal(te_region_add(p->owner, &region, &id), 0);
}

static void pair_close(struct pair *p)
{
	te_engine_destroy(p->user);
	te_engine_destroy(p->owner);
	test_tmpdir_remove(p->dir);
}

/* Some requests, all well. */
static void move(struct pair *p)
{
	uint8_t bytes[5000];
	struct iovec piece = {bytes, sizeof(bytes)};
	struct te_request request = {.op = TE_WRITE,
				     .remote = (uintptr_t)p->memory,
				     .pieces = &piece,
				     .n_pieces = 1};
	struct te_completion done;
	struct te_batch *batch;
	int i;

	assert_int_equal(te_segment_open(p->user, te_engine_name(p->owner),
					 WAIT_MS, &request.segment),
			 0);
	assert_int_equal(te_batch_create(p->user, 1, &batch), 0);
	for (i = 1; i < 10; i++) {
		memset(bytes, i, sizeof(bytes));
		assert_int_equal(te_batch_submit(batch, &request, 1), 0);
		assert_int_equal(te_batch_wait(batch, WAIT_MS), 0);
		assert_int_equal(te_batch_result(batch, 0, &done), 0);
		assert_int_equal(done.error, 0);
		assert_memory_equal(p->memory, bytes, sizeof(bytes));
		assert_int_equal(te_batch_reset(batch), 0);
	}
	te_batch_destroy(batch);
}

static uint64_t sent_by(struct te_engine *engine, const char *backend)
{
	struct te_rail_info rails[16];
	size_t n = TEST_COUNT(rails), i;
	uint64_t sum = 0;

	assert_int_equal(te_engine_rails(engine, rails, &n), 0);
	for (i = 0; i < n; i++)
		if (!strcmp(rails[i].backend, backend))
			sum += rails[i].sent_bytes;
	return sum;
}

static void peers_on_this_host_use_shared_memory(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, NULL, NULL);
	move(&p);
	assert_int_equal(sent_by(p.user, "tcp"), 0);
	assert_true(sent_by(p.user, "shm") > 0);
	pair_close(&p);
}

static void tcp_carries_where_the_socket_is_gone(void **state)
{
	struct dirent *entry;
	struct pair p;
	DIR *dir;

	(void)state;
	pair_open(&p, NULL, NULL);
	dir = opendir(p.dir);
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, "te-", 3))
			assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0),
					 0);
	closedir(dir);
	move(&p);
	assert_int_equal(sent_by(p.user, "shm"), 0);
	assert_true(sent_by(p.user, "tcp") > 0);
	pair_close(&p);
}

static void tcp_carries_where_the_owner_wants_no_shared_memory(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, "shm.enabled", "false");
	move(&p);
	assert_int_equal(sent_by(p.user, "shm"), 0);
	assert_true(sent_by(p.user, "tcp") > 0);
	pair_close(&p);
}

/* In a process of TEST_USER_A, whose place in /tmp is another's. */
static void move_as_another(void)
{
	struct pair p;

	(void)unsetenv("XDG_RUNTIME_DIR");
	pair_open(&p, NULL, NULL);
	move(&p);
	assert_int_equal(sent_by(p.user, "tcp"), 0);
	assert_true(sent_by(p.user, "shm") > 0);
	pair_close(&p);
}

static unsigned int count_begun_by(const char *name)
{
	DIR *dir = opendir("/tmp");
	struct dirent *entry;
	unsigned int n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		n += !strncmp(entry->d_name, name, strlen(name));
	closedir(dir);
	return n;
}

/* Last: what fails in the child ends it at the end of main(). */
static void nobody_takes_shared_memory_away_by_a_name(void **state)
{
	char place[32];
	int status;
	pid_t pid;

	(void)state;
	if (geteuid())
		skip(); /* who is not root cannot be two users */
	(void)snprintf(place, sizeof(place), "/tmp/te-%u", TEST_USER_A);
	(void)rmdir(place);
	assert_int_equal(mkdir(place, 0700), 0);
	assert_int_equal(chown(place, TEST_USER_B, TEST_USER_B), 0);
	pid = test_fork_as(TEST_USER_A);
	if (!pid) {
		move_as_another();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	assert_int_equal(count_begun_by(place + strlen("/tmp/")), 1);
	assert_int_equal(rmdir(place), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peers_on_this_host_use_shared_memory),
		cmocka_unit_test(tcp_carries_where_the_socket_is_gone),
		cmocka_unit_test(
			tcp_carries_where_the_owner_wants_no_shared_memory),
		cmocka_unit_test(nobody_takes_shared_memory_away_by_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
