/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint.c - the ops of an endpoint, both halves
 *
 *   target:     WAITING --hello--> OPEN --fenced--> DRAINING --quiet--> down
 *   initiator:  CONNECTING --welcome--> UP --any error--> down
 *
 * The initiator copies itself, so it is quiet whenever progress() is not
 * running, and no burst of a GPU's copies is under way. The target learns of it
 * by the marks, or by the end of the peer's memory: its process has ended, or
 * it has executed another program. That is seen by the socket, which is closed
 * only after all other threads and the old memory are gone, and which an
 * initiator shuts down only while it is quiet. A forked child that still has it
 * delays the sign, but never brings it early.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/shm/shm.h"
#include "base/clock.h"
#include "base/log.h"

#define CLOSE_MS     200 /* close() waits no longer for a late chunk */
#define MESSAGES_MAX 16  /* of one socket at once */

static void init(struct shm_endpoint *ep, struct tei_endpoint *base)
{
	ep->base = base;
	ep->socket = (struct shm_source){SHM_SOURCE_SOCKET, -1};
	ep->process = (struct shm_source){SHM_SOURCE_PROCESS, -1};
	tei_list_init(&ep->broken_link);
	tei_list_init(&ep->waiting);
	tei_list_init(&ep->draining);
	tei_list_init(&ep->grants);
	tei_list_init(&ep->active);
	tei_list_init(&ep->urgent);
	tei_list_init(&ep->queue);
	tei_list_init(&ep->all_views);
	tei_list_init(&ep->to_ask);
	tei_list_init(&ep->gpu_link);
	tei_list_init(&ep->gpu_queue);
	tei_list_init(&ep->gpu_burst);
	tei_list_init(&ep->windows);
}

int tei_shm_endpoint_open(struct tei_endpoint *base, void *addr, size_t *len)
{
	struct shm_endpoint *ep = shm_endpoint(base);
	struct shm_rail *rail = shm_rail(base->rail);
	struct shm_address a = {.pid = rail->host.pid,
				.uid = rail->host.uid,
				.start = rail->host.start};
	int rc;

	if (*len < SHM_ADDRESS_MAX)
		return -ENOBUFS;
	if (getrandom(ep->token, SHM_TOKEN_LEN, 0) != SHM_TOKEN_LEN)
		return -EIO;
	init(ep, base);
	rc = tei_hash_init(&ep->views);
	if (rc)
		return rc;
	memcpy(a.token, ep->token, SHM_TOKEN_LEN);
	if (base->target)
		tei_shm_path(rail, a.path);
	*len = tei_shm_address_encode(&a, addr);
	if (base->target)
		tei_list_add_tail(&rail->waiting, &ep->waiting);
	return 0;
}

static int say_hello(struct shm_endpoint *ep)
{
	struct shm_message m = {.op = SHM_HELLO};

	memcpy(m.token, ep->peer_token, SHM_TOKEN_LEN);
	return tei_shm_send(ep->socket.fd, &m, -1);
}

static int attach(struct shm_endpoint *ep, const struct shm_address *to)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);
	int rc;

	ep->pid = to->pid;
	rc = tei_shm_connect(rail, to);
	if (rc < 0)
		return rc;
	ep->socket.fd = rc;
	rc = tei_shm_peer_process(ep->socket.fd, to->pid, to->start);
	if (rc < 0)
		return rc;
	ep->process.fd = rc;
	rc = tei_shm_watch(rail, &ep->socket);
	if (!rc)
		rc = tei_shm_watch(rail, &ep->process);
	return rc ? rc : say_hello(ep);
}

/*
 * A failure to attach says nothing about the peer, which other backends may
 * well reach: none of the errors that stand for a lost one.
 */
int tei_shm_endpoint_connect(struct tei_endpoint *base, const void *addr,
			     size_t len)
{
	struct shm_endpoint *ep = shm_endpoint(base);
	const struct shm_rail *rail = shm_rail(base->rail);
	struct shm_address a;
	int rc;

	if (!tei_shm_address_decode(addr, len, &a))
		return -EPROTO;
	memcpy(ep->peer_token, a.token, SHM_TOKEN_LEN);
	ep->start = a.start;
	if (base->target)
		return -EINPROGRESS; /* until it says hello */
	rc = attach(ep, &a);
	if (!rc)
		return -EINPROGRESS;
	LOG_DEBUG("rail shm/0: attach to process %u: %s", a.pid, strerror(-rc));
	tei_shm_source_close(rail, &ep->socket);
	tei_shm_source_close(rail, &ep->process);
	return -ENXIO;
}

/* ---- quiet ---- */

bool tei_shm_has_ended(const struct shm_endpoint *ep)
{
	struct pollfd fd = {.fd = ep->process.fd, .events = POLLIN};

	return ep->process.fd < 0 || poll(&fd, 1, 0) > 0;
}

bool tei_shm_is_gpu_still(const struct shm_endpoint *ep)
{
	struct shm_seen now;

	if (!ep->orphan || !ep->pages || tei_shm_has_ended(ep))
		return true;
	now = ep->fenced ? ep->seen : tei_shm_see(ep->pages);
	return tei_shm_is_gpu_past(ep->pages, now);
}

/*
 * Removals of regions look at both, from other threads. The process stays
 * watched while a GPU copies for it.
 */
static void close_sources(struct shm_endpoint *ep, bool dead)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);

	tei_mutex_lock(&rail->mu);
	tei_shm_source_close(rail, &ep->socket);
	if (dead) {
		ep->dead = true;
		if (!ep->base->target || tei_shm_is_gpu_still(ep))
			tei_shm_source_close(rail, &ep->process);
	}
	tei_mutex_unlock(&rail->mu);
}

/* Removals of regions look at what it sets, from other threads. */
static void fence(struct shm_endpoint *ep)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);

	if (ep->fenced)
		return;
	tei_mutex_lock(&rail->mu);
	ep->fenced = true;
	if (ep->pages) {
		tei_shm_set_fence(ep->pages);
		ep->seen = tei_shm_see(ep->pages);
	}
	tei_mutex_unlock(&rail->mu);
}

/* A socket that is closed, or shut down, at both ends. */
static bool has_hung_up(const struct shm_endpoint *ep)
{
	struct pollfd fd = {.fd = ep->socket.fd};

	return poll(&fd, 1, 0) > 0 && (fd.revents & POLLHUP);
}

bool tei_shm_has_left(const struct shm_endpoint *ep)
{
	struct pollfd fd = {.fd = ep->process.fd, .events = POLLIN};

	return ep->dead || poll(&fd, 1, 0) > 0 || has_hung_up(ep);
}

bool tei_shm_has_let_go(const struct shm_endpoint *ep)
{
	return tei_shm_has_ended(ep) ||
	       (tei_shm_is_gpu_still(ep) && (ep->dead || has_hung_up(ep)));
}

static bool is_quiet(const struct shm_endpoint *ep)
{
	if (!ep->base->target || !ep->pages)
		return true;
	return (tei_shm_is_past(ep->pages, ep->seen) || tei_shm_has_left(ep)) &&
	       (!ep->orphan || tei_shm_is_gpu_past(ep->pages, ep->seen) ||
		tei_shm_has_ended(ep));
}

/*
 * The peer hears the end. Our half stays open while it has to be seen whether
 * the peer's is closed: because of a late chunk, or of a GPU's memory that the
 * peer has to close.
 */
static void close_socket(struct shm_endpoint *ep)
{
	if (ep->socket.fd >= 0 && has_hung_up(ep)) {
		close_sources(ep, true);
	} else if (ep->socket.fd < 0 ||
		   (is_quiet(ep) && !tei_shm_has_gpu_grant(ep))) {
		close_sources(ep, false);
	} else {
		tei_shm_unwatch(shm_rail(ep->base->rail), &ep->socket);
		(void)shutdown(ep->socket.fd, SHUT_WR);
	}
}

static void to_broken(struct shm_endpoint *ep)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);

	tei_list_del(&ep->draining);
	tei_list_add_tail(&rail->broken, &ep->broken_link);
	tei_shm_kick(rail);
	tei_shm_set_timer(rail);
}

void tei_shm_drained(struct shm_endpoint *ep)
{
	if (!tei_list_empty(&ep->draining) && is_quiet(ep))
		to_broken(ep);
}

static void unwatch_all(struct shm_endpoint *ep)
{
	const struct shm_rail *rail = shm_rail(ep->base->rail);

	tei_shm_unwatch(rail, &ep->socket);
	tei_shm_unwatch(rail, &ep->process);
}

/* Begins the end of an endpoint, which hears nothing more from its peer. */
static void start_end(struct shm_endpoint *ep, int err)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);

	ep->broken = err;
	tei_list_del(&ep->waiting);
	tei_list_del(&ep->active);
	if (ep->base->target)
		fence(ep);
	if (tei_shm_gpu_end(ep))
		close_socket(ep);
	else /* the peer sees it closed when nothing is touched any more */
		unwatch_all(ep);
	tei_list_add_tail(&rail->draining, &ep->draining);
}

/*
 * The end of the socket may be the first sign of a revocation that an initiator
 * gets. Until the endpoint is up, that end says nothing about the peer: see
 * connect().
 */
static int reason(const struct shm_endpoint *ep, int err)
{
	if (ep->base->target || err != -ECONNRESET)
		return err;
	if (!ep->up)
		return -ENXIO;
	return tei_shm_is_fenced(ep->pages) ? -ESTALE : err;
}

void tei_shm_break(struct shm_endpoint *ep, int err)
{
	if (ep->broken)
		return;
	start_end(ep, reason(ep, err));
	tei_shm_drained(ep);
	tei_shm_set_timer(shm_rail(ep->base->rail));
}

int tei_shm_drop(struct tei_endpoint *base)
{
	struct shm_endpoint *ep = shm_endpoint(base);
	struct shm_rail *rail = shm_rail(base->rail);

	tei_list_del(&ep->broken_link); /* it is quiet, and says so below */
	if (!ep->broken)
		start_end(ep, -ESTALE);
	ep->broken = -ESTALE;
	if (!is_quiet(ep)) {
		tei_shm_set_timer(rail);
		return -EINPROGRESS;
	}
	tei_list_del(&ep->draining);
	tei_shm_set_timer(rail);
	return 0;
}

/* ---- events ---- */

static int handle(struct shm_endpoint *ep, const struct shm_message *m,
		  struct shm_fds *fds)
{
	int rc;

	if (!ep->base->target)
		return tei_shm_attach_message(ep, m, fds);
	rc = fds->n ? -EBADMSG : tei_shm_owner_message(ep, m);
	tei_shm_fds_close(fds);
	return rc;
}

static void socket_event(struct shm_endpoint *ep)
{
	struct shm_message m;
	struct shm_fds fds;
	int i, rc = 0;

	for (i = 0; i < MESSAGES_MAX && !rc && ep->socket.fd >= 0; i++) {
		rc = tei_shm_receive_fds(ep->socket.fd, &m, &fds);
		if (!rc)
			rc = handle(ep, &m, &fds);
	}
	if (ep->to_sweep)
		tei_shm_views_sweep(ep);
	if (!rc || rc == -EAGAIN)
		return;
	if (rc == -EBADMSG || rc == -EPROTO)
		tei_shm_bad(shm_rail(ep->base->rail), "malformed message");
	tei_shm_break(ep, rc);
}

void tei_shm_endpoint_event(struct shm_endpoint *ep, struct shm_source *source)
{
	if (source->kind == SHM_SOURCE_SOCKET) {
		socket_event(ep);
		return;
	}
	close_sources(ep, true);
	if (ep->broken)
		tei_shm_drained(ep);
	else
		tei_shm_break(ep, -ECONNRESET);
}

/* ---- the end ---- */

static void end_list(struct tei_list *slices, int err)
{
	while (!tei_list_empty(slices)) {
		struct tei_slice *slice =
			tei_list_entry(slices->next, struct tei_slice, link);

		tei_list_del(&slice->link);
		tei_shm_slice_end(slice, err);
	}
}

static void end_refused(struct shm_endpoint *ep, int err)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);

	tei_list_for_each_safe (node, tmp, &rail->refused) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);

		if (slice->ep != ep->base)
			continue;
		tei_list_del(node);
		tei_shm_slice_end(slice, err);
	}
}

static void end_waiting(struct tei_list *views, int err)
{
	tei_list_for_each (node, views) {
		struct shm_view *view =
			tei_list_entry(node, struct shm_view, link);

		view->n_slices++; /* ending the last one would free it */
		end_list(&view->waiting, err);
		view->n_slices--;
	}
}

int tei_shm_flush(struct tei_endpoint *base, int err)
{
	struct shm_endpoint *ep = shm_endpoint(base);
	struct shm_rail *rail = shm_rail(base->rail);
	bool all;

	if (!ep->broken)
		start_end(ep, err);
	tei_list_del(&ep->broken_link);
	tei_list_del(&ep->draining);
	all = tei_shm_gpu_flush(ep);
	end_list(&ep->gpu_queue, err);
	end_list(&ep->urgent, err);
	end_list(&ep->queue, err);
	end_waiting(&ep->all_views, err);
	end_waiting(&ep->to_ask, err);
	end_refused(ep, err);
	base->rail->busy = tei_shm_is_busy(rail);
	tei_shm_set_timer(rail);
	return all ? 0 : -EINPROGRESS;
}

/*
 * Waits until the process is in no copy. That takes time only where the engine
 * goes away while a process stands still in the middle of a chunk.
 */
static void await_quiet(const struct shm_endpoint *ep)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct pollfd process = {.fd = ep->process.fd, .events = POLLIN};
	uint64_t until = tei_now_ms() + CLOSE_MS;

	while (!is_quiet(ep) && poll(&process, 1, 1) <= 0) {
		if (tei_now_ms() < until)
			continue;
		if (tei_log_allowed(&limit))
			LOG_WARN("rail shm/0: process %u, stopped in the "
				 "middle of a copy, may still write what that "
				 "is of",
				 ep->pid);
		return;
	}
}

void tei_shm_endpoint_close(struct tei_endpoint *base)
{
	struct shm_endpoint *ep = shm_endpoint(base);

	if (!ep->broken)
		start_end(ep, -ECANCELED);
	tei_list_del(&ep->draining);
	tei_list_del(&ep->broken_link);
	await_quiet(ep);
	tei_shm_grants_free(ep);
	tei_shm_views_free(ep);
	tei_gpu_burst_free(ep->burst);
	tei_list_del(&ep->gpu_link);
	tei_hash_fini(&ep->views);
	close_sources(ep, true);
	if (ep->pages)
		tei_shm_pages_unmap(ep->pages);
	ep->pages = NULL;
	tei_shm_set_timer(shm_rail(base->rail));
}
