/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.c - regions of a GPU's memory, for backends, peers and copies */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

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
	int gpu;

	tei_mutex_lock(&r->mu);
	region = tei_handle_get(&r->handles, id);
	exported = region ? region->exported : NULL;
	gpu = region ? region->memory.facts.gpu : -1;
	tei_mutex_unlock(&r->mu);
	if (!exported)
		return -ENOENT;
	*out = (struct tei_gpu_memory){.gpu = gpu,
				       .fd = -1,
				       .by_address = exported->by_address,
				       .why = exported->why,
				       .how = exported->how};
	find_piece(exported, addr, out);
	return 0;
}

_Static_assert(TEI_GPU_NAME_LEN == TEI_SHARED_LEN, "a backend has the name");

/* A region's memory, and the range of it that is the region's. */
struct place {
	struct tei_memory_found memory;
	uint64_t addr, length;
};

/* Copies what is known of region @id; memory.facts.kind HOST: there is none. */
static struct place find_place(struct te_engine *engine, uint64_t id)
{
	struct place place = {.memory.facts.kind = TEI_MEMORY_HOST};
	struct tei_regions *r = engine->regions;
	const struct tei_region *region;

	tei_mutex_lock(&r->mu);
	region = tei_handle_get(&r->handles, id);
	if (region) {
		place.memory = region->memory;
		place.addr = region->addr;
		place.length = region->length;
	}
	tei_mutex_unlock(&r->mu);
	return place;
}

/* Finds the chunk that begins at @addr. 0, -EOPNOTSUPP, -EIO; @why. */
static int look_at_chunk(const struct tei_memory_found *memory, uint64_t addr,
			 struct tei_memory_facts *facts, char *why)
{
	int rc = memory->ops->look(memory->runtime, addr, facts, why);

	if (rc)
		return rc;
	if (facts->chunked && facts->base == addr && facts->length)
		return 0;
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "no chunk begins at it");
	return -EOPNOTSUPP;
}

/* Fills @out with the chunks that have the region; asks for each. */
static int share_chunks(const struct place *place, struct tei_gpu_shared *out,
			char *why)
{
	const struct tei_memory_found *memory = &place->memory;
	struct tei_memory_facts facts = memory->facts;
	uint64_t next;
	int rc;

	out->chunked = true;
	for (uint32_t n = 0; n < TEI_GPU_CHUNKS_MAX; n++) {
		rc = memory->ops->share_chunk(memory->runtime, &facts, NULL,
					      why);
		if (rc)
			return rc;
		next = facts.base + facts.length;
		out->length = next - out->base;
		if (next >= place->addr + place->length)
			return 0;
		rc = look_at_chunk(memory, next, &facts, why);
		if (rc)
			return rc;
	}
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "it has more than %u chunks",
		       TEI_GPU_CHUNKS_MAX);
	return -EOPNOTSUPP;
}

static int not_shared(const struct te_engine *engine,
		      const struct tei_memory_found *memory, uint64_t addr,
		      const char *why)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_info_allowed(&limit))
		LOG_INFO("engine %s: memory of %s:%d at 0x%" PRIx64
			 " is not shared with processes of this host: %s",
			 engine->name, memory->ops->name, memory->facts.gpu,
			 addr, why);
	return -EOPNOTSUPP;
}

int tei_region_share(struct tei_engine_core *core, uint64_t id,
		     struct tei_gpu_shared *out)
{
	const struct place place = find_place(core->engine, id);
	const struct tei_memory_found *memory = &place.memory;
	char why[TEI_RUNTIME_WHY_LEN];
	int rc;

	if (memory->facts.kind != TEI_MEMORY_DEVICE)
		return -ENOENT;
	*out = (struct tei_gpu_shared){.base = memory->facts.base,
				       .length = memory->facts.length};
	if (memory->facts.chunked)
		rc = share_chunks(&place, out, why);
	else
		rc = memory->ops->share(memory->runtime, &memory->facts,
					out->name, why);
	return rc ? not_shared(core->engine, memory, out->base, why) : 0;
}

int tei_region_share_chunk(struct tei_engine_core *core, uint64_t id,
			   uint64_t addr, uint64_t *length, int *fd)
{
	const struct place place = find_place(core->engine, id);
	const struct tei_memory_found *memory = &place.memory;
	struct tei_memory_facts facts;
	char why[TEI_RUNTIME_WHY_LEN];
	int rc;

	if (memory->facts.kind != TEI_MEMORY_DEVICE)
		return -EOPNOTSUPP;
	rc = look_at_chunk(memory, addr, &facts, why);
	if (!rc)
		rc = memory->ops->share_chunk(memory->runtime, &facts, fd, why);
	if (rc)
		return not_shared(core->engine, memory, addr, why);
	*length = facts.length;
	return 0;
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
