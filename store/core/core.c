/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.c - life of the core, one step, and what can be asked about it
 *
 * The core's own clock stops while this master is stalled (stopped, swapped
 * out, on a host that slept): whoever could not be heard is not silent, and
 * what could not be confirmed is not late.
 */
#include "store/core/core.h"

#include <assert.h>
#include <errno.h>

#include "base/mem.h"
#include "store/core/codes.h"
#include "store/core/drain.h"
#include "store/core/epoch.h"
#include "store/core/evict.h"
#include "store/core/fence.h"
#include "store/core/hot.h"
#include "store/core/object.h"
#include "store/core/replica.h"
#include "store/core/reply.h"
#include "store/core/session.h"
#include "store/core/state.h"
#include "store/core/step.h"
#include "store/core/task.h"
#include "store/core/tenant.h"

/* A step this long after the one before: this master was stalled itself; less
 * when suspect_ms is short. */
#define STALL_MS         1000
#define STALL_MIN_MS     250
#define STEP_OBJECTS     1024
#define STEP_OBJECTS_MAX (1u << 20)

static bool is_ratio(double x)
{
	return x >= 0 && x <= 1;
}

static bool is_valid(const struct tes_core_config *c)
{
	if (c->heat && (!c->heat_window_ms || !c->heat_replicas))
		return false;
	return c->lease_ttl_ms && c->client_ttl_ms && c->suspect_ms &&
	       c->put_discard_ms && c->fence_timeout_ms &&
	       is_ratio(c->high_watermark) && is_ratio(c->eviction_ratio);
}

static void init_lists(struct tes_core *core)
{
	tei_list_init(&core->back);
	tei_list_init(&core->parked);
	tes_core_loosen_all(core);
	tei_list_init(&core->leased);
	tei_heap_init(&core->pins);
	tei_list_init(&core->building);
	tei_list_init(&core->live);
	tei_list_init(&core->silent);
	tei_list_init(&core->left);
	tei_list_init(&core->gone);
	tei_list_init(&core->closes);
	tei_list_init(&core->news);
	tei_list_init(&core->unprobed);
	tei_list_init(&core->probed);
	tei_list_init(&core->fences);
	tei_list_init(&core->unsent);
	tei_list_init(&core->burials);
	tei_list_init(&core->notices);
	tei_list_init(&core->syncs);
	tei_list_init(&core->answers);
	tei_list_init(&core->dropping);
	tei_list_init(&core->graces);
	tei_list_init(&core->walks);
	tes_core_drains_init(core);
}

int tes_core_create(const struct tes_core_config *config, struct tes_core **out)
{
	struct tes_core *core;

	if (!is_valid(config))
		return -EINVAL;
	core = tei_calloc(1, sizeof(*core));
	if (!core)
		return -ENOMEM;
	core->config = *config;
	if (!core->config.step_objects)
		core->config.step_objects = STEP_OBJECTS;
	if (core->config.step_objects > STEP_OBJECTS_MAX)
		core->config.step_objects = STEP_OBJECTS_MAX;
	core->random = config->seed;
	init_lists(core);
	tei_slab_init(&core->extents, sizeof(struct tes_extent), 1024);
	tes_core_blocks_init(core);
	if (tei_hash_init(&core->objects) < 0)
		goto free_core;
	if (tei_hash_init(&core->sessions) < 0)
		goto fini_objects;
	if (tei_hash_init(&core->clients) < 0)
		goto fini_sessions;
	if (tei_hash_init(&core->groups) < 0)
		goto fini_clients;
	if (tei_hash_init(&core->lives) < 0)
		goto fini_groups;
	if (tes_core_tasks_init(core) < 0)
		goto fini_lives;
	if (tes_core_epochs_init(core) < 0)
		goto fini_tasks;
	if (tes_core_tenants_init(core) < 0)
		goto free_epochs;
	if (tes_core_heat_init(core) < 0)
		goto free_tenants;
	tes_core_recall_init(core);
	*out = core;
	return 0;

free_tenants:
	tes_core_tenants_free(core);
free_epochs:
	tei_free(core->epochs);
fini_tasks:
	tes_core_tasks_fini(core);
fini_lives:
	tei_hash_fini(&core->lives);
fini_groups:
	tei_hash_fini(&core->groups);
fini_clients:
	tei_hash_fini(&core->clients);
fini_sessions:
	tei_hash_fini(&core->sessions);
fini_objects:
	tei_hash_fini(&core->objects);
free_core:
	tei_free(core);
	return -ENOMEM;
}

static void free_object(struct tei_hash_node *node, void *core)
{
	tes_core_object_free(core,
			     TEI_CONTAINER(node, struct tes_object, node));
}

static void free_session(struct tes_core *core, struct tes_session *s)
{
	struct tei_list *link;

	while ((link = tei_list_pop(&s->mounts)))
		tei_free(tei_list_entry(link, struct tes_mount, link));
	tes_core_session_free(core, s);
}

/*
 * Nothing is taken out of anything: lists and extents go as a whole, and each
 * object costs one free().
 */
void tes_core_destroy(struct tes_core *core)
{
	struct tei_list *lists[4], *link;
	size_t cursor = 0;

	if (!core)
		return;
	tes_core_recall_fini(core);
	tes_core_heat_fini(core);
	tes_core_drains_free(core);
	tes_core_tasks_fini(core);
	lists[0] = &core->live;
	lists[1] = &core->silent;
	lists[2] = &core->left;
	lists[3] = &core->gone;
	while (tei_hash_walk(&core->objects, &cursor, SIZE_MAX, free_object,
			     core))
		;
	for (size_t i = 0; i < 4; i++)
		while ((link = tei_list_pop(lists[i])))
			free_session(
				core,
				tei_list_entry(link, struct tes_session, age));
	tei_heap_fini(&core->pins);
	tei_hash_fini(&core->objects);
	tei_hash_fini(&core->sessions);
	tei_hash_fini(&core->clients);
	tei_hash_fini(&core->groups);
	tei_hash_fini(&core->lives);
	tei_slab_fini(&core->extents);
	tes_core_walks_free(core);
	tes_core_tenants_free(core);
	tes_core_bury_fini(core);
	tei_free(core->epochs);
	tes_core_blocks_fini(core);
	tei_free(core->mounts);
	tei_free(core);
}

/*
 * A gap between steps that no healthy master has: half of the least patience,
 * but more than two ticks.
 */
static uint64_t stall_ms(const struct tes_core *core)
{
	uint64_t half = core->config.suspect_ms / 2;

	if (half < STALL_MIN_MS)
		return STALL_MIN_MS;
	return half < STALL_MS ? half : STALL_MS;
}

static void advance_clock(struct tes_core *core, uint64_t now_ms)
{
	uint64_t passed;

	if (!core->last_ms)
		core->last_ms = core->recall.from_ms = now_ms;
	if (now_ms < core->last_ms)
		now_ms = core->last_ms;
	passed = now_ms - core->last_ms;
	if (passed > stall_ms(core))
		core->stalled_ms += passed;
	core->last_ms = now_ms;
	core->now_ms = now_ms - core->stalled_ms;
	tes_core_probes_gap(core, passed);
}

static void handle_tick(struct tes_core *core, struct tes_actions *out)
{
	unsigned int drop = core->config.step_objects, settle = drop,
		     discard = drop, evict = drop, walk = drop, task = drop,
		     drain = drop;

	tes_core_graces_tick(core);
	tes_core_burials_tick(core);
	tes_core_fences_tick(core, &discard);
	tes_core_drop_some(core, &drop);
	tes_core_probes_tick(core);
	tes_core_sessions_tick(core, &settle);
	tes_core_evict_tick(core, &evict);
	tes_core_walks_tick(core, &walk);
	tes_core_drains_tick(core, &drain);
	tes_core_tasks_tick(core, &task);
	tes_core_heat_tick(core);
	tes_core_recall_tick(core);
	tes_core_sync_some(core, out);
	tes_core_tenants_tick(core);
}

/* Events without a reply; those of sessions that are no more are late. */
static void handle_note(struct tes_core *core, const struct tes_event *ev,
			struct tes_session *s)
{
	if (!s)
		return;
	if (ev->type == TES_EVENT_LEAVE) {
		tes_core_session_leave(core, s);
		return;
	}
	tes_core_session_seen(core, s);
	if (ev->type == TES_EVENT_HEARTBEAT)
		tes_core_session_beat(core, s, ev->u.heartbeat.fresh);
	else if (ev->type == TES_EVENT_RELEASE)
		tes_core_on_release(core, ev, s);
	else if (ev->type == TES_EVENT_FENCED)
		tes_core_on_fenced(core, ev, s);
	else if (ev->type == TES_EVENT_REPORT)
		tes_core_on_report(core, ev);
	else if (ev->type == TES_EVENT_PROBED)
		tes_core_on_probed(s, ev->u.probed.probe);
	else if (ev->type == TES_EVENT_TASK_DONE)
		tes_core_on_task_done(core, ev, s);
}

static bool is_batch(enum tes_event_type type)
{
	return type != TES_EVENT_MOUNT && type != TES_EVENT_UNMOUNT &&
	       type != TES_EVENT_TASK_QUERY;
}

/* Of the tenant's. What it has begun it may end, whatever became of it. */
static bool names_keys(enum tes_event_type type)
{
	return is_batch(type) && type != TES_EVENT_PUT_END &&
	       type != TES_EVENT_OFFER;
}

static int32_t check_request(const struct tes_core *core,
			     const struct tes_event *ev,
			     const struct tes_session *s)
{
	if (!s)
		return CODE_NO_CLIENT;
	if (ev->type == TES_EVENT_OFFER && !ev->n)
		return CODE_OK; /* only to say that it was the last */
	if (is_batch(ev->type) &&
	    (!ev->keys || !ev->n || ev->n > TES_CORE_BATCH_MAX))
		return CODE_ARGUMENT;
	if (names_keys(ev->type) && !s->tenant->registered)
		return CODE_NO_TENANT;
	if (ev->type == TES_EVENT_PUT_START)
		return tes_core_how_valid(core, ev->u.put_start.how);
	return CODE_OK;
}

static void call_handler(struct tes_core *core, const struct tes_event *ev,
			 struct tes_session *s, struct tes_action *reply,
			 struct tes_starts *starts)
{
	switch (ev->type) {
	case TES_EVENT_MOUNT:
		tes_core_on_mount(core, ev, s, reply);
		break;
	case TES_EVENT_UNMOUNT:
		tes_core_on_unmount(core, ev, s, reply);
		break;
	case TES_EVENT_PUT_START:
		tes_core_on_put_start(core, ev, s, reply, starts);
		break;
	case TES_EVENT_PUT_END:
		tes_core_on_put_end(core, ev, s, reply);
		break;
	case TES_EVENT_LOOKUP:
		tes_core_on_lookup(core, ev, s, reply);
		break;
	case TES_EVENT_EXIST:
		tes_core_on_exist(core, ev, s, reply);
		break;
	case TES_EVENT_SIZE:
		tes_core_on_size(core, ev, s, reply);
		break;
	case TES_EVENT_REPLICA_CLEAR:
		tes_core_on_replica_clear(core, ev, s, reply);
		break;
	case TES_EVENT_REMOVE:
		tes_core_on_remove(core, ev, s, reply);
		break;
	case TES_EVENT_OFFER:
		tes_core_on_offer(core, ev, s, reply);
		break;
	case TES_EVENT_TASK_CREATE:
		tes_core_on_task_create(core, ev, s, reply);
		break;
	case TES_EVENT_TASK_QUERY:
		tes_core_on_task_query(core, ev, s, reply);
		break;
	default:
		assert(!"an event without reply");
	}
}

/* Whether its reply may have to wait for burials. */
static bool may_wait(enum tes_event_type type)
{
	return type == TES_EVENT_PUT_END || type == TES_EVENT_REMOVE ||
	       type == TES_EVENT_REPLICA_CLEAR;
}

static int handle_request(struct tes_core *core, const struct tes_event *ev,
			  struct tes_session *s, struct tes_actions *out)
{
	int32_t code = check_request(core, ev, s);
	struct tes_starts starts;
	struct tes_action *reply;

	if (!code && ev->type == TES_EVENT_PUT_START &&
	    tes_core_starts_init(core, &starts, ev, s, out->arena) < 0)
		return -ENOMEM;
	if (!code && ev->type == TES_EVENT_PUT_END) {
		core->committed = tei_arena_alloc(
			out->arena, ev->n * sizeof(struct tes_object *));
		if (!core->committed)
			return -ENOMEM;
	}
	reply = tes_core_reply(core, ev, code, out);
	if (!reply)
		return -ENOMEM;
	if (s)
		tes_core_session_seen(core, s);
	if (code)
		return 0;
	if (may_wait(ev->type))
		core->waiting = ev;
	call_handler(core, ev, s, reply, &starts);
	tes_core_waiter_end(core, out);
	return 0;
}

static int handle_event(struct tes_core *core, const struct tes_event *ev,
			struct tes_actions *out)
{
	switch (ev->type) {
	case TES_EVENT_TICK:
		handle_tick(core, out);
		return 0;
	case TES_EVENT_MAKE_ROOM:
		tes_core_make_room(core, ev->n);
		return 0;
	case TES_EVENT_JOIN:
		return tes_core_on_join(core, ev, out);
	case TES_EVENT_REMOVE_ALL:
		return tes_core_on_remove_all(core, ev, out);
	case TES_EVENT_DRAIN_CREATE:
	case TES_EVENT_DRAIN_QUERY:
	case TES_EVENT_DRAIN_CANCEL:
	case TES_EVENT_DRAIN_LEAVE:
		return tes_core_on_drain(core, ev, out);
	case TES_EVENT_HEARTBEAT:
	case TES_EVENT_LEAVE:
	case TES_EVENT_RELEASE:
	case TES_EVENT_FENCED:
	case TES_EVENT_REPORT:
	case TES_EVENT_PROBED:
		handle_note(core, ev, tes_core_session_find(core, ev->session));
		return 0;
	case TES_EVENT_TASK_DONE:
		/* Without room for it its owner is told all again. */
		core->committed = tei_arena_alloc(out->arena,
						  sizeof(struct tes_object *));
		handle_note(core, ev, tes_core_session_find(core, ev->session));
		return 0;
	default:
		return handle_request(core, ev,
				      tes_core_session_find(core, ev->session),
				      out);
	}
}

int tes_core_step(struct tes_core *core, const struct tes_event *ev,
		  uint64_t now_ms, struct tes_actions *out)
{
	int rc;

	advance_clock(core, now_ms);
	rc = handle_event(core, ev, out);
	tes_core_tenants_share(core);
	if (rc < 0)
		return rc;
	tes_core_flush(core, out);
	return 0;
}

bool tes_core_busy(const struct tes_core *core)
{
	return !tei_list_empty(&core->dropping) ||
	       !tei_list_empty(&core->gone) || tes_core_walking(core) ||
	       !tei_list_empty(&core->unsent) ||
	       !tei_list_empty(&core->syncs) || tes_core_evict_busy(core) ||
	       tes_core_drains_busy(core);
}

void tes_core_figures(const struct tes_core *core, struct tes_core_figures *out)
{
	*out = core->figures;
	out->segments = core->n_mounts;
	out->tasks_pending =
		core->tasks.n_pending[0] + core->tasks.n_pending[1];
	out->tasks_processing = core->tasks.n_processing;
	out->drains_active = core->drains.n_active;
	out->metadata_bytes =
		sizeof(*core) + core->heap_bytes +
		core->n_extras * sizeof(*core->pins.node) +
		tei_slab_bytes(&core->extents) +
		tei_hash_bytes(&core->objects) +
		tei_hash_bytes(&core->sessions) +
		tei_hash_bytes(&core->clients) + tei_hash_bytes(&core->groups) +
		tei_hash_bytes(&core->lives) +
		tei_hash_bytes(&core->tasks.by_number) +
		tei_hash_bytes(&core->tasks.by_object) +
		tes_core_heat_bytes(core) + tes_core_tenants_bytes(core) +
		tes_core_recall_bytes(core);
}
