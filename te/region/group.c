/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - HMAC-SHA256 over the challenge, as control.proto says */
#include "te/region/group.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/bytes.h"
#include "base/log.h"

#define TAG_TEXT   "te group tag"
#define PROOF_TEXT "te group"
#define PEER_TEXT  "te peer "

_Static_assert(TEI_PEER_SECRET_LEN == TE_GROUP_SECRET_LEN,
	       "hmac() takes as much as a group's");
_Static_assert(TEI_PEER_SECRET_LEN == TEI_GROUP_PROOF_LEN,
	       "hmac() gives as much as a group's");

static int hmac(const uint8_t *secret, const void *bytes, size_t len,
		uint8_t out[TEI_GROUP_PROOF_LEN])
{
	unsigned int out_len = TEI_GROUP_PROOF_LEN;

	if (!HMAC(EVP_sha256(), secret, TE_GROUP_SECRET_LEN, bytes, len, out,
		  &out_len)) {
		LOG_ERROR("group: hmac failed");
		return -ENOMEM;
	}
	return 0;
}

int tei_group_find(const struct tei_group_set *set,
		   const uint8_t secret[TE_GROUP_SECRET_LEN])
{
	unsigned int i;

	for (i = 0; i < set->n; i++) {
		if (set->group[i].refs &&
		    !CRYPTO_memcmp(set->group[i].secret, secret,
				   TE_GROUP_SECRET_LEN))
			return (int)i;
	}
	return -1;
}

/* -ENOBUFS: none. */
static int free_place(const struct tei_group_set *set)
{
	unsigned int i;

	for (i = 0; i < set->n; i++) {
		if (!set->group[i].refs && !set->group[i].fading)
			return (int)i;
	}
	return i < TEI_GROUPS_MAX ? (int)i : -ENOBUFS;
}

int tei_group_add(struct tei_group_set *set,
		  const uint8_t secret[TE_GROUP_SECRET_LEN])
{
	uint8_t digest[TEI_GROUP_PROOF_LEN];
	struct tei_group *group;
	int place;

	place = tei_group_find(set, secret);
	if (place >= 0) {
		set->group[place].refs++;
		return place;
	}
	place = free_place(set);
	if (place < 0)
		return place;
	if (hmac(secret, TAG_TEXT, strlen(TAG_TEXT), digest))
		return -ENOMEM;
	group = &set->group[place];
	memcpy(group->secret, secret, TE_GROUP_SECRET_LEN);
	memcpy(group->tag, digest, TEI_GROUP_TAG_LEN);
	group->refs = 1;
	group->fading = false;
	if ((unsigned int)place >= set->n)
		set->n = (unsigned int)place + 1;
	return place;
}

bool tei_group_remove(struct tei_group_set *set, unsigned int place)
{
	struct tei_group *group = &set->group[place];

	assert(place < set->n && group->refs);
	if (--group->refs)
		return false;
	group->fading = true;
	OPENSSL_cleanse(group->secret, sizeof(group->secret));
	return true;
}

void tei_group_free(struct tei_group_set *set, unsigned int place)
{
	assert(place < set->n && set->group[place].fading);
	set->group[place].fading = false;
}

int tei_group_by_tag(const struct tei_group_set *set,
		     const uint8_t tag[TEI_GROUP_TAG_LEN])
{
	unsigned int i;

	for (i = 0; i < set->n; i++) {
		if (set->group[i].refs &&
		    !memcmp(set->group[i].tag, tag, TEI_GROUP_TAG_LEN))
			return (int)i;
	}
	return -1;
}

int tei_group_prove(const struct tei_group *group,
		    const struct tei_group_challenge *challenge, char side,
		    uint8_t proof[TEI_GROUP_PROOF_LEN])
{
	uint8_t text[sizeof(PROOF_TEXT) + 2 * TEI_NONCE_LEN +
		     2 * TE_INCARNATION_LEN];
	struct tei_writer w;

	tei_writer_init(&w, text, sizeof(text));
	tei_write_bytes(&w, PROOF_TEXT, strlen(PROOF_TEXT));
	tei_write_bytes(&w, challenge->initiator_nonce, TEI_NONCE_LEN);
	tei_write_bytes(&w, challenge->owner_nonce, TEI_NONCE_LEN);
	tei_write_bytes(&w, challenge->initiator, TE_INCARNATION_LEN);
	tei_write_bytes(&w, challenge->owner, TE_INCARNATION_LEN);
	tei_write_u8(&w, (uint8_t)side);
	return hmac(group->secret, text, (size_t)(w.at - text), proof);
}

bool tei_group_verify(const struct tei_group *group,
		      const struct tei_group_challenge *challenge, char side,
		      const uint8_t proof[TEI_GROUP_PROOF_LEN])
{
	uint8_t right[TEI_GROUP_PROOF_LEN];

	if (tei_group_prove(group, challenge, side, right))
		return false;
	return !CRYPTO_memcmp(right, proof, TEI_GROUP_PROOF_LEN);
}

int tei_peer_secret(const uint8_t own[TEI_PEER_SECRET_LEN], const char *name,
		    uint8_t out[TEI_PEER_SECRET_LEN])
{
	char text[sizeof(PEER_TEXT) + TE_NAME_LEN_MAX];
	int len = snprintf(text, sizeof(text), PEER_TEXT "%s", name);

	assert(len > 0 && (size_t)len < sizeof(text));
	return hmac(own, text, (size_t)len, out);
}

int tei_random(void *bytes, size_t len)
{
	uint8_t *at = bytes;

	while (len) {
		ssize_t n = getrandom(at, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			LOG_ERROR("random: %s", strerror(errno));
			return -EIO;
		}
		at += n;
		len -= (size_t)n;
	}
	return 0;
}
