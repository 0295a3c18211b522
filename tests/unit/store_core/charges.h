/* SPDX-License-Identifier: Apache-2.0 */
/*
 * charges.h - what tenants should be charged, by looking at every object
 */
#ifndef TESTS_UNIT_STORE_CORE_CHARGES_H
#define TESTS_UNIT_STORE_CORE_CHARGES_H

#include "store/core/object.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/tenant.h"

#define CHARGES_MAX 16

struct charges {
	uint64_t bytes[CHARGES_MAX];
	size_t objects[CHARGES_MAX];
	bool known; /* no tenant beyond those */
};

static void charges_add(struct tei_hash_node *node, void *arg)
{
	const struct tes_object *o =
		TEI_CONTAINER(node, struct tes_object, node);
	struct charges *c = arg;

	if (o->tenant >= CHARGES_MAX) {
		c->known = false;
		return;
	}
	c->objects[o->tenant]++;
	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (e->space)
			c->bytes[o->tenant] += e->size;
}

/* Every tenant is charged for what its objects have, no more and no less. */
static bool charges_exact(struct tes_core *core)
{
	struct charges c = {.known = true};
	size_t cursor = 0;

	while (tei_hash_walk(&core->objects, &cursor, 1024, charges_add, &c))
		;
	for (size_t i = 0; c.known && i < CHARGES_MAX; i++) {
		const struct tes_tenant *t =
			i < core->n_tenants ? core->tenants[i] : NULL;

		if ((t ? t->charged : 0) != c.bytes[i] ||
		    (t ? t->objects : 0) != c.objects[i])
			return false;
	}
	return c.known;
}

#endif
