/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer_engine_c.h - Mooncake's C interface of the transfer engine
 *
 * For programs written for Mooncake: names, values and meaning are its own
 * (libtransfer_engine.so), what does the work is libte. New programs are better
 * off with te/te.h, which says why something failed, has deadlines, and can
 * cancel and wait.
 *
 * Handles are numbers that look like pointers, not addresses: one that was
 * given back, or never given out, is refused, in every function. Strings and
 * arrays are borrowed for the call; local memory of a transfer until it has
 * ended. Every transfer ends, within 30 s and 1 s per GiB, as completed or as
 * failed. Threads: any.
 *
 * Functions return 0, or a negative ERR_* unless they say otherwise; a line of
 * the log says which argument is wrong and why. Others may be inside a function
 * of an engine that is given back: that waits until they have returned.
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

/* Macros, as with Mooncake: its users may say `segment_id_t` of their own. */
#define segment_handle_t int32_t
#define segment_id_t     int32_t
#define batch_id_t       uint64_t

#define LOCAL_SEGMENT 0 /* the engine's own */
#define INVALID_BATCH UINT64_MAX

#define OPCODE_READ  0 /* remote to local */
#define OPCODE_WRITE 1 /* local to remote */

struct transfer_request {
	int opcode;             /* OPCODE_* */
	void *source;           /* local memory, of a read too */
	segment_id_t target_id; /* from openSegment() */
	uint64_t target_offset; /* address in the owner's memory */
	uint64_t length;        /* bytes, at least 1 */
};
typedef struct transfer_request transfer_request_t;

/* Text, each with a 0 at its end; together at most 65531 bytes without them. */
struct notify_msg {
	char *name;
	char *msg;
};
typedef struct notify_msg notify_msg_t;

/* State of a transfer: WAITING, COMPLETED or FAILED; the others never occur. */
#define STATUS_WAITING   0 /* under way */
#define STATUS_PENDING   1
#define STATUS_INVALID   2
#define STATUS_CANCELED  3
#define STATUS_COMPLETED 4
#define STATUS_TIMEOUT   5
#define STATUS_FAILED    6

struct transfer_status {
	int status;
	uint64_t transferred_bytes; /* all of them when it is completed */
};
typedef struct transfer_status transfer_status_t;

/* Used by no function; here for those who name it. */
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
 * createTransferEngine - an engine that peers reach by its name
 * @metadata_conn_string: "P2PHANDSHAKE" (or NULL, ""): peers reach it by
 *        host:port alone. Or a directory of names: http://host:port/metadata,
 *        etcd://host:port, redis://host:port, or host:port, an etcd
 * @local_server_name: "host" or "host:port". With P2PHANDSHAKE the port is any
 *        free one, as getLocalIpAndPort() says, unless the environment has
 *        MC_LEGACY_RPC_PORT_BINDING. With a directory: the name there
 * @ip_or_host_name, @rpc_port: not looked at
 * @auto_discover: not looked at: devices are always looked for
 *
 * Serves peers of this host only, unless MOONCAKE_INSECURE is set. With
 * MC_FORCE_TCP all goes by tcp. Transfers to a peer that is away fail after
 * MC_TRANSFER_TIMEOUT seconds (at least 5; 30). Blocks: as te_engine_create().
 * Returns NULL when it cannot be, and the log says why.
 */
TRANSFER_ENGINE_API transfer_engine_t createTransferEngine(
	const char *metadata_conn_string, const char *local_server_name,
	const char *ip_or_host_name, uint64_t rpc_port, int auto_discover);
/*
 * Batches go with it, and no memory is touched any more. NULL is fine. Blocks:
 * 2 s at most, and for calls that others are in.
 */
TRANSFER_ENGINE_API void destroyTransferEngine(transfer_engine_t engine);
/* Devices are known from the beginning: 0. */
TRANSFER_ENGINE_API int discoverTopology(transfer_engine_t engine);
/* "host:port" into buf_out[buf_len], cut off where it is too long. */
TRANSFER_ENGINE_API int getLocalIpAndPort(transfer_engine_t engine,
					  char *buf_out, size_t buf_len);
/**
 * installTransport - whether the engine moves bytes by this protocol
 * @proto: "tcp", "rdma", "shm" ...; "rdma" without such a device goes by tcp,
 *         which is logged
 * @args:  not looked at
 *
 * Which ones there are was decided when the engine was created. Returns NULL
 * for protocols that nobody here knows.
 */
TRANSFER_ENGINE_API transport_t installTransport(transfer_engine_t engine,
						 const char *proto,
						 void **args);
TRANSFER_ENGINE_API int uninstallTransport(transfer_engine_t engine,
					   const char *proto);
/**
 * enableGracefulShutdown - give all engines back at SIGINT, SIGTERM and exit()
 *
 * Only for signals that still do what they do by default. After that the
 * process ends by its signal, as it would have.
 */
TRANSFER_ENGINE_API void enableGracefulShutdown(transfer_engine_t engine);

/* ---- segments ---- */

/**
 * openSegment - the segment of the engine of that name
 * @segment_name: one '/' at its beginning is not part of it
 *
 * The same name gives the same number for as long as the engine is there. Its
 * own name is LOCAL_SEGMENT. Blocks: 5 s at most, for a peer that does not
 * answer yet. Returns the number, or -1.
 */
TRANSFER_ENGINE_API segment_id_t openSegment(transfer_engine_t engine,
					     const char *segment_name);
/* The same: what a peer publishes is always known as it is. */
TRANSFER_ENGINE_API segment_id_t openSegmentNoCache(transfer_engine_t engine,
						    const char *segment_name);
/* 0 or -1, and the number stays what it is, as with Mooncake. */
TRANSFER_ENGINE_API int closeSegment(transfer_engine_t engine,
				     segment_id_t segment_id);
/* Connects now instead of with the first transfer. Blocks: 5 s at most. */
TRANSFER_ENGINE_API int warmupEfaSegment(transfer_engine_t engine,
					 const char *segment_name);
/* The name goes with the engine: 0 for its own, -1 for others. */
TRANSFER_ENGINE_API int removeLocalSegment(transfer_engine_t engine,
					   const char *segment_name);
/* Finds those again that have restarted. Blocks: 5 s for each that is away. */
TRANSFER_ENGINE_API int syncSegmentCache(transfer_engine_t engine);

/* ---- memory ---- */

/**
 * registerLocalMemory - let peers reach memory
 * @location: "cpu:0", "cuda:1" ..., or "*": look
 * @remote_accessible: 0: it is for transfers of this engine only
 *
 * Returns -1 (NULL, length 0, or it cannot be registered), -7 (part of it is
 * registered already), -302 (the process is out of memory).
 */
TRANSFER_ENGINE_API int registerLocalMemory(transfer_engine_t engine,
					    void *addr, size_t length,
					    const char *location,
					    int remote_accessible);
/*
 * Blocks: until nobody touches it. -3: nothing is registered at this address.
 */
TRANSFER_ENGINE_API int unregisterLocalMemory(transfer_engine_t engine,
					      void *addr);
/* All are registered, or none is. */
TRANSFER_ENGINE_API int registerLocalMemoryBatch(transfer_engine_t engine,
						 buffer_entry_t *buffer_list,
						 size_t buffer_len,
						 const char *location);
/* Goes on after a failure, and returns the first. */
TRANSFER_ENGINE_API int unregisterLocalMemoryBatch(transfer_engine_t engine,
						   void **addr_list,
						   size_t addr_len);

/* ---- transfers ---- */

/*
 * Room for @batch_size transfers, 1 .. 65528; INVALID_BATCH when there is none.
 */
TRANSFER_ENGINE_API batch_id_t allocateBatchID(transfer_engine_t engine,
					       size_t batch_size);
/**
 * submitTransfer - start moving bytes
 * @entries: entries[count]; the first of the batch is its task 0
 *
 * All are started or none is. Blocks: never, but for segments of peers that
 * have restarted, which are opened again. Returns 0, or (positive, as with
 * Mooncake) 1 (an entry, or @batch_id, is wrong), 2 (more than the batch has
 * room for), 302 (no memory).
 */
TRANSFER_ENGINE_API int submitTransfer(transfer_engine_t engine,
				       batch_id_t batch_id,
				       struct transfer_request *entries,
				       size_t count);
/*
 * And tell the owner of the first entry's segment, once all of the batch to it
 * so far are completed; by itself, whether somebody asks for its status or not.
 * A peer that restarts once all of them have ended is not told: the process
 * that has their bytes is gone, and its new life has none of them. As often as
 * a batch has room for transfers; one of more than 32768, only 65536 less that
 * many times.
 */
TRANSFER_ENGINE_API int
submitTransferWithNotify(transfer_engine_t engine, batch_id_t batch_id,
			 struct transfer_request *entries, size_t count,
			 notify_msg_t notify_msg);
/*
 * Of task @task_id of the batch. One whose peer has restarted goes once more,
 * to its new life, and is STATUS_WAITING for as long; MC_TRANSFER_TIMEOUT
 * seconds (30) and 1 s for each 10^9 bytes after it was submitted it has ended
 * in any case. A notification that was to follow it goes again, too, once and
 * behind it, and it is STATUS_WAITING until that has arrived. Blocks: never,
 * but up to 100 ms for a peer that has restarted, as long as another thread
 * asks so of the same batch, too. Returns 0, or -1 (there is none).
 */
TRANSFER_ENGINE_API int getTransferStatus(transfer_engine_t engine,
					  batch_id_t batch_id, size_t task_id,
					  struct transfer_status *status);
/*
 * 0; or 4: some are under way, nothing has happened; or 1: there is none.
 * Blocks as getTransferStatus().
 */
TRANSFER_ENGINE_API int freeBatchID(transfer_engine_t engine,
				    batch_id_t batch_id);

/* ---- notifications ---- */

/*
 * All that have come: array[*size] for freeNotifsMsgBuf(), or NULL. With a
 * @size of NULL they stay.
 */
TRANSFER_ENGINE_API notify_msg_t *getNotifsFromEngine(transfer_engine_t engine,
						      int *size);
TRANSFER_ENGINE_API int freeNotifsMsgBuf(notify_msg_t *msg, int size);
/* Sends one now. Blocks: until it is there, 30 s at most. */
TRANSFER_ENGINE_API int genNotifyInEngine(transfer_engine_t engine,
					  uint64_t target_id,
					  notify_msg_t notify_msg);

/* ---- looking inside ---- */

/* Nothing is told here, as by Mooncake's classic engine: *count is 0 then. */
TRANSFER_ENGINE_API int getNicLoadStats(transfer_engine_t engine,
					nic_load_stat_t *stats, size_t *count);
/*
 * Write the engine's name and rails to buf[len], as text or as JSON; cut off.
 */
TRANSFER_ENGINE_API int showLinks(transfer_engine_t engine, char *buf,
				  size_t len, int json);

#ifdef __cplusplus
}
#endif

#endif
