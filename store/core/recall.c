/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recall.c - what owners may still bring from lives before this one
 *
 * They come one after the other, some late. What was removed or replaced here
 * meanwhile must not come back with one of them: such keys are remembered, by
 * their hash, until so many are known or so much time has passed that what is
 * not here yet is not taken any more. It is then as if its owner had died.
 */
#include "store/core/recall.h"

#include "store/core/state.h"
#include "store/core/tenant.h"

/* Keys: some 24 MiB. */
#define KEYS_MAX ((size_t)1 << 20)
/* Of client_ttl_ms, from the first step on. */
#define TTLS 6u

struct gone {
	struct tei_hash_node node;
};

int tei_core_recall_init(struct tei_core *core)
{
	tei_slab_init(&core->recall.nodes, sizeof(struct gone), 1024);
	core->recall.open = true;
	return tei_hash_init(&core->recall.gone);
}

void tei_core_recall_fini(struct tei_core *core)
{
	tei_slab_fini(&core->recall.nodes);
	tei_hash_fini(&core->recall.gone);
}

size_t tei_core_recall_bytes(const struct tei_core *core)
{
	return tei_slab_bytes(&core->recall.nodes) +
	       tei_hash_bytes(&core->recall.gone);
}

static void close(struct tei_core *core)
{
	core->recall.open = false;
	tei_slab_fini(&core->recall.nodes);
	tei_hash_fini(&core->recall.gone);
}

static bool is_gone(const struct tei_core *core, uint64_t hash)
{
	return tei_hash_first(&core->recall.gone, hash) != NULL;
}

void tei_core_renounce(struct tei_core *core, uint64_t hash)
{
	struct tei_recall *r = &core->recall;
	struct gone *g;

	if (!r->open || is_gone(core, hash))
		return;
	g = r->gone.n_nodes < KEYS_MAX ? tei_slab_get(&r->nodes) : NULL;
	if (g)
		tei_hash_insert(&r->gone, &g->node, hash);
	else
		close(core);
}

void tei_core_renounce_all(struct tei_core *core, struct tei_tenant *t)
{
	t->renounced = core->recall.open;
}

bool tei_core_recalls(const struct tei_core *core, const struct tei_tenant *t,
		      uint64_t hash)
{
	return core->recall.open && !t->renounced && !is_gone(core, hash);
}

void tei_core_recall_tick(struct tei_core *core)
{
	if (core->recall.open && core->now_ms - core->recall.from_ms >
					 TTLS * core->config.client_ttl_ms)
		close(core);
}
