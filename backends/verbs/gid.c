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

unsigned int tei_verbs_gid_rank(const struct verbs_gid *gid)
{
	enum tei_scope scope = tei_scope_of(gid->gid.raw);

	if (gid->type != IBV_GID_TYPE_IB && gid->type != IBV_GID_TYPE_ROCE_V2)
		return 0;
	/* The NIC does not send from an overlay's address. */
	if (gid->network && gid->overlay && scope > TEI_SCOPE_LINK)
		scope = TEI_SCOPE_LINK;
	return tei_gid_rank(scope, gid->network);
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
