/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - the look-ups that an engine has under way */
#include "te/control/names.h"

#include <string.h>

#include "base/lookup.h"
#include "te/common/engine.h"
#include "te/control/control.h"
#include "te/control/peer.h"
#include "te/directory/directory.h"

_Static_assert(TEI_PEER_ADDRESSES >= TEI_LOOKUP_MAX,
	       "no room for what is found");

void tei_names_init(struct tei_names *names)
{
	tei_list_init(&names->waiting);
}

static void start(struct tei_peer *peer);

static void start_waiting(struct tei_names *names)
{
	while (names->n < TEI_NAMES_AT_ONCE && !tei_list_empty(&names->waiting))
		start(tei_list_entry(tei_list_pop(&names->waiting),
				     struct tei_peer_control, of_names)
			      ->peer);
}

static void stop(struct tei_peer *peer)
{
	tei_lookup_stop(peer->c->lookup);
	peer->c->lookup = NULL;
	peer->engine->control->names.n--;
}

static void found(void *arg, const struct tei_address *to, int n)
{
	struct tei_peer *peer = arg;

	stop(peer);
	if (n > 0)
		memcpy(peer->c->address, to, (size_t)n * sizeof(*to));
	if (!peer->port && n > 0)
		TEI_COUNT(peer->engine, directory_found);
	else if (!peer->port)
		TEI_COUNT(peer->engine, directory_failed);
	start_waiting(&peer->engine->control->names);
	tei_peer_found(peer, n);
}

static void start(struct tei_peer *peer)
{
	struct te_engine *engine = peer->engine;
	int rc;

	if (peer->port)
		rc = tei_lookup_start(engine->loop, peer->name, found, peer,
				      &peer->c->lookup);
	else
		rc = tei_directory_look_up(engine->directory, engine->loop,
					   peer->name, found, peer,
					   &peer->c->lookup);

	if (rc)
		tei_peer_found(peer, rc);
	else
		peer->engine->control->names.n++;
}

void tei_names_look_up(struct tei_peer *peer)
{
	struct tei_names *names = &peer->engine->control->names;

	if (peer->port &&
	    !tei_resolve_numeric(peer->host, peer->port, peer->c->address))
		tei_peer_found(peer, 1);
	else if (names->n == TEI_NAMES_AT_ONCE)
		tei_list_add_tail(&names->waiting, &peer->c->of_names);
	else
		start(peer);
}

void tei_names_give_up(struct tei_peer *peer)
{
	tei_list_del(&peer->c->of_names);
	if (peer->c->lookup)
		stop(peer);
}
