/* SPDX-License-Identifier: Apache-2.0 */
/*
 * links.c - what the engine moves bytes by
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "compat/engine/engine.h"

/* rails[*n], the caller's to free; NULL: no memory. */
static struct te_rail_info *rails_of(const struct mc_engine *e, size_t *n)
{
	struct te_rail_info *rails;

	*n = 0;
	(void)te_engine_rails(e->te, NULL, n);
	rails = calloc(*n + 1, sizeof(*rails));
	if (rails)
		(void)te_engine_rails(e->te, rails, n);
	return rails;
}

/* Returns the backend for a protocol of Mooncake's; NULL: there is none. */
static const char *backend_of(const char *proto)
{
	static const struct {
		const char *proto, *backend;
	} table[] = {
		{"tcp", "tcp"},          {"rdma", "verbs"},  {"efa", "ofi"},
		{"shm", "shm"},          {"barex", "verbs"}, {"cuda", "cuda"},
		{"nvlink_intra", "shm"}, {"nvlink", "shm"},
	};

	for (size_t i = 0; proto && i < sizeof(table) / sizeof(table[0]); i++)
		if (!strcmp(proto, table[i].proto))
			return table[i].backend;
	return NULL;
}

/* Tells whether @proto would have to reach GPUs of other trays by NVLink. */
static bool is_of_trays(const char *proto)
{
	return !strcmp(proto, "nvlink") && mc_is_on("MC_FORCE_MNNVL") &&
	       !mc_is_on("MC_USE_NVLINK_IPC");
}

transport_t installTransport(transfer_engine_t engine, const char *proto,
			     void **args)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	const char *backend = backend_of(proto);

	(void)args;
	if (!e)
		return NULL;
	if (!backend)
		mc_warn(__func__, "\"%s\" is no protocol that is known here",
			proto ? proto : "");
	else if (is_of_trays(proto)) {
		backend = NULL;
		mc_warn(__func__,
			"nvlink: MC_FORCE_MNNVL: fabric handles, by which GPUs "
			"of several trays reach each other, are not supported: "
			"unset it (or set MC_USE_NVLINK_IPC=1) for GPUs of one "
			"host, and install rdma or tcp between hosts");
	} else if (!te_engine_has_backend(e->te, backend))
		mc_warn(__func__, "no device for %s: going by what there is",
			proto);
	mc_engine_unpin(e);
	return backend ? (transport_t)(uintptr_t)backend : NULL;
}

int uninstallTransport(transfer_engine_t engine, const char *proto)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);

	(void)proto;
	if (!e)
		return MC_ERROR_INVALID;
	mc_engine_unpin(e);
	return 0;
}

int getNicLoadStats(transfer_engine_t engine, nic_load_stat_t *stats,
		    size_t *count)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);

	(void)stats;
	if (!e)
		return MC_ERROR_INVALID;
	if (count)
		*count = 0;
	mc_engine_unpin(e);
	return count ? 0 : MC_ERROR_INVALID;
}

static void print_text(FILE *out, const struct mc_engine *e,
		       const struct te_rail_info *rails, size_t n)
{
	fprintf(out, "%s\n", te_engine_name(e->te));
	for (size_t i = 0; i < n; i++)
		fprintf(out,
			"%s %s, %" PRIu64 " Mbit/s, node %" PRId32
			", sent %" PRIu64 ", received %" PRIu64 "\n",
			rails[i].name, te_rail_state_name(rails[i].state),
			rails[i].speed_bps / 1000000, rails[i].numa_node,
			rails[i].sent_bytes, rails[i].received_bytes);
}

static int print_json(FILE *out, const struct mc_engine *e,
		      const struct te_rail_info *rails, size_t n)
{
	json_t *list = json_array(), *top;
	int rc;

	for (size_t i = 0; list && i < n; i++)
		(void)json_array_append_new(
			list,
			json_pack("{ss, ss, ss, sI, si, sI, sI}", "name",
				  rails[i].name, "backend", rails[i].backend,
				  "state", te_rail_state_name(rails[i].state),
				  "speed_bps", (json_int_t)rails[i].speed_bps,
				  "numa_node", (int)rails[i].numa_node,
				  "sent_bytes", (json_int_t)rails[i].sent_bytes,
				  "received_bytes",
				  (json_int_t)rails[i].received_bytes));
	top = json_pack("{ss, so}", "name", te_engine_name(e->te), "rails",
			list);
	rc = top ? json_dumpf(top, out, 0) : -1;
	json_decref(top);
	return rc;
}

int showLinks(transfer_engine_t engine, char *buf, size_t len, int json)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	struct te_rail_info *rails = NULL;
	int rc = MC_ERROR_INVALID;
	FILE *out;
	size_t n;

	if (!e)
		return rc;
	if (buf && len)
		rails = rails_of(e, &n);
	out = rails ? fmemopen(buf, len, "w") : NULL;
	if (out) {
		rc = 0;
		if (!json)
			print_text(out, e, rails, n);
		else if (print_json(out, e, rails, n))
			rc = MC_ERROR_MEMORY;
		(void)fclose(out);
		buf[len - 1] = '\0';
	}
	free(rails);
	mc_engine_unpin(e);
	return rc;
}
