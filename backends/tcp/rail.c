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
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"

#define EVENTS_MAX   64
#define UNASKED_MAX  64
#define UNHEARD_FROM 64 /* tries with success in a row */
#define BULK_WEIGHT  16 /* of a round with bulk, in or out, among these */

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
	rail->epoll_fd = rail->signal_fd = rail->tick_fd = -1;
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	rail->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (rail->epoll_fd < 0)
		return -errno;
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	rail->signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (rail->signal_fd < 0)
		return -errno;
	rail->tick_fd =
		timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return rail->tick_fd < 0 ? -errno : 0;
}

/*
 * Bytes in a file, so that the kernel can be asked to copy them on: it gives an
 * error, and no signal, where the memory that they go to is not there.
 */
static int open_scratch(struct tcp_rail *rail)
{
	void *bytes;

	rail->scratch_fd = memfd_create("te-scratch", MFD_CLOEXEC);
	if (rail->scratch_fd < 0)
		return -errno;
	if (ftruncate(rail->scratch_fd, TCP_SCRATCH_LEN))
		goto close_fd;
	bytes = mmap(NULL, TCP_SCRATCH_LEN, PROT_READ | PROT_WRITE, MAP_SHARED,
		     rail->scratch_fd, 0);
	if (bytes == MAP_FAILED)
		goto close_fd;
	rail->scratch = bytes;
	return 0;

close_fd:
	close(rail->scratch_fd);
	return -ENOMEM;
}

static void close_scratch(struct tcp_rail *rail)
{
	(void)munmap(rail->scratch, TCP_SCRATCH_LEN);
	close(rail->scratch_fd);
}

static void close_fds(struct tcp_rail *rail)
{
	if (rail->tick_fd >= 0)
		close(rail->tick_fd);
	if (rail->signal_fd >= 0)
		close(rail->signal_fd);
	if (rail->epoll_fd >= 0)
		close(rail->epoll_fd);
}

static int watch_all(struct tcp_rail *rail)
{
	int rc;

	rail->listener.kind = TCP_SOURCE_LISTENER;
	rail->signal.kind = TCP_SOURCE_SIGNAL;
	rail->tick.kind = TCP_SOURCE_TICK;
	rc = tei_tcp_watch(rail, rail->signal_fd, &rail->signal, EPOLLIN);
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
	tei_list_init(&rail->stalled);
	tei_list_init(&rail->asking);
	tei_list_init(&rail->deferring);
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
	rc = open_scratch(rail);
	if (rc < 0)
		goto close_fds;
	rail->plan = tei_malloc(sizeof(*rail->plan));
	rc = -ENOMEM;
	if (!rail->plan)
		goto free_memory;
	rc = tei_tcp_identify(rail);
	if (!rc)
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
	close_scratch(rail);
close_fds:
	close_fds(rail);
	return rc;
}

void tei_tcp_rail_close(struct tei_rail *base)
{
	struct tcp_rail *rail = tcp_rail(base);

	/* Endpoints are closed by now: only strangers are left. */
	while (!tei_list_empty(&rail->young))
		tei_tcp_lane_destroy(tei_list_entry(rail->young.next,
						    struct tcp_lane, link));
	tei_tcp_lanes_free(rail);
	tei_tcp_netlink_close(rail);
	(void)shutdown(rail->listen_fd,
		       SHUT_RDWR); /* forked children have it */
	close(rail->listen_fd);
	tei_free(rail->plan);
	close_scratch(rail);
	close_fds(rail);
}

int tei_tcp_wait_fd(struct tei_rail *base)
{
	return tcp_rail(base)->epoll_fd;
}

void tei_tcp_signal(struct tcp_rail *rail)
{
	if (!rail->in_progress)
		(void)eventfd_write(rail->signal_fd, 1);
}

/* ---- progress ---- */

static void dispatch(struct tcp_rail *rail, struct tcp_source *source,
		     uint32_t events)
{
	struct tcp_lane *lane;
	eventfd_t times;

	switch (source->kind) {
	case TCP_SOURCE_LISTENER:
		tei_tcp_accept(rail);
		break;
	case TCP_SOURCE_SIGNAL:
		(void)eventfd_read(rail->signal_fd, &times);
		tei_tcp_netlink_event(rail);
		break;
	case TCP_SOURCE_LINK:
		tei_tcp_netlink_event(rail);
		break;
	case TCP_SOURCE_TICK:
		tei_tcp_tick(rail);
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
	int n = tei_tcp_zerocopy_release(rail);

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

static void listen_again(struct tcp_lane *lane)
{
	lane->n_good = 0;
	if (lane->unheard)
		tei_tcp_lane_listen(lane, true);
}

/*
 * A lane that has just brought something will bring more: reading it at once
 * costs less than asking epoll first.
 */
void tei_tcp_heat(struct tcp_lane *lane)
{
	struct tcp_lane **polled = lane->rail->polled;
	int free = TCP_POLLED_MAX - 1;

	for (int i = TCP_POLLED_MAX - 1; i >= 0; i--) {
		if (polled[i] == lane)
			return;
		if (!polled[i])
			free = i;
	}
	if (polled[free] && polled[free]->fd >= 0)
		listen_again(polled[free]);
	polled[free] = lane;
}

void tei_tcp_cool(struct tcp_lane *lane)
{
	for (int i = 0; i < TCP_POLLED_MAX; i++) {
		if (lane->rail->polled[i] == lane)
			lane->rail->polled[i] = NULL;
	}
}

/*
 * Each packet that epoll hears of costs who sends it some tenths of a
 * microsecond: there are three of them nested. So it does not hear of lanes
 * that are read all the time.
 */
void tei_tcp_doze(struct tei_rail *base)
{
	struct tcp_rail *rail = tcp_rail(base);

	for (int i = 0; i < TCP_POLLED_MAX; i++) {
		if (rail->polled[i] && rail->polled[i]->fd >= 0)
			listen_again(rail->polled[i]);
	}
}

static void cool(struct tcp_lane *lane)
{
	listen_again(lane);
	tei_tcp_cool(lane);
}

/* How many brought something. *ask: epoll is to be asked, too. */
static int read_hot(struct tcp_rail *rail, bool *ask)
{
	bool any = false;
	int n = 0;

	for (int i = 0; i < TCP_POLLED_MAX; i++) {
		struct tcp_lane *lane = rail->polled[i];
		size_t got;

		if (!lane)
			continue;
		any = true;
		got = tei_tcp_receive(lane);
		n += got > 0;
		if (got >= TCP_BULK_LEN || lane->interest & EPOLLOUT)
			rail->n_unasked += BULK_WEIGHT;
		if (got && lane->fd >= 0 && ++lane->n_good == UNHEARD_FROM)
			tei_tcp_lane_listen(lane, false);
		if (!lane->polls_left && lane->fd >= 0)
			cool(lane);
	}
	*ask = !any || (!n && rail->base->woken) ||
	       ++rail->n_unasked >= UNASKED_MAX;
	rail->base->woken = false;
	return n;
}

static int ask_epoll(struct tcp_rail *rail, int budget)
{
	struct epoll_event events[EVENTS_MAX];
	int n;

	rail->n_unasked = 0;
	if (budget > EVENTS_MAX)
		budget = EVENTS_MAX;
	n = epoll_wait(rail->epoll_fd, events, budget < 1 ? 1 : budget, 0);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++)
		dispatch(rail, events[i].data.ptr, events[i].events);
	return n;
}

int tei_tcp_progress(struct tei_rail *base, int budget)
{
	struct tcp_rail *rail = tcp_rail(base);
	bool ask;
	int n, rc = 0;

	rail->in_progress = true;
	n = read_hot(rail, &ask);
	if (ask)
		rc = ask_epoll(rail, budget);
	n += report(rail);
	rail->in_progress = false;
	tei_tcp_lanes_free(rail);
	return rc < 0 ? rc : n + rc;
}
