/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer_engine_c.h - Mooncake's C interface of the transfer engine
 *
 * For programs written for Mooncake: names, values and meaning are those of its
 * libtransfer_engine.so, implemented by libte. New programs should use te/te.h,
 * which reports why a request failed, has deadlines, and can cancel and wait.
 *
 * Handles are numbers that look like pointers, not addresses. Every function
 * refuses a handle that was released or never returned. Strings and arrays are
 * borrowed for the call, local memory of a transfer until it has ended. Every
 * transfer ends within 30 s and 1 s per GiB, as completed or as failed.
 * Threads: any.
 *
 * Functions return 0, or a negative ERR_* number unless they say otherwise; a
 * line of the log says which argument is wrong and why. Destroying an engine
 * waits until other threads have left its functions.
 */
#ifndef TRANSFER_ENGINE_C
#define TRANSFER_ENGINE_C

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TRANSFER_ENGINE_API __attribute__((visibility("default")))
#else
#define TRANSFER_ENGINE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef void *transfer_engine_t; /* NULL is none */
typedef void *transport_t;       /* NULL is none */

/* Macros, as in Mooncake: programs may declare a `segment_id_t` themselves. */
#define segment_handle_t int32_t
#define segment_id_t     int32_t
#define batch_id_t       uint64_t

#define LOCAL_SEGMENT 0 /* segment of the engine itself */
#define INVALID_BATCH UINT64_MAX

#define OPCODE_READ  0 /* remote to local */
#define OPCODE_WRITE 1 /* local to remote */

struct transfer_request {
	int opcode;             /* OPCODE_* */
	void *source;           /* local memory, for reads and writes */
	segment_id_t target_id; /* from openSegment() */
	uint64_t target_offset; /* address in the owner's memory */
	uint64_t length;        /* bytes, at least 1 */
};
typedef struct transfer_request transfer_request_t;

/* NUL-terminated texts; together at most 65531 bytes without the NULs. */
struct notify_msg {
	char *name;
	char *msg;
};
typedef struct notify_msg notify_msg_t;

/* State of a transfer: WAITING, COMPLETED or FAILED; others never occur. */
#define STATUS_WAITING   0 /* in progress */
#define STATUS_PENDING   1
#define STATUS_INVALID   2
#define STATUS_CANCELED  3
#define STATUS_COMPLETED 4
#define STATUS_TIMEOUT   5
#define STATUS_FAILED    6

struct transfer_status {
	int status;
	uint64_t transferred_bytes; /* the whole length when completed */
};
typedef struct transfer_status transfer_status_t;

/* Declared for programs that name it; no function uses it. */
struct segment_desc {
	int type;
	union {
		struct {
			void *addr;
			uint64_t size;
			const char *location;
		} rdma;
		struct {
			const char *file_path;
			const char *subsystem_name;
			const char *proto;
			const char *ip;
			uint64_t port;
		} nvmeof;
	} desc_;
};
typedef struct segment_desc segment_desc_t;

struct buffer_entry {
	void *addr;
	size_t length;
};
typedef struct buffer_entry buffer_entry_t;

struct nic_load_stat {
	char device_name[64];
	uint64_t inflight_bytes;
	double ewma_bandwidth_bps;
};
typedef struct nic_load_stat nic_load_stat_t;

/* ---- engine ---- */

/**
 * createTransferEngine - create an engine that peers reach by its name
 * @metadata_conn_string: "P2PHANDSHAKE" (or NULL, ""): peers use host:port. Or
 *        a directory of names: http://host:port/metadata, etcd://host:port,
 *        redis://host:port, or host:port of an etcd
 * @local_server_name: "host" or "host:port". With P2PHANDSHAKE the port is any
 *        free one, which getLocalIpAndPort() returns, unless the environment
 *        has MC_LEGACY_RPC_PORT_BINDING. With a directory: the name there
 * @ip_or_host_name, @rpc_port: ignored
 * @auto_discover: ignored: the engine always looks for devices
 *
 * The engine serves peers of this host only, unless MOONCAKE_INSECURE is set.
 * With MC_FORCE_TCP every transfer goes by tcp. Transfers to a peer that is
 * away fail after MC_TRANSFER_TIMEOUT seconds (30; at least 5). Blocks: as
 * te_engine_create(). Returns NULL on failure, and the log says why.
 */
TRANSFER_ENGINE_API transfer_engine_t createTransferEngine(
	const char *metadata_conn_string, const char *local_server_name,
	const char *ip_or_host_name, uint64_t rpc_port, int auto_discover);
/*
 * Destroys the engine and its batches; no memory is touched afterwards. NULL is
 * fine. Blocks: 2 s at most, and until calls of other threads have returned.
 */
TRANSFER_ENGINE_API void destroyTransferEngine(transfer_engine_t engine);
/* Returns 0: the engine discovered its devices when it was created. */
TRANSFER_ENGINE_API int discoverTopology(transfer_engine_t engine);
/* Writes "host:port" to buf_out[buf_len], truncated if it is too long. */
TRANSFER_ENGINE_API int getLocalIpAndPort(transfer_engine_t engine,
					  char *buf_out, size_t buf_len);
/**
 * installTransport - check whether the engine moves bytes by a protocol
 * @proto: "tcp", "rdma", "shm" ...; "rdma" without an RDMA device falls back
 *         to tcp, which is logged
 * @args:  ignored
 *
 * The transports were chosen when the engine was created. Returns NULL for an
 * unknown protocol.
 */
TRANSFER_ENGINE_API transport_t installTransport(transfer_engine_t engine,
						 const char *proto,
						 void **args);
TRANSFER_ENGINE_API int uninstallTransport(transfer_engine_t engine,
					   const char *proto);
/**
 * enableGracefulShutdown - destroy all engines at SIGINT, SIGTERM and exit()
 *
 * Handles only signals whose action is still the default one. Afterwards the
 * process ends by the signal, as it would have without.
 */
TRANSFER_ENGINE_API void enableGracefulShutdown(transfer_engine_t engine);

/* ---- segments ---- */

/**
 * openSegment - open the segment of the engine of a name
 * @segment_name: one leading '/' is ignored
 *
 * A name keeps its number as long as the engine lives. The engine's own name is
 * LOCAL_SEGMENT. Blocks: 5 s at most, for a peer that does not answer yet.
 * Returns the number, or -1.
 */
TRANSFER_ENGINE_API segment_id_t openSegment(transfer_engine_t engine,
					     const char *segment_name);
/* Does what openSegment() does: descriptions of peers are always up to date. */
TRANSFER_ENGINE_API segment_id_t openSegmentNoCache(transfer_engine_t engine,
						    const char *segment_name);
/* Returns 0 or -1; the number stays valid, as with Mooncake. */
TRANSFER_ENGINE_API int closeSegment(transfer_engine_t engine,
				     segment_id_t segment_id);
/* Connects now instead of at the first transfer. Blocks: 5 s at most. */
TRANSFER_ENGINE_API int warmupEfaSegment(transfer_engine_t engine,
					 const char *segment_name);
/* Returns 0 for the engine's own name, else -1; changes nothing. */
TRANSFER_ENGINE_API int removeLocalSegment(transfer_engine_t engine,
					   const char *segment_name);
/* Reopens segments of restarted peers. Blocks: 5 s per peer that is away. */
TRANSFER_ENGINE_API int syncSegmentCache(transfer_engine_t engine);

/* ---- memory ---- */

/**
 * registerLocalMemory - register memory, so that peers reach it
 * @location: "cpu:0", "cuda:1" ..., or "*": found out by the engine
 * @remote_accessible: 0: only transfers of this engine use it
 *
 * Returns 0, -1 (NULL, length 0, or it cannot be registered), -7 (part of it is
 * registered already), -302 (no memory).
 */
TRANSFER_ENGINE_API int registerLocalMemory(transfer_engine_t engine,
					    void *addr, size_t length,
					    const char *location,
					    int remote_accessible);
/*
 * Undoes a registration. Blocks: until no transfer touches the memory. Returns
 * 0, -3 (nothing is registered at this address).
 */
TRANSFER_ENGINE_API int unregisterLocalMemory(transfer_engine_t engine,
					      void *addr);
/* Registers all buffers, or none. Returns as registerLocalMemory(). */
TRANSFER_ENGINE_API int registerLocalMemoryBatch(transfer_engine_t engine,
						 buffer_entry_t *buffer_list,
						 size_t buffer_len,
						 const char *location);
/* Continues after a failure, and returns the first one. */
TRANSFER_ENGINE_API int unregisterLocalMemoryBatch(transfer_engine_t engine,
						   void **addr_list,
						   size_t addr_len);

/* ---- transfers ---- */

/*
 * Creates a batch for @batch_size transfers, 1 .. 65528. Returns INVALID_BATCH
 * if it cannot.
 */
TRANSFER_ENGINE_API batch_id_t allocateBatchID(transfer_engine_t engine,
					       size_t batch_size);
/**
 * submitTransfer - start moving bytes
 * @entries: entries[count]; the first entry of the batch is its task 0
 *
 * Either all transfers start or none does. Blocks: never, except to reopen
 * segments of peers that have restarted. Returns 0, or (positive, as with
 * Mooncake) 1 (an entry or @batch_id is invalid), 2 (more entries than room in
 * the batch), 302 (no memory).
 */
TRANSFER_ENGINE_API int submitTransfer(transfer_engine_t engine,
				       batch_id_t batch_id,
				       struct transfer_request *entries,
				       size_t count);
/*
 * Submits as submitTransfer() does, and sends @notify_msg to the owner of the
 * first entry's segment once all transfers of the batch to that segment so far
 * have completed, whether or not getTransferStatus() is called. The message is
 * not sent to a peer that restarts after these transfers have ended, because
 * their bytes are lost with its former process. A batch sends as many
 * notifications as it has room for transfers; a batch of n > 32768 only
 * 65536 - n.
 */
TRANSFER_ENGINE_API int
submitTransferWithNotify(transfer_engine_t engine, batch_id_t batch_id,
			 struct transfer_request *entries, size_t count,
			 notify_msg_t notify_msg);
/*
 * Writes the state of task @task_id of the batch. A transfer whose peer has
 * restarted is repeated once, to the restarted engine, and is STATUS_WAITING
 * meanwhile; it ends in any case MC_TRANSFER_TIMEOUT seconds (30) and 1 s for
 * each 10^9 bytes after its submission. A notification that follows it is then
 * repeated once behind it too, and the transfer is STATUS_WAITING until the
 * message has arrived.
 *
 * Blocks: never, except for a peer that has restarted: up to 100 ms, and while
 * another thread does the same for this batch. Returns 0, or -1 (no such task).
 */
TRANSFER_ENGINE_API int getTransferStatus(transfer_engine_t engine,
					  batch_id_t batch_id, size_t task_id,
					  struct transfer_status *status);
/*
 * Frees the batch. Blocks as getTransferStatus(). Returns 0, 4 (transfers are
 * in progress, and nothing has happened), 1 (no such batch).
 */
TRANSFER_ENGINE_API int freeBatchID(transfer_engine_t engine,
				    batch_id_t batch_id);

/* ---- notifications ---- */

/*
 * Takes all notifications that have arrived. Returns array[*size], to be freed
 * by freeNotifsMsgBuf(), or NULL. If @size is NULL, nothing is taken.
 */
TRANSFER_ENGINE_API notify_msg_t *getNotifsFromEngine(transfer_engine_t engine,
						      int *size);
TRANSFER_ENGINE_API int freeNotifsMsgBuf(notify_msg_t *msg, int size);
/* Sends a notification. Blocks: until it has arrived, 30 s at most. */
TRANSFER_ENGINE_API int genNotifyInEngine(transfer_engine_t engine,
					  uint64_t target_id,
					  notify_msg_t notify_msg);

/* ---- statistics ---- */

/* Sets *count to 0, as Mooncake's classic engine does. */
TRANSFER_ENGINE_API int getNicLoadStats(transfer_engine_t engine,
					nic_load_stat_t *stats, size_t *count);
/*
 * Writes the engine's name and rails to buf[len], as text or, if @json, as
 * JSON; truncated if it is too long.
 */
TRANSFER_ENGINE_API int showLinks(transfer_engine_t engine, char *buf,
				  size_t len, int json);

#ifdef __cplusplus
}
#endif

#endif
