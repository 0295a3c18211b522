/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.h - access groups: secrets, and proofs that somebody knows them
 *
 * A proof is bound to both nonces and both incarnations of one control
 * connection and to the side that gives it, so it is of no use elsewhere. A
 * secret between two peers is no proof: it is what the next one has to repeat.
 *
 * Threads: sets of groups under regions.mu; proofs any.
 */
#ifndef TE_REGION_GROUP_H
#define TE_REGION_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/te.h>

#define TEI_GROUPS_MAX      64
#define TEI_GROUP_TAG_LEN   8
#define TEI_GROUP_PROOF_LEN 32
#define TEI_NONCE_LEN       32
#define TEI_PEER_SECRET_LEN 32

/* Set of secrets; bit i is place i of a tei_group_set. */
typedef uint64_t tei_group_mask;

/*
 *   free --add--> known --removed by all--> fading --free--> free
 *
 * A fading group is found by nobody, but its place is not given away until
 * whoever keeps masks has cleared its bit in them.
 */
struct tei_group {
	uint8_t secret[TE_GROUP_SECRET_LEN];
	uint8_t tag[TEI_GROUP_TAG_LEN];
	uint32_t refs; /* 0: free or fading */
	bool fading;
};

/* Threads: none of its own. A place belongs to a group until it is free. */
struct tei_group_set {
	struct tei_group group[TEI_GROUPS_MAX];
	unsigned int n; /* places in use are below it */
};

/* Input of a proof, the same on both sides; the side is 'i' or 'o'. */
struct tei_group_challenge {
	uint8_t initiator_nonce[TEI_NONCE_LEN];
	uint8_t owner_nonce[TEI_NONCE_LEN];
	uint8_t initiator[TE_INCARNATION_LEN];
	uint8_t owner[TE_INCARNATION_LEN];
};

/*
 * The place of @secret, added if new, counted. -ENOBUFS: full. -ENOMEM (of
 * OpenSSL).
 */
int tei_group_add(struct tei_group_set *set,
		  const uint8_t secret[TE_GROUP_SECRET_LEN]);
/* Undo one add. True: it was the last, the group is fading. */
bool tei_group_remove(struct tei_group_set *set, unsigned int place);
/* The place of a fading group may be used again. */
void tei_group_free(struct tei_group_set *set, unsigned int place);
/* The place of a known secret, or -1. */
int tei_group_find(const struct tei_group_set *set,
		   const uint8_t secret[TE_GROUP_SECRET_LEN]);
/* The place of the known group with that tag, or -1. */
int tei_group_by_tag(const struct tei_group_set *set,
		     const uint8_t tag[TEI_GROUP_TAG_LEN]);

/* -ENOMEM (of OpenSSL). */
int tei_group_prove(const struct tei_group *group,
		    const struct tei_group_challenge *challenge, char side,
		    uint8_t proof[TEI_GROUP_PROOF_LEN]);
/* Compares in constant time. */
bool tei_group_verify(const struct tei_group *group,
		      const struct tei_group_challenge *challenge, char side,
		      const uint8_t proof[TEI_GROUP_PROOF_LEN]);

/*
 * The secret that an engine, which keeps @own to itself, shows only to who is
 * reached under @name, so that nobody else can pass for it there. -ENOMEM (of
 * OpenSSL).
 */
int tei_peer_secret(const uint8_t own[TEI_PEER_SECRET_LEN], const char *name,
		    uint8_t out[TEI_PEER_SECRET_LEN]);

/* @len random bytes. -EIO. */
int tei_random(void *bytes, size_t len);

#endif
