/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rail.c - the listening socket, epoll, and the loop over what happened
 *
 * The core waits for the fd of one epoll, which holds everything: the lanes'
 * sockets, the listener, an eventfd (signal) for work that no socket announces,
 * and a timer. The timer runs only while it has a reason: lanes in
 * rail->timed, accepting is paused, or the state of the link could not be asked
 * for.
 *
 * Lanes that were busy just now are read without asking epoll first.
 */
#include "backends/tcp/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"
#include "base/peer.h"

#define TICK_MS        250
#define ACCEPTS_MAX    16
#define EVENTS_MAX     64
#define UNASKED_MAX    64
#define UNWATCHED_FROM 64 /* polls with success in a row */
#define BULK_WEIGHT    16 /* of a round with bulk, in or out, among these */
#define UNANSWERED_MIN 2  /* times that it was sent, or asked for, in vain */

/* Far above any request's deadline: it also ends peers that read nothing. */
#define USER_TIMEOUT_MS (10 * 60 * 1000)
#define KEEP_IDLE_S     30
#define KEEP_INTERVAL_S 10
#define KEEP_OFTEN_S    1

/* ---- sockets ---- */

int tei_tcp_watch(struct tcp_rail *rail, int fd, struct tcp_source *source,
		  uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = source};

	return epoll_ctl(rail->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno
								     : 0;
}

static void set_int(int fd, int level, int name, int value)
{
	/* The options only tune: a kernel that refuses one works too. */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

/* Choose how soon after the last packet, and how often, the kernel probes. */
static void set_keepalive(int fd, bool often)
{
	set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE,
		often ? KEEP_OFTEN_S : KEEP_IDLE_S);
	set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL,
		often ? KEEP_OFTEN_S : KEEP_INTERVAL_S);
}

/* Set the options of a data socket. */
static void tune_socket(const struct tcp_rail *rail, int fd)
{
	const struct tcp_config *config = tcp_config(rail);
	const char *cc = config->congestion;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS);
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_keepalive(fd, false);
	if (config->busy_poll)
		set_int(fd, SOL_SOCKET, SO_BUSY_POLL, (int)config->busy_poll);
	if (config->sndbuf)
		set_int(fd, SOL_SOCKET, SO_SNDBUF, (int)config->sndbuf);
	if (config->rcvbuf)
		set_int(fd, SOL_SOCKET, SO_RCVBUF, (int)config->rcvbuf);
	if (cc && *cc)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc,
				 (socklen_t)strlen(cc));
}

/* A rail of one interface uses that one's address, and so its route. */
static int bind_to_device(const struct tcp_rail *rail, int fd,
			  const struct tei_address *to)
{
	const struct tei_address *from = &rail->base->device.address;

	if (!from->ss.ss_family)
		return 0;
	if (from->ss.ss_family != to->ss.ss_family)
		return -EAFNOSUPPORT;
	/* The port is chosen by connect(), so that many peers can share it. */
	set_int(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
	if (bind(fd, (const struct sockaddr *)&from->ss, from->len))
		return -errno;
	return 0;
}

int tei_tcp_connect(const struct tcp_rail *rail, const struct tei_address *to)
{
	int fd, rc;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	fd = socket(to->ss.ss_family,
		    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	tune_socket(rail, fd);
	rc = bind_to_device(rail, fd, to);
	if (!rc && connect(fd, (const struct sockaddr *)&to->ss, to->len) < 0 &&
	    errno != EINPROGRESS)
		rc = -errno;
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

/* ---- opening and closing ---- */

/* Opens the descriptors that are watched from the start; -errno. */
static int open_fds(struct tcp_rail *rail)
{
	rail->epoll_fd = rail->signal_fd = -1;
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	rail->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (rail->epoll_fd < 0)
		return -errno;
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	rail->signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return rail->signal_fd < 0 ? -errno : 0;
}

/*
 * Keep scratch in a file, so that the kernel can be asked to copy it on: it
 * gives an error, and no signal, where the memory it goes to is not mapped.
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
	rc = tei_tcp_watch(rail, rail->signal_fd, &rail->signal, EPOLLIN);
	if (!rc)
		rc = tei_tcp_watch(rail, rail->listen_fd, &rail->listener,
				   EPOLLIN);
	rail->listening = !rc;
	return rc;
}

static void init_rail(struct tcp_rail *rail, struct tei_rail *base)
{
	rail->base = base;
	tei_list_init(&rail->timed);
	tei_list_init(&rail->dead);
	tei_list_init(&rail->waiting);
	tei_list_init(&rail->broken);
	tei_list_init(&rail->refused);
	tei_list_init(&rail->due);
	tei_list_init(&rail->awaiting_room);
	tei_list_init(&rail->quieting);
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

	init_rail(rail, base);
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
	rc = listen_at(rail);
	if (rc < 0)
		goto free_memory;
	rail->listen_fd = rc;
	/* Accepted sockets inherit; the receive window is fixed that early. */
	tune_socket(rail, rail->listen_fd);
	rc = watch_all(rail);
	if (rc < 0)
		goto close_listener;
	rc = tei_tcp_link_open(rail);
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

	/* Endpoints are closed by now: only those without hello are left. */
	while (!tei_list_empty(&rail->timed))
		tei_tcp_lane_fail(tei_list_entry(rail->timed.next,
						 struct tcp_lane, timed),
				  -ECANCELED);
	tei_tcp_lanes_free(rail);
	if (rail->link_fd >= 0)
		close(rail->link_fd);
	/* A forked child may have it open, too. */
	(void)shutdown(rail->listen_fd, SHUT_RDWR);
	close(rail->listen_fd);
	tei_free(rail->plan);
	close_scratch(rail);
	close_fds(rail);
}

/* ---- accepting ---- */

static void pause_accept(struct tcp_rail *rail)
{
	(void)epoll_ctl(rail->epoll_fd, EPOLL_CTL_DEL, rail->listen_fd, NULL);
	rail->listening = false;
	tei_tcp_timer_start(rail);
}

/*
 * The oldest that has not said hello gives way: honest peers do so at once. Of
 * a host that has many of them it is one of its own.
 */
static void make_room(struct tcp_rail *rail, const uint8_t host[16])
{
	struct tcp_lane *oldest = NULL, *own = NULL;
	uint32_t n_own = 0;

	tei_list_for_each (pos, &rail->timed) {
		struct tcp_lane *lane =
			tei_list_entry(pos, struct tcp_lane, timed);

		if (lane->ep)
			continue;
		if (!oldest)
			oldest = lane;
		if (memcmp(lane->host, host, sizeof(lane->host)))
			continue;
		if (!own)
			own = lane;
		if (++n_own == TCP_OPENING_EACH)
			break;
	}
	if (n_own == TCP_OPENING_EACH)
		oldest = own;
	else if (rail->n_opening < TCP_OPENING_MAX)
		return;
	if (oldest)
		tei_tcp_lane_bad(oldest, "too many without hello");
}

/* Answer that its host or user may not connect, or not now. */
static void refuse_connection(int fd, enum tei_peer_verdict verdict)
{
	struct tcp_hello h = {.op = TCP_WELCOME,
			      .lanes = 1,
			      .status = verdict == TEI_PEER_BUSY
						? TEI_STATUS_BUSY
						: TEI_STATUS_ACCESS};
	uint8_t bytes[TCP_HEAD_LEN];

	tei_tcp_hello_encode(&h, bytes);
	(void)send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

/* Returns false when nobody waits, or nobody can be accepted now. */
static bool accept_one(struct tcp_rail *rail)
{
	struct tei_address peer = {.len = sizeof(peer.ss)};
	char why[TEI_PEER_TEXT_MAX];
	enum tei_peer_verdict verdict;
	struct tcp_lane *lane;
	uint8_t host[16] = {0};
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
	verdict = tei_peer_admit(&rail->base->rule, fd, &peer, "tcp data port",
				 why);
	if (verdict != TEI_PEER_MEMBER && verdict != TEI_PEER_GUEST) {
		refuse_connection(fd, verdict);
		return true;
	}
	(void)tei_address_bytes(&peer, host);
	if (rail->n_opening >= TCP_OPENING_EACH)
		make_room(rail, host);
	lane = tei_tcp_lane_create(rail, fd, TCP_LANE_HELLO);
	if (lane)
		memcpy(lane->host, host, sizeof(lane->host));
	return true;
}

static void accept_some(struct tcp_rail *rail)
{
	for (int i = 0; i < ACCEPTS_MAX && accept_one(rail); i++)
		;
}

/* ---- the timer ---- */

void tei_tcp_timer_start(struct tcp_rail *rail)
{
	if (!rail->base->timer_ns)
		rail->base->timer_ns = tei_now_ns() + TICK_MS * TEI_NS_PER_MS;
}

/*
 * Tell whether the network has stopped carrying the connection: nothing at all
 * has come for @limit_ms, though it was sent or asked for again and again. A
 * peer that is stopped or does not read differs: its kernel answers. The last
 * packet may be older than the first unanswered request.
 */
static bool is_unresponsive(const struct tcp_lane *lane, uint64_t limit_ms)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(lane->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return false;
	return info.tcpi_last_ack_recv >= limit_ms &&
	       info.tcpi_last_data_recv >= limit_ms &&
	       (info.tcpi_retransmits >= UNANSWERED_MIN ||
		info.tcpi_probes >= UNANSWERED_MIN);
}

/*
 * A firewall forgets a connection, one of several paths swallows what is sent
 * by it: new connections work, and this one would be tried for many minutes.
 * While requests stay unanswered the peer's kernel is asked more often, and
 * where not even that answers the lane fails. False: it has.
 */
static bool check_answers(struct tcp_lane *lane, uint64_t now_ms)
{
	uint64_t limit_ms = tcp_config(lane->rail)->unresponsive_timeout;
	uint64_t n_answered = lane->n_requests - lane->n_unanswered;
	bool often;

	if (n_answered != lane->n_answered || !lane->n_unanswered) {
		lane->quiet_ms = now_ms;
		lane->n_answered = n_answered;
	}
	often = now_ms - lane->quiet_ms >= limit_ms / 2;
	if (lane->probed != often) {
		lane->probed = often;
		set_keepalive(lane->fd, often);
	}
	if (now_ms - lane->quiet_ms < limit_ms ||
	    !is_unresponsive(lane, limit_ms))
		return true;
	LOG_DEBUG("rail tcp/%s: the network does not carry a connection any "
		  "more: it is closed",
		  lane->rail->base->device.name);
	tei_tcp_lane_fail(lane, -ETIMEDOUT);
	return false;
}

/*
 * Fail a lane that is late: it has to open within connect_timeout; the peer has
 * to take payload of slices that are over, some of it every stall_timeout; and
 * requests are answered, or the peer's kernel shows life. False: it has failed,
 * and other lanes of its endpoint with it.
 */
static bool check_lane(struct tcp_lane *lane, uint64_t now_ms)
{
	const struct tcp_config *config = tcp_config(lane->rail);

	if (lane->deadline_ms) {
		if (lane->deadline_ms > now_ms)
			return true;
		if (lane->ep)
			tei_tcp_lane_fail(lane, -ETIMEDOUT);
		else
			tei_tcp_lane_bad(lane, "no hello in time");
		return false;
	}
	if (lane->n_owed &&
	    now_ms - lane->stalled_ms >= config->stall_timeout) {
		tei_tcp_lane_fail(lane, -ETIMEDOUT);
		return false;
	}
	if (!check_answers(lane, now_ms))
		return false;
	if (!lane->n_owed && !lane->n_unanswered)
		tei_list_del(&lane->timed);
	return true;
}

/* Returns false when one has failed, so that the list has changed. */
static bool check_lanes(struct tcp_rail *rail, uint64_t now_ms)
{
	tei_list_for_each_safe (pos, tmp, &rail->timed) {
		struct tcp_lane *lane =
			tei_list_entry(pos, struct tcp_lane, timed);

		if (!check_lane(lane, now_ms))
			return false;
	}
	return true;
}

static void end_timer(struct tcp_rail *rail)
{
	uint64_t now_ms = tei_now_ms();

	rail->base->timed_out = false;
	while (!check_lanes(rail, now_ms))
		;
	if (!rail->listening)
		rail->listening = !tei_tcp_watch(rail, rail->listen_fd,
						 &rail->listener, EPOLLIN);
	if (rail->link_unsure)
		tei_tcp_link_check(rail);
	tei_tcp_room_came(rail);
	if (!rail->listening || rail->link_unsure ||
	    !tei_list_empty(&rail->timed))
		tei_tcp_timer_start(rail);
}

/* ---- polled lanes ---- */

/* Have epoll tell again of what comes in by the lane. */
static void listen_again(struct tcp_lane *lane)
{
	lane->n_good = 0;
	if (lane->paused)
		return;
	tei_tcp_lane_watch(lane, lane->interest | EPOLLIN);
}

/*
 * A lane that has just brought something will bring more: reading it at each
 * progress() costs less than asking epoll first.
 */
static void poll_lane(struct tcp_lane *lane)
{
	struct tcp_lane **polled = lane->rail->polled;
	int free = TCP_POLLED_MAX - 1;

	for (int i = TCP_POLLED_MAX - 1; i >= 0; i--) {
		if (polled[i] == lane)
			return;
		if (!polled[i])
			free = i;
	}
	if (polled[free])
		listen_again(polled[free]);
	polled[free] = lane;
}

/* Read the polled lanes; how many brought something. *ask: ask epoll, too. */
static int read_polled(struct tcp_rail *rail, bool *ask)
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
		/*
		 * Each packet that epoll hears of costs who sends it some
		 * tenths of a microsecond: there are three of them nested. So
		 * it does not hear of lanes that are read all the time.
		 */
		if (got && lane->fd >= 0 && ++lane->n_good == UNWATCHED_FROM)
			tei_tcp_lane_watch(lane,
					   lane->interest & ~(uint32_t)EPOLLIN);
		if (!lane->polls_left && lane->fd >= 0) {
			listen_again(lane);
			rail->polled[i] = NULL;
		}
	}
	*ask = !any || (!n && rail->base->woken) ||
	       ++rail->n_unasked >= UNASKED_MAX;
	rail->base->woken = false;
	return n;
}

void tei_tcp_arm(struct tei_rail *base)
{
	struct tcp_rail *rail = tcp_rail(base);

	for (int i = 0; i < TCP_POLLED_MAX; i++) {
		if (rail->polled[i])
			listen_again(rail->polled[i]);
	}
}

/* ---- progress ---- */

void tei_tcp_signal(struct tcp_rail *rail)
{
	if (!rail->in_progress)
		(void)eventfd_write(rail->signal_fd, 1);
}

static void dispatch_event(struct tcp_rail *rail, struct tcp_source *source,
			   uint32_t events)
{
	struct tcp_lane *lane;
	eventfd_t times;

	switch (source->kind) {
	case TCP_SOURCE_LISTENER:
		accept_some(rail);
		break;
	case TCP_SOURCE_SIGNAL:
		(void)eventfd_read(rail->signal_fd, &times);
		tei_tcp_link_check(rail);
		break;
	case TCP_SOURCE_LINK:
		tei_tcp_link_check(rail);
		break;
	case TCP_SOURCE_LANE:
		lane = TEI_CONTAINER(source, struct tcp_lane, source);
		if (lane->fd >= 0 && tei_tcp_lane_event(lane, events))
			poll_lane(lane);
		break;
	}
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
		dispatch_event(rail, events[i].data.ptr, events[i].events);
	return n;
}

/* Report what post(), cancel() or the events above could not themselves. */
static int report_ends(struct tcp_rail *rail)
{
	struct tei_list *node;
	int n = 0;

	tei_list_for_each_safe (pos, tmp, &rail->deferring) {
		n += tei_tcp_deferred_end(
			tei_list_entry(pos, struct tcp_lane, deferring));
	}
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
	bool ask;
	int n, rc = 0;

	rail->in_progress = true;
	if (base->timed_out)
		end_timer(rail);
	n = read_polled(rail, &ask);
	if (ask)
		rc = ask_epoll(rail, budget);
	if (!tei_list_empty(&rail->due) || !tei_list_empty(&rail->quieting))
		n += tei_tcp_copied_progress(rail);
	n += report_ends(rail);
	rail->in_progress = false;
	tei_tcp_lanes_free(rail);
	return rc < 0 ? rc : n + rc;
}
