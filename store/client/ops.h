/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.h - the two ways to be a client of the pool, behind one table
 *
 * Directly: with an engine of one's own (tes_direct_*). Or as a dummy: through
 * the daemon of this host (tes_dummy_*). The public functions (api.c) check
 * that there is a store at all and call what its table names; the contract of
 * each is that of its te_store_* namesake in te/store.h. What a way has not is
 * NULL there, and the public function says -600 or NULL.
 */
#ifndef STORE_CLIENT_OPS_H
#define STORE_CLIENT_OPS_H

#include <te/store.h>

struct tes_store_ops {
	void (*close)(struct te_store *store);
	struct te_engine *(*engine)(struct te_store *store);
	const char *(*hostname)(struct te_store *store);
	int (*health)(struct te_store *store);
	int (*reg)(struct te_store *store, void *addr, uint64_t length);
	int (*unreg)(struct te_store *store, void *addr);
	int (*put)(struct te_store *store, const struct te_store_key *keys,
		   const struct te_store_value *values, size_t n,
		   const struct te_store_replicate *how, int *results);
	int (*get)(struct te_store *store, const struct te_store_key *keys,
		   const struct te_store_value *values, size_t n,
		   int64_t *results);
	int (*get_buffers)(struct te_store *store,
			   const struct te_store_key *keys, size_t n,
			   struct te_store_buffer **out, int64_t *results);
	int (*get_ranges)(struct te_store *store,
			  const struct te_store_key *keys, size_t n_keys,
			  const struct te_store_range *ranges, size_t n_ranges,
			  int64_t *results);
	int (*exist)(struct te_store *store, const struct te_store_key *keys,
		     size_t n, int *results);
	int (*size)(struct te_store *store, const struct te_store_key *keys,
		    size_t n, int64_t *results);
	int (*remove)(struct te_store *store, const struct te_store_key *keys,
		      size_t n, int force, int *results);
	int (*mount)(struct te_store *store, uint64_t bytes,
		     uint8_t id[TE_STORE_SEGMENT_ID_LEN]);
	int (*mount_shared)(struct te_store *store, const char *path,
			    uint64_t offset, uint64_t bytes,
			    uint8_t id[TE_STORE_SEGMENT_ID_LEN]);
	int (*unmount)(struct te_store *store,
		       const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
		       uint64_t grace_ms);
	int (*drain)(struct te_store *store,
		     const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
		     uint32_t timeout_ms, struct te_store_drained *out);
	int (*upsert)(struct te_store *store, const struct te_store_key *keys,
		      const struct te_store_value *values, size_t n,
		      const struct te_store_replicate *how, int *results);
	int (*replicas)(struct te_store *store, const struct te_store_key *keys,
			size_t n, int *results, struct te_store_replica *out,
			size_t *n_out);
	int (*remove_all)(struct te_store *store, int force, uint64_t *removed);
	int (*remove_matching)(struct te_store *store, const char *pattern,
			       int force, uint64_t *removed);
	int (*replica_clear)(struct te_store *store,
			     const struct te_store_key *keys, size_t n,
			     const char *segment, int *results);
	int (*get_open)(struct te_store *store, const struct te_store_key *keys,
			size_t n, int *results);
	int (*get_close)(struct te_store *store,
			 const struct te_store_key *keys, size_t n);
	int (*put_open)(struct te_store *store, const struct te_store_key *keys,
			const uint64_t *sizes, size_t n,
			const struct te_store_replicate *how, int *results);
	int (*put_ranges)(struct te_store *store,
			  const struct te_store_key *keys, size_t n_keys,
			  const struct te_store_range *ranges, size_t n_ranges,
			  int64_t *results);
	int (*put_commit)(struct te_store *store,
			  const struct te_store_key *keys, size_t n,
			  int *results);
	int (*put_abort)(struct te_store *store,
			 const struct te_store_key *keys, size_t n,
			 int *results);
	int (*pool)(struct te_store *store, struct te_store_pool *out);
	void (*stats)(struct te_store *store, struct te_store_stats *out);
	int (*copy)(struct te_store *store, const struct te_store_key *key,
		    const char *const *targets, size_t n,
		    uint8_t id[TE_STORE_TASK_ID_LEN]);
	int (*move)(struct te_store *store, const struct te_store_key *key,
		    const char *source, const char *target,
		    uint8_t id[TE_STORE_TASK_ID_LEN]);
	int (*task)(struct te_store *store,
		    const uint8_t id[TE_STORE_TASK_ID_LEN],
		    struct te_store_task *out);
	void *(*pool_alloc)(struct te_store *store, uint64_t length);
	int (*pool_free)(struct te_store *store, void *addr);
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
int tes_direct_put(struct te_store *store, const struct te_store_key *keys,
		   const struct te_store_value *values, size_t n,
		   const struct te_store_replicate *how, int *results);
int tes_direct_get(struct te_store *store, const struct te_store_key *keys,
		   const struct te_store_value *values, size_t n,
		   int64_t *results);
int tes_direct_get_buffers(struct te_store *store,
			   const struct te_store_key *keys, size_t n,
			   struct te_store_buffer **out, int64_t *results);
int tes_direct_get_ranges(struct te_store *store,
			  const struct te_store_key *keys, size_t n_keys,
			  const struct te_store_range *ranges, size_t n_ranges,
			  int64_t *results);
int tes_direct_exist(struct te_store *store, const struct te_store_key *keys,
		     size_t n, int *results);
int tes_direct_size(struct te_store *store, const struct te_store_key *keys,
		    size_t n, int64_t *results);
int tes_direct_remove(struct te_store *store, const struct te_store_key *keys,
		      size_t n, int force, int *results);
int tes_direct_mount(struct te_store *store, uint64_t bytes,
		     uint8_t id[TE_STORE_SEGMENT_ID_LEN]);
int tes_direct_mount_shared(struct te_store *store, const char *path,
			    uint64_t offset, uint64_t bytes,
			    uint8_t id[TE_STORE_SEGMENT_ID_LEN]);
int tes_direct_unmount(struct te_store *store,
		       const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
		       uint64_t grace_ms);
int tes_direct_drain(struct te_store *store,
		     const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
		     uint32_t timeout_ms, struct te_store_drained *out);
int tes_direct_upsert(struct te_store *store, const struct te_store_key *keys,
		      const struct te_store_value *values, size_t n,
		      const struct te_store_replicate *how, int *results);
int tes_direct_replicas(struct te_store *store, const struct te_store_key *keys,
			size_t n, int *results, struct te_store_replica *out,
			size_t *n_out);
int tes_direct_remove_all(struct te_store *store, int force, uint64_t *removed);
int tes_direct_remove_matching(struct te_store *store, const char *pattern,
			       int force, uint64_t *removed);
int tes_direct_replica_clear(struct te_store *store,
			     const struct te_store_key *keys, size_t n,
			     const char *segment, int *results);
int tes_direct_get_open(struct te_store *store, const struct te_store_key *keys,
			size_t n, int *results);
int tes_direct_get_close(struct te_store *store,
			 const struct te_store_key *keys, size_t n);
int tes_direct_put_open(struct te_store *store, const struct te_store_key *keys,
			const uint64_t *sizes, size_t n,
			const struct te_store_replicate *how, int *results);
int tes_direct_put_ranges(struct te_store *store,
			  const struct te_store_key *keys, size_t n_keys,
			  const struct te_store_range *ranges, size_t n_ranges,
			  int64_t *results);
int tes_direct_put_commit(struct te_store *store,
			  const struct te_store_key *keys, size_t n,
			  int *results);
int tes_direct_put_abort(struct te_store *store,
			 const struct te_store_key *keys, size_t n,
			 int *results);
int tes_direct_pool(struct te_store *store, struct te_store_pool *out);
void tes_direct_stats(struct te_store *store, struct te_store_stats *out);

int tes_direct_copy(struct te_store *store, const struct te_store_key *key,
		    const char *const *targets, size_t n,
		    uint8_t id[TE_STORE_TASK_ID_LEN]);
int tes_direct_move(struct te_store *store, const struct te_store_key *key,
		    const char *source, const char *target,
		    uint8_t id[TE_STORE_TASK_ID_LEN]);
int tes_direct_task(struct te_store *store,
		    const uint8_t id[TE_STORE_TASK_ID_LEN],
		    struct te_store_task *out);

extern const struct tes_store_ops tes_direct_ops;

#endif
