/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - what goes to peers: of an endpoint, of a region
 *
 * Both are little endian, and come from outside when they are decoded: a
 * decoder answers what is wrong in words, NULL for nothing. Only then is what
 * it has written of use.
 *
 * endpoint  0  u8  version (1)
 *           1  u8  link: 1 InfiniBand, 2 Ethernet
 *           2  u16 MTU, bytes           4  u16 depth
 *           6  u8  reads it begins      7  u8  reads it serves
 *           8  u16 LID, 0 on Ethernet
 *          10  16  GID
 *          26  u8  lanes, then for each: u32 queue pair, u32 first PSN
 *
 * region    0  u8  version (1)
 *           1  u64 first address         9  u64 bytes of a chunk
 *          17  u64 bytes of all         25  u32 key of each chunk;
 *                                               none: not for peers
 */
#ifndef VERBS_WIRE_H
#define VERBS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "backends/rdma/range.h"
#include "backends/verbs/limits.h"
#include "te/backend.h"

#define VERBS_WIRE_VERSION 1
#define VERBS_KEY_LEN      25 /* bytes of a region's key without its chunks */
#define VERBS_CHUNKS_MAX   ((TEI_KEY_MAX - VERBS_KEY_LEN) / 4)
#define VERBS_NUMBER_MAX   0xffffffu /* of queue pairs and PSNs: 24 bits */

enum verbs_link {
	VERBS_LINK_IB = 1,
	VERBS_LINK_ETHERNET = 2,
};

struct verbs_lane_name {
	uint32_t number; /* of the queue pair; 2 .. VERBS_NUMBER_MAX */
	uint32_t psn;    /* of its first packet, 0 .. VERBS_NUMBER_MAX */
};

struct verbs_address { /* of an endpoint */
	enum verbs_link link;
	uint16_t lid;
	union ibv_gid gid;
	struct verbs_offer offer;
	struct verbs_lane_name lanes[VERBS_LANES_MAX]; /* lanes[offer.lanes] */
};

struct verbs_key {               /* of a region */
	struct rdma_range range; /* range.n 0: not for peers */
	/* rkeys[4 * range.n], in what was decoded; not owned. */
	const uint8_t *rkeys;
};

/* *len: room, then bytes used; -ENOBUFS. What is encoded is sound. */
int tei_verbs_address_encode(const struct verbs_address *address, void *out,
			     size_t *len);
const char *tei_verbs_address_decode(const void *bytes, size_t len,
				     struct verbs_address *out);
/* Encodes with room for the keys of @key->range.n chunks, each to be set. */
int tei_verbs_key_encode(const struct verbs_key *key, void *out, size_t *len);
void tei_verbs_key_set(void *out, uint32_t chunk, uint32_t rkey);
/* @bytes are borrowed for as long as @out is asked for keys. */
const char *tei_verbs_key_decode(const void *bytes, size_t len,
				 struct verbs_key *out);

/*
 * The key at @address, and how many bytes from there on are under it. False:
 * the region has no such byte.
 */
bool tei_verbs_key_at(const struct verbs_key *key, uint64_t address,
		      uint32_t *rkey, uint64_t *room);

#endif
