/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.c - engines: created, named, given back
 */
#include "compat/engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compat/handle/handle.h"

#define TIMEOUT_S     30L
#define TIMEOUT_MIN_S 5L
#define TIMEOUT_MAX_S (7L * 24 * 3600)

static struct mc_table engines = MC_TABLE_INIT;
/* Guards the flags of those who wait for an engine to be gone. */
static pthread_mutex_t gone_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gone_cond = PTHREAD_COND_INITIALIZER;

static void destroy(struct mc_engine *e)
{
	mc_batches_end(e);
	te_engine_destroy(e->te);
	mc_segments_free(e);
	free(e->regions);
	(void)pthread_cond_destroy(&e->left);
	(void)pthread_mutex_destroy(&e->mutex);
	free(e);
}

struct mc_engine *mc_engine_pin(transfer_engine_t handle, const char *function)
{
	struct mc_engine *e = mc_table_pin(&engines, (uintptr_t)handle);

	if (!e)
		mc_warn(function, "%p is no engine (any more)", handle);
	return e;
}

void mc_engine_unpin(struct mc_engine *engine)
{
	struct mc_engine *last = mc_table_unpin(&engines, engine->handle);
	bool *is_gone;

	if (!last)
		return;
	is_gone = last->is_gone;
	destroy(last);
	(void)pthread_mutex_lock(&gone_mutex);
	if (is_gone)
		*is_gone = true;
	(void)pthread_cond_broadcast(&gone_cond);
	(void)pthread_mutex_unlock(&gone_mutex);
}

/* A setting from the environment: on unless it is "", 0, false, off or no. */
bool mc_is_on(const char *variable)
{
	static const char *const off[] = {"", "0", "false", "off", "no"};
	const char *value = getenv(variable);

	for (size_t i = 0; value && i < sizeof(off) / sizeof(off[0]); i++)
		if (!strcmp(value, off[i]))
			return false;
	return value != NULL;
}

static bool is_p2p(const char *metadata)
{
	return !metadata || !*metadata || !strcmp(metadata, "P2PHANDSHAKE");
}

static int set_config(struct te_config *config, const char *name,
		      const char *value)
{
	char why[256];
	int rc = te_config_set(config, name, value, why, sizeof(why));

	if (rc)
		mc_warn("createTransferEngine", "%s", why);
	return rc;
}

/* Time to wait for a peer that is away, in seconds; 0: unset. */
static long timeout_of_environment(void)
{
	const char *text = getenv("MC_TRANSFER_TIMEOUT");
	char *end;
	long seconds;

	if (!text || !*text)
		return 0;
	errno = 0;
	seconds = strtol(text, &end, 10);
	if (errno || *end || seconds > TIMEOUT_MAX_S) {
		mc_warn("createTransferEngine",
			"MC_TRANSFER_TIMEOUT \"%s\" is no number of seconds",
			text);
		return 0;
	}
	return seconds < TIMEOUT_MIN_S ? TIMEOUT_MIN_S : seconds;
}

static int set_timeout(struct mc_engine *e, struct te_config *config)
{
	long seconds = timeout_of_environment();
	char value[32];

	e->transfer_ms = (uint64_t)(seconds ? seconds : TIMEOUT_S) * 1000;
	if (!seconds)
		return 0;
	(void)snprintf(value, sizeof(value), "%lds", seconds);
	return set_config(config, "transfer_timeout", value);
}

static int configure(struct mc_engine *e, struct te_config *config,
		     const char *metadata)
{
	char etcd[512];
	int rc = set_timeout(e, config);

	if (!rc && mc_is_on("MC_FORCE_TCP"))
		rc = set_config(config, "backends", "tcp");
	if (rc || is_p2p(metadata))
		return rc;
	if (strstr(metadata, "://"))
		return set_config(config, "metadata_server", metadata);
	if ((size_t)snprintf(etcd, sizeof(etcd), "etcd://%s", metadata) >=
	    sizeof(etcd))
		return -ENAMETOOLONG;
	return set_config(config, "metadata_server", etcd);
}

/*
 * Returns where the port stands in "host:port", "[v6]:port"; its end if there
 * is none. An address of IPv6 without brackets has no port.
 */
static size_t host_length(const char *name)
{
	const char *colon = strrchr(name, ':');
	bool bare_v6 = colon && *name != '[' && strchr(name, ':') != colon;

	if (!colon || bare_v6 || (*name == '[' && colon[-1] != ']') ||
	    colon[1 + strspn(colon + 1, "0123456789")])
		return strlen(name);
	return (size_t)(colon - name);
}

static int create(struct mc_engine *e, const char *metadata, const char *name)
{
	char host[TE_NAME_LEN_MAX + 1];
	struct te_config *config;
	size_t len = strlen(name);
	int rc = te_config_create(&config);

	if (rc)
		return rc;
	/* With Mooncake ports of names are for the directory alone. */
	if (is_p2p(metadata) && !mc_is_on("MC_LEGACY_RPC_PORT_BINDING"))
		len = host_length(name);
	if (len > TE_NAME_LEN_MAX) {
		rc = -EINVAL;
	} else {
		memcpy(host, name, len);
		host[len] = '\0';
		rc = configure(e, config, metadata);
	}
	if (!rc)
		rc = te_engine_create(config, *host ? host : NULL, &e->te);
	te_config_destroy(config);
	return rc;
}

transfer_engine_t createTransferEngine(const char *metadata_conn_string,
				       const char *local_server_name,
				       const char *ip_or_host_name,
				       uint64_t rpc_port, int auto_discover)
{
	const char *name = local_server_name ? local_server_name : "";
	struct mc_engine *e = calloc(1, sizeof(*e));
	int rc = e ? create(e, metadata_conn_string, name) : -ENOMEM;

	(void)ip_or_host_name;
	(void)rpc_port;
	(void)auto_discover;
	if (rc) {
		mc_warn(__func__, "no engine \"%s\": %s", name,
			te_strerror(rc));
		free(e);
		return NULL;
	}
	(void)pthread_mutex_init(&e->mutex, NULL);
	(void)pthread_cond_init(&e->left, NULL);
	/* The handle is unknown to others before it is returned. */
	e->handle = mc_table_add(&engines, e);
	if (!e->handle) {
		mc_warn(__func__, "no engine \"%s\": no memory, or too many",
			name);
		destroy(e);
		return NULL;
	}
	return (transfer_engine_t)(uintptr_t)e->handle;
}

/* Returns when it is gone; one of several who give it back at once does. */
static void give_back(uint64_t handle)
{
	struct mc_engine *e = mc_table_pin(&engines, handle);
	bool is_gone = false, waits;

	if (!e)
		return;
	waits = mc_table_give_back(&engines, handle);
	if (waits)
		e->is_gone = &is_gone;
	mc_engine_unpin(e);
	(void)pthread_mutex_lock(&gone_mutex);
	while (waits && !is_gone)
		(void)pthread_cond_wait(&gone_cond, &gone_mutex);
	(void)pthread_mutex_unlock(&gone_mutex);
}

void destroyTransferEngine(transfer_engine_t engine)
{
	if (engine)
		give_back((uintptr_t)engine);
}

void mc_engines_give_back(void)
{
	uint64_t handle = 0;

	while ((handle = mc_table_next(&engines, handle)))
		give_back(handle);
}

int discoverTopology(transfer_engine_t engine)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);

	if (!e)
		return MC_ERROR_INVALID;
	mc_engine_unpin(e);
	return 0;
}

int getLocalIpAndPort(transfer_engine_t engine, char *buf_out, size_t buf_len)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);

	if (!e)
		return MC_ERROR_INVALID;
	if (buf_out && buf_len)
		(void)snprintf(buf_out, buf_len, "%s", te_engine_name(e->te));
	mc_engine_unpin(e);
	return 0;
}
