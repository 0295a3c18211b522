/* SPDX-License-Identifier: Apache-2.0 */
/* opener.c - those who wait for a peer to be up, or to answer */
#include <errno.h>

#include "te/common/engine.h"
#include "te/control/peer.h"

void tei_opener_end(struct tei_opener *opener, int err)
{
	struct te_engine *engine = opener->peer->engine;

	tei_list_del(&opener->link);
	tei_mutex_lock(&engine->mu);
	opener->done = true;
	opener->err = err;
	tei_cond_signal(&opener->cond); /* under mu: it is on a stack */
	tei_mutex_unlock(&engine->mu);
}

void tei_openers_end(struct tei_peer *peer, int err)
{
	while (!tei_list_empty(&peer->c->openers))
		tei_opener_end(tei_list_entry(peer->c->openers.next,
					      struct tei_opener, link),
			       err);
}

void tei_openers_serve(struct tei_peer *peer)
{
	bool probe = false;

	tei_list_for_each_safe (node, tmp, &peer->c->openers) {
		struct tei_opener *opener =
			tei_list_entry(node, struct tei_opener, link);

		if (opener->probe)
			probe = true;
		else
			tei_opener_end(opener, 0);
	}
	if (probe)
		tei_peer_probe(peer);
}

void tei_openers_refuse(struct tei_peer *peer)
{
	tei_list_for_each_safe (node, tmp, &peer->c->openers) {
		struct tei_opener *opener =
			tei_list_entry(node, struct tei_opener, link);

		if (opener->probe && ++opener->n_refused >= peer->c->n_address)
			tei_opener_end(opener, -ECONNREFUSED);
	}
}

void tei_peer_probed(struct tei_peer *peer, uint64_t rtt_ns)
{
	tei_list_for_each_safe (node, tmp, &peer->c->openers) {
		struct tei_opener *opener =
			tei_list_entry(node, struct tei_opener, link);

		if (!opener->probe)
			continue;
		opener->rtt_ns = rtt_ns;
		tei_opener_end(opener, 0);
	}
}

/* What those who wait end with when their time is over. */
static int openers_error(int err)
{
	if (err == -EAGAIN) /* it is the owner that is short of something */
		return err;
	if (!tei_is_shortage(err))
		return -ETIMEDOUT;
	return err == -EMFILE || err == -ENFILE ? -EMFILE : -ENOMEM;
}

void tei_openers_told(struct tei_peer *peer, int err)
{
	tei_list_for_each (node, &peer->c->openers)
		tei_list_entry(node, struct tei_opener, link)->err =
			openers_error(err);
}
