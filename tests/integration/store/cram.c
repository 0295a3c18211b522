/* SPDX-License-Identifier: Apache-2.0 */
/* cram.c - a pool that is filled to the last byte with objects that stay */
#include "tests/integration/store/cram.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define PATIENCE_MS 30000u
#define BYTES       CRAM_VALUE(1)

static uint8_t room[BYTES];

/* A file is mapped by its owner only. */
static void lend_file(struct te_store *store)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 8];
	int fd;

	test_tmpdir_create(dir);
	(void)snprintf(path, sizeof(path), "%s/lent", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)CRAM_BYTES), 0);
	(void)close(fd);
	assert_int_equal(te_store_mount_shared(store, path, 0, CRAM_BYTES, id),
			 0);
	test_tmpdir_remove(dir);
}

struct te_store *cram_owner(const char *master, bool mapped)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = PATIENCE_MS,
		.replica_timeout_ms = PATIENCE_MS,
		.setup_timeout_ms = POOL_START_MS,
		.master = master,
		.segment_bytes = mapped ? CRAM_BYTES : 0,
	};
	struct te_store *store = NULL;

	assert_int_equal(te_store_setup(&config, &store), 0);
	if (!mapped)
		lend_file(store);
	pool_await_capacity(store, CRAM_BYTES);
	return store;
}

static void name_part(const struct cram *c, size_t i, char name[32])
{
	(void)snprintf(name, 32, "part/%llu/%zu", (unsigned long long)c->round,
		       i);
}

static uint64_t id_of(const struct cram *c, size_t i)
{
	return 1000 + c->round * CRAM_PARTS + i;
}

static int put_part(struct cram *c)
{
	struct te_store_replicate how = pool_several(1);
	char name[32];

	how.flags = TE_STORE_HARD_PIN;
	name_part(c, c->n, name);
	pool_fill(room, BYTES, id_of(c, c->n));
	return pool_put_as(c->store, name, room, BYTES, &how);
}

struct goal {
	struct cram *cram;
	size_t n;
};

static bool is_filled(void *arg)
{
	const struct goal *goal = arg;

	while (goal->cram->n < goal->n && !put_part(goal->cram))
		goal->cram->n++;
	return goal->cram->n == goal->n;
}

void cram_fill(struct cram *c, size_t n)
{
	struct goal goal = {c, n};

	if (!test_wait_until(is_filled, &goal, POOL_START_MS))
		fail_msg("%zu of %zu parts have a place", c->n, n);
}

void cram_is_full(struct cram *c)
{
	assert_int_equal(put_part(c), TE_STORE_NO_AVAILABLE_HANDLE);
}

void cram_check(struct cram *c)
{
	char name[32];

	for (size_t i = 0; i < c->n; i++) {
		name_part(c, i, name);
		memset(room, 0, BYTES);
		assert_int_equal(pool_get(c->store, name, room, BYTES), BYTES);
		assert_true(pool_is_filled(room, BYTES, id_of(c, i)));
	}
}

void cram_empty(struct cram *c)
{
	assert_int_equal(te_store_remove_all(c->store, 1, NULL), 0);
	c->n = 0;
	c->round++;
}
