/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mooncake_client.c - an owner of its own: lends memory to the pool
 *
 * Joins, prints where it serves, stays, comes back by itself when the master
 * restarts. On SIGTERM and SIGINT it has what it holds moved to others, for a
 * while, and ends; at once when the signal comes again. Serves dummy clients,
 * processes of this host that have no engine. Exit codes: 0 ended as asked, 1
 * broke while starting, 2 its settings are wrong.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <te/store.h>
#include <time.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/glog.h"
#include "base/log.h"
#include "base/net.h"
#include "base/thread.h"
#include "store/api/pairs.h"
#include "store/daemon/agent.h"

struct client_settings {
	char *config_path;
	char *host;
	uint64_t port, engine_port;
	char *master_server_address, *metadata_server, *tenant_id;
	char *protocol, *device_names, *pin_memory;
	uint64_t pin_memory_max_bytes;
	bool force_tcp;
	uint64_t global_segment_size, local_buffer_size;
	char *socket_path, *socket_group;
	uint64_t threads, dummy_memory_max, dummy_memory_each_max;
	uint64_t location_cache;
	uint64_t local_hot_cache_size, local_hot_block_size;
	uint64_t local_hot_admission_threshold;
	bool enable_http_server;
	uint64_t http_port;
	bool insecure;
	char *allow_uids;
	char *allow_host; /* of HTTP requests: tei_http_config */
	uint64_t call_timeout, replica_timeout; /* ms */
	uint64_t drain_timeout;                 /* ms */
	uint64_t v;

	/* Accepted: nothing here depends on them. */
	bool enable_offload, start_offload_rpc_server;
	struct tei_glog glog;
};

#define TIMEOUT_MAX_MS 86400000.0 /* of a store's calls: a day */

#define ROW(field) TEI_SETTING(struct client_settings, field)

/* clang-format off */
static const struct tei_setting rows[] = {
	{ ROW(config_path), .type = TEI_CONF_STRING, .group = "file",
	  .file = tei_conf_file,
	  .help = "YAML or JSON file of settings, named as here" },

	{ ROW(host), .group = "network", .type = TEI_CONF_STRING, .def = "0.0.0.0",
	  .help = "name by which others reach this host; 0.0.0.0: 127.0.0.1, so that "
		  "only processes here do" },
	{ ROW(port), .type = TEI_CONF_UINT, .def = "50052", .max = 65535,
	  .help = "where dummy clients ask for their socket; 0: any free one" },
	{ ROW(engine_port), .type = TEI_CONF_UINT, .def = "0", .max = 65535,
	  .help = "port for other clients; 0: any free one" },
	{ ROW(master_server_address), .type = TEI_CONF_STRING,
	  .def = "127.0.0.1:50051", .help = "the master, host:port" },
	{ ROW(metadata_server), .type = TEI_CONF_STRING,
	  .def = "http://127.0.0.1:8080/metadata",
	  .help = "directory to publish the name in; P2PHANDSHAKE: none" },
	{ ROW(tenant_id), .type = TEI_CONF_STRING, .def = "default",
	  .help = "whose keys its dummy clients mean" },
	{ ROW(protocol), .type = TEI_CONF_CHOICE, .def = "tcp",
	  .choices = "tcp|rdma|efa|nvlink_intra|nvlink",
	  .help = "how bytes move; rdma, or efa (by libfabric), without such a "
		  "device, nvlink_intra, nvlink: as tcp" },
	{ ROW(device_names), .alias = "device_name", .type = TEI_CONF_STRING, .def = "",
	  .help = "with rdma, efa: those to use, a list with commas" },
	{ ROW(force_tcp), .env = "MC_FORCE_TCP", .type = TEI_CONF_BOOL, .def = "0",
	  .help = "tcp, whatever the protocol is" },
	{ ROW(socket_path), .env = "MOONCAKE_CLIENT_SOCKET",
	  .type = TEI_CONF_STRING, .def = "",
	  .help = "unix socket for dummy clients; empty: client-PORT.sock in "
		  "the user's runtime directory" },
	{ ROW(socket_group), .type = TEI_CONF_STRING, .def = "",
	  .help = "members of this group are served too; empty: only this user" },
	{ ROW(threads), .expert = true,
	  .type = TEI_CONF_UINT, .def = "1", .min = 1, .max = 64,
	  .help = "calls of dummy clients at a time; 1: as many as there are "
		  "CPUs, 4 at least" },
	{ ROW(dummy_memory_max), .expert = true,
	  .type = TEI_CONF_SIZE, .def = "1 TB",
	  .help = "memory of all dummy clients together" },
	{ ROW(dummy_memory_each_max), .expert = true,
	  .type = TEI_CONF_SIZE, .def = "256 GB",
	  .help = "memory of one dummy client, touched or not" },
	{ ROW(enable_http_server), .type = TEI_CONF_BOOL, .def = "0",
	  .help = "serve /health, /metrics and /metrics/summary" },
	{ ROW(http_port), .type = TEI_CONF_UINT, .def = "9300", .max = 65535,
	  .help = "where; 0: any free port" },
	{ ROW(call_timeout), .expert = true,
	  .type = TEI_CONF_DURATION, .def = "1", .unit = "s",
	  .min = 1, .max = TIMEOUT_MAX_MS,
	  .help = "of one call to the master" },
	{ ROW(replica_timeout), .expert = true,
	  .type = TEI_CONF_DURATION, .def = "1",
	  .unit = "s", .min = 1, .max = TIMEOUT_MAX_MS,
	  .help = "of reading from one owner, plus 16 ms for each MiB of a "
		  "batch" },
	{ ROW(insecure), .env = "MOONCAKE_INSECURE", .type = TEI_CONF_BOOL,
	  .def = "0",
	  .help = "serve everybody, other hosts too, without any key" },
	{ ROW(allow_uids), .env = "MOONCAKE_ALLOW_UIDS",
	  .type = TEI_CONF_UIDS, .def = "",
	  .help = "users of this host to serve beside its own and root (1000,2000-2999 or any)" },
	{ ROW(allow_host), .env = "MOONCAKE_ALLOW_HOST",
	  .type = TEI_CONF_STRING, .def = "",
	  .help = "HTTP requests may be for these names, too (a,b)" },

	{ ROW(global_segment_size), .group = "memory", .type = TEI_CONF_SIZE, .def = "4 GB",
	  .min = 1, .max = 1099511627776.0, .help = "memory lent to the pool" },

	{ ROW(local_buffer_size), .type = TEI_CONF_SIZE, .def = "0",
	  .max = 1099511627776.0,
	  .help = "memory for values that dummy clients get without giving any; "
		  "0: they take theirs" },
	TES_CACHE_ROWS(struct client_settings),
	TES_PIN_ROWS(struct client_settings),

	{ ROW(drain_timeout), .type = TEI_CONF_DURATION, .def = "10",
	  .unit = "s", .max = 600000,
	  .help = "on SIGTERM and SIGINT: for how long, at most, what is here is "
		  "moved to others; 0: not at all" },

	{ ROW(v), .group = "observation", .type = TEI_CONF_UINT, .def = "0", .max = 9,
	  .help = "verbosity: 0 a handful of lines, 1 a line per object" },

	{ ROW(enable_offload), .type = TEI_CONF_BOOL, .def = "0",
	  .hidden = true, .help = "accepted, no meaning here" },
	{ ROW(start_offload_rpc_server), .type = TEI_CONF_BOOL, .def = "1",
	  .hidden = true, .help = "accepted, no meaning here" },
	TEI_GLOG_ROWS(struct client_settings),
};
/* clang-format on */

#define ABOUT                                                                \
	"An owner of the key/value pool: lends memory of this host to it, "  \
	"and serves processes here that have no engine of their own (dummy " \
	"clients), until SIGTERM or SIGINT."

#define THREADS_MIN 4
#define STOP_MS     1000 /* of the 2 s that ending may take */
#define TENANT_MAX  64   /* bytes */

#define SOCKET_PATH_MAX sizeof(((struct sockaddr_un *)NULL)->sun_path)

/* ---- starting ---- */

/*
 * While the engine starts, its last error is kept for the line that we print;
 * others go to stderr.
 */
static atomic_bool starting = true;
static char cause[256];

static void on_line(int level, const char *line, void *arg)
{
	(void)arg;
	if (atomic_load(&starting) && level <= TEI_LOG_ERROR)
		(void)snprintf(cause, sizeof(cause), "%s", line);
	else
		tei_log_line(level, line);
}

static bool is_wildcard(const char *host)
{
	return !*host || strcmp(host, "0.0.0.0") == 0 ||
	       strcmp(host, "::") == 0;
}

static int refuse_setting(const char *setting, const char *value,
			  const char *why)
{
	(void)fprintf(stderr, "mooncake_client: --%s %s: %s\n", setting, value,
		      why);
	return 2;
}

static int bad_engine(const struct client_settings *s, const char *name, int rc)
{
	/* How a line of the engine begins, and the setting that it is about. */
	const struct {
		const char *begin, *setting, *value;
	} lines[] = {
		{"metadata_server: ", "metadata_server", s->metadata_server},
		{"verbs.devices: ", "device_names", s->device_names},
		{"ofi.devices: ", "device_names", s->device_names},
	};
	char port[16];

	(void)snprintf(port, sizeof(port), "%u", (unsigned int)s->engine_port);
	if (rc == -EADDRINUSE)
		return refuse_setting("engine_port", port,
				      "the port is in use");
	if (rc == -EACCES)
		return refuse_setting("engine_port", port,
				      "no permission for this port");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		size_t n = strlen(lines[i].begin);

		if (!strncmp(cause, lines[i].begin, n))
			return refuse_setting(lines[i].setting, lines[i].value,
					      cause + n);
	}
	return refuse_setting("host", name, *cause ? cause : te_strerror(rc));
}

/* The name is what others will look up: if we cannot, they can hardly. */
static int check_host(const char *host)
{
	struct tei_address address;
	int rc;

	if (strlen(host) > TEI_HOST_LEN_MAX)
		return refuse_setting("host", host, "too long");
	rc = tei_resolve(host, 0, &address, 1);
	if (rc == -EHOSTUNREACH)
		return refuse_setting("host", host, "no such host");
	return rc < 0 ? refuse_setting("host", host, te_strerror(rc)) : 0;
}

static int configure(const struct client_settings *s, struct te_config *config)
{
	int rc = te_config_set(config, "protocol", s->protocol, NULL, 0);

	if (!rc && s->force_tcp)
		rc = te_config_set(config, "backends", "tcp", NULL, 0);
	else if (!rc && *s->device_names && !strcmp(s->protocol, "rdma"))
		rc = te_config_set(config, "verbs.devices", s->device_names,
				   NULL, 0);
	else if (!rc && *s->device_names && !strcmp(s->protocol, "efa"))
		rc = te_config_set(config, "ofi.devices", s->device_names, NULL,
				   0);
	if (!rc && s->insecure)
		rc = te_config_set(config, "insecure", "true", NULL, 0);
	if (!rc)
		rc = te_config_set(config, "allow_uids", s->allow_uids, NULL,
				   0);
	if (!rc)
		rc = te_config_set(config, "metadata_server",
				   s->metadata_server, NULL, 0);
	return rc;
}

static int open_engine(const struct client_settings *s, struct te_engine **out)
{
	const char *host = is_wildcard(s->host) ? "127.0.0.1" : s->host;
	char name[TEI_NAME_LEN_MAX + 1];
	struct te_config *config = NULL;
	int rc;

	tei_name_join(host, (uint16_t)s->engine_port, name);
	rc = te_config_create(&config);
	if (!rc)
		rc = configure(s, config);
	if (!rc)
		rc = te_engine_create(config, name, out);
	te_config_destroy(config);
	return rc ? bad_engine(s, name, rc) : 0;
}

static int join_pool(const struct client_settings *s, struct te_engine *engine,
		     struct te_store **out)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.setup_timeout_ms = TE_STORE_NO_WAIT,
		.call_timeout_ms = (uint32_t)s->call_timeout,
		.replica_timeout_ms = (uint32_t)s->replica_timeout,
		.master = s->master_server_address,
		.tenant = s->tenant_id,
		.segment_bytes = s->global_segment_size,
		.location_cache_entries = (uint32_t)s->location_cache,
		.hot_cache_bytes = s->local_hot_cache_size,
		.hot_cache_value_bytes = s->local_hot_block_size,
		.hot_cache_threshold =
			(uint32_t)s->local_hot_admission_threshold,
		.pin_mib = tes_pin_mib(s->pin_memory, s->pin_memory_max_bytes),
		.engine = engine,
	};
	int code = te_store_setup(&config, out);

	if (!code)
		return 0;
	(void)fprintf(stderr, "mooncake_client: cannot start: %s\n",
		      te_store_strerror(code));
	return 1;
}

static bool master_holds(const char *master)
{
	char host[TEI_HOST_LEN_MAX + 1];
	uint16_t port;

	return !tei_name_split(master, host, &port) && port;
}

/* Checks a name by the rules of te_store_config.tenant. */
static bool tenant_holds(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
			return false;
	return len <= TENANT_MAX && *name != '_';
}

/* Check what the rows cannot say. */
static int check_settings(const struct client_settings *s)
{
	if (!master_holds(s->master_server_address))
		return refuse_setting("master_server_address",
				      s->master_server_address,
				      "should be host:port");
	if (!tenant_holds(s->tenant_id))
		return refuse_setting(
			"tenant_id", s->tenant_id,
			"should be at most 64 bytes, without control "
			"characters, and not begin with _");
	/* Dummy clients are told it, wherever they run. */
	if (*s->socket_path && *s->socket_path != '/')
		return refuse_setting("socket_path", s->socket_path,
				      "should be an absolute path");
	if (strlen(s->socket_path) >= SOCKET_PATH_MAX)
		return refuse_setting("socket_path", s->socket_path,
				      "is longer than a socket's path can be");
	if (*s->socket_group && !*s->socket_path)
		return refuse_setting(
			"socket_group", s->socket_group,
			"needs a socket_path that its members can "
			"reach");
	return 0;
}

/* ---- serving ---- */

/* Waits until mounted; true when a signal came first. */
static bool wait_mounted(struct te_store *store, const sigset_t *set)
{
	const struct timespec step = {.tv_nsec = 20 * 1000 * 1000};

	while (te_store_health(store))
		if (sigtimedwait(set, NULL, &step) > 0)
			return true;
	return false;
}

/* ---- dummy clients ---- */

/* While nothing has begun yet; what is wrong has been said. */
static int check_port(const struct client_settings *s)
{
	uint16_t port;
	int fd;

	if (!s->port)
		return 0;
	fd = tei_listen(is_wildcard(s->host) ? NULL : s->host,
			(uint16_t)s->port, "port", &port);
	if (fd < 0)
		return 2;
	(void)close(fd);
	return 0;
}

static unsigned int n_threads(const struct client_settings *s)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	if (s->threads > 1)
		return (unsigned int)s->threads;
	return n > THREADS_MIN ? (unsigned int)n : THREADS_MIN;
}

static int start_http(const struct client_settings *s, struct tes_agent *agent)
{
	const char *host = is_wildcard(s->host) ? NULL : s->host;
	uint16_t port;
	int rc;

	if (!s->enable_http_server)
		return 0;
	rc = tes_agent_http(agent, host, (uint16_t)s->http_port, s->insecure,
			    s->allow_host, &port);
	if (rc < 0)
		return rc; /* it has said why */
	LOG_INFO("mooncake_client: HTTP on port %u", (unsigned int)port);
	return 0;
}

/* A client that only lends memory needs no socket: then *out is NULL. */
static int start_agent(const struct client_settings *s, struct te_store *store,
		       struct tes_agent **out)
{
	struct tes_agent_config config = {
		.store = store,
		.port = (uint16_t)s->port,
		.host = is_wildcard(s->host) ? NULL : s->host,
		.insecure = s->insecure,
		.allow_uids = s->allow_uids,
		.socket_path = s->socket_path,
		.socket_group = s->socket_group,
		.n_threads = n_threads(s),
		.memory_max = s->dummy_memory_max,
		.memory_each_max = s->dummy_memory_each_max,
		.buffers_max = s->local_buffer_size,
	};
	bool asked =
		*s->socket_path || *s->socket_group || s->enable_http_server;

	*out = NULL;
	if (tes_agent_start(&config, out)) {
		LOG_WARN("mooncake_client: dummy clients are not served");
		return asked ? 2 : 0;
	}
	if (!start_http(s, *out))
		return 0;
	(void)tes_agent_stop(*out, STOP_MS);
	return 2;
}

/* ---- leaving ---- */

/* The process is told to end once more, or cannot wait: it ends as it is. */
static void end_at_once(const char *why)
{
	LOG_WARN("mooncake_client: %s", why);
	(void)fflush(stdout);
	_exit(0);
}

struct second_signal {
	const sigset_t *set; /* blocked in every thread */
	atomic_bool unwanted;
};

static void *await_second_signal(void *arg)
{
	struct second_signal *s = arg;
	int number;

	(void)sigwait(s->set, &number);
	if (!atomic_load(&s->unwanted))
		end_at_once("told to end twice: what was not moved to others "
			    "is lost");
	return NULL;
}

/* Move what is here to others, unless the signal comes a second time. */
static void drain(const struct client_settings *s, struct te_store *store,
		  const sigset_t *set)
{
	struct second_signal second = {.set = set};
	pthread_t thread;

	if (!s->drain_timeout || te_store_health(store) ||
	    tei_thread_start(&thread, "signals", await_second_signal, &second))
		return;
	LOG_INFO("mooncake_client: moving objects to other owners, for at most "
		 "%llu ms",
		 (unsigned long long)s->drain_timeout);
	(void)te_store_drain(store, NULL, (uint32_t)s->drain_timeout, NULL);
	atomic_store(&second.unwanted, true);
	(void)pthread_kill(thread, SIGINT); /* wakes it */
	(void)pthread_join(thread, NULL);
}

/* Calls that do not end in time end with the process. */
static void stop_agent(struct tes_agent *agent)
{
	if (!agent || tes_agent_stop(agent, STOP_MS))
		return;
	end_at_once("calls of dummy clients are cut off");
}

static void serve_pool(const struct client_settings *s, struct te_store *store,
		       const sigset_t *set)
{
	if (wait_mounted(store, set))
		return;
	/* Scripts wait for this very line. */
	printf("client %s serves %llu bytes\n", te_store_hostname(store),
	       (unsigned long long)s->global_segment_size);
	(void)fflush(stdout);
	while (sigwaitinfo(set, NULL) < 0 && errno == EINTR)
		;
}

static int serve_until_signal(const struct client_settings *s,
			      struct te_store *store, const sigset_t *set)
{
	struct tes_agent *agent;
	int code = start_agent(s, store, &agent);

	if (code)
		return code;
	serve_pool(s, store, set);
	stop_agent(agent);
	drain(s, store, set);
	return 0;
}

static void warn_about(const struct tei_conf *conf)
{
	const struct client_settings *s = conf->values;
	char names[512];

	if (tei_conf_ignored(conf, names, sizeof(names)))
		LOG_WARN("mooncake_client: accepted without effect: %s", names);
	if (s->insecure)
		LOG_WARN("mooncake_client: insecure: every host and user is "
			 "served");
	if (s->insecure && is_wildcard(s->host))
		LOG_WARN("mooncake_client: host %s: other hosts cannot reach "
			 "what is here: set --host to an address of this host",
			 s->host);
}

static int run_client(const struct tei_conf *conf)
{
	const struct client_settings *s = conf->values;
	struct te_engine *engine = NULL;
	struct te_store *store;
	sigset_t set;
	int code = check_settings(s);

	if (code)
		return code;
	/* Before there are threads, so that none of them takes one. */
	tei_end_signals_block(&set);
	te_log_set(on_line, NULL);
	te_log_set_level(s->v ? TEI_LOG_DEBUG : TEI_LOG_INFO);
	tei_log_set_level(s->v ? TEI_LOG_DEBUG : TEI_LOG_INFO);
	code = check_host(is_wildcard(s->host) ? "127.0.0.1" : s->host);
	if (!code)
		code = check_port(s);
	if (!code)
		code = open_engine(s, &engine);
	if (code)
		return code;
	atomic_store(&starting, false);
	warn_about(conf);
	code = join_pool(s, engine, &store);
	if (!code) {
		code = serve_until_signal(s, store, &set);
		te_store_close(store);
	}
	te_engine_destroy(engine);
	return code;
}

int main(int argc, char **argv)
{
	struct client_settings settings;
	struct tei_conf conf = {rows, sizeof(rows) / sizeof(rows[0]),
				&settings};

	return tei_conf_program(&conf, argc, argv, ABOUT, run_client);
}
