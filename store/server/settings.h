/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - the settings of mooncake_master
 *
 * Names, units, ranges and defaults are Mooncake's. Settings whose part does
 * not exist here (yet) have their field and are checked all the same: hidden
 * rows, named in one warning when they are given. Who builds the part only
 * takes the `hidden` away. Names that nobody knows are errors.
 */
#ifndef STORE_SERVER_SETTINGS_H
#define STORE_SERVER_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/glog.h"

/* Durations are ms whatever unit a name ends with; sizes are bytes. */
struct tes_server_settings {
	char *config_path;

	/* network */
	uint64_t port;     /* 0: kernel's choice */
	uint64_t rpc_port; /* 0: as port */
	char *rpc_address;
	char *rpc_interface;
	uint64_t rpc_conn_timeout_seconds;
	bool rpc_enable_tcp_no_delay;
	uint64_t max_threads, rpc_thread_num;
	bool insecure;
	char *allow_uids; /* members: base/peer.h */
	char *allow_host; /* of HTTP requests: tei_http_config */
	char *epoch_key_file;

	/* observation */
	uint64_t metrics_port; /* 0: kernel's choice */
	char *metrics_host;
	bool enable_metric_reporting;
	uint64_t v;

	/* leases and clients */
	uint64_t default_kv_lease_ttl;
	uint64_t client_ttl;
	uint64_t put_start_discard_timeout_sec;
	uint64_t put_start_release_timeout_sec;

	/* eviction and pins */
	double eviction_high_watermark_ratio;
	double eviction_ratio;
	uint64_t default_kv_soft_pin_ttl, max_kv_soft_pin_ttl;
	bool allow_evict_soft_pinned_objects;

	/* where replicas go */
	char *allocation_strategy;
	char *memory_allocator;
	char *dynamic_replication_mode;
	uint64_t dynamic_replication_heat_window_seconds;
	double dynamic_replication_admission_qps_threshold;
	uint64_t dynamic_replication_max_memory_replicas;

	/* tasks */
	uint64_t max_total_finished_tasks;
	uint64_t max_total_pending_tasks;
	uint64_t max_total_processing_tasks;
	uint64_t pending_task_timeout_sec;
	uint64_t processing_task_timeout_sec;
	uint64_t max_retry_attempts;

	/* tenants */
	bool enable_multi_tenants;
	char *tenant_quota_connector_type;
	char *tenant_quota_connector_uri;

	/* metadata server */
	bool enable_http_metadata_server;
	uint64_t http_metadata_server_port;
	char *http_metadata_server_host;
	bool enable_metadata_cleanup_on_timeout;

	/* key/value events */
	bool enable_kv_events;
	char *kv_events_bind_endpoint;
	char *kv_events_backend_id;
	bool kv_events_emit_legacy_compat;
	bool kv_events_emit_object_key;
	uint64_t kv_events_queue_capacity; /* 0: without end */
	char *kv_events_model_name, *kv_events_tenant_id;
	char *kv_events_additional_salt, *kv_events_lora_name;
	uint64_t kv_events_block_size, kv_events_dp_rank;

	/* several masters */
	char *cluster_id;
	bool enable_ha;
	char *ha_backend_type, *ha_backend_connstring, *etcd_endpoints;
	char *pod_name, *pod_namespace;
	bool enable_oplog;
	uint64_t oplog_poll_interval_ms;
	uint64_t oplog_batch_max_entries;
	uint64_t batch_oplog_retry_timeout_sec;

	/* snapshots */
	bool enable_snapshot, enable_snapshot_restore;
	uint64_t snapshot_interval_seconds;
	uint64_t snapshot_child_timeout_seconds;
	uint64_t snapshot_retention_count;
	char *snapshot_backup_dir;
	char *snapshot_object_store_type;
	char *snapshot_catalog_store_type;
	char *snapshot_catalog_store_connstring;

	/* disks */
	char *root_fs_dir;
	uint64_t global_file_segment_size;
	bool enable_disk_eviction;
	uint64_t quota_bytes;
	bool enable_offload, offload_on_evict, offload_force_evict;
	uint64_t offloading_queue_limit;
	double offload_cap_ratio;
	bool promotion_on_hit;
	uint64_t promotion_admission_threshold;
	uint64_t promotion_queue_limit;
	uint64_t promotion_max_per_heartbeat;

	/* other memories */
	bool enable_cxl;
	char *cxl_path;
	uint64_t cxl_size;
	double nof_eviction_ratio, nof_eviction_high_watermark_ratio;
	uint64_t nof_heartbeat_interval_sec;
	uint64_t nof_heartbeat_probe_timeout_ms;
	uint64_t nof_heartbeat_failures_threshold;

	/* of older masters */
	bool enable_gc;
	struct tei_glog glog;
};

/* The registry's rows over struct tes_server_settings. */
extern const struct tei_setting tes_server_rows[];
extern const size_t tes_server_n_rows;

/* NULL for every spelling of the wildcard, else @address. */
const char *tes_server_host(const char *address);

/* Port that rpc_port and port say together; 0: the kernel chooses. */
uint16_t tes_server_wanted_port(const struct tes_server_settings *settings);

#endif
