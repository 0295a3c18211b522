/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match.h - which rails of two hosts go together
 *
 * A rail tells peers its kind of link, its network and its name, and each peer
 * ranks what it could reach: rails of the same network before those that only a
 * router connects, of these rails of the same name before others. A map of the
 * user's has the last word on the rails that it names.
 *
 * A rail's description, little endian:
 *
 *   0  u8  version (1)
 *   1  u8  link: 1 InfiniBand, 2 Ethernet
 *   2  u8  bits of the GID that are its network's, 0: unknown
 *   3  16  GID
 *  19  u8  length of the name, 1 .. 47, then the name: "mlx5_0/1"
 *
 * or nothing, while its port has never had a link and an address.
 */
#ifndef VERBS_MATCH_H
#define VERBS_MATCH_H

#include <stddef.h>
#include <stdint.h>

#include "backends/verbs/wire.h"

struct verbs_self {
	enum verbs_link link;
	uint8_t prefix; /* bits of gid; 0: unknown */
	union ibv_gid gid;
	char name[48];
};

/*
 * Encodes as wire.h does: *len is the room, then the bytes used; -ENOBUFS.
 * Decoding returns NULL, or what is wrong.
 */
int tei_verbs_self_encode(const struct verbs_self *self, void *out,
			  size_t *len);
const char *tei_verbs_self_decode(const void *bytes, size_t len,
				  struct verbs_self *out);

/*
 * rail_match() of te/backend.h. @map: "mlx5_0=mlx5_1,mlx5_2/1;mlx5_3=mlx5_3":
 * a rail of ours, and the peers' rails that it may go with, best first; NULL,
 * "": none. What it does not name is ranked as without it. Pure.
 */
int tei_verbs_match(const char *map, const struct verbs_self *mine,
		    const struct verbs_self *other);
/* Describes what is wrong with a map; NULL: nothing. Pure. */
const char *tei_verbs_map_fault(const char *map);

/*
 * The bits of a GID that are its network's: on Ethernet those of the interface
 * that has its address, 0 where there is none. -errno: the system could not be
 * asked, for want of descriptors or memory.
 */
int tei_verbs_prefix_of(enum verbs_link link, const union ibv_gid *gid);

#endif
