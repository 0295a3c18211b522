/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.c - the master's rows in the registry of settings
 */
#include "store/server/settings.h"

#include <string.h>

#define ROW(field)  TEI_SETTING(struct tes_server_settings, field)
#define TTL_MIN_MS  1.0
#define TTL_MAX_MS  86400000.0
#define LIVE_MIN_MS 500.0 /* client_ttl: twice what counts as a stall */

/* clang-format off */
#define NONE "accepted, no part of this"

/* Rows of parts that do not exist here; they are checked all the same. */
#define HIDDEN(field, kind, value) \
	ROW(field), .type = kind, .def = value, .hidden = true, .help = NONE
#define TEXT(field, value)   { HIDDEN(field, TEI_CONF_STRING, value) }
#define SWITCH(field, value) { HIDDEN(field, TEI_CONF_BOOL, value) }
#define BYTES(field, value)  { HIDDEN(field, TEI_CONF_SIZE, value) }
#define SHARE(field, value)  { HIDDEN(field, TEI_CONF_RATIO, value), .max = 1 }
#define NUMBER(field, value, least, most)                                 \
	{ HIDDEN(field, TEI_CONF_UINT, value), .min = least, .max = most }
#define SECONDS(field, value) \
	{ HIDDEN(field, TEI_CONF_DURATION, value), .unit = "s" }

const struct tei_setting tes_server_rows[] = {
	{ ROW(config_path), .type = TEI_CONF_STRING, .group = "file",
	  .file = tei_conf_file,
	  .help = "YAML or JSON file of settings, named as here" },

	{ ROW(rpc_port), .group = "network", .type = TEI_CONF_UINT,
	  .def = "0", .max = 65535,
	  .help = "port that clients connect to; 0: that of --port" },
	{ ROW(port), .type = TEI_CONF_UINT, .def = "50051", .max = 65535,
	  .help = "the same, older name; 0: any free one" },
	{ ROW(rpc_address), .type = TEI_CONF_STRING, .def = "0.0.0.0",
	  .help = "address to listen on for clients; 0.0.0.0: all" },
	{ ROW(insecure), .env = "MOONCAKE_INSECURE", .type = TEI_CONF_BOOL,
	  .def = "0",
	  .help = "serve everybody, other hosts too, without any key" },
	{ ROW(allow_uids), .env = "MOONCAKE_ALLOW_UIDS",
	  .type = TEI_CONF_UIDS, .def = "",
	  .help = "users of this host to serve beside its own and root (1000,2000-2999 or any)" },
	{ ROW(allow_host), .env = "MOONCAKE_ALLOW_HOST",
	  .type = TEI_CONF_STRING, .def = "",
	  .help = "HTTP requests may be for these names, too (a,b)" },
	{ ROW(epoch_key_file), .type = TEI_CONF_STRING, .def = "",
	  .help = "secret by which masters after this one know its epochs, made "
		  "if it is not there (default: te/epoch.key in the user's "
		  "state directory)" },
	{ ROW(rpc_interface), .expert = true,
	  .type = TEI_CONF_STRING, .def = "",
	  .help = "interface whose IPv4 address goes before rpc_address" },
	SECONDS(rpc_conn_timeout_seconds, "0"),
	SWITCH(rpc_enable_tcp_no_delay, "1"),
	NUMBER(max_threads, "16", 1, 1024),
	NUMBER(rpc_thread_num, "0", 0, 1024),

	{ ROW(metrics_port), .group = "observation", .type = TEI_CONF_UINT,
	  .def = "9003", .max = 65535,
	  .help = "port of the admin HTTP server; 0: any free one" },
	{ ROW(metrics_host), .type = TEI_CONF_STRING, .def = "0.0.0.0",
	  .help = "address to listen on for admin HTTP; 0.0.0.0: all" },
	{ ROW(enable_metric_reporting), .type = TEI_CONF_BOOL, .def = "1",
	  .help = "log the figures every 10 s in one line" },
	{ ROW(v), .type = TEI_CONF_UINT, .def = "0", .max = 9,
	  .help = "verbosity: 0 a handful of lines, 1 a line per object, 2 all" },

	{ ROW(default_kv_lease_ttl), .group = "leases and clients",
	  .type = TEI_CONF_DURATION,
	  .def = "10000", .unit = "ms", .min = TTL_MIN_MS, .max = TTL_MAX_MS,
	  .help = "how long a look-up keeps an object from eviction" },
	{ ROW(client_ttl), .alias = "client_live_ttl_sec",
	  .type = TEI_CONF_DURATION,
	  .def = "10", .unit = "s", .min = LIVE_MIN_MS, .max = TTL_MAX_MS,
	  .help = "silence after which a client and its memory are dropped" },
	{ ROW(put_start_discard_timeout_sec), .expert = true,
	  .type = TEI_CONF_DURATION,
	  .def = "30", .unit = "s", .min = TTL_MIN_MS, .max = TTL_MAX_MS,
	  .help = "how long a put may take before its space is taken back" },
	SECONDS(put_start_release_timeout_sec, "600"),

	{ ROW(eviction_high_watermark_ratio), .group = "eviction and pins",
	  .type = TEI_CONF_RATIO, .def = "0.90", .max = 1,
	  .help = "use of the pool at which eviction begins" },
	{ ROW(eviction_ratio), .type = TEI_CONF_RATIO,
	  .def = "0.05", .max = 1,
	  .help = "eviction ends this far below the high watermark" },
	{ ROW(default_kv_soft_pin_ttl), .type = TEI_CONF_DURATION,
	  .def = "1800000", .unit = "ms", .min = TTL_MIN_MS, .max = TTL_MAX_MS,
	  .help = "how long a soft pin holds that names no time" },
	{ ROW(max_kv_soft_pin_ttl), .expert = true,
	  .type = TEI_CONF_DURATION,
	  .def = "86400000", .unit = "ms", .min = TTL_MIN_MS,
	  .max = TTL_MAX_MS, .help = "how long a soft pin may hold" },
	{ ROW(allow_evict_soft_pinned_objects), .expert = true,
	  .type = TEI_CONF_BOOL,
	  .def = "1",
	  .help = "evict soft-pinned objects, too, when nothing else is left" },

	{ ROW(allocation_strategy), .group = "where replicas go",
	  .type = TEI_CONF_CHOICE, .def = "random",
	  .choices = "random|free_ratio_first|local_first|cxl|"
		     "ssd_free_ratio_first",
	  .help = "which segments are tried first; the last two: as random" },
	{ ROW(memory_allocator), .type = TEI_CONF_CHOICE, .def = "offset",
	  .choices = "offset|cachelib", .hidden = true, .help = NONE },
	{ ROW(dynamic_replication_mode), .type = TEI_CONF_CHOICE,
	  .def = "off", .choices = "off|observe|enforce",
	  .help = "replicas for what is read much: observe counts, enforce makes" },
	{ ROW(dynamic_replication_heat_window_seconds), .expert = true,
	  .type = TEI_CONF_DURATION, .def = "10", .unit = "s", .min = 1000,
	  .max = TTL_MAX_MS,
	  .help = "time over which reads of an object are counted" },
	{ ROW(dynamic_replication_admission_qps_threshold), .expert = true,
	  .type = TEI_CONF_RATIO, .def = "0.8", .max = 1e9,
	  .help = "reads a second that earn an object another replica" },
	{ ROW(dynamic_replication_max_memory_replicas), .expert = true,
	  .type = TEI_CONF_UINT,
	  .def = "2", .min = 1, .max = 32,
	  .help = "most replicas that an object has then" },

	{ ROW(max_total_pending_tasks), .expert = true,
	  .group = "tasks",
	  .type = TEI_CONF_UINT, .def = "10000", .max = 1e8,
	  .help = "most copy and move tasks that wait; beyond them each client "
		  "may have its share of as many" },
	{ ROW(max_total_processing_tasks), .expert = true,
	  .type = TEI_CONF_UINT,
	  .def = "10000", .max = 1e8,
	  .help = "most of them that clients work on" },
	{ ROW(max_total_finished_tasks), .expert = true,
	  .type = TEI_CONF_UINT,
	  .def = "10000", .max = 1e8,
	  .help = "finished ones that are remembered" },
	{ ROW(pending_task_timeout_sec), .expert = true,
	  .type = TEI_CONF_DURATION,
	  .def = "300", .unit = "s", .max = TTL_MAX_MS,
	  .help = "how long a task may wait; 0: for ever" },
	{ ROW(processing_task_timeout_sec), .expert = true,
	  .type = TEI_CONF_DURATION,
	  .def = "300", .unit = "s", .max = TTL_MAX_MS,
	  .help = "how long a client may work on one; 0: for ever" },
	{ ROW(max_retry_attempts), .expert = true,
	  .type = TEI_CONF_UINT, .def = "10",
	  .max = 1e6,
	  .help = "how often a task that found no space is tried again" },

	{ ROW(enable_multi_tenants), .group = "tenants",
	  .type = TEI_CONF_BOOL, .def = "0",
	  .help = "tenants have keys and quotas of their own" },
	{ ROW(tenant_quota_connector_type), .type = TEI_CONF_CHOICE,
	  .def = "file", .choices = "file|etcd",
	  .help = "where the quotas are kept; etcd is not here yet" },
	{ ROW(tenant_quota_connector_uri), .type = TEI_CONF_STRING, .def = "",
	  .help = "path of that file; empty: they last until the end" },

	{ ROW(enable_http_metadata_server), .group = "metadata server",
	  .type = TEI_CONF_BOOL, .def = "0",
	  .help = "be the directory of engines, too, over HTTP" },
	{ ROW(http_metadata_server_port), .type = TEI_CONF_UINT,
	  .def = "8080", .max = 65535,
	  .help = "its port; 0: any free one" },
	{ ROW(http_metadata_server_host), .type = TEI_CONF_STRING,
	  .def = "0.0.0.0",
	  .help = "address to listen on for it; 0.0.0.0: all" },
	{ ROW(enable_metadata_cleanup_on_timeout), .expert = true,
	  .type = TEI_CONF_BOOL,
	  .def = "0",
	  .help = "forget there what clients that are gone have published" },

	{ ROW(enable_kv_events), .group = "key/value events",
	  .type = TEI_CONF_BOOL, .def = "0",
	  .help = "publish what is stored and removed (ZeroMQ PUB)" },
	{ ROW(kv_events_bind_endpoint), .type = TEI_CONF_STRING, .def = "",
	  .help = "where: tcp://*:5557" },
	{ ROW(kv_events_backend_id), .expert = true,
	  .type = TEI_CONF_STRING, .def = "",
	  .help = "name of this pool in events" },
	{ ROW(kv_events_emit_legacy_compat), .expert = true,
	  .type = TEI_CONF_BOOL,
	  .def = "1", .help = "with the older fields" },
	{ ROW(kv_events_emit_object_key), .expert = true,
	  .type = TEI_CONF_BOOL, .def = "1",
	  .help = "with the keys; without, keys that are no numbers are left "
		  "out" },
	{ ROW(kv_events_queue_capacity), .expert = true,
	  .type = TEI_CONF_UINT,
	  .def = "65536", .max = 1e9,
	  .help = "events that wait, the oldest go first; 0: without end" },
	TEXT(kv_events_model_name, ""),
	TEXT(kv_events_tenant_id, "default"),
	TEXT(kv_events_additional_salt, ""),
	TEXT(kv_events_lora_name, ""),
	NUMBER(kv_events_block_size, "0", 0, 1e9),
	NUMBER(kv_events_dp_rank, "0", 0, 1e9),

	/* several masters */
	TEXT(cluster_id, "mooncake_cluster"),
	SWITCH(enable_ha, "0"),
	TEXT(ha_backend_type, "etcd"),
	TEXT(ha_backend_connstring, ""),
	TEXT(etcd_endpoints, ""),
	TEXT(pod_name, ""),
	TEXT(pod_namespace, ""),
	SWITCH(enable_oplog, "0"),
	NUMBER(oplog_poll_interval_ms, "1000", 1, 1e9),
	NUMBER(oplog_batch_max_entries, "1024", 1, 1e9),
	SECONDS(batch_oplog_retry_timeout_sec, "180"),

	/* snapshots */
	SWITCH(enable_snapshot, "0"),
	SWITCH(enable_snapshot_restore, "0"),
	SECONDS(snapshot_interval_seconds, "600"),
	SECONDS(snapshot_child_timeout_seconds, "300"),
	NUMBER(snapshot_retention_count, "2", 0, 1e9),
	TEXT(snapshot_backup_dir, ""),
	{ ROW(snapshot_object_store_type), .type = TEI_CONF_STRING, .def = "",
	  .alias = "snapshot_payload_store_type|snapshot_payload_backend_type",
	  .hidden = true, .help = NONE },
	{ ROW(snapshot_catalog_store_type), .type = TEI_CONF_STRING, .def = "",
	  .alias = "snapshot_catalog_backend_type", .hidden = true,
	  .help = NONE },
	{ ROW(snapshot_catalog_store_connstring), .type = TEI_CONF_STRING,
	  .def = "", .alias = "snapshot_catalog_backend_connstring",
	  .hidden = true, .help = NONE },

	/* disks */
	TEXT(root_fs_dir, ""),
	BYTES(global_file_segment_size, "9223372036854775807"),
	SWITCH(enable_disk_eviction, "1"),
	BYTES(quota_bytes, "0"),
	SWITCH(enable_offload, "0"),
	SWITCH(offload_on_evict, "0"),
	SWITCH(offload_force_evict, "0"),
	NUMBER(offloading_queue_limit, "50000", 1, 1e8),
	SHARE(offload_cap_ratio, "0.5"),
	SWITCH(promotion_on_hit, "0"),
	NUMBER(promotion_admission_threshold, "2", 0, 255),
	NUMBER(promotion_queue_limit, "50000", 1, 1e8),
	NUMBER(promotion_max_per_heartbeat, "1", 0, 1e6),

	/* other memories */
	SWITCH(enable_cxl, "0"),
	TEXT(cxl_path, "/dev/dax0.0"),
	BYTES(cxl_size, "8589934592"),
	SHARE(nof_eviction_ratio, "0.05"),
	SHARE(nof_eviction_high_watermark_ratio, "0.90"),
	SECONDS(nof_heartbeat_interval_sec, "10"),
	NUMBER(nof_heartbeat_probe_timeout_ms, "1000", 1, 1e9),
	NUMBER(nof_heartbeat_failures_threshold, "3", 1, 1e6),

	/* of older masters */
	SWITCH(enable_gc, "0"),
	TEI_GLOG_ROWS(struct tes_server_settings),
};
/* clang-format on */

const size_t tes_server_n_rows =
	sizeof(tes_server_rows) / sizeof(tes_server_rows[0]);

const char *tes_server_host(const char *address)
{
	static const char *const wildcards[] = {"", "*", "0.0.0.0",
						"::", "[::]"};

	if (!address)
		return NULL;
	for (size_t i = 0; i < sizeof(wildcards) / sizeof(wildcards[0]); i++)
		if (strcmp(address, wildcards[i]) == 0)
			return NULL;
	return address;
}

uint16_t tes_server_wanted_port(const struct tes_server_settings *s)
{
	return (uint16_t)(s->rpc_port ? s->rpc_port : s->port);
}
