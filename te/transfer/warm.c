/* SPDX-License-Identifier: Apache-2.0 */
/* warm.c - te_segment_warm_up() */
#include "te/transfer/warm.h"

#include <errno.h>

#include "base/clock.h"
#include "te/common/engine.h"
#include "te/region/region.h"
#include "te/transfer/batch.h"
#include "te/transfer/fill.h"
#include "te/transfer/link.h"
#include "te/transfer/pairs.h"
#include "te/transfer/peer.h"
#include "te/worker/worker.h"

/*
 * A peer says what regions it has, and may say a million: so many are looked
 * at, and so many ways to reach them are told apart. They are much alike.
 */
#define LOOK_MAX  1024u
#define REACH_MAX 16u

/* Of what a peer has described: sets of rails that reach a region of its. */
struct reaches {
	const struct tei_remote *remote; /* not kept; only to be compared */
	uint64_t version;                /* of remote */
	uint64_t sets[REACH_MAX];
	uint32_t n;
};

/* On the stack of te_segment_warm_up(), which waits until it is done. */
struct tei_warmer {
	struct tei_list link; /* peer->w.warmers. Token, as all up to n_up */
	struct tei_call begin;
	struct tei_due due;
	struct tei_peer *peer;
	uint32_t life;
	uint64_t until; /* ns */
	uint64_t tried; /* rails: none is tried twice */
	struct reaches reaches;
	uint32_t n_up;
	bool done; /* guarded by engine->mu, as err */
	int err;
	struct tei_cond cond;
};

/* ---- token ---- */

/* Not to be touched any more: its caller returns. */
static void finish(struct tei_warmer *m, int err)
{
	struct te_engine *engine = m->peer->engine;

	tei_list_del(&m->link);
	tei_due_clear(engine->worker, &m->due);
	tei_peer_update_want(m->peer);
	tei_mutex_lock(&engine->mu);
	m->err = err;
	m->done = true;
	tei_cond_signal(&m->cond);
	tei_mutex_unlock(&engine->mu);
}

static void too_late(struct tei_due *due)
{
	finish(TEI_CONTAINER(due, struct tei_warmer, due), -ETIMEDOUT);
}

static void add_reach(struct reaches *reaches, uint64_t set)
{
	uint32_t i;

	for (i = 0; i < reaches->n; i++) {
		if (reaches->sets[i] == set)
			return;
	}
	if (reaches->n < REACH_MAX)
		reaches->sets[reaches->n++] = set;
	else
		reaches->sets[REACH_MAX - 1] |= set;
}

/* Once for each description: this is called whenever the peer is run. */
static void find_reaches(struct tei_warmer *m)
{
	const struct tei_remote *remote = m->peer->w.remote;
	size_t i, step = remote->n_regions / LOOK_MAX + 1;

	if (m->reaches.remote == remote &&
	    m->reaches.version == remote->version)
		return;
	m->reaches =
		(struct reaches){.remote = remote, .version = remote->version};
	for (i = 0; i < remote->n_regions; i += step)
		add_reach(&m->reaches,
			  tei_pairs_that_reach(m->peer, remote,
					       &remote->regions[i]));
	if (!remote->n_regions)
		add_reach(&m->reaches, UINT64_MAX);
}

/* By which requests to any of its regions would go; if it has none, to all. */
static uint64_t wanted_rails(const struct tei_warmer *m)
{
	uint64_t wanted = 0;
	uint32_t i;

	for (i = 0; i < m->reaches.n; i++)
		wanted |= tei_fill_wants(m->peer, m->reaches.sets[i]);
	return wanted;
}

/* True: it is not known yet what becomes of it. */
static bool try_rail(struct tei_warmer *m, uint32_t rail)
{
	struct tei_peer *peer = m->peer;
	struct tei_pair *pair = &peer->w.pairs[rail];
	uint64_t bit = (uint64_t)1 << rail;

	if (!pair->link && !(m->tried & bit))
		tei_link_open(peer, rail);
	m->tried |= bit;
	if (pair->link && pair->link->out.state == TEI_LINK_UP)
		m->n_up++;
	return pair->link && pair->link->out.state != TEI_LINK_UP;
}

/* Where one has failed, others may be wanted instead. */
static bool try_rails(struct tei_warmer *m)
{
	uint64_t before, left;
	bool open;

	find_reaches(m);
	do {
		open = false;
		before = m->tried;
		m->n_up = 0;
		for (left = wanted_rails(m); left; left &= left - 1) {
			uint32_t rail = (uint32_t)__builtin_ctzll(left);

			open = try_rail(m, rail) || open;
		}
	} while (m->tried != before);
	return open;
}

static void look(struct tei_warmer *m)
{
	struct tei_peer *peer = m->peer;

	if (m->life != peer->w.life)
		finish(m, -ESTALE);
	else if (peer->w.up && !try_rails(m))
		finish(m, 0);
}

void tei_warm_look(struct tei_peer *peer)
{
	tei_list_for_each_safe (node, tmp, &peer->w.warmers)
		look(tei_list_entry(node, struct tei_warmer, link));
}

static void begin(struct tei_call *call)
{
	struct tei_warmer *m = TEI_CONTAINER(call, struct tei_warmer, begin);
	struct tei_peer *peer = m->peer;

	if (atomic_load_explicit(&peer->news, memory_order_acquire) !=
	    peer->w.news)
		tei_peer_sync(peer);
	if (peer->self)
		tei_peer_sync_self(peer);
	tei_list_add_tail(&peer->w.warmers, &m->link);
	if (tei_due_set(peer->engine->worker, &m->due, m->until)) {
		finish(m, -ENOMEM);
		return;
	}
	tei_peer_update_want(peer);
	look(m);
}

/* ---- any thread ---- */

int tei_peer_warm_up(struct tei_peer *peer, uint32_t life, uint64_t until,
		     uint32_t *n_rails)
{
	struct te_engine *engine = peer->engine;
	struct tei_warmer warmer = {.peer = peer, .life = life, .until = until};
	struct tei_warmer *m = &warmer;

	tei_list_init(&m->link);
	tei_cond_init(&m->cond);
	m->begin.fn = begin;
	m->due.fn = too_late;
	tei_worker_post(engine->worker, &m->begin);
	tei_mutex_lock(&engine->mu);
	while (!m->done)
		tei_worker_await(engine->worker, &m->cond, &engine->mu,
				 UINT64_MAX);
	tei_mutex_unlock(&engine->mu);
	tei_cond_fini(&m->cond);
	*n_rails = m->n_up;
	return m->err;
}
