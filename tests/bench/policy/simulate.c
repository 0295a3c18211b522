/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simulate.c - what a pool of given size would have hit, by policy
 */
#include "tests/bench/policy/simulate.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/chance.h"
#include "base/mem.h"
#include "store/core/policy.h"

struct block {
	struct tes_policy_node node; /* of LRU and CLOCK its link only */
	bool there, asked;
};

struct pool {
	const struct tei_workload *w;
	enum tei_sim_kind kind;
	uint64_t capacity, used;
	struct block *blocks;
	struct tei_list queue; /* LRU, CLOCK: next to go first */
	struct tes_policy policy;
	struct tei_sim_result *result;
};

static struct block *block_at(struct tei_list *link)
{
	return tei_list_entry(link, struct block, node.link);
}

static void touch(struct pool *p, struct block *b)
{
	switch (p->kind) {
	case TEI_SIM_LRU:
		tei_list_del(&b->node.link);
		tei_list_add_tail(&p->queue, &b->node.link);
		break;
	case TEI_SIM_CLOCK:
		b->asked = true;
		break;
	default:
		tes_policy_touch(&p->policy, &b->node);
	}
}

static struct block *next_of_clock(struct pool *p)
{
	for (;;) {
		struct block *b = block_at(p->queue.next);

		if (!b->asked)
			return b;
		b->asked = false;
		tei_list_del(&b->node.link);
		tei_list_add_tail(&p->queue, &b->node.link);
	}
}

static uint64_t hash_of(size_t key)
{
	return tei_chance_mix(key + 1);
}

static void watch_ghosts(struct pool *p)
{
	uint64_t bytes = tes_policy_bytes(&p->policy);

	if (p->policy.ghosts.n > p->result->ghosts)
		p->result->ghosts = p->policy.ghosts.n;
	if (bytes > p->result->ghost_bytes)
		p->result->ghost_bytes = bytes;
}

static void evict(struct pool *p)
{
	struct tes_policy_node *node;
	struct block *b;
	size_t key;

	if (p->kind == TEI_SIM_POLICY) {
		node = tes_policy_victim(&p->policy);
		b = TEI_CONTAINER(node, struct block, node);
	} else if (p->kind == TEI_SIM_CLOCK) {
		b = next_of_clock(p);
	} else {
		b = block_at(p->queue.next);
	}
	key = (size_t)(b - p->blocks);
	if (p->kind == TEI_SIM_POLICY) {
		tes_policy_evicted(&p->policy, &b->node, hash_of(key));
		watch_ghosts(p);
	} else {
		tei_list_del(&b->node.link);
	}
	b->there = false;
	p->used -= p->w->size[key];
}

static void add(struct pool *p, size_t key)
{
	struct block *b = &p->blocks[key];
	uint64_t size = p->w->size[key];

	if (size > p->capacity)
		return;
	while (p->used + size > p->capacity)
		evict(p);
	p->used += size;
	b->there = true;
	b->asked = false;
	if (p->kind == TEI_SIM_POLICY)
		tes_policy_add(&p->policy, &b->node, size, hash_of(key));
	else
		tei_list_add_tail(&p->queue, &b->node.link);
}

static void run(struct pool *p)
{
	for (size_t i = 0; i < p->w->n; i++) {
		size_t key = p->w->key[i];

		p->result->bytes += p->w->size[key];
		if (p->blocks[key].there) {
			p->result->hits++;
			p->result->hit_bytes += p->w->size[key];
			touch(p, &p->blocks[key]);
		} else {
			add(p, key);
		}
	}
}

int tei_simulate(const struct tei_workload *w, enum tei_sim_kind kind,
		 uint64_t capacity, uint64_t (*now_ns)(void),
		 struct tei_sim_result *out)
{
	struct pool p = {
		.w = w, .kind = kind, .capacity = capacity, .result = out};
	uint64_t start;

	*out = (struct tei_sim_result){0};
	p.blocks = tei_calloc(w->n_keys + 1, sizeof(*p.blocks));
	if (!p.blocks)
		return -ENOMEM;
	tei_list_init(&p.queue);
	tes_policy_init(&p.policy);
	tes_policy_set_capacity(&p.policy, capacity);
	start = now_ns();
	run(&p);
	out->ns = now_ns() - start;
	tes_policy_fini(&p.policy);
	tei_free(p.blocks);
	return 0;
}
