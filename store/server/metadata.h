/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metadata.h - what a metadata server keeps: values by key, in memory
 *
 * Keys and values are bytes. A value may be written under an incarnation, and
 * may expire; with conditions on the incarnation engines do not overwrite by
 * mistake what another living one has written. Everybody can read incarnations,
 * so a value may be written with a token, too: as long as it lives, only who
 * shows that token changes it. Kept is the token's digest. Everything is
 * bounded. Time is an argument.
 *
 * Threads: one at a time.
 */
#ifndef STORE_SERVER_METADATA_H
#define STORE_SERVER_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TES_METADATA_KEY_MAX    4096 /* bytes */
#define TES_METADATA_LIFE_MAX   64   /* bytes of an incarnation in text */
#define TES_METADATA_DIGEST_LEN 32
/*
 * ms; while it lasts a value may keep out who has no token or incarnation.
 * Engines refresh theirs in a third of metadata_ttl, which is not longer.
 */
#define TES_METADATA_TTL_MAX 3600000ull

struct tes_metadata;

struct tes_metadata_limits {
	uint64_t entries;
	uint64_t value; /* bytes of one */
	uint64_t bytes; /* of all: keys, values and what keeps them */
};

/* Condition under which a value is replaced or removed. */
enum tes_metadata_if {
	TES_METADATA_ALWAYS,
	TES_METADATA_IF_ABSENT,
	TES_METADATA_IF_LIFE, /* it was written by that incarnation */
};

struct tes_metadata_put {
	const char *key, *value, *life; /* life: NULL or len 0: none */
	size_t key_len, value_len, life_len;
	uint64_t ttl_ms; /* 0: stays */
	enum tes_metadata_if condition;
	const char *if_life; /* if_life[if_len] */
	size_t if_len;
	/* Digest[TES_METADATA_DIGEST_LEN] of its token; NULL: it has none. */
	const uint8_t *digest;
};

struct tes_metadata_removal {
	const char *key, *if_life; /* if_life NULL: whoever has written it */
	size_t key_len, if_len;
	const uint8_t *digest; /* of the token that is shown; NULL: none is */
};

enum tes_metadata_result {
	TES_METADATA_UPDATED,
	TES_METADATA_UNCHANGED, /* the same value; its time begins anew */
	TES_METADATA_TAKEN,     /* an rpc_meta key of another living engine */
	TES_METADATA_CONFLICT,  /* the condition does not hold */
	TES_METADATA_SECURED,   /* it was written with another token */
	TES_METADATA_TOO_LONG,  /* key, value or incarnation */
	TES_METADATA_FULL,
};

/* -ENOMEM, or no random bytes. */
int tes_metadata_create(const struct tes_metadata_limits *limits,
			struct tes_metadata **out);
void tes_metadata_destroy(struct tes_metadata *m); /* NULL is fine */

/* *value lives until the next call. False: there is none. */
bool tes_metadata_get(struct tes_metadata *m, const char *key, size_t len,
		      uint64_t now_ms, const char **value, size_t *value_len);
/* Puts a value. Nothing has changed unless it is UPDATED or UNCHANGED. */
enum tes_metadata_result tes_metadata_put(struct tes_metadata *m,
					  const struct tes_metadata_put *put,
					  uint64_t now_ms);
/*
 * 0, -ENOENT, -EEXIST (another incarnation has written it), -EACCES (it was
 * written with another token).
 */
int tes_metadata_remove(struct tes_metadata *m,
			const struct tes_metadata_removal *removal,
			uint64_t now_ms);
/* Entries that have not expired, but perhaps some that have just done so. */
size_t tes_metadata_count(const struct tes_metadata *m);
uint64_t tes_metadata_bytes(const struct tes_metadata *m);

#endif
