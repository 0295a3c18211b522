/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self.c - an engine as its own peer
 *
 * Its own name needs no control connection: both halves of a link are opened
 * here, and the description is made from the region table itself.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "te/api/engine.h"
#include "te/control/control.h"
#include "te/control/control.pb-c.h"
#include "te/control/peer.h"
#include "te/transfer/link.h"

#define DESCRIPTION_MAX ((size_t)1 << 28)

static int open_mate(struct tei_link *link, struct tei_link *mate)
{
	struct te_engine *engine = link->engine;
	int rc;

	mate->in.guest = &engine->guests.self;
	mate->in.self_of = link;
	mate->number = link->number;
	mate->ep.epoch = link->ep.epoch;
	atomic_init(&mate->groups, ~(tei_group_mask)0);
	mate->in.address_len = link->out.address_len;
	memcpy(mate->in.address, link->out.address, link->out.address_len);
	rc = tei_target_open_half(mate);
	if (rc)
		return rc;
	link->out.address_len = mate->in.address_len;
	memcpy(link->out.address, mate->in.address, mate->in.address_len);
	return 0;
}

void tei_self_connect(struct tei_link *link)
{
	struct tei_link *mate = tei_link_make(link->engine, link->rail);
	int rc = -ENOMEM;

	if (mate) {
		rc = open_mate(link, mate);
		if (rc)
			tei_link_free(mate);
		else
			link->out.mate = mate;
	}
	tei_self_connected(link, rc);
}

void tei_self_close(struct tei_link *link)
{
	struct tei_link *mate = link->out.mate;

	link->out.mate = NULL;
	tei_target_close_half(mate);
	tei_link_free(mate);
}

struct tei_remote *tei_self_describe(struct te_engine *engine)
{
	Te__Description description = TE__DESCRIPTION__INIT;
	struct tei_remote *remote = NULL;
	struct tei_arena arena;
	int rc;

	tei_arena_init(&arena, DESCRIPTION_MAX);
	rc = tei_control_describe(engine, ~(tei_group_mask)0, &arena,
				  &description);
	if (!rc)
		rc = tei_remote_make(&description, &remote);
	if (rc)
		LOG_WARN("engine: describe itself: %s", te_strerror(rc));
	tei_arena_fini(&arena);
	return rc ? NULL : remote;
}

void tei_peer_sync_self(struct tei_peer *peer)
{
	struct te_engine *engine = peer->engine;
	struct tei_remote *remote;

	if (peer->w.remote->version ==
	    atomic_load_explicit(&engine->regions.version,
				 memory_order_acquire))
		return;
	remote = tei_self_describe(engine);
	if (!remote)
		return;
	tei_remote_put(peer->w.remote);
	peer->w.remote = remote;
}
