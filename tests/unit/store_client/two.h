/* SPDX-License-Identifier: Apache-2.0 */
/*
 * two.h - an owner and a client of a real master, whose engines a test bends
 */
#ifndef TESTS_UNIT_STORE_CLIENT_TWO_H
#define TESTS_UNIT_STORE_CLIENT_TWO_H

#include <stdlib.h>

#include "tests/lib/test.h"
#include "tests/store/fake_te.h"
#include "tests/store/pool.h"

#define MIB (1u << 20)

struct two {
	struct pool pool;
	struct te_store *owner, *client;
};

static inline int set_up(void **state)
{
	struct two *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	pool_start(&t->pool, pool_patient);
	t->owner = pool_client(&t->pool, 4 * MIB);
	t->client = pool_client(&t->pool, 0);
	*state = t;
	return 0;
}

static inline int tear_down(void **state)
{
	struct two *t = *state;

	fake_te_set_hook(NULL, NULL);
	te_store_close(t->client);
	te_store_close(t->owner);
	pool_stop(&t->pool);
	free(t);
	return 0;
}

/* After each test. */
static inline int unbend(void **state)
{
	(void)state;
	fake_te_set_hook(NULL, NULL);
	return 0;
}

#endif
