/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - encode, decode and check what goes to peers and comes from them */
#include "backends/ofi/wire.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/text.h"

#define VERSION 1

enum {
	SELF_IP = 1,
	SELF_AT_HOME = 2,
	KEY_OFFSETS = 1,
};

static int end(const struct tei_writer *w, const void *start, size_t *len)
{
	if (w->bad)
		return -ENOBUFS;
	*len = (size_t)(w->at - (const uint8_t *)start);
	return 0;
}

/* ---- rails ---- */

static void write_name(struct tei_writer *w, const char *name)
{
	size_t len = strlen(name);

	tei_write_u8(w, (uint8_t)len);
	tei_write_bytes(w, name, len);
}

/* False: it is longer than @max, or a line could not show it. */
static bool read_name(struct tei_reader *r, char *out, size_t max)
{
	size_t len = tei_read_u8(r);
	const char *name = len <= max ? tei_read_bytes(r, len) : NULL;

	if (!name)
		return false;
	memcpy(out, name, len);
	out[len] = '\0';
	return strlen(out) == len && tei_text_is_shown(out);
}

int tei_ofi_self_encode(const struct ofi_self *self, void *out, size_t *len)
{
	struct tei_writer w;

	tei_writer_init(&w, out, *len);
	tei_write_u8(&w, VERSION);
	tei_write_u8(&w, (uint8_t)((self->ip ? SELF_IP : 0) |
				   (self->at_home ? SELF_AT_HOME : 0)));
	write_name(&w, self->provider);
	write_name(&w, self->fabric);
	return end(&w, out, len);
}

const char *tei_ofi_self_decode(const void *bytes, size_t len,
				struct ofi_self *out)
{
	struct ofi_self self = {.ip = false};
	struct tei_reader r;
	uint8_t flags;

	tei_reader_init(&r, bytes, len);
	if (tei_read_u8(&r) != VERSION)
		return "unknown version";
	flags = tei_read_u8(&r);
	self.ip = flags & SELF_IP;
	self.at_home = flags & SELF_AT_HOME;
	if (!read_name(&r, self.provider, OFI_PROVIDER_LEN_MAX) ||
	    !self.provider[0])
		return "no name of a provider";
	if (!read_name(&r, self.fabric, OFI_FABRIC_LEN_MAX))
		return "no name of a fabric";
	if (!tei_reader_done(&r))
		return "of a wrong length";
	*out = self;
	return NULL;
}

enum {
	RANK_NONE,
	RANK_ROUTED,
	RANK_SAME_FABRIC,
};

int tei_ofi_match(const struct ofi_self *mine, const struct ofi_self *other)
{
	if (strcmp(mine->provider, other->provider) != 0 ||
	    mine->ip != other->ip || mine->at_home != other->at_home)
		return RANK_NONE;
	if (!strcmp(mine->fabric, other->fabric))
		return RANK_SAME_FABRIC;
	return mine->ip && !mine->at_home ? RANK_ROUTED : RANK_NONE;
}

/* ---- endpoints ---- */

int tei_ofi_address_encode(const struct ofi_address *address, void *out,
			   size_t *len)
{
	struct tei_writer w;

	tei_writer_init(&w, out, *len);
	tei_write_u8(&w, VERSION);
	tei_write_bytes(&w, address->token, OFI_TOKEN_LEN);
	tei_write_u8(&w, (uint8_t)address->len);
	tei_write_bytes(&w, address->bytes, address->len);
	return end(&w, out, len);
}

const char *tei_ofi_address_decode(const void *bytes, size_t len,
				   struct ofi_address *out)
{
	struct ofi_address a = {.len = 0};
	const void *token, *at;
	struct tei_reader r;

	tei_reader_init(&r, bytes, len);
	if (tei_read_u8(&r) != VERSION)
		return "unknown version";
	token = tei_read_bytes(&r, OFI_TOKEN_LEN);
	a.len = tei_read_u8(&r);
	if (a.len > OFI_ADDRESS_MAX)
		return "too long";
	at = tei_read_bytes(&r, a.len);
	if (!tei_reader_done(&r))
		return "of a wrong length";
	memcpy(a.token, token, OFI_TOKEN_LEN);
	memcpy(a.bytes, at, a.len);
	*out = a;
	return NULL;
}

/* ---- regions ---- */

int tei_ofi_key_encode(const struct ofi_key *key, void *out, size_t *len)
{
	size_t size = OFI_KEY_LEN + 8 * (size_t)key->n;
	struct tei_writer w;

	if (size > *len)
		return -ENOBUFS;
	tei_writer_init(&w, out, *len);
	tei_write_u8(&w, VERSION);
	tei_write_u8(&w, key->offsets ? KEY_OFFSETS : 0);
	tei_write_u64(&w, key->base);
	tei_write_u64(&w, key->chunk);
	tei_write_u64(&w, key->length);
	*len = size;
	return 0;
}

void tei_ofi_key_set(void *out, uint32_t chunk, uint64_t key)
{
	struct tei_writer w;

	tei_writer_init(&w, (uint8_t *)out + OFI_KEY_LEN + 8 * (size_t)chunk,
			8);
	tei_write_u64(&w, key);
}

static const char *key_fault(const struct ofi_key *k)
{
	if (!k->length || k->base + (k->length - 1) < k->base)
		return "region of no or too many bytes";
	if (k->n && (!k->chunk || (k->length - 1) / k->chunk + 1 != k->n))
		return "chunks do not cover the region";
	return NULL;
}

const char *tei_ofi_key_decode(const void *bytes, size_t len,
			       struct ofi_key *out)
{
	const uint8_t *at = bytes;

	if (len < OFI_KEY_LEN || len > TEI_KEY_MAX || (len - OFI_KEY_LEN) % 8)
		return "of a wrong length";
	if (at[0] != VERSION)
		return "unknown version";
	/*
	 * Runs once per slice: loads directly, because a tei_reader's checks
	 * are measurable here.
	 */
	out->offsets = at[1] & KEY_OFFSETS;
	out->base = tei_load_u64(at + 2);
	out->chunk = tei_load_u64(at + 10);
	out->length = tei_load_u64(at + 18);
	out->n = (uint32_t)(len - OFI_KEY_LEN) / 8;
	out->keys = at + OFI_KEY_LEN;
	return key_fault(out);
}

bool tei_ofi_key_at(const struct ofi_key *key, uint64_t address,
		    struct ofi_place *out)
{
	uint64_t at = address - key->base, place, begin, chunk_end;

	if (!key->n || address < key->base || at >= key->length)
		return false;
	place = at / key->chunk;
	begin = place * key->chunk;
	chunk_end = begin + key->chunk;
	if (place + 1 == key->n)
		chunk_end = key->length; /* the last one may be shorter */
	out->key = tei_load_u64(key->keys + 8 * place);
	out->addr = key->offsets ? at - begin : address;
	out->room = chunk_end - at;
	return true;
}
