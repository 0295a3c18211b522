/* SPDX-License-Identifier: Apache-2.0 */
/* settled.c - a pool that is to be as it was */
#include "tests/integration/master/settled.h"

#include <stdlib.h>

#include "tests/lib/test.h"

static Store__PoolReply *ask_pool(struct caller *c)
{
	Store__Pool m = STORE__POOL__INIT;
	Store__PoolReply *reply =
		caller_call(c, STORE__STORE_TYPE__STORE_POOL, &m,
			    &store__pool_reply__descriptor);

	assert_non_null(reply);
	return reply;
}

static char *ask_keys(const struct settled *w)
{
	int status;
	char *keys = master_get(&w->master, "/get_all_keys", &status);

	assert_int_equal(status, 200);
	return keys;
}

int settled_set_up(void **state)
{
	struct settled *w = calloc(1, sizeof(*w));
	uint64_t generation, epoch;

	assert_non_null(w);
	master_start(&w->master,
		     (const char *const[]){"-client_ttl=100", NULL});
	w->owner = caller_join(&w->master, SETTLED_OWNER, false);
	w->user = caller_join(&w->master, SETTLED_USER, false);
	assert_int_equal(caller_mount(w->owner, SETTLED_OWNER, SETTLED_BYTES),
			 0);
	caller_put(w->user, "there");
	assert_int_equal(
		caller_put_start(w->user, "half", 100, &generation, &epoch), 0);
	w->before = ask_pool(w->owner);
	w->keys = ask_keys(w);
	*state = w;
	return 0;
}

int settled_tear_down(void **state)
{
	struct settled *w = *state;

	caller_free(w->before);
	free(w->keys);
	caller_close(w->user);
	caller_close(w->owner);
	master_stop(&w->master);
	free(w);
	return 0;
}

void settled_check(const struct settled *w)
{
	Store__PoolReply *now = ask_pool(w->owner);
	char *keys = ask_keys(w);

	assert_int_equal(now->capacity_bytes, w->before->capacity_bytes);
	assert_int_equal(now->used_bytes, w->before->used_bytes);
	assert_int_equal(now->objects, w->before->objects);
	assert_int_equal(now->key_bytes, w->before->key_bytes);
	assert_int_equal(now->owners, w->before->owners);
	assert_string_equal(keys, w->keys);
	free(keys);
	caller_free(now);
}
