/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity.h - who a client is, and how a master knows it again
 *
 * A client draws a secret and tells it in its hellos; its id is a hash of the
 * secret, made by whoever hears it. So the id may be shown to anybody: it names
 * the client and proves nothing.
 */
#ifndef STORE_PROTO_IDENTITY_H
#define STORE_PROTO_IDENTITY_H

#include <stdint.h>

#include "store/proto/protocol.h"

/* The id of the client with @secret. -ENOMEM. */
int tes_client_id(const uint8_t secret[TES_STORE_SECRET_LEN],
		  uint8_t id[TES_STORE_CLIENT_ID_LEN]);

#endif
