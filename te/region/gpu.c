/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.c - regions of a GPU's memory, as backends register them */
#include <errno.h>
#include <inttypes.h>

#include "base/log.h"
#include "base/mem.h"
#include "te/core/engine.h"
#include "te/device/export.h"
#include "te/device/stage.h"
#include "te/region/region.h"
#include "te/worker/worker.h"

int tei_region_export(struct te_engine *engine, struct tei_region *region)
{
	struct tei_export *exported;
	int rc;

	if (region->memory.facts.kind != TEI_MEMORY_DEVICE)
		return 0;
	exported = tei_calloc(1, sizeof(*exported));
	if (!exported)
		return -ENOMEM;
	rc = tei_export_make(engine, region->addr, region->length,
			     &region->memory, exported);
	if (rc)
		tei_free(exported);
	else
		region->exported = exported;
	return rc;
}

void tei_region_export_end(struct tei_region *region)
{
	if (!region->exported)
		return;
	tei_export_free(region->exported);
	tei_free(region->exported);
	region->exported = NULL;
}

/* Fills *@out with the piece that has the byte at @addr; there may be none. */
static void find_piece(const struct tei_export *exported, uint64_t addr,
		       struct tei_gpu_memory *out)
{
	for (uint32_t i = 0; i < exported->n; i++) {
		const struct tei_export_piece *piece = &exported->pieces[i];

		if (addr < piece->addr || addr - piece->addr >= piece->length)
			continue;
		out->fd = piece->fd;
		out->addr = piece->addr;
		out->length = piece->length;
		return;
	}
}

int tei_region_gpu(struct tei_engine_core *core, uint64_t id, uint64_t addr,
		   struct tei_gpu_memory *out)
{
	struct tei_regions *r = core->engine->regions;
	const struct tei_export *exported;
	const struct tei_region *region;

	tei_mutex_lock(&r->mu);
	region = tei_handle_get(&r->handles, id);
	exported = region ? region->exported : NULL;
	tei_mutex_unlock(&r->mu);
	if (!exported)
		return -ENOENT;
	*out = (struct tei_gpu_memory){.fd = -1,
				       .by_address = exported->by_address,
				       .why = exported->why,
				       .how = exported->how};
	find_piece(exported, addr, out);
	return 0;
}

_Static_assert(TEI_GPU_NAME_LEN == TEI_SHARED_LEN, "a backend has the name");

int tei_region_share(struct tei_engine_core *core, uint64_t id,
		     struct tei_gpu_shared *out)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct tei_regions *r = core->engine->regions;
	const struct tei_region *region;
	struct tei_memory_found memory = {.facts = {.kind = TEI_MEMORY_HOST}};
	char why[TEI_RUNTIME_WHY_LEN];
	int rc;

	tei_mutex_lock(&r->mu);
	region = tei_handle_get(&r->handles, id);
	if (region)
		memory = region->memory;
	tei_mutex_unlock(&r->mu);
	if (memory.facts.kind != TEI_MEMORY_DEVICE)
		return -ENOENT;
	out->base = memory.facts.base;
	out->length = memory.facts.length;
	rc = memory.ops->share(memory.runtime, &memory.facts, out->name, why);
	if (rc && tei_log_info_allowed(&limit))
		LOG_INFO("engine %s: memory of %s:%d at 0x%" PRIx64
			 " is not shared with processes of this host: %s",
			 core->engine->name, memory.ops->name, memory.facts.gpu,
			 memory.facts.base, why);
	return rc ? -EOPNOTSUPP : 0;
}

int tei_region_open_stage(struct te_engine *engine, struct tei_region *region,
			  char why[TEI_RUNTIME_WHY_LEN])
{
	int rc;

	if (region->memory.facts.kind != TEI_MEMORY_DEVICE)
		return 0;
	rc = tei_stage_get(engine, &region->memory, &region->stage, why);
	if (!rc)
		atomic_fetch_add(&region->stage->n_regions, 1);
	return rc;
}

void tei_region_close_stage(struct te_engine *engine, struct tei_region *region)
{
	struct tei_stage *stage = region->stage;

	if (stage && atomic_fetch_sub(&stage->n_regions, 1) == 1)
		engine->regions->ops->leave_stage(engine, stage);
	tei_stage_put(engine, stage);
}

struct tei_stage *tei_region_stage(struct te_engine *engine, uint64_t addr,
				   uint64_t *length)
{
	struct tei_regions *r = engine->regions;
	const struct tei_region *region;
	struct tei_stage *stage = NULL;

	tei_mutex_lock(&r->mu);
	region = tei_regions_find(r, addr);
	if (region && region->stage) {
		stage = tei_stage_hold(region->stage);
		if (*length > region->addr + region->length - addr)
			*length = region->addr + region->length - addr;
	}
	tei_mutex_unlock(&r->mu);
	return stage;
}

bool tei_region_is_gpu(struct te_engine *engine, uint64_t addr)
{
	struct tei_regions *r = engine->regions;
	const struct tei_region *region;
	bool is_gpu;

	tei_mutex_lock(&r->mu);
	region = tei_regions_find(r, addr);
	is_gpu = region && region->memory.facts.kind == TEI_MEMORY_DEVICE;
	tei_mutex_unlock(&r->mu);
	return is_gpu;
}

bool tei_region_is_copied(const struct tei_region *region,
			  const struct tei_rail *rail)
{
	return region->memory.facts.kind == TEI_MEMORY_DEVICE &&
	       !(rail->ops->caps & TEI_CAP_DEVICE_MEM);
}

uint64_t tei_region_takers(const struct te_engine *engine,
			   const struct tei_region *region)
{
	const struct tei_worker *w = engine->worker;
	uint64_t takers = 0;

	if (region->memory.facts.kind != TEI_MEMORY_DEVICE)
		return UINT64_MAX;
	for (uint32_t i = 0; i < w->n_rails; i++)
		if (region->key[i] &&
		    !tei_region_is_copied(region, &w->rails[i]->rail))
			takers |= (uint64_t)1 << i;
	return takers;
}

static void say_copied(const struct te_engine *engine,
		       const struct tei_region *region)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_info_allowed(&limit))
		LOG_INFO("engine %s: %" PRIu64 " bytes of a GPU at 0x%" PRIx64
			 " are reached by copies of this host",
			 engine->name, region->length, region->addr);
}

void tei_region_note_gpu(struct te_engine *engine,
			 const struct tei_region *region)
{
	struct tei_regions *r = engine->regions;

	if (region->memory.facts.kind != TEI_MEMORY_DEVICE || !region->access)
		return;
	atomic_store_explicit(&r->any_copied, true, memory_order_relaxed);
	if (region->stage && region->stage->flushes)
		atomic_store_explicit(&r->any_flushed, true,
				      memory_order_relaxed);
	if (!tei_region_takers(engine, region))
		say_copied(engine, region);
}

/* ---- flushing ---- */

#define FLUSHES_MAX 64 /* GPUs */

/* Tells whether NICs of peers may have written what its GPU does not show. */
static bool is_flushed(const struct te_engine *engine,
		       const struct tei_region *region)
{
	return region->shown && region->stage && region->stage->flushes &&
	       (region->access & TE_ACCESS_REMOTE_WRITE) &&
	       tei_region_takers(engine, region);
}

/* Adds the stage, held, unless it is there. */
static uint32_t add_stage(struct tei_stage *stages[FLUSHES_MAX], uint32_t n,
			  struct tei_stage *stage)
{
	for (uint32_t i = 0; i < n; i++)
		if (stages[i] == stage)
			return n;
	if (n < FLUSHES_MAX)
		stages[n++] = tei_stage_hold(stage);
	return n;
}

void tei_regions_flush(struct te_engine *engine)
{
	struct tei_regions *r = engine->regions;
	struct tei_stage *stages[FLUSHES_MAX];
	uint32_t n = 0;

	if (!atomic_load_explicit(&r->any_flushed, memory_order_relaxed))
		return;
	tei_mutex_lock(&r->mu);
	for (size_t i = 0; i < r->n; i++)
		if (is_flushed(engine, r->sorted[i]))
			n = add_stage(stages, n, r->sorted[i]->stage);
	tei_mutex_unlock(&r->mu);
	while (n) {
		tei_stage_flush(stages[--n]);
		tei_stage_put(engine, stages[n]);
	}
}
