/* SPDX-License-Identifier: Apache-2.0 */
/* hot.c - dynamic replication: hot objects get further replicas */
#include "store/core/hot.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/core/evict.h"
#include "store/core/fence.h"
#include "store/core/object.h"
#include "store/core/replica.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/task.h"

#define COOLDOWN_MS   30000u /* from one proposal to the next */
#define RECREATE_MS   60000u /* after a replica was given back */
#define WATERMARK     0.85   /* of the pool; above it none are made */
#define ADMIT_MAX     64u    /* proposals of a tick */
#define GIVE_BACK_MAX 16u    /* replicas that a tick looks at */

/* ---- life ---- */

static size_t slots_bytes(void)
{
	return (size_t)TES_HOT_SETS * TES_HOT_WAYS *
	       sizeof(struct tes_hot_slot);
}

static size_t lists_bytes(void)
{
	return TES_HOT_QUEUE * sizeof(struct tes_hot_object) +
	       TES_HOT_MADE * sizeof(struct tes_hot_made);
}

static uint16_t threshold_of(const struct tes_core_config *c)
{
	double n = c->hot_qps * (double)c->hot_window_ms / 1000;

	if (n >= UINT16_MAX)
		return UINT16_MAX;
	return n <= 1 ? 1 : (uint16_t)(n + 0.999);
}

void tes_core_hot_fini(struct tes_core *core)
{
	tei_free(core->hot.slots);
	tei_free(core->hot.queue);
	tei_free(core->hot.made);
	core->hot = (struct tes_hot_keys){.slots = NULL};
}

int tes_core_hot_init(struct tes_core *core)
{
	struct tes_hot_keys *h = &core->hot;

	if (core->config.hot == TES_CORE_HOT_OFF)
		return 0;
	h->threshold = threshold_of(&core->config);
	h->slots = tei_aligned_calloc(64, slots_bytes());
	if (core->config.hot == TES_CORE_HOT_ENFORCE) {
		h->queue = tei_calloc(TES_HOT_QUEUE, sizeof(*h->queue));
		h->made = tei_calloc(TES_HOT_MADE, sizeof(*h->made));
		if (!h->queue || !h->made)
			goto fail;
	}
	if (!h->slots)
		goto fail;
	core->heap_bytes += slots_bytes() + (h->queue ? lists_bytes() : 0);
	return 0;
fail:
	tes_core_hot_fini(core);
	return -ENOMEM;
}

/* ---- counting ---- */

static uint32_t now_s(const struct tes_core *core)
{
	return (uint32_t)(core->now_ms / 1000);
}

static void advance_window(struct tes_core *core)
{
	struct tes_hot_keys *h = &core->hot;
	uint64_t window = core->now_ms / core->config.hot_window_ms;

	if (core->now_ms < h->window_end_ms)
		return;
	h->window = (uint16_t)window;
	h->window_end_ms = (window + 1) * core->config.hot_window_ms;
}

/* Brings the slot to the current window. */
static void roll_slot(const struct tes_hot_keys *h, struct tes_hot_slot *slot)
{
	if (slot->window == h->window)
		return;
	slot->last =
		(uint16_t)(slot->window + 1) == h->window ? slot->count : 0;
	slot->count = 0;
	slot->window = h->window;
}

static struct tes_hot_slot *set_of(const struct tes_hot_keys *h, uint64_t hash)
{
	return &h->slots[(hash % TES_HOT_SETS) * TES_HOT_WAYS];
}

/* NULL: nothing is known of it. */
static struct tes_hot_slot *find_slot(const struct tes_hot_keys *h,
				      uint64_t hash)
{
	struct tes_hot_slot *set = set_of(h, hash);

	for (unsigned int i = 0; i < TES_HOT_WAYS; i++)
		if (set[i].tag == (uint32_t)(hash >> 32))
			return &set[i];
	return NULL;
}

/* Takes the slot that was asked for least, for another object. */
static struct tes_hot_slot *take_slot(const struct tes_hot_keys *h,
				      uint64_t hash)
{
	struct tes_hot_slot *set = set_of(h, hash), *least = set;

	for (unsigned int i = 0; i < TES_HOT_WAYS; i++) {
		roll_slot(h, &set[i]);
		if (set[i].count + set[i].last < least->count + least->last)
			least = &set[i];
	}
	*least = (struct tes_hot_slot){.tag = (uint32_t)(hash >> 32),
				       .window = h->window};
	return least;
}

/* Counts replicas; @live: only those that could be read. */
static uint32_t n_replicas(const struct tes_object *o, bool live)
{
	uint32_t mask = 0, n = 0;

	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (!live || (tes_core_extent_there(e) &&
			      tes_core_mount_live(tes_core_extent_mount(e))))
			mask |= (uint32_t)1 << e->replica;
	for (; mask; mask &= mask - 1)
		n++;
	return n;
}

static void propose_replica(struct tes_core *core, const struct tes_object *o,
			    struct tes_hot_slot *slot)
{
	struct tes_hot_keys *h = &core->hot;

	if (n_replicas(o, true) >= core->config.hot_replicas)
		return;
	slot->quiet_s = now_s(core) + COOLDOWN_MS / 1000;
	core->figures.hot_proposed_total++;
	if (!h->queue)
		return;
	if (h->n == TES_HOT_QUEUE) {
		core->figures.hot_refused_total++;
		return;
	}
	h->queue[(h->first + h->n++) % TES_HOT_QUEUE] =
		(struct tes_hot_object){o->node.hash, o->generation};
}

void tes_core_hot_touch(struct tes_core *core, const struct tes_object *o)
{
	struct tes_hot_keys *h = &core->hot;
	struct tes_hot_slot *slot;

	advance_window(core);
	slot = find_slot(h, o->node.hash);
	if (!slot)
		slot = take_slot(h, o->node.hash);
	roll_slot(h, slot);
	if (slot->count < UINT16_MAX)
		slot->count++;
	if (slot->count == h->threshold && slot->quiet_s <= now_s(core))
		propose_replica(core, o, slot);
}

/* ---- making replicas ---- */

/* NULL: it is gone, or may not be touched now. */
static struct tes_object *find_hot_object(const struct tes_core *core,
					  const struct tes_hot_object *name)
{
	struct tei_hash_node *n = tei_hash_first(&core->objects, name->hash);

	for (; n; n = tei_hash_next(&core->objects, n)) {
		struct tes_object *o =
			TEI_CONTAINER(n, struct tes_object, node);

		if (o->generation == name->generation &&
		    o->state == TES_OBJECT_READY)
			return o;
	}
	return NULL;
}

/* True: the pool would be fuller than it may be with @more bytes. */
static bool would_be_full(const struct tes_core *core, uint64_t more)
{
	return (double)(core->figures.used_bytes + more) >
	       WATERMARK * (double)core->figures.capacity_bytes;
}

static void add_hot_task(struct tes_core *core, struct tes_object *o)
{
	const struct tes_task_request request = {.object = o,
						 .kind = TES_TASK_HOT};

	if (n_replicas(o, true) >= core->config.hot_replicas)
		return;
	if (would_be_full(core, o->size) || tes_core_task_add(core, &request))
		core->figures.hot_refused_total++;
}

void tes_core_hot_over(struct tes_core *core, const struct tes_object *o,
		       int32_t code)
{
	struct tes_hot_keys *h = &core->hot;

	if (code) {
		core->figures.hot_failed_total++;
		return;
	}
	core->figures.hot_made_total++;
	if (!o || !h->made || h->n_made == TES_HOT_MADE)
		return;
	h->made[h->n_made++] = (struct tes_hot_made){
		{o->node.hash, o->generation}, core->now_ms + COOLDOWN_MS};
}

/* ---- giving them back ---- */

static bool is_still_hot(const struct tes_core *core,
			 const struct tes_object *o)
{
	const struct tes_hot_keys *h = &core->hot;
	struct tes_hot_slot *slot = find_slot(h, o->node.hash);
	unsigned int least = (h->threshold + 1u) / 2;

	if (!slot)
		return false;
	roll_slot(h, slot);
	return slot->count >= least || slot->last >= least;
}

/* Gives the last replica of @o back, which has others. */
static void drop_last(struct tes_core *core, struct tes_object *o)
{
	const struct tes_extent *last = o->extents;
	struct tes_hot_slot *slot = find_slot(&core->hot, o->node.hash);

	while (last->next)
		last = last->next;
	tes_core_bury_replica(core, o, last->replica, NULL);
	tes_core_requeue(core, o);
	if (slot)
		slot->quiet_s = now_s(core) + RECREATE_MS / 1000;
	core->figures.hot_given_back_total++;
}

/* True: the entry is done with. */
static bool give_back_replica(struct tes_core *core,
			      const struct tes_hot_made *made)
{
	struct tes_object *o = find_hot_object(core, &made->name);
	uint32_t n = o ? n_replicas(o, false) : 0;

	if (n < 2)
		return true;
	if (!would_be_full(core, 0) || made->until_ms > core->now_ms ||
	    n_replicas(o, true) < n || tes_core_leased(core, o) ||
	    (o->flags & (TES_OBJECT_TASKED | TES_OBJECT_SUCCEEDED)) ||
	    is_still_hot(core, o) || tes_core_bury_reserve(core, o, NULL) < 0)
		return false;
	drop_last(core, o);
	return true;
}

static void give_back_some(struct tes_core *core)
{
	struct tes_hot_keys *h = &core->hot;

	for (unsigned int i = 0; i < GIVE_BACK_MAX && h->n_made; i++) {
		h->cursor = h->cursor + 1 < h->n_made ? h->cursor + 1 : 0;
		if (give_back_replica(core, &h->made[h->cursor]))
			h->made[h->cursor] = h->made[--h->n_made];
	}
}

void tes_core_hot_tick(struct tes_core *core)
{
	struct tes_hot_keys *h = &core->hot;

	if (!h->queue)
		return;
	advance_window(core);
	for (unsigned int i = 0; i < ADMIT_MAX && h->n; i++) {
		struct tes_object *o =
			find_hot_object(core, &h->queue[h->first]);

		h->first = (h->first + 1) % TES_HOT_QUEUE;
		h->n--;
		if (o)
			add_hot_task(core, o);
	}
	give_back_some(core);
}
