/* SPDX-License-Identifier: Apache-2.0 */
/* api.c - the public functions: each calls what its store's table names */
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

uint64_t te_store_registered_bytes(struct te_store *store, const void *addr)
{
	return store ? tes_addresses_left(&store->addresses, (uintptr_t)addr)
		     : 0;
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

/* te_store_put() and its like: the lists of store/client/ops.h. */
#define PUBLIC_VERB(name, parameters, arguments)                              \
	int te_store_##name parameters                                        \
	{                                                                     \
		return store && store->ops->name ? store->ops->name arguments \
						 : TE_STORE_INVALID_PARAMS;   \
	}

TES_VERBS_OF_BOTH(PUBLIC_VERB)
TES_VERBS_OF_DIRECT(PUBLIC_VERB)
