/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.c - objects that their writers want to be evicted together
 */
#include "store/core/group.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/core/object.h"
#include "store/core/state.h"

static struct tes_group *find_group(const struct tes_core *core,
				    uint16_t tenant, const char *name,
				    size_t len, uint64_t hash)
{
	struct tei_hash_node *n = tei_hash_first(&core->groups, hash);

	for (; n; n = tei_hash_next(&core->groups, n)) {
		struct tes_group *g = TEI_CONTAINER(n, struct tes_group, node);

		if (g->tenant == tenant && g->name_len == len &&
		    memcmp(g->name, name, len) == 0)
			return g;
	}
	return NULL;
}

static size_t group_bytes(const struct tes_group *g)
{
	return sizeof(*g) + g->name_len;
}

static struct tes_group *create_group(struct tes_core *core, uint16_t tenant,
				      const char *name, size_t len,
				      uint64_t hash)
{
	struct tes_group *g = tei_malloc(sizeof(*g) + len);

	if (!g)
		return NULL;
	tei_list_init(&g->members);
	g->tenant = tenant;
	g->name_len = len;
	memcpy(g->name, name, len);
	tei_hash_insert(&core->groups, &g->node, hash);
	core->heap_bytes += group_bytes(g);
	return g;
}

int tes_core_group_join(struct tes_core *core, struct tes_extra *x,
			const char *name, size_t len)
{
	uint16_t tenant = x->object->tenant;
	uint64_t hash = tes_core_hash_of(core, tenant, name, len);
	struct tes_group *g = find_group(core, tenant, name, len, hash);

	if (!g)
		g = create_group(core, tenant, name, len, hash);
	if (!g)
		return -ENOMEM;
	x->group = g;
	tei_list_add_tail(&g->members, &x->link);
	return 0;
}

void tes_core_group_leave(struct tes_core *core, struct tes_extra *x)
{
	struct tes_group *g = x->group;

	if (!g)
		return;
	x->group = NULL;
	tei_list_del(&x->link);
	if (!tei_list_empty(&g->members))
		return;
	tei_hash_remove(&core->groups, &g->node);
	core->heap_bytes -= group_bytes(g);
	tei_free(g);
}
