/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.h - the two ways to be a client of the pool, behind one table
 *
 * Direct: with an engine of its own (tes_direct_*). As a dummy: through the
 * daemon of this host (tes_dummy_*). The public functions (store/api/api.c)
 * call what the store's table names; the contract of each is that of its
 * te_store_* namesake in te/store.h. A member that is NULL makes the public
 * function return TE_STORE_INVALID_PARAMS or NULL.
 */
#ifndef STORE_CLIENT_OPS_H
#define STORE_CLIENT_OPS_H

#include <te/store.h>

/*
 * The verbs: X(name, (parameters), (arguments)), all of which return int. From
 * these lists come the table, the public functions and the prototypes; the
 * compiler holds them against te/store.h.
 */
/* clang-format off */
#define TES_VERBS_OF_BOTH(X) \
	X(put, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   const struct te_store_value *values, size_t n, \
	   const struct te_store_replicate *how, int *results), \
	  (store, keys, values, n, how, results)) \
	X(get, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   const struct te_store_value *values, size_t n, int64_t *results), \
	  (store, keys, values, n, results)) \
	X(get_buffers, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   size_t n, struct te_store_buffer **out, int64_t *results), \
	  (store, keys, n, out, results)) \
	X(get_ranges, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   size_t n_keys, const struct te_store_range *ranges, \
	   size_t n_ranges, int64_t *results), \
	  (store, keys, n_keys, ranges, n_ranges, results)) \
	X(exist, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   size_t n, int *results), \
	  (store, keys, n, results)) \
	X(size, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   size_t n, int64_t *results), \
	  (store, keys, n, results)) \
	X(remove, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   size_t n, int force, int *results), \
	  (store, keys, n, force, results)) \
	X(upsert, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   const struct te_store_value *values, size_t n, \
	   const struct te_store_replicate *how, int *results), \
	  (store, keys, values, n, how, results)) \
	X(replicas, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   size_t n, int *results, struct te_store_replica *out, \
	   size_t *n_out), \
	  (store, keys, n, results, out, n_out)) \
	X(remove_all, \
	  (struct te_store *store, int force, uint64_t *removed), \
	  (store, force, removed)) \
	X(remove_matching, \
	  (struct te_store *store, const char *pattern, int force, \
	   uint64_t *removed), \
	  (store, pattern, force, removed))

#define TES_VERBS_OF_DIRECT(X) \
	X(mount, \
	  (struct te_store *store, uint64_t bytes, \
	   uint8_t id[TE_STORE_SEGMENT_ID_LEN]), \
	  (store, bytes, id)) \
	X(mount_shared, \
	  (struct te_store *store, const char *path, uint64_t offset, \
	   uint64_t bytes, uint8_t id[TE_STORE_SEGMENT_ID_LEN]), \
	  (store, path, offset, bytes, id)) \
	X(unmount, \
	  (struct te_store *store, \
	   const uint8_t id[TE_STORE_SEGMENT_ID_LEN], uint64_t grace_ms), \
	  (store, id, grace_ms)) \
	X(drain, \
	  (struct te_store *store, \
	   const uint8_t id[TE_STORE_SEGMENT_ID_LEN], uint32_t timeout_ms, \
	   struct te_store_drained *out), \
	  (store, id, timeout_ms, out)) \
	X(replica_clear, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   size_t n, const char *segment, int *results), \
	  (store, keys, n, segment, results)) \
	X(get_open, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   size_t n, int *results), \
	  (store, keys, n, results)) \
	X(get_close, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   size_t n), \
	  (store, keys, n)) \
	X(put_open, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   const uint64_t *sizes, size_t n, \
	   const struct te_store_replicate *how, int *results), \
	  (store, keys, sizes, n, how, results)) \
	X(put_ranges, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   size_t n_keys, const struct te_store_range *ranges, \
	   size_t n_ranges, int64_t *results), \
	  (store, keys, n_keys, ranges, n_ranges, results)) \
	X(put_commit, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   size_t n, int *results), \
	  (store, keys, n, results)) \
	X(put_abort, \
	  (struct te_store *store, const struct te_store_key *keys, \
	   size_t n, int *results), \
	  (store, keys, n, results)) \
	X(pool, \
	  (struct te_store *store, struct te_store_pool *out), \
	  (store, out)) \
	X(copy, \
	  (struct te_store *store, const struct te_store_key *key, \
	   const char *const *targets, size_t n, \
	   uint8_t id[TE_STORE_TASK_ID_LEN]), \
	  (store, key, targets, n, id)) \
	X(move, \
	  (struct te_store *store, const struct te_store_key *key, \
	   const char *source, const char *target, \
	   uint8_t id[TE_STORE_TASK_ID_LEN]), \
	  (store, key, source, target, id)) \
	X(task, \
	  (struct te_store *store, const uint8_t id[TE_STORE_TASK_ID_LEN], \
	   struct te_store_task *out), \
	  (store, id, out))
/* clang-format on */

struct tes_store_ops {
	void (*close)(struct te_store *store);
	struct te_engine *(*engine)(struct te_store *store);
	const char *(*hostname)(struct te_store *store);
	int (*health)(struct te_store *store);
	int (*reg)(struct te_store *store, void *addr, uint64_t length);
	int (*unreg)(struct te_store *store, void *addr);
	void (*stats)(struct te_store *store, struct te_store_stats *out);
	void *(*pool_alloc)(struct te_store *store, uint64_t length);
	int (*pool_free)(struct te_store *store, void *addr);
#define TES_MEMBER(name, parameters, arguments) int(*name) parameters;
	TES_VERBS_OF_BOTH(TES_MEMBER)
	TES_VERBS_OF_DIRECT(TES_MEMBER)
#undef TES_MEMBER
};

/* Sets store->ops. */
int tes_direct_setup(const struct te_store_config *config,
		     struct te_store **out);
void tes_direct_close(struct te_store *store);
struct te_engine *tes_direct_engine(struct te_store *store);
const char *tes_direct_hostname(struct te_store *store);
int tes_direct_health(struct te_store *store);
int tes_direct_register(struct te_store *store, void *addr, uint64_t length);
int tes_direct_unregister(struct te_store *store, void *addr);
void tes_direct_stats(struct te_store *store, struct te_store_stats *out);

#define TES_PROTOTYPE(name, parameters, arguments) \
	int tes_direct_##name parameters;
TES_VERBS_OF_BOTH(TES_PROTOTYPE)
TES_VERBS_OF_DIRECT(TES_PROTOTYPE)
#undef TES_PROTOTYPE

extern const struct tes_store_ops tes_direct_ops;

#endif
