/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.c - the tcp backend: endpoints, their connections and slices
 *
 * Gives one-sided semantics over ordinary sockets: the target's engine checks
 * and applies what the initiator asks for, and answers once it is applied.
 *
 * An endpoint has a few lanes, each one TCP connection. A target's endpoint is
 * known by a random token until all its lanes have come; the token travels over
 * the control connection, which knows the peer.
 *
 *   initiator: CONNECTING --connected, HELLO queued--> HELLO --WELCOME--> OPEN
 *   target:    accepted --> HELLO --HELLO, WELCOME queued--> OPEN
 *   any state --error, end of stream, bad bytes, too slow--> CLOSED
 *
 * A slice is queued on a lane by post() and ends when it is answered, when it
 * is cancelled, or with its endpoint.
 */
#include "backends/tcp/tcp.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include <te/te.h>

#define WINDOW_BYTES (8u << 20)  /* unanswered; but one request at least */
#define EXPRESS_LEN  (16u << 10) /* up to here it is no bulk */
#define OVERTAKE_MAX 16          /* then who has waited goes first */

static const struct tei_setting settings[] = {
	{TEI_SETTING_AS(struct tcp_config, devices, "tcp.devices"),
	 .type = TEI_CONF_STRING,
	 .help = "interfaces or own addresses, each a rail, or all; default: one "
		 "rail, and the kernel routes"},
	{TEI_SETTING_AS(struct tcp_config, lanes, "tcp.lanes"),
	 .type = TEI_CONF_UINT, .def = "2", .min = 1, .max = TCP_LANES_MAX,
	 .help = "connections between two rails; the last is for small requests"},
	{TEI_SETTING_AS(struct tcp_config, port, "tcp.port"),
	 .type = TEI_CONF_UINT, .def = "0", .max = 65535,
	 .help = "data port; 0: the kernel chooses"},
	{TEI_SETTING_AS(struct tcp_config, connect_timeout,
			"tcp.connect_timeout"),
	 .expert = true, .type = TEI_CONF_DURATION, .def = "2s", .min = 10,
	 .max = 600000, .help = "for a lane to connect and be welcomed"},
	{TEI_SETTING_AS(struct tcp_config, sndbuf, "tcp.sndbuf"),
	 .expert = true, .type = TEI_CONF_SIZE, .def = "0", .unit = "bytes",
	 .max = 1 << 30,
	 .help = "send buffer of a lane; 0: the kernel tunes it"},
	{TEI_SETTING_AS(struct tcp_config, rcvbuf, "tcp.rcvbuf"),
	 .expert = true, .type = TEI_CONF_SIZE, .def = "0", .unit = "bytes",
	 .max = 1 << 30,
	 .help = "receive buffer of a lane; 0: the kernel tunes it"},
	{TEI_SETTING_AS(struct tcp_config, congestion, "tcp.congestion"),
	 .expert = true, .type = TEI_CONF_STRING, .def = "cubic",
	 .help = "congestion control; the system's where refused, or if empty"},
	{TEI_SETTING_AS(struct tcp_config, stall_timeout, "tcp.stall_timeout"),
	 .expert = true, .type = TEI_CONF_DURATION, .def = "30s", .min = 10,
	 .max = 600000,
	 .help = "for a peer to take the rest of a cancelled frame, or copies of a GPU's memory that it reads"},
	{TEI_SETTING_AS(struct tcp_config, unresponsive_timeout,
			"tcp.deaf_timeout"),
	 .expert = true, .type = TEI_CONF_DURATION, .def = "2s", .min = 1000,
	 .max = 600000,
	 .help = "for the peer's kernel to show life while requests are unanswered"},
	{TEI_SETTING_AS(struct tcp_config, busy_poll, "tcp.busy_poll"),
	 .expert = true, .type = TEI_CONF_UINT, .def = "0", .unit = "us",
	 .max = 1000,
	 .help = "the kernel asks the device that long (SO_BUSY_POLL)"},
	{TEI_SETTING_AS(struct tcp_config, zerocopy, "tcp.zerocopy"),
	 .expert = true, .type = TEI_CONF_SIZE, .def = "0", .unit = "bytes",
	 .max = 64 << 20,
	 .help = "writes of so many are not copied for the kernel, where that takes less time, as is measured; 0: all are"},
	{TEI_SETTING_AS(struct tcp_config, frame, "tcp.frame"), .expert = true,
	 .type = TEI_CONF_SIZE, .def = "256k", .unit = "bytes", .min = 4096,
	 .max = TCP_FRAME_MAX, .help = "most payload of one frame"},
	{TEI_SETTING_AS(struct tcp_config, send_chunk, "tcp.send_chunk"),
	 .expert = true, .type = TEI_CONF_SIZE, .def = "1m", .unit = "bytes",
	 .min = 4096, .max = 64 << 20,
	 .help = "about as much is handed to the kernel at once"},
};

static bool opens_once(const void *config)
{
	return ((const struct tcp_config *)config)->port != 0;
}

/* ---- connecting ---- */

static int endpoint_open(struct tei_endpoint *base, void *addr, size_t *len)
{
	struct tcp_endpoint *ep = tcp_endpoint(base);
	struct tcp_rail *rail = tcp_rail(base->rail);
	struct tcp_address a;

	if (*len < TCP_ADDRESS_LEN)
		return -ENOBUFS;
	if (getrandom(ep->token, TCP_TOKEN_LEN, 0) != TCP_TOKEN_LEN)
		return -EIO;
	ep->base = base;
	ep->n_lanes = (uint32_t)tcp_config(rail)->lanes;
	tei_list_init(&ep->waiting);
	tei_list_init(&ep->broken_link);
	tei_list_init(&ep->quieting);
	if (base->target)
		tei_list_add_tail(&rail->waiting, &ep->waiting);
	a.port = rail->port;
	a.lanes = (uint8_t)ep->n_lanes;
	a.network = rail->network;
	memcpy(a.token, ep->token, TCP_TOKEN_LEN);
	tei_tcp_address_encode(&a, addr);
	*len = TCP_ADDRESS_LEN;
	return 0;
}

/* Payload may be sent without a copy where the settings and kernel want it. */
static void open_zerocopy(struct tcp_lane *lane)
{
	struct tcp_zerocopy *z;
	int on = 1;

	if (!tcp_config(lane->rail)->zerocopy ||
	    setsockopt(lane->fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)))
		return;
	z = tei_calloc(1, sizeof(*z));
	if (!z)
		return; /* it only tunes */
	tei_list_init(&z->deferred);
	lane->zerocopy = z;
}

static int connect_lane(struct tcp_endpoint *ep, uint32_t index,
			const struct tei_address *to)
{
	struct tcp_rail *rail = tcp_rail(ep->base->rail);
	int fd = tei_tcp_connect(rail, to);
	struct tcp_lane *lane;

	if (fd < 0)
		return fd;
	lane = tei_tcp_lane_create(rail, fd, TCP_LANE_CONNECTING);
	if (!lane)
		return -ENOMEM;
	lane->ep = ep;
	lane->index = index;
	ep->lanes[index] = lane;
	open_zerocopy(lane);
	return 0;
}

static struct tei_address address_of(const struct tcp_network *network)
{
	struct tei_address to = {.len = sizeof(struct sockaddr_in6)};
	struct sockaddr_in6 *in6 = (void *)&to.ss;
	struct sockaddr_in *in = (void *)&to.ss;

	if (network->family == 6) {
		in6->sin6_family = AF_INET6;
		memcpy(&in6->sin6_addr, network->ip, sizeof(in6->sin6_addr));
		return to;
	}
	to.len = sizeof(*in);
	in->sin_family = AF_INET;
	memcpy(&in->sin_addr, network->ip, sizeof(in->sin_addr));
	return to;
}

static int endpoint_connect(struct tei_endpoint *base, const void *addr,
			    size_t len)
{
	struct tcp_endpoint *ep = tcp_endpoint(base);
	struct tei_address to = base->peer;
	struct tcp_address a;
	int rc;

	if (len != TCP_ADDRESS_LEN || !tei_tcp_address_decode(addr, &a))
		return -EPROTO;
	if (a.lanes < ep->n_lanes)
		ep->n_lanes = a.lanes;
	if (base->target)
		return -EINPROGRESS; /* until the last lane has come */
	memcpy(ep->token, a.token, TCP_TOKEN_LEN);
	if (a.network.family)
		to = address_of(&a.network);
	tei_address_set_port(&to, a.port);
	for (uint32_t i = 0; i < ep->n_lanes; i++) {
		rc = connect_lane(ep, i, &to);
		if (rc < 0) {
			tei_tcp_lanes_close(ep);
			return rc;
		}
	}
	return -EINPROGRESS;
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

static void finish_connect(struct tcp_lane *lane)
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

/*
 * The target's endpoint that waits for this lane, or NULL. A lane is taken
 * once.
 */
static struct tcp_endpoint *claim_endpoint(struct tcp_rail *rail,
					   const struct tcp_hello *h)
{
	tei_list_for_each (pos, &rail->waiting) {
		struct tcp_endpoint *ep =
			tei_list_entry(pos, struct tcp_endpoint, waiting);

		if (CRYPTO_memcmp(ep->token, h->token, TCP_TOKEN_LEN))
			continue;
		if (h->lanes > ep->n_lanes || ep->lanes[h->lane])
			return NULL;
		/* The initiator may want fewer than it could have. */
		ep->n_lanes = h->lanes;
		if (ep->n_open + 1 == ep->n_lanes)
			tei_list_del(&ep->waiting);
		return ep;
	}
	return NULL;
}

/* The lane may carry slices; with its last lane the endpoint is up. */
static void open_lane(struct tcp_lane *lane)
{
	struct tcp_endpoint *ep = lane->ep;

	lane->state = TCP_LANE_OPEN;
	tei_tcp_lane_opened(lane);
	if (++ep->n_open == ep->n_lanes)
		tei_endpoint_up(ep->base);
}

/* Take the hello of an accepted connection: it says whose lane it is. */
static void take_hello(struct tcp_lane *lane, const struct tcp_hello *h)
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
	ep = claim_endpoint(lane->rail, h);
	if (!ep) {
		tei_free(backlog);
		tei_tcp_lane_bad(lane, "hello with an unknown token");
		return;
	}
	lane->backlog = backlog;
	lane->ep = ep;
	lane->index = h->lane;
	ep->lanes[h->lane] = lane;
	open_lane(lane);
	send_hello(lane, TCP_WELCOME, 0);
}

/* Take the target's welcome, or its reason to refuse the lane. */
static void take_welcome(struct tcp_lane *lane, const struct tcp_hello *h)
{
	if (h->op != TCP_WELCOME || h->lane != lane->index)
		tei_tcp_lane_bad(lane, "welcome of another kind");
	else if (h->status != TEI_STATUS_OK)
		tei_tcp_lane_fail(lane, tei_status_to_errno(h->status));
	else
		open_lane(lane);
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
		take_welcome(lane, &h);
	else
		take_hello(lane, &h);
}

bool tei_tcp_lane_event(struct tcp_lane *lane, uint32_t events)
{
	bool has_brought = false;

	if (lane->state == TCP_LANE_CONNECTING) {
		finish_connect(lane);
		return false;
	}
	if (lane->paused && (events & EPOLLHUP)) { /* it is not read */
		tei_tcp_lane_fail(lane, -ECONNRESET);
		return false;
	}
	if (events & EPOLLERR)
		(void)tei_tcp_deferred_end(lane);
	if (lane->fd >= 0 && (events & ~(uint32_t)EPOLLOUT)) {
		if (lane->state == TCP_LANE_HELLO)
			receive_hello(lane);
		else
			has_brought = tei_tcp_receive(lane) > 0;
	}
	if (lane->fd >= 0 && (events & EPOLLOUT))
		tei_tcp_send(lane);
	return has_brought && lane->fd >= 0;
}

/* Describe the first lane; the others go the same way. */
static void endpoint_way(const struct tei_endpoint *base, char *out,
			 size_t room)
{
	const struct tcp_lane *lane = tcp_endpoint(base)->lanes[0];
	struct tei_address here, there;
	char from[TEI_NAME_LEN_MAX + 1], to[TEI_NAME_LEN_MAX + 1];
	socklen_t len = sizeof(int);
	int segment = 0;

	*out = '\0';
	if (!lane || !tei_socket_ends(lane->fd, &here, &there))
		return;
	(void)getsockopt(lane->fd, IPPROTO_TCP, TCP_MAXSEG, &segment, &len);
	tei_address_text(&here, from);
	tei_address_text(&there, to);
	(void)snprintf(out, room, "%s to %s, packets of %d bytes, %u lanes",
		       from, to, segment, tcp_endpoint(base)->n_lanes);
}

/* ---- posting ---- */

/* Bytes of bulk do not keep out a slice that is small or urgent. */
static bool has_room(const struct tcp_lane *lane, bool express)
{
	return !lane->n_unanswered ||
	       (lane->n_unanswered < TCP_WINDOW &&
		(express || lane->bytes_unanswered < WINDOW_BYTES));
}

/* Slices that must not wait behind megabytes in the kernel's buffers. */
static bool is_express(const struct tei_slice *slice)
{
	if (slice->priority == TE_PRIORITY_NORMAL)
		return slice->length <= EXPRESS_LEN;
	return slice->priority == TE_PRIORITY_URGENT;
}

/*
 * Choose the last of several lanes for what is small or urgent, else the one of
 * the others with the least to do. NULL: there is no room.
 */
static struct tcp_lane *choose_lane(const struct tcp_endpoint *ep,
				    const struct tei_slice *slice)
{
	uint32_t from = 0, to = ep->n_lanes;
	bool express = is_express(slice);
	struct tcp_lane *best = NULL;

	if (to > 1 && express)
		from = to - 1;
	else if (to > 1)
		to--;
	for (uint32_t i = from; i < to; i++) {
		struct tcp_lane *lane = ep->lanes[i];

		if (!has_room(lane, express))
			continue;
		if (!best || lane->bytes_unanswered < best->bytes_unanswered)
			best = lane;
	}
	return best;
}

static int queue_rank(const struct tei_slice *slice)
{
	switch (slice->priority) {
	case TE_PRIORITY_URGENT:
		return 0;
	case TE_PRIORITY_BULK:
		return 2;
	default:
		return 1;
	}
}

/*
 * Queue the slice behind those that go first; what has begun goes on, for
 * WRITEs do not mix. Now and then nobody is overtaken.
 */
static void insert_slice(struct tcp_lane *lane, struct tei_list *queue,
			 struct tei_slice *slice)
{
	struct tei_list *after = queue->prev;

	while (after != queue && lane->n_overtakes < OVERTAKE_MAX) {
		struct tei_slice *other =
			tei_list_entry(after, struct tei_slice, link);

		if (queue_rank(other) <= queue_rank(slice) ||
		    tcp_slice(other)->id)
			break;
		after = after->prev;
	}
	if (after == queue->prev)
		lane->n_overtakes = 0;
	else
		lane->n_overtakes++;
	tei_list_insert(after, &slice->link);
}

static void queue_slice(struct tcp_lane *lane, struct tei_slice *slice)
{
	struct tcp_slice *s = tcp_slice(slice);

	s->lane = lane;
	s->id = 0;
	s->sent = false;
	s->lent = false;
	s->passed = (struct tcp_cursor){.offset = slice->skip};
	s->announced = s->passed;
	insert_slice(lane, slice->op == TEI_READ ? &lane->reads : &lane->writes,
		     slice);
	if (tei_list_empty(&lane->timed)) {
		lane->quiet_ms = tei_now_ms();
		lane->n_answered = lane->n_requests - lane->n_unanswered;
		tei_tcp_lane_watch_time(lane);
	}
	lane->n_requests++;
	lane->n_unanswered++;
	lane->bytes_unanswered += slice->length;
}

/* The slice cannot be carried; done(-EFAULT) comes from progress(). */
static void refuse_slice(struct tcp_rail *rail, struct tei_slice *slice)
{
	tcp_slice(slice)->lane = NULL;
	slice->provider_code = EFAULT;
	tei_list_add_tail(&rail->refused, &slice->link);
	tei_tcp_signal(rail);
}

/* Start what post() or cancel() has queued; a full socket starts itself. */
static void send_lanes(struct tcp_endpoint *ep)
{
	for (uint32_t i = 0; i < ep->n_lanes && !ep->broken; i++) {
		if (!(ep->lanes[i]->interest & EPOLLOUT))
			tei_tcp_send(ep->lanes[i]);
	}
}

static int post_slices(struct tei_endpoint *base,
		       struct tei_slice *const slices[], int n)
{
	struct tcp_endpoint *ep = tcp_endpoint(base);
	struct tcp_lane *lane;
	int taken;

	if (ep->broken)
		return ep->broken;
	for (taken = 0; taken < n; taken++) {
		if (slices[taken]->key_len != TCP_KEY_LEN) {
			refuse_slice(tcp_rail(base->rail), slices[taken]);
			continue;
		}
		lane = choose_lane(ep, slices[taken]);
		if (!lane)
			break;
		queue_slice(lane, slices[taken]);
	}
	send_lanes(ep);
	return taken;
}

/* ---- the end of a slice ---- */

/* Drain payload that comes in for the slice from now on. */
static void drain_payloads(struct tcp_burst *in, const struct tei_slice *slice)
{
	for (uint32_t i = in->at; i < in->n; i++) {
		struct tcp_payload *payload = &in->payload[i];

		if (payload->stream == TCP_STREAM_SLICE &&
		    payload->slice == slice)
			payload->stream = TCP_STREAM_ORPHAN;
	}
}

static int orphan_payload(struct tcp_lane *lane, struct tcp_payload *payload,
			  struct tcp_cursor *c, bool mapped)
{
	uint8_t *copy = tei_calloc(1, payload->left);
	uint64_t at = 0;
	struct iovec run;
	uint32_t n;

	if (!copy)
		return -ENOMEM;
	for (; mapped && at < payload->left; at += run.iov_len) {
		tei_tcp_gather(payload->slice, c, payload->left - at, &run, 1,
			       &n);
		memcpy(copy + at, run.iov_base, run.iov_len);
	}
	payload->stream = TCP_STREAM_ORPHAN;
	payload->copy = copy;
	payload->copy_at = 0;
	tei_tcp_lane_owes(lane);
	return 0;
}

/*
 * Payload that has been announced must follow, so it is copied; zeros will do
 * where its memory is not @mapped.
 */
static int orphan_payloads(struct tcp_lane *lane, const struct tei_slice *slice,
			   bool mapped)
{
	struct tcp_cursor c = tcp_slice(slice)->passed;
	struct tcp_burst *out = lane->out;
	int rc = 0;

	for (uint32_t i = out->at; i < out->n && !rc; i++) {
		struct tcp_payload *payload = &out->payload[i];

		if (payload->stream == TCP_STREAM_SLICE &&
		    payload->slice == slice)
			rc = orphan_payload(lane, payload, &c, mapped);
	}
	return rc;
}

/*
 * The slice leaves its lane: what was announced of it still goes out, from a
 * copy, and what comes in for it is drained. Without memory for the copy the
 * endpoint breaks.
 */
static void leave_lane(struct tcp_lane *lane, const struct tei_slice *slice,
		       bool mapped)
{
	int rc = 0;

	if (lane->fd < 0)
		return;
	if (lane->in)
		drain_payloads(lane->in, slice);
	if (lane->out)
		rc = orphan_payloads(lane, slice, mapped);
	if (rc < 0)
		tei_tcp_endpoint_break(lane->ep, rc);
}

static void end_slice(struct tei_slice *slice, int err, uint64_t bytes)
{
	struct tcp_lane *lane = tcp_slice(slice)->lane;

	if (err) {
		if (!tei_tcp_is_quiet(slice))
			tei_tcp_endpoint_break(lane->ep, err);
		leave_lane(lane, slice, true);
		slice->provider_code = -err;
	}
	tei_list_del(&slice->link);
	lane->bytes_unanswered -= slice->length;
	tei_slice_done(slice, err, bytes);
}

void tei_tcp_slice_answered(struct tei_slice *slice, int err)
{
	if (tei_tcp_is_quiet(slice)) {
		end_slice(slice, err, err ? 0 : slice->length);
		return;
	}
	if (err)
		leave_lane(tcp_slice(slice)->lane, slice, true);
	tei_tcp_defer(slice, err);
}

/* The peer will not answer it, or has to be sent an abort. */
static void withdraw_slice(struct tcp_lane *lane, const struct tcp_slice *s)
{
	if (!s->id)
		lane->n_unanswered--; /* the peer never hears of it */
	else if (!s->sent)
		lane->abort_id = s->id;
}

void tei_tcp_slice_unmapped(struct tei_slice *slice)
{
	struct tcp_lane *lane = tcp_slice(slice)->lane;

	withdraw_slice(lane, tcp_slice(slice));
	leave_lane(lane, slice, false);
	tei_list_del(&slice->link);
	lane->bytes_unanswered -= slice->length;
	refuse_slice(lane->rail, slice);
}

static void cancel_slice(struct tei_endpoint *base, struct tei_slice *slice)
{
	struct tcp_slice *s = tcp_slice(slice);
	struct tcp_lane *lane = s->lane;

	if (!lane) { /* refused by post() */
		tei_list_del(&slice->link);
		tei_slice_done(slice, -ECANCELED, 0);
		return;
	}
	withdraw_slice(lane, s);
	end_slice(slice, -ECANCELED, 0);
	if (lane->abort_id)
		send_lanes(tcp_endpoint(base));
}

/* ---- the end of an endpoint ---- */

static void end_slices(struct tei_list *slices, int err)
{
	while (!tei_list_empty(slices))
		end_slice(tei_list_entry(slices->next, struct tei_slice, link),
			  err, 0);
}

static void end_refused(struct tei_endpoint *base, int err)
{
	struct tcp_rail *rail = tcp_rail(base->rail);

	tei_list_for_each_safe (pos, tmp, &rail->refused) {
		struct tei_slice *slice =
			tei_list_entry(pos, struct tei_slice, link);

		if (slice->ep != base)
			continue;
		tei_list_del(pos);
		tei_slice_done(slice, err, 0);
	}
}

static int endpoint_flush(struct tei_endpoint *base, int err)
{
	struct tcp_endpoint *ep = tcp_endpoint(base);

	tei_tcp_lanes_close(ep);
	if (!ep->broken)
		ep->broken = err;
	tei_list_del(&ep->broken_link);
	for (uint32_t i = 0; i < TCP_LANES_MAX; i++) {
		struct tcp_lane *lane = ep->lanes[i];

		if (!lane)
			continue;
		(void)tei_tcp_deferred_end(lane);
		end_slices(&lane->sent_writes, err);
		end_slices(&lane->sent_reads, err);
		end_slices(&lane->writes, err);
		end_slices(&lane->reads, err);
	}
	end_refused(base, err);
	return tei_tcp_await_quiet(ep, true) ? -EINPROGRESS : 0;
}

static int endpoint_drop(struct tei_endpoint *base)
{
	struct tcp_endpoint *ep = tcp_endpoint(base);

	ep->dropped = true;
	tei_list_del(&ep->broken_link);
	tei_tcp_lanes_close(ep);
	return tei_tcp_await_quiet(ep, false) ? -EINPROGRESS : 0;
}

static void endpoint_close(struct tei_endpoint *base)
{
	struct tcp_endpoint *ep = tcp_endpoint(base);

	tei_list_del(&ep->waiting);
	tei_list_del(&ep->broken_link);
	tei_list_del(&ep->quieting);
	for (uint32_t i = 0; i < TCP_LANES_MAX; i++) {
		if (ep->lanes[i])
			tei_tcp_lane_destroy(ep->lanes[i]);
		ep->lanes[i] = NULL;
	}
}

/* ---- the table ---- */

/* The target checks each access by the id alone, so there is nothing to do. */
static int region_add(struct tei_rail *rail, uint64_t id, void *addr,
		      uint64_t length, uint32_t access, void *key, size_t *len)
{
	struct tei_writer w;

	(void)rail;
	(void)addr;
	(void)length;
	(void)access;
	tei_writer_init(&w, key, *len);
	tei_write_u64(&w, id);
	if (w.bad)
		return -ENOBUFS;
	*len = TCP_KEY_LEN;
	return 0;
}

static void region_remove(struct tei_rail *rail, uint64_t id)
{
	(void)rail;
	(void)id;
}

static int rail_describe(struct tei_rail *rail, void *blob, size_t *len)
{
	if (*len < TCP_NETWORK_LEN)
		return -ENOBUFS;
	tei_tcp_network_encode(&tcp_rail(rail)->network, blob);
	*len = TCP_NETWORK_LEN;
	return 0;
}

static int wait_fd(struct tei_rail *rail)
{
	return tcp_rail(rail)->epoll_fd;
}

extern const struct tei_backend_ops tei_backend_tcp;
const struct tei_backend_ops tei_backend_tcp = {
	.name = "tcp",
	.abi = TEI_BACKEND_ABI,
	.caps = TEI_CAP_REMOTE | TEI_CAP_COPIES,
	.rail_size = sizeof(struct tcp_rail),
	.endpoint_size = sizeof(struct tcp_endpoint),
	.slice_size = sizeof(struct tcp_slice),
	.settings = settings,
	.n_settings = sizeof(settings) / sizeof(settings[0]),
	.config_size = sizeof(struct tcp_config),
	.probe = tei_tcp_probe,
	.opens_once = opens_once,
	.rail_open = tei_tcp_rail_open,
	.rail_close = tei_tcp_rail_close,
	.rail_describe = rail_describe,
	.rail_match = tei_tcp_rail_match,
	.region_add = region_add,
	.region_remove = region_remove,
	.endpoint_open = endpoint_open,
	.endpoint_connect = endpoint_connect,
	.endpoint_way = endpoint_way,
	.endpoint_close = endpoint_close,
	.post = post_slices,
	.cancel = cancel_slice,
	.flush = endpoint_flush,
	.drop = endpoint_drop,
	.progress = tei_tcp_progress,
	.wait_fd = wait_fd,
	.arm = tei_tcp_arm,
};
