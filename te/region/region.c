/* SPDX-License-Identifier: Apache-2.0 */
/* region.c - add, remove, pin and describe regions */
#include "te/region/region.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "te/core/control.pb-c.h"
#include "te/core/engine.h"
#include "te/device/device.h"
#include "te/device/stage.h"
#include "te/worker/topology.h"
#include "te/worker/worker.h"

#define SPINS      2000 /* about as long as a chunk takes */
#define WARN_MS    2000
#define ACCESS_ALL (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)

void tei_regions_init(struct tei_regions *r, struct te_engine *engine)
{
	r->engine = engine;
	tei_mutex_init(&r->mu);
	for (uint32_t i = 0; i < TEI_WORKERS_MAX; i++)
		tei_mutex_init(&r->pin_locks[i].mu);
	tei_cond_init(&r->unpinned);
	tei_handles_init(&r->handles);
	r->sorted = NULL;
	r->n = r->room = 0;
	r->groups.n = 0;
	atomic_init(&r->version, 1);
	atomic_init(&r->changes, 1);
	atomic_init(&r->any_near, false);
	atomic_init(&r->any_gpu, false);
	atomic_init(&r->any_flushed, false);
	tei_deferred_init(&r->deferred);
	tei_prefault_init(&r->prefault);
}

static void region_free(struct te_engine *engine, struct tei_region *region)
{
	uint32_t i;

	for (i = 0; i < engine->worker->n_rails; i++)
		tei_free(region->key[i]);
	tei_region_close_stage(engine, region);
	tei_free(region);
}

void tei_regions_fini(struct tei_regions *r)
{
	tei_free(r->sorted);
	tei_deferred_fini(&r->deferred);
	tei_prefault_fini(&r->prefault);
	tei_handles_fini(&r->handles);
	tei_cond_fini(&r->unpinned);
	for (uint32_t i = 0; i < TEI_WORKERS_MAX; i++)
		tei_mutex_fini(&r->pin_locks[i].mu);
	tei_mutex_fini(&r->mu);
}

/* ---- the table ---- */

/* Returns the place of the first region that ends above @addr. With mu held. */
static size_t place_of(const struct tei_regions *r, uint64_t addr)
{
	size_t low = 0, high = r->n;

	while (low < high) {
		size_t mid = (low + high) / 2;
		const struct tei_region *region = r->sorted[mid];

		if (region->addr + region->length > addr)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

struct tei_region *tei_regions_find(const struct tei_regions *r, uint64_t addr)
{
	size_t place = place_of(r, addr);
	struct tei_region *region = place < r->n ? r->sorted[place] : NULL;

	return region && region->shown && region->addr <= addr ? region : NULL;
}

static int make_room(struct tei_regions *r)
{
	size_t room = r->room ? r->room * 2 : 16;
	struct tei_region **sorted;

	if (r->n < r->room)
		return 0;
	sorted = tei_realloc(r->sorted, room * sizeof(struct tei_region *));
	if (!sorted)
		return -ENOMEM;
	r->sorted = sorted;
	r->room = room;
	return 0;
}

/* Pins are blocked. */
static int put_into(struct tei_regions *r, struct tei_region *region,
		    size_t place)
{
	if (make_room(r))
		return -ENOMEM;
	memmove(&r->sorted[place + 1], &r->sorted[place],
		(r->n - place) * sizeof(struct tei_region *));
	r->sorted[place] = region;
	r->n++;
	return 0;
}

/* Puts a hidden region into the table, so that no other takes its range. */
static int insert_region(struct tei_regions *r, struct tei_region *region)
	TEI_REQUIRES(r->mu)
{
	size_t place = place_of(r, region->addr);
	struct tei_region *next = place < r->n ? r->sorted[place] : NULL;
	int rc;

	if (next && next->addr == region->addr &&
	    next->length == region->length)
		return -EEXIST;
	if (next && next->addr < region->addr + region->length)
		return -EINVAL;
	region->id = tei_handle_add(&r->handles, region);
	if (!region->id)
		return -ENOMEM;
	tei_pins_block(r);
	rc = put_into(r, region, place);
	tei_pins_unblock(r);
	if (rc) {
		tei_handle_remove(&r->handles, region->id);
		return rc;
	}
	atomic_fetch_add_explicit(&r->changes, 1, memory_order_release);
	return 0;
}

static void take_out(struct tei_regions *r, struct tei_region *region)
	TEI_REQUIRES(r->mu)
{
	size_t place = place_of(r, region->addr);

	tei_pins_block(r);
	memmove(&r->sorted[place], &r->sorted[place + 1],
		(r->n - place - 1) * sizeof(struct tei_region *));
	r->n--;
	tei_pins_unblock(r);
	tei_list_del(&region->deferred);
	tei_prefault_remove(r, region);
	atomic_fetch_add_explicit(&r->changes, 1, memory_order_release);
	tei_handle_remove(&r->handles, region->id);
}

static int check_region(const struct te_region *region)
{
	uint64_t addr = (uintptr_t)region->addr;

	if (!addr || !region->length || region->length > TE_LENGTH_MAX ||
	    addr + region->length < addr)
		return -EINVAL;
	if (region->access & ~(uint32_t)ACCESS_ALL)
		return -EINVAL;
	if (region->reserved_0 || region->reserved_1[0] ||
	    region->reserved_1[1] || region->reserved_1[2])
		return -EINVAL;
	if (region->location &&
	    strlen(region->location) >=
		    sizeof(((struct tei_region *)0)->location))
		return -EINVAL;
	return 0;
}

/* Finds out where it is, and which rails are near; *@found: what it is. */
static void locate(struct te_engine *engine, const struct te_region *from,
		   const struct tei_memory_found *found,
		   struct tei_region *region)
{
	const char *gpu = found->facts.gpu < 0
				  ? NULL
				  : tei_topology_gpu(engine, found->gpu.bus_id);

	region->memory = *found;
	if (found->facts.kind == TEI_MEMORY_DEVICE) {
		atomic_store_explicit(&engine->regions->any_gpu, true,
				      memory_order_relaxed);
		snprintf(region->location, sizeof(region->location), "%s:%d",
			 found->ops->name, found->facts.gpu);
	} else {
		tei_topology_locate(engine, from->addr, from->location,
				    region->location, sizeof(region->location));
	}
	region->near = tei_topology_near(engine, gpu ? gpu : region->location);
}

static struct tei_region *region_make(struct te_engine *engine,
				      const struct te_region *from,
				      const struct tei_memory_found *found)
{
	size_t n_keys = engine->worker->n_rails;
	struct tei_region *region;

	region = tei_calloc(
		1, sizeof(*region) + n_keys * sizeof(region->key[0]) +
			   (engine->n_workers + 1) * sizeof(region->pins[0]));
	if (!region)
		return NULL;
	/* One is left out, so that the keys are on other cache lines. */
	region->pins = (struct tei_region_pins *)&region->key[n_keys] + 1;
	region->addr = (uintptr_t)from->addr;
	region->length = from->length;
	region->access = from->access;
	region->group = -1;
	tei_list_init(&region->deferred);
	tei_prefault_prepare(engine, region);
	locate(engine, from, found, region);
	if (region->near)
		atomic_store_explicit(&engine->regions->any_near, true,
				      memory_order_relaxed);
	return region;
}

static int insert_hidden(struct tei_regions *r, struct tei_region *region,
			 const uint8_t *secret)
{
	int rc = 0;

	tei_mutex_lock(&r->mu);
	if (secret) {
		region->group = tei_group_add(&r->groups, secret);
		if (region->group < 0)
			rc = region->group;
	}
	if (!rc)
		rc = insert_region(r, region);
	tei_mutex_unlock(&r->mu);
	return rc;
}

/*
 * Free a region that is not in the table. When it was the last of its group,
 * who has proven that one must not be taken for a member of the next group in
 * the same place.
 */
static void discard(struct te_engine *engine, struct tei_region *region)
{
	struct tei_regions *r = engine->regions;
	bool last = false;
	unsigned int place = (unsigned int)region->group;

	tei_mutex_lock(&r->mu);
	if (region->group >= 0)
		last = tei_group_remove(&r->groups, place);
	tei_mutex_unlock(&r->mu);
	if (last) {
		engine->regions->ops->forget_group(engine, place);
		tei_mutex_lock(&r->mu);
		tei_group_free(&r->groups, place);
		tei_mutex_unlock(&r->mu);
	}
	region_free(engine, region);
}

void tei_regions_changed(struct tei_regions *r, const struct tei_region *region)
{
	if (region->access)
		atomic_fetch_add_explicit(&r->version, 1, memory_order_release);
}

static int register_region(struct te_engine *engine, struct tei_region *region);

static struct tei_log_limit refusals = {.per_minute = 60};

/* Finds out what memory it is; says why it cannot be a region. */
static int find_memory(struct te_engine *engine, const struct te_region *region,
		       struct tei_memory_found *found)
{
	struct tei_memory_asked asked = {.addr = region->addr,
					 .length = region->length,
					 .location = region->location};
	char why[TEI_RUNTIME_WHY_LEN];
	int rc = tei_memory_find(engine, &asked, found, why);

	if (rc && rc != -ENOMEM && tei_log_allowed(&refusals))
		LOG_WARN("engine %s: a region of %" PRIu64
			 " bytes is refused: %s",
			 engine->name, region->length, why);
	return rc;
}

int te_region_add(struct te_engine *engine, const struct te_region *region,
		  te_region_id *out)
{
	struct tei_regions *r = engine->regions;
	struct tei_memory_found found;
	struct tei_region *added;
	int rc;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!region || !out || check_region(region))
		return -EINVAL;
	rc = find_memory(engine, region, &found);
	if (rc)
		return rc;
	added = region_make(engine, region, &found);
	if (!added)
		return -ENOMEM;
	rc = insert_hidden(r, added, region->group);
	if (rc)
		goto discard;
	rc = register_region(engine, added);
	if (rc)
		goto take_out;

	tei_mutex_lock(&r->mu);
	tei_region_show(r, added, true);
	tei_regions_changed(r, added);
	tei_deferred_add(r, added);
	tei_prefault_add(engine, added);
	*out = added->id;
	tei_mutex_unlock(&r->mu);
	if (region->access)
		engine->regions->ops->push(engine);
	return 0;

take_out:
	tei_mutex_lock(&r->mu);
	take_out(r, added);
	tei_mutex_unlock(&r->mu);
discard:
	discard(engine, added);
	assert(rc < 0);
	return rc;
}

int te_region_describe(struct te_engine *engine, te_region_id id,
		       struct te_region_facts *out)
{
	struct tei_regions *r = engine->regions;
	const struct tei_region *region;

	if (!out)
		return -EINVAL;
	memset(out, 0, sizeof(*out));
	tei_mutex_lock(&r->mu);
	region = tei_handle_get(&r->handles, id);
	if (region && !region->shown)
		region = NULL;
	if (region) {
		memcpy(out->location, region->location, sizeof(out->location));
		if (region->memory.facts.kind == TEI_MEMORY_DEVICE)
			out->memory = TE_MEMORY_GPU;
	}
	tei_mutex_unlock(&r->mu);
	return region ? 0 : -ENOENT;
}

/* False: some rail's peers still touch it. */
static bool hide(struct te_engine *engine, struct tei_region *region)
{
	struct tei_worker *w = engine->worker;
	bool quiet = true;
	uint32_t i;

	for (i = 0; i < w->n_rails; i++) {
		struct tei_rail *rail = &w->rails[i]->rail;

		if (region->key[i] && rail->ops->region_hide &&
		    rail->ops->region_hide(rail, region->id))
			quiet = false;
	}
	return quiet;
}

/*
 * The awaited word is stored by another process into shared memory, or said to
 * who drives: no thread here could signal it.
 */
static void pause_a_while(struct te_engine *engine, unsigned int turn)
{
	struct tei_regions *r = engine->regions;

	if (turn < SPINS) {
		(void)sched_yield();
		return;
	}
	tei_mutex_lock(&r->mu);
	tei_worker_await(engine->worker, &r->unpinned, &r->mu,
			 tei_now_ns() + TEI_NS_PER_MS);
	tei_mutex_unlock(&r->mu);
}

/*
 * A copy under way takes microseconds, or as long as its process stands still.
 * False: until after @until.
 */
static bool await_hidden(struct te_engine *engine, struct tei_region *region,
			 uint64_t until)
{
	uint64_t warn = tei_now_ns() + WARN_MS * TEI_NS_PER_MS;
	unsigned int turn;

	for (turn = 0; !hide(engine, region); turn++) {
		uint64_t now = tei_now_ns();

		if (now >= until)
			return false;
		if (now >= warn) {
			LOG_WARN("engine %s: a region cannot be removed yet: a "
				 "process of this host copies or has a GPU's "
				 "memory open, and does not go on, or "
				 "connections of peers are not closed",
				 engine->name);
			warn = UINT64_MAX;
		}
		pause_a_while(engine, turn);
	}
	return true;
}

static void region_unregister(struct te_engine *engine,
			      struct tei_region *region);

static void remove_quiet(struct te_engine *engine, struct tei_region *region)
{
	struct tei_regions *r = engine->regions;

	region_unregister(engine, region);
	tei_mutex_lock(&r->mu);
	take_out(r, region);
	tei_mutex_unlock(&r->mu);
	discard(engine, region);
}

/* Shown, or left by one that ran out of time. */
static struct tei_region *claim(struct te_engine *engine, te_region_id id,
				bool *visible)
{
	struct tei_regions *r = engine->regions;
	struct tei_region *region;

	tei_mutex_lock(&r->mu);
	region = tei_handle_get(&r->handles, id);
	if (region && !region->shown && !region->left)
		region = NULL;
	if (region) {
		*visible = region->shown && region->access != 0;
		if (region->shown) {
			tei_regions_changed(r, region);
			region->drop_at =
				tei_now_ns() +
				engine->config.suspect_after * TEI_NS_PER_MS;
		}
		if (region->shown)
			tei_region_show(r, region, false);
		region->left = false;
	}
	tei_mutex_unlock(&r->mu);
	return region;
}

static void mark_left(struct tei_regions *r, struct tei_region *region)
{
	tei_mutex_lock(&r->mu);
	region->left = true;
	tei_mutex_unlock(&r->mu);
}

static int remove_until(struct te_engine *engine, te_region_id id,
			uint64_t until)
{
	struct tei_region *region;
	bool visible;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	region = claim(engine, id, &visible);
	if (!region)
		return -ENOENT;
	if (visible)
		engine->regions->ops->push(engine);
	if (!tei_region_await_unpinned(engine, region, until) ||
	    !await_hidden(engine, region, until)) {
		mark_left(engine->regions, region);
		return -ETIMEDOUT;
	}
	remove_quiet(engine, region);
	return 0;
}

int te_region_remove(struct te_engine *engine, te_region_id id)
{
	return remove_until(engine, id, UINT64_MAX);
}

int te_region_remove_within(struct te_engine *engine, te_region_id id,
			    uint32_t timeout_ms)
{
	return remove_until(engine, id,
			    tei_now_ns() + timeout_ms * TEI_NS_PER_MS);
}

/* Every endpoint is closed: nobody is left who touches anything. */
void tei_regions_remove_all(struct te_engine *engine)
{
	struct tei_regions *r = engine->regions;

	while (r->n) { /* from the end, so that none has to move up */
		struct tei_region *last = r->sorted[r->n - 1];

		tei_mutex_lock(&r->mu);
		tei_region_show(r, last, false);
		tei_mutex_unlock(&r->mu);
		tei_region_await_unpinned(engine, last, UINT64_MAX);
		remove_quiet(engine, last);
	}
}

void tei_regions_renew(struct te_engine *engine)
{
	struct tei_regions *r = engine->regions;

	tei_mutex_lock(&r->mu);
	atomic_fetch_add_explicit(&r->version, 1, memory_order_release);
	tei_mutex_unlock(&r->mu);
	engine->regions->ops->push(engine);
}

void tei_regions_groups(struct tei_regions *r, struct tei_group_set *out)
{
	tei_mutex_lock(&r->mu);
	*out = r->groups;
	tei_mutex_unlock(&r->mu);
}

/* ---- registration of regions with the rails ---- */

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

static void region_unregister(struct te_engine *engine,
			      struct tei_region *region)
{
	struct tei_worker *w = engine->worker;
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
	/* Windows of GPUs, which all NICs look through, are small on some. */
	if (region->memory.facts.kind == TEI_MEMORY_DEVICE)
		return "which has no room for it";
	if (region->near && !is_near(region, rail->index))
		return "which is far from it";
	if (tei_rail_is_down(box))
		return "which is down";
	return NULL;
}

/* Outcome of a registration so far. */
struct outcome {
	uint32_t n;  /* rails that took it */
	int refused; /* the first one that did not, and should have; 0: none */
};

/*
 * Tells whether the rail's device takes memory of that kind at all, or the rail
 * has it copied, or copies it from and to GPUs.
 */
static bool takes(const struct tei_rail_box *box,
		  const struct tei_region *region)
{
	const struct tei_rail *rail = &box->rail;

	/* Stages are the first worker's. */
	if (box->worker->index && tei_region_is_copied(region, rail))
		return false;
	return region->memory.facts.kind != TEI_MEMORY_DEVICE ||
	       (rail->ops->caps & TEI_CAP_DEVICE_MEM) ||
	       (region->stage &&
		rail->ops->caps & (TEI_CAP_COPIES | TEI_CAP_ACROSS));
}

/*
 * Tells whether peers reach the region by the rail. A GPU's needs another than
 * that of the engine alone where there are others: a peer that does not get to
 * it would learn so too late.
 */
static bool serves_peers(const struct tei_worker *w,
			 const struct tei_rail *rail,
			 const struct tei_region *region)
{
	uint32_t i;

	if (region->memory.facts.kind != TEI_MEMORY_DEVICE ||
	    !(rail->ops->caps & TEI_CAP_SELF))
		return true;
	for (i = 0; i < w->n_rails; i++)
		if (!(w->rails[i]->rail.ops->caps & TEI_CAP_SELF))
			return false;
	return true;
}

/* Registers with the rails near it, or with the others. */
static int register_some(struct te_engine *engine, struct tei_region *region,
			 bool near, struct outcome *outcome)
{
	struct tei_worker *w = engine->worker;
	uint32_t i;

	for (i = 0; i < w->n_rails; i++) {
		const char *spare = why_spare(region, w->rails[i]);
		bool was_down = tei_rail_is_down(w->rails[i]);
		int rc;

		if (is_near(region, i) != near || !takes(w->rails[i], region))
			continue;
		/* Describe and pin look only at shown regions: no lock. */
		rc = tei_region_offer(region, w->rails[i], &region->key[i]);
		if (!rc && serves_peers(w, &w->rails[i]->rail, region))
			outcome->n++;
		if (!rc || rc == -EOPNOTSUPP)
			continue;
		if (!spare)
			return rc;
		if (!outcome->refused)
			outcome->refused = rc;
		region->due |= (uint64_t)1 << i;
		if (!was_down)
			region->refused |= (uint64_t)1 << i;
		LOG_WARN(
			"engine %s: a region is not registered on rail %s, %s: %s",
			engine->name, w->rails[i]->name, spare, strerror(-rc));
	}
	return 0;
}

/*
 * Opens the stage of a GPU's memory, which counts as a rail for memory that no
 * peer reaches. A region that some rail has can do without.
 */
static int add_stage(struct te_engine *engine, struct tei_region *region,
		     struct outcome *outcome)
{
	char why[TEI_RUNTIME_WHY_LEN];
	int rc = tei_region_open_stage(engine, region, why);

	if (!rc && region->stage && !region->access)
		outcome->n++;
	if (rc && tei_log_allowed(&refusals))
		LOG_WARN("engine %s: memory at %s is not copied by way of the "
			 "host: %s",
			 engine->name, region->location, why);
	return rc;
}

/*
 * Registers with all rails, those near its memory first, so that what may run
 * out, such as memory that a process may lock, or keys of a device, does so for
 * the others. Those carry when the near ones are gone (rails.h): one that
 * cannot take the region is done without for now, as is one that has no link.
 * Every other failure undoes all; a shortage is reported before a lack of
 * support.
 */
static int register_region(struct te_engine *engine, struct tei_region *region)
{
	struct outcome outcome = {0};
	int no_stage = add_stage(engine, region, &outcome);
	int rc = tei_region_export(engine, region);

	if (!rc)
		rc = register_some(engine, region, true, &outcome);
	if (!rc)
		rc = register_some(engine, region, false, &outcome);
	tei_region_export_end(region);
	if (!rc && outcome.n)
		rc = tei_region_check_gaps(engine, region);
	if (!rc && !outcome.n)
		rc = no_stage;
	if (!rc && !outcome.n)
		rc = outcome.refused ? outcome.refused : -EOPNOTSUPP;
	if (!rc)
		tei_region_note_gpu(engine, region);
	if (rc == -EOPNOTSUPP && tei_log_allowed(&refusals))
		LOG_WARN("engine %s: a region of %" PRIu64 " bytes at %s is "
			 "refused: no backend that is open reaches it",
			 engine->name, region->length, region->location);
	if (rc)
		region_unregister(engine, region);
	return rc;
}
