/* SPDX-License-Identifier: Apache-2.0 */
/* gid.c - rank the GIDs of a port; no I/O */
#include "backends/verbs/gid.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

/* An IPv4 address in IPv6 form, as RoCE writes it. */
static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

bool tei_verbs_gid_is_v4(const union ibv_gid *gid)
{
	return !memcmp(gid->raw, v4_prefix, sizeof(v4_prefix));
}

static enum verbs_gid_scope scope_v4(const uint8_t a[4])
{
	if (a[0] == 0 || a[0] == 127 || a[0] >= 224)
		return VERBS_GID_UNUSABLE;
	if (a[0] == 169 && a[1] == 254)
		return VERBS_GID_LINK;
	if (a[0] == 10 || (a[0] == 172 && (a[1] & 0xf0) == 16) ||
	    (a[0] == 192 && a[1] == 168) ||
	    (a[0] == 100 && (a[1] & 0xc0) == 64))
		return VERBS_GID_PRIVATE;
	return VERBS_GID_GLOBAL;
}

enum verbs_gid_scope tei_verbs_gid_scope(const union ibv_gid *gid)
{
	static const union ibv_gid zero, loopback = {.raw = {[15] = 1}};
	const uint8_t *a = gid->raw;

	if (tei_verbs_gid_is_v4(gid))
		return scope_v4(a + 12);
	if (!memcmp(gid, &zero, sizeof(zero)) ||
	    !memcmp(gid, &loopback, sizeof(loopback)) || a[0] == 0xff)
		return VERBS_GID_UNUSABLE;
	/* The interface's half is zero: a table entry that was never filled. */
	if (!memcmp(a + 8, zero.raw, 8) && a[0] == 0xfe)
		return VERBS_GID_UNUSABLE;
	if (a[0] == 0xfe && (a[1] & 0xc0) == 0x80)
		return VERBS_GID_LINK;
	if ((a[0] & 0xfe) == 0xfc)
		return VERBS_GID_PRIVATE;
	return VERBS_GID_GLOBAL;
}

/*
 * In a container the interface of a good address may be out of sight, so a
 * global address without one comes before a private address with one. An
 * overlay's address is not what the NIC sends from: no better than the link's.
 */
unsigned int tei_verbs_gid_rank(const struct verbs_gid *gid)
{
	enum verbs_gid_scope scope = tei_verbs_gid_scope(&gid->gid);

	if (gid->type != IBV_GID_TYPE_IB && gid->type != IBV_GID_TYPE_ROCE_V2)
		return 0;
	if (gid->network && gid->overlay && scope > VERBS_GID_LINK)
		scope = VERBS_GID_LINK;
	switch (scope) {
	case VERBS_GID_UNUSABLE:
		return 0;
	case VERBS_GID_LINK:
		return gid->network ? 3 : 1;
	case VERBS_GID_PRIVATE:
		return gid->network ? 4 : 2;
	case VERBS_GID_GLOBAL:
		return gid->network ? 6 : 5;
	}
	return 0;
}

int tei_verbs_gid_choose(const struct verbs_gid *gids, size_t n, int wanted)
{
	unsigned int rank, best_rank = 0;
	int best = -ENOENT;

	for (size_t i = 0; i < n; i++) {
		if (wanted >= 0) {
			if (gids[i].index == (uint32_t)wanted)
				return (int)i;
			continue;
		}
		rank = tei_verbs_gid_rank(&gids[i]);
		if (rank > best_rank || (rank && rank == best_rank &&
					 gids[i].index < gids[best].index)) {
			best = (int)i;
			best_rank = rank;
		}
	}
	return best;
}

void tei_verbs_gid_text(const union ibv_gid *gid, char out[VERBS_GID_TEXT_LEN])
{
	if (tei_verbs_gid_is_v4(gid))
		inet_ntop(AF_INET, gid->raw + 12, out, VERBS_GID_TEXT_LEN);
	else
		inet_ntop(AF_INET6, gid->raw, out, VERBS_GID_TEXT_LEN);
}
