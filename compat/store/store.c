/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.c - stores: created, set up, closed, destroyed
 */
#include "compat/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <te/store_setup.h>

#include "compat/handle/handle.h"
#include "compat/handle/warn.h"

static struct mc_table stores = MC_TABLE_INIT;

/* ---- handles ---- */

static struct mc_store *pin(mooncake_store_t handle, const char *function)
{
	struct mc_store *s = mc_table_pin(&stores, (uintptr_t)handle);

	if (!s) {
		mc_warn(function, "%p is no store (any more)", handle);
	} else if (s->pid != getpid()) { /* its mutex may be locked for ever */
		(void)mc_table_unpin(&stores, s->handle);
		mc_warn(function,
			"%p is of the process that this one was forked off",
			handle);
		s = NULL;
	}
	return s;
}

static void unpin(struct mc_store *store)
{
	struct mc_store *last = mc_table_unpin(&stores, store->handle);

	if (!last)
		return;
	te_store_close(last->te);
	(void)pthread_cond_destroy(&last->left);
	(void)pthread_mutex_destroy(&last->mutex);
	free(last);
}

struct mc_store *mc_store_enter(mooncake_store_t handle, const char *function)
{
	struct mc_store *s = pin(handle, function);
	bool is_in = false, is_said;

	if (!s)
		return NULL;
	(void)pthread_mutex_lock(&s->mutex);
	if (s->te && !s->changing) {
		s->n_inside++;
		is_in = true;
	}
	is_said = s->warned;
	s->warned = !is_in;
	(void)pthread_mutex_unlock(&s->mutex);
	if (is_in)
		return s;
	if (!is_said)
		mc_warn(function, "this store is not set up");
	unpin(s);
	return NULL;
}

void mc_store_leave(struct mc_store *store)
{
	(void)pthread_mutex_lock(&store->mutex);
	if (!--store->n_inside)
		(void)pthread_cond_broadcast(&store->left);
	(void)pthread_mutex_unlock(&store->mutex);
	unpin(store);
}

mooncake_store_t mooncake_store_create(void)
{
	struct mc_store *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	(void)pthread_mutex_init(&s->mutex, NULL);
	(void)pthread_cond_init(&s->left, NULL);
	s->pid = getpid();
	/* The handle is unknown to others before it is returned. */
	s->handle = mc_table_add(&stores, s);
	if (!s->handle) {
		(void)pthread_cond_destroy(&s->left);
		(void)pthread_mutex_destroy(&s->mutex);
		free(s);
		return NULL;
	}
	return (mooncake_store_t)(uintptr_t)s->handle;
}

/* ---- setting up and closing ---- */

/*
 * Tells whether the caller may change it: it is as it should be, and nobody
 * else does.
 */
static bool begin_change(struct mc_store *s, bool should_be_set_up)
{
	bool may;

	(void)pthread_mutex_lock(&s->mutex);
	may = !s->changing && (s->te != NULL) == should_be_set_up;
	if (may)
		s->changing = true;
	while (may && s->n_inside)
		(void)pthread_cond_wait(&s->left, &s->mutex);
	(void)pthread_mutex_unlock(&s->mutex);
	return may;
}

static void end_change(struct mc_store *s, struct te_store *te)
{
	(void)pthread_mutex_lock(&s->mutex);
	s->te = te;
	s->changing = false;
	(void)pthread_mutex_unlock(&s->mutex);
}

static void close_store(struct mc_store *s)
{
	if (!begin_change(s, true))
		return;
	te_store_close(s->te);
	end_change(s, NULL);
}

static int setup(mooncake_store_t handle, const char *function,
		 const struct te_store_pair *pairs, size_t n)
{
	struct mc_store *s = pin(handle, function);
	struct te_store *te = NULL;
	int code = TE_STORE_INVALID_PARAMS;

	if (!s)
		return code;
	if (begin_change(s, false)) {
		code = te_store_setup_pairs(pairs, n, NULL, &te);
		end_change(s, te);
	} else {
		mc_warn(function, "this store is set up already");
	}
	unpin(s);
	return code;
}

int mooncake_store_setup(mooncake_store_t store, const char *local_hostname,
			 const char *metadata_server,
			 uint64_t global_segment_size,
			 uint64_t local_buffer_size, const char *protocol,
			 const char *device_name,
			 const char *master_server_addr)
{
	char segment[24], buffer[24];
	bool has_metadata = metadata_server && *metadata_server;
	const struct te_store_pair pairs[] = {
		{"local_hostname", local_hostname},
		{"metadata_server",
		 has_metadata ? metadata_server : "P2PHANDSHAKE"},
		{"global_segment_size", segment},
		{"local_buffer_size", buffer},
		{"protocol", protocol && *protocol ? protocol : "tcp"},
		{"rdma_devices", device_name ? device_name : ""},
		/* Left out: the default. */
		{"master_server_addr", master_server_addr},
	};
	size_t n = sizeof(pairs) / sizeof(pairs[0]);

	(void)snprintf(segment, sizeof(segment), "%" PRIu64,
		       global_segment_size);
	(void)snprintf(buffer, sizeof(buffer), "%" PRIu64, local_buffer_size);
	return setup(store, __func__, pairs, master_server_addr ? n : n - 1);
}

int mooncake_store_init_all(mooncake_store_t store, const char *protocol,
			    const char *device_name,
			    uint64_t mount_segment_size)
{
	return mooncake_store_setup(store, "localhost", NULL,
				    mount_segment_size, 0, protocol,
				    device_name, NULL);
}

int mooncake_store_setup_pairs(mooncake_store_t store, const char *const *keys,
			       const char *const *values, size_t n)
{
	struct te_store_pair *pairs;
	int code;

	if (n && (!keys || !values)) {
		mc_warn(__func__, "keys or values are NULL");
		return TE_STORE_INVALID_PARAMS;
	}
	pairs = calloc(n + 1, sizeof(*pairs));
	if (!pairs)
		return TE_STORE_INTERNAL_ERROR;
	for (size_t i = 0; i < n; i++)
		pairs[i] = (struct te_store_pair){keys[i], values[i]};
	code = setup(store, __func__, pairs, n);
	free(pairs);
	return code;
}

int mooncake_store_close(mooncake_store_t store)
{
	struct mc_store *s = pin(store, __func__);

	if (!s)
		return TE_STORE_INVALID_PARAMS;
	close_store(s);
	unpin(s);
	return 0;
}

void mooncake_store_destroy(mooncake_store_t store)
{
	struct mc_store *s = store ? pin(store, __func__) : NULL;

	if (!s)
		return;
	close_store(s);
	(void)mc_table_give_back(&stores, s->handle);
	unpin(s);
}

/* ---- asking ---- */

int mooncake_store_health_check(mooncake_store_t store)
{
	struct mc_store *s = pin(store, __func__);
	bool is_set_up;
	int health = 1;

	if (!s)
		return TE_STORE_INVALID_PARAMS;
	(void)pthread_mutex_lock(&s->mutex);
	is_set_up = s->te && !s->changing;
	if (is_set_up)
		s->n_inside++;
	(void)pthread_mutex_unlock(&s->mutex);
	if (!is_set_up) {
		unpin(s);
		return health;
	}
	health = te_store_health(s->te) ? 2 : 0;
	mc_store_leave(s);
	return health;
}

int mooncake_store_get_hostname(mooncake_store_t store, char *out, size_t len)
{
	struct mc_store *s = mc_store_enter(store, __func__);
	int code = TE_STORE_INVALID_PARAMS;

	if (!s)
		return code;
	if (out && len) {
		(void)snprintf(out, len, "%s", te_store_hostname(s->te));
		code = 0;
	}
	mc_store_leave(s);
	return code;
}

int mooncake_store_register_buffer(mooncake_store_t store, void *buffer,
				   size_t size)
{
	struct mc_store *s = mc_store_enter(store, __func__);
	int code;

	if (!s)
		return TE_STORE_INVALID_PARAMS;
	code = te_store_register(s->te, buffer, size);
	if (code)
		mc_warn(__func__, "%zu bytes at %p: %s", size, buffer,
			te_store_strerror(code));
	mc_store_leave(s);
	return code;
}

int mooncake_store_unregister_buffer(mooncake_store_t store, void *buffer)
{
	struct mc_store *s = mc_store_enter(store, __func__);
	int code;

	if (!s)
		return TE_STORE_INVALID_PARAMS;
	code = te_store_unregister(s->te, buffer);
	if (code)
		mc_warn(__func__, "%p: %s", buffer, te_store_strerror(code));
	mc_store_leave(s);
	return code;
}
