/* SPDX-License-Identifier: Apache-2.0 */
/* incarnation.c - a part of an HMAC-SHA256 */
#include "base/incarnation.h"

#include <errno.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#define LIFE_TEXT "te incarnation"

int tei_incarnation(const uint8_t secret[TEI_LIFE_SECRET_LEN],
		    uint8_t out[TEI_INCARNATION_LEN])
{
	uint8_t hash[SHA256_DIGEST_LENGTH];
	unsigned int len = sizeof(hash);

	if (!HMAC(EVP_sha256(), secret, TEI_LIFE_SECRET_LEN,
		  (const uint8_t *)LIFE_TEXT, sizeof(LIFE_TEXT) - 1, hash,
		  &len))
		return -ENOMEM;
	memcpy(out, hash, TEI_INCARNATION_LEN);
	return 0;
}
