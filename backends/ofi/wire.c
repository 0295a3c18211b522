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
	ADDRESS_EMULATES = 1,
	KEY_OFFSETS = 1,
	KEY_BOUND = 2,
	KEY_IN_PART = 4,
	KEY_BYTES_SHIFT = 4,
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
	tei_write_u8(&w, address->emulates ? ADDRESS_EMULATES : 0);
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
	a.emulates = tei_read_u8(&r) & ADDRESS_EMULATES;
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

/* Returns a bit for each of @n <= 64 chunks. */
static uint64_t bits_of(uint32_t n)
{
	return n < OFI_PARTS_MAX ? ((uint64_t)1 << n) - 1 : UINT64_MAX;
}

/* Returns the bytes before the keys of the chunks. */
static size_t head_of(uint8_t flags)
{
	return OFI_KEY_LEN + (flags & KEY_IN_PART ? sizeof(uint64_t) : 0);
}

int tei_ofi_key_encode(const struct ofi_key *key, void *out, size_t *len)
{
	uint8_t flags = (uint8_t)((key->offsets ? KEY_OFFSETS : 0) |
				  (key->bound ? KEY_BOUND : 0) |
				  (key->lacks ? KEY_IN_PART : 0) |
				  key->bound << KEY_BYTES_SHIFT);
	size_t size = head_of(flags) + 8 * (size_t)key->range.n;
	struct tei_writer w;

	if (size > *len)
		return -ENOBUFS;
	tei_writer_init(&w, out, *len);
	tei_write_u8(&w, VERSION);
	tei_write_u8(&w, flags);
	tei_write_u64(&w, key->range.base);
	tei_write_u64(&w, key->range.chunk);
	tei_write_u64(&w, key->range.length);
	if (key->lacks)
		tei_write_u64(&w, bits_of(key->range.n) & ~key->lacks);
	*len = size;
	return 0;
}

void tei_ofi_key_set(void *out, uint32_t chunk, uint64_t key)
{
	uint8_t *bytes = out;
	struct tei_writer w;

	tei_writer_init(&w, bytes + head_of(bytes[1]) + 8 * (size_t)chunk, 8);
	tei_write_u64(&w, key);
}

/*
 * Takes which chunks have a key, of a key that says so, with range.n set.
 * Returns what is wrong with that, NULL: nothing.
 */
static const char *read_parts(struct ofi_key *key, uint64_t has)
{
	if (key->range.n > OFI_PARTS_MAX)
		return "more chunks than may be without a key";
	if (!has)
		return "no chunk has a key";
	if (has & ~bits_of(key->range.n))
		return "keys of more chunks than there are";
	key->lacks = bits_of(key->range.n) & ~has;
	return NULL;
}

const char *tei_ofi_key_decode(const void *bytes, size_t len,
			       struct ofi_key *out)
{
	const uint8_t *at = bytes;
	const char *fault = NULL;
	size_t head;

	if (len < OFI_KEY_LEN || len > TEI_KEY_MAX || (len - OFI_KEY_LEN) % 8)
		return "of a wrong length";
	if (at[0] != VERSION)
		return "unknown version";
	/*
	 * Runs once per slice: loads directly, because a tei_reader's checks
	 * are measurable here.
	 */
	out->offsets = at[1] & KEY_OFFSETS;
	out->bound = at[1] & KEY_BOUND ? at[1] >> KEY_BYTES_SHIFT : 0;
	out->range.base = tei_load_u64(at + 2);
	out->range.chunk = tei_load_u64(at + 10);
	out->range.length = tei_load_u64(at + 18);
	out->lacks = 0;
	head = head_of(at[1]);
	if (len < head)
		return "of a wrong length";
	out->range.n = (uint32_t)(len - head) / 8;
	out->keys = at + head;
	if (out->bound > sizeof(uint64_t))
		return "keys are too long";
	if (head > OFI_KEY_LEN)
		fault = read_parts(out, tei_load_u64(at + OFI_KEY_LEN));
	return fault ? fault : tei_rdma_range_fault(&out->range);
}

static uint64_t turn(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void mix(uint64_t v[4], int rounds)
{
	while (rounds--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = turn(v[1], 13) ^ v[0];
		v[3] = turn(v[3], 16) ^ v[2];
		v[0] = turn(v[0], 32) + v[3];
		v[2] += v[1];
		v[1] = turn(v[1], 17) ^ v[2];
		v[3] = turn(v[3], 21) ^ v[0];
		v[2] = turn(v[2], 32);
	}
}

/* SipHash-2-4 (Aumasson, Bernstein 2012) of 8 bytes, with the token as key. */
uint64_t tei_ofi_bound_key(const uint8_t token[OFI_TOKEN_LEN], uint64_t chunk,
			   unsigned int bytes)
{
	const uint64_t last = (uint64_t)sizeof(chunk) << 56;
	uint64_t low = tei_load_u64(token), high = tei_load_u64(token + 8);
	uint64_t v[4] = {low ^ 0x736f6d6570736575u, high ^ 0x646f72616e646f6du,
			 low ^ 0x6c7967656e657261u, high ^ 0x7465646279746573u};
	uint64_t key;

	v[3] ^= chunk;
	mix(v, 2);
	v[0] ^= chunk;
	v[3] ^= last;
	mix(v, 2);
	v[0] ^= last;
	v[2] ^= 0xff;
	mix(v, 4);
	key = v[0] ^ v[1] ^ v[2] ^ v[3];
	return bytes < sizeof(key) ? key & (((uint64_t)1 << 8 * bytes) - 1)
				   : key;
}

bool tei_ofi_key_at(const struct ofi_key *key, uint64_t address,
		    struct ofi_place *out)
{
	const struct rdma_range *range = &key->range;
	uint64_t i;

	if (!range->n || !tei_rdma_range_has(range, address))
		return false;
	i = tei_rdma_chunk_at(range, address, &out->room);
	if (key->lacks && (key->lacks >> i & 1))
		return false;
	out->key = tei_load_u64(key->keys + 8 * i);
	out->addr = key->offsets ? address - range->base - i * range->chunk
				 : address;
	return true;
}

bool tei_ofi_key_covers(const struct ofi_key *key, uint64_t address,
			uint64_t *room)
{
	const struct rdma_range *range = &key->range;
	uint64_t i, last, unlike;
	bool has;

	*room = UINT64_MAX;
	if (!tei_rdma_range_has(range, address))
		return false;
	*room = tei_rdma_range_rest(range, address);
	if (!key->lacks)
		return true;
	i = (address - range->base) / range->chunk;
	has = !(key->lacks >> i & 1);
	unlike = (has ? key->lacks : ~key->lacks) >> i;
	last = unlike ? i + (uint64_t)__builtin_ctzll(unlike) : range->n;
	if (last < range->n)
		*room = tei_rdma_chunk_base(range, last) - address;
	return has;
}
