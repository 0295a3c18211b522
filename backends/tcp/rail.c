/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rail.c - the listening socket, epoll, and the loop over what happened
 *
 * One epoll holds everything, and its fd is what the core waits for: the
 * lanes' sockets, the listener, an eventfd (kick) for work that no socket
 * announces, and a timer that only runs while a connection is young or
 * accepting is paused.
 */
#include "backends/tcp/tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"

#define EVENTS_MAX  64
#define ACCEPTS_MAX 16

int tei_tcp_watch(struct tcp_rail *rail, int fd, struct tcp_source *source,
		  uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = source};

	return epoll_ctl(rail->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno
								     : 0;
}

/* Three descriptors that are watched from the start; -errno. */
static int open_fds(struct tcp_rail *rail)
{
	rail->epoll_fd = rail->kick_fd = rail->tick_fd = -1;
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	rail->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (rail->epoll_fd < 0)
		return -errno;
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	rail->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (rail->kick_fd < 0)
		return -errno;
	rail->tick_fd =
		timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return rail->tick_fd < 0 ? -errno : 0;
}

static void close_fds(struct tcp_rail *rail)
{
	if (rail->tick_fd >= 0)
		close(rail->tick_fd);
	if (rail->kick_fd >= 0)
		close(rail->kick_fd);
	if (rail->epoll_fd >= 0)
		close(rail->epoll_fd);
}

static int watch_all(struct tcp_rail *rail)
{
	int rc;

	rail->listener.kind = TCP_SOURCE_LISTENER;
	rail->kick.kind = TCP_SOURCE_KICK;
	rail->tick.kind = TCP_SOURCE_TICK;
	rc = tei_tcp_watch(rail, rail->kick_fd, &rail->kick, EPOLLIN);
	if (!rc)
		rc = tei_tcp_watch(rail, rail->tick_fd, &rail->tick, EPOLLIN);
	if (!rc)
		rc = tei_tcp_watch(rail, rail->listen_fd, &rail->listener,
				   EPOLLIN);
	rail->listening = !rc;
	return rc;
}

static void init(struct tcp_rail *rail, struct tei_rail *base)
{
	rail->base = base;
	tei_list_init(&rail->young);
	tei_list_init(&rail->dead);
	tei_list_init(&rail->waiting);
	tei_list_init(&rail->broken);
	tei_list_init(&rail->refused);
}

/* A rail of one interface listens there and nowhere else. */
static int listen_at(struct tcp_rail *rail)
{
	const struct tei_address *address = &rail->base->device.address;
	uint16_t port = (uint16_t)tcp_config(rail)->port;
	char name[TEI_NAME_LEN_MAX + 1], host[TEI_HOST_LEN_MAX + 1];
	const char *at = rail->base->bind;
	uint16_t none;

	if (address->ss.ss_family) {
		tei_address_text(address, name);
		if (tei_name_split(name, host, &none))
			return -EINVAL;
		at = host;
	}
	return tei_listen(at, port, "tcp data port", &rail->port);
}

int tei_tcp_rail_open(struct tei_rail *base)
{
	struct tcp_rail *rail = tcp_rail(base);
	int rc;

	init(rail, base);
	rc = open_fds(rail);
	if (rc < 0)
		goto close_fds;
	rail->scratch = tei_malloc(TCP_SCRATCH_LEN);
	rail->plan = tei_malloc(sizeof(*rail->plan));
	rc = -ENOMEM;
	if (!rail->scratch || !rail->plan)
		goto free_memory;
	tei_tcp_identify(rail);
	rc = listen_at(rail);
	if (rc < 0)
		goto free_memory;
	rail->listen_fd = rc;
	/* Accepted sockets inherit; the receive window is fixed that early. */
	tei_tcp_socket_tune(rail, rail->listen_fd);
	rc = watch_all(rail);
	if (rc < 0)
		goto close_listener;
	rc = tei_tcp_netlink_open(rail);
	if (rc < 0)
		goto close_listener;
	return 0;

close_listener:
	close(rail->listen_fd);
free_memory:
	tei_free(rail->plan);
	tei_free(rail->scratch);
close_fds:
	close_fds(rail);
	return rc;
}

static void free_dead(struct tcp_rail *rail)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&rail->dead)))
		tei_free(tei_list_entry(node, struct tcp_lane, link));
}

void tei_tcp_rail_close(struct tei_rail *base)
{
	struct tcp_rail *rail = tcp_rail(base);

	/* Endpoints are closed by now: only strangers are left. */
	while (!tei_list_empty(&rail->young))
		tei_tcp_lane_destroy(tei_list_entry(rail->young.next,
						    struct tcp_lane, link));
	free_dead(rail);
	tei_tcp_netlink_close(rail);
	close(rail->listen_fd);
	tei_free(rail->plan);
	tei_free(rail->scratch);
	close_fds(rail);
}

int tei_tcp_wait_fd(struct tei_rail *base)
{
	return tcp_rail(base)->epoll_fd;
}

void tei_tcp_kick(struct tcp_rail *rail)
{
	if (!rail->in_progress)
		(void)eventfd_write(rail->kick_fd, 1);
}

/* ---- young connections ---- */

static void tick_set(struct tcp_rail *rail, bool on)
{
	struct itimerspec spec = {0};

	if (rail->ticking == on)
		return;
	if (on) {
		spec.it_value.tv_nsec = TCP_TICK_MS * (long)TEI_NS_PER_MS;
		spec.it_interval = spec.it_value;
	}
	(void)timerfd_settime(rail->tick_fd, 0, &spec, NULL);
	rail->ticking = on;
}

void tei_tcp_young_add(struct tcp_lane *lane)
{
	struct tcp_rail *rail = lane->rail;

	lane->deadline_ms = tei_now_ms() + tcp_config(rail)->connect_timeout;
	tei_list_add_tail(&rail->young, &lane->link);
	rail->n_young++;
	tick_set(rail, true);
}

void tei_tcp_young_remove(struct tcp_lane *lane)
{
	if (!lane->deadline_ms)
		return;
	lane->deadline_ms = 0;
	tei_list_del(&lane->link);
	lane->rail->n_young--;
}

static void pause_accept(struct tcp_rail *rail)
{
	(void)epoll_ctl(rail->epoll_fd, EPOLL_CTL_DEL, rail->listen_fd, NULL);
	rail->listening = false;
	tick_set(rail, true);
}

static void end_of_youth(struct tcp_lane *lane)
{
	if (lane->ep)
		tei_tcp_lane_fail(lane, -ETIMEDOUT);
	else
		tei_tcp_lane_bad(lane, "no hello in time");
}

static void handle_tick(struct tcp_rail *rail)
{
	uint64_t now_ms = tei_now_ms();
	struct tcp_lane *lane;
	uint64_t times;

	if (read(rail->tick_fd, &times, sizeof(times)) < 0)
		return;
	while (!tei_list_empty(&rail->young)) {
		lane = tei_list_entry(rail->young.next, struct tcp_lane, link);
		if (lane->deadline_ms > now_ms)
			break;
		end_of_youth(lane);
	}
	if (!rail->listening)
		rail->listening = !tei_tcp_watch(rail, rail->listen_fd,
						 &rail->listener, EPOLLIN);
	if (rail->listening && tei_list_empty(&rail->young))
		tick_set(rail, false);
}

/* ---- accepting ---- */

/* The oldest stranger gives way: an honest peer says hello at once. */
static void make_room(struct tcp_rail *rail)
{
	tei_list_for_each (pos, &rail->young) {
		struct tcp_lane *lane =
			tei_list_entry(pos, struct tcp_lane, link);

		if (!lane->ep) {
			tei_tcp_lane_bad(lane, "too many without hello");
			return;
		}
	}
}

static void refuse(int fd)
{
	struct tcp_hello h = {
		.op = TCP_WELCOME, .lanes = 1, .status = TEI_STATUS_ACCESS};
	uint8_t bytes[TCP_HEAD_LEN];

	tei_tcp_hello_encode(&h, bytes);
	(void)send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

/* False: nobody waits, or nobody can be taken now. */
static bool accept_one(struct tcp_rail *rail)
{
	struct tei_address peer = {.len = sizeof(peer.ss)};
	struct tcp_lane *lane;
	int fd = -1;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		errno = EMFILE;
	else
		fd = accept4(rail->listen_fd, (struct sockaddr *)&peer.ss,
			     &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
		    errno == ENOBUFS)
			pause_accept(rail);
		return errno == ECONNABORTED || errno == EINTR;
	}
	if (!tei_peer_allowed(&peer, rail->base->insecure, "tcp data port")) {
		refuse(fd);
		return true;
	}
	if (rail->n_young >= TCP_YOUNG_MAX)
		make_room(rail);
	lane = tei_tcp_lane_create(rail, fd, TCP_LANE_HELLO);
	if (lane)
		tei_tcp_young_add(lane);
	return true;
}

/* ---- progress ---- */

static void dispatch(struct tcp_rail *rail, struct tcp_source *source,
		     uint32_t events)
{
	struct tcp_lane *lane;
	eventfd_t times;

	switch (source->kind) {
	case TCP_SOURCE_LISTENER:
		for (int i = 0; i < ACCEPTS_MAX && accept_one(rail); i++)
			;
		break;
	case TCP_SOURCE_KICK:
		(void)eventfd_read(rail->kick_fd, &times);
		tei_tcp_netlink_event(rail);
		break;
	case TCP_SOURCE_LINK:
		tei_tcp_netlink_event(rail);
		break;
	case TCP_SOURCE_TICK:
		handle_tick(rail);
		break;
	case TCP_SOURCE_LANE:
		lane = TEI_CONTAINER(source, struct tcp_lane, source);
		if (lane->fd >= 0)
			tei_tcp_lane_event(lane, events);
		break;
	}
}

/* What post(), cancel() or the events above could not report themselves. */
static int report(struct tcp_rail *rail)
{
	struct tei_list *node;
	int n = 0;

	while ((node = tei_list_pop(&rail->refused))) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);

		tei_slice_done(slice, -EFAULT, 0);
		n++;
	}
	while ((node = tei_list_pop(&rail->broken))) {
		struct tcp_endpoint *ep =
			tei_list_entry(node, struct tcp_endpoint, broken_link);

		tei_endpoint_down(ep->base, ep->broken);
		n++;
	}
	return n;
}

int tei_tcp_progress(struct tei_rail *base, int budget)
{
	struct tcp_rail *rail = tcp_rail(base);
	struct epoll_event events[EVENTS_MAX];
	int n;

	if (budget > EVENTS_MAX)
		budget = EVENTS_MAX;
	n = epoll_wait(rail->epoll_fd, events, budget < 1 ? 1 : budget, 0);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	rail->in_progress = true;
	for (int i = 0; i < n; i++)
		dispatch(rail, events[i].data.ptr, events[i].events);
	n += report(rail);
	rail->in_progress = false;
	free_dead(rail);
	return n;
}
