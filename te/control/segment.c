/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.c - segments: peers opened by name, and what is known of them
 *
 * Threads: the public calls run on their callers' threads, and send closures to
 * the control thread.
 */
#include "te/control/peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "te/control/control.h"
#include "te/core/engine.h"
#include "te/region/region.h"

/* ---- waiting for a peer ---- */

static void open_on_loop(struct tei_call *call)
{
	tei_peer_open(TEI_CONTAINER(call, struct tei_opener, call));
}

static void withdraw(void *arg)
{
	struct tei_opener *opener = arg;

	tei_list_del(&opener->link);
}

static int await_peer(struct tei_opener *opener, uint64_t timeout_ms)
{
	struct te_engine *engine = opener->peer->engine;
	uint64_t until = tei_now_ns() + timeout_ms * TEI_NS_PER_MS;
	bool done;

	tei_list_init(&opener->link);
	tei_cond_init(&opener->cond);
	opener->call.fn = open_on_loop;
	opener->err = -ETIMEDOUT; /* unless the last failure was of our own */
	if (!tei_loop_post(engine->loop, &opener->call)) {
		tei_cond_fini(&opener->cond);
		return -ECANCELED;
	}
	tei_mutex_lock(&engine->mu);
	while (!opener->done &&
	       tei_cond_wait(&opener->cond, &engine->mu, until))
		;
	done = opener->done;
	tei_mutex_unlock(&engine->mu);
	if (!done) /* no one has it after that */
		tei_loop_do(engine->loop, withdraw, opener);
	tei_cond_fini(&opener->cond);
	return opener->err;
}

static int contact(struct te_engine *engine, const char *name, bool probe,
		   uint32_t timeout_ms, struct tei_opener *opener)
{
	int rc;

	*opener = (struct tei_opener){.probe = probe};
	rc = tei_peer_get(engine, name, &opener->peer);
	if (rc || opener->peer->self)
		return rc;
	return await_peer(opener, timeout_ms ? timeout_ms
					     : engine->config.open_timeout);
}

int te_peer_probe(struct te_engine *engine, const char *name,
		  uint32_t timeout_ms, uint64_t *rtt_us)
{
	struct tei_opener opener;
	int rc;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	rc = contact(engine, name, true, timeout_ms, &opener);
	if (!rc && rtt_us)
		*rtt_us = opener.rtt_ns / TEI_NS_PER_US;
	return rc;
}

/* ---- segments ---- */

static int segment_make(struct te_engine *engine, struct tei_peer *peer,
			struct tei_segment **out) TEI_REQUIRES(engine->mu)
{
	struct tei_segment *segment = tei_calloc(1, sizeof(*segment));

	if (!segment)
		return -ENOMEM;
	segment->peer = peer;
	tei_segment_meet(segment);
	segment->id = tei_handle_add(&engine->segments, segment);
	if (!segment->id) {
		tei_free(segment);
		return -ENOMEM;
	}
	peer->segment = segment;
	*out = segment;
	return 0;
}

static int segment_get(struct te_engine *engine, struct tei_peer *peer,
		       te_segment_id *out)
{
	struct tei_segment *segment;
	int rc = 0;

	tei_mutex_lock(&engine->mu);
	segment = peer->segment;
	if (!segment)
		rc = segment_make(engine, peer, &segment);
	if (!rc) {
		segment->opens++;
		*out = segment->id;
	}
	tei_mutex_unlock(&engine->mu);
	return rc;
}

int te_segment_open(struct te_engine *engine, const char *name,
		    uint32_t timeout_ms, te_segment_id *out)
{
	struct tei_opener opener;
	int rc;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!out)
		return -EINVAL;
	rc = contact(engine, name, false, timeout_ms, &opener);
	return rc ? rc : segment_get(engine, opener.peer, out);
}

int te_segment_expect(struct te_engine *engine, const char *name,
		      te_segment_id *out)
{
	struct tei_peer *peer;
	int rc;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!out)
		return -EINVAL;
	rc = tei_peer_get(engine, name, &peer);
	return rc ? rc : segment_get(engine, peer, out);
}

void te_segment_close(struct te_engine *engine, te_segment_id id)
{
	struct tei_segment *segment;

	if (!tei_engine_alive(engine))
		return;
	tei_mutex_lock(&engine->mu);
	segment = tei_handle_get(&engine->segments, id);
	if (segment && !--segment->opens) {
		tei_handle_remove(&engine->segments, id);
		if (segment->peer->segment == segment)
			segment->peer->segment = NULL;
		tei_free(segment);
	}
	tei_mutex_unlock(&engine->mu);
}

void tei_segments_free(struct te_engine *engine)
{
	uint32_t i;

	for (i = 0; i < engine->segments.room; i++)
		tei_free(engine->segments.slots[i].object);
	tei_handles_fini(&engine->segments);
}

/* ---- what is known ---- */

static int find_peer(struct te_engine *engine, te_segment_id id,
		     struct tei_peer **peer, uint32_t *life)
{
	struct tei_segment *segment;
	int rc = 0;

	tei_mutex_lock(&engine->mu);
	segment = tei_handle_get(&engine->segments, id);
	if (!segment) {
		rc = -ENOENT;
	} else if (segment->life != segment->peer->announced.life) {
		rc = -ESTALE;
	} else {
		*peer = segment->peer;
		*life = segment->life;
	}
	tei_mutex_unlock(&engine->mu);
	return rc;
}

/* The description of the segment, referenced. As te_segment_regions(). */
static int describe(struct te_engine *engine, te_segment_id id,
		    struct tei_remote **out)
{
	struct tei_segment *segment;
	bool self = false;
	int rc = 0;

	tei_mutex_lock(&engine->mu);
	segment = tei_handle_get(&engine->segments, id);
	if (!segment)
		rc = -ENOENT;
	else if (segment->life != segment->peer->announced.life)
		rc = -ESTALE;
	else if (segment->peer->self)
		self = true;
	else if (!segment->life)
		rc = -EAGAIN;
	else
		*out = tei_remote_get(segment->peer->announced.remote);
	tei_mutex_unlock(&engine->mu);
	if (self) {
		*out = tei_describe_self(engine);
		rc = *out ? 0 : -ENOMEM;
	}
	return rc;
}

static void copy_region(const struct tei_remote_region *from,
			struct te_segment_region *to)
{
	*to = (struct te_segment_region){.addr = from->addr,
					 .length = from->length,
					 .access = from->access};
	snprintf(to->location, sizeof(to->location), "%s", from->location);
}

int te_segment_regions(struct te_engine *engine, te_segment_id segment,
		       struct te_segment_region *out, size_t *n)
{
	struct tei_remote *remote;
	size_t i;
	int rc;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!n || (!out && *n))
		return -EINVAL;
	rc = describe(engine, segment, &remote);
	if (rc)
		return rc;
	for (i = 0; i < *n && i < remote->n_regions; i++)
		copy_region(&remote->regions[i], &out[i]);
	*n = remote->n_regions;
	tei_remote_put(remote);
	return 0;
}

int te_segment_incarnation(struct te_engine *engine, te_segment_id id,
			   uint8_t out[TE_INCARNATION_LEN])
{
	struct tei_segment *segment;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	tei_mutex_lock(&engine->mu);
	segment = tei_handle_get(&engine->segments, id);
	if (segment)
		memcpy(out, segment->incarnation, TE_INCARNATION_LEN);
	tei_mutex_unlock(&engine->mu);
	return segment ? 0 : -ENOENT;
}

int te_segment_epoch(struct te_engine *engine, te_segment_id id,
		     uint64_t *epoch, uint64_t *since_ns)
{
	struct tei_segment *segment;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	tei_mutex_lock(&engine->mu);
	segment = tei_handle_get(&engine->segments, id);
	if (segment) {
		*epoch = segment->peer->announced.epoch;
		*since_ns = segment->peer->announced.epoch_since;
	}
	tei_mutex_unlock(&engine->mu);
	return segment ? 0 : -ENOENT;
}

/* ---- by which rails a peer is reached ---- */

int te_segment_links(struct te_engine *engine, te_segment_id segment,
		     struct te_link_info *out, size_t *n)
{
	struct tei_peer *peer;
	uint32_t life;
	int rc;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!n || (!out && *n))
		return -EINVAL;
	if (tei_in_callback())
		return -EDEADLK;
	rc = find_peer(engine, segment, &peer, &life);
	if (rc)
		return rc;
	if (*n)
		rc = tei_peer_links(peer, life, out, *n);
	if (!rc)
		*n = engine->worker->n_rails;
	return rc;
}

const char *te_link_state_name(uint32_t state)
{
	static const char *const names[] = {
		[TE_LINK_NONE] = "none",     [TE_LINK_OPENING] = "opening",
		[TE_LINK_UP] = "up",         [TE_LINK_PAUSED] = "paused",
		[TE_LINK_ABSENT] = "absent", [TE_LINK_APART] = "apart",
	};

	return state < sizeof(names) / sizeof(names[0]) ? names[state]
							: "unknown";
}

int te_segment_warm_up(struct te_engine *engine, te_segment_id segment,
		       uint32_t timeout_ms, uint32_t *n_rails)
{
	uint64_t ms = timeout_ms;
	struct tei_opener opener;
	struct tei_peer *peer;
	uint32_t life, n_up = 0;
	uint64_t until;
	int rc;

	if (n_rails)
		*n_rails = 0;
	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (tei_in_callback())
		return -EDEADLK;
	rc = find_peer(engine, segment, &peer, &life);
	if (rc)
		return rc;
	if (!ms)
		ms = engine->config.open_timeout;
	until = tei_now_ns() + ms * TEI_NS_PER_MS;
	opener = (struct tei_opener){.peer = peer};
	if (!peer->self)
		rc = await_peer(&opener, ms);
	if (!rc) /* it may have had no life yet */
		rc = find_peer(engine, segment, &peer, &life);
	if (!rc)
		rc = tei_peer_warm_up(peer, life, until, &n_up);
	if (n_rails)
		*n_rails = n_up;
	return rc;
}

/* ---- groups that we know ---- */

static void prove_all(void *arg)
{
	struct te_engine *engine = arg;
	struct tei_peer *peer = NULL;

	while ((peer = tei_peer_next(engine, peer))) {
		if (peer->c->state == TEI_PEER_UP ||
		    peer->c->state == TEI_PEER_DESCRIBING) {
			tei_peer_prove(peer);
			tei_peer_describe(peer);
		}
	}
}

int te_group_join(struct te_engine *engine,
		  const uint8_t secret[TE_GROUP_SECRET_LEN])
{
	int rc;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!secret)
		return -EINVAL;
	tei_mutex_lock(&engine->mu);
	rc = tei_group_add(&engine->control->joined, secret);
	tei_mutex_unlock(&engine->mu);
	if (rc < 0)
		return rc;
	tei_loop_do(engine->loop, prove_all, engine);
	return 0;
}

int te_group_leave(struct te_engine *engine,
		   const uint8_t secret[TE_GROUP_SECRET_LEN])
{
	int place;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!secret)
		return -EINVAL;
	tei_mutex_lock(&engine->mu);
	place = tei_group_find(&engine->control->joined, secret);
	/* No mask is over these places, so none is to be cleared. */
	if (place >= 0 &&
	    tei_group_remove(&engine->control->joined, (unsigned int)place))
		tei_group_free(&engine->control->joined, (unsigned int)place);
	tei_mutex_unlock(&engine->mu);
	return place < 0 ? -ENOENT : 0;
}
