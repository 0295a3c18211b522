/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send.c - what goes out next on a lane, in one vectored write
 *
 * A plan is made without changing anything: the rest of what is half sent,
 * then headers without payload (they overtake payload at frame boundaries),
 * then frames with payload, about a chunk in all. After the system call the
 * plan is walked once more with the number of bytes that the kernel took, and
 * only that changes the lane.
 *
 * Frames follow from how far a slice has come, so what did not go is simply
 * planned anew. A header that was cut is kept as a stub.
 */
#include "backends/tcp/tcp.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fault.h"
#include "base/mem.h"
#include <te/te.h>

/* ---- what a target owes ---- */

static struct tcp_answer *answer_at(struct tcp_debts *d, uint32_t i)
{
	return &d->answers[(d->first_answer + i) % TCP_WINDOW];
}

static struct tcp_served *read_at(struct tcp_debts *d, uint32_t i)
{
	return &d->reads[(d->first_read + i) % TCP_WINDOW];
}

static bool debts_full(const struct tcp_debts *d)
{
	return d->n_answers + d->n_reads >= TCP_WINDOW;
}

bool tei_tcp_owe_answer(struct tcp_lane *lane, uint64_t id, int err)
{
	struct tcp_debts *d = lane->debts;

	if (debts_full(d))
		return false;
	*answer_at(d, d->n_answers++) = (struct tcp_answer){
		.id = id,
		.status = tei_status_from_errno(err),
	};
	return true;
}

bool tei_tcp_owe_data(struct tcp_lane *lane, const struct tcp_frame *ask)
{
	struct tcp_debts *d = lane->debts;

	if (debts_full(d))
		return false;
	*read_at(d, d->n_reads++) = (struct tcp_served){.ask = *ask};
	return true;
}

static void pop_read(struct tcp_debts *d)
{
	d->first_read = (d->first_read + 1) % TCP_WINDOW;
	d->n_reads--;
}

/* A READ that was refused once its turn came becomes an answer. */
static void settle_refused(struct tcp_lane *lane)
{
	struct tcp_debts *d = lane->debts;

	if (lane->out == TCP_STREAM_REGION)
		return; /* the first one's frame has to be finished first */
	while (d && d->n_reads && read_at(d, 0)->err) {
		struct tcp_served served = *read_at(d, 0);

		pop_read(d);
		lane->rail->base->refused_slices++;
		(void)tei_tcp_owe_answer(lane, served.ask.id, served.err);
	}
}

/* ---- planning ---- */

static bool plan_full(const struct tcp_plan *p, const struct tcp_rail *rail)
{
	return p->n_items == TCP_ITEMS_MAX || p->n_iov + 2 > TCP_IOV_MAX ||
	       p->bytes >= tcp_config(rail)->send_chunk;
}

static void plan_memory(struct tcp_plan *p, const void *bytes, size_t len)
{
	p->iov[p->n_iov].iov_base = (void *)(uintptr_t)bytes;
	p->iov[p->n_iov].iov_len = len;
	p->n_iov++;
	p->bytes += len;
}

static struct tcp_item *plan_item(struct tcp_plan *p, enum tcp_item_kind kind)
{
	struct tcp_item *item = &p->items[p->n_items++];

	*item = (struct tcp_item){.kind = kind};
	return item;
}

static struct tcp_item *plan_frame(struct tcp_plan *p, enum tcp_item_kind kind,
				   const struct tcp_frame *f)
{
	uint8_t *head = p->heads[p->n_items];
	struct tcp_item *item = plan_item(p, kind);

	tei_tcp_frame_encode(f, head);
	item->head_len = TCP_HEAD_LEN;
	plan_memory(p, head, TCP_HEAD_LEN);
	return item;
}

static void plan_stub(struct tcp_lane *lane, struct tcp_plan *p)
{
	struct tcp_item *item = plan_item(p, TCP_ITEM_STUB);

	item->head_len = lane->stub_len - lane->stub_at;
	plan_memory(p, lane->stub + lane->stub_at, item->head_len);
}

/* As much of a slice's next @length bytes as fits; an ABORT still does. */
static uint64_t plan_slice_bytes(struct tcp_plan *p,
				 const struct tei_slice *slice,
				 struct tcp_cursor *c, uint64_t length)
{
	uint64_t covered;
	uint32_t n;

	covered = tei_tcp_gather(slice, c, length, p->iov + p->n_iov,
				 TCP_IOV_MAX - 1 - p->n_iov, &n);
	p->n_iov += n;
	p->bytes += covered;
	return covered;
}

/* Pin what a READ is about to send; it is unpinned after the system call. */
static int plan_region(struct tcp_lane *lane, struct tcp_plan *p,
		       const struct tcp_frame *ask, uint64_t at,
		       uint64_t length, void **local)
{
	uint64_t key = htole64(ask->key);
	int rc;

	rc = tei_region_pin(lane->ep->base, &key, sizeof(key),
			    ask->address + at, length, TE_ACCESS_REMOTE_READ,
			    local, &p->pins[p->n_pins]);
	if (!rc)
		p->n_pins++;
	return rc;
}

static struct tei_slice *first_write(const struct tcp_lane *lane)
{
	return tei_list_entry(lane->writes.next, struct tei_slice, link);
}

/* The payload that must follow before anything else may. */
static int plan_rest(struct tcp_lane *lane, struct tcp_plan *p)
{
	struct tcp_item *item = plan_item(p, TCP_ITEM_REST);
	struct tcp_served *served;
	struct tcp_cursor c;
	void *local;
	int rc;

	item->payload = lane->out_left;
	switch (lane->out) {
	case TCP_STREAM_SLICE:
		c = tcp_slice(first_write(lane))->passed;
		item->payload = plan_slice_bytes(p, first_write(lane), &c,
						 lane->out_left);
		return 0;
	case TCP_STREAM_REGION:
		served = read_at(lane->debts, 0);
		rc = plan_region(lane, p, &served->ask, served->sent,
				 lane->out_left, &local);
		if (rc < 0)
			return rc;
		plan_memory(p, local, lane->out_left);
		return 0;
	case TCP_STREAM_ORPHAN:
		plan_memory(p, lane->orphan + lane->orphan_at, lane->out_left);
		return 0;
	default:
		return 0;
	}
}

static void plan_controls(struct tcp_lane *lane, struct tcp_plan *p)
{
	struct tcp_debts *d = lane->debts;

	if (lane->abort_id) {
		struct tcp_frame f = {.op = TCP_WRITE,
				      .flags = TCP_ABORT,
				      .id = lane->abort_id};

		plan_frame(p, TCP_ITEM_ABORT, &f);
	}
	for (uint32_t i = 0; d && i < d->n_answers; i++) {
		struct tcp_answer *a = answer_at(d, i);
		struct tcp_frame f = {.op = TCP_ANSWER,
				      .status = (uint8_t)a->status,
				      .id = a->id};

		if (plan_full(p, lane->rail))
			return;
		plan_frame(p, TCP_ITEM_ANSWER, &f);
	}
}

static void frame_of(const struct tei_slice *slice, uint8_t op, uint64_t at,
		     struct tcp_frame *f)
{
	uint64_t key;

	memcpy(&key, slice->key, sizeof(key));
	*f = (struct tcp_frame){
		.op = op,
		.id = tcp_slice(slice)->id,
		.key = le64toh(key),
		.address = slice->remote + at,
		.offset = at,
		.length = slice->length - at,
		.epoch = slice->ep->epoch,
	};
}

static void plan_asks(struct tcp_lane *lane, struct tcp_plan *p)
{
	struct tcp_frame f;

	tei_list_for_each (pos, &lane->reads) {
		if (plan_full(p, lane->rail))
			return;
		frame_of(tei_list_entry(pos, struct tei_slice, link), TCP_READ,
			 0, &f);
		plan_frame(p, TCP_ITEM_ASK, &f);
	}
}

/* Cut @f to one frame of what it stands for. */
static void cut(const struct tcp_rail *rail, struct tcp_frame *f)
{
	uint64_t most = tcp_config(rail)->frame;

	if (f->length <= most)
		f->flags = TCP_LAST;
	else
		f->length = most;
}

/* Frames of one slice from @c on. False: no more room. */
static bool plan_write(struct tcp_lane *lane, struct tcp_plan *p,
		       const struct tei_slice *slice, struct tcp_cursor c)
{
	struct tcp_item *item;
	struct tcp_frame f;

	while (c.at < slice->length) {
		if (plan_full(p, lane->rail))
			return false;
		frame_of(slice, TCP_WRITE, c.at, &f);
		cut(lane->rail, &f);
		item = plan_frame(p, TCP_ITEM_WRITE, &f);
		item->length = f.length;
		item->payload = plan_slice_bytes(p, slice, &c, f.length);
		if (item->payload < f.length)
			return false;
	}
	return true;
}

static void plan_writes(struct tcp_lane *lane, struct tcp_plan *p)
{
	tei_list_for_each (pos, &lane->writes) {
		struct tei_slice *slice =
			tei_list_entry(pos, struct tei_slice, link);
		struct tcp_cursor c = tcp_slice(slice)->passed;
		struct iovec skipped;
		uint64_t rest = 0;
		uint32_t n;

		if (lane->out == TCP_STREAM_SLICE && pos == lane->writes.next)
			rest = lane->out_left;
		while (rest)
			rest -= tei_tcp_gather(slice, &c, rest, &skipped, 1,
					       &n);
		if (!plan_write(lane, p, slice, c))
			return;
	}
}

static bool plan_data(struct tcp_lane *lane, struct tcp_plan *p,
		      struct tcp_served *served, uint64_t at)
{
	struct tcp_frame f = {.op = TCP_DATA, .id = served->ask.id};
	struct tcp_item *item;
	void *local;
	int rc;

	for (; at < served->ask.length; at += f.length) {
		if (plan_full(p, lane->rail))
			return false;
		f.flags = 0;
		f.offset = at;
		f.length = served->ask.length - at;
		cut(lane->rail, &f);
		rc = plan_region(lane, p, &served->ask, at, f.length, &local);
		if (rc < 0) {
			served->err = rc;
			return false;
		}
		item = plan_frame(p, TCP_ITEM_DATA, &f);
		item->length = item->payload = f.length;
		plan_memory(p, local, f.length);
	}
	return true;
}

static void plan_served(struct tcp_lane *lane, struct tcp_plan *p)
{
	struct tcp_debts *d = lane->debts;

	for (uint32_t i = 0; i < d->n_reads; i++) {
		struct tcp_served *served = read_at(d, i);
		uint64_t at = served->sent;

		if (!i && lane->out == TCP_STREAM_REGION)
			at += lane->out_left;
		if (!plan_data(lane, p, served, at))
			return;
	}
}

/* < 0: the half-sent frame cannot be finished. */
static int plan_all(struct tcp_lane *lane, struct tcp_plan *p)
{
	int rc = 0;

	p->n_items = p->n_iov = p->n_pins = 0;
	p->bytes = 0;
	if (lane->stub_len)
		plan_stub(lane, p);
	if (lane->out != TCP_STREAM_NONE) {
		rc = plan_rest(lane, p);
		if (rc < 0 || p->items[p->n_items - 1].payload < lane->out_left)
			return rc;
	}
	plan_controls(lane, p);
	if (lane->debts) {
		plan_served(lane, p);
	} else {
		plan_asks(lane, p);
		plan_writes(lane, p);
	}
	return 0;
}

/* ---- what the kernel took ---- */

static void to_sent(struct tei_list *list, struct tei_slice *slice)
{
	tcp_slice(slice)->sent = true;
	tei_list_del(&slice->link);
	tei_list_add_tail(list, &slice->link);
}

/* The header of @item is on its way, or its first part is. */
static void begin(struct tcp_lane *lane, const struct tcp_item *item)
{
	struct tcp_debts *d = lane->debts;

	switch (item->kind) {
	case TCP_ITEM_ABORT:
		lane->abort_id = 0;
		break;
	case TCP_ITEM_ANSWER:
		d->first_answer = (d->first_answer + 1) % TCP_WINDOW;
		d->n_answers--;
		break;
	case TCP_ITEM_ASK:
		to_sent(&lane->sent_reads,
			tei_list_entry(lane->reads.next, struct tei_slice,
				       link));
		break;
	case TCP_ITEM_WRITE:
		lane->out = TCP_STREAM_SLICE;
		lane->out_left = item->length;
		break;
	case TCP_ITEM_DATA:
		lane->out = TCP_STREAM_REGION;
		lane->out_left = item->length;
		break;
	case TCP_ITEM_STUB:
	case TCP_ITEM_REST:
		break;
	}
}

static void keep_stub(struct tcp_lane *lane, const struct tcp_plan *p,
		      uint32_t index, uint32_t sent)
{
	uint32_t left = p->items[index].head_len - sent;

	if (p->items[index].kind == TCP_ITEM_STUB) {
		lane->stub_at += sent;
		if (!left)
			lane->stub_at = lane->stub_len = 0;
	} else if (left) {
		memcpy(lane->stub, p->heads[index] + sent, left);
		lane->stub_at = 0;
		lane->stub_len = left;
	}
}

static void payload_sent(struct tcp_lane *lane, uint64_t n)
{
	struct tei_slice *slice;
	struct tcp_served *served;

	lane->out_left -= n;
	switch (lane->out) {
	case TCP_STREAM_SLICE:
		slice = first_write(lane);
		tei_tcp_pass(slice, n);
		if (tcp_slice(slice)->passed.at == slice->length)
			to_sent(&lane->sent_writes, slice);
		break;
	case TCP_STREAM_REGION:
		served = read_at(lane->debts, 0);
		served->sent += n;
		if (served->sent == served->ask.length)
			pop_read(lane->debts);
		break;
	case TCP_STREAM_ORPHAN:
		lane->orphan_at += n;
		if (!lane->out_left) {
			tei_free(lane->orphan);
			lane->orphan = NULL;
		}
		break;
	case TCP_STREAM_NONE:
		break;
	}
	if (!lane->out_left)
		lane->out = TCP_STREAM_NONE;
	atomic_fetch_add_explicit(&lane->rail->base->sent_bytes, n,
				  memory_order_relaxed);
}

static void consume(struct tcp_lane *lane, const struct tcp_plan *p, size_t n)
{
	for (uint32_t i = 0; i < p->n_items && n; i++) {
		const struct tcp_item *item = &p->items[i];
		uint64_t part = item->head_len < n ? item->head_len : n;

		n -= part;
		if (item->head_len) {
			begin(lane, item);
			keep_stub(lane, p, i, (uint32_t)part);
		}
		part = item->payload < n ? item->payload : n;
		n -= part;
		if (part)
			payload_sent(lane, part);
	}
}

static void unpin_all(struct tcp_lane *lane, struct tcp_plan *p)
{
	for (uint32_t i = 0; i < p->n_pins; i++)
		tei_region_unpin(lane->ep->base, p->pins[i]);
	p->n_pins = 0;
}

static ssize_t transmit(const struct tcp_lane *lane, const struct tcp_plan *p)
{
	struct msghdr msg = {
		.msg_iov = (struct iovec *)(uintptr_t)p->iov,
		.msg_iovlen = p->n_iov,
	};
	ssize_t n;

	if (tei_fault_check(TEI_FAULT_IO))
		return -ECONNRESET;
	do
		n = sendmsg(lane->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return n;
	return errno == EAGAIN ? 0 : -errno;
}

static bool has_more(const struct tcp_lane *lane)
{
	const struct tcp_debts *d = lane->debts;

	return lane->stub_len || lane->out != TCP_STREAM_NONE ||
	       lane->abort_id || !tei_list_empty(&lane->reads) ||
	       !tei_list_empty(&lane->writes) ||
	       (d && (d->n_answers || d->n_reads));
}

void tei_tcp_send(struct tcp_lane *lane)
{
	struct tcp_plan *p = lane->rail->plan;
	ssize_t n = 0;
	int rc;

	settle_refused(lane);
	if (has_more(lane)) {
		rc = plan_all(lane, p);
		if (!rc && p->bytes)
			n = transmit(lane, p);
		unpin_all(lane, p);
		if (rc < 0 || n < 0) {
			tei_tcp_lane_fail(lane, rc < 0 ? rc : (int)n);
			return;
		}
		consume(lane, p, (size_t)n);
	}
	tei_tcp_lane_want_out(lane, has_more(lane));
}
