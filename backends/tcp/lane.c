/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane.c - one connection: its socket, its hello, its end
 *
 *   initiator: CONNECTING --connected, HELLO queued--> HELLO --WELCOME--> OPEN
 *   target:    accepted --> HELLO --HELLO, WELCOME queued--> OPEN
 *   any state --error, end of stream, bad bytes, too slow--> CLOSED
 *
 * A lane is created by accept or endpoint_connect(). Closing and destroying
 * are apart because an epoll event may still point to a closed lane.
 */
#include "backends/tcp/tcp.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"

/* Far above any request's deadline: it also ends peers that read nothing. */
#define USER_TIMEOUT_MS (10 * 60 * 1000)
#define KEEP_IDLE_S     30
#define KEEP_INTERVAL_S 10
#define KEEP_OFTEN_S    1

static void set_int(int fd, int level, int name, int value)
{
	/* All of these only tune; a kernel that refuses one works too. */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

void tei_tcp_keep(int fd, bool often)
{
	set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE,
		often ? KEEP_OFTEN_S : KEEP_IDLE_S);
	set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL,
		often ? KEEP_OFTEN_S : KEEP_INTERVAL_S);
}

void tei_tcp_socket_tune(const struct tcp_rail *rail, int fd)
{
	const struct tcp_config *config = tcp_config(rail);
	const char *cc = config->congestion;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS);
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	tei_tcp_keep(fd, false);
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

struct tcp_lane *tei_tcp_lane_create(struct tcp_rail *rail, int fd,
				     enum tcp_lane_state state)
{
	struct tcp_lane *lane;

	lane = tei_calloc(1, sizeof(*lane));
	if (!lane)
		goto close_fd;
	lane->source.kind = TCP_SOURCE_LANE;
	lane->state = state;
	lane->fd = fd;
	lane->rail = rail;
	lane->next_id = 1;
	tei_list_init(&lane->link);
	tei_list_init(&lane->reads);
	tei_list_init(&lane->writes);
	tei_list_init(&lane->sent_reads);
	tei_list_init(&lane->sent_writes);
	tei_list_init(&lane->stalled);
	tei_list_init(&lane->asking);
	lane->interest = state == TCP_LANE_CONNECTING ? EPOLLOUT : EPOLLIN;
	if (tei_tcp_watch(rail, fd, &lane->source, lane->interest) < 0)
		goto free_lane;
	return lane;

free_lane:
	tei_free(lane);
close_fd:
	close(fd);
	return NULL;
}

/* A rail of one interface uses that one's address, and so its route. */
static int leave_from(const struct tcp_rail *rail, int fd,
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

int tei_tcp_lane_connect(struct tcp_endpoint *ep, uint32_t index,
			 const struct tei_address *to)
{
	struct tcp_rail *rail = tcp_rail(ep->base->rail);
	struct tcp_lane *lane;
	int fd, rc;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	fd = socket(to->ss.ss_family,
		    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	tei_tcp_socket_tune(rail, fd);
	rc = leave_from(rail, fd, to);
	if (rc) {
		close(fd);
		return rc;
	}
	if (connect(fd, (const struct sockaddr *)&to->ss, to->len) < 0 &&
	    errno != EINPROGRESS) {
		rc = -errno;
		close(fd);
		return rc;
	}
	lane = tei_tcp_lane_create(rail, fd, TCP_LANE_CONNECTING);
	if (!lane)
		return -ENOMEM;
	lane->ep = ep;
	lane->index = index;
	ep->lanes[index] = lane;
	tei_tcp_zerocopy_open(lane);
	tei_tcp_young_add(lane);
	return 0;
}

void tei_tcp_lane_close(struct tcp_lane *lane)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};

	if (lane->fd < 0)
		return;
	tei_tcp_young_remove(lane);
	tei_tcp_cool(lane);
	tei_list_del(&lane->stalled);
	tei_list_del(&lane->asking);
	/* What the kernel still holds of unanswered requests is void. */
	if (lane->n_unanswered)
		(void)setsockopt(lane->fd, SOL_SOCKET, SO_LINGER, &now,
				 sizeof(now));
	/*
	 * A child that has just been forked has the socket too: until it execs,
	 * close() neither ends the connection nor takes it out of epoll.
	 */
	(void)epoll_ctl(lane->rail->epoll_fd, EPOLL_CTL_DEL, lane->fd, NULL);
	tei_tcp_zerocopy_recall(lane);
	(void)shutdown(lane->fd, SHUT_RDWR);
	close(lane->fd);
	lane->fd = -1;
	lane->state = TCP_LANE_CLOSED;
}

/* Not before nobody looks at it any more. */
static void lane_free(struct tcp_lane *lane)
{
	struct tcp_burst *out = lane->out;

	for (uint32_t i = out ? out->at : 0; out && i < out->n; i++) {
		if (out->payload[i].stream == TCP_STREAM_ORPHAN)
			tei_free(out->payload[i].copy);
	}
	tei_free(lane->out);
	tei_free(lane->in);
	tei_free(lane->headers);
	tei_free(lane->backlog);
	tei_free(lane->zerocopy);
	tei_free(lane);
}

void tei_tcp_lane_destroy(struct tcp_lane *lane)
{
	tei_tcp_lane_close(lane);
	assert(tei_list_empty(&lane->reads) && tei_list_empty(&lane->writes));
	assert(tei_list_empty(&lane->sent_reads) &&
	       tei_list_empty(&lane->sent_writes));
	if (lane->rail->in_progress)
		tei_list_add_tail(&lane->rail->dead, &lane->link);
	else
		lane_free(lane);
}

void tei_tcp_lanes_free(struct tcp_rail *rail)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&rail->dead)))
		lane_free(tei_list_entry(node, struct tcp_lane, link));
}

void tei_tcp_lane_fail(struct tcp_lane *lane, int err)
{
	if (lane->ep)
		tei_tcp_endpoint_break(lane->ep, err);
	else
		tei_tcp_lane_destroy(lane);
}

void tei_tcp_lane_bad(struct tcp_lane *lane, const char *what)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	lane->rail->base->bad_frames++;
	if (tei_log_allowed(&limit))
		LOG_INFO("rail tcp/%s: %s: connection closed",
			 lane->rail->base->device.name, what);
	tei_tcp_lane_fail(lane, -EPROTO);
}

static void set_interest(struct tcp_lane *lane, uint32_t interest)
{
	struct epoll_event ev = {.events = interest, .data.ptr = &lane->source};

	if (lane->interest == interest)
		return;
	lane->interest = interest;
	if (epoll_ctl(lane->rail->epoll_fd, EPOLL_CTL_MOD, lane->fd, &ev) < 0)
		tei_tcp_lane_fail(lane, -errno);
}

void tei_tcp_lane_want_out(struct tcp_lane *lane, bool want)
{
	set_interest(lane, (lane->unheard ? 0 : (uint32_t)EPOLLIN) |
				   (want ? (uint32_t)EPOLLOUT : 0));
}

void tei_tcp_lane_listen(struct tcp_lane *lane, bool on)
{
	lane->unheard = !on;
	tei_tcp_lane_want_out(lane, lane->interest & EPOLLOUT);
}

/* Put a hello of 64 bytes where the send path takes it first. */
static void send_hello(struct tcp_lane *lane, enum tcp_op op, int err)
{
	struct tcp_hello h = {.op = (uint8_t)op,
			      .lane = (uint8_t)lane->index,
			      .lanes = (uint8_t)lane->ep->n_lanes,
			      .status = (uint8_t)tei_status_from_errno(err)};

	if (op == TCP_HELLO)
		memcpy(h.token, lane->ep->token, TCP_TOKEN_LEN);
	lane->headers = tei_malloc(TCP_HEAD_LEN);
	if (!lane->headers) {
		tei_tcp_lane_fail(lane, -ENOMEM);
		return;
	}
	tei_tcp_hello_encode(&h, lane->headers);
	lane->headers_at = 0;
	lane->headers_len = TCP_HEAD_LEN;
	tei_tcp_send(lane);
}

static void connected(struct tcp_lane *lane)
{
	int err = 0;
	socklen_t len = sizeof(err);

	if (getsockopt(lane->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		err = errno;
	if (err) {
		tei_tcp_lane_fail(lane, -err);
		return;
	}
	lane->state = TCP_LANE_HELLO;
	send_hello(lane, TCP_HELLO, 0);
}

/* At a target: whose lane is it? */
static void meet(struct tcp_lane *lane, const struct tcp_hello *h)
{
	struct tcp_endpoint *ep;
	struct tcp_backlog *backlog;

	if (h->op != TCP_HELLO) {
		tei_tcp_lane_bad(lane, "hello of another kind");
		return;
	}
	backlog = tei_calloc(1, sizeof(*backlog));
	if (!backlog) {
		tei_tcp_lane_fail(lane, -ENOMEM);
		return;
	}
	ep = tei_tcp_endpoint_claim(lane->rail, h);
	if (!ep) {
		tei_free(backlog);
		tei_tcp_lane_bad(lane, "hello with an unknown token");
		return;
	}
	lane->backlog = backlog;
	lane->ep = ep;
	lane->index = h->lane;
	ep->lanes[h->lane] = lane;
	ep->n_open++;
	lane->state = TCP_LANE_OPEN;
	tei_tcp_young_remove(lane);
	if (ep->n_open == ep->n_lanes)
		tei_endpoint_up(ep->base);
	send_hello(lane, TCP_WELCOME, 0);
}

static void welcomed(struct tcp_lane *lane, const struct tcp_hello *h)
{
	struct tcp_endpoint *ep = lane->ep;

	if (h->op != TCP_WELCOME || h->lane != lane->index) {
		tei_tcp_lane_bad(lane, "welcome of another kind");
		return;
	}
	if (h->status != TEI_STATUS_OK) {
		tei_tcp_lane_fail(lane, tei_status_to_errno(h->status));
		return;
	}
	lane->state = TCP_LANE_OPEN;
	tei_tcp_young_remove(lane);
	if (++ep->n_open == ep->n_lanes)
		tei_endpoint_up(ep->base);
}

static void receive_hello(struct tcp_lane *lane)
{
	struct iovec iov = {lane->head + lane->head_have,
			    TCP_HEAD_LEN - lane->head_have};
	struct tcp_hello h;
	ssize_t n;

	n = tei_tcp_readv(lane, &iov, 1);
	if (n == -EAGAIN)
		return;
	if (n == 0 && !lane->ep && lane->head_have)
		tei_tcp_lane_bad(lane, "end in the middle of a hello");
	else if (n <= 0)
		tei_tcp_lane_fail(lane, n ? (int)n : -ECONNRESET);
	if (n <= 0)
		return;
	lane->head_have += (uint32_t)n;
	if (lane->head_have < TCP_HEAD_LEN)
		return;
	lane->head_have = 0;
	if (!tei_tcp_hello_decode(lane->head, &h))
		tei_tcp_lane_bad(lane, "no hello");
	else if (lane->ep)
		welcomed(lane, &h);
	else
		meet(lane, &h);
}

void tei_tcp_lane_event(struct tcp_lane *lane, uint32_t events)
{
	if (lane->state == TCP_LANE_CONNECTING) {
		connected(lane);
		return;
	}
	if (events & EPOLLERR)
		tei_tcp_zerocopy_hear(lane);
	if (events & ~(uint32_t)EPOLLOUT) {
		if (lane->state == TCP_LANE_HELLO)
			receive_hello(lane);
		else if (tei_tcp_receive(lane) && lane->fd >= 0)
			tei_tcp_heat(lane);
	}
	if (lane->fd >= 0 && (events & EPOLLOUT))
		tei_tcp_send(lane);
}
