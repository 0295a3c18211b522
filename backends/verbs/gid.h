/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gid.h - which of a port's GIDs to use
 *
 * A port has a table of addresses; on RoCE there are some for each address of
 * its network interface, in two versions. The choice is a function of the
 * table.
 */
#ifndef VERBS_GID_H
#define VERBS_GID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/net.h"

struct verbs_gid {
	union ibv_gid gid;
	uint32_t index;
	uint32_t type; /* enum ibv_gid_type */
	bool network;  /* an interface that we see stands behind it */
	bool overlay;  /* that one is a bridge, tunnel or container's */
};

/* An IPv4 address, in its last four bytes. */
bool tei_verbs_gid_is_v4(const union ibv_gid *gid);
/*
 * Ranks by tei_gid_rank(); 0 as well: of RoCE version 1. An overlay's address
 * is no better than one of the link.
 */
unsigned int tei_verbs_gid_rank(const struct verbs_gid *gid);
/*
 * The best of @gids[n], of equal ones that of the lowest index; or the one of
 * index @wanted if that is >= 0. Its place in the array; -ENOENT: none is
 * usable, or there is none of that index. A wanted one need not rank.
 */
int tei_verbs_gid_choose(const struct verbs_gid *gids, size_t n, int wanted);
/* "10.9.0.1" or "fe80::1". */
#define VERBS_GID_TEXT_LEN 46
void tei_verbs_gid_text(const union ibv_gid *gid, char out[VERBS_GID_TEXT_LEN]);

#endif
