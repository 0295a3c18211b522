/* SPDX-License-Identifier: Apache-2.0 */
/*
 * young.c - accepting connections, and what must happen in time
 *
 * A connection is young until it is open as a lane; it has connect_timeout for
 * that. The timer behind this only runs while somebody is young, accepting is
 * paused, a peer is to take the rest of a frame whose slice is over or to answer
 * a request, or the state of the link could not be asked for.
 */
#include "backends/tcp/tcp.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/net.h"

#define ACCEPTS_MAX 16

/* ---- the clock ---- */

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

void tei_tcp_tick_start(struct tcp_rail *rail)
{
	tick_set(rail, true);
}

void tei_tcp_young_add(struct tcp_lane *lane)
{
	struct tcp_rail *rail = lane->rail;

	lane->deadline_ms = tei_now_ms() + tcp_config(rail)->connect_timeout;
	tei_list_add_tail(&rail->young, &lane->link);
	rail->n_opening++;
	tick_set(rail, true);
}

void tei_tcp_young_remove(struct tcp_lane *lane)
{
	if (!lane->deadline_ms)
		return;
	lane->deadline_ms = 0;
	tei_list_del(&lane->link);
	lane->rail->n_opening--;
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

void tei_tcp_stalled_add(struct tcp_lane *lane)
{
	lane->stalled_ms = tei_now_ms();
	tei_list_add_tail(&lane->rail->stalled, &lane->stalled);
	tick_set(lane->rail, true);
}

/* Whoever takes no byte of it for that long ends the connection. */
static void end_stalls(struct tcp_rail *rail, uint64_t now_ms)
{
	uint64_t most = tcp_config(rail)->stall_timeout;

	tei_list_for_each_safe (pos, tmp, &rail->stalled) {
		struct tcp_lane *lane =
			tei_list_entry(pos, struct tcp_lane, stalled);

		if (now_ms - lane->stalled_ms < most)
			continue;
		tei_tcp_lane_fail(lane, -ETIMEDOUT);
		return; /* other lanes of its endpoint are gone as well */
	}
}

void tei_tcp_tick(struct tcp_rail *rail)
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
	end_stalls(rail, now_ms);
	tei_tcp_asking_look(rail, now_ms);
	if (rail->link_unsure)
		tei_tcp_netlink_event(rail);
	if (rail->listening && !rail->link_unsure &&
	    tei_list_empty(&rail->young) && tei_list_empty(&rail->stalled) &&
	    tei_list_empty(&rail->asking))
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
	if (rail->n_opening >= TCP_OPENING_MAX)
		make_room(rail);
	lane = tei_tcp_lane_create(rail, fd, TCP_LANE_HELLO);
	if (lane)
		tei_tcp_young_add(lane);
	return true;
}

void tei_tcp_accept(struct tcp_rail *rail)
{
	for (int i = 0; i < ACCEPTS_MAX && accept_one(rail); i++)
		;
}
