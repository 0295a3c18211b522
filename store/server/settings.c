/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.c - the master's rows in the registry of settings
 */
#include "store/server/settings.h"

#include <string.h>

#define ROW(field)  TEI_SETTING(struct tei_server_settings, field)
#define TTL_MIN_MS  1.0
#define TTL_MAX_MS  86400000.0
#define LIVE_MIN_MS 500.0 /* client_ttl: twice what counts as a stall */

/* Accepted and without meaning here; a name's number is its slot. */
#define TEXT(slot, flag)                                                \
	{                                                               \
		.name = #flag, .type = TEI_CONF_STRING, .hidden = true, \
		.help = "accepted, no meaning here",                    \
		.offset = offsetof(struct tei_server_settings,          \
				   ignored_text[slot]),                 \
	}
#define SWITCH(slot, flag, on)                                       \
	{                                                            \
		.name = #flag, .type = TEI_CONF_BOOL, .def = on,     \
		.hidden = true, .help = "accepted, no meaning here", \
		.offset = offsetof(struct tei_server_settings,       \
				   ignored_switch[slot]),            \
	}

/* clang-format off */
const struct tei_setting tei_server_rows[] = {
	{ ROW(port), .alias = "rpc_port", .type = TEI_CONF_UINT,
	  .def = "50051", .max = 65535,
	  .help = "port that clients connect to; 0: any free one" },
	{ ROW(rpc_address), .type = TEI_CONF_STRING, .def = "0.0.0.0",
	  .help = "address to listen on for clients; 0.0.0.0: all" },
	{ ROW(metrics_port), .type = TEI_CONF_UINT,
	  .def = "9003", .max = 65535,
	  .help = "port of the admin HTTP server; 0: any free one" },
	{ ROW(metrics_host), .type = TEI_CONF_STRING, .def = "0.0.0.0",
	  .help = "address to listen on for admin HTTP; 0.0.0.0: all" },
	{ ROW(default_kv_lease_ttl), .type = TEI_CONF_DURATION,
	  .def = "10000", .unit = "ms", .min = TTL_MIN_MS, .max = TTL_MAX_MS,
	  .help = "how long a look-up keeps an object from eviction" },
	{ ROW(client_ttl), .type = TEI_CONF_DURATION,
	  .def = "10", .unit = "s", .min = LIVE_MIN_MS, .max = TTL_MAX_MS,
	  .help = "silence after which a client and its memory are dropped" },
	{ ROW(put_start_discard_timeout_sec), .type = TEI_CONF_DURATION,
	  .def = "30", .unit = "s", .min = TTL_MIN_MS, .max = TTL_MAX_MS,
	  .help = "how long a put may take before its space is taken back" },
	{ ROW(eviction_high_watermark_ratio), .type = TEI_CONF_RATIO,
	  .def = "0.90", .max = 1,
	  .help = "use of the pool at which eviction begins" },
	{ ROW(eviction_ratio), .type = TEI_CONF_RATIO,
	  .def = "0.05", .max = 1,
	  .help = "eviction ends this far below the high watermark" },
	{ ROW(v), .type = TEI_CONF_UINT, .def = "0", .max = 9,
	  .help = "verbosity: 0 a handful of lines, 1 a line per object" },
	{ ROW(insecure), .env = "MOONCAKE_INSECURE", .type = TEI_CONF_BOOL,
	  .def = "0", .help = "serve other hosts too, without any key" },

	TEXT(0, max_threads),
	TEXT(1, rpc_thread_num),
	TEXT(2, rpc_conn_timeout_seconds),
	TEXT(3, allocation_strategy),
	TEXT(4, memory_allocator),
	TEXT(5, cluster_id),
	TEXT(6, root_fs_dir),
	TEXT(7, global_file_segment_size),
	TEXT(8, quota_bytes),
	TEXT(9, default_kv_soft_pin_ttl),
	TEXT(10, max_kv_soft_pin_ttl),
	TEXT(11, nof_eviction_ratio),
	TEXT(12, nof_eviction_high_watermark_ratio),
	TEXT(13, put_start_release_timeout_sec),
	TEXT(14, offloading_queue_limit),
	TEXT(15, offload_cap_ratio),
	TEXT(16, promotion_admission_threshold),
	TEXT(17, promotion_queue_limit),
	TEXT(18, promotion_max_per_heartbeat),
	TEXT(19, dynamic_replication_mode),
	TEXT(20, dynamic_replication_heat_window_seconds),
	TEXT(21, dynamic_replication_admission_qps_threshold),
	TEXT(22, dynamic_replication_max_memory_replicas),
	TEXT(23, kv_events_bind_endpoint),
	TEXT(24, kv_events_backend_id),
	TEXT(25, kv_events_queue_capacity),
	TEXT(26, kv_events_model_name),
	TEXT(27, kv_events_tenant_id),
	TEXT(28, kv_events_additional_salt),
	TEXT(29, kv_events_lora_name),
	TEXT(30, kv_events_block_size),
	TEXT(31, kv_events_dp_rank),
	TEXT(32, ha_backend_type),
	TEXT(33, ha_backend_connstring),
	TEXT(34, etcd_endpoints),
	TEXT(35, pod_name),
	TEXT(36, pod_namespace),
	TEXT(37, oplog_poll_interval_ms),
	TEXT(38, oplog_batch_max_entries),
	TEXT(39, batch_oplog_retry_timeout_sec),
	TEXT(40, snapshot_interval_seconds),
	TEXT(41, snapshot_child_timeout_seconds),
	TEXT(42, snapshot_retention_count),
	TEXT(43, snapshot_backup_dir),
	TEXT(44, snapshot_object_store_type),
	TEXT(45, snapshot_payload_store_type),
	TEXT(46, snapshot_payload_backend_type),
	TEXT(47, snapshot_catalog_store_type),
	TEXT(48, snapshot_catalog_store_connstring),
	TEXT(49, snapshot_catalog_backend_type),
	TEXT(50, snapshot_catalog_backend_connstring),
	TEXT(51, nof_heartbeat_interval_sec),
	TEXT(52, nof_heartbeat_probe_timeout_ms),
	TEXT(53, nof_heartbeat_failures_threshold),
	TEXT(54, http_metadata_server_port),
	TEXT(55, http_metadata_server_host),
	TEXT(56, max_total_finished_tasks),
	TEXT(57, max_total_pending_tasks),
	TEXT(58, max_total_processing_tasks),
	TEXT(59, pending_task_timeout_sec),
	TEXT(60, processing_task_timeout_sec),
	TEXT(61, max_retry_attempts),
	TEXT(62, cxl_path),
	TEXT(63, cxl_size),
	TEXT(64, log_dir),
	TEXT(65, minloglevel),
	TEXT(66, max_log_size),
	TEXT(67, stderrthreshold),
	TEXT(68, vmodule),
	TEXT(69, logbuflevel),
	TEXT(70, logbufsecs),
	SWITCH(0, enable_gc, "0"),
	SWITCH(1, enable_metric_reporting, "1"),
	SWITCH(2, rpc_enable_tcp_no_delay, "1"),
	SWITCH(3, allow_evict_soft_pinned_objects, "1"),
	SWITCH(4, enable_disk_eviction, "1"),
	SWITCH(5, enable_offload, "0"),
	SWITCH(6, offload_on_evict, "0"),
	SWITCH(7, offload_force_evict, "0"),
	SWITCH(8, promotion_on_hit, "0"),
	SWITCH(9, enable_kv_events, "0"),
	SWITCH(10, kv_events_emit_legacy_compat, "1"),
	SWITCH(11, kv_events_emit_object_key, "1"),
	SWITCH(12, enable_ha, "0"),
	SWITCH(13, enable_oplog, "0"),
	SWITCH(14, enable_snapshot, "0"),
	SWITCH(15, enable_snapshot_restore, "0"),
	SWITCH(16, enable_http_metadata_server, "0"),
	SWITCH(17, enable_metadata_cleanup_on_timeout, "0"),
	SWITCH(18, enable_cxl, "0"),
	SWITCH(19, logtostderr, "0"),
	SWITCH(20, alsologtostderr, "0"),
	SWITCH(21, colorlogtostderr, "0"),
	SWITCH(22, stop_logging_if_full_disk, "0"),
	SWITCH(23, logtostdout, "0"),
};
/* clang-format on */

const size_t tei_server_n_rows =
	sizeof(tei_server_rows) / sizeof(tei_server_rows[0]);

const char *tei_server_host(const char *address)
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
