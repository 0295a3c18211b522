/* SPDX-License-Identifier: Apache-2.0 */
/* mooncake_client.h - what mooncake_client can be told */
#ifndef CMD_MOONCAKE_CLIENT_H
#define CMD_MOONCAKE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/glog.h"

struct client_settings {
	char *config_path;
	char *host;
	uint64_t port, engine_port;
	char *master_server_address, *metadata_server, *tenant_id;
	char *protocol, *device_names;
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
	char *allow_host; /* of HTTP requests: tei_http_config */
	uint64_t call_timeout, replica_timeout; /* ms */
	uint64_t drain_timeout;                 /* ms */
	uint64_t v;

	/* Accepted: nothing here depends on them. */
	bool enable_offload, start_offload_rpc_server;
	struct tei_glog glog;
};

/* Of struct client_settings. */
extern const struct tei_setting client_rows[];
extern const size_t client_n_rows;

#endif
