/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reroute.c - control connections that go on by another network
 *
 * An owner describes where else its control port is reached: at the addresses
 * of its rails. When the way of our connection to it is lost, because a rail
 * of ours has lost its link, or is silent though an answer is owed, we connect
 * to the next of those addresses at once and ask again what was not answered.
 *
 * Only the name stands for a peer: at another address nobody but the very
 * incarnation that gave it counts, so no restart is believed from there.
 *
 * `tried` has a bit for each address that was left or did not work since the
 * peer last answered. As long as there is one without, answers have little
 * time; then they have all of connect_timeout, for a slow peer is not a lost
 * way.
 */
#include "te/control/reroute.h"

#include <errno.h>

#include "base/log.h"
#include "te/common/engine.h"
#include "te/control/control.h"
#include "te/control/peer.h"
#include "te/worker/worker.h"

static const struct tei_remote *remote_of(const struct tei_peer *peer)
{
	return peer->told.remote; /* written by this thread only */
}

/* Place of the next address to try, -1: none is left. */
static int next_untried(const struct tei_peer *peer)
{
	const struct tei_remote *remote = remote_of(peer);
	uint32_t i;

	for (i = 0; remote && i < remote->n_control; i++) {
		if (!(peer->c->tried >> i & 1) &&
		    !tei_address_same_host(&remote->control[i], &peer->c->at))
			return (int)i;
	}
	return -1;
}

static void mark_tried(struct tei_peer *peer)
{
	const struct tei_remote *remote = remote_of(peer);
	uint32_t i;

	for (i = 0; remote && i < remote->n_control; i++) {
		if (tei_address_same_host(&remote->control[i], &peer->c->at))
			peer->c->tried |= 1u << i;
	}
}

uint64_t tei_reroute_patience(const struct tei_peer *peer)
{
	const struct tei_config *config = &peer->engine->config;

	if (next_untried(peer) < 0 ||
	    config->connect_timeout < config->reroute_after)
		return config->connect_timeout;
	return config->reroute_after;
}

void tei_reroute_answered(struct tei_peer *peer)
{
	peer->c->tried = 0;
}

/* What a way does, not the peer: that one resets, refuses and says why. */
static bool is_of_way(int err)
{
	return err == -ETIMEDOUT || err == -ENETDOWN || err == -EHOSTUNREACH ||
	       err == -ENETUNREACH || err == -EADDRNOTAVAIL;
}

static void tell_down(struct tei_peer *peer)
{
	tei_mutex_lock(&peer->engine->mu);
	peer->told.up = false;
	tei_mutex_unlock(&peer->engine->mu);
	tei_peer_post_news(peer);
}

bool tei_reroute(struct tei_peer *peer, int err)
{
	bool trying = peer->c->elsewhere && peer->c->state != TEI_PEER_UP;
	struct tei_address to;
	int place;

	peer->c->elsewhere = false;
	mark_tried(peer);
	place = trying || is_of_way(err) ? next_untried(peer) : -1;
	if (place < 0) {
		peer->c->tried = 0;
		return false;
	}
	LOG_DEBUG("peer %s: %s: by another way", peer->name, te_strerror(err));
	if (peer->c->state == TEI_PEER_UP)
		TEI_COUNT(peer->engine, control_rerouted);
	tell_down(peer);
	tei_peer_move(peer, TEI_PEER_IDLE);
	tei_peer_move(peer, TEI_PEER_RESOLVING);
	peer->c->elsewhere = true;
	to = remote_of(peer)->control[place];
	tei_peer_connect(peer, &to);
	return true;
}

/* ---- a rail that has lost its link ---- */

static void leave_way(struct tei_peer *peer, const struct tei_address *ours)
{
	struct tei_address local;

	if (!peer->c->conn || !tei_frame_local(peer->c->conn, &local) ||
	    !tei_address_same_host(&local, ours))
		return;
	peer->c->tried = 0;
	if (next_untried(peer) >= 0) /* else it may come back in time */
		tei_peer_failed(peer, -ENETDOWN, false);
}

static void leave_rail(struct te_engine *engine, struct tei_rail_box *box)
{
	struct tei_device device = tei_rail_device(box);
	struct tei_peer *peer = NULL;

	while ((peer = tei_peer_next(engine, peer)))
		leave_way(peer, &device.address);
}

static void links_lost(struct tei_call *call)
{
	struct te_engine *engine =
		TEI_CONTAINER(call, struct tei_control, links_lost)->engine;
	uint32_t i;

	atomic_store(&engine->control->links_lost_posted, false);
	for (i = 0; !engine->control->closed && i < engine->worker->n_rails;
	     i++) {
		struct tei_rail_box *box = engine->worker->rails[i];

		if (atomic_exchange(&box->lost, false))
			leave_rail(engine, box);
	}
}

void tei_reroute_init(struct te_engine *engine)
{
	engine->control->links_lost.fn = links_lost;
}

void tei_reroute_rail_lost(struct tei_rail_box *box)
{
	struct te_engine *engine = box->rail.core->engine;

	atomic_store(&box->lost, true);
	if (!atomic_exchange(&engine->control->links_lost_posted, true))
		tei_loop_post(engine->loop, &engine->control->links_lost);
}
