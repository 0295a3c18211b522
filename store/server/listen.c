/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen.c - the master's ports: clients, admin HTTP, metadata
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/net.h"
#include "store/proto/store.pb-c.h"
#include "store/server/admin.h"
#include "store/server/admin_reply.h"
#include "store/server/metadata_http.h"
#include "store/server/state.h"

static void on_port_fault(enum tei_frame_fault fault, void *arg)
{
	struct tes_server *s = arg;

	s->counters.refused[fault]++;
}

/* No connection stays without a link, which has others. */
static const struct tei_frame_ops port_ops = {.fault = on_port_fault};

/* The IPv4 address of @name as text. -ENODEV: it has none, or is not there. */
static int interface_address(const char *name, char out[INET_ADDRSTRLEN],
			     char error[TEI_CONF_ERROR_LEN])
{
	struct ifaddrs *all, *i;
	int rc = -ENODEV;

	if (getifaddrs(&all))
		return -errno;
	for (i = all; i && rc; i = i->ifa_next) {
		const struct sockaddr_in *in = (const void *)i->ifa_addr;

		if (!in || in->sin_family != AF_INET ||
		    strcmp(i->ifa_name, name))
			continue;
		inet_ntop(AF_INET, &in->sin_addr, out, INET_ADDRSTRLEN);
		rc = 0;
	}
	freeifaddrs(all);
	if (rc)
		snprintf(error, TEI_CONF_ERROR_LEN,
			 "rpc_interface %.80s: has no IPv4 address", name);
	return rc;
}

/* "port 50051: Address already in use", or the address when that is bad. */
static void say_listen(char error[TEI_CONF_ERROR_LEN], int rc,
		       const char *port_name, uint64_t port,
		       const char *host_name, const char *host)
{
	bool port_is_it = rc == -EADDRINUSE || rc == -EACCES || !host;

	if (port_is_it)
		snprintf(error, TEI_CONF_ERROR_LEN, "%s %llu: %s", port_name,
			 (unsigned long long)port, strerror(-rc));
	else
		snprintf(error, TEI_CONF_ERROR_LEN, "%s %.80s: %s", host_name,
			 host, strerror(-rc));
}

int tes_server_open_rpc(struct tes_server *s, char error[TEI_CONF_ERROR_LEN])
{
	const struct tes_server_settings *set = &s->settings;
	char address[INET_ADDRSTRLEN];
	struct tei_frame_server_config config = {
		.protocol = &tes_store_protocol,
		.host = tes_server_host(set->rpc_address),
		.port = tes_server_wanted_port(set),
		.insecure = set->insecure,
		.n_max = TES_SERVER_LINKS_MAX,
		.hello_ms = TES_SERVER_HELLO_MS,
		.hello_max =
			tes_store_protocol.cap[STORE__STORE_TYPE__STORE_HELLO],
		.ops = &port_ops,
		.arg = s,
		.accepted = tes_server_accepted,
	};
	int rc = 0;

	if (*set->rpc_interface) {
		rc = interface_address(set->rpc_interface, address, error);
		config.host = address;
	}
	if (rc)
		return rc;
	rc = tei_frame_listen(s->loop, &config, &s->rpc_port, &s->port);
	if (rc)
		say_listen(error, rc, set->rpc_port ? "rpc_port" : "port",
			   config.port, "rpc_address", config.host);
	return rc;
}

int tes_server_open_http(struct tes_server *s, char error[TEI_CONF_ERROR_LEN])
{
	const struct tes_server_settings *set = &s->settings;
	struct tei_http_config config = {
		.what = "HTTP metrics port",
		.host = tes_server_host(set->metrics_host),
		.port = (uint16_t)set->metrics_port,
		.insecure = set->insecure,
		.allow_host = set->allow_host,
		.routes = tes_server_routes,
		.n_routes = tes_server_n_routes,
		.arg = s,
		.refused = s->counters.refused_http,
		.refusal = tes_server_admin_refusal,
	};
	int rc = tei_http_start(s->loop, &config, &s->http_port, &s->http);

	if (rc)
		say_listen(error, rc, "metrics_port", set->metrics_port,
			   "metrics_host", config.host);
	return rc;
}

int tes_server_open_metadata(struct tes_server *s,
			     char error[TEI_CONF_ERROR_LEN])
{
	const struct tes_server_settings *set = &s->settings;
	const struct tes_metadata_config config = {
		.host = tes_server_host(set->http_metadata_server_host),
		.port = (uint16_t)set->http_metadata_server_port,
		.insecure = set->insecure,
		.allow_host = set->allow_host,
		.limits = {TES_METADATA_ENTRIES, TES_METADATA_VALUE,
			   TES_METADATA_BYTES},
	};
	int rc;

	if (!set->enable_http_metadata_server)
		return 0;
	rc = tes_metadata_server_start(s->loop, &config, &s->metadata_port,
				       &s->metadata);
	if (rc)
		say_listen(error, rc, "http_metadata_server_port", config.port,
			   "http_metadata_server_host", config.host);
	return rc;
}
