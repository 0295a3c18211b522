/* SPDX-License-Identifier: Apache-2.0 */
/* api.c - the public functions: each goes the way that its store was set up */
#include "store/client/client.h"
#include "store/daemon/dummy.h"

int te_store_setup(const struct te_store_config *config, struct te_store **out)
{
	if (config && out && config->size == sizeof(*config) && config->daemon)
		return tes_dummy_setup(config, out);
	return tes_direct_setup(config, out);
}

void te_store_close(struct te_store *store)
{
	if (store)
		store->ops->close(store);
}

struct te_engine *te_store_engine(struct te_store *store)
{
	return store->ops->engine(store);
}

const char *te_store_hostname(struct te_store *store)
{
	return store->ops->hostname(store);
}

int te_store_health(struct te_store *store)
{
	return store->ops->health(store);
}

int te_store_register(struct te_store *store, void *addr, uint64_t length)
{
	return store ? store->ops->reg(store, addr, length)
		     : TE_STORE_INVALID_PARAMS;
}

int te_store_unregister(struct te_store *store, void *addr)
{
	return store ? store->ops->unreg(store, addr) : TE_STORE_INVALID_PARAMS;
}

int te_store_put(struct te_store *store, const struct te_store_key *keys,
		 const struct te_store_value *values, size_t n,
		 const struct te_store_replicate *how, int *results)
{
	return store ? store->ops->put(store, keys, values, n, how, results)
		     : TE_STORE_INVALID_PARAMS;
}

int te_store_get(struct te_store *store, const struct te_store_key *keys,
		 const struct te_store_value *values, size_t n,
		 int64_t *results)
{
	return store ? store->ops->get(store, keys, values, n, results)
		     : TE_STORE_INVALID_PARAMS;
}

int te_store_get_buffers(struct te_store *store,
			 const struct te_store_key *keys, size_t n,
			 struct te_store_buffer **out, int64_t *results)
{
	return store ? store->ops->get_buffers(store, keys, n, out, results)
		     : TE_STORE_INVALID_PARAMS;
}

int te_store_get_ranges(struct te_store *store, const struct te_store_key *keys,
			size_t n_keys, const struct te_store_range *ranges,
			size_t n_ranges, int64_t *results)
{
	return store ? store->ops->get_ranges(store, keys, n_keys, ranges,
					      n_ranges, results)
		     : TE_STORE_INVALID_PARAMS;
}

int te_store_exist(struct te_store *store, const struct te_store_key *keys,
		   size_t n, int *results)
{
	return store ? store->ops->exist(store, keys, n, results)
		     : TE_STORE_INVALID_PARAMS;
}

int te_store_size(struct te_store *store, const struct te_store_key *keys,
		  size_t n, int64_t *results)
{
	return store ? store->ops->size(store, keys, n, results)
		     : TE_STORE_INVALID_PARAMS;
}

int te_store_remove(struct te_store *store, const struct te_store_key *keys,
		    size_t n, int force, int *results)
{
	return store ? store->ops->remove(store, keys, n, force, results)
		     : TE_STORE_INVALID_PARAMS;
}

int te_store_mount(struct te_store *store, uint64_t bytes,
		   uint8_t id[TE_STORE_SEGMENT_ID_LEN])
{
	return store && store->ops->mount ? store->ops->mount(store, bytes, id)
					  : TE_STORE_INVALID_PARAMS;
}

int te_store_mount_shared(struct te_store *store, const char *path,
			  uint64_t offset, uint64_t bytes,
			  uint8_t id[TE_STORE_SEGMENT_ID_LEN])
{
	return store && store->ops->mount_shared
		       ? store->ops->mount_shared(store, path, offset, bytes,
						  id)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_unmount(struct te_store *store,
		     const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
		     uint64_t grace_ms)
{
	return store && store->ops->unmount
		       ? store->ops->unmount(store, id, grace_ms)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_drain(struct te_store *store,
		   const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
		   uint32_t timeout_ms, struct te_store_drained *out)
{
	return store && store->ops->drain
		       ? store->ops->drain(store, id, timeout_ms, out)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_upsert(struct te_store *store, const struct te_store_key *keys,
		    const struct te_store_value *values, size_t n,
		    const struct te_store_replicate *how, int *results)
{
	return store && store->ops->upsert
		       ? store->ops->upsert(store, keys, values, n, how,
					    results)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_replicas(struct te_store *store, const struct te_store_key *keys,
		      size_t n, int *results, struct te_store_replica *out,
		      size_t *n_out)
{
	return store && store->ops->replicas
		       ? store->ops->replicas(store, keys, n, results, out,
					      n_out)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_remove_all(struct te_store *store, int force, uint64_t *removed)
{
	return store && store->ops->remove_all
		       ? store->ops->remove_all(store, force, removed)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_remove_matching(struct te_store *store, const char *pattern,
			     int force, uint64_t *removed)
{
	return store && store->ops->remove_matching
		       ? store->ops->remove_matching(store, pattern, force,
						     removed)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_replica_clear(struct te_store *store,
			   const struct te_store_key *keys, size_t n,
			   const char *segment, int *results)
{
	return store && store->ops->replica_clear
		       ? store->ops->replica_clear(store, keys, n, segment,
						   results)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_get_open(struct te_store *store, const struct te_store_key *keys,
		      size_t n, int *results)
{
	return store && store->ops->get_open
		       ? store->ops->get_open(store, keys, n, results)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_get_close(struct te_store *store, const struct te_store_key *keys,
		       size_t n)
{
	return store && store->ops->get_close
		       ? store->ops->get_close(store, keys, n)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_put_open(struct te_store *store, const struct te_store_key *keys,
		      const uint64_t *sizes, size_t n,
		      const struct te_store_replicate *how, int *results)
{
	return store && store->ops->put_open
		       ? store->ops->put_open(store, keys, sizes, n, how,
					      results)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_put_ranges(struct te_store *store, const struct te_store_key *keys,
			size_t n_keys, const struct te_store_range *ranges,
			size_t n_ranges, int64_t *results)
{
	return store && store->ops->put_ranges
		       ? store->ops->put_ranges(store, keys, n_keys, ranges,
						n_ranges, results)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_put_commit(struct te_store *store, const struct te_store_key *keys,
			size_t n, int *results)
{
	return store && store->ops->put_commit
		       ? store->ops->put_commit(store, keys, n, results)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_put_abort(struct te_store *store, const struct te_store_key *keys,
		       size_t n, int *results)
{
	return store && store->ops->put_abort
		       ? store->ops->put_abort(store, keys, n, results)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_pool(struct te_store *store, struct te_store_pool *out)
{
	return store ? store->ops->pool(store, out) : TE_STORE_INVALID_PARAMS;
}

void te_store_stats(struct te_store *store, struct te_store_stats *out)
{
	store->ops->stats(store, out);
}

void *te_store_pool_alloc(struct te_store *store, uint64_t length)
{
	return store && store->ops->pool_alloc
		       ? store->ops->pool_alloc(store, length)
		       : NULL;
}

int te_store_pool_free(struct te_store *store, void *addr)
{
	return store && store->ops->pool_free
		       ? store->ops->pool_free(store, addr)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_copy(struct te_store *store, const struct te_store_key *key,
		  const char *const *targets, size_t n,
		  uint8_t id[TE_STORE_TASK_ID_LEN])
{
	return store && store->ops->copy
		       ? store->ops->copy(store, key, targets, n, id)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_move(struct te_store *store, const struct te_store_key *key,
		  const char *source, const char *target,
		  uint8_t id[TE_STORE_TASK_ID_LEN])
{
	return store && store->ops->move
		       ? store->ops->move(store, key, source, target, id)
		       : TE_STORE_INVALID_PARAMS;
}

int te_store_task(struct te_store *store,
		  const uint8_t id[TE_STORE_TASK_ID_LEN],
		  struct te_store_task *out)
{
	return store && store->ops->task ? store->ops->task(store, id, out)
					 : TE_STORE_INVALID_PARAMS;
}
