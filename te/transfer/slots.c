/* SPDX-License-Identifier: Apache-2.0 */
/* slots.c - how many endpoints to peers a rail has, and which make room */
#include "te/transfer/slots.h"

#include "base/clock.h"
#include "base/log.h"
#include "te/common/engine.h"
#include "te/transfer/link.h"
#include "te/transfer/peer.h"
#include "te/worker/worker.h"

#define TURN (100 * TEI_NS_PER_MS)

static struct te_engine *engine_of(const struct tei_rail_box *box)
{
	return box->rail.core->engine;
}

static bool is_idle(const struct tei_link *link)
{
	return !link->out.n_posted && !link->out.n_ready;
}

/* ---- who gives way ---- */

void tei_slots_retire(struct tei_link *link)
{
	if (link->out.retiring)
		return;
	link->out.retiring = true;
	link->rail->n_retiring++;
	TEI_COUNT(link->engine, links_retired);
	LOG_DEBUG("peer %s: endpoint %llu on %s gives way",
		  link->out.peer->name, (unsigned long long)link->number,
		  link->rail->name);
	tei_slots_idle(link);
}

static bool comes_before(const struct tei_link *a, const struct tei_link *b)
{
	if (is_idle(a) != is_idle(b))
		return is_idle(a);
	if (is_idle(a))
		return a->out.moved_at < b->out.moved_at;
	return a->out.up_at < b->out.up_at;
}

/* NULL: none has had its turn; *again: when the first one will. */
static struct tei_link *next_to_go(const struct tei_rail_box *box,
				   uint64_t *again)
{
	uint64_t now = engine_of(box)->worker->now;
	struct tei_link *first = NULL;

	tei_list_for_each (node, &box->links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, of_rail);
		uint64_t end = link->out.up_at + TURN;

		if (link->ep.target || link->out.state != TEI_LINK_UP ||
		    link->out.retiring)
			continue;
		if (now < end) {
			*again = end < *again ? end : *again;
			continue;
		}
		if (!first || comes_before(link, first))
			first = link;
	}
	return first;
}

static uint64_t limit_of(const struct tei_rail_box *box)
{
	return engine_of(box)->config.endpoints;
}

/* More want an endpoint than there is room for once those that go are gone. */
static bool is_crowded(const struct tei_rail_box *box)
{
	return box->n_out + box->n_waiting > limit_of(box) + box->n_retiring;
}

/* One for each who waits; where none may go yet, later. */
static void make_room(struct tei_rail_box *box)
{
	struct tei_worker *w = engine_of(box)->worker;
	uint64_t again = UINT64_MAX;

	tei_due_clear(w, &box->turn);
	while (is_crowded(box)) {
		struct tei_link *link = next_to_go(box, &again);

		if (!link)
			break;
		tei_slots_retire(link);
	}
	if (again != UINT64_MAX && is_crowded(box))
		tei_due_set(w, &box->turn, again);
}

static void turn_ended(struct tei_due *due)
{
	make_room(TEI_CONTAINER(due, struct tei_rail_box, turn));
}

void tei_slots_init(struct tei_rail_box *box)
{
	tei_list_init(&box->waiting);
	box->turn.fn = turn_ended;
}

void tei_slots_fini(struct tei_rail_box *box)
{
	tei_due_clear(engine_of(box)->worker, &box->turn);
}

void tei_slots_short(struct tei_rail_box *box)
{
	uint64_t again = UINT64_MAX;
	struct tei_link *link;

	if (box->n_retiring)
		return;
	link = next_to_go(box, &again);
	if (link)
		tei_slots_retire(link);
}

/* ---- who waits ---- */

bool tei_slots_let(struct tei_peer *peer, uint32_t rail)
{
	struct tei_rail_box *box = peer->engine->worker->rails[rail];
	struct tei_pair *pair = &peer->w.pairs[rail];

	if (box->n_out < limit_of(box))
		return true;
	if (!tei_list_empty(&pair->slot))
		return false;
	pair->peer = peer;
	tei_list_add_tail(&box->waiting, &pair->slot);
	box->n_waiting++;
	make_room(box);
	return false;
}

/* Each asks again if it still wants one, the first one first. */
static void run_waiting(struct tei_rail_box *box)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&box->waiting)))
		tei_peer_run(tei_list_entry(node, struct tei_pair, slot)->peer);
	box->n_waiting = 0;
}

void tei_slots_opened(struct tei_link *link)
{
	link->rail->n_out++;
}

void tei_slots_up(struct tei_link *link)
{
	link->out.up_at = link->engine->worker->now;
	if (link->rail->n_waiting)
		make_room(link->rail);
}

void tei_slots_idle(struct tei_link *link)
{
	if (link->out.retiring && is_idle(link))
		tei_link_break(link, -ECANCELED);
}

void tei_slots_closed(struct tei_link *link)
{
	struct tei_rail_box *box = link->rail;

	box->n_out--;
	box->n_retiring -= link->out.retiring;
	run_waiting(box);
}
