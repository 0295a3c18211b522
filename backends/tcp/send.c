/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send.c - one vectored write of a lane's plan, and what the kernel took of it
 *
 * Only here does sending change a lane. As soon as one byte of the plan's new
 * block is on its way the whole block is true: its headers' rest is kept as a
 * stub, and its payload is announced and must follow.
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

static void orphan_sent(struct tcp_lane *lane, struct tcp_car *car)
{
	lane->stalled_ms = tei_now_ms();
	if (car->left)
		return;
	tei_free(car->copy);
	if (!--lane->n_orphans)
		tei_list_del(&lane->stalled);
}

static void car_sent(struct tcp_lane *lane, struct tcp_car *car, uint64_t n)
{
	car->left -= n;
	switch (car->stream) {
	case TCP_STREAM_SLICE:
		if (lane->zerocopy && lane->zerocopy->sending) {
			tcp_slice(car->slice)->lent = true;
			tcp_slice(car->slice)->lent_by =
				lane->zerocopy->next - 1;
		}
		tei_tcp_pass(car->slice, n);
		break;
	case TCP_STREAM_REGION:
		car->address += n;
		break;
	default:
		car->copy_at += n;
		orphan_sent(lane, car);
		break;
	}
}

static void payload_sent(struct tcp_lane *lane, uint64_t n)
{
	struct tcp_train *out = lane->out;

	if (!n)
		return;
	atomic_fetch_add_explicit(&lane->rail->base->sent_bytes, n,
				  memory_order_relaxed);
	while (n) {
		struct tcp_car *car = &out->car[out->at];
		uint64_t part = car->left < n ? car->left : n;

		car_sent(lane, car, part);
		if (!car->left)
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

static void announce(struct tcp_lane *lane, const struct tcp_car *car)
{
	struct tcp_slice *s;

	if (car->stream == TCP_STREAM_REGION) {
		tei_tcp_read_sent(lane->debts, car->left);
		return;
	}
	s = tcp_slice(car->slice);
	if (!s->id)
		lane->next_id = car->id + 1;
	s->id = car->id;
	tei_tcp_skip(car->slice, &s->announced, car->left);
	if (s->announced.at == car->slice->length)
		to_sent(&lane->sent_writes, car->slice);
}

static void append(struct tcp_train *out, const struct tcp_train *train)
{
	uint32_t n = out->n - out->at;

	if (out->at && n)
		memmove(out->car, out->car + out->at, n * sizeof(*out->car));
	memcpy(out->car + n, train->car, train->n * sizeof(*out->car));
	out->at = 0;
	out->n = n + train->n;
}

static void commit(struct tcp_lane *lane, const struct tcp_plan *p)
{
	if (p->abort_id)
		lane->abort_id = 0;
	if (p->n_answers)
		tei_tcp_answers_sent(lane->debts, p->n_answers);
	asked(lane, p->n_asks);
	for (uint32_t i = 0; i < p->train.n; i++)
		announce(lane, &p->train.car[i]);
	if (p->train.n)
		append(lane->out, &p->train);
}

/* ---- what the kernel took ---- */

static void stub_sent(struct tcp_lane *lane, size_t n)
{
	lane->stub_at += (uint32_t)n;
	lane->stub_len -= (uint32_t)n;
	if (lane->stub_len)
		return;
	tei_free(lane->stub);
	lane->stub = NULL;
}

static int keep_stub(struct tcp_lane *lane, const void *bytes, size_t len)
{
	lane->stub = tei_malloc(len);
	if (!lane->stub)
		return -ENOMEM;
	memcpy(lane->stub, bytes, len);
	lane->stub_at = 0;
	lane->stub_len = (uint32_t)len;
	return 0;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The first @n bytes of the plan are on their way. -ENOMEM. */
static int took(struct tcp_lane *lane, const struct tcp_plan *p, size_t n)
{
	size_t heads = p->n_heads * (size_t)TCP_HEAD_LEN;
	size_t old = smaller(n, p->old_bytes);
	size_t part = smaller(old, lane->stub_len);

	n -= old;
	if (part)
		stub_sent(lane, part);
	payload_sent(lane, old - part);
	if (!n)
		return 0;
	commit(lane, p);
	part = smaller(n, heads);
	payload_sent(lane, n - part);
	if (part == heads)
		return 0;
	return keep_stub(lane, (const uint8_t *)p->heads + part, heads - part);
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
	if (!p->train.n || lane->out)
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
	if (lane->debts)
		tei_tcp_holds_release(lane);
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

	if (!rc && lane->rail->plan->headless && !lane->stub_len)
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

	tei_tcp_settle_refused(lane);
	if (tei_tcp_has_more(lane)) {
		rc = send_pieces(lane);
		if (rc < 0) {
			tei_tcp_lane_fail(lane, rc);
			return;
		}
	}
	tei_tcp_lane_want_out(lane, tei_tcp_has_more(lane));
}
