/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - keys whose bytes follow from their number, and who reads them */
#include "tests/integration/store/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define OWN 100000u /* the first key of a load's own */

const char *load_name(unsigned int k, char out[LOAD_ROOM])
{
	(void)snprintf(out, LOAD_ROOM, "key %u", k);
	return out;
}

void load_put(struct te_store *store, unsigned int k)
{
	uint8_t bytes[LOAD_LEN];
	char name[LOAD_ROOM];

	pool_fill(bytes, LOAD_LEN, k);
	assert_int_equal(pool_put(store, load_name(k, name), bytes, LOAD_LEN),
			 0);
}

int64_t load_get(struct te_store *store, unsigned int k)
{
	uint8_t bytes[LOAD_LEN];
	char name[LOAD_ROOM];
	int64_t rc = pool_get(store, load_name(k, name), bytes, LOAD_LEN);

	if (rc == LOAD_LEN)
		assert_true(pool_is_filled(bytes, LOAD_LEN, k));
	return rc;
}

void load_remove(struct te_store *store, unsigned int k)
{
	char name[LOAD_ROOM];
	struct te_store_key key = pool_key(load_name(k, name));
	int rc;

	do
		assert_int_equal(te_store_remove(store, &key, 1, 1, &rc), 0);
	while (rc == TE_STORE_OBJECT_HAS_REPLICATION_TASK);
	assert_int_equal(rc, 0);
}

static void read_all(struct load *l, uint8_t *bytes)
{
	char name[LOAD_ROOM];

	for (unsigned int k = 0; k < LOAD_KEYS; k++) {
		int64_t n =
			pool_get(l->store, load_name(k, name), bytes, LOAD_LEN);

		if (n != LOAD_LEN)
			atomic_fetch_add(&l->missed, 1);
		else if (!pool_is_filled(bytes, LOAD_LEN, k))
			atomic_fetch_add(&l->wrong, 1);
	}
}

static void *run(void *arg)
{
	struct load *l = arg;
	uint8_t *bytes = malloc(LOAD_LEN);
	char name[LOAD_ROOM];
	int rc;

	for (unsigned int own = OWN; bytes && !atomic_load(&l->stop); own++) {
		struct te_store_key key = pool_key(load_name(own, name));

		pool_fill(bytes, LOAD_LEN, own);
		(void)pool_put(l->store, name, bytes, LOAD_LEN);
		read_all(l, bytes);
		(void)te_store_remove(l->store, &key, 1, 1, &rc);
		atomic_fetch_add(&l->rounds, 1);
	}
	free(bytes);
	return NULL;
}

static bool has_read_all(void *arg)
{
	return atomic_load(&((struct load *)arg)->rounds) > 0;
}

void load_start(struct load *l, const struct pool *pool)
{
	*l = (struct load){.store = pool_client(pool, 0)};
	assert_int_equal(pthread_create(&l->thread, NULL, run, l), 0);
	assert_true(test_wait_until(has_read_all, l, POOL_START_MS));
}

void load_stop(struct load *l)
{
	atomic_store(&l->rounds, 0);
	assert_true(test_wait_until(has_read_all, l, POOL_START_MS));
	atomic_store(&l->stop, true);
	(void)pthread_join(l->thread, NULL);
	te_store_close(l->store);
	assert_int_equal(atomic_load(&l->wrong), 0);
}
