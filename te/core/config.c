/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - te_config and the table of the engine's settings */
#include "te/core/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <te/te.h>

#include "base/conf.h"
#include "base/copy.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"

#define HOUR_MS         3600000.0
#define BACKENDS_ENV    "TE_BACKENDS"
#define TRANSFER_MAX_MS (30ull * 24 * 3600000) /* however much is moved */

const struct tei_setting tei_config_rows[] = {
	{TEI_SETTING(struct tei_config, bind), .type = TEI_CONF_STRING,
	 .help = "address to listen on (default: every address)"},
	{TEI_SETTING(struct tei_config, insecure), .type = TEI_CONF_BOOL,
	 .env = "MOONCAKE_INSECURE", .def = "false",
	 .help = "serve everybody, peers on other hosts too, without a key"},
	{TEI_SETTING(struct tei_config, allow_uids), .type = TEI_CONF_UIDS,
	 .env = "MOONCAKE_ALLOW_UIDS",
	 .help = "users of this host to serve beside its own and root (1000,2000-2999 or any)"},
	{TEI_SETTING(struct tei_config, backends), .type = TEI_CONF_STRING,
	 .env = BACKENDS_ENV,
	 .help = "backends to open, separated by commas; auto: those of protocol, as without it"},
	{TEI_SETTING(struct tei_config, protocol), .type = TEI_CONF_CHOICE,
	 .choices = "any|rdma|efa|tcp|nvlink_intra|nvlink", .def = "any",
	 .help = "to other hosts: any: the best for each; rdma: tcp only where no device is; efa: the same by libfabric only; tcp, nvlink_intra, nvlink: no rdma, not to GPUs of this host either"},
	{TEI_SETTING(struct tei_config, intranode_nvlink), .expert = true,
	 .type = TEI_CONF_BOOL, .env = "MC_INTRANODE_NVLINK", .def = "false",
	 .help = "protocol any or rdma is as nvlink_intra"},
	{TEI_SETTING(struct tei_config, force_mnnvl), .expert = true,
	 .type = TEI_CONF_BOOL, .env = "MC_FORCE_MNNVL", .def = "false",
	 .help = "GPUs of other trays by NVLink: protocol nvlink is refused, unless nvlink_ipc says that none are meant"},
	{TEI_SETTING(struct tei_config, nvlink_ipc), .expert = true,
	 .type = TEI_CONF_BOOL, .env = "MC_USE_NVLINK_IPC", .def = "false",
	 .help = "NVLink between GPUs of this host only, as it always is here"},
	{TEI_SETTING(struct tei_config, devices), .type = TEI_CONF_STRING,
	 .env = "TE_DEVICES",
	 .help = "NICs to go by, of any kind and by any of their names (mlx5_0,eth0); each must be there (default: all)"},
	{TEI_SETTING(struct tei_config, topology), .type = TEI_CONF_STRING,
	 .env = "MC_CUSTOM_TOPO_JSON",
	 .help = "JSON file to take for this machine (default: look at it)"},
	{TEI_SETTING(struct tei_config, metadata_server),
	 .type = TEI_CONF_STRING,
	 .help = "directory of names: P2PHANDSHAKE (none), http://host:port/metadata, etcd://host:port;..., redis://host:port"},
	{TEI_SETTING(struct tei_config, metadata_cluster_id),
	 .type = TEI_CONF_STRING, .env = "MC_METADATA_CLUSTER_ID",
	 .help = "part of the keys there, to keep clusters apart"},
	{TEI_SETTING(struct tei_config, metadata_ttl), .expert = true,
	 .type = TEI_CONF_DURATION, .def = "10s", .unit = "ms", .min = 100,
	 .max = HOUR_MS,
	 .help = "an entry there outlives its engine by so much at most"},
	{TEI_SETTING(struct tei_config, metadata_timeout), .expert = true,
	 .type = TEI_CONF_DURATION, .def = "2s", .unit = "ms", .min = 1,
	 .max = HOUR_MS, .help = "a call to the directory"},
	{TEI_SETTING(struct tei_config, redis_username),
	 .type = TEI_CONF_STRING, .env = "MC_REDIS_USERNAME",
	 .help = "of a redis directory"},
	{TEI_SETTING(struct tei_config, redis_password),
	 .type = TEI_CONF_STRING, .env = "MC_REDIS_PASSWORD",
	 .help = "of a redis directory"},
	{TEI_SETTING(struct tei_config, redis_db_index), .type = TEI_CONF_UINT,
	 .env = "MC_REDIS_DB_INDEX", .def = "0", .min = 0, .max = 1 << 20,
	 .help = "of a redis directory"},
	{TEI_SETTING(struct tei_config, module_path), .type = TEI_CONF_STRING,
	 .env = "TE_BACKEND_PATH",
	 .help = "folders of loadable modules, separated by colons (default: the library's own)"},
	{TEI_SETTING(struct tei_config, cuda_library), .expert = true,
	 .type = TEI_CONF_STRING, .env = "TE_CUDA_LIBRARY",
	 .help = "file of the driver of NVIDIA's GPUs (default: libcuda.so.1, where it is)"},
	{TEI_SETTING(struct tei_config, nvidia_peermem), .expert = true,
	 .type = TEI_CONF_STRING, .env = "WITH_NVIDIA_PEERMEM",
	 .help = "1 or 0: NICs register memory of NVIDIA's GPUs by its address or never do (default: whether the module nvidia-peermem is loaded)"},
	{TEI_SETTING(struct tei_config, gpu_staging), .type = TEI_CONF_SIZE,
	 .def = "64MiB", .min = 1 << 20, .max = 1LL << 40,
	 .help = "memory of the host, pinned for each GPU while memory of it is registered, to copy by way of it"},
	{TEI_SETTING(struct tei_config, connect_timeout), .expert = true,
	 .type = TEI_CONF_DURATION, .def = "2s", .unit = "ms", .min = 1,
	 .max = HOUR_MS,
	 .help = "one step of a connection or control exchange"},
	{TEI_SETTING(struct tei_config, open_timeout),
	 .type = TEI_CONF_DURATION, .def = "5s", .unit = "ms", .min = 1,
	 .max = HOUR_MS,
	 .help = "opening a segment, retries included, by default"},
	{TEI_SETTING(struct tei_config, transfer_timeout),
	 .type = TEI_CONF_DURATION, .def = "30s", .unit = "ms", .min = 1,
	 .max = 24 * HOUR_MS, .help = "a request by default"},
	{TEI_SETTING(struct tei_config, transfer_timeout_per_gib),
	 .expert = true, .type = TEI_CONF_DURATION, .def = "1s", .unit = "ms",
	 .min = 0, .max = HOUR_MS,
	 .help = "for each GiB of the same call, up to the end of the request"},
	{TEI_SETTING(struct tei_config, suspect_after), .expert = true,
	 .type = TEI_CONF_DURATION, .def = "2s", .unit = "ms", .min = 1,
	 .max = HOUR_MS,
	 .help = "silence of a peer that owes data until it is probed, and until requests end that can go elsewhere"},
	{TEI_SETTING(struct tei_config, reroute_after), .expert = true,
	 .type = TEI_CONF_DURATION, .def = "500ms", .unit = "ms", .min = 1,
	 .max = HOUR_MS,
	 .help = "silence of a rail until others carry what it owes"},
	{TEI_SETTING(struct tei_config, pause_min), .expert = true,
	 .type = TEI_CONF_DURATION, .def = "5ms", .unit = "ms", .min = 1,
	 .max = HOUR_MS, .help = "pause of a rail after its first failure"},
	{TEI_SETTING(struct tei_config, pause_max), .expert = true,
	 .type = TEI_CONF_DURATION, .def = "1s", .unit = "ms", .min = 1,
	 .max = HOUR_MS,
	 .help = "longest pause of a rail that fails again and again"},
	{TEI_SETTING(struct tei_config, endpoints), .expert = true,
	 .type = TEI_CONF_UINT, .env = "MC_MAX_EP_PER_CTX", .def = "4096",
	 .min = 1, .max = 65536,
	 .help = "endpoints to peers that a rail has at once; beyond them the one unused for longest gives way"},
	{TEI_SETTING(struct tei_config, seed), .internal = true,
	 .type = TEI_CONF_UINT, .def = "0", .min = 0, .max = 1LL << 53,
	 .help = "of what is left to chance, for tests (0: by chance, too)"},
	{TEI_SETTING(struct tei_config, spin_us), .expert = true,
	 .type = TEI_CONF_UINT, .def = "100", .unit = "us", .min = 0,
	 .max = 100000,
	 .help = "time to stay awake after the last work; five times as long where little is owed"},
	{TEI_SETTING(struct tei_config, worker_thread), .expert = true,
	 .type = TEI_CONF_BOOL, .def = "true",
	 .help = "off: rails move only while a thread waits, polls or drives"},
	{TEI_SETTING(struct tei_config, workers), .expert = true,
	 .type = TEI_CONF_UINT, .env = "TE_WORKERS", .def = "0",
	 .max = TEI_WORKERS_MAX,
	 .help = "threads that drive the rails, each its own (0: one for each NUMA node that has rails, one where these have memory of GPUs copied by the host); NICs that go by tcp are shared out to several where there are more workers"},
	{TEI_SETTING(struct tei_config, slice_min), .expert = true,
	 .type = TEI_CONF_SIZE, .def = "64k", .min = 4096, .max = 1 << 30,
	 .help = "smallest part of a request that is cut off"},
	{TEI_SETTING(struct tei_config, slice_max), .expert = true,
	 .type = TEI_CONF_SIZE, .def = "1m", .min = 4096, .max = 1 << 30,
	 .help = "largest part of a request posted at once"},
	{TEI_SETTING(struct tei_config, window), .expert = true,
	 .type = TEI_CONF_SIZE, .def = "16m", .min = 65536, .max = 1LL << 40,
	 .help = "bytes in flight to one peer over one rail"},
	{TEI_SETTING(struct tei_config, hugetlb), .type = TEI_CONF_BOOL,
	 .def = "false",
	 .help = "te_memory_alloc() takes reserved huge pages if it can"},
	{TEI_SETTING(struct tei_config, prefault), .type = TEI_CONF_SIZE,
	 .env = "TE_PREFAULT", .def = "1024t", .min = 0, .max = 1LL << 50,
	 .help = "lent memory to bring in ahead of use, in the background, as far as the host has room; 0: none, nor pages of what peers of this host lend"},
	{TEI_SETTING(struct tei_config, prefault_root), .internal = true,
	 .type = TEI_CONF_STRING,
	 .help = "folder of the /proc and /sys that say how much room there is, for tests"},
	{TEI_SETTING(struct tei_config, copy_kernel), .expert = true,
	 .type = TEI_CONF_CHOICE, .def = "auto",
	 .choices = "auto|" TEI_COPY_KERNELS,
	 .help = "how large memory is copied (auto: as is fastest here, by measurement)"},
	{TEI_SETTING(struct tei_config, notify_queue), .expert = true,
	 .type = TEI_CONF_UINT, .def = "1024", .min = 1, .max = 1 << 20,
	 .help = "notifications of one peer that wait to be taken"},
	{TEI_SETTING(struct tei_config, notify_queue_bytes), .expert = true,
	 .type = TEI_CONF_SIZE, .def = "4m", .min = 65536, .max = 1LL << 32,
	 .help = "bytes of them"},
	{TEI_SETTING(struct tei_config, notify_memory), .expert = true,
	 .type = TEI_CONF_SIZE, .def = "64m", .min = 131072, .max = 1LL << 40,
	 .help = "memory of the notifications of all peers"},
};

#define N_ROWS (sizeof(tei_config_rows) / sizeof(tei_config_rows[0]))

const size_t tei_config_n_rows = N_ROWS;

/* A value that stands behind those of the user; NULL: none. */
struct fallback {
	const char *group, *name, *value; /* of "group.name" */
};

static int read_environment(struct tei_conf *conf)
{
	char error[TEI_CONF_ERROR_LEN] = "";
	int rc = tei_conf_env(conf, error);

	if (rc)
		LOG_ERROR("settings: %s", error);
	return rc;
}

/*
 * Apply what @from says about these rows; every value was tried before. A row
 * without name ends @behind.
 */
static int apply(struct tei_conf *conf, const struct te_config *from,
		 const struct fallback *behind)
{
	char error[TEI_CONF_ERROR_LEN] = "";
	int rc;

	for (; behind && behind->name; behind++) {
		char name[64];

		if (!behind->value)
			continue;
		(void)snprintf(name, sizeof(name), "%s.%s", behind->group,
			       behind->name);
		rc = tei_conf_set(conf, name, behind->value, error);
		if (rc && rc != -ENOENT)
			return rc;
	}
	if (!from)
		return 0;
	tei_list_for_each (node, &from->entries) {
		struct tei_config_entry *entry =
			tei_list_entry(node, struct tei_config_entry, link);

		rc = tei_conf_set(conf, entry->name, entry->value, error);
		if (rc && rc != -ENOENT)
			return rc;
	}
	return 0;
}

bool tei_config_is_tcp(const struct tei_config *c)
{
	return c->intranode_nvlink || !strcmp(c->protocol, "tcp") ||
	       !strncmp(c->protocol, "nvlink", 6);
}

int tei_config_check_nvlink(const struct tei_config *c)
{
	bool forced = c->force_mnnvl && !c->nvlink_ipc;

	if (!forced || (c->backends && *c->backends))
		return 0;
	if (!strcmp(c->protocol, "nvlink")) {
		LOG_ERROR("engine: protocol nvlink: MC_FORCE_MNNVL: fabric "
			  "handles, by which GPUs of several trays reach each "
			  "other, are not supported: unset it (or set "
			  "MC_USE_NVLINK_IPC=1) for GPUs of one host, and use "
			  "protocol rdma or tcp between hosts");
		return -EINVAL;
	}
	LOG_WARN("engine: MC_FORCE_MNNVL has no effect: fabric handles are not "
		 "supported: bytes go by protocol %s",
		 c->intranode_nvlink ? "nvlink_intra" : c->protocol);
	return 0;
}

int tei_config_check_copies(const struct tei_config *c,
			    const struct tei_copier **out)
{
	*out = NULL;
	if (!strcmp(c->copy_kernel, "auto"))
		return 0;
	*out = tei_copier_find(c->copy_kernel);
	if (*out)
		return 0;
	LOG_ERROR("engine: copy_kernel: this processor cannot run %s; the "
		  "last one of %s that it can run is %s",
		  c->copy_kernel, TEI_COPY_KERNELS,
		  tei_copier_at(tei_copiers() - 1)->name);
	return -EOPNOTSUPP;
}

bool tei_config_names_backends(const char *list)
{
	return list && *list && strcmp(list, "auto") != 0;
}

static bool is_backend(const struct tei_backend_ops *const *ops,
		       const char *name, size_t len)
{
	while (*ops &&
	       (strncmp((*ops)->name, name, len) != 0 || (*ops)->name[len]))
		ops++;
	return *ops;
}

/* Says in @error why entry @name of @list, of @len bytes, is no backend. */
static void refuse_backend(const struct tei_backend_ops *const *ops,
			   const char *list, const char *name, size_t len,
			   const char *from, char error[TEI_CONF_ERROR_LEN])
{
	char there[128] = "auto";

	for (; *ops; ops++) {
		size_t used = strlen(there);

		(void)snprintf(there + used, sizeof(there) - used, ", %s",
			       (*ops)->name);
	}
	if (len == 4 && !memcmp(name, "auto", len))
		tei_conf_say(error,
			     "setting backends%s: \"%.80s\": auto stands "
			     "alone, for all that are there",
			     from, list);
	else if (len)
		tei_conf_say(error,
			     "setting backends%s: there is no \"%.*s\"; there "
			     "are %s",
			     from, (int)(len < 40 ? len : 40), name, there);
	else
		tei_conf_say(
			error,
			"setting backends%s: \"%.40s\" has an empty entry; "
			"there are %s",
			from, list, there);
}

int tei_config_check_backends(const struct tei_backend_ops *const *backends,
			      const char *list, const char *from,
			      char error[TEI_CONF_ERROR_LEN])
{
	const char *at = tei_config_names_backends(list) ? list : NULL;

	while (at) {
		const char *name = at + strspn(at, " ");
		size_t len = strcspn(name, ",");

		at = name[len] ? name + len + 1 : NULL;
		while (len && name[len - 1] == ' ')
			len--;
		if (!is_backend(backends, name, len)) {
			refuse_backend(backends, list, name, len, from, error);
			return -EINVAL;
		}
	}
	return 0;
}

/* Checks what the environment says of backends, before it is overridden. */
static int check_environment(const struct tei_backend_ops *const *backends,
			     const struct tei_config *c)
{
	char error[TEI_CONF_ERROR_LEN];
	int rc = tei_config_check_backends(backends, c->backends,
					   " (environment " BACKENDS_ENV ")",
					   error);

	if (rc)
		LOG_ERROR("settings: %s", error);
	return rc;
}

/* @backends: to check with, where @values is a tei_config; else NULL. */
static int make_config(const struct tei_setting *table, size_t n, void *values,
		       const struct te_config *from,
		       const struct fallback *behind,
		       const struct tei_backend_ops *const *backends)
{
	struct tei_conf conf;
	int rc;

	rc = tei_conf_init(&conf, table, n, values);
	if (rc)
		return rc;
	rc = read_environment(&conf);
	if (!rc && backends)
		rc = check_environment(backends, values);
	if (!rc)
		rc = apply(&conf, from, behind);
	if (rc)
		tei_conf_fini(&conf);
	return rc;
}

int tei_config_make(const struct te_config *from,
		    const struct tei_backend_ops *const *backends,
		    struct tei_config *out)
{
	int rc;

	*out = (struct tei_config){0};
	rc = make_config(tei_config_rows, N_ROWS, out, from, NULL, backends);
	if (rc)
		return rc;
	if (out->slice_min > out->slice_max)
		out->slice_min = out->slice_max;
	return 0;
}

void tei_config_fini(struct tei_config *config)
{
	struct tei_conf conf = {
		.rows = tei_config_rows, .n = N_ROWS, .values = config};

	tei_conf_fini(&conf);
}

int tei_config_make_backend(const struct te_config *from,
			    const struct tei_backend_ops *ops,
			    const char *devices, const char *allow_uids,
			    void *values)
{
	const struct fallback behind[] = {
		{ops->name, "devices", devices},
		{ops->name, "allow_uids", allow_uids},
		{NULL, NULL, NULL},
	};

	if (!ops->n_settings)
		return 0;
	return make_config(ops->settings, ops->n_settings, values, from, behind,
			   NULL);
}

void tei_config_fini_backend(const struct tei_backend_ops *ops, void *values)
{
	struct tei_conf conf = {
		.rows = ops->settings, .n = ops->n_settings, .values = values};

	if (ops->n_settings)
		tei_conf_fini(&conf);
}

bool tei_config_lists(const char *list, const char *name)
{
	size_t len = strlen(name);
	const char *at = list;

	if (!list || !*list)
		return true;
	while (at) {
		at += strspn(at, ", ");
		if (!strncmp(at, name, len) && strchr(", ", at[len]))
			return true; /* strchr() finds the final 0, too */
		at = strchr(at, ',');
	}
	return false;
}

uint64_t tei_config_transfer_ms(const struct tei_config *c, uint64_t length)
{
	uint64_t gib = length >> 30, each = c->transfer_timeout_per_gib;

	if (each && gib > TRANSFER_MAX_MS / each)
		return TRANSFER_MAX_MS;
	return c->transfer_timeout + gib * each;
}
