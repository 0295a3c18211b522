/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.c - the way to the master: connecting, greeting, losing, coming back
 *
 * Whatever fails ends in tes_master_link_lose(), which closes nothing itself:
 * it may be called from inside a callback of what has to be closed. A closure
 * does it a moment later.
 */
#include "store/client/link.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/lookup.h"
#include "base/mem.h"
#include "store/client/client.h"
#include "store/proto/protocol.h"
#include "store/proto/store.pb-c.h"

/* ---- heartbeats to the master, and its requests to owners ---- */

#define STEP_MS 2000 /* connecting; a hello; a heartbeat; a mount */

/* Say hello on either connection. -ENOMEM, ... */
static int send_hello(struct tes_master_link *link, struct tei_frame_conn *conn,
		      struct tei_frame_call *call, bool heartbeat)
{
	struct te_store *store = link->store;
	Store__Hello msg = STORE__HELLO__INIT;
	char name[TEI_NAME_LEN_MAX + 1];

	(void)strncpy(name, te_engine_name(store->engine), sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	msg.version = TES_STORE_VERSION;
	msg.features = TES_STORE_BURIES | TES_STORE_EXECUTES | TES_STORE_PROBES;
	msg.client_secret.data = store->client_secret;
	msg.client_secret.len = sizeof(store->client_secret);
	msg.engine = name;
	msg.engine_secret.data = store->engine_secret;
	msg.engine_secret.len = sizeof(store->engine_secret);
	msg.heartbeat = heartbeat;
	msg.epoch = link->epoch;
	msg.epoch_proof.data = link->epoch_proof;
	msg.epoch_proof.len = link->epoch_proof_len;
	msg.name_proof.data = link->name_proof;
	msg.name_proof.len = link->name_proof_len;
	msg.host.data = (uint8_t *)store->host;
	msg.host.len = strlen(store->host);
	msg.tenant = store->tenant;
	return tei_frame_call(conn, call, STORE__STORE_TYPE__STORE_HELLO,
			      &msg.base, STEP_MS);
}

/* ---- heartbeats ---- */

static void set_epoch(struct tes_master_link *link, uint64_t epoch,
		      const ProtobufCBinaryData *proof)
{
	link->epoch = epoch;
	link->epoch_proof_len = 0;
	if (proof->len != sizeof(link->epoch_proof))
		return;
	memcpy(link->epoch_proof, proof->data, proof->len);
	link->epoch_proof_len = proof->len;
}

void tes_master_link_epoch(struct tes_master_link *link, uint64_t epoch,
			   const ProtobufCBinaryData *proof)
{
	if (epoch > link->epoch)
		set_epoch(link, epoch, proof);
}

static void take_name_proof(struct tes_master_link *link,
			    const ProtobufCBinaryData *proof)
{
	if (proof->len != sizeof(link->name_proof))
		return;
	memcpy(link->name_proof, proof->data, proof->len);
	link->name_proof_len = proof->len;
}

static void beaten(struct tes_master_link *link,
		   const Store__HeartbeatReply *reply)
{
	if (reply->status || reply->epoch < link->epoch) {
		tes_master_link_lose(link, "does not know us any more");
		return;
	}
	tes_master_link_epoch(link, reply->epoch, &reply->epoch_proof);
	take_name_proof(link, &reply->name_proof);
	link->beaten = true;
	link->owner->heartbeat_done(link, reply->remount != 0);
}

static void on_beat(struct tei_frame_call *call, int err,
		    const struct tei_frame *f)
{
	struct tes_master_link *link =
		TEI_CONTAINER(call, struct tes_master_link, beat);
	Store__HeartbeatReply *reply;

	link->beating = false;
	if (link->losing)
		return;
	if (err) {
		if (link->heartbeat)
			tes_master_link_lose(link,
					     "does not answer our heartbeat");
		return;
	}
	reply = store__heartbeat_reply__unpack(NULL, f->len, f->body);
	if (!reply) {
		tes_master_link_lose(link, "malformed answer to our heartbeat");
		return;
	}
	beaten(link, reply);
	store__heartbeat_reply__free_unpacked(reply, NULL);
}

static void beat(void *arg)
{
	struct tes_master_link *link = arg;
	Store__Heartbeat msg = STORE__HEARTBEAT__INIT;

	if (link->beating || !link->heartbeat || link->losing)
		return;
	link->beat_ns = tei_now_ns();
	msg.epoch = link->epoch;
	msg.n = ++link->n_beats;
	msg.mounts = link->owner->count_mounts(link);
	link->beat.done = on_beat;
	link->beating = true;
	if (tei_frame_call(link->heartbeat, &link->beat,
			   STORE__STORE_TYPE__STORE_HEARTBEAT, &msg.base,
			   STEP_MS)) {
		link->beating = false;
		tes_master_link_lose(link, "no memory for a heartbeat");
	}
}

static void on_heartbeat_hello(struct tei_frame_call *call, int err,
			       const struct tei_frame *f)
{
	struct tes_master_link *link =
		TEI_CONTAINER(call, struct tes_master_link, heartbeat_hello);
	Store__HelloReply *reply = NULL;

	if (!link->heartbeat)
		return; /* being closed */
	if (err) {
		tes_master_link_lose(link,
				     "does not serve our heartbeat connection");
		return;
	}
	reply = store__hello_reply__unpack(NULL, f->len, f->body);
	if (!reply || reply->status || reply->epoch < link->epoch) {
		tes_master_link_lose(link, "refuses our heartbeat connection");
		goto out;
	}
	tes_master_link_epoch(link, reply->epoch, &reply->epoch_proof);
	link->pads = reply->features & TES_STORE_PADS;
	link->heartbeat_timer = tei_timer_start(
		link->store->loop, link->heartbeat_ms, true, beat, link);
	if (!link->heartbeat_timer)
		tes_master_link_lose(link, "no memory for heartbeats");
	else
		beat(link);
out:
	if (reply)
		store__hello_reply__free_unpacked(reply, NULL);
}

/* ---- the connection ---- */

static void on_probe(struct tes_master_link *link, const struct tei_frame *f)
{
	Store__Probe *probe = store__probe__unpack(NULL, f->len, f->body);
	Store__Probed msg = STORE__PROBED__INIT;

	if (!probe) {
		tei_frame_bad(link->heartbeat, "malformed probe");
		return;
	}
	msg.n = probe->n;
	store__probe__free_unpacked(probe, NULL);
	if (tei_frame_send(link->heartbeat, STORE__STORE_TYPE__STORE_PROBED, 0,
			   0, &msg.base))
		tes_master_link_lose(link, "a probe could not be answered");
}

static void on_fence(struct tes_master_link *link, const struct tei_frame *f)
{
	Store__Fence *msg = store__fence__unpack(NULL, f->len, f->body);

	if (!msg || msg->writer.len != TE_INCARNATION_LEN)
		tei_frame_bad(link->heartbeat, "malformed fence");
	else if (link->owner->fence(link->store, link->generation, msg->fence,
				    msg->writer.data))
		tes_master_link_fenced(link, link->generation, msg->fence,
				       -ENOMEM);
	if (msg)
		store__fence__free_unpacked(msg, NULL);
}

void tes_master_link_fenced(struct tes_master_link *link, uint64_t generation,
			    uint64_t fence, int rc)
{
	Store__Fenced msg = STORE__FENCED__INIT;

	/* Another connection: its master asks again for what it still needs. */
	if (generation != link->generation || !link->heartbeat)
		return;
	msg.fence = fence;
	msg.status = rc ? TE_STORE_INTERNAL_ERROR : 0;
	msg.pending = rc == -EBUSY;
	if (tei_frame_send(link->heartbeat, STORE__STORE_TYPE__STORE_FENCED, 0,
			   0, &msg.base))
		tes_master_link_lose(link, "a fence could not be answered");
}

static void on_committed(struct tes_master_link *link,
			 const struct tei_frame *f)
{
	link->owner->committed(link, f);
	if (link->pads)
		tes_unread_commit(&link->unread, link->heartbeat);
}

static void on_heartbeat_frame(struct tei_frame_conn *conn,
			       const struct tei_frame *f, void *arg)
{
	struct tes_master_link *link = arg;

	(void)conn;
	if (f->type == STORE__STORE_TYPE__STORE_COMMITTED)
		on_committed(link, f);
	else if (f->type == STORE__STORE_TYPE__STORE_BURY)
		link->owner->bury(link, f);
	else if (link->losing)
		return; /* there is nobody who waits for the rest */
	else if (f->type == STORE__STORE_TYPE__STORE_FENCE)
		on_fence(link, f);
	else if (f->type == STORE__STORE_TYPE__STORE_PROBE)
		on_probe(link, f);
	else if (f->type == STORE__STORE_TYPE__STORE_TASK)
		link->owner->task(link, f);
	else
		LOG_DEBUG("master: unexpected push of type %u", f->type);
}

static void on_heartbeat_down(struct tei_frame_conn *conn, int err,
			      const char *text, void *arg)
{
	(void)conn;
	tes_master_link_lose(arg, text ? text : strerror(-err));
}

static void on_heartbeat_up(struct tei_frame_conn *conn, void *arg)
{
	struct tes_master_link *link = arg;

	link->heartbeat_hello.done = on_heartbeat_hello;
	if (send_hello(link, conn, &link->heartbeat_hello, true))
		tes_master_link_lose(link, "no memory for a hello");
}

static const struct tei_frame_ops heartbeat_ops = {
	.frame = on_heartbeat_frame,
	.down = on_heartbeat_down,
	.up = on_heartbeat_up,
};

/* Opens the connection for heartbeats, once the main one is greeted. */
static void heartbeat_start(struct tes_master_link *link)
{
	if (tei_frame_connect(link->store->loop, &tes_store_protocol, &link->to,
			      STEP_MS, &heartbeat_ops, link, &link->heartbeat))
		tes_master_link_lose(link, "no memory or file to connect");
}

/* Stops the heartbeat's timer; the link closes the connection. */
static void heartbeat_stop(struct tes_master_link *link)
{
	tei_timer_stop(link->heartbeat_timer);
	link->heartbeat_timer = NULL;
}

#define BACKOFF_MIN_MS   50
#define BACKOFF_MAX_MS   1000
#define TELLS_PER_MINUTE 6    /* reasons to be without a master */
#define READS_MAX        1000 /* of 512 KiB, of a master that still sends */

static void close_both(struct tes_master_link *link);
static void look_up(struct tes_master_link *link);

/* ---- losing ---- */

static void fail_waiting(struct tes_master_link *link)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&link->waiting)))
		tes_link_wait_done(
			tei_list_entry(node, struct tes_link_wait, waiting),
			TE_STORE_RPC_FAIL);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	look_up(arg);
}

/* The event exists since the start: nothing can fail here. */
static void retry_later(struct tes_master_link *link)
{
	const struct timeval after = {
		.tv_sec = (time_t)(link->backoff_ms / 1000),
		.tv_usec = (suseconds_t)(link->backoff_ms % 1000 * 1000),
	};

	(void)event_add(link->retry, &after);
	link->backoff_ms *= 2;
	if (link->backoff_ms > BACKOFF_MAX_MS)
		link->backoff_ms = BACKOFF_MAX_MS;
}

/* Reads what commits and burials came before the pair was lost. */
static void read_the_rest(struct tes_master_link *link)
{
	for (int i = 0; link->heartbeat && i < READS_MAX; i++) {
		if (!tei_frame_read(link->heartbeat))
			break;
	}
}

static void on_lost(struct tei_call *call)
{
	struct tes_master_link *link =
		TEI_CONTAINER(call, struct tes_master_link, lost);

	if (!link->stopped)
		read_the_rest(link);
	link->losing = false;
	close_both(link);
	if (link->stopped)
		return;
	if (link->state == TES_MASTER_LINK_UP)
		link->down_since_ns = tei_now_ns();
	link->state = TES_MASTER_LINK_DOWN;
	retry_later(link);
}

/* Says why, unless that was said last. */
static void tell_why(struct tes_master_link *link, const char *why)
{
	char is[sizeof(link->told)];

	(void)snprintf(is, sizeof(is), "%s", why);
	if (!strcmp(link->told, is) || !tei_log_allowed(&link->tells))
		return;
	LOG_WARN("master %s: %s; trying again", link->master, why);
	memcpy(link->told, is, sizeof(is));
}

void tes_master_link_lose(struct tes_master_link *link, const char *why)
{
	if (link->losing || link->stopped)
		return;
	tell_why(link, why);
	tes_store_set_ready(link->store, false, 0);
	link->losing = true;
	link->lost.fn = on_lost;
	if (!tei_loop_post(link->store->loop, &link->lost))
		link->losing = false;
}

static void close_both(struct tes_master_link *link)
{
	struct tei_frame_conn *main = link->main, *heartbeat = link->heartbeat;

	/* First NULL: answers to cancelled calls must not use them. */
	link->main = link->heartbeat = NULL;
	link->generation++;
	if (link->hangup)
		event_free(link->hangup);
	link->hangup = NULL;
	tes_channel_close(&link->store->channel);
	link->beaten = false;
	tei_lookup_stop(link->lookup);
	link->lookup = NULL;
	heartbeat_stop(link);
	tes_unread_end(&link->unread);
	if (main)
		tei_frame_close(main);
	if (heartbeat)
		tei_frame_close(heartbeat);
}

/* ---- the main connection, as the channel's ---- */

static void on_broke(struct tei_call *call)
{
	struct tes_master_link *link =
		TEI_CONTAINER(call, struct tes_master_link, broke);
	struct tes_channel *channel = &link->store->channel;
	char why[TES_CHANNEL_WHY_LEN];
	bool late, for_good;

	tei_mutex_lock(&channel->mu);
	late = link->broke_generation != link->generation;
	for_good = channel->for_good;
	memcpy(why, channel->why, sizeof(why));
	tei_mutex_unlock(&channel->mu);
	if (late || link->stopped)
		return;
	if (for_good)
		tes_store_set_ready(link->store, false, TE_STORE_RPC_FAIL);
	tes_master_link_lose(link, why);
}

/* Any thread, with the channel's lock held: it is not closed meanwhile. */
static void on_channel_broke(struct tes_channel *channel)
{
	struct te_store *store =
		TEI_CONTAINER(channel, struct te_store, channel);

	store->link.broke_generation = channel->generation;
	store->link.broke.fn = on_broke;
	(void)tei_loop_post(store->loop, &store->link.broke);
}

static void on_hangup(evutil_socket_t fd, short what, void *arg)
{
	struct tes_master_link *link = arg;

	(void)fd;
	(void)what;
	tes_channel_look(&link->store->channel);
}

/* The greeted connection is the callers' from now on. */
static int open_channel(struct tes_master_link *link)
{
	struct te_store *store = link->store;
	int rc = tei_frame_detach(link->main), fd = rc;

	if (rc < 0)
		return rc;
	link->main = NULL;
	rc = tes_channel_open(&store->channel, fd, link->generation,
			      link->digest_seed);
	if (rc)
		return rc;
	/* Once: who drives then sees it, or nobody does and we look. */
	link->hangup = event_new(tei_loop_base(store->loop), fd, EV_CLOSED,
				 on_hangup, link);
	return link->hangup && !event_add(link->hangup, NULL) ? 0 : -ENOMEM;
}

/* ---- the main connection, until it is greeted ---- */

static void on_connection_frame(struct tei_frame_conn *conn,
				const struct tei_frame *f, void *arg)
{
	(void)arg;
	/* The master pushes on the other one; a later version may do more. */
	LOG_DEBUG("master: unexpected frame of type %u", f->type);
	(void)conn;
}

static void on_connection_down(struct tei_frame_conn *conn, int err,
			       const char *text, void *arg)
{
	struct tes_master_link *link = arg;

	(void)conn;
	if (text && err != -EAGAIN) { /* for good */
		tes_store_set_ready(link->store, false, TE_STORE_RPC_FAIL);
		tes_master_link_lose(link, text);
		return;
	}
	tes_master_link_lose(link, text ? text : strerror(-err));
}

static void flush_waiting(struct tes_master_link *link)
{
	struct tei_list calls, *node;

	tei_list_init(&calls);
	tei_list_splice_tail(&calls, &link->waiting);
	while ((node = tei_list_pop(&calls)))
		tes_link_wait_done(
			tei_list_entry(node, struct tes_link_wait, waiting), 0);
}

/*
 * Changes the group, whose regions were out of our reach up to here. A master
 * that was started anew has another group; the engine knows only so many at a
 * time.
 */
static int change_group(struct tes_master_link *link, const uint8_t *group)
{
	struct te_engine *engine = link->store->engine;
	int rc;

	if (link->joined && !memcmp(link->group, group, TES_STORE_GROUP_LEN))
		return 0;
	rc = te_group_join(engine, group);
	if (rc)
		return rc;
	if (link->joined)
		(void)te_group_leave(engine, link->group);
	memcpy(link->group, group, TES_STORE_GROUP_LEN);
	link->joined = true;
	return 0;
}

static void note_tenant(struct tes_master_link *link,
			const Store__HelloReply *reply)
{
	const char *tenant = link->store->tenant;

	if ((reply->features & TES_STORE_TENANTS) || link->tenant_warned ||
	    !*tenant || strcmp(tenant, "default") == 0)
		return;
	link->tenant_warned = true;
	LOG_WARN(
		"master %s: tenant '%s' shares its keys with all others, since "
		"tenants are off there (--enable_multi_tenants)",
		link->master, tenant);
}

static int enter(struct tes_master_link *link, const Store__HelloReply *reply)
{
	int rc;

	note_tenant(link, reply);
	rc = change_group(link, reply->group.data);
	if (rc)
		return rc;
	if (link->digest_seed != reply->digest_seed) {
		tes_locations_clear(&link->store->locations);
		tes_hot_clear(&link->store->hot);
	}
	set_epoch(link, reply->epoch, &reply->epoch_proof);
	link->digest_seed = reply->digest_seed;
	/* Relaxed: a number that is looked up with it is proved by reading. */
	atomic_store_explicit(&link->store->digest_seed, reply->digest_seed,
			      memory_order_relaxed);
	link->heartbeat_ms = reply->heartbeat_ms ? reply->heartbeat_ms : 1000;
	link->client_ttl_ms = reply->client_ttl_ms;
	rc = open_channel(link);
	if (rc)
		return rc;
	link->state = TES_MASTER_LINK_UP;
	link->backoff_ms = BACKOFF_MIN_MS;
	if (link->told[0])
		LOG_WARN("master %s: back", link->master);
	link->told[0] = '\0';
	flush_waiting(link);
	heartbeat_start(link);
	return 0;
}

/*
 * A master whose key is another one can never go above what we know. It is
 * served from anew, and gives up what was put under that epoch.
 */
static void forget_epoch(struct tes_master_link *link)
{
	LOG_WARN("master %s: does not believe the epoch %llu of the one "
		 "before; going on without it. Masters of one pool share their "
		 "--epoch_key_file",
		 link->master, (unsigned long long)link->epoch);
	link->epoch = 0;
	link->epoch_proof_len = 0;
}

static void refused(struct tes_master_link *link,
		    const Store__HelloReply *reply)
{
	int code = reply->status == TE_STORE_INVALID_VERSION
			   ? TE_STORE_INVALID_VERSION
			   : TE_STORE_RPC_FAIL;

	if (reply->status == TE_STORE_INVALID_PARAMS &&
	    link->epoch > TES_STORE_EPOCH_MAX)
		forget_epoch(link);
	tes_store_set_ready(link->store, false, code);
	tes_master_link_lose(link, reply->why[0] ? reply->why : "refuses us");
}

static void greeted(struct tes_master_link *link,
		    const Store__HelloReply *reply)
{
	int rc;

	if (reply->status) {
		refused(link, reply);
		return;
	}
	if (reply->group.len != TES_STORE_GROUP_LEN) {
		tes_master_link_lose(link, "its hello has no group");
		return;
	}
	rc = enter(link, reply);
	if (rc)
		tes_master_link_lose(link, te_strerror(rc));
}

static void on_hello(struct tei_frame_call *call, int err,
		     const struct tei_frame *f)
{
	struct tes_master_link *link =
		TEI_CONTAINER(call, struct tes_master_link, hello);
	Store__HelloReply *reply;

	if (!link->main)
		return; /* being closed */
	if (err) {
		/* Else down() follows and knows better why. */
		if (err == -ETIMEDOUT)
			tes_master_link_lose(link, "does not answer our hello");
		return;
	}
	reply = store__hello_reply__unpack(NULL, f->len, f->body);
	if (!reply) {
		tei_frame_bad(link->main, "malformed hello");
		return;
	}
	greeted(link, reply);
	store__hello_reply__free_unpacked(reply, NULL);
}

static void on_connection_up(struct tei_frame_conn *conn, void *arg)
{
	struct tes_master_link *link = arg;

	link->hello.done = on_hello;
	if (send_hello(link, conn, &link->hello, false))
		tes_master_link_lose(link, "no memory for a hello");
}

static const struct tei_frame_ops main_ops = {
	.frame = on_connection_frame,
	.down = on_connection_down,
	.up = on_connection_up,
};

/* ---- dialing ---- */

static void on_found(void *arg, const struct tei_address *to, int n)
{
	struct tes_master_link *link = arg;

	tei_lookup_stop(link->lookup);
	link->lookup = NULL;
	if (n <= 0) {
		tes_master_link_lose(link, n ? strerror(-n) : "no address");
		return;
	}
	link->state = TES_MASTER_LINK_GREETING;
	/* Names with several addresses are tried in turn. */
	link->to = to[link->generation % (uint64_t)n];
	if (tei_frame_connect(link->store->loop, &tes_store_protocol, &link->to,
			      STEP_MS, &main_ops, link, &link->main))
		tes_master_link_lose(link, "no memory or file to connect");
}

static void look_up(struct tes_master_link *link)
{
	int rc;

	link->state = TES_MASTER_LINK_LOOKING_UP;
	rc = tei_lookup_start(link->store->loop, link->master, on_found, link,
			      &link->lookup);
	if (rc)
		tes_master_link_lose(link, strerror(-rc));
}

/* ---- life ---- */

int tes_master_link_init(struct tes_master_link *link, struct te_store *store,
			 const struct tes_owner_messages *owner,
			 const char *master)
{
	memset(link, 0, sizeof(*link));
	link->store = store;
	link->owner = owner;
	tei_list_init(&link->waiting);
	link->tells.per_minute = TELLS_PER_MINUTE;
	link->backoff_ms = BACKOFF_MIN_MS;
	link->down_since_ns = tei_now_ns();
	link->generation = 1; /* 0: any */
	link->master = tei_strdup(master);
	if (!link->master)
		return -ENOMEM;
	tes_channel_init(&store->channel, on_channel_broke);
	return 0;
}

void tes_master_link_fini(struct tes_master_link *link)
{
	tes_channel_fini(&link->store->channel);
	tei_free(link->master);
	link->master = NULL;
}

#define AWAKE_MS 1000

/*
 * Returns how long this process may stop and still be known to its master,
 * which may have heard its last heartbeat heartbeat_ms before the stop; at
 * least two turns of the timer.
 */
static uint64_t longest_stop_ms(const struct tes_master_link *link)
{
	uint64_t ttl = link->client_ttl_ms, beat = link->heartbeat_ms;
	uint64_t most = ttl > beat ? ttl - beat : 0;

	return most > 2ull * AWAKE_MS ? most : 2ull * AWAKE_MS;
}

/*
 * Notes a stop that was longer than a master waits. The master has then given
 * this client up, and may be gone itself, so that nobody says so.
 */
static void on_awake(void *arg)
{
	struct tes_master_link *link = arg;
	uint64_t most = longest_stop_ms(link) * TEI_NS_PER_MS;
	uint64_t now = tei_now_ns();

	if (link->client_ttl_ms && now - link->awake_ns > most)
		link->slept_ns = now;
	link->awake_ns = now;
}

int tes_master_link_start(struct tes_master_link *link)
{
	struct tei_loop *loop = link->store->loop;

	link->retry = evtimer_new(tei_loop_base(loop), on_retry, link);
	if (!link->retry)
		return -ENOMEM;
	tes_unread_init(&link->unread, loop);
	link->awake_ns = tei_now_ns();
	link->awake_timer =
		tei_timer_start(loop, AWAKE_MS, true, on_awake, link);
	if (!link->awake_timer) {
		event_free(link->retry);
		link->retry = NULL;
		return -ENOMEM;
	}
	look_up(link);
	return 0;
}

void tes_master_link_stop(struct tes_master_link *link)
{
	link->stopped = true;
	if (link->retry)
		event_free(link->retry);
	link->retry = NULL;
	tei_timer_stop(link->awake_timer);
	link->awake_timer = NULL;
	close_both(link);
	link->state = TES_MASTER_LINK_DOWN;
	fail_waiting(link);
}

/* ---- state that others wait for ---- */

void tes_store_set_ready(struct te_store *store, bool ready, int verdict)
{
	tei_mutex_lock(&store->mu);
	store->ready = ready;
	if (ready)
		store->verdict = 0;
	else if (verdict)
		store->verdict = verdict;
	tei_cond_broadcast(&store->changed);
	tei_mutex_unlock(&store->mu);
}

int tes_direct_health(struct te_store *store)
{
	bool ready;

	tei_mutex_lock(&store->mu);
	ready = store->ready;
	tei_mutex_unlock(&store->mu);
	return ready ? 0 : TE_STORE_RPC_FAIL;
}
