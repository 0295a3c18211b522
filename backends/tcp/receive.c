/* SPDX-License-Identifier: Apache-2.0 */
/*
 * receive.c - what came in on a lane, read into its final place
 *
 * One readv() takes the rest of the payload in place and, behind it, what
 * follows into the rail's scratch: many small frames at once, or after a big
 * payload just one header, so that the next one is read in place too.
 *
 * Nothing a peer says is used before it is checked. A frame that breaks the
 * protocol ends the endpoint; one that asks for what it may not have is
 * answered with why, once for each id, and its payload goes to scratch.
 */
#include "backends/tcp/tcp.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/fault.h"
#include <te/te.h>

#define PIECES_MAX 256 /* local pieces of one readv() */
#define READS_MAX  8   /* system calls for one event, so that all get a turn */

ssize_t tei_tcp_readv(const struct tcp_lane *lane, const struct iovec *iov,
		      uint32_t n)
{
	ssize_t got;

	if (tei_fault_check(TEI_FAULT_IO))
		return -ECONNRESET;
	do
		got = readv(lane->fd, iov, (int)n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/* ---- frames ---- */

/* Answer why, and let the payload pass by. */
static void refuse(struct tcp_lane *lane, int err)
{
	lane->rail->base->refused_slices++;
	if (!tei_tcp_owe_answer(lane, lane->frame.id, err)) {
		tei_tcp_lane_bad(lane, "more requests than the window");
		return;
	}
	if (lane->frame.op == TCP_WRITE) {
		lane->refused_id = lane->frame.id;
		lane->in = TCP_STREAM_ORPHAN;
	}
}

static int pin(struct tcp_lane *lane, uint64_t length, uint32_t access,
	       void **local, uint64_t *token)
{
	uint64_t key = htole64(lane->frame.key);

	if (lane->frame.epoch != lane->ep->base->epoch)
		return -ESTALE;
	if (lane->frame.address + length < lane->frame.address)
		return -EFAULT;
	return tei_region_pin(lane->ep->base, &key, sizeof(key),
			      lane->frame.address, length, access, local,
			      token);
}

static void take_write(struct tcp_lane *lane)
{
	const struct tcp_frame *f = &lane->frame;

	if (f->flags & TCP_ABORT) {
		if (f->id != lane->refused_id &&
		    !tei_tcp_owe_answer(lane, f->id, -ECANCELED))
			tei_tcp_lane_bad(lane, "more requests than the window");
		return;
	}
	lane->in_left = f->length;
	lane->in = f->id == lane->refused_id ? TCP_STREAM_ORPHAN
					     : TCP_STREAM_REGION;
}

static void take_read(struct tcp_lane *lane)
{
	uint64_t token;
	void *local;
	int rc;

	rc = pin(lane, lane->frame.length, TE_ACCESS_REMOTE_READ, &local,
		 &token);
	if (rc < 0) {
		refuse(lane, rc);
		return;
	}
	tei_region_unpin(lane->ep->base, token);
	if (!tei_tcp_owe_data(lane, &lane->frame))
		tei_tcp_lane_bad(lane, "more requests than the window");
}

/* Answers come in the order of ids, but for those that are over. */
static struct tei_slice *find_slice(const struct tei_list *list, uint64_t id)
{
	tei_list_for_each (pos, list) {
		struct tei_slice *slice =
			tei_list_entry(pos, struct tei_slice, link);

		if (tcp_slice(slice)->id == id)
			return slice;
		if (tcp_slice(slice)->id > id)
			break;
	}
	return NULL;
}

/* The peer has answered one more request. False: one too many. */
static bool count_answer(struct tcp_lane *lane)
{
	if (!lane->n_unanswered)
		return false;
	lane->n_unanswered--;
	return true;
}

static void take_data(struct tcp_lane *lane)
{
	const struct tcp_frame *f = &lane->frame;
	struct tei_slice *slice = find_slice(&lane->sent_reads, f->id);
	uint64_t at, left;

	lane->in_left = f->length;
	lane->slice = slice;
	lane->in = slice ? TCP_STREAM_SLICE : TCP_STREAM_ORPHAN;
	if (!slice)
		return;
	at = tcp_slice(slice)->passed.at;
	left = slice->length - at;
	if (f->offset != at || f->length > left ||
	    (f->length == left) != !!(f->flags & TCP_LAST))
		tei_tcp_lane_bad(lane, "data that was not asked for");
}

/* A refusal may overtake the WRITE that it is about. */
static void take_refusal(struct tcp_lane *lane, int err)
{
	struct tei_slice *slice = find_slice(&lane->sent_reads, lane->frame.id);

	if (!slice)
		slice = find_slice(&lane->writes, lane->frame.id);
	if (!slice) {
		if (lane->abort_id == lane->frame.id)
			lane->abort_id = 0;
		return;
	}
	if (tei_tcp_slice_leave(lane, slice) < 0) {
		tei_tcp_lane_fail(lane, -ENOMEM);
		return;
	}
	tei_tcp_slice_end(slice, err, 0);
}

static void take_answer(struct tcp_lane *lane)
{
	int err = tei_status_to_errno(lane->frame.status);
	struct tei_slice *slice;

	if (!count_answer(lane)) {
		tei_tcp_lane_bad(lane, "answer to nothing");
		return;
	}
	slice = find_slice(&lane->sent_writes, lane->frame.id);
	if (slice)
		tei_tcp_slice_end(slice, err, err ? 0 : slice->length);
	else if (err)
		take_refusal(lane, err);
	else if (find_slice(&lane->writes, lane->frame.id) ||
		 find_slice(&lane->sent_reads, lane->frame.id))
		tei_tcp_lane_bad(lane, "answer before the end");
}

static void take_frame(struct tcp_lane *lane, const uint8_t *head)
{
	bool target = lane->ep->base->target;

	if (!tei_tcp_frame_decode(head, &lane->frame)) {
		tei_tcp_lane_bad(lane, "malformed frame");
		return;
	}
	if (target && lane->frame.op == TCP_WRITE)
		take_write(lane);
	else if (target && lane->frame.op == TCP_READ)
		take_read(lane);
	else if (target || lane->frame.id >= lane->next_id)
		tei_tcp_lane_bad(lane, "frame of the wrong side or id");
	else if (lane->frame.op == TCP_DATA)
		take_data(lane);
	else if (lane->frame.op == TCP_ANSWER)
		take_answer(lane);
	else
		tei_tcp_lane_bad(lane, "frame of the wrong side or id");
}

/* ---- payload ---- */

static void payload_end(struct tcp_lane *lane)
{
	bool last = lane->frame.flags & TCP_LAST;
	enum tcp_stream in = lane->in;
	struct tei_slice *slice = lane->slice;

	lane->bulk = lane->frame.length >= TCP_BULK_LEN;
	lane->in = TCP_STREAM_NONE;
	lane->slice = NULL;
	if (!last)
		return;
	if (in == TCP_STREAM_REGION) {
		if (!tei_tcp_owe_answer(lane, lane->frame.id, 0))
			tei_tcp_lane_bad(lane, "more requests than the window");
	} else if (lane->frame.op == TCP_DATA) {
		if (!count_answer(lane))
			tei_tcp_lane_bad(lane, "answer to nothing");
		else if (slice)
			tei_tcp_slice_end(slice, 0, slice->length);
	}
}

/* @n bytes of payload have reached their place, or scratch. */
static void payload_passed(struct tcp_lane *lane, uint64_t n)
{
	if (lane->in == TCP_STREAM_SLICE)
		tei_tcp_pass(lane->slice, n);
	lane->frame.address += n;
	lane->in_left -= n;
	atomic_fetch_add_explicit(&lane->rail->base->received_bytes, n,
				  memory_order_relaxed);
	if (!lane->in_left)
		payload_end(lane);
}

/*
 * Pin the region's memory for the rest of the payload; when that is refused
 * the stream turns into one to be drained.
 */
static void *pin_place(struct tcp_lane *lane, uint64_t *token)
{
	void *local;
	int rc;

	rc = pin(lane, lane->in_left, TE_ACCESS_REMOTE_WRITE, &local, token);
	if (!rc)
		return local;
	refuse(lane, rc);
	return NULL;
}

/* Payload that came with other bytes; returns how many of @len it was. */
static size_t payload_from(struct tcp_lane *lane, const uint8_t *bytes,
			   size_t len)
{
	size_t n = lane->in_left < len ? lane->in_left : len;
	uint64_t token;
	void *local;

	if (lane->in == TCP_STREAM_REGION) {
		local = pin_place(lane, &token);
		if (lane->fd < 0)
			return len;
		if (local) {
			memcpy(local, bytes, n);
			tei_region_unpin(lane->ep->base, token);
		}
	} else if (lane->in == TCP_STREAM_SLICE) {
		tei_tcp_copy_in(lane->slice, bytes, n);
	}
	payload_passed(lane, n);
	return n;
}

/* Everything in scratch is used up, or the lane is closed. */
static void parse(struct tcp_lane *lane, const uint8_t *bytes, size_t len)
{
	while (len && lane->fd >= 0) {
		size_t n = TCP_HEAD_LEN - lane->head_have;

		if (lane->in != TCP_STREAM_NONE) {
			n = payload_from(lane, bytes, len);
		} else if (!lane->head_have && len >= TCP_HEAD_LEN) {
			take_frame(lane, bytes);
		} else {
			if (n > len)
				n = len;
			memcpy(lane->head + lane->head_have, bytes, n);
			lane->head_have += (uint32_t)n;
			if (lane->head_have == TCP_HEAD_LEN) {
				lane->head_have = 0;
				take_frame(lane, lane->head);
			}
		}
		bytes += n;
		len -= n;
	}
}

/* ---- reading ---- */

struct reading {
	struct iovec iov[PIECES_MAX + 1];
	uint32_t n_iov;
	uint64_t in_place; /* bytes of payload that iov covers */
	bool pinned;
	uint64_t pin;
};

/* Where the rest of the payload goes. False: the lane has closed. */
static bool place_payload(struct tcp_lane *lane, struct reading *r)
{
	struct tcp_cursor c;
	void *local;

	r->n_iov = 0;
	r->in_place = 0;
	r->pinned = false;
	if (lane->in == TCP_STREAM_REGION) {
		local = pin_place(lane, &r->pin);
		if (lane->fd < 0)
			return false;
		if (local) {
			r->pinned = true;
			r->iov[0] = (struct iovec){local, lane->in_left};
			r->in_place = lane->in_left;
			r->n_iov = 1;
		}
	}
	if (lane->in == TCP_STREAM_SLICE) {
		c = tcp_slice(lane->slice)->passed;
		r->in_place = tei_tcp_gather(lane->slice, &c, lane->in_left,
					     r->iov, PIECES_MAX, &r->n_iov);
	}
	return true;
}

/* What follows the payload, or payload to be thrown away, goes to scratch. */
static size_t place_rest(struct tcp_lane *lane, struct reading *r)
{
	size_t room = TCP_SCRATCH_LEN;

	if (lane->in == TCP_STREAM_REGION || lane->in == TCP_STREAM_SLICE) {
		if (r->in_place < lane->in_left)
			return 0;
		if (lane->in_left >= TCP_BULK_LEN)
			room = TCP_HEAD_LEN;
	} else if (lane->in == TCP_STREAM_NONE && lane->bulk) {
		room = TCP_HEAD_LEN - lane->head_have;
	}
	r->iov[r->n_iov++] = (struct iovec){lane->rail->scratch, room};
	return r->in_place + room;
}

/* One system call and what it brought. False: nothing more for now. */
static bool receive_once(struct tcp_lane *lane)
{
	struct reading r;
	size_t room, here;
	ssize_t n;

	if (!place_payload(lane, &r))
		return false;
	room = place_rest(lane, &r);
	n = tei_tcp_readv(lane, r.iov, r.n_iov);
	if (r.pinned)
		tei_region_unpin(lane->ep->base, r.pin);
	if (n == -EAGAIN)
		return false;
	if (n <= 0) {
		tei_tcp_lane_fail(lane, n ? (int)n : -ECONNRESET);
		return false;
	}
	here = r.in_place < (size_t)n ? r.in_place : (size_t)n;
	if (here)
		payload_passed(lane, here);
	parse(lane, lane->rail->scratch, (size_t)n - here);
	return lane->fd >= 0 && (!room || (size_t)n == room);
}

void tei_tcp_receive(struct tcp_lane *lane)
{
	for (int i = 0; i < READS_MAX && receive_once(lane); i++)
		;
	if (lane->fd >= 0 && !(lane->interest & EPOLLOUT))
		tei_tcp_send(lane);
}
