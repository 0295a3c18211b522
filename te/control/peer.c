/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - the control connection to a peer: opened, kept, opened again */
#include "te/control/peer.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/lookup.h"
#include "base/mem.h"
#include "base/sm.h"
#include "te/control/control.h"
#include "te/core/engine.h"
#include "te/directory/directory.h"
#include "te/worker/worker.h"

/* ---- the look-ups that an engine has under way ---- */

_Static_assert(TEI_PEER_ADDRESSES >= TEI_LOOKUP_MAX,
	       "no room for what is found");

void tei_names_init(struct tei_names *names)
{
	tei_list_init(&names->waiting);
}

static void start_peer(struct tei_peer *peer);

static void start_waiting(struct tei_names *names)
{
	while (names->n < TEI_NAMES_AT_ONCE && !tei_list_empty(&names->waiting))
		start_peer(tei_list_entry(tei_list_pop(&names->waiting),
					  struct tei_peer_control, of_names)
				   ->peer);
}

static void stop(struct tei_peer *peer)
{
	tei_lookup_stop(peer->c->lookup);
	peer->c->lookup = NULL;
	peer->engine->control->names.n--;
}

static void peer_found(struct tei_peer *peer, int n);

static void found(void *arg, const struct tei_address *to, int n)
{
	struct tei_peer *peer = arg;

	stop(peer);
	if (n > 0)
		memcpy(peer->c->address, to, (size_t)n * sizeof(*to));
	if (!peer->port && n > 0)
		TEI_COUNT(peer->engine, directory_found);
	else if (!peer->port)
		TEI_COUNT(peer->engine, directory_failed);
	start_waiting(&peer->engine->control->names);
	peer_found(peer, n);
}

static void start_peer(struct tei_peer *peer)
{
	struct te_engine *engine = peer->engine;
	int rc;

	if (peer->port)
		rc = tei_lookup_start(engine->loop, peer->name, found, peer,
				      &peer->c->lookup);
	else
		rc = tei_directory_look_up(engine->directory, engine->loop,
					   peer->name, found, peer,
					   &peer->c->lookup);

	if (rc)
		peer_found(peer, rc);
	else
		peer->engine->control->names.n++;
}

/*
 * Find the addresses of @peer's name; peer_found() follows, at once when
 * the name is numeric.
 */
static void names_look_up(struct tei_peer *peer)
{
	struct tei_names *names = &peer->engine->control->names;

	if (peer->port &&
	    !tei_resolve_numeric(peer->host, peer->port, peer->c->address))
		peer_found(peer, 1);
	else if (names->n == TEI_NAMES_AT_ONCE)
		tei_list_add_tail(&names->waiting, &peer->c->of_names);
	else
		start_peer(peer);
}

/* Ends the look-up of a name: peer_found() is not called any more. */
static void names_give_up(struct tei_peer *peer)
{
	tei_list_del(&peer->c->of_names);
	if (peer->c->lookup)
		stop(peer);
}

/* ---- those who wait for a peer to be up, or to answer ---- */

static void opener_end(struct tei_opener *opener, int err)
{
	struct te_engine *engine = opener->peer->engine;

	tei_list_del(&opener->link);
	tei_mutex_lock(&engine->mu);
	opener->done = true;
	opener->err = err;
	tei_cond_signal(&opener->cond); /* under mu: it is on a stack */
	tei_mutex_unlock(&engine->mu);
}

static void openers_end(struct tei_peer *peer, int err)
{
	while (!tei_list_empty(&peer->c->openers))
		opener_end(tei_list_entry(peer->c->openers.next,
					  struct tei_opener, link),
			   err);
}

/* The peer is up: those end who only wanted that, and the others probe it. */
static void openers_serve(struct tei_peer *peer)
{
	bool probe = false;

	tei_list_for_each_safe (node, tmp, &peer->c->openers) {
		struct tei_opener *opener =
			tei_list_entry(node, struct tei_opener, link);

		if (opener->probe)
			probe = true;
		else
			opener_end(opener, 0);
	}
	if (probe)
		tei_peer_probe(peer);
}

/* Fails probes; opens go on waiting for a peer that is not there yet. */
static void openers_refuse(struct tei_peer *peer)
{
	tei_list_for_each_safe (node, tmp, &peer->c->openers) {
		struct tei_opener *opener =
			tei_list_entry(node, struct tei_opener, link);

		if (opener->probe && ++opener->n_refused >= peer->c->n_address)
			opener_end(opener, -ECONNREFUSED);
	}
}

void tei_peer_probed(struct tei_peer *peer, uint64_t rtt_ns)
{
	tei_list_for_each_safe (node, tmp, &peer->c->openers) {
		struct tei_opener *opener =
			tei_list_entry(node, struct tei_opener, link);

		if (!opener->probe)
			continue;
		opener->rtt_ns = rtt_ns;
		opener_end(opener, 0);
	}
}

/* Error of waiters whose time is over. */
static int openers_error(int err)
{
	if (err == -EAGAIN) /* it is the owner that is short of something */
		return err;
	if (!tei_is_shortage(err))
		return -ETIMEDOUT;
	return err == -EMFILE || err == -ENFILE ? -EMFILE : -ENOMEM;
}

static void note_failure_of_openers(struct tei_peer *peer, int err)
{
	tei_list_for_each (node, &peer->c->openers)
		tei_list_entry(node, struct tei_opener, link)->err =
			openers_error(err);
}

#define BACKOFF_MS   10u
#define BACKOFF_BITS 5u   /* up to 320 ms, and a quarter of jitter */
#define ABSENT_MS    100u /* of refusals: nobody is there */

static const struct tei_sm_state states[] = {
	[TEI_PEER_IDLE] = {"idle", SM_TO(TEI_PEER_RESOLVING)},
	[TEI_PEER_RESOLVING] = {"resolving", SM_TO(TEI_PEER_CONNECTING) |
						     SM_TO(TEI_PEER_BACKOFF) |
						     SM_TO(TEI_PEER_IDLE)},
	[TEI_PEER_CONNECTING] = {"connecting", SM_TO(TEI_PEER_HELLO) |
						       SM_TO(TEI_PEER_BACKOFF) |
						       SM_TO(TEI_PEER_IDLE)},
	[TEI_PEER_HELLO] = {"hello", SM_TO(TEI_PEER_DESCRIBING) |
					     SM_TO(TEI_PEER_BACKOFF) |
					     SM_TO(TEI_PEER_IDLE)},
	[TEI_PEER_DESCRIBING] = {"describing", SM_TO(TEI_PEER_UP) |
						       SM_TO(TEI_PEER_BACKOFF) |
						       SM_TO(TEI_PEER_IDLE)},
	[TEI_PEER_UP] = {"up", SM_TO(TEI_PEER_BACKOFF) | SM_TO(TEI_PEER_IDLE)},
	[TEI_PEER_BACKOFF] = {"backoff", SM_TO(TEI_PEER_IDLE)},
};

void tei_peer_move(struct tei_peer *peer, enum tei_peer_state to)
{
	tei_sm_move(&peer->c->state, states, (uint8_t)to);
}

/* ---- making ---- */

static void asks_came(struct tei_call *call)
{
	struct tei_peer *peer = TEI_CONTAINER(call, struct tei_peer, asks_call);

	atomic_store(&peer->asks_posted, false);
	tei_peer_kick(peer);
}

/* Allocation of both parts of a peer. */
struct whole {
	struct tei_peer peer;
	struct tei_peer_control c;
};

static void init(struct tei_peer *peer, struct te_engine *engine,
		 const char *name)
{
	peer->engine = engine;
	/* Both have TEI_NAME_LEN_MAX + 1. */
	memcpy(peer->name, name, strlen(name) + 1);
	tei_list_init(&peer->link);
	tei_list_init(&peer->c->openers);
	tei_list_init(&peer->c->drops);
	tei_list_init(&peer->c->of_names);
	tei_notify_out_init(&peer->c->notify);
	peer->asks_call.fn = asks_came;
}

static bool has_self_rail(const struct te_engine *engine)
{
	uint32_t i;

	for (i = 0; i < engine->worker->n_rails; i++) {
		if (engine->worker->rails[i]->rail.ops->caps & TEI_CAP_SELF)
			return true;
	}
	return false;
}

/* Describes this engine to itself: it knows all that a peer would announce. */
static int tell_self(struct tei_peer *peer)
{
	struct te_engine *engine = peer->engine;
	struct tei_announced *announced = &peer->announced;

	peer->self = true;
	announced->remote = tei_describe_self(engine);
	if (!announced->remote)
		return -ENOMEM;
	announced->life = 1;
	announced->up = true;
	announced->epoch = atomic_load(&engine->control->inbound.self.epoch);
	announced->epoch_since = tei_now_ns();
	memcpy(announced->incarnation, engine->incarnation, TE_INCARNATION_LEN);
	atomic_init(&peer->news, 1);
	return 0;
}

static struct tei_peer *find_peer(struct te_engine *engine, const char *name)
	TEI_REQUIRES(engine->mu)
{
	tei_list_for_each (node, &engine->peers) {
		struct tei_peer *peer =
			tei_list_entry(node, struct tei_peer, link);

		if (!strcmp(peer->name, name))
			return peer;
	}
	return NULL;
}

static int make_peer(struct te_engine *engine, const char *name,
		     struct tei_peer **out)
{
	struct whole *whole = tei_calloc(1, sizeof(*whole));
	struct tei_peer *peer;
	int rc = 0;

	if (!whole)
		return -ENOMEM;
	peer = &whole->peer;
	peer->c = &whole->c;
	peer->c->peer = peer;
	init(peer, engine, name);
	if (!strcmp(name, engine->name) && has_self_rail(engine))
		rc = tell_self(peer);
	if (!rc)
		rc = tei_peer_works_make(peer);
	if (rc)
		goto free_peer;
	tei_name_split(name, peer->host, &peer->port);
	*out = peer;
	return 0;

free_peer:
	tei_peer_free(peer);
	return rc;
}

/* A name without a port means something only to a directory. */
static int complete(const struct te_engine *engine, const char *name,
		    char full[TEI_NAME_LEN_MAX + 1])
{
	char host[TEI_HOST_LEN_MAX + 1];
	uint16_t port;

	if (!name || tei_name_split(name, host, &port))
		return -EINVAL;
	if (port)
		tei_name_join(host, port, full);
	else if (engine->directory && !strchr(name, ':'))
		memcpy(full, host, strlen(host) + 1);
	else
		return -EINVAL;
	return 0;
}

int tei_peer_get(struct te_engine *engine, const char *name,
		 struct tei_peer **out)
{
	struct tei_peer *made = NULL, *peer;
	char full[TEI_NAME_LEN_MAX + 1];
	int rc = complete(engine, name, full);

	if (rc)
		return rc;
	tei_mutex_lock(&engine->mu);
	peer = find_peer(engine, full);
	tei_mutex_unlock(&engine->mu);
	if (!peer) {
		rc = make_peer(engine, full, &made);
		if (rc)
			return rc;
		tei_mutex_lock(&engine->mu);
		peer = find_peer(engine,
				 full); /* another may have been faster */
		if (!peer) {
			tei_list_add_tail(&engine->peers, &made->link);
			peer = made;
			made = NULL;
		}
		tei_mutex_unlock(&engine->mu);
		tei_peer_free(made);
	}
	*out = peer;
	return 0;
}

void tei_peer_free(struct tei_peer *peer)
{
	if (!peer)
		return;
	tei_remote_put(peer->announced.remote);
	tei_peer_works_free(peer);
	tei_free(TEI_CONTAINER(peer, struct whole, peer));
}

/* ---- the connection ---- */

/* True: some work waits for the end of a link. */
static bool is_drop_urgent(const struct tei_peer *peer)
{
	uint64_t now = tei_now_ns();

	tei_list_for_each (node, &peer->c->drops) {
		if (tei_list_entry(node, struct tei_link, out.asked)
			    ->out.drop_until > now)
			return true;
	}
	return false;
}

static bool is_wanted(const struct tei_peer *peer)
{
	return !tei_list_empty(&peer->c->openers) || is_drop_urgent(peer) ||
	       tei_notify_wants(peer) || atomic_load(&peer->n_want) ||
	       (atomic_load(&peer->asks) & TEI_ASK_PROBE);
}

/* Connects to that address, in state RESOLVING. */
static void peer_connect(struct tei_peer *peer, const struct tei_address *to)
{
	struct te_engine *engine = peer->engine;
	int rc;

	tei_peer_move(peer, TEI_PEER_CONNECTING);
	peer->c->at = *to;
	rc = tei_frame_connect(engine->loop, &tei_control_protocol, to,
			       tei_reroute_timeout_ms(peer),
			       &tei_peer_frame_ops, peer, &peer->c->conn);
	if (rc)
		tei_peer_failed(peer, rc, false);
}

static void connect_next(struct tei_peer *peer)
{
	peer_connect(peer, &peer->c->address[peer->c->next_address++]);
}

/* Takes the result of the look-up: @n addresses in c.address, or an error. */
static void peer_found(struct tei_peer *peer, int n)
{
	peer->c->n_address = n > 0 ? n : 0;
	if (n > 0)
		connect_next(peer);
	else
		tei_peer_failed(peer, n, n == -EHOSTUNREACH);
}

/*
 * Connects now; when all addresses have been tried the name may stand for
 * others.
 */
static void connect_now(struct tei_peer *peer)
{
	tei_peer_move(peer, TEI_PEER_RESOLVING);
	if (peer->c->next_address < peer->c->n_address) {
		connect_next(peer);
		return;
	}
	peer->c->next_address = 0;
	names_look_up(peer);
}

void tei_peer_kick(struct tei_peer *peer)
{
	uint32_t asks;

	if (peer->engine->control->closed)
		return;
	if (peer->c->state == TEI_PEER_IDLE && is_wanted(peer))
		connect_now(peer);
	if (peer->c->state != TEI_PEER_UP)
		return;
	asks = atomic_exchange(&peer->asks, 0);
	if (asks & TEI_ASK_DESCRIBE)
		tei_peer_describe(peer);
	if (asks & TEI_ASK_PROBE)
		tei_peer_probe(peer);
	tei_peer_send_drops(peer);
	tei_notify_send(peer);
	if (peer->c->state == TEI_PEER_UP)
		openers_serve(peer);
}

void tei_peer_is_up(struct tei_peer *peer)
{
	tei_peer_move(peer, TEI_PEER_UP);
	peer->c->attempts = 0;
	peer->c->n_refused = 0;
	peer->c->refused_at = 0;
	peer->c->next_address = 0;
	tei_notify_greeted(peer, peer->c->hello_taken, peer->c->hello_losses);
	TEI_COUNT(peer->engine, control_up);
	tei_peer_kick(peer);
}

static void backoff_over(void *arg)
{
	struct tei_peer *peer = arg;

	tei_timer_stop(peer->c->timer);
	peer->c->timer = NULL;
	tei_peer_move(peer, TEI_PEER_IDLE);
	tei_peer_kick(peer);
}

void tei_peer_open(struct tei_opener *opener)
{
	struct tei_peer *peer = opener->peer;

	tei_list_add_tail(&peer->c->openers, &opener->link);
	if (peer->engine->control->closed)
		opener_end(opener, -ECANCELED);
	else if (opener->probe && peer->c->state == TEI_PEER_BACKOFF)
		backoff_over(peer); /* it wants to know now */
	else
		tei_peer_kick(peer);
}

static void back_off(struct tei_peer *peer)
{
	uint32_t bits = peer->c->attempts < BACKOFF_BITS ? peer->c->attempts
							 : BACKOFF_BITS;
	uint64_t ms = BACKOFF_MS << bits;

	ms += tei_now_ns() / TEI_NS_PER_US % (ms / 4 + 1);
	peer->c->attempts++;
	peer->c->timer = tei_timer_start(peer->engine->loop, ms, false,
					 backoff_over, peer);
	/* Without a timer the next one who wants something tries again. */
	tei_peer_move(peer, peer->c->timer ? TEI_PEER_BACKOFF : TEI_PEER_IDLE);
}

static void count_refusals(struct tei_peer *peer, int err)
{
	if (err != -ECONNREFUSED) {
		peer->c->n_refused = 0;
		peer->c->refused_at = 0;
		return;
	}
	peer->c->n_refused++;
	if (!peer->c->refused_at)
		peer->c->refused_at = tei_now_ns();
}

static bool has_refused_for_a_while(const struct tei_peer *peer)
{
	return tei_now_ns() - peer->c->refused_at >= ABSENT_MS * TEI_NS_PER_MS;
}

static void tell_failure(struct tei_peer *peer, int err, bool is_final)
{
	struct te_engine *engine = peer->engine;

	tei_mutex_lock(&engine->mu);
	note_failure_of_openers(peer, err);
	peer->announced.up = false;
	peer->announced.fails++;
	peer->announced.fail_err = err == -EAGAIN ? -ECONNREFUSED : err;
	if (peer->c->n_refused && peer->c->n_refused >= peer->c->n_address) {
		peer->announced.refusals++;
		peer->announced.absences += has_refused_for_a_while(peer);
		peer->c->n_refused = 0;
	}
	peer->announced.fail_final = is_final;
	tei_mutex_unlock(&engine->mu);
	tei_peer_post_news(peer);
}

/* Peers come and go; that we lack something somebody should know. */
static void say_why(const struct tei_peer *peer, int err)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_is_shortage(err) && tei_log_allowed(&limit))
		LOG_WARN("peer %s: connect: %s", peer->name, te_strerror(err));
	else
		LOG_DEBUG("peer %s: %s", peer->name, te_strerror(err));
}

static bool reroute(struct tei_peer *peer, int err);

void tei_peer_failed(struct tei_peer *peer, int err, bool for_good)
{
	struct tei_frame_conn *conn = peer->c->conn;
	/* Another process may answer at an address that is not the peer's. */
	bool stray = peer->c->elsewhere && peer->c->state != TEI_PEER_UP;

	peer->c->conn = NULL; /* answers to calls from in here are ignored */
	if (conn)
		tei_frame_close(conn);
	peer->c->describing = peer->c->describe_again = false;
	peer->c->proving = peer->c->prove_again = peer->c->probing = false;
	/* A link that still waits for progress probes again. */
	atomic_fetch_and(&peer->asks, ~(uint32_t)TEI_ASK_PROBE);
	tei_notify_lost(peer);
	if (reroute(peer, err))
		return;
	TEI_COUNT(peer->engine, control_failed);
	if (!stray)
		count_refusals(peer, err);
	say_why(peer, err);
	tell_failure(peer, err, for_good && !stray);
	if (for_good && !stray)
		openers_end(peer, err);
	else if (err == -ECONNREFUSED && !stray)
		openers_refuse(peer);
	back_off(peer);
}

void tei_peer_close(struct tei_peer *peer)
{
	struct tei_frame_conn *conn = peer->c->conn;

	names_give_up(peer);
	peer->c->conn = NULL;
	if (conn)
		tei_frame_close(conn);
	tei_timer_stop(peer->c->timer);
	peer->c->timer = NULL;
	tei_notify_close(peer);
	openers_end(peer, -ECANCELED);
}

void tei_peer_tell_epoch(struct tei_peer *peer, uint64_t epoch)
{
	struct te_engine *engine = peer->engine;
	bool newer;

	tei_mutex_lock(&engine->mu);
	newer = epoch > peer->announced.epoch;
	if (newer) {
		peer->announced.epoch = epoch;
		peer->announced.epoch_since = tei_now_ns();
	}
	tei_mutex_unlock(&engine->mu);
	if (newer)
		tei_peer_post_news(peer);
}

/* ---- control connections that go on by another network ---- */

/*
 * An owner describes where else its control port is reached: at the addresses
 * of its rails. When the way of our connection to it is lost, because a rail
 * of ours has lost its link, or is silent though an answer is owed, we connect
 * to the next of those addresses at once and ask again what was not answered.
 *
 * Only the name stands for a peer: at another address nobody but the very
 * incarnation that gave it counts, so no restart is believed from there.
 *
 * `tried` has a bit for each address that was left or did not work since the
 * peer last answered. As long as there is one without, answers have little
 * time; then they have all of connect_timeout, for a slow peer is not a lost
 * way.
 */

static const struct tei_remote *remote_of(const struct tei_peer *peer)
{
	return peer->announced.remote; /* written by this thread only */
}

/* Place of the next address to try, -1: none is left. */
static int next_untried(const struct tei_peer *peer)
{
	const struct tei_remote *remote = remote_of(peer);
	uint32_t i;

	for (i = 0; remote && i < remote->n_control; i++) {
		if (!(peer->c->tried >> i & 1) &&
		    !tei_address_same_host(&remote->control[i], &peer->c->at))
			return (int)i;
	}
	return -1;
}

static void mark_tried(struct tei_peer *peer)
{
	const struct tei_remote *remote = remote_of(peer);
	uint32_t i;

	for (i = 0; remote && i < remote->n_control; i++) {
		if (tei_address_same_host(&remote->control[i], &peer->c->at))
			peer->c->tried |= 1u << i;
	}
}

uint64_t tei_reroute_timeout_ms(const struct tei_peer *peer)
{
	const struct tei_config *config = &peer->engine->config;

	if (next_untried(peer) < 0 ||
	    config->connect_timeout < config->reroute_after)
		return config->connect_timeout;
	return config->reroute_after;
}

void tei_reroute_answered(struct tei_peer *peer)
{
	peer->c->tried = 0;
}

/* True: an error of the route, not of the peer, which resets or refuses. */
static bool is_of_way(int err)
{
	return err == -ETIMEDOUT || err == -ENETDOWN || err == -EHOSTUNREACH ||
	       err == -ENETUNREACH || err == -EADDRNOTAVAIL;
}

static void tell_down(struct tei_peer *peer)
{
	tei_mutex_lock(&peer->engine->mu);
	peer->announced.up = false;
	tei_mutex_unlock(&peer->engine->mu);
	tei_peer_post_news(peer);
}

/*
 * The connection has ended with @err, or could not be made, and is closed.
 * True: the next is on its way to another address of the peer.
 */
static bool reroute(struct tei_peer *peer, int err)
{
	bool trying = peer->c->elsewhere && peer->c->state != TEI_PEER_UP;
	struct tei_address to;
	int place;

	peer->c->elsewhere = false;
	mark_tried(peer);
	place = trying || is_of_way(err) ? next_untried(peer) : -1;
	if (place < 0) {
		peer->c->tried = 0;
		return false;
	}
	LOG_DEBUG("peer %s: %s: control connection rerouted", peer->name,
		  te_strerror(err));
	if (peer->c->state == TEI_PEER_UP)
		TEI_COUNT(peer->engine, control_rerouted);
	tell_down(peer);
	tei_peer_move(peer, TEI_PEER_IDLE);
	tei_peer_move(peer, TEI_PEER_RESOLVING);
	peer->c->elsewhere = true;
	to = remote_of(peer)->control[place];
	peer_connect(peer, &to);
	return true;
}

/* ---- a rail that has lost its link ---- */

static void leave_way(struct tei_peer *peer, const struct tei_address *ours)
{
	struct tei_address local;

	if (!peer->c->conn || !tei_frame_local(peer->c->conn, &local) ||
	    !tei_address_same_host(&local, ours))
		return;
	peer->c->tried = 0;
	if (next_untried(peer) >= 0) /* else it may come back in time */
		tei_peer_failed(peer, -ENETDOWN, false);
}

static void leave_rail(struct te_engine *engine, struct tei_rail_box *box)
{
	struct tei_device device = tei_rail_device(box);
	struct tei_peer *peer = NULL;

	while ((peer = tei_peer_next(engine, peer)))
		leave_way(peer, &device.address);
}

static void links_lost(struct tei_call *call)
{
	struct te_engine *engine =
		TEI_CONTAINER(call, struct tei_control, links_lost)->engine;
	uint32_t i;

	atomic_store(&engine->control->links_lost_posted, false);
	for (i = 0; !engine->control->closed && i < engine->worker->n_rails;
	     i++) {
		struct tei_rail_box *box = engine->worker->rails[i];

		if (atomic_exchange(&box->lost, false))
			leave_rail(engine, box);
	}
}

void tei_reroute_init(struct te_engine *engine)
{
	engine->control->links_lost.fn = links_lost;
}

void tei_reroute_rail_lost(struct tei_rail_box *box)
{
	struct te_engine *engine = box->rail.core->engine;

	atomic_store(&box->lost, true);
	if (!atomic_exchange(&engine->control->links_lost_posted, true))
		tei_loop_post(engine->loop, &engine->control->links_lost);
}
