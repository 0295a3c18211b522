/* SPDX-License-Identifier: Apache-2.0 */
/* transfer_engine_bench_engine.c - an engine as the flags want it */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/net.h"
#include "cmd/transfer_engine_bench.h"

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
		rc = set(config, "devices", s->device_name);
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
