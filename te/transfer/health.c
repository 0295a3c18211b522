/* SPDX-License-Identifier: Apache-2.0 */
/* health.c - breakers of pairs and devices */
#include "te/transfer/health.h"

#include <errno.h>
#include <string.h>

#include "base/chance.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/net.h"
#include "te/common/engine.h"
#include "te/transfer/link.h"
#include "te/transfer/peer.h"
#include "te/worker/worker.h"

#define HALF_LIFE     (5 * TEI_NS_PER_S)
#define DEVICE_PEERS  3u /* that blame it in a row */
#define DEVICE_WITHIN TEI_NS_PER_S

static struct tei_breaker_limits limits_of(const struct te_engine *engine)
{
	return (struct tei_breaker_limits){
		.pause_min = engine->config.pause_min * TEI_NS_PER_MS,
		.pause_max = engine->config.pause_max * TEI_NS_PER_MS,
		.half_life = HALF_LIFE,
	};
}

void tei_health_hold(struct tei_link *link)
{
	struct te_engine *engine = link->engine;
	struct tei_worker *w = engine->worker;
	struct tei_breaker_limits limits = limits_of(engine);

	link->out.pair->err = link->why;
	tei_breaker_hold(&link->out.pair->breaker, w->now,
			 tei_chance(&w->chance), &limits);
}

void tei_health_refused(struct tei_peer *peer, uint32_t rail, int err)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	struct tei_worker *w = peer->engine->worker;
	struct tei_breaker_limits limits = limits_of(peer->engine);

	if (tei_log_allowed(&limit))
		LOG_WARN("rail %s: open an endpoint to %s: %s",
			 w->rails[rail]->name, peer->name, strerror(-err));
	peer->w.pairs[rail].err = err;
	tei_breaker_fail(&peer->w.pairs[rail].breaker, w->now,
			 tei_chance(&w->chance), &limits);
}

/* ---- blame ---- */

static void blame_device(struct tei_link *link, int err)
{
	struct tei_rail_box *box = link->rail;
	struct tei_worker *w = link->engine->worker;
	struct tei_breaker_limits limits = limits_of(link->engine);

	if (box->good_at >= box->blamed_at ||
	    w->now - box->blamed_at > DEVICE_WITHIN) {
		box->n_blamed = 0;
		box->blamed_by = NULL;
	}
	box->blamed_at = w->now;
	if (box->blamed_by == link->out.peer)
		return;
	box->blamed_by = link->out.peer;
	if (++box->n_blamed < DEVICE_PEERS)
		return;
	tei_breaker_fail(&box->breaker, w->now, tei_chance(&w->chance),
			 &limits);
	tei_rail_show(box);
	TEI_COUNT(link->engine, device_pauses);
	if (!box->breaker.told)
		LOG_WARN("rail %s: paused, it reaches nobody: %s", box->name,
			 strerror(-err));
	box->breaker.told = true;
}

/* What says nothing of the way between two rails. */
static bool is_no_fault(const struct tei_link *link, int err)
{
	return err == -ESTALE || err == -ECANCELED || err == -ENOTCONN ||
	       err == -ENETDOWN || link->rail->down || link->rail->dead;
}

static void tell_pause(struct tei_link *link, int err)
{
	LOG_WARN("rail %s: paused towards %s: %s", link->rail->name,
		 link->out.peer->name, strerror(-err));
	link->out.pair->breaker.told = true;
}

void tei_health_blame(struct tei_link *link, int err)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	struct tei_breaker *b = &link->out.pair->breaker;
	struct tei_worker *w = link->engine->worker;
	struct tei_breaker_limits limits = limits_of(link->engine);
	uint8_t state = b->state;

	if (is_no_fault(link, err))
		return;
	tei_breaker_fail(b, w->now, tei_chance(&w->chance), &limits);
	TEI_COUNT(link->engine, pair_pauses);
	if (state == TEI_BREAKER_CLOSED)
		b->state = state; /* it works again; only remember */
	else if (!b->told && tei_log_allowed(&limit))
		tell_pause(link, err);
	if (!link->out.peer->self && !tei_is_shortage(err) && err != -EREMOTEIO)
		blame_device(link, err);
}

/* ---- praise ---- */

static void device_proven(struct tei_rail_box *box)
{
	if (!tei_breaker_good(&box->breaker))
		return;
	tei_rail_show(box);
	LOG_WARN("rail %s: in use again", box->name);
	box->breaker.told = false;
}

void tei_health_proven(struct tei_link *link)
{
	struct tei_breaker *b = &link->out.pair->breaker;

	device_proven(link->rail);
	if (!tei_breaker_good(b))
		return;
	TEI_COUNT(link->engine, pair_returns);
	if (b->told)
		LOG_WARN("rail %s: in use again towards %s", link->rail->name,
			 link->out.peer->name);
	b->told = false;
	tei_peer_run(link->out.peer);
}

bool tei_health_lets(struct tei_peer *peer, uint32_t rail, uint64_t *until)
{
	struct tei_rail_box *box = peer->engine->worker->rails[rail];
	struct tei_breaker *b = &peer->w.pairs[rail].breaker;
	uint64_t now = peer->engine->worker->now;
	bool device = tei_breaker_lets(&box->breaker, now);
	bool pair = tei_breaker_lets(b, now);

	if (!device && box->breaker.until < *until)
		*until = box->breaker.until;
	if (!pair && b->until < *until)
		*until = b->until;
	return device && pair;
}
