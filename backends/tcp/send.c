/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send.c - one vectored write of a lane's plan, and what the kernel took of it
 *
 * Only here does sending change a lane. As soon as one byte of the plan's new
 * block is on its way the whole block is true: its headers' rest is kept as a
 * headers, and its payload is announced and must follow.
 */
#include "backends/tcp/tcp.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"

/* ---- payload that has gone ---- */

static void orphan_sent(struct tcp_lane *lane, struct tcp_payload *payload)
{
	lane->stalled_ms = tei_now_ms();
	if (payload->left)
		return;
	tei_free(payload->copy);
	if (!--lane->n_orphans)
		tei_list_del(&lane->stalled);
}

static void payload_sent(struct tcp_lane *lane, struct tcp_payload *payload,
			 uint64_t n)
{
	payload->left -= n;
	switch (payload->stream) {
	case TCP_STREAM_SLICE:
		if (lane->zerocopy && lane->zerocopy->sending) {
			tcp_slice(payload->slice)->lent = true;
			tcp_slice(payload->slice)->lent_by =
				lane->zerocopy->next - 1;
		}
		tei_tcp_pass(payload->slice, n);
		break;
	case TCP_STREAM_REGION:
		payload->address += n;
		break;
	default:
		payload->copy_at += n;
		orphan_sent(lane, payload);
		break;
	}
}

static void bytes_sent(struct tcp_lane *lane, uint64_t n)
{
	struct tcp_burst *out = lane->out;

	if (!n)
		return;
	atomic_fetch_add_explicit(&lane->rail->base->sent_bytes, n,
				  memory_order_relaxed);
	while (n) {
		struct tcp_payload *payload = &out->payload[out->at];
		uint64_t part = payload->left < n ? payload->left : n;

		payload_sent(lane, payload, part);
		if (!payload->left)
			out->at++;
		n -= part;
	}
	if (out->at == out->n)
		out->at = out->n = 0;
}

/* ---- the new block has become true ---- */

static void to_sent(struct tei_list *list, struct tei_slice *slice)
{
	tcp_slice(slice)->sent = true;
	tei_list_del(&slice->link);
	tei_list_add_tail(list, &slice->link);
}

static void asked(struct tcp_lane *lane, uint32_t n)
{
	for (; n; n--) {
		struct tei_slice *slice = tei_list_entry(
			lane->reads.next, struct tei_slice, link);

		tcp_slice(slice)->id = lane->next_id++;
		to_sent(&lane->sent_reads, slice);
	}
}

static void announce(struct tcp_lane *lane, const struct tcp_payload *payload)
{
	struct tcp_slice *s;

	if (payload->stream == TCP_STREAM_REGION) {
		read_sent(lane->backlog, payload->left);
		return;
	}
	s = tcp_slice(payload->slice);
	if (!s->id)
		lane->next_id = payload->id + 1;
	s->id = payload->id;
	tei_tcp_skip(payload->slice, &s->announced, payload->left);
	if (s->announced.at == payload->slice->length)
		to_sent(&lane->sent_writes, payload->slice);
}

static void append(struct tcp_burst *out, const struct tcp_burst *burst)
{
	uint32_t n = out->n - out->at;

	if (out->at && n)
		memmove(out->payload, out->payload + out->at,
			n * sizeof(*out->payload));
	memcpy(out->payload + n, burst->payload,
	       burst->n * sizeof(*out->payload));
	out->at = 0;
	out->n = n + burst->n;
}

static void commit(struct tcp_lane *lane, const struct tcp_plan *p)
{
	if (p->abort_id)
		lane->abort_id = 0;
	if (p->n_answers)
		answers_sent(lane->backlog, p->n_answers);
	asked(lane, p->n_asked);
	for (uint32_t i = 0; i < p->burst.n; i++)
		announce(lane, &p->burst.payload[i]);
	if (p->burst.n)
		append(lane->out, &p->burst);
}

/* ---- what the kernel took ---- */

static void headers_sent(struct tcp_lane *lane, size_t n)
{
	lane->headers_at += (uint32_t)n;
	lane->headers_len -= (uint32_t)n;
	if (lane->headers_len)
		return;
	tei_free(lane->headers);
	lane->headers = NULL;
}

static int keep_headers(struct tcp_lane *lane, const void *bytes, size_t len)
{
	lane->headers = tei_malloc(len);
	if (!lane->headers)
		return -ENOMEM;
	memcpy(lane->headers, bytes, len);
	lane->headers_at = 0;
	lane->headers_len = (uint32_t)len;
	return 0;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The first @n bytes of the plan are on their way. -ENOMEM. */
static int took(struct tcp_lane *lane, const struct tcp_plan *p, size_t n)
{
	size_t headers = p->n_headers * (size_t)TCP_HEAD_LEN;
	size_t old = smaller(n, p->old_bytes);
	size_t part = smaller(old, lane->headers_len);

	n -= old;
	if (part)
		headers_sent(lane, part);
	bytes_sent(lane, old - part);
	if (!n)
		return 0;
	commit(lane, p);
	part = smaller(n, headers);
	bytes_sent(lane, n - part);
	if (part == headers)
		return 0;
	return keep_headers(lane, (const uint8_t *)p->headers + part,
			    headers - part);
}

static ssize_t transmit(struct tcp_lane *lane, const struct tcp_plan *p)
{
	struct msghdr msg = {
		.msg_iov = (struct iovec *)(uintptr_t)p->iov,
		.msg_iovlen = p->n_iov,
	};
	int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (p->headless ? MSG_MORE : 0);
	ssize_t n;

	if (tei_fault_check(TEI_FAULT_IO))
		return -ECONNRESET;
	do
		n = p->lends ? tei_tcp_lend(lane, &msg)
			     : sendmsg(lane->fd, &msg, flags);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return n;
	return errno == EAGAIN ? 0 : -errno;
}

/* Room for what the plan is about to announce. */
static int make_room(struct tcp_lane *lane, const struct tcp_plan *p)
{
	if (!p->burst.n || lane->out)
		return 0;
	lane->out = tei_malloc(sizeof(*lane->out));
	if (!lane->out)
		return -ENOMEM;
	lane->out->at = lane->out->n = 0;
	return 0;
}

/* *@n: bytes that the kernel took, fewer than plan->bytes when it is full. */
static int send_plan(struct tcp_lane *lane, ssize_t *n)
{
	struct tcp_plan *p = lane->rail->plan;
	int rc;

	rc = tei_tcp_plan(lane);
	if (!rc)
		rc = make_room(lane, p);
	*n = !rc && p->bytes ? transmit(lane, p) : 0;
	if (*n == -EFAULT) {
		rc = tei_tcp_gone_out(lane);
		*n = 0;
	}
	if (lane->backlog)
		tei_tcp_pins_release(lane);
	if (rc < 0 || *n < 0)
		return rc < 0 ? rc : (int)*n;
	rc = took(lane, p, (size_t)*n);
	if (lane->zerocopy)
		lane->zerocopy->sending = false;
	return rc;
}

static int send_once(struct tcp_lane *lane, ssize_t *n)
{
	int rc = send_plan(lane, n);

	if (!rc && lane->rail->plan->headless && !lane->headers_len)
		rc = send_plan(lane, n);
	return rc;
}

/*
 * What wants a checksum goes in pieces. Some of them in a row cost less than
 * to ask between any two whether there is room.
 */
static int send_pieces(struct tcp_lane *lane)
{
	uint64_t chunk = tcp_config(lane->rail)->send_chunk, sent = 0;
	ssize_t n = 0;
	int rc;

	do {
		rc = send_once(lane, &n);
		sent += rc < 0 ? 0 : (uint64_t)n;
	} while (!rc && n && (size_t)n == lane->rail->plan->bytes &&
		 sent < chunk && tei_tcp_has_more(lane));
	return rc;
}

void tei_tcp_send(struct tcp_lane *lane)
{
	int rc;

	answer_refused_reads(lane);
	if (tei_tcp_has_more(lane)) {
		rc = send_pieces(lane);
		if (rc < 0) {
			tei_tcp_lane_fail(lane, rc);
			return;
		}
	}
	tei_tcp_lane_want_out(lane, tei_tcp_has_more(lane));
}
