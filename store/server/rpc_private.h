/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_private.h - what the files that decode requests share
 *
 * What they return lives in the arena, or in the body.
 */
#ifndef STORE_SERVER_RPC_PRIVATE_H
#define STORE_SERVER_RPC_PRIVATE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "store/core/core.h"
#include "store/proto/store.pb-c.h"

/* -EBADMSG, and why. */
static inline int tes_rpc_malformed(const char **why, const char *text)
{
	*why = text;
	return -EBADMSG;
}

/* The message in @body; NULL: it does not decode. */
void *tes_rpc_unpack(struct tei_arena *arena,
		     const ProtobufCMessageDescriptor *type, const void *body,
		     size_t len);
/* Names are shown to people and put in lists of one a line. */
bool tes_rpc_is_name(const char *name);
bool tes_rpc_are_names(char *const *names, size_t n);
/* NULL: it has not the length of one. */
const uint8_t *tes_rpc_id(const ProtobufCBinaryData *id);
/*
 * The key column of every batch, bytes of all keys and @n lengths, to keys of
 * @out. 0, -EBADMSG.
 */
int tes_rpc_take_keys(struct tei_arena *arena, const ProtobufCBinaryData *bytes,
		      const uint32_t *lens, size_t n, struct tes_event *out,
		      const char **why);

/* A request into its part of @out. 0, -EBADMSG with *why. */
typedef int tes_rpc_decode_fn(struct tei_arena *arena, const void *body,
			      size_t len, struct tes_event *out,
			      const char **why);

/* rpc_objects.c */
tes_rpc_decode_fn tes_rpc_decode_put_start;
tes_rpc_decode_fn tes_rpc_decode_put_end;
tes_rpc_decode_fn tes_rpc_decode_lookup;
tes_rpc_decode_fn tes_rpc_decode_release;
tes_rpc_decode_fn tes_rpc_decode_keys;
tes_rpc_decode_fn tes_rpc_decode_replica_clear;
tes_rpc_decode_fn tes_rpc_decode_task_create;
tes_rpc_decode_fn tes_rpc_decode_task_query;

/* rpc_owners.c */
tes_rpc_decode_fn tes_rpc_decode_mount;
tes_rpc_decode_fn tes_rpc_decode_unmount;
tes_rpc_decode_fn tes_rpc_decode_drain;
tes_rpc_decode_fn tes_rpc_decode_offer;
tes_rpc_decode_fn tes_rpc_decode_fenced;
tes_rpc_decode_fn tes_rpc_decode_buried;
tes_rpc_decode_fn tes_rpc_decode_task_done;
tes_rpc_decode_fn tes_rpc_decode_report;
tes_rpc_decode_fn tes_rpc_decode_probed;

#endif
