/* SPDX-License-Identifier: Apache-2.0 */
/* unmatched.c - rails that reach none of a peer's, though both have the backend */
#include "te/transfer/unmatched.h"

#include <stdbool.h>

#include "base/log.h"
#include "te/common/engine.h"
#include "te/transfer/pairs.h"
#include "te/transfer/peer.h"
#include "te/worker/worker.h"

static void tell(const struct tei_peer *peer, struct tei_rail_box *box)
{
	TEI_COUNT(peer->engine, rails_unmatched);
	if (!box->unmatched_told)
		LOG_WARN("rail %s: not used for %s, which has rails of its "
			 "backend but none that it reaches: another network or "
			 "kind of link, or a map of rails says so",
			 box->name, peer->name);
	box->unmatched_told = true;
}

static void look_at(struct tei_peer *peer, uint32_t i)
{
	struct tei_rail_box *box = peer->engine->worker->rails[i];
	const struct tei_backend_ops *ops = box->rail.ops;
	struct tei_pair *pair = &peer->w.pairs[i];
	bool before = pair->unmatched;

	/* That shm does not reach another host is no news. */
	pair->unmatched = !pair->usable && (ops->caps & TEI_CAP_REMOTE) &&
			  tei_remote_has_backend(peer->w.remote, ops->name) &&
			  !tei_pairs_may_come(peer, i);
	if (pair->unmatched == before)
		return;
	if (before) {
		atomic_fetch_sub_explicit(&box->n_unmatched, 1,
					  memory_order_relaxed);
		return;
	}
	atomic_fetch_add_explicit(&box->n_unmatched, 1, memory_order_relaxed);
	tell(peer, box);
}

void tei_unmatched_look(struct tei_peer *peer)
{
	uint32_t i;

	if (peer->self) /* loop carries that */
		return;
	for (i = 0; i < peer->engine->worker->n_rails; i++)
		look_at(peer, i);
}
