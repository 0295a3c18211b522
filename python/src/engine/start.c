/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start.c - the engine that initialize() asks for, in Mooncake's words
 */
#include "python/src/engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python/src/engine/ports.h"

#define METHOD "initialize"

bool py_is_on(const char *variable)
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
	return !*metadata || !strcmp(metadata, "P2PHANDSHAKE");
}

static int set_config(struct te_config *config, const char *name,
		      const char *value)
{
	char why[256];
	int rc = te_config_set(config, name, value, why, sizeof(why));

	if (rc)
		py_warn(METHOD, "%s", why);
	return rc;
}

/* A directory of names; one that is only host:port is an etcd. */
static int set_metadata(struct te_config *config, const char *metadata)
{
	char etcd[512];

	if (is_p2p(metadata))
		return 0;
	if (strstr(metadata, "://"))
		return set_config(config, "metadata_server", metadata);
	if ((size_t)snprintf(etcd, sizeof(etcd), "etcd://%s", metadata) >=
	    sizeof(etcd))
		return -ENAMETOOLONG;
	return set_config(config, "metadata_server", etcd);
}

/* Returns the backend for a protocol of Mooncake's; NULL: there is none. */
static const char *backend_of(const char *protocol)
{
	static const struct {
		const char *protocol, *backend;
	} table[] = {
		{"", "tcp"},       {"tcp", "tcp"},          {"shm", "shm"},
		{"rdma", "verbs"}, {"efa", "ofi"},          {"barex", "verbs"},
		{"cuda", "cuda"},  {"nvlink_intra", "shm"}, {"nvlink", "shm"},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (!strcmp(protocol, table[i].protocol))
			return table[i].backend;
	return NULL;
}

static int set_devices(struct te_config *config, const char *devices)
{
	/* The second is what Mooncake's documentation writes for the first. */
	if (!*devices || !strcmp(devices, "auto-discovery"))
		return 0;
	if (!py_is_on("MC_FORCE_TCP"))
		return set_config(config, "devices", devices);
	py_warn(METHOD,
		"device_name \"%s\" says nothing with MC_FORCE_TCP: the kernel "
		"routes",
		devices);
	return 0;
}

/* Returns the backend as a setting: one that the user named is binding. */
static const char *binding(const char *protocol)
{
	const char *backend = backend_of(protocol);

	if (!strcmp(backend, "verbs"))
		return "rdma";
	if (!strcmp(backend, "ofi"))
		return "efa";
	if (!strcmp(protocol, "tcp") || !strncmp(protocol, "nvlink", 6))
		return protocol;
	return "any";
}

static int configure(struct te_config *config, const struct py_start *how)
{
	int rc = 0;

	if (!backend_of(how->protocol)) {
		py_warn(METHOD,
			"protocol \"%s\" is not known here: tcp, rdma, "
			"shm, efa, cuda, nvlink_intra, nvlink",
			how->protocol);
		return -EPROTONOSUPPORT;
	}
	if (py_is_on("MC_FORCE_TCP"))
		rc = set_config(config, "backends", "tcp");
	if (!rc)
		rc = set_devices(config, how->devices);
	if (!rc)
		rc = set_config(config, "protocol", binding(how->protocol));
	return rc ? rc : set_metadata(config, how->metadata);
}

/*
 * Returns where the port stands in "host:port", "[v6]:port"; its end if there
 * is none. An address of IPv6 without brackets has no port.
 */
static size_t host_length(const char *name)
{
	const char *colon = strrchr(name, ':');
	bool bare_v6 = colon && *name != '[' && strchr(name, ':') != colon;

	if (!colon || colon == name || bare_v6 ||
	    (*name == '[' && colon[-1] != ']') ||
	    colon[1 + strspn(colon + 1, "0123456789")])
		return strlen(name);
	return (size_t)(colon - name);
}

/* On a port of the usual range, or on any. */
static int create_on_port(const struct te_config *config, const char *host,
			  struct te_engine **out)
{
	bool bare_v6 = *host != '[' && strchr(host, ':');
	struct py_ports ports = py_ports_begin();
	char name[TE_NAME_LEN_MAX + 16];
	uint32_t port;
	int rc;

	do {
		port = py_ports_next(&ports);
		(void)snprintf(name, sizeof(name),
			       bare_v6 ? "[%s]:%u" : "%s:%u", host, port);
		rc = te_engine_create(config, name, out);
	} while (rc == -EADDRINUSE && port);
	return rc;
}

static int create(const struct te_config *config, const struct py_start *how,
		  struct te_engine **out)
{
	char host[TE_NAME_LEN_MAX + 1];
	size_t len = strlen(how->host);

	if (len > TE_NAME_LEN_MAX)
		return -ENAMETOOLONG;
	if (!is_p2p(how->metadata) || py_is_on("MC_LEGACY_RPC_PORT_BINDING"))
		return te_engine_create(config, len ? how->host : NULL, out);
	/* With Mooncake ports of names are for the directory alone. */
	len = host_length(how->host);
	memcpy(host, how->host, len);
	host[len] = '\0';
	return create_on_port(config, *host ? host : "127.0.0.1", out);
}

int py_start_engine(const struct py_start *how, struct te_engine **out)
{
	struct te_config *config;
	int rc = te_config_create(&config);

	if (rc)
		return rc;
	rc = configure(config, how);
	if (!rc)
		rc = create(config, how, out);
	te_config_destroy(config);
	if (rc)
		py_warn(METHOD, "no engine \"%s\": %s", how->host,
			te_strerror(rc));
	else if (!py_is_on("MC_FORCE_TCP") &&
		 strcmp(binding(how->protocol), "rdma") &&
		 strcmp(binding(how->protocol), "efa") &&
		 !te_engine_has_backend(*out, backend_of(how->protocol)))
		py_warn(METHOD,
			"no device for %s: going by tcp and shared memory",
			how->protocol);
	return rc;
}
