/* SPDX-License-Identifier: Apache-2.0 */
/* identity.c - SHA-256 and HMAC over what docs/wire.md says */
#include "store/proto/identity.h"

#include <errno.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "base/bytes.h"
#include "base/net.h"

#define CLIENT_TEXT "te store client"
#define EPOCH_TEXT  "te store epoch"
#define NAME_TEXT   "te store name"

#define NAME_HEAD_LEN (TES_STORE_NAME_LEN - TES_STORE_PROOF_LEN)

int tes_client_id(const uint8_t secret[TES_STORE_SECRET_LEN],
		  uint8_t id[TES_STORE_CLIENT_ID_LEN])
{
	uint8_t text[sizeof(CLIENT_TEXT) - 1 + TES_STORE_SECRET_LEN];
	uint8_t digest[SHA256_DIGEST_LENGTH];

	memcpy(text, CLIENT_TEXT, sizeof(CLIENT_TEXT) - 1);
	memcpy(text + sizeof(CLIENT_TEXT) - 1, secret, TES_STORE_SECRET_LEN);
	if (!EVP_Digest(text, sizeof(text), digest, NULL, EVP_sha256(), NULL))
		return -ENOMEM;
	memcpy(id, digest, TES_STORE_CLIENT_ID_LEN);
	return 0;
}

int tes_epoch_prove(const uint8_t key[TES_STORE_EPOCH_KEY_LEN], uint64_t epoch,
		    uint8_t proof[TES_STORE_PROOF_LEN])
{
	uint8_t text[sizeof(EPOCH_TEXT) - 1 + sizeof(epoch)];
	unsigned int len = TES_STORE_PROOF_LEN;
	struct tei_writer w;

	tei_writer_init(&w, text, sizeof(text));
	tei_write_bytes(&w, EPOCH_TEXT, sizeof(EPOCH_TEXT) - 1);
	tei_write_u64(&w, epoch);
	return HMAC(EVP_sha256(), key, TES_STORE_EPOCH_KEY_LEN, text,
		    sizeof(text), proof, &len)
		       ? 0
		       : -ENOMEM;
}

bool tes_epoch_is_proven(const uint8_t key[TES_STORE_EPOCH_KEY_LEN],
			 uint64_t epoch, const uint8_t *proof, size_t len)
{
	uint8_t right[TES_STORE_PROOF_LEN];

	return len == sizeof(right) && !tes_epoch_prove(key, epoch, right) &&
	       !CRYPTO_memcmp(right, proof, sizeof(right));
}

int tes_name_prove(const uint8_t key[TES_STORE_EPOCH_KEY_LEN],
		   const struct tes_name_hold *hold,
		   uint8_t proof[TES_STORE_NAME_LEN])
{
	uint8_t text[sizeof(NAME_TEXT) + 2 + NAME_HEAD_LEN +
		     TES_STORE_LIFE_LEN + TEI_NAME_LEN_MAX];
	unsigned int len = TES_STORE_PROOF_LEN;
	struct tei_writer w;

	tei_writer_init(&w, proof, TES_STORE_NAME_LEN);
	tei_write_u64(&w, hold->seed);
	tei_write_u64(&w, hold->epoch);
	tei_write_u64(&w, hold->n);
	tei_write_u8(&w, hold->young);
	tei_writer_init(&w, text, sizeof(text));
	tei_write_bytes(&w, NAME_TEXT, sizeof(NAME_TEXT) - 1);
	tei_write_u16(&w, hold->port);
	tei_write_bytes(&w, proof, NAME_HEAD_LEN);
	tei_write_bytes(&w, hold->life, TES_STORE_LIFE_LEN);
	tei_write_bytes(&w, hold->name, strlen(hold->name));
	return HMAC(EVP_sha256(), key, TES_STORE_EPOCH_KEY_LEN, text,
		    (size_t)(w.at - text), proof + NAME_HEAD_LEN, &len)
		       ? 0
		       : -ENOMEM;
}

bool tes_name_is_proven(const uint8_t key[TES_STORE_EPOCH_KEY_LEN],
			struct tes_name_hold *hold, const uint8_t *proof,
			size_t len)
{
	uint8_t right[TES_STORE_NAME_LEN];
	struct tei_reader r;

	if (len != sizeof(right))
		return false;
	tei_reader_init(&r, proof, len);
	hold->seed = tei_read_u64(&r);
	hold->epoch = tei_read_u64(&r);
	hold->n = tei_read_u64(&r);
	hold->young = tei_read_u8(&r);
	return !tes_name_prove(key, hold, right) &&
	       !CRYPTO_memcmp(right, proof, sizeof(right));
}
