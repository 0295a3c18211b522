/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs.c - the verbs backend: its table of operations
 *
 * One-sided reads and writes of NICs: the target's CPU has no part in them.
 */
#include "backends/verbs/verbs.h"

static int verbs_region_add(struct tei_rail *rail, uint64_t id, void *addr,
			    uint64_t length, uint32_t access, void *key,
			    size_t *len)
{
	return tei_verbs_region_add(&verbs_rail(rail)->regions, id, addr,
				    length, access, key, len);
}

static int verbs_region_hide(struct tei_rail *rail, uint64_t id)
{
	return tei_verbs_region_hide(&verbs_rail(rail)->regions, id);
}

static void verbs_region_remove(struct tei_rail *rail, uint64_t id)
{
	tei_verbs_region_remove(&verbs_rail(rail)->regions, id);
}

extern const struct tei_backend_ops tei_backend_verbs;
const struct tei_backend_ops tei_backend_verbs = {
	.name = "verbs",
	.abi = TEI_BACKEND_ABI,
	.caps = TEI_CAP_REMOTE | TEI_CAP_ONE_SIDED,
	.rail_size = sizeof(struct verbs_rail),
	.endpoint_size = sizeof(struct verbs_endpoint),
	.slice_size = sizeof(struct verbs_slice),
	.settings = tei_verbs_settings,
	.n_settings = VERBS_SETTINGS,
	.config_size = sizeof(struct verbs_config),
	.probe = tei_verbs_probe,
	.rail_open = tei_verbs_rail_open,
	.rail_close = tei_verbs_rail_close,
	.rail_describe = tei_verbs_rail_describe,
	.rail_match = tei_verbs_rail_match,
	.region_add = verbs_region_add,
	.region_hide = verbs_region_hide,
	.region_remove = verbs_region_remove,
	.endpoint_open = tei_verbs_endpoint_open,
	.endpoint_connect = tei_verbs_endpoint_connect,
	.endpoint_way = tei_verbs_endpoint_way,
	.endpoint_close = tei_verbs_endpoint_close,
	.post = tei_verbs_post,
	.cancel = tei_verbs_cancel,
	.flush = tei_verbs_flush,
	.drop = tei_verbs_drop,
	.progress = tei_verbs_progress,
	.wait_fd = tei_verbs_wait_fd,
	.doze = tei_verbs_doze,
};
