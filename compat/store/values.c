/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values.c - putting, getting, asking for and removing objects
 *
 * All calls are batches by keys of any bytes; one key is a batch of one.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "compat/handle/warn.h"
#include "compat/store/store.h"

#define KEY_LEN_MAX 1024u

/* Arguments of te/store.h, made of those of the caller. */
struct call {
	struct te_store_key *keys;
	struct te_store_value *values;
	struct iovec *pieces;
};

static void call_fini(struct call *c)
{
	free(c->keys);
	free(c->values);
	free(c->pieces);
}

/* A length that no key has makes that key -600, and no other. */
static void set_keys(struct call *c, const struct mooncake_key *keys, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool holds = keys[i].bytes && keys[i].length <= KEY_LEN_MAX;

		c->keys[i].bytes = keys[i].bytes ? keys[i].bytes : "";
		c->keys[i].len = holds ? (uint32_t)keys[i].length : 0;
	}
}

static void set_values(struct call *c, const struct mooncake_pieces *p,
		       size_t n)
{
	struct iovec *piece = c->pieces;

	for (size_t i = 0, at = 0; i < n; i++) {
		size_t count = p->per_key ? p->per_key[i] : 1;

		c->values[i].pieces = piece;
		c->values[i].n_pieces = (uint32_t)count;
		for (size_t j = 0; j < count; j++, at++)
			*piece++ = (struct iovec){p->buffers[at], p->sizes[at]};
	}
}

/* Returns how many pieces there are; 0: too many of one key, or none. */
static size_t count_pieces(const struct mooncake_pieces *p, size_t n)
{
	size_t sum = 0;

	if (!p->per_key)
		return n;
	for (size_t i = 0; i < n; i++) {
		if (!p->per_key[i] || p->per_key[i] >= TE_PIECES_MAX)
			return 0;
		sum += p->per_key[i];
	}
	return sum;
}

/* @values NULL: there are none. 0, -600, -1: then nothing is to be freed. */
static int call_init(struct call *c, const struct mooncake_key *keys,
		     const struct mooncake_pieces *values, size_t n,
		     const char *function)
{
	size_t n_pieces = values ? count_pieces(values, n) : 1;

	memset(c, 0, sizeof(*c));
	if (!keys || !n_pieces ||
	    (values && (!values->buffers || !values->sizes))) {
		mc_warn(function, "a list is NULL, or a key's pieces are none "
				  "or too many");
		return TE_STORE_INVALID_PARAMS;
	}
	c->keys = calloc(n, sizeof(*c->keys));
	c->values = calloc(n, sizeof(*c->values));
	c->pieces = calloc(n_pieces, sizeof(*c->pieces));
	if (!c->keys || !c->values || !c->pieces) {
		call_fini(c);
		return TE_STORE_INTERNAL_ERROR;
	}
	set_keys(c, keys, n);
	if (values)
		set_values(c, values, n);
	return 0;
}

/* ---- how values are kept ---- */

static int replicate_of(const struct mooncake_put_options *o,
			struct te_store_replicate *out)
{
	const struct mooncake_replicate_config *c = &o->config;

	if (o->size != sizeof(*o))
		return TE_STORE_INVALID_PARAMS;
	*out = (struct te_store_replicate){
		.size = sizeof(*out),
		.replica_num = c->replica_num > TE_STORE_REPLICAS_MAX
				       ? UINT32_MAX
				       : (uint32_t)c->replica_num,
		.soft_pin_action = (uint32_t)o->soft_pin_action,
		.data_type = (uint32_t)o->data_type,
		.soft_pin_ttl_ms = o->soft_pin_ttl_ms,
		.preferred_segments = c->preferred_segments,
		.n_preferred_segments = c->preferred_segments_count,
		.group_ids = o->group_ids,
		.n_group_ids = o->group_ids_count,
	};
	if (!out->replica_num)
		out->replica_num = 1;
	if (c->with_soft_pin)
		out->soft_pin_action = TE_STORE_SOFT_PIN_ENABLE;
	if (c->with_hard_pin)
		out->flags |= TE_STORE_HARD_PIN;
	if (o->same_node)
		out->flags |= TE_STORE_SAME_NODE;
	return 0;
}

static void options_of(const mooncake_replicate_config_t *config,
		       struct mooncake_put_options *out)
{
	memset(out, 0, sizeof(*out));
	out->size = sizeof(*out);
	if (config)
		out->config = *config;
}

/* ---- batches ---- */

static int all_are(int *results, size_t n, int code)
{
	for (size_t i = 0; results && i < n; i++)
		results[i] = code;
	return code;
}

static int all_long_are(int64_t *results, size_t n, int code)
{
	for (size_t i = 0; results && i < n; i++)
		results[i] = code;
	return code;
}

int mooncake_store_put_keys(mooncake_store_t store,
			    const struct mooncake_key *keys,
			    const struct mooncake_pieces *values, size_t n,
			    const struct mooncake_put_options *options,
			    int *results)
{
	struct te_store_replicate how;
	struct mc_store *s = mc_store_enter(store, __func__);
	struct call c;
	int code = 0;

	if (!s)
		return all_are(results, n, TE_STORE_INVALID_PARAMS);
	if (n && (!values || !results))
		code = TE_STORE_INVALID_PARAMS;
	if (!code && options)
		code = replicate_of(options, &how);
	if (!code && n)
		code = call_init(&c, keys, values, n, __func__);
	if (!code && n) {
		/* A batch that is refused as a whole has no results. */
		(void)all_are(results, n, TE_STORE_INVALID_PARAMS);
		(void)te_store_put(s->te, c.keys, c.values, n,
				   options ? &how : NULL, results);
		call_fini(&c);
	}
	mc_store_leave(s);
	return code ? all_are(results, n, code) : 0;
}

int mooncake_store_get_keys(mooncake_store_t store,
			    const struct mooncake_key *keys,
			    const struct mooncake_pieces *values, size_t n,
			    int64_t *results)
{
	struct mc_store *s = mc_store_enter(store, __func__);
	struct call c;
	int code = 0;

	if (!s)
		return all_long_are(results, n, TE_STORE_INVALID_PARAMS);
	if (n && (!values || !results))
		code = TE_STORE_INVALID_PARAMS;
	if (!code && n)
		code = call_init(&c, keys, values, n, __func__);
	if (!code && n) {
		(void)all_long_are(results, n, TE_STORE_INVALID_PARAMS);
		(void)te_store_get(s->te, c.keys, c.values, n, results);
		call_fini(&c);
	}
	mc_store_leave(s);
	return code ? all_long_are(results, n, code) : 0;
}

typedef int on_keys_fn(struct te_store *te, const struct te_store_key *keys,
		       size_t n, void *results);

static int exist(struct te_store *te, const struct te_store_key *keys, size_t n,
		 void *results)
{
	return te_store_exist(te, keys, n, results);
}

static int sizes(struct te_store *te, const struct te_store_key *keys, size_t n,
		 void *results)
{
	return te_store_size(te, keys, n, results);
}

static int remove_kind(struct te_store *te, const struct te_store_key *keys,
		       size_t n, void *results)
{
	return te_store_remove(te, keys, n, 0, results);
}

static int remove_by_force(struct te_store *te, const struct te_store_key *keys,
			   size_t n, void *results)
{
	return te_store_remove(te, keys, n, 1, results);
}

/* Call @fn for keys without values. 0, or the code that every result gets. */
static int on_keys(mooncake_store_t store, const struct mooncake_key *keys,
		   size_t n, on_keys_fn *fn, void *results,
		   const char *function)
{
	struct mc_store *s = mc_store_enter(store, function);
	struct call c;
	int code = 0;

	if (!s || (n && !results))
		code = TE_STORE_INVALID_PARAMS;
	if (!code && n)
		code = call_init(&c, keys, NULL, n, function);
	if (!code && n) {
		(void)fn(s->te, c.keys, n, results);
		call_fini(&c);
	}
	if (s)
		mc_store_leave(s);
	return code;
}

/*
 * Runs like on_keys(), where a result is a code: fills all of them on an error.
 */
static int codes_on_keys(mooncake_store_t store,
			 const struct mooncake_key *keys, size_t n,
			 on_keys_fn *fn, int *results, const char *function)
{
	int code;

	(void)all_are(results, n, TE_STORE_INVALID_PARAMS);
	code = on_keys(store, keys, n, fn, results, function);
	return code ? all_are(results, n, code) : 0;
}

int mooncake_store_exist_keys(mooncake_store_t store,
			      const struct mooncake_key *keys, size_t n,
			      int *results)
{
	return codes_on_keys(store, keys, n, exist, results, __func__);
}

int mooncake_store_size_keys(mooncake_store_t store,
			     const struct mooncake_key *keys, size_t n,
			     int64_t *results)
{
	int code;

	(void)all_long_are(results, n, TE_STORE_INVALID_PARAMS);
	code = on_keys(store, keys, n, sizes, results, __func__);
	return code ? all_long_are(results, n, code) : 0;
}

int mooncake_store_remove_keys(mooncake_store_t store,
			       const struct mooncake_key *keys, size_t n,
			       int force, int *results)
{
	return codes_on_keys(store, keys, n,
			     force ? remove_by_force : remove_kind, results,
			     __func__);
}

/* ---- keys that are strings ---- */

static struct mooncake_key key_of(const char *text)
{
	return (struct mooncake_key){text, text ? strlen(text) : 0};
}

/* The caller's to free; NULL: no memory, or no list. */
static struct mooncake_key *keys_of(const char **texts, size_t n)
{
	struct mooncake_key *keys = texts ? calloc(n + 1, sizeof(*keys)) : NULL;

	for (size_t i = 0; keys && i < n; i++)
		keys[i] = key_of(texts[i]);
	return keys;
}

int mooncake_store_batch_put_from(mooncake_store_t store, const char **keys,
				  void **buffers, const size_t *sizes_of,
				  size_t count,
				  const mooncake_replicate_config_t *config,
				  int *results_out)
{
	const struct mooncake_pieces values = {.buffers = buffers,
					       .sizes = sizes_of};
	struct mooncake_key *list = keys_of(keys, count);
	struct mooncake_put_options options;
	int code;

	options_of(config, &options);
	code = mooncake_store_put_keys(store, list, &values, count, &options,
				       results_out);
	free(list);
	return code;
}

int mooncake_store_batch_get_into(mooncake_store_t store, const char **keys,
				  void **buffers, const size_t *sizes_of,
				  size_t count, int64_t *results_out)
{
	const struct mooncake_pieces values = {.buffers = buffers,
					       .sizes = sizes_of};
	struct mooncake_key *list = keys_of(keys, count);
	int code = mooncake_store_get_keys(store, list, &values, count,
					   results_out);

	free(list);
	return code;
}

int mooncake_store_batch_is_exist(mooncake_store_t store, const char **keys,
				  size_t count, int *results_out)
{
	struct mooncake_key *list = keys_of(keys, count);
	int code = mooncake_store_exist_keys(store, list, count, results_out);

	free(list);
	return code;
}

/* ---- one key ---- */

int mooncake_store_put(mooncake_store_t store, const char *key,
		       const void *value, size_t size,
		       const mooncake_replicate_config_t *config)
{
	void *buffer = (void *)(uintptr_t)value;
	int result;

	(void)mooncake_store_batch_put_from(store, &key, &buffer, &size, 1,
					    config, &result);
	return result;
}

int mooncake_store_put_from(mooncake_store_t store, const char *key,
			    void *buffer, size_t size,
			    const mooncake_replicate_config_t *config)
{
	if (size)
		return mooncake_store_put(store, key, buffer, size, config);
	mc_warn(__func__, "a value of 0 bytes is not stored");
	return 0;
}

int64_t mooncake_store_get_into(mooncake_store_t store, const char *key,
				void *buffer, size_t size)
{
	int64_t result;

	(void)mooncake_store_batch_get_into(store, &key, &buffer, &size, 1,
					    &result);
	return result;
}

int mooncake_store_is_exist(mooncake_store_t store, const char *key)
{
	int result;

	(void)mooncake_store_batch_is_exist(store, &key, 1, &result);
	return result;
}

int64_t mooncake_store_get_size(mooncake_store_t store, const char *key)
{
	const struct mooncake_key k = key_of(key);
	int64_t result;

	(void)mooncake_store_size_keys(store, &k, 1, &result);
	return result;
}

int mooncake_store_remove(mooncake_store_t store, const char *key, int force)
{
	const struct mooncake_key k = key_of(key);
	int result;

	(void)mooncake_store_remove_keys(store, &k, 1, force, &result);
	return result;
}

/* ---- many objects ---- */

int64_t mooncake_store_remove_by_regex(mooncake_store_t store,
				       const char *pattern, int force)
{
	struct mc_store *s = mc_store_enter(store, __func__);
	uint64_t removed = 0;
	int code = TE_STORE_INVALID_PARAMS;

	if (!s)
		return code;
	if (pattern)
		code = te_store_remove_matching(s->te, pattern, force,
						&removed);
	mc_store_leave(s);
	return code ? code : (int64_t)removed;
}

int64_t mooncake_store_remove_all(mooncake_store_t store, int force)
{
	struct mc_store *s = mc_store_enter(store, __func__);
	uint64_t removed = 0;
	int code;

	if (!s)
		return TE_STORE_INVALID_PARAMS;
	code = te_store_remove_all(s->te, force, &removed);
	mc_store_leave(s);
	return code ? code : (int64_t)removed;
}
