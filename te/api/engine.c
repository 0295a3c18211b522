/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - creating and destroying an engine */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/incarnation.h"
#include "base/log.h"
#include "base/mem.h"
#include "te/api/api.h"
#include "te/api/stream.h"
#include "te/control/control.h"
#include "te/control/peer.h"
#include "te/core/engine.h"
#include "te/device/device.h"
#include "te/directory/directory.h"
#include "te/directory/publish.h"
#include "te/notify/inbox.h"
#include "te/region/group.h"
#include "te/region/prefault.h"
#include "te/region/region.h"
#include "te/transfer/link.h"
#include "te/transfer/peer.h"
#include "te/transfer/request.h"
#include "te/transfer/staging.h"
#include "te/transfer/transfer.h"
#include "te/worker/topology.h"
#include "te/worker/worker.h"

#define DEFAULT_NAME "127.0.0.1"
#define CANCEL_MS    1000u /* of the 2 s that destroying may take */
#define LEAVE_MS     1000u /* from its beginning, for the directory */

_Static_assert(TE_ENGINE_SECRET_LEN == TEI_LIFE_SECRET_LEN &&
		       TE_INCARNATION_LEN == TEI_INCARNATION_LEN,
	       "te.h says again what incarnation.h says");

/* An engine and the state of its rooms, in one allocation. */
struct whole {
	struct te_engine engine;
	struct tei_worker workers[TEI_WORKERS_MAX];
	struct tei_regions regions;
	struct tei_transfer transfer;
	struct tei_control control;
	struct tei_inbox inbox;
	struct tei_gpus gpus;
};

/* ---- how rooms call those above them ---- */

static void rail_down(struct tei_rail_box *box)
{
	tei_reroute_rail_lost(box);
	tei_transfer_rail_lost(box, -ENETDOWN);
}

static void rail_up(struct tei_rail_box *box)
{
	tei_transfer_rail_up(box);
	tei_deferred_rail_up(box->rail.core->engine);
}

static void rail_renewed(struct te_engine *engine)
{
	tei_regions_renew(engine);
	tei_advertise_again(engine);
}

static const struct tei_worker_ops worker_ops = {
	.rail_init = tei_transfer_rail_init,
	.rail_fini = tei_transfer_rail_fini,
	.pump = tei_transfer_pump,
	.rail_has_room = tei_transfer_rail_has_room,
	.rail_died = tei_transfer_rail_lost,
	.rail_down = rail_down,
	.rail_up = rail_up,
	.rail_renewed = rail_renewed,
	.copies = tei_staging_turn,
	.close_broken = tei_links_close_broken,
	.publish = tei_batch_publish_dirty,
};

static const struct tei_regions_ops regions_ops = {
	.push = tei_control_push_regions,
	.forget_group = tei_inbound_peers_forget_group,
	.drop_pinning = tei_inbound_peers_drop_pinning,
	.leave_stage = tei_gpu_windows_leave,
};

static struct te_engine *make_engine(void)
{
	struct whole *whole = tei_calloc(1, sizeof(*whole));

	if (!whole)
		return NULL;
	whole->engine.worker = whole->workers;
	whole->engine.n_workers = 1;
	whole->engine.regions = &whole->regions;
	whole->engine.transfer = &whole->transfer;
	whole->engine.control = &whole->control;
	whole->engine.inbox = &whole->inbox;
	whole->engine.gpus = &whole->gpus;
	whole->workers[0].ops = &worker_ops;
	whole->workers[0].backends = tei_backends;
	whole->regions.ops = &regions_ops;
	whole->transfer.messages = &tei_control_messages;
	return &whole->engine;
}

static void init(struct te_engine *engine)
{
	engine->core.engine = engine;
	engine->forks = tei_forks();
	tei_mutex_init(&engine->calling);
	tei_mutex_init(&engine->mu);
	tei_list_init(&engine->peers);
	tei_list_init(&engine->batches);
	tei_list_init(&engine->memories);
	tei_list_init(&engine->transfer->stages);
	tei_list_init(&engine->transfer->starving);
	tei_list_init(&engine->transfer->own_ends);
	tei_list_init(&engine->transfer->windows);
	tei_handles_init(&engine->segments);
	tei_regions_init(engine->regions, engine);
	tei_inbox_init(engine->inbox, engine);
	tei_gpus_init(engine->gpus);
	tei_control_init(engine);
}

static void fini(struct te_engine *engine)
{
	tei_control_fini(engine);
	tei_regions_fini(engine->regions);
	tei_segments_free(engine);
	tei_gpus_fini(engine->gpus);
	tei_inbox_fini(engine->inbox);
	tei_mutex_fini(&engine->mu);
	tei_mutex_fini(&engine->calling);
}

static int open_control(struct te_engine *engine, uint16_t port)
{
	int rc;

	rc = tei_loop_create("te-control", &engine->loop);
	if (rc)
		return rc;
	rc = tei_control_listen(engine, port);
	if (rc) {
		tei_loop_stop(engine->loop);
		tei_loop_destroy(engine->loop);
	}
	return rc;
}

static void close_server(void *arg)
{
	tei_control_close(arg);
}

static int start_engine(struct te_engine *engine,
			const struct te_config *config, uint16_t port)
{
	int rc;

	rc = tei_inbound_peers_init(engine);
	if (rc)
		return rc;
	rc = tei_workers_open(engine, config);
	if (rc)
		goto fini_guests;
	rc = tei_deferred_start(engine);
	if (rc)
		goto close_worker;
	rc = open_control(engine, port);
	if (rc)
		goto stop_late;
	rc = tei_workers_start(engine);
	if (rc)
		goto close_control;
	return 0;

close_control:
	tei_loop_do(engine->loop, close_server, engine);
	tei_loop_stop(engine->loop);
	tei_loop_destroy(engine->loop);
	tei_deferred_stop(engine);
	tei_inbound_peers_fini(engine);
	tei_workers_close(engine);
	return rc;
stop_late:
	tei_deferred_stop(engine);
close_worker:
	tei_workers_close(engine);
fini_guests:
	tei_inbound_peers_fini(engine);
	assert(rc < 0);
	return rc;
}

/* Opens the directory; without a port a name that is no address is its own. */
static int open_directory(struct te_engine *engine, const char *name)
{
	struct tei_address number;
	int rc = tei_directory_open(&engine->config, &engine->directory);

	if (!rc)
		engine->is_bare = engine->directory && name &&
				  !strchr(name, ':') &&
				  tei_resolve_numeric(engine->host, 0, &number);
	return rc;
}

/* Publishes the engine; one that cannot goes on without a directory. */
static void publish_engine(struct te_engine *engine)
{
	struct tei_publisher *publisher;
	struct tei_entry self;
	int rc;

	if (!engine->directory)
		return;
	tei_advertise(engine, &self);
	rc = tei_publisher_start(engine->directory, engine->name, &self,
				 &publisher);
	if (rc) {
		LOG_WARN("engine %s: not published: %s", engine->name,
			 te_strerror(rc));
		return;
	}
	tei_mutex_lock(&engine->mu);
	engine->publisher = publisher;
	tei_mutex_unlock(&engine->mu);
	tei_advertise_again(engine); /* a port may just have come up */
}

/* Draws the secrets of this life, and makes its incarnation. */
static int draw_secrets(struct te_engine *engine)
{
	int rc = tei_random(engine->secret, TE_ENGINE_SECRET_LEN);

	if (!rc)
		rc = tei_incarnation(engine->secret, engine->incarnation);
	if (!rc)
		rc = tei_random(engine->control->secret, TEI_PEER_SECRET_LEN);
	return rc;
}

/* Takes the settings, and opens the directory that they name. */
static int configure(struct te_engine *engine, const struct te_config *config,
		     const char *name)
{
	int rc = tei_config_make(config, engine->worker->backends,
				 &engine->config);

	if (rc)
		return rc;
	rc = tei_config_check_nvlink(&engine->config);
	if (!rc)
		rc = tei_config_check_copies(&engine->config, &engine->copier);
	if (!rc)
		rc = tei_peer_rule_init(&engine->rule, engine->config.insecure,
					engine->config.allow_uids);
	if (!rc)
		rc = open_directory(engine, name);
	if (rc)
		tei_config_fini(&engine->config);
	return rc;
}

int te_engine_create(const struct te_config *config, const char *name,
		     struct te_engine **out)
{
	struct te_engine *engine;
	uint16_t port;
	int rc;

	if (!out)
		return -EINVAL;
	tei_watch_forks();
	engine = make_engine();
	if (!engine)
		return -ENOMEM;
	init(engine);
	rc = tei_name_split(name ? name : DEFAULT_NAME, engine->host, &port);
	if (rc) {
		LOG_ERROR("engine: \"%s\" is no name host[:port]", name);
		goto fini;
	}
	rc = draw_secrets(engine);
	if (!rc)
		rc = configure(engine, config, name);
	if (rc)
		goto fini;
	tei_topology_load(engine);
	rc = start_engine(engine, config, port);
	if (rc && tei_is_shortage(rc)) /* else the callee has logged it */
		LOG_ERROR("engine %s: %s", engine->host, te_strerror(rc));
	if (rc)
		goto fini_topology;
	publish_engine(engine);
	LOG_INFO("engine %s: up, %u rails", engine->name,
		 engine->worker->n_rails);
	*out = engine;
	return 0;

fini_topology:
	te_topo_destroy(engine->topo);
	tei_directory_put(engine->directory);
	tei_config_fini(&engine->config);
fini:
	fini(engine);
	tei_free(engine);
	assert(rc < 0);
	return rc;
}

/* ---- the end ---- */

static bool all_ended(void *arg)
{
	struct te_engine *engine = arg;
	bool all = true;

	tei_mutex_lock(&engine->mu);
	tei_list_for_each (node, &engine->batches) {
		struct te_batch *batch =
			tei_list_entry(node, struct te_batch, link);

		if (atomic_load(&batch->n_done) !=
		    atomic_load(&batch->n_submitted))
			all = false;
	}
	tei_mutex_unlock(&engine->mu);
	return all;
}

/* Callbacks may still be trying to submit. */
static void cancel_all(struct te_engine *engine)
{
	uint64_t until = tei_now_ns() + CANCEL_MS * TEI_NS_PER_MS;

	tei_mutex_lock(&engine->mu);
	engine->closing = true;
	tei_list_for_each (node, &engine->batches) {
		struct te_batch *batch =
			tei_list_entry(node, struct te_batch, link);

		atomic_store(&batch->closing, true);
		tei_batch_post_cancel_all(batch);
	}
	tei_mutex_unlock(&engine->mu);
	while (!all_ended(engine) && tei_now_ns() < until) {
		/* Several have threads, and each ends batches of its own. */
		if (engine->n_workers > 1)
			(void)poll(NULL, 0, 1);
		else
			tei_worker_drive(engine->worker, all_ended, engine,
					 until);
	}
}

static void close_all(void *arg)
{
	struct te_engine *engine = arg;

	engine->control->closed = true;
	tei_control_close(engine);
	tei_list_for_each (node, &engine->peers) {
		tei_peer_close(tei_list_entry(node, struct tei_peer, link));
	}
}

/* Frees all when both threads have ended: everything is this thread's. */
static void free_all(struct te_engine *engine)
{
	struct tei_list *node;

	tei_workers_settle(engine); /* what control has answered last */
	tei_list_for_each (at, &engine->batches) {
		/* A copy that a device does not end must not hold it up. */
		tei_gated_end(tei_list_entry(at, struct te_batch, link));
	}
	tei_list_for_each (at, &engine->peers) {
		for (uint32_t i = 0; i < engine->n_workers; i++)
			tei_peer_end_links(
				&tei_list_entry(at, struct tei_peer, link)
					 ->works[i]);
	}
	tei_inbound_peers_break_links(engine);
	for (uint32_t i = 0; i < engine->n_workers; i++)
		tei_drive_until_closed(&engine->worker[i]);
	tei_workers_settle(engine);
	tei_inbound_peers_fini(engine);
	while ((node = tei_list_pop(&engine->batches)))
		tei_batch_free(tei_list_entry(node, struct te_batch, link));
	while ((node = tei_list_pop(&engine->peers)))
		tei_peer_free(tei_list_entry(node, struct tei_peer, link));
	tei_regions_remove_all(engine);
	tei_workers_close(engine);
	tei_memories_free(engine);
}

void te_engine_destroy(struct te_engine *engine)
{
	uint64_t until;

	if (!engine || !tei_engine_alive(engine))
		return;
	if (tei_in_callback()) {
		LOG_ERROR("engine %s: destroyed by a callback: not done",
			  engine->name);
		return;
	}
	until = tei_now_ns() + LEAVE_MS * TEI_NS_PER_MS;
	tei_publisher_leave(engine->publisher);
	cancel_all(engine);
	tei_loop_do(engine->loop, close_all, engine);
	tei_loop_stop(engine->loop);
	tei_workers_stop(engine);
	tei_deferred_stop(engine);
	tei_prefault_stop(engine);
	free_all(engine);
	tei_loop_destroy(engine->loop);
	tei_publisher_stop(engine->publisher, until);
	tei_directory_put(engine->directory);
	te_topo_destroy(engine->topo);
	tei_config_fini(&engine->config);
	fini(engine);
	tei_free(engine);
}

int te_engine_drive(struct te_engine *engine, uint32_t timeout_ms)
{
	uint64_t until = UINT64_MAX;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (timeout_ms != UINT32_MAX)
		until = tei_now_ns() + timeout_ms * TEI_NS_PER_MS;
	return tei_worker_turn(engine->worker, until);
}

const char *te_engine_name(const struct te_engine *engine)
{
	return engine->name;
}

void te_engine_incarnation(const struct te_engine *engine,
			   uint8_t out[TE_INCARNATION_LEN])
{
	memcpy(out, engine->incarnation, TE_INCARNATION_LEN);
}

void te_engine_secret(const struct te_engine *engine,
		      uint8_t out[TE_ENGINE_SECRET_LEN])
{
	memcpy(out, engine->secret, TE_ENGINE_SECRET_LEN);
}
