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

static const struct tei_setting settings[] = {
	{TEI_SETTING_AS(struct shm_config, enabled, "shm.enabled"),
	 .type = TEI_CONF_BOOL, .def = "true",
	 .help = "reach peers on this host by shared memory"},
	{TEI_SETTING_AS(struct shm_config, dir, "shm.dir"),
	 .type = TEI_CONF_STRING,
	 .help = "directory of the sockets (default: a private one of this user)"},
	{TEI_SETTING_AS(struct shm_config, allow_uids, "shm.allow_uids"),
	 .type = TEI_CONF_STRING,
	 .help = "other users that may attach, separated by commas"},
	{TEI_SETTING_AS(struct shm_config, foreign, "shm.foreign"),
	 .expert = true, .type = TEI_CONF_BOOL, .def = "true",
	 .help = "reach memory not made by te_memory_alloc() through the kernel"},
	{TEI_SETTING_AS(struct shm_config, stream_from, "shm.stream_from"),
	 .expert = true, .type = TEI_CONF_SIZE, .def = "64k", .unit = "bytes",
	 .max = 1LL << 40,
	 .help = "from this length on, of one request or all that wait, copies go past the caches"},
	{TEI_SETTING_AS(struct shm_config, hot, "shm.hot"), .expert = true,
	 .type = TEI_CONF_SIZE, .def = "2m", .unit = "bytes", .max = 1LL << 40,
	 .help = "but not to memory written this few bytes before"},
	{TEI_SETTING_AS(struct shm_config, chunk, "shm.chunk"), .expert = true,
	 .type = TEI_CONF_SIZE, .def = "64k", .unit = "bytes", .min = 4096,
	 .max = SHM_CHUNK_MAX, .help = "copied between two looks at the fence"},
	{TEI_SETTING_AS(struct shm_config, foreign_chunk, "shm.foreign_chunk"),
	 .expert = true, .type = TEI_CONF_SIZE, .def = "512k", .unit = "bytes",
	 .min = 4096, .max = 16 << 20, .help = "moved by one system call"},
	{TEI_SETTING_AS(struct shm_config, connect_timeout,
			"shm.connect_timeout"),
	 .expert = true, .type = TEI_CONF_DURATION, .def = "2s", .min = 10,
	 .max = 600000, .help = "for who connects to say hello"},
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
