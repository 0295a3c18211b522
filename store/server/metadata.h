/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metadata.h - what a metadata server keeps: values by key, in memory
 *
 * Keys and values are bytes. A value may be written under an incarnation, and
 * may expire; with conditions on the incarnation nobody overwrites what another
 * living engine has written. Everything is bounded. Time is an argument.
 *
 * Threads: one at a time.
 */
#ifndef STORE_SERVER_METADATA_H
#define STORE_SERVER_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEI_METADATA_KEY_MAX  4096 /* bytes */
#define TEI_METADATA_LIFE_MAX 64 /* bytes of an incarnation as it is written */
#define TEI_METADATA_TTL_MAX  86400000ull /* ms */

struct tei_metadata;

struct tei_metadata_limits {
	uint64_t entries;
	uint64_t value; /* bytes of one */
	uint64_t bytes; /* of all: keys, values and what keeps them */
};

/* What is compared with the value that is there. */
enum tei_metadata_if {
	TEI_METADATA_ALWAYS,
	TEI_METADATA_IF_ABSENT,
	TEI_METADATA_IF_LIFE, /* it was written by that incarnation */
};

struct tei_metadata_put {
	const char *key, *value, *life; /* life: NULL or len 0: none */
	size_t key_len, value_len, life_len;
	uint64_t ttl_ms; /* 0: stays */
	enum tei_metadata_if condition;
	const char *if_life; /* if_life[if_len] */
	size_t if_len;
};

enum tei_metadata_result {
	TEI_METADATA_UPDATED,
	TEI_METADATA_UNCHANGED, /* the same value; its time begins anew */
	TEI_METADATA_TAKEN,     /* an rpc_meta key of another living engine */
	TEI_METADATA_CONFLICT,  /* the condition does not hold */
	TEI_METADATA_TOO_LONG,  /* key, value or incarnation */
	TEI_METADATA_FULL,
};

/* -ENOMEM, or no random bytes. */
int tei_metadata_create(const struct tei_metadata_limits *limits,
			struct tei_metadata **out);
void tei_metadata_destroy(struct tei_metadata *m); /* NULL is fine */

/* *value lives until the next call. False: there is none. */
bool tei_metadata_get(struct tei_metadata *m, const char *key, size_t len,
		      uint64_t now_ms, const char **value, size_t *value_len);
/* Unless it is UPDATED or UNCHANGED, nothing has changed. */
enum tei_metadata_result tei_metadata_put(struct tei_metadata *m,
					  const struct tei_metadata_put *put,
					  uint64_t now_ms);
/* @life NULL: whoever has written it. 0, -ENOENT, -EEXIST: another has. */
int tei_metadata_remove(struct tei_metadata *m, const char *key, size_t len,
			const char *life, size_t life_len, uint64_t now_ms);
/* Entries that have not expired, but perhaps some that have just done so. */
size_t tei_metadata_count(const struct tei_metadata *m);
uint64_t tei_metadata_bytes(const struct tei_metadata *m);

#endif
