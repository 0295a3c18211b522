/* SPDX-License-Identifier: Apache-2.0 */
/*
 * region_register.c - give a region to the rails
 *
 * Rails near its memory come first, so that what may run out, such as memory that
 * a process may lock, or keys of a device, does so for the others. Those carry when
 * the near ones are gone (near.h): one that cannot take the region is done
 * without for now, as is one that has no link. Every other failure undoes all.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "te/api/engine.h"
#include "te/region/region.h"

int tei_region_offer(const struct tei_region *region, struct tei_rail_box *box,
		     struct tei_key **out)
{
	size_t len = TEI_KEY_MAX;
	struct tei_key *key = tei_malloc(sizeof(*key) + len), *fitted;
	struct tei_rail *rail = &box->rail;
	int rc;

	if (!key)
		return -ENOMEM;
	rc = rail->ops->region_add(
		rail, region->id, (void *)(uintptr_t)region->addr,
		region->length, region->access, key->bytes, &len);
	if (rc) {
		tei_free(key);
		return rc;
	}
	assert(len && len <= TEI_KEY_MAX);
	key->len = (uint16_t)len;
	fitted = tei_realloc(key, sizeof(*key) + len);
	*out = fitted ? fitted : key;
	return 0;
}

void tei_region_unregister(struct te_engine *engine, struct tei_region *region)
{
	struct tei_worker *w = &engine->worker;
	uint32_t i;

	for (i = 0; i < w->n_rails; i++) {
		struct tei_rail *rail = &w->rails[i]->rail;

		if (region->key[i])
			rail->ops->region_remove(rail, region->id);
	}
}

static bool is_near(const struct tei_region *region, uint32_t rail)
{
	return region->near >> rail & 1;
}

/*
 * NULL, or why the region can do without the rail. Far: where some are near, of
 * those whose device touches memory by itself.
 */
static const char *why_spare(const struct tei_region *region,
			     const struct tei_rail_box *box)
{
	const struct tei_rail *rail = &box->rail;

	if (!(rail->ops->caps & TEI_CAP_ONE_SIDED))
		return NULL;
	if (region->near && !is_near(region, rail->index))
		return "which is far from it";
	if (atomic_load_explicit(&box->shown, memory_order_relaxed) ==
	    TE_RAIL_DOWN)
		return "which is down";
	return NULL;
}

/* What has come of it so far. */
struct outcome {
	uint32_t n;  /* rails that took it */
	int refused; /* the first one that did not, and should have; 0: none */
};

/* To the rails near it, or to the others. */
static int register_some(struct te_engine *engine, struct tei_region *region,
			 bool near, struct outcome *outcome)
{
	struct tei_worker *w = &engine->worker;
	uint32_t i;

	for (i = 0; i < w->n_rails; i++) {
		const char *spare = why_spare(region, w->rails[i]);
		int rc;

		if (is_near(region, i) != near)
			continue;
		/* Describe and pin look only at shown regions: no lock. */
		rc = tei_region_offer(region, w->rails[i], &region->key[i]);
		if (!rc)
			outcome->n++;
		if (!rc || rc == -EOPNOTSUPP)
			continue;
		if (!spare)
			return rc;
		if (!outcome->refused)
			outcome->refused = rc;
		region->due |= (uint64_t)1 << i;
		LOG_WARN("engine %s: a region goes without rail %s, %s: %s",
			 engine->name, w->rails[i]->name, spare, strerror(-rc));
	}
	return 0;
}

/* That some kind of memory is no rail's says less than what one ran out of. */
int tei_region_register(struct te_engine *engine, struct tei_region *region)
{
	struct outcome outcome = {0};
	int rc = register_some(engine, region, true, &outcome);

	if (!rc)
		rc = register_some(engine, region, false, &outcome);
	if (!rc && !outcome.n)
		rc = outcome.refused ? outcome.refused : -EOPNOTSUPP;
	if (rc)
		tei_region_unregister(engine, region);
	return rc;
}
