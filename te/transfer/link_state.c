/* SPDX-License-Identifier: Apache-2.0 */
/* link_state.c - by which of our rails a peer is reached: te_segment_links() */
#include <errno.h>

#include <te/te.h>

#include "te/core/engine.h"
#include "te/transfer/link.h"
#include "te/transfer/peer.h"
#include "te/worker/worker.h"

/* A question: lies on the stack of tei_peer_links(), which waits for the
 * answer. */
struct question {
	struct tei_call call;
	struct tei_peer_work *peer;
	struct te_link_info *out; /* out[room], the caller's */
	size_t room;
	uint32_t life;
	bool answered; /* guarded by engine->mu, as err */
	int err;
	struct tei_cond cond;
};

/* ---- token ---- */

static uint32_t state_of(const struct tei_peer_work *peer, uint32_t rail)
{
	const struct tei_rail_box *box = peer->worker->rails[rail];
	const struct tei_pair *pair = &peer->pairs[rail];

	if (!peer->remote)
		return TE_LINK_NONE;
	if (!pair->usable)
		return tei_remote_has_backend(peer->remote, box->rail.ops->name)
			       ? TE_LINK_APART
			       : TE_LINK_ABSENT;
	if (pair->link)
		return pair->link->out.state == TEI_LINK_UP ? TE_LINK_UP
							    : TE_LINK_OPENING;
	if (pair->breaker.state != TEI_BREAKER_CLOSED ||
	    box->breaker.state != TEI_BREAKER_CLOSED)
		return TE_LINK_PAUSED;
	return TE_LINK_NONE;
}

static void describe_link(const struct tei_peer_work *peer, uint32_t rail,
			  struct te_link_info *out)
{
	const struct tei_pair *pair = &peer->pairs[rail];
	const struct tei_remote *remote = peer->remote;
	const struct tei_backend_ops *ops = peer->worker->rails[rail]->rail.ops;

	*out = (struct te_link_info){.rail = rail,
				     .state = state_of(peer, rail),
				     .error = pair->err};
	if (remote && pair->usable && pair->remote_pos < remote->n_rails)
		out->remote_speed_bps =
			remote->rails[pair->remote_pos].speed_bps;
	if (out->state == TE_LINK_UP && ops->endpoint_way)
		ops->endpoint_way(&pair->link->ep, out->way, sizeof(out->way));
}

static void answer_expect(struct tei_call *call)
{
	struct question *q = TEI_CONTAINER(call, struct question, call);
	struct te_engine *engine = q->peer->engine;
	uint32_t i;
	int rc;

	tei_peer_sync(q->peer);
	if (q->peer->self)
		tei_peer_sync_self(q->peer);
	rc = !q->life || q->life == q->peer->life ? 0 : -ESTALE;
	for (i = 0; !rc && i < q->peer->worker->n_rails && i < q->room; i++)
		if (tei_worker_has(q->peer->worker, i))
			describe_link(q->peer, i, &q->out[i]);
	tei_mutex_lock(&engine->mu);
	q->err = rc;
	q->answered = true;
	tei_cond_signal(&q->cond);
	tei_mutex_unlock(&engine->mu);
}

/* ---- any thread ---- */

static int ask_links(struct tei_peer_work *peer, uint32_t life,
		     struct te_link_info *out, size_t room)
{
	struct te_engine *engine = peer->engine;
	struct question question = {
		.peer = peer, .life = life, .out = out, .room = room};
	struct question *q = &question;

	q->call.fn = answer_expect;
	tei_cond_init(&q->cond);
	tei_worker_post(peer->worker, &q->call);
	tei_mutex_lock(&engine->mu);
	while (!q->answered)
		tei_worker_await(peer->worker, &q->cond, &engine->mu,
				 UINT64_MAX);
	tei_mutex_unlock(&engine->mu);
	tei_cond_fini(&q->cond);
	return q->err;
}

int tei_peer_links(struct tei_peer *peer, uint32_t life,
		   struct te_link_info *out, size_t room)
{
	uint32_t i;
	int rc = 0;

	for (i = 0; !rc && i < peer->engine->n_workers; i++)
		rc = ask_links(&peer->works[i], life, out, room);
	return rc;
}
