/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - what goes to peers: of a rail, of an endpoint, of a region
 *
 * All are little endian, and come from outside when they are decoded: a decoder
 * answers what is wrong in words, NULL for nothing. Only then is what it has
 * written of use.
 *
 * rail      0  u8  version (1)
 *           1  u8  flags: 1 addresses are of IP, 2 only this host reaches it
 *           2  u8  length of the provider's name, 1 .. 31, then the name
 *              u8  length of the fabric's name, 0 .. 127, then the name
 *
 * endpoint  0  u8  version (1)
 *           1  u8  flags: 1 its provider emulates reads or writes
 *           2  16  token, by which a target knows who comes, or which is in the
 *                  keys of its endpoint; 0 of initiators
 *          18  u8  length of the address, 0 of initiators by connections, then
 *                  the address as the provider has it
 *
 * region    0  u8  version (1)
 *           1  u8  flags: 1 remote addresses are offsets in a chunk, 2 keys are
 *                  bound to endpoints, 4 some chunks have no key; << 4: bytes
 *                  of a key that is bound, 1 .. 8
 *           2  u64 first address        10  u64 bytes of a chunk
 *          18  u64 bytes of all
 *              u64 with flag 4 only, of at most 64 chunks: bit i: chunk i has a
 *                  key; at least one has
 *              u64 key of each chunk, 0 of one without; none: not for peers
 *
 * Keys that are bound to endpoints: there is one for each endpoint of the
 * target and chunk. Both sides make it, by tei_ofi_bound_key(), of the token of
 * the endpoint and of what stands here for the chunk.
 */
#ifndef OFI_WIRE_H
#define OFI_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/rdma/range.h"
#include "te/backend.h"

#define OFI_PROVIDER_LEN_MAX 31
#define OFI_FABRIC_LEN_MAX   127
#define OFI_TOKEN_LEN        16
#define OFI_ADDRESS_MAX      128 /* bytes of a provider's address */
#define OFI_KEY_LEN          26 /* bytes of a region's key without its chunks */
#define OFI_CHUNKS_MAX       ((TEI_KEY_MAX - OFI_KEY_LEN) / 8)
#define OFI_PARTS_MAX        64 /* chunks of a region that has some keys only */

struct ofi_self {     /* of a rail */
	bool ip;      /* addresses are of IP: other networks may be reached */
	bool at_home; /* only rails of the same host reach it */
	char provider[OFI_PROVIDER_LEN_MAX + 1];
	char fabric[OFI_FABRIC_LEN_MAX + 1];
};

struct ofi_address { /* of an endpoint */
	/*
	 * An initiator's: the target's processor does what it asks for, though
	 * the target's device could.
	 */
	bool emulates;
	uint8_t token[OFI_TOKEN_LEN];
	size_t len; /* 0: an initiator's */
	_Alignas(8) uint8_t bytes[OFI_ADDRESS_MAX];
};

struct ofi_key {            /* of a region */
	bool offsets;       /* remote addresses count from a chunk's begin */
	unsigned int bound; /* bytes of a key that is bound; 0: none is */
	struct rdma_range range; /* range.n 0: not for peers */
	/* Bit i: chunk i has no key, of at most OFI_PARTS_MAX; 0: all have. */
	uint64_t lacks;
	/* keys[8 * range.n], in what was decoded; not owned. */
	const uint8_t *keys;
};

/* A range of a region, as an operation names it. */
struct ofi_place {
	uint64_t key, addr;
	uint64_t room; /* bytes that are under this key from there on */
};

/* *len: room, then bytes used; -ENOBUFS. What is encoded is sound. */
int tei_ofi_self_encode(const struct ofi_self *self, void *out, size_t *len);
const char *tei_ofi_self_decode(const void *bytes, size_t len,
				struct ofi_self *out);
int tei_ofi_address_encode(const struct ofi_address *address, void *out,
			   size_t *len);
const char *tei_ofi_address_decode(const void *bytes, size_t len,
				   struct ofi_address *out);
/*
 * Encodes with room for the keys of @key->range.n chunks, each to be set: 0 of
 * a chunk that has none.
 */
int tei_ofi_key_encode(const struct ofi_key *key, void *out, size_t *len);
void tei_ofi_key_set(void *out, uint32_t chunk, uint64_t key);
/* @bytes are borrowed for as long as @out is asked for places. */
const char *tei_ofi_key_decode(const void *bytes, size_t len,
			       struct ofi_key *out);

/*
 * Makes the key, of 1 to 8 @bytes, of a chunk at the endpoint with that token.
 * Nobody finds it without the token, even from keys of other endpoints. Pure.
 */
uint64_t tei_ofi_bound_key(const uint8_t token[OFI_TOKEN_LEN], uint64_t chunk,
			   unsigned int bytes);

/* Finds the place of @address. False: the region has no key of such a byte. */
bool tei_ofi_key_at(const struct ofi_key *key, uint64_t address,
		    struct ofi_place *out);

/*
 * Tells whether @address is in a chunk that has a key; *room: bytes from there
 * on of which the same holds, UINT64_MAX of an address that the region does not
 * have. All of a region that is not for peers has one: who may reach it is not
 * asked here. Pure.
 */
bool tei_ofi_key_covers(const struct ofi_key *key, uint64_t address,
			uint64_t *room);

/*
 * rail_match() of te/backend.h: 0, or a rank. A fabric's name tells its
 * network: rails of the same one rank before those that only a router connects.
 * Pure.
 */
int tei_ofi_match(const struct ofi_self *mine, const struct ofi_self *other);

#endif
