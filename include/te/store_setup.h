/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_setup.h - join a pool by the keys and values of Mooncake's setup()
 *
 * The rules of Mooncake's setup() are implemented here only, for its C, C++
 * and Python interfaces alike. New programs should use te_store_setup().
 */
#ifndef TE_STORE_SETUP_H
#define TE_STORE_SETUP_H

#include <stddef.h>

#include <te/store.h>

#ifdef __cplusplus
extern "C" {
#endif

struct te_store_pair {
	const char *key, *value;
};

/**
 * te_store_setup_pairs - join a pool
 * @pairs:  pairs[n]; of equal keys the last counts
 * @engine: engine to use (not owned), whose name becomes the client's; NULL:
 *          create one
 *
 *   local_hostname         host or host:port; required. Without a port a free
 *                          one of client_min_port .. client_max_port is used,
 *                          else any
 *   metadata_server        P2PHANDSHAKE (none), http://, etcd://, redis://, or
 *                          host:port of an etcd; required
 *   global_segment_size    memory lent to the pool: 16 MB by default; 0 (none)
 *                          or 1 KiB at least; "4gb", "1.5 GB", "1048576"
 *   local_buffer_size      the same, at most 1 TB; committed when first used
 *   protocol               tcp, or rdma, which falls back to tcp with one
 *                          warning where there is no RDMA device; nvlink_intra
 *                          and nvlink: as tcp
 *   rdma_devices           or device_name: devices to use with rdma; an error
 *                          if none of them exists. Ignored with tcp
 *   master_server_addr     or master_server_address: host:port, default
 *                          127.0.0.1:50051
 *   tenant_id              tenant whose keys are used: default
 *   force_tcp              or environment MC_FORCE_TCP: use tcp, whatever
 *                          protocol says
 *   client_min_port, client_max_port
 *                          or MC_STORE_CLIENT_MIN_PORT, ..._MAX_PORT: 12300,
 *                          14300
 *   rpc_timeout, connect_timeout, replica_timeout
 *                          or MC_RPC_TIMEOUT_MS, MC_RPC_CONNECT_TIMEOUT_MS,
 *                          TE_REPLICA_TIMEOUT: 1s, 5s, 1s; call_, setup_ and
 *                          replica_timeout_ms of te_store_config
 *   drain_timeout          or TE_DRAIN_TIMEOUT: 10s; drain_timeout_ms of the
 *                          same; 0: closing it loses what is in its memory
 *   location_cache         or TE_LOCATION_CACHE: 0; location_cache_entries
 *   local_hot_cache_size, local_hot_block_size, local_hot_admission_threshold
 *                          or MC_STORE_LOCAL_HOT_CACHE_SIZE, ..._BLOCK_SIZE,
 *                          ..._ADMISSION_THRESHOLD: 0, 16 MB, 2;
 *                          hot_cache_bytes, _value_bytes and _threshold
 *   pin_memory, pin_memory_max_bytes
 *                          or MC_STORE_PIN_MEMORY, ..._MAX_BYTES: off, 0 (no
 *                          limit); a limit alone switches it on: pin_mib
 *   enable_client_http_server, client_http_port
 *                          off, 9300: serves /health, /metrics and
 *                          /metrics/summary. A port in use is logged in one
 *                          line and is no error
 *
 * Pairs take precedence over the environment. ipc_socket_path,
 * enable_ssd_offload and ssd_offload_path are accepted and have no effect, as
 * one warning says. Each unknown key is named in a warning. A switch that is
 * neither on nor off is taken as off, with a warning.
 *
 * Blocks: connect_timeout at most. Returns 0, or *out is untouched, one line
 * of the log says which value is wrong and why, and:
 *   -600  a value is malformed, out of range or missing; no such device
 *   -900, -300, -1 as of te_store_setup()
 */
TE_API int te_store_setup_pairs(const struct te_store_pair *pairs, size_t n,
				struct te_engine *engine,
				struct te_store **out);

/*
 * Returns for te_store_config.pin_mib what the environment says of pinned
 * memory (MC_STORE_PIN_MEMORY, MC_STORE_PIN_MEMORY_MAX_BYTES); 0, with a
 * warning, where that is malformed. te_store_setup_pairs() does so by itself.
 */
TE_API uint32_t te_store_pin_mib(void);

#ifdef __cplusplus
}
#endif

#endif
