/* SPDX-License-Identifier: Apache-2.0 */
/* inbound_peers.c - which inbound peers are known, and for how long */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "te/control/control.h"
#include "te/control/inbound.h"
#include "te/core/engine.h"
#include "te/notify/inbox.h"
#include "te/transfer/link.h"
#include "te/transfer/transfer.h"

/* Identity of those who show no secret. */
static struct tei_inbound_id bare_id(const uint8_t *incarnation)
{
	struct tei_inbound_id id = {0};

	memcpy(id.incarnation, incarnation, TE_INCARNATION_LEN);
	return id;
}

static void inbound_init(struct tei_inbound_peer *inbound,
			 const struct tei_inbound_id *id, uint64_t epoch)
{
	inbound->id = *id;
	atomic_init(&inbound->epoch, epoch);
	inbound->announced_epoch = epoch;
	tei_list_init(&inbound->links);
	tei_list_init(&inbound->conns);
	tei_list_init(&inbound->absent);
}

int tei_inbound_peers_init(struct te_engine *engine)
{
	struct tei_inbound_peers *g = &engine->control->inbound;
	const struct tei_inbound_id self = bare_id(engine->incarnation);

	g->floor = TEI_EPOCH_FIRST;
	tei_list_init(&g->conns);
	tei_list_init(&g->absent);
	tei_list_init(&g->revokes);
	inbound_init(&g->self, &self, g->floor);
	engine->transfer->own_epoch = &g->self.epoch;
	if (tei_random(&g->seed, sizeof(g->seed)))
		return -EIO;
	return tei_hash_init(&g->table);
}

/* Strangers choose their ids; the seed is one they cannot choose. */
static uint64_t hash_of(const struct te_engine *engine,
			const struct tei_inbound_id *id)
{
	return XXH3_64bits_withSeed(id, sizeof(*id),
				    engine->control->inbound.seed);
}

struct tei_inbound_peer *tei_inbound_peer_find(struct te_engine *engine,
					       const struct tei_inbound_id *id)
{
	struct tei_hash_node *node;

	node = tei_hash_first(&engine->control->inbound.table,
			      hash_of(engine, id));
	for (; node;
	     node = tei_hash_next(&engine->control->inbound.table, node)) {
		struct tei_inbound_peer *inbound =
			TEI_CONTAINER(node, struct tei_inbound_peer, node);

		if (!memcmp(&inbound->id, id, sizeof(*id)))
			return inbound;
	}
	return NULL;
}

/* The epoch of a peer that is not remembered. */
static uint64_t first_epoch(struct te_engine *engine,
			    const struct tei_inbound_id *id)
{
	const struct tei_inbound_id bare = bare_id(id->incarnation);
	const struct tei_inbound_peer *claimed = NULL;

	if (memcmp(id, &bare, sizeof(bare)) != 0)
		claimed = tei_inbound_peer_find(engine, &bare);
	return claimed ? atomic_load(&claimed->epoch)
		       : engine->control->inbound.floor;
}

static bool has_first_epoch(struct te_engine *engine,
			    const struct tei_inbound_peer *inbound)
{
	return atomic_load(&inbound->epoch) ==
	       first_epoch(engine, &inbound->id);
}

static void inbound_free(struct te_engine *engine,
			 struct tei_inbound_peer *inbound)
{
	struct tei_inbound_peers *g = &engine->control->inbound;

	tei_timer_stop(inbound->alone);
	if (!tei_list_empty(&inbound->absent))
		g->n_absent--;
	tei_list_del(&inbound->absent);
	if (inbound->taken)
		g->n_losses++;
	tei_account_leave(engine->inbox, inbound->account);
	tei_hash_remove(&g->table, &inbound->node);
	tei_free(inbound);
}

static bool is_here(const struct tei_inbound_peer *inbound)
{
	/* Not n_links: a link that is gone may still await its last call. */
	return !tei_list_empty(&inbound->links) ||
	       !tei_list_empty(&inbound->conns);
}

static void forget_peer(struct tei_hash_node *node, void *arg)
{
	struct te_engine *engine = arg;
	struct tei_inbound_peer *inbound =
		TEI_CONTAINER(node, struct tei_inbound_peer, node);

	if (!is_here(inbound))
		inbound_free(engine, inbound);
}

void tei_inbound_peers_forget(struct te_engine *engine)
{
	size_t cursor = 0;

	while (tei_hash_walk(&engine->control->inbound.table, &cursor, 1024,
			     forget_peer, engine))
		;
}

struct tei_inbound_peer *tei_inbound_peer_add(struct te_engine *engine,
					      const struct tei_inbound_id *id)
{
	struct tei_inbound_peer *inbound = tei_calloc(1, sizeof(*inbound));

	if (!inbound)
		return NULL;
	inbound_init(inbound, id, first_epoch(engine, id));
	tei_hash_insert(&engine->control->inbound.table, &inbound->node,
			hash_of(engine, id));
	return inbound;
}

/* Keeps a peer that left; strangers make many, so the oldest is dropped. */
static void remember_peer(struct te_engine *engine,
			  struct tei_inbound_peer *inbound)
{
	struct tei_inbound_peers *g = &engine->control->inbound;
	struct tei_inbound_peer *first;

	tei_list_add_tail(&g->absent, &inbound->absent);
	if (++g->n_absent <= TEI_ABSENT_MAX)
		return;
	first = tei_list_entry(g->absent.next, struct tei_inbound_peer, absent);
	if (has_first_epoch(engine, first)) {
		inbound_free(engine, first);
	} else { /* revoked since: that must not be forgotten */
		tei_list_del(&first->absent);
		g->n_absent--;
	}
}

void tei_inbound_peer_release(struct te_engine *engine,
			      struct tei_inbound_peer *inbound)
{
	if (is_here(inbound) || inbound == &engine->control->inbound.self ||
	    !has_first_epoch(engine, inbound) ||
	    !tei_list_empty(&inbound->absent))
		return;
	if (inbound->taken)
		remember_peer(engine, inbound);
	else
		inbound_free(engine, inbound);
}

static void free_peer(struct tei_hash_node *node, void *arg)
{
	struct te_engine *engine = arg;
	struct tei_inbound_peer *inbound =
		TEI_CONTAINER(node, struct tei_inbound_peer, node);
	struct tei_list *at;

	while ((at = tei_list_pop(&inbound->links))) {
		struct tei_link *link =
			tei_list_entry(at, struct tei_link, link);

		assert(!link->open);
		assert(tei_list_empty(&link->in.droppers));
		tei_link_free(link);
	}
	inbound_free(engine, inbound);
}

void tei_inbound_peers_fini(struct te_engine *engine)
{
	struct tei_hash *table = &engine->control->inbound.table;

	/* A table that shrinks meanwhile shows some only to the next walk. */
	while (table->n_nodes) {
		size_t cursor = 0;

		tei_hash_walk(table, &cursor, SIZE_MAX, free_peer, engine);
	}
	tei_hash_fini(&engine->control->inbound.table);
	tei_account_leave(engine->inbox, engine->control->inbound.self.account);
	engine->control->inbound.self.account = NULL;
}
