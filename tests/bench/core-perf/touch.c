/* SPDX-License-Identifier: Apache-2.0 */
/*
 * touch.c - what the policy adds to a look-up, and what a ghost costs
 */
#include <errno.h>

#include "base/chance.h"
#include "base/mem.h"
#include "store/core/policy.h"
#include "tests/bench/core-perf/driver.h"
#include "tests/bench/core-perf/parts.h"

#define GROUP 16 /* are loaded together, as the core does */

struct touched {
	struct tes_policy policy;
	struct tes_policy_node *node;
	uint64_t n, size;
};

static void touch_group(struct touched *t, uint64_t *chance)
{
	struct tes_policy_node *group[GROUP];

	for (size_t i = 0; i < GROUP; i++) {
		group[i] = &t->node[tei_chance(chance) % t->n];
		__builtin_prefetch(group[i], 1);
	}
	for (size_t i = 0; i < GROUP; i++) {
		__builtin_prefetch(group[i]->link.next, 1);
		__builtin_prefetch(group[i]->link.prev, 1);
	}
	for (size_t i = 0; i < GROUP; i++)
		tes_policy_touch(&t->policy, group[i]);
}

/* The same without the touch. */
static uint64_t load_group(struct touched *t, uint64_t *chance)
{
	struct tes_policy_node *group[GROUP];
	uint64_t sum = 0;

	for (size_t i = 0; i < GROUP; i++) {
		group[i] = &t->node[tei_chance(chance) % t->n];
		__builtin_prefetch(group[i], 1);
	}
	for (size_t i = 0; i < GROUP; i++)
		sum += group[i]->units;
	return sum;
}

static volatile uint64_t sink;

/* The core has found the object anyway: that is not the touch's. */
static void time_touches(struct touched *t, uint64_t n, struct figures *f)
{
	uint64_t chance = 1, start = driver_cpu_ns(), sum = 0, all, found;
	struct figure *r;

	for (uint64_t i = 0; i < n; i += GROUP)
		touch_group(t, &chance);
	all = driver_cpu_ns() - start;
	start = driver_cpu_ns();
	for (uint64_t i = 0; i < n; i += GROUP)
		sum += load_group(t, &chance);
	found = driver_cpu_ns() - start;
	sink = sum;
	r = figures_add(f, "ns", ((double)all - (double)found) / (double)n,
			"a touch, %ju objects", (uintmax_t)t->n);
	r->most = 50;
	r->beside = "finding the object before it";
	r->raw = (double)found / (double)n;
}

static void time_evictions(struct touched *t, struct figures *f)
{
	uint64_t start = driver_cpu_ns();
	size_t ghosts;

	for (uint64_t i = 0; i < t->n; i++) {
		struct tes_policy_node *node = tes_policy_victim(&t->policy);
		uint64_t at = (uint64_t)(node - t->node);

		tes_policy_evicted(&t->policy, node, tei_chance_mix(at));
		tes_policy_add(&t->policy, node, t->size,
			       tei_chance_mix(at + t->n));
	}
	figures_add(f, "ns", (double)(driver_cpu_ns() - start) / (double)t->n,
		    "victim, its ghost, a new one");
	ghosts = t->policy.ghosts.n;
	figures_add(f, "bytes",
		    ghosts ? (double)tes_policy_bytes(&t->policy) /
				     (double)ghosts
			   : 0,
		    "a ghost, of %zu", ghosts)
		->most = 30;
}

static int measure(const struct options *o, uint64_t n, struct figures *f)
{
	struct touched t = {.n = n, .size = o->value_size};

	t.node = tei_calloc(n, sizeof(*t.node));
	if (!t.node)
		return -ENOMEM;
	tes_policy_init(&t.policy);
	tes_policy_set_capacity(&t.policy, n * o->value_size);
	for (uint64_t i = 0; i < n; i++)
		tes_policy_add(&t.policy, &t.node[i], t.size,
			       tei_chance_mix(i));
	time_touches(&t, o->asked, f);
	time_evictions(&t, f);
	tes_policy_fini(&t.policy);
	tei_free(t.node);
	return 0;
}

int measure_touch(const struct options *o, struct figures *f)
{
	int rc = measure(o, 100000, f);

	return rc ? rc : measure(o, o->objects, f);
}
