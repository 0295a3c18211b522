/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc.h - requests of clients: bytes of a frame to an event of the core
 *
 * A request that does not decode, or whose columns differ in length, is
 * malformed: the connection is closed. A well-formed request that is wrong (a
 * key that is not there, a segment that wraps) is refused by the core.
 *
 * Everything decoded lives in @arena until its reset, but the bytes of the keys
 * of a frame of TES_SERVER_RPC_LENT bytes and more stay where they are, in its
 * body. Nothing here keeps state.
 */
#ifndef STORE_SERVER_RPC_H
#define STORE_SERVER_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "store/core/core.h"

/* The most that a message of the longest type may take once decoded. */
#define TES_SERVER_RPC_ARENA_MAX (16u << 20)

/* More than a connection reads into memory that it shares with others. */
#define TES_SERVER_RPC_LENT (64u << 10)

struct tes_server_rpc_hello {
	uint32_t version;
	uint64_t features;
	uint8_t client_id[TES_CORE_ID_LEN];   /* of the secret that it told */
	uint8_t incarnation[TES_CORE_ID_LEN]; /* of its engine's secret */
	const char *engine;
	const uint8_t *host; /* host[host_len] */
	size_t host_len;
	uint64_t epoch;             /* of the master before; 0: none */
	const uint8_t *epoch_proof; /* epoch_proof[epoch_proof_len] */
	size_t epoch_proof_len;
	const uint8_t *name_proof; /* name_proof[name_proof_len] */
	size_t name_proof_len;
	const char *tenant; /* "": none was named */
	bool heartbeat;
};

/*
 * Decode Hello. A version that is not ours is not malformed: then only
 * @out->version is set. 0, -EBADMSG with *why (static text).
 */
int tes_server_rpc_hello(struct tei_arena *arena, const void *body, size_t len,
			 struct tes_server_rpc_hello *out, const char **why);

/*
 * Decode Heartbeat; *epoch is what the client believes in, *mounts how many
 * segments it takes for mounted. 0, -EBADMSG.
 */
int tes_server_rpc_heartbeat(struct tei_arena *arena, const void *body,
			     size_t len, uint64_t *epoch, uint32_t *mounts,
			     const char **why);

/*
 * Decode a request of frame type @type, STORE_MOUNT .. STORE_REMOVE or
 * STORE_FENCED, into @out; session and cookie are left to the caller. 0,
 * -EBADMSG with *why, also when @type is none of these.
 */
int tes_server_rpc_event(struct tei_arena *arena, uint16_t type,
			 const void *body, size_t len, struct tes_event *out,
			 const char **why);

#endif
