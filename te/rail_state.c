/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rail_state.c - a rail that loses its link, or has it again
 *
 * Losing it costs the endpoints that use it, at once: their slices go by other
 * rails as soon as the owner has confirmed that nothing of them can land. The
 * rail itself stays open and is used again when its device says so.
 */
#include <errno.h>

#include "base/log.h"
#include "te/engine.h"
#include "te/link.h"
#include "te/peer.h"

static void went_down(struct tei_rail_box *box)
{
	tei_list_for_each_safe (node, tmp, &box->links) {
		tei_link_break(tei_list_entry(node, struct tei_link, of_rail),
			       -ENETDOWN);
	}
}

/* Nobody has to sit out a pause that the dead link has earned. */
static void came_up(struct te_engine *engine, uint32_t rail)
{
	tei_mutex_lock(&engine->mu);
	tei_list_for_each (node, &engine->peers) {
		struct tei_peer *peer =
			tei_list_entry(node, struct tei_peer, link);

		tei_breaker_reset(&peer->w.pairs[rail].breaker);
		tei_peer_run(peer);
	}
	tei_mutex_unlock(&engine->mu);
}

void tei_rail_changed(struct tei_rail *rail, bool up)
{
	struct tei_rail_box *box =
		TEI_CONTAINER(rail, struct tei_rail_box, rail);
	struct te_engine *engine = rail->core->engine;

	if (box->dead || box->down == !up)
		return;
	box->down = !up;
	LOG_WARN("rail %s: link is %s", box->name, up ? "up again" : "down");
	if (up)
		came_up(engine, rail->index);
	else
		went_down(box);
}
