/* SPDX-License-Identifier: Apache-2.0 */
/* events_pack.c - a message of events as MessagePack */
#include "store/server/events_pack.h"

#include <errno.h>
#include <string.h>

#include <msgpack/pack.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/utf8.h"

/* Pairs of an event that differ, and all with those that are the same. */
#define PAIRS_OWN     5u
#define PAIRS_LEGACY  2u
#define PAIRS_SAME    9u
#define PAIRS_STORED  2u
#define STORED_LEGACY 1u

static int add(void *arg, const char *bytes, size_t len)
{
	struct tes_events_bytes *to = arg;
	size_t room = to->room ? to->room : 256;
	char *grown;

	if (to->room - to->len < len) {
		while (room - to->len < len)
			room *= 2;
		grown = tei_realloc(to->at, room);
		if (!grown)
			return -1;
		to->at = grown;
		to->room = room;
	}
	memcpy(to->at + to->len, bytes, len);
	to->len += len;
	return 0;
}

/* The packer's functions return 0 or what add() did: failures add up. */
static int text(msgpack_packer *pk, const void *bytes, size_t len)
{
	int rc = msgpack_pack_str(pk, len);

	return rc || !len ? rc : msgpack_pack_str_body(pk, bytes, len);
}

static int name(msgpack_packer *pk, const char *s)
{
	return text(pk, s, strlen(s));
}

static int nil(msgpack_packer *pk, const char *key)
{
	return name(pk, key) | msgpack_pack_nil(pk);
}

static int pair(msgpack_packer *pk, const char *key, const char *value)
{
	return name(pk, key) | name(pk, value);
}

static size_t n_pairs(const struct tes_events_packer *p, bool stored)
{
	size_t n = PAIRS_OWN + PAIRS_SAME + p->object_key;

	if (p->legacy)
		n += PAIRS_LEGACY + (stored ? STORED_LEGACY : 0);
	return n + (stored ? PAIRS_STORED : 0);
}

/* The head of the map, and what all events that are (not) @stored share. A
 * pool knows of no model, and each of its keys stands for itself. */
static int same_pairs(const struct tes_events_packer *p, msgpack_packer *pk,
		      const char *backend_id, bool stored)
{
	int rc = msgpack_pack_map(pk, n_pairs(p, stored));

	rc |= pair(pk, "event_type", stored ? "stored" : "removed");
	rc |= nil(pk, "model_name");
	rc |= nil(pk, "block_size");
	rc |= nil(pk, "additional_salt");
	rc |= nil(pk, "lora_name");
	rc |= nil(pk, "dp_rank");
	rc |= pair(pk, "backend_id", backend_id);
	rc |= pair(pk, "medium", "cpu");
	rc |= name(pk, "base_block_idx");
	rc |= stored ? msgpack_pack_uint8(pk, 0) : msgpack_pack_nil(pk);
	if (p->legacy)
		rc |= pair(pk, "type", stored ? "BlockStored" : "BlockRemoved");
	if (!stored)
		return rc;
	rc |= nil(pk, "parent_hash");
	rc |= nil(pk, "token_ids");
	if (p->legacy)
		rc |= nil(pk, "parent_block_hash");
	return rc;
}

int tes_events_packer_init(struct tes_events_packer *p, const char *backend_id,
			   bool legacy, bool object_key)
{
	*p = (struct tes_events_packer){
		.legacy = legacy,
		.object_key = object_key,
	};
	for (int news = 0; news < 2; news++) {
		msgpack_packer pk;

		msgpack_packer_init(&pk, &p->same[news], add);
		if (same_pairs(p, &pk, backend_id, news == TES_CORE_STORED)) {
			tes_events_packer_fini(p);
			return -ENOMEM;
		}
	}
	return 0;
}

void tes_events_packer_fini(struct tes_events_packer *p)
{
	tei_free(p->same[0].at);
	tei_free(p->same[1].at);
	tei_free(p->message.at);
	*p = (struct tes_events_packer){0};
}

/* ---- the number of a block ---- */

/* All of @key is a number of 64 bits: 1234 or 0x4d2. */
static bool parse(const struct tes_core_key *key, uint64_t *out)
{
	const char *at = key->bytes;
	size_t len = key->len;
	uint64_t value = 0;
	int base = 10;

	if (len > 2 && at[0] == '0' && (at[1] | 0x20) == 'x') {
		base = 16;
		at += 2;
		len -= 2;
	}
	for (size_t i = 0; i < len; i++) {
		int d = tei_hex_digit(at[i]);

		if (d < 0 || d >= base ||
		    __builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)d, &value))
			return false;
	}
	*out = value;
	return len > 0;
}

bool tes_events_tells(const struct tes_events_packer *p,
		      const struct tes_events_record *record, uint64_t *hash,
		      bool *unparsed)
{
	*unparsed = !parse(&record->item.key, hash);
	return p->object_key || !*unparsed;
}

/* ---- messages ---- */

/* Decoders refuse whole messages for a string that is not UTF-8. */
static int bytes_or_text(msgpack_packer *pk, const struct tes_core_key *key)
{
	if (tei_utf8_is_text(key->bytes, key->len))
		return text(pk, key->bytes, key->len);
	return msgpack_pack_bin(pk, key->len) |
	       msgpack_pack_bin_body(pk, key->bytes, key->len);
}

static int hashes(msgpack_packer *pk, const char *key, bool there,
		  uint64_t hash, bool is_signed)
{
	int rc = name(pk, key) | msgpack_pack_array(pk, there);

	if (!there)
		return rc;
	return rc | (is_signed ? msgpack_pack_int64(pk, (int64_t)hash)
			       : msgpack_pack_uint64(pk, hash));
}

static int pack_one(const struct tes_events_packer *p, msgpack_packer *pk,
		    const struct tes_events_record *r, uint64_t timestamp_ms,
		    uint64_t event_id)
{
	const struct tes_events_bytes *same = &p->same[r->news];
	const struct tes_core_item *item = &r->item;
	uint64_t hash = 0;
	bool is_hash = parse(&item->key, &hash);
	int rc = add(pk->data, same->at, same->len);

	rc |= name(pk, "event_id") | msgpack_pack_uint64(pk, event_id);
	rc |= name(pk, "timestamp") | msgpack_pack_uint64(pk, timestamp_ms);
	rc |= name(pk, "tenant_id");
	rc |= bytes_or_text(pk, &item->tenant);
	rc |= name(pk, "group_id");
	rc |= item->group.len ? bytes_or_text(pk, &item->group)
			      : msgpack_pack_nil(pk);
	rc |= hashes(pk, "seq_hashes", is_hash, hash, false);
	if (p->legacy)
		rc |= hashes(pk, "block_hashes", is_hash, hash, true);
	if (p->object_key) {
		rc |= name(pk, "object_key");
		rc |= bytes_or_text(pk, &item->key);
	}
	return rc;
}

int tes_events_pack(struct tes_events_packer *p, uint64_t timestamp_ms,
		    const struct tes_events_record *records, size_t n,
		    uint64_t event_id)
{
	msgpack_packer pk;
	int rc;

	p->message.len = 0;
	msgpack_packer_init(&pk, &p->message, add);
	rc = msgpack_pack_array(&pk, 3);
	rc |= msgpack_pack_uint64(&pk, timestamp_ms);
	rc |= msgpack_pack_array(&pk, n);
	for (size_t i = 0; i < n; i++)
		rc |= pack_one(p, &pk, &records[i], timestamp_ms, event_id + i);
	rc |= msgpack_pack_uint8(&pk, 0);
	return rc ? -ENOMEM : 0;
}
