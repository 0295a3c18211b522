/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.c - life of the core, one step, and what can be asked about it
 *
 * The core's own clock stops while this master is stalled (stopped, swapped
 * out, on a host that slept): clients that could not be heard are not
 * silent, and nothing that could not be confirmed is late.
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
#include "store/core/remove.h"
#include "store/core/replica.h"
#include "store/core/reply.h"
#include "store/core/session.h"
#include "store/core/state.h"
#include "store/core/step.h"
#include "store/core/task.h"
#include "store/core/tenant.h"

/* Gap between steps that shows that this master was stalled itself; less when
 * suspect_ms is short. */
#define STALL_MS     1000
#define STALL_MIN_MS 250
/* Gap between steps, whose ticks come every 100 ms, in which probes were not
 * looked at. */
#define GAP_MS           200
#define STEP_OBJECTS     1024
#define STEP_OBJECTS_MAX (1u << 20)

static bool is_ratio(double x)
{
	return x >= 0 && x <= 1;
}

static bool is_valid(const struct tes_core_config *c)
{
	if (c->hot && (!c->hot_window_ms || !c->hot_replicas))
		return false;
	return c->lease_ttl_ms && c->client_ttl_ms && c->suspect_ms &&
	       c->put_discard_ms && c->fence_timeout_ms &&
	       is_ratio(c->high_watermark) && is_ratio(c->eviction_ratio);
}

static void init_lists(struct tes_core *core)
{
	tei_list_init(&core->back);
	tei_list_init(&core->parked);
	tes_core_forget_no_room(core);
	tei_list_init(&core->leased);
	tei_heap_init(&core->pins);
	tei_list_init(&core->building);
	tei_list_init(&core->live);
	tei_list_init(&core->silent);
	tei_list_init(&core->left);
	tei_list_init(&core->idle);
	tei_list_init(&core->gone);
	tei_list_init(&core->closes);
	tei_list_init(&core->changed);
	tei_list_init(&core->unprobed);
	tei_list_init(&core->probed);
	tei_list_init(&core->fences);
	tei_list_init(&core->unsent);
	tei_list_init(&core->burials);
	tei_list_init(&core->notices);
	tei_list_init(&core->resyncs);
	tei_list_init(&core->answers);
	tei_list_init(&core->dropping);
	tei_list_init(&core->graces);
	tei_list_init(&core->walks);
	tei_list_init(&core->drains.active);
	tei_list_init(&core->drains.ended);
	tei_list_init(&core->drains.answers);
}

static void take_config(struct tes_core *core, const struct tes_core_config *c)
{
	core->config = *c;
	if (!core->config.step_objects)
		core->config.step_objects = STEP_OBJECTS;
	if (core->config.step_objects > STEP_OBJECTS_MAX)
		core->config.step_objects = STEP_OBJECTS_MAX;
	core->random = c->seed;
}

#define TABLES 6

/* Lists the tables of the core itself; those of its parts are the parts'. */
static void list_tables(struct tes_core *core, struct tei_hash *out[TABLES])
{
	out[0] = &core->objects;
	out[1] = &core->sessions;
	out[2] = &core->clients;
	out[3] = &core->groups;
	out[4] = &core->incarnations;
	out[5] = &core->names;
}

static int init_tables(struct tes_core *core)
{
	struct tei_hash *tables[TABLES];

	list_tables(core, tables);
	for (int i = 0; i < TABLES; i++) {
		if (tei_hash_init(tables[i]) == 0)
			continue;
		while (i--)
			tei_hash_fini(tables[i]);
		return -ENOMEM;
	}
	return 0;
}

static void fini_tables(struct tes_core *core)
{
	struct tei_hash *tables[TABLES];

	list_tables(core, tables);
	for (int i = 0; i < TABLES; i++)
		tei_hash_fini(tables[i]);
}

int tes_core_create(const struct tes_core_config *config, struct tes_core **out)
{
	struct tes_core *core;

	if (!is_valid(config))
		return -EINVAL;
	core = tei_calloc(1, sizeof(*core));
	if (!core)
		return -ENOMEM;
	take_config(core, config);
	init_lists(core);
	tei_slab_init(&core->extents, sizeof(struct tes_extent), 1024);
	tes_core_blocks_init(core);
	if (init_tables(core) < 0)
		goto free_core;
	if (tes_core_tasks_init(core) < 0)
		goto fini_tables;
	if (tes_core_epochs_init(core) < 0)
		goto fini_tasks;
	if (tes_core_tenants_init(core) < 0)
		goto fini_epochs;
	if (tes_core_hot_init(core) < 0)
		goto free_tenants;
	*out = core;
	return 0;

free_tenants:
	tes_core_tenants_free(core);
fini_epochs:
	tes_core_epochs_fini(core);
fini_tasks:
	tes_core_tasks_fini(core);
fini_tables:
	fini_tables(core);
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
 * Frees all. Nothing is taken out of anything: lists and extents go as a whole,
 * and each object costs one free().
 */
void tes_core_destroy(struct tes_core *core)
{
	struct tei_list *lists[5], *link;
	size_t cursor = 0;

	if (!core)
		return;
	tes_core_hot_fini(core);
	tes_core_drains_free(core);
	tes_core_tasks_fini(core);
	lists[0] = &core->live;
	lists[1] = &core->silent;
	lists[2] = &core->left;
	lists[3] = &core->idle;
	lists[4] = &core->gone;
	while (tei_hash_walk(&core->objects, &cursor, SIZE_MAX, free_object,
			     core))
		;
	for (size_t i = 0; i < 5; i++)
		while ((link = tei_list_pop(lists[i])))
			free_session(
				core,
				tei_list_entry(link, struct tes_session, age));
	tei_heap_fini(&core->pins);
	fini_tables(core);
	tei_slab_fini(&core->extents);
	tes_core_walks_free(core);
	tes_core_tenants_free(core);
	tes_core_answers_free(core);
	tes_core_epochs_fini(core);
	tes_core_blocks_fini(core);
	tei_free(core->mounts);
	tei_free(core);
}

/* Gap between steps that no healthy master has: half of the least patience, but
 * more than two ticks. */
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
		core->last_ms = core->started_ms = now_ms;
	if (now_ms < core->last_ms)
		now_ms = core->last_ms;
	passed = now_ms - core->last_ms;
	if (passed > stall_ms(core))
		core->stalled_ms += passed;
	core->last_ms = now_ms;
	core->now_ms = now_ms - core->stalled_ms;
	if (passed > GAP_MS)
		core->gap_ms = core->now_ms;
}

static int handle_tick(struct tes_step *step)
{
	struct tes_core *core = step->core;
	unsigned int drop = core->config.step_objects, settle = drop,
		     discard = drop, evict = drop, walk = drop, task = drop,
		     drain = drop;

	tes_core_graces_tick(core);
	tes_core_fences_tick(core, &discard);
	tes_core_mounts_drop_some(core, &drop);
	tes_core_sessions_tick(core, &settle);
	tes_core_evict_tick(core, &evict);
	tes_core_walks_tick(core, &walk);
	tes_core_drains_tick(core, &drain);
	tes_core_tasks_tick(core, &task);
	tes_core_hot_tick(core);
	tes_core_tombstones_tick(core);
	tes_core_resync_tick(core, step->out);
	tes_core_tenants_tick(core);
	return 0;
}

struct event_row {
	/* Runs before the reply: refuses by step->code, and takes from the
	 * arena what the handler needs. Or NULL. */
	int (*prepare)(struct tes_step *step);
	int (*handle)(struct tes_step *step);
	unsigned int flags; /* enum tes_step_flags */
};

#define REQUEST (TES_STEP_ANSWERED | TES_STEP_SIGN_OF_LIFE)
#define NOTE    (TES_STEP_NOTE | TES_STEP_SIGN_OF_LIFE)
#define BATCH   (REQUEST | TES_STEP_KEYS | TES_STEP_TENANT | TES_STEP_STATUS)

/*
 * An end of a put names keys that the session has begun with: it may end them
 * whatever became of its tenant. An owner may offer what other tenants have.
 */
static const struct event_row rows[] = {
	/* Sessions. */
	[TES_EVENT_JOIN] = {NULL, tes_core_on_join, 0},
	[TES_EVENT_HEARTBEAT] = {NULL, tes_core_on_heartbeat, NOTE},
	[TES_EVENT_LEAVE] = {NULL, tes_core_on_leave, TES_STEP_NOTE},
	[TES_EVENT_REPORT] = {NULL, tes_core_on_report, NOTE},
	[TES_EVENT_PROBED] = {NULL, tes_core_on_probed, NOTE},
	/* Memory that clients lend. */
	[TES_EVENT_MOUNT] = {NULL, tes_core_on_mount, REQUEST},
	[TES_EVENT_UNMOUNT] = {NULL, tes_core_on_unmount, REQUEST},
	[TES_EVENT_OFFER] = {NULL, tes_core_on_offer,
			     REQUEST | TES_STEP_KEYS | TES_STEP_MAY_BE_EMPTY |
				     TES_STEP_STATUS},
	[TES_EVENT_FENCED] = {NULL, tes_core_on_fenced, NOTE},
	/* Objects. */
	[TES_EVENT_PUT_START] = {tes_core_prepare_put_start,
				 tes_core_on_put_start,
				 BATCH | TES_STEP_PLACES},
	[TES_EVENT_PUT_END] = {tes_core_prepare_put_end, tes_core_on_put_end,
			       REQUEST | TES_STEP_KEYS | TES_STEP_STATUS},
	[TES_EVENT_LOOKUP] = {NULL, tes_core_on_lookup,
			      BATCH | TES_STEP_PLACES | TES_STEP_SIZES |
				      TES_STEP_CHECKSUMS},
	[TES_EVENT_RELEASE] = {NULL, tes_core_on_release, NOTE},
	[TES_EVENT_EXIST] = {NULL, tes_core_on_exist, BATCH},
	[TES_EVENT_SIZE] = {NULL, tes_core_on_size, BATCH | TES_STEP_SIZES},
	[TES_EVENT_REMOVE] = {NULL, tes_core_on_remove, BATCH},
	[TES_EVENT_REPLICA_CLEAR] = {NULL, tes_core_on_replica_clear, BATCH},
	[TES_EVENT_REMOVE_ALL] = {NULL, tes_core_on_remove_all, 0},
	/* Tasks and drains. */
	[TES_EVENT_TASK_CREATE] = {NULL, tes_core_on_task_create,
				   REQUEST | TES_STEP_KEYS | TES_STEP_TENANT |
					   TES_STEP_TASK},
	[TES_EVENT_TASK_QUERY] = {NULL, tes_core_on_task_query,
				  REQUEST | TES_STEP_TASK},
	[TES_EVENT_TASK_DONE] = {tes_core_prepare_task_done,
				 tes_core_on_task_done, NOTE},
	[TES_EVENT_DRAIN_CREATE] = {NULL, tes_core_on_drain_create,
				    TES_STEP_ANSWERED | TES_STEP_ANYBODY |
					    TES_STEP_DRAIN},
	[TES_EVENT_DRAIN_QUERY] = {NULL, tes_core_on_drain_query,
				   TES_STEP_ANSWERED | TES_STEP_ANYBODY |
					   TES_STEP_DRAIN},
	[TES_EVENT_DRAIN_CANCEL] = {NULL, tes_core_on_drain_cancel,
				    TES_STEP_ANSWERED | TES_STEP_ANYBODY |
					    TES_STEP_DRAIN},
	[TES_EVENT_DRAIN_LEAVE] = {NULL, tes_core_on_drain_leave, 0},
	/* Time. */
	[TES_EVENT_MAKE_ROOM] = {NULL, tes_core_on_make_room, 0},
	[TES_EVENT_TICK] = {NULL, handle_tick, 0},
};

/* Why the request is refused; CODE_OK: it is not. */
static int32_t check_request(const struct tes_step *step)
{
	const struct tes_event *ev = step->ev;

	if (step->flags & TES_STEP_ANYBODY)
		return CODE_OK;
	if (!step->session)
		return CODE_NO_CLIENT;
	if (!ev->n && (step->flags & TES_STEP_MAY_BE_EMPTY))
		return CODE_OK;
	if ((step->flags & TES_STEP_KEYS) &&
	    (!ev->keys || !ev->n || ev->n > TES_CORE_BATCH_MAX))
		return CODE_ARGUMENT;
	if ((step->flags & TES_STEP_TENANT) &&
	    !step->session->tenant->registered)
		return CODE_NO_TENANT;
	return CODE_OK;
}

/* ---- batches in parts ---- */

static void resume_part(struct tes_step *step)
{
	const struct tes_core_part *part = step->ev->part;
	struct tes_action *reply = &step->out->at[0];

	assert(step->out->n == 1);
	step->reply = reply;
	step->room = (struct tes_reply_room){
		part->entries, part->names,
		(struct tes_core_segment_name *)(uintptr_t)
			reply->u.reply.segments};
	/* Sessions have been named by others' replies since. */
	step->core->reply_serial++;
	step->waiter = part->waiter;
}

static void release_epoch(struct tes_core *core, struct tes_core_part *part)
{
	if (part->epoch)
		tes_core_epoch_release(core, part->epoch);
	part->epoch = 0;
}

/* True: more parts follow. */
static bool suspend_part(struct tes_step *step)
{
	struct tes_core_part *part = step->ev->part;

	if (!part)
		return false;
	part->begun = true;
	part->waiter = NULL;
	if (part->to == step->ev->n) {
		release_epoch(step->core, part);
		return false;
	}
	part->entries = step->room.entries;
	part->names = step->room.names;
	part->generation = step->generation;
	part->waiter = step->waiter;
	step->waiter = NULL;
	return true;
}

void tes_core_part_abort(struct tes_core *core, struct tes_core_part *part)
{
	struct tes_waiter *w = part->waiter;

	release_epoch(core, part);
	part->waiter = NULL;
	if (w && w->left)
		w->armed = true; /* its answer will find nobody */
	else
		tei_free(w);
}

static int handle_part(struct tes_step *step, const struct event_row *row)
{
	int rc = row->prepare ? row->prepare(step) : 0;

	if (rc < 0)
		return rc;
	resume_part(step);
	if (!step->session) {
		step->reply->u.reply.code = CODE_NO_CLIENT;
		tes_core_part_abort(step->core, step->ev->part);
		return 0;
	}
	if (step->flags & TES_STEP_SIGN_OF_LIFE)
		tes_core_session_seen(step->core, step->session);
	rc = row->handle(step);
	if (!suspend_part(step))
		tes_core_waiter_end(step);
	return rc;
}

static int handle_request(struct tes_step *step, const struct event_row *row)
{
	int rc = 0;

	if (step->ev->part && step->ev->part->begun)
		return handle_part(step, row);
	step->code = check_request(step);
	if (!step->code && row->prepare)
		rc = row->prepare(step);
	if (rc == 0)
		rc = tes_core_reply(step);
	if (rc < 0)
		return rc;
	if (step->session && (step->flags & TES_STEP_SIGN_OF_LIFE))
		tes_core_session_seen(step->core, step->session);
	if (step->code)
		return 0;
	rc = row->handle(step);
	if (!suspend_part(step))
		tes_core_waiter_end(step);
	return rc;
}

static int handle_note(struct tes_step *step, const struct event_row *row)
{
	int rc = row->prepare ? row->prepare(step) : 0;

	if (rc < 0 || !step->session)
		return rc;
	if (step->flags & TES_STEP_SIGN_OF_LIFE)
		tes_core_session_seen(step->core, step->session);
	return row->handle(step);
}

/* Append everything that is due, as far as the arena has room. */
static void flush(struct tes_step *step)
{
	struct tes_core *core = step->core;
	struct tes_actions *out = step->out;

	tes_core_announce(step);
	tes_core_fences_flush(core, out);
	tes_core_probes_flush(core, out);
	tes_core_tasks_flush(core, out);
	tes_core_walks_flush(core, out);
	tes_core_drains_flush(core, out);
	tes_core_answers_flush(core, out);
	tes_core_sessions_flush(core, out);
}

int tes_core_step(struct tes_core *core, const struct tes_event *ev,
		  uint64_t now_ms, struct tes_actions *out)
{
	const struct event_row *row = &rows[ev->type];
	struct tes_step step = {
		.core = core,
		.ev = ev,
		.out = out,
		.flags = row->flags,
		.from = ev->part ? ev->part->from : 0,
		.to = ev->part ? ev->part->to : ev->n,
		.generation = ev->part && ev->part->begun ? ev->part->generation
							  : core->generation,
	};
	int rc;

	advance_clock(core, now_ms);
	if (ev->session)
		step.session = tes_core_session_find(core, ev->session);
	if (row->flags & TES_STEP_ANSWERED)
		rc = handle_request(&step, row);
	else if (row->flags & TES_STEP_NOTE)
		rc = handle_note(&step, row);
	else
		rc = row->handle(&step);
	tes_core_tenants_share(core);
	if (rc < 0)
		return rc;
	flush(&step);
	return 0;
}

bool tes_core_busy(const struct tes_core *core)
{
	return !tei_list_empty(&core->dropping) ||
	       !tei_list_empty(&core->gone) || tes_core_walking(core) ||
	       !tei_list_empty(&core->unsent) ||
	       !tei_list_empty(&core->resyncs) || tes_core_evict_busy(core) ||
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
	out->metadata_bytes = sizeof(*core) + core->heap_bytes +
			      core->n_extras * sizeof(*core->pins.node) +
			      tei_slab_bytes(&core->extents) +
			      tei_hash_bytes(&core->objects) +
			      tei_hash_bytes(&core->sessions) +
			      tei_hash_bytes(&core->clients) +
			      tei_hash_bytes(&core->groups) +
			      tei_hash_bytes(&core->incarnations) +
			      tei_hash_bytes(&core->tasks.by_number) +
			      tei_hash_bytes(&core->tasks.by_object) +
			      tes_core_tenants_bytes(core);
}
