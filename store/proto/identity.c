/* SPDX-License-Identifier: Apache-2.0 */
/* identity.c - SHA-256 and HMAC over what docs/wire.md says */
#include "store/proto/identity.h"

#include <errno.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/sha.h>

#define CLIENT_TEXT "te store client"

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
