/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm.c - the shm backend: its settings and its table of operations
 *
 * Peers on the same host and of the same user map each other's memory and copy
 * with the CPU that asks. docs/decisions/009-shm.md has the reasons.
 */
#include "backends/shm/shm.h"

#include <errno.h>
#include <string.h>

#define ROW(field_, name_, type_, def_, unit_, help_, min_, max_)            \
	{                                                                    \
		.name = "shm." name_, .type = (type_), .def = (def_),        \
		.unit = (unit_), .help = (help_), .min = (min_),             \
		.max = (max_), .offset = offsetof(struct shm_config, field_) \
	}

static const struct tei_setting settings[] = {
	ROW(enabled, "enabled", TEI_CONF_BOOL, "true", NULL,
	    "reach peers on this host by shared memory", 0, 0),
	ROW(dir, "dir", TEI_CONF_STRING, NULL, NULL,
	    "directory of the sockets (default: a private one of this user)", 0,
	    0),
	ROW(allow_uids, "allow_uids", TEI_CONF_STRING, NULL, NULL,
	    "other users that may attach, separated by commas", 0, 0),
	ROW(foreign, "foreign", TEI_CONF_BOOL, "true", NULL,
	    "reach memory not made by te_memory_alloc() through the kernel", 0,
	    0),
	ROW(stream_from, "stream_from", TEI_CONF_SIZE, "64k", "bytes",
	    "from this length on, of one request or all that wait, copies go past the caches",
	    0, 1LL << 40),
	ROW(hot, "hot", TEI_CONF_SIZE, "2m", "bytes",
	    "but not to memory written this few bytes before", 0, 1LL << 40),
	ROW(chunk, "chunk", TEI_CONF_SIZE, "64k", "bytes",
	    "copied between two looks at the fence", 4096, SHM_CHUNK_MAX),
	ROW(foreign_chunk, "foreign_chunk", TEI_CONF_SIZE, "512k", "bytes",
	    "moved by one system call", 4096, 16 << 20),
	ROW(connect_timeout, "connect_timeout", TEI_CONF_DURATION, "2s", NULL,
	    "for who connects to say hello", 10, 600000),
};

/* Memory is one device. */
static int shm_probe(const struct tei_search *search)
{
	static const struct tei_device memory = {.name = "0", .numa_node = -1};
	const struct shm_config *config = search->config;

	return config->enabled ? search->found(&memory, search->arg) : 0;
}

static int shm_describe(struct tei_rail *base, void *blob, size_t *len)
{
	if (*len < SHM_HOST_LEN)
		return -ENOBUFS;
	tei_shm_host_encode(&shm_rail(base)->host, blob);
	*len = SHM_HOST_LEN;
	return 0;
}

static int shm_match(struct tei_rail *base, const struct tei_address *peer,
		     const void *blob, size_t len)
{
	const struct shm_rail *rail = shm_rail(base);
	struct shm_host other;

	(void)peer;
	return tei_shm_host_decode(blob, len, &other) &&
	       tei_shm_host_is_same(&rail->host, &other) &&
	       tei_shm_uid_is_allowed(rail, other.uid);
}

extern const struct tei_backend_ops tei_backend_shm;
const struct tei_backend_ops tei_backend_shm = {
	.name = "shm",
	.abi = TEI_BACKEND_ABI,
	.caps = TEI_CAP_ONE_SIDED | TEI_CAP_BACKING,
	.rail_size = sizeof(struct shm_rail),
	.endpoint_size = sizeof(struct shm_endpoint),
	.slice_size = sizeof(struct shm_slice),
	.settings = settings,
	.n_settings = sizeof(settings) / sizeof(settings[0]),
	.config_size = sizeof(struct shm_config),
	.probe = shm_probe,
	.rail_open = tei_shm_rail_open,
	.rail_close = tei_shm_rail_close,
	.rail_describe = shm_describe,
	.rail_match = shm_match,
	.region_add = tei_shm_region_add,
	.region_hide = tei_shm_region_hide,
	.region_remove = tei_shm_region_remove,
	.endpoint_open = tei_shm_endpoint_open,
	.endpoint_connect = tei_shm_endpoint_connect,
	.endpoint_close = tei_shm_endpoint_close,
	.post = tei_shm_post,
	.cancel = tei_shm_cancel,
	.flush = tei_shm_flush,
	.drop = tei_shm_drop,
	.progress = tei_shm_progress,
	.wait_fd = tei_shm_wait_fd,
};
