/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity.h - who a client is, and whose an epoch was
 *
 * A client draws a secret and tells it in its hellos; its id is a hash of the
 * secret, made by whoever hears it. So the id may be shown to anybody: it names
 * the client and proves nothing. The incarnation of its engine is a hash of a
 * secret of the engine in the same way (base/incarnation.h).
 *
 * Masters that follow one another share a key. Each gives its clients a proof
 * of its epoch, and the next one believes the epoch of whoever shows that. So
 * it does with proofs that an owner had its name.
 */
#ifndef STORE_PROTO_IDENTITY_H
#define STORE_PROTO_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/proto/protocol.h"

/* The id of the client with @secret. -ENOMEM. */
int tes_client_id(const uint8_t secret[TES_STORE_SECRET_LEN],
		  uint8_t id[TES_STORE_CLIENT_ID_LEN]);
/* Prove that a master with @key has served under @epoch. -ENOMEM. */
int tes_epoch_prove(const uint8_t key[TES_STORE_EPOCH_KEY_LEN], uint64_t epoch,
		    uint8_t proof[TES_STORE_PROOF_LEN]);
/* False: @proof[len] is another one, or none. */
bool tes_epoch_is_proven(const uint8_t key[TES_STORE_EPOCH_KEY_LEN],
			 uint64_t epoch, const uint8_t *proof, size_t len);

/* An owner has its name at a master. */
struct tes_name_hold {
	uint16_t port;       /* of the master, so of its pool */
	uint64_t seed;       /* of that master's life */
	uint64_t epoch, n;   /* later holds of a name have higher ones */
	bool young;          /* see store/core/event.h */
	const uint8_t *life; /* [TES_STORE_LIFE_LEN]: of the owner's engine */
	const char *name;    /* of the engine */
};

/* Prove @hold, as a master with @key. -ENOMEM. */
int tes_name_prove(const uint8_t key[TES_STORE_EPOCH_KEY_LEN],
		   const struct tes_name_hold *hold,
		   uint8_t proof[TES_STORE_NAME_LEN]);
/*
 * False: @proof[len] is another one, or none. Port, life and name of @hold are
 * given, the rest is set to what the proof says.
 */
bool tes_name_is_proven(const uint8_t key[TES_STORE_EPOCH_KEY_LEN],
			struct tes_name_hold *hold, const uint8_t *proof,
			size_t len);

#endif
