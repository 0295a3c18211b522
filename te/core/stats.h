/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats.h - every counter of an engine, in one list
 *
 * X(field, name, label). Counters are relaxed atomics: they say how much, and
 * order nothing. Figures that the rails keep are added when they are read.
 */
#ifndef TE_CORE_STATS_H
#define TE_CORE_STATS_H

#include <stdatomic.h>
#include <stdint.h>

#define TEI_STATS(X)                                                   \
	X(requests, "te_requests_total", "")                           \
	X(bytes_read, "te_request_bytes_total", "read")                \
	X(bytes_written, "te_request_bytes_total", "write")            \
	X(failed_timeout, "te_requests_failed_total", "timeout")       \
	X(failed_canceled, "te_requests_failed_total", "canceled")     \
	X(failed_stale, "te_requests_failed_total", "stale")           \
	X(failed_access, "te_requests_failed_total", "access")         \
	X(failed_range, "te_requests_failed_total", "range")           \
	X(failed_connection, "te_requests_failed_total", "connection") \
	X(failed_silent, "te_requests_failed_total", "silent")         \
	X(failed_other, "te_requests_failed_total", "other")           \
	X(merged, "te_requests_merged_total", "")                      \
	X(slices, "te_slices_total", "")                               \
	X(gpu_direct, "te_gpu_bytes_total", "direct")                  \
	X(gpu_staged, "te_gpu_bytes_total", "staged")                  \
	X(prefault_lent, "te_prefault_bytes_total", "lent")            \
	X(prefault_mapped, "te_prefault_bytes_total", "mapped")        \
	X(retries, "te_slice_retries_total", "")                       \
	X(suspects, "te_peer_suspects_total", "")                      \
	X(pair_pauses, "te_rail_pauses_total", "pair")                 \
	X(device_pauses, "te_rail_pauses_total", "device")             \
	X(pair_returns, "te_rail_returns_total", "")                   \
	X(rails_unmatched, "te_rail_unmatched_total", "")              \
	X(given_up_silent, "te_endpoints_given_up_total", "silent")    \
	X(given_up_slow, "te_endpoints_given_up_total", "slow")        \
	X(links_up, "te_endpoints_up_total", "")                       \
	X(links_down, "te_endpoints_down_total", "")                   \
	X(links_retired, "te_endpoints_retired_total", "")             \
	X(drops_asked, "te_endpoint_drops_asked_total", "")            \
	X(drops_served, "te_endpoint_drops_served_total", "")          \
	X(refused_pins, "te_slices_refused_total", "")                 \
	X(control_up, "te_control_up_total", "")                       \
	X(control_failed, "te_control_failed_total", "")               \
	X(directory_found, "te_directory_look_ups_total", "found")     \
	X(directory_failed, "te_directory_look_ups_total", "failed")   \
	X(control_rerouted, "te_control_rerouted_total", "")           \
	X(notifies_sent, "te_notifications_total", "sent")             \
	X(notifies_received, "te_notifications_total", "received")     \
	X(notifies_full, "te_notifications_held_up_total", "")         \
	X(inbound_conns, "te_visitors_total", "")                      \
	X(refused_hello, "te_control_refused_total", "hello")          \
	X(refused_name, "te_control_refused_total", "name")            \
	X(refused_proof, "te_control_refused_total", "proof")          \
	X(bad_type, "te_control_refused_total", "type")                \
	X(too_long, "te_control_refused_total", "length")              \
	X(bad_body, "te_control_refused_total", "body")                \
	X(late, "te_control_refused_total", "late")                    \
	X(stranger, "te_control_refused_total", "stranger")            \
	X(crowd, "te_control_refused_total", "crowd")                  \
	X(idle, "te_control_refused_total", "idle")                    \
	X(unfinished, "te_control_refused_total", "unfinished")        \
	X(unread, "te_control_refused_total", "unread")                \
	X(revocations, "te_revocations_total", "")                     \
	X(restarts_seen, "te_peer_restarts_total", "")                 \
	X(topo_affinity, "te_topology_faults_total", "affinity")       \
	X(topo_file, "te_topology_faults_total", "file")               \
	X(topo_location, "te_topology_faults_total", "location")       \
	X(topo_rail, "te_topology_faults_total", "rail")

struct tei_stats {
#define TEI_STATS_FIELD(field, name, label) _Atomic uint64_t field;
	TEI_STATS(TEI_STATS_FIELD)
#undef TEI_STATS_FIELD
};

#define TEI_COUNT_BY(engine, field, n)                              \
	((void)atomic_fetch_add_explicit(&(engine)->stats.field, n, \
					 memory_order_relaxed))
#define TEI_COUNT(engine, field) TEI_COUNT_BY(engine, field, 1)
/* Adds to a worker's own counter, which the holder of its token changes. */
#define TEI_COUNT_OWN(worker, field, n) tei_count_own(&(worker)->stats.field, n)

static inline void tei_count_own(_Atomic uint64_t *counter, uint64_t n)
{
	uint64_t old = atomic_load_explicit(counter, memory_order_relaxed);

	atomic_store_explicit(counter, old + n, memory_order_relaxed);
}

#endif
