/* SPDX-License-Identifier: Apache-2.0 */
/* transfer_engine_bench_engine.c - an engine as the flags want it */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <te/topo.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"
#include "cmd/transfer_engine_bench.h"

#define DEVICES_MAX 1024 /* bytes of a list of names */

int bench_complain(const char *setting, const char *value, const char *why)
{
	(void)fprintf(stderr, BENCH ": --%s%s%s: %s\n", setting,
		      *value ? " " : "", value, why);
	return 2;
}

/* A variable as Mooncake's: on unless it is "", 0, false, off or no. */
static bool is_on(const char *variable)
{
	const char *value = getenv(variable);
	bool on;

	return value && *value && (tei_parse_bool(value, &on) || on);
}

static int set(struct te_config *config, const char *name, const char *value)
{
	char why[256];
	int rc = te_config_set(config, name, value, why, sizeof(why));

	if (rc)
		(void)fprintf(stderr, BENCH ": %s\n", why);
	return rc;
}

/* Names of devices, for two backends. */
struct devices {
	char interfaces[DEVICES_MAX], rdma[DEVICES_MAX];
};

/* False: no room. "" is not added. */
static bool add(char list[DEVICES_MAX], const char *name)
{
	size_t len = strlen(list);

	if (len + strlen(name) + 2 > DEVICES_MAX)
		return false;
	if (*name)
		(void)snprintf(list + len, DEVICES_MAX - len, "%s%s",
			       len ? "," : "", name);
	return true;
}

/* What backends call a device. -ENODEV: it is not there. */
static int look_up(const struct te_topo *topo, const char *device,
		   struct devices *out)
{
	struct te_topo_nic nic;
	uint32_t index;

	if (!te_topo_find_nic(topo, device, &index) &&
	    !te_topo_nic(topo, index, &nic) &&
	    add(out->interfaces, nic.interface) && add(out->rdma, nic.rdma))
		return 0;
	bench_complain("device_name", device, "no such device on this host");
	return -ENODEV;
}

/* Without RDMA on any of them they are used by tcp. */
static int set_devices(struct te_config *config, const char *devices)
{
	const struct te_topo_source source = {.flags = TE_TOPO_VIRTUAL};
	struct devices found = {.rdma = ""};
	char *names, *next, error[256];
	struct te_topo *topo;
	int rc;

	if (te_topo_load(&source, &topo, error, sizeof(error))) {
		bench_complain("device_name", devices, error);
		return -ENODEV;
	}
	names = tei_strdup(devices);
	rc = names ? 0 : -ENOMEM;
	for (char *name = names ? strtok_r(names, ", ", &next) : NULL;
	     name && !rc; name = strtok_r(NULL, ", ", &next))
		rc = look_up(topo, name, &found);
	tei_free(names);
	te_topo_destroy(topo);
	if (!rc && *found.rdma)
		rc = set(config, "verbs.devices", found.rdma);
	else if (!rc) {
		LOG_WARN(BENCH ": device_name: none of \"%s\" has RDMA: bytes "
			       "go by tcp, and by shared memory on this host",
			 devices);
		rc = set(config, "protocol", "tcp");
	}
	if (!rc && *found.interfaces)
		rc = set(config, "tcp.devices", found.interfaces);
	return rc;
}

static int configure(const struct bench_settings *s, struct te_config *config)
{
	int rc = set(config, "metadata_server", s->metadata_server);

	if (!rc && s->insecure)
		rc = set(config, "insecure", "true");
	if (!rc)
		rc = set(config, "protocol", s->protocol);
	if (!rc && is_on("MC_FORCE_TCP"))
		rc = set(config, "backends", "tcp");
	else if (!rc && *s->device_name && !strcmp(s->protocol, "rdma"))
		rc = set_devices(config, s->device_name);
	if (!rc && *s->nic_priority_matrix)
		rc = set(config, "topology", s->nic_priority_matrix);
	return rc;
}

bool bench_is_p2p(const struct bench_settings *s)
{
	return !*s->metadata_server ||
	       !strcmp(s->metadata_server, "P2PHANDSHAKE");
}

/* As Mooncake: without a directory the port is chosen, and said. */
static int engine_name(const struct bench_settings *s,
		       char name[TE_NAME_LEN_MAX + 1])
{
	char host[TEI_HOST_LEN_MAX + 1];
	uint16_t port;

	if (strlen(s->local_server_name) > TE_NAME_LEN_MAX)
		return -EINVAL;
	memcpy(name, s->local_server_name, strlen(s->local_server_name) + 1);
	if (!bench_is_p2p(s) || is_on("MC_LEGACY_RPC_PORT_BINDING"))
		return 0;
	if (tei_name_split(name, host, &port))
		return -EINVAL;
	tei_name_join(host, 0, name);
	return 0;
}

int bench_open_engine(const struct bench_settings *s, struct te_engine **out)
{
	char name[TE_NAME_LEN_MAX + 1];
	struct te_config *config;
	int rc;

	if (engine_name(s, name))
		return bench_complain("local_server_name", s->local_server_name,
				      "should be a host, or host:port");
	rc = te_config_create(&config);
	if (rc)
		return 1;
	rc = configure(s, config);
	if (!rc) {
		rc = te_engine_create(config, name, out);
		if (rc)
			bench_complain("local_server_name", name,
				       te_strerror(rc));
	}
	te_config_destroy(config);
	return rc ? 2 : 0;
}
