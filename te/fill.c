/* SPDX-License-Identifier: Apache-2.0 */
/* fill.c - which part of which request a link carries next */
#include "te/engine.h"
#include "te/link.h"
#include "te/peer.h"
#include "te/plan.h"
#include "te/work.h"

#define READY_MAX 64u

static uint64_t plan(const struct tei_request *r, const struct tei_link *link)
{
	const struct tei_peer *peer = r->peer;
	const struct te_engine *engine = peer->engine;
	const struct tei_plan_limits limits = {engine->config.slice_min,
					       engine->config.slice_max};
	struct tei_plan_rail mine = {link->out.bytes, link->out.rate};
	struct tei_plan_rail others[8];
	size_t n = 0;
	uint32_t i;

	for (i = 0; i < engine->worker.n_rails && n < 8; i++) {
		const struct tei_link *other = peer->w.pairs[i].link;

		if (other && other != link && other->out.state == TEI_LINK_UP)
			others[n++] = (struct tei_plan_rail){other->out.bytes,
							     other->out.rate};
	}
	return tei_plan_next(r->length - r->cursor, &mine, others, n, &limits);
}

/* False: nothing (more) of this request for this link now. */
static bool make_next(struct tei_request *r, struct tei_link *link)
{
	uint64_t length;

	if (link->out.remote_pos >= r->held->n_rails ||
	    !r->region->key[link->out.remote_pos].bytes ||
	    (r->avoid >> link->rail->rail.index & 1))
		return false;
	if (r->n_redo)
		return tei_work_make_again(r, link);
	if (r->cursor == r->length)
		return false;
	length = plan(r, link);
	return length && tei_work_make(r, link, length);
}

static bool has_room(const struct tei_link *link)
{
	return link->out.n_ready < READY_MAX &&
	       link->out.bytes < link->engine->config.window;
}

void tei_works_fill(struct tei_link *link)
{
	struct tei_peer *peer = link->out.peer;

	tei_list_for_each_safe (node, tmp, &peer->w.queue) {
		struct tei_request *r =
			tei_list_entry(node, struct tei_request, queue);

		while (has_room(link) && make_next(r, link))
			;
		if (!r->n_redo && r->cursor == r->length)
			tei_list_del(&r->queue);
		if (!has_room(link))
			return;
	}
}
