/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs.c - join a pool by keys and values, by Mooncake's rules
 *
 * The keys are rows of a registry of settings; what rows cannot say is checked
 * here. The engine is made here too, since its port is to be one of a range.
 */
#include "store/api/pairs.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <te/store_setup.h>

#include "base/chance.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"
#include "store/api/http.h"
#include "store/client/client.h"

#define SIZE_MIN       1024u /* unless it is 0 */
#define TIMEOUT_MAX_MS (24.0 * 3600 * 1000)
#define PORTS_MAX      20 /* tried before any free one will do */

struct wanted {
	char *local_hostname, *metadata_server, *master_server_addr, *tenant_id;
	uint64_t global_segment_size, local_buffer_size;
	char *protocol, *rdma_devices, *auto_discovery, *device_filters;
	bool force_tcp;
	uint64_t client_min_port, client_max_port;
	uint64_t rpc_timeout, connect_timeout, replica_timeout; /* ms */
	uint64_t drain_timeout;                                 /* ms */
	uint64_t location_cache;
	uint64_t local_hot_cache_size, local_hot_block_size;
	uint64_t local_hot_admission_threshold;
	char *pin_memory;
	uint64_t pin_memory_max_bytes;

	bool enable_client_http_server, insecure;
	uint64_t client_http_port;
	char *allow_host; /* of HTTP requests: tei_http_config */

	/* Accepted: nothing here depends on them. */
	char *ipc_socket_path, *ssd_offload_path;
	bool enable_ssd_offload;
};

#define ROW(field) TEI_SETTING(struct wanted, field)

/* clang-format off */
const struct tei_setting tes_pairs_rows[] = {
	{ ROW(local_hostname), .type = TEI_CONF_STRING, .def = "",
	  .help = "name by which others reach this client, host or host:port; "
		  "must be given" },
	{ ROW(metadata_server), .type = TEI_CONF_STRING, .def = "",
	  .help = "directory of names: P2PHANDSHAKE (none), http://, etcd://, "
		  "redis://, host:port (etcd); must be given" },
	{ ROW(master_server_addr), .alias = "master_server_address",
	  .type = TEI_CONF_STRING, .def = "127.0.0.1:50051",
	  .help = "the master, host:port" },
	{ ROW(tenant_id), .type = TEI_CONF_STRING, .def = "default",
	  .help = "whose keys are meant" },
	{ ROW(global_segment_size), .type = TEI_CONF_SIZE, .def = "16 MB",
	  .max = (double)TE_LENGTH_MAX,
	  .help = "memory lent to the pool; 0: none" },
	{ ROW(local_buffer_size), .type = TEI_CONF_SIZE, .def = "16 MB",
	  .max = 1099511627776.0,
	  .help = "memory for values that are fetched without giving any" },
	{ ROW(protocol), .type = TEI_CONF_CHOICE, .def = "tcp",
	  .choices = "tcp|rdma|efa|nvlink_intra|nvlink",
	  .help = "how bytes move; rdma, or efa (by libfabric), without such a "
		  "device, nvlink_intra, nvlink: as tcp" },
	{ ROW(rdma_devices), .alias = "device_name", .type = TEI_CONF_STRING,
	  .def = "", .help = "with rdma, efa: those to use" },
	{ ROW(auto_discovery), .expert = true, .env = "MC_MS_AUTO_DISC",
	  .type = TEI_CONF_STRING, .def = "",
	  .help = "with rdma: 1: use those of device_filters, whatever "
		  "rdma_devices says; 0: rdma_devices must name some; default: "
		  "1 if it names none" },
	{ ROW(device_filters), .expert = true, .env = "MC_MS_FILTERS",
	  .type = TEI_CONF_STRING, .def = "",
	  .help = "with auto_discovery: those to use (a,b); default: all" },
	{ ROW(force_tcp), .env = "MC_FORCE_TCP", .type = TEI_CONF_BOOL,
	  .def = "0", .help = "tcp, whatever the protocol is" },
	{ ROW(client_min_port), .expert = true,
	  .env = "MC_STORE_CLIENT_MIN_PORT",
	  .type = TEI_CONF_UINT, .def = "12300", .min = 1, .max = 65535,
	  .help = "first of the ports for a name without one" },
	{ ROW(client_max_port), .expert = true,
	  .env = "MC_STORE_CLIENT_MAX_PORT",
	  .type = TEI_CONF_UINT, .def = "14300", .min = 1, .max = 65535,
	  .help = "last of them" },
	{ ROW(rpc_timeout), .env = "MC_RPC_TIMEOUT_MS",
	  .type = TEI_CONF_DURATION, .def = "1s", .min = 1,
	  .max = TIMEOUT_MAX_MS, .help = "of a call to the master" },
	{ ROW(connect_timeout), .expert = true,
	  .env = "MC_RPC_CONNECT_TIMEOUT_MS",
	  .type = TEI_CONF_DURATION, .def = "5s", .min = 1,
	  .max = TIMEOUT_MAX_MS, .help = "to reach the master first" },
	{ ROW(replica_timeout), .expert = true,
	  .env = "TE_REPLICA_TIMEOUT",
	  .type = TEI_CONF_DURATION, .def = "1s", .min = 1,
	  .max = TIMEOUT_MAX_MS,
	  .help = "of reading one replica, plus 16 ms for each MiB that the "
		  "call reads" },
	{ ROW(drain_timeout), .env = "TE_DRAIN_TIMEOUT",
	  .type = TEI_CONF_DURATION, .def = "10s", .max = TES_DRAIN_MAX_MS,
	  .help = "when it is closed: for how long, at most, what is here is "
		  "moved to others first; 0: not at all" },
	TES_CACHE_ROWS(struct wanted),
	TES_PIN_ROWS(struct wanted),

	{ ROW(ipc_socket_path), .type = TEI_CONF_STRING, .def = "",
	  .hidden = true, .help = "accepted, no meaning here" },
	{ ROW(enable_ssd_offload), .type = TEI_CONF_BOOL, .def = "0",
	  .hidden = true, .help = "accepted, no meaning here" },
	{ ROW(ssd_offload_path), .type = TEI_CONF_STRING, .def = "",
	  .hidden = true, .help = "accepted, no meaning here" },
	{ ROW(enable_client_http_server), .type = TEI_CONF_BOOL, .def = "0",
	  .help = "serve /health and /metrics over HTTP" },
	{ ROW(client_http_port), .type = TEI_CONF_UINT, .def = "9300",
	  .max = 65535, .help = "where; 0: any" },
	{ ROW(insecure), .env = "MOONCAKE_INSECURE", .type = TEI_CONF_BOOL,
	  .def = "0", .help = "serve other hosts over HTTP, too" },
	{ ROW(allow_host), .env = "MOONCAKE_ALLOW_HOST",
	  .type = TEI_CONF_STRING, .def = "",
	  .help = "HTTP requests may be for these names, too (a,b)" },
};
/* clang-format on */
const size_t tes_pairs_n_rows =
	sizeof(tes_pairs_rows) / sizeof(tes_pairs_rows[0]);

static int wrong(const char *key, const char *value, const char *why)
{
	LOG_ERROR("setup: %s '%s': %s", key, value, why);
	return TE_STORE_INVALID_PARAMS;
}

/* ---- reading ---- */

static bool is_switch(const struct tei_conf *c, const char *key)
{
	for (size_t i = 0; i < c->n; i++)
		if (!strcmp(c->rows[i].name, key))
			return c->rows[i].type == TEI_CONF_BOOL;
	return false;
}

/* @value without blanks around it; the caller's to free. */
static char *trimmed(const char *value)
{
	static const char blanks[] = " \t\r\n";
	char *text = tei_strdup(value + strspn(value, blanks));
	size_t len = text ? strlen(text) : 0;

	while (len && strchr(blanks, text[len - 1]))
		text[--len] = '\0';
	return text;
}

static int set_pair(struct tei_conf *c, const struct te_store_pair *pair)
{
	char why[TEI_CONF_ERROR_LEN], *value;
	int rc;

	if (!pair->key || !pair->value)
		return wrong(pair->key ? pair->key : "a key", "NULL",
			     "not a text");
	value = trimmed(pair->value);
	if (!value)
		return TE_STORE_INTERNAL_ERROR;
	rc = tei_conf_set(c, pair->key, value, why);
	tei_free(value);
	if (!rc)
		return 0;
	if (rc == -ENOMEM)
		return TE_STORE_INTERNAL_ERROR;
	if (rc == -ENOENT || is_switch(c, pair->key)) {
		LOG_WARN("setup: %s (ignored)", why);
		return 0;
	}
	LOG_ERROR("setup: %s", why);
	return TE_STORE_INVALID_PARAMS;
}

static int take_all(struct tei_conf *c, const struct te_store_pair *pairs,
		    size_t n)
{
	char text[TEI_CONF_ERROR_LEN];
	int code = 0;

	if (tei_conf_env(c, text)) {
		LOG_ERROR("setup: %s", text);
		return TE_STORE_INVALID_PARAMS;
	}
	for (size_t i = 0; !code && i < n; i++)
		code = set_pair(c, &pairs[i]);
	if (!code && tei_conf_ignored(c, text, sizeof(text)))
		LOG_WARN("setup: accepted, but without effect here: %s", text);
	return code;
}

static int check_size(const char *key, uint64_t size)
{
	char text[24];

	if (!size || size >= SIZE_MIN)
		return 0;
	(void)snprintf(text, sizeof(text), "%u", (unsigned int)size);
	return wrong(key, text, "should be 0, or 1024 bytes at least");
}

/* Checks what a row of settings cannot: values that depend on each other. */
static int check_wanted(const struct wanted *w)
{
	char host[TEI_HOST_LEN_MAX + 1];
	uint16_t port;
	int code;

	if (tei_name_split(w->local_hostname, host, &port))
		return wrong("local_hostname", w->local_hostname,
			     "should be host or host:port");
	if (!*w->metadata_server)
		return wrong("metadata_server", "", "must be given");
	if (tei_name_split(w->master_server_addr, host, &port) || !port)
		return wrong("master_server_addr", w->master_server_addr,
			     "should be host:port");
	if (!tes_tenant_holds(w->tenant_id))
		return wrong("tenant_id", w->tenant_id,
			     "should be at most 64 bytes, without control "
			     "characters, and not begin with _");
	if (w->client_min_port > w->client_max_port) {
		LOG_ERROR("setup: client_min_port is above client_max_port");
		return TE_STORE_INVALID_PARAMS;
	}
	code = check_size("global_segment_size", w->global_segment_size);
	return code ? code
		    : check_size("local_buffer_size", w->local_buffer_size);
}

/* ---- the engine ---- */

static int set_config(struct te_config *config, const char *name,
		      const char *value)
{
	char why[TEI_CONF_ERROR_LEN];
	int rc = te_config_set(config, name, value, why, sizeof(why));

	if (rc)
		LOG_ERROR("setup: %s", why);
	return rc ? -EINVAL : 0;
}

/* Mooncake's rules: a switch that is neither 0 nor 1 is as if it were unset. */
static bool discovers(const struct wanted *w)
{
	if (!strcmp(w->auto_discovery, "1"))
		return true;
	if (!strcmp(w->auto_discovery, "0"))
		return false;
	if (*w->auto_discovery)
		LOG_WARN("setup: auto_discovery '%s': should be 0 or 1 "
			 "(ignored)",
			 w->auto_discovery);
	return !*w->rdma_devices;
}

/* The backend that the protocol wants devices of; NULL: none. */
static const char *backend_of(const struct wanted *w)
{
	if (w->force_tcp)
		return NULL;
	if (!strcmp(w->protocol, "rdma"))
		return "verbs";
	return !strcmp(w->protocol, "efa") ? "ofi" : NULL;
}

/*
 * Picks the devices to use, "" for all: logged where another setting has named
 * some in vain. 0, -600.
 */
static int pick_devices(const struct wanted *w, const char **out)
{
	*out = "";
	if (!backend_of(w))
		return 0;
	if (discovers(w)) {
		*out = w->device_filters;
		if (*w->rdma_devices)
			LOG_INFO("setup: rdma_devices '%s': not looked at, "
				 "since auto_discovery (MC_MS_AUTO_DISC) is 1",
				 w->rdma_devices);
		return 0;
	}
	*out = w->rdma_devices;
	if (*w->device_filters)
		LOG_WARN("setup: device_filters '%s' (MC_MS_FILTERS): ignored, "
			 "for devices are not discovered: set "
			 "MC_MS_AUTO_DISC=1, or give no rdma_devices",
			 w->device_filters);
	if (**out)
		return 0;
	return wrong(
		"rdma_devices", "",
		"must be given, for auto_discovery (MC_MS_AUTO_DISC) is 0");
}

static int configure(struct te_config *config, const struct wanted *w)
{
	char etcd[512];
	const char *devices;
	int rc = set_config(config, "protocol", w->protocol);

	if (!rc && w->force_tcp)
		rc = set_config(config, "backends", "tcp");
	if (!rc && pick_devices(w, &devices))
		rc = -EINVAL;
	if (!rc && *devices)
		rc = set_config(config,
				!strcmp(backend_of(w), "ofi") ? "ofi.devices"
							      : "verbs.devices",
				devices);
	if (rc)
		return rc;
	if (strstr(w->metadata_server, "://") ||
	    !strcmp(w->metadata_server, "P2PHANDSHAKE"))
		return set_config(config, "metadata_server",
				  w->metadata_server);
	if ((size_t)snprintf(etcd, sizeof(etcd), "etcd://%s",
			     w->metadata_server) >= sizeof(etcd))
		return -EINVAL;
	return set_config(config, "metadata_server", etcd);
}

/*
 * Tells whether the engine could listen there, as far as one can tell before.
 */
static bool is_free(uint16_t port)
{
	struct sockaddr_in6 any6 = {.sin6_family = AF_INET6,
				    .sin6_port = htons(port)};
	struct sockaddr_in any = {.sin_family = AF_INET,
				  .sin_port = htons(port)};
	bool v6 = true, is;
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), off = 0;

	if (fd < 0) {
		v6 = false;
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	}
	if (fd < 0)
		return true;
	if (v6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off,
				 sizeof(off));
	is = v6 ? !bind(fd, (const struct sockaddr *)&any6, sizeof(any6))
		: !bind(fd, (const struct sockaddr *)&any, sizeof(any));
	(void)close(fd);
	return is;
}

/*
 * Ports of the range in turn, beginning anywhere; at last the kernel chooses.
 */
static int create_in_range(const struct te_config *config,
			   const struct wanted *w, const char *host,
			   struct te_engine **out)
{
	uint64_t n = w->client_max_port - w->client_min_port + 1;
	uint64_t seed = tei_now_ns() ^ (uint64_t)getpid() << 32;
	uint64_t first = tei_chance(&seed) % n;
	char name[TEI_NAME_LEN_MAX + 1];
	uint16_t port;
	int rc;

	for (uint64_t i = 0; i < n && i < PORTS_MAX; i++) {
		port = (uint16_t)(w->client_min_port + (first + i) % n);
		if (!is_free(port))
			continue;
		tei_name_join(host, port, name);
		rc = te_engine_create(config, name, out);
		if (rc != -EADDRINUSE)
			return rc;
	}
	tei_name_join(host, 0, name);
	return te_engine_create(config, name, out);
}

static int create_engine(const struct wanted *w, struct te_engine **out)
{
	char host[TEI_HOST_LEN_MAX + 1];
	struct te_config *config;
	uint16_t port;
	int rc = te_config_create(&config);

	if (rc)
		return TE_STORE_INTERNAL_ERROR;
	rc = configure(config, w);
	if (!rc && !tei_name_split(w->local_hostname, host, &port) && !port)
		rc = create_in_range(config, w, host, out);
	else if (!rc)
		rc = te_engine_create(config, w->local_hostname, out);
	te_config_destroy(config);
	if (rc)
		LOG_ERROR("setup: no engine '%s': %s", w->local_hostname,
			  te_strerror(rc));
	return rc == -EINVAL ? TE_STORE_INVALID_PARAMS
	       : rc          ? TE_STORE_INTERNAL_ERROR
			     : 0;
}

/* The protocol must be the one of the engine that the caller brings. */
static int check_protocol(const struct wanted *w, struct te_engine *engine)
{
	const char *devices, *backend = backend_of(w);
	int code;

	if (!backend || te_engine_has_backend(engine, backend))
		return 0;
	code = pick_devices(w, &devices);
	if (code)
		return code;
	if (*devices)
		return wrong("rdma_devices", devices,
			     "there is no such device");
	LOG_WARN("setup: no %s device: bytes go by tcp, and by shared memory "
		 "on this host",
		 strcmp(backend, "ofi") != 0 ? "RDMA" : "libfabric");
	return 0;
}

/* ---- joining ---- */

static int join_pool(const struct wanted *w, struct te_engine *engine,
		     struct te_store **out)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = (uint32_t)w->rpc_timeout,
		.setup_timeout_ms = (uint32_t)w->connect_timeout,
		.replica_timeout_ms = (uint32_t)w->replica_timeout,
		.master = w->master_server_addr,
		.tenant = w->tenant_id,
		.segment_bytes = w->global_segment_size,
		.local_buffer_bytes = w->local_buffer_size,
		.drain_timeout_ms = (uint32_t)w->drain_timeout,
		.location_cache_entries = (uint32_t)w->location_cache,
		.hot_cache_bytes = w->local_hot_cache_size,
		.hot_cache_value_bytes = w->local_hot_block_size,
		.hot_cache_threshold =
			(uint32_t)w->local_hot_admission_threshold,
		.pin_mib = tes_pin_mib(w->pin_memory, w->pin_memory_max_bytes),
		.engine = engine,
	};

	return te_store_setup(&config, out);
}

static void serve_http(const struct wanted *w, struct te_store *store)
{
	if (w->enable_client_http_server)
		(void)tes_store_http_start(store, (uint16_t)w->client_http_port,
					   w->insecure, w->allow_host);
}

static int setup(const struct wanted *w, struct te_engine *engine,
		 struct te_store **out)
{
	bool own = !engine;
	int code = check_wanted(w);

	if (!code && w->enable_ssd_offload)
		LOG_WARN("setup: enable_ssd_offload: there are no disks here, "
			 "values are in memory alone");

	if (!code)
		code = own ? create_engine(w, &engine)
			   : check_protocol(w, engine);
	if (code)
		return code;
	code = join_pool(w, engine, out);
	if (!code) /* without its port, which was logged, the store works */
		serve_http(w, *out);
	if (!own)
		return code;
	if (code)
		te_engine_destroy(engine);
	else /* closing it ends the engine, too */
		(*out)->own_engine = true;
	return code;
}

int te_store_setup_pairs(const struct te_store_pair *pairs, size_t n,
			 struct te_engine *engine, struct te_store **out)
{
	struct wanted wanted;
	struct tei_conf conf;
	int code;

	if ((!pairs && n) || !out)
		return wrong("pairs", "NULL", "must be given");
	if (tei_conf_init(&conf, tes_pairs_rows, tes_pairs_n_rows, &wanted))
		return TE_STORE_INTERNAL_ERROR;
	code = take_all(&conf, pairs, n);
	if (!code)
		code = setup(&wanted, engine, out);
	tei_conf_fini(&conf);
	return code;
}

/* ---- pinned memory of others ---- */

struct pinning {
	char *pin_memory;
	uint64_t pin_memory_max_bytes;
};

static const struct tei_setting pin_rows[] = {TES_PIN_ROWS(struct pinning)};

uint32_t te_store_pin_mib(void)
{
	char why[TEI_CONF_ERROR_LEN];
	struct pinning pinning;
	struct tei_conf conf;
	uint32_t mib = 0;

	if (tei_conf_init(&conf, pin_rows,
			  sizeof(pin_rows) / sizeof(pin_rows[0]), &pinning))
		return 0;
	if (tei_conf_env(&conf, why))
		LOG_WARN("setup: %s: no memory is pinned", why);
	else
		mib = tes_pin_mib(pinning.pin_memory,
				  pinning.pin_memory_max_bytes);
	tei_conf_fini(&conf);
	return mib;
}
