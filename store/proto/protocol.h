/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol.h - what clients and the master agree on besides store.proto
 */
#ifndef STORE_PROTO_PROTOCOL_H
#define STORE_PROTO_PROTOCOL_H

#include "base/frame.h"
#include "base/incarnation.h"

#define TES_STORE_VERSION       3    /* of Hello */
#define TES_STORE_BURIES        1    /* feature of a client: see Hello */
#define TES_STORE_EXECUTES      2    /* another one */
#define TES_STORE_PROBES        4    /* another one */
#define TES_STORE_TENANTS       8    /* one of the master's: see HelloReply */
#define TES_STORE_PADS          16   /* another one of the master's */
#define TES_STORE_PADDED        1024 /* bytes of such a push, at least */
#define TES_STORE_TENANT_MAX    64   /* bytes of Hello.tenant */
#define TES_STORE_CLIENT_ID_LEN 16
#define TES_STORE_EPOCH_KEY_LEN 32 /* of masters: see identity.h */
#define TES_STORE_PROOF_LEN     32 /* of an epoch */
#define TES_STORE_NAME_LEN      57 /* proof of a name: see identity.h */
/* An epoch above it needs a proof to be believed of anybody. */
#define TES_STORE_EPOCH_MAX  ((uint64_t)1 << 62)
#define TES_STORE_SECRET_LEN 32 /* of a client: see identity.h */
/* Secret of an engine, see Hello, and its incarnation. */
#define TES_STORE_ENGINE_LEN     TEI_LIFE_SECRET_LEN
#define TES_STORE_LIFE_LEN       TEI_INCARNATION_LEN
#define TES_STORE_GROUP_LEN      32
#define TES_STORE_SEGMENT_ID_LEN 16
#define TES_STORE_HOST_MAX       64 /* bytes of Hello.host */

/* Caps of every type, for both directions. */
extern const struct tei_frame_protocol tes_store_protocol;

#endif
