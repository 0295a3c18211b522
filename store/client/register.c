/* SPDX-License-Identifier: Apache-2.0 */
/* register.c - memory of the caller that the engine knows, for us alone */
#include "base/mem.h"
#include "store/client/client.h"

static struct tes_registered *take(struct te_store *store, const void *addr)
{
	struct tes_registered *found = NULL;

	tei_mutex_lock(&store->mu);
	tei_list_for_each (node, &store->registered) {
		struct tes_registered *r =
			tei_list_entry(node, struct tes_registered, link);

		if (r->addr == addr) {
			found = r;
			break;
		}
	}
	if (found)
		tei_list_del(&found->link);
	tei_mutex_unlock(&store->mu);
	return found;
}

int tes_direct_register(struct te_store *store, void *addr, uint64_t length)
{
	struct te_region region = {
		.addr = addr,
		.length = length,
		.access = TE_ACCESS_LOCAL,
	};
	struct tes_registered *r;
	int rc;

	if (!store || !addr || !length)
		return TE_STORE_INVALID_PARAMS;
	r = tei_calloc(1, sizeof(*r));
	if (!r)
		return TE_STORE_INTERNAL_ERROR;
	rc = te_region_add(store->engine, &region, &r->region);
	if (rc) {
		tei_free(r);
		return tes_store_code(rc);
	}
	r->addr = addr;
	tei_mutex_lock(&store->mu);
	tei_list_add_head(&store->registered, &r->link);
	tei_mutex_unlock(&store->mu);
	return 0;
}

int tes_direct_unregister(struct te_store *store, void *addr)
{
	struct tes_registered *r;

	if (!store)
		return TE_STORE_INVALID_PARAMS;
	r = take(store, addr);
	if (!r)
		return TE_STORE_INVALID_PARAMS;
	(void)te_region_remove(store->engine, r->region);
	tei_free(r);
	return 0;
}
