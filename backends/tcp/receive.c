/* SPDX-License-Identifier: Apache-2.0 */
/*
 * receive.c - the bytes that come in on a lane, read into their final place
 *
 * The headers of a burst come before its payload, so one readv() can put the
 * payload of many requests where it belongs. Behind it, it takes what follows
 * into the rail's scratch: after bulk as many headers as the last burst had,
 * so that the next payload is read in place too; after small frames some more,
 * for copying a little costs less than another system call.
 *
 * Nothing a peer says is used before it is checked. A frame that breaks the
 * protocol ends the endpoint; one that asks for what it may not have is
 * answered with why, once for each id, and its payload is drained.
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

#define PIECES_MAX 512         /* local pieces of one readv() */
#define READS_MAX  8           /* system calls of one turn, */
#define BYTES_MAX  (1u << 20)  /* and their bytes, so that all get a turn */
#define READ_ON    (16u << 10) /* past small frames: copying is cheap */
#define POLLS_MAX  4096
#define STAGED_MAX (512u << 10) /* bytes of a stage for one readv(), about */

static const char too_many[] = "more requests than the window";

/* ---- answers ---- */

/* Answers come in the order of ids, but for those that are over. */
static struct tei_slice *find_from(const struct tei_list *pos,
				   const struct tei_list *list, uint64_t id)
{
	for (; pos != list; pos = pos->next) {
		struct tei_slice *slice =
			tei_list_entry(pos, struct tei_slice, link);

		if (tcp_slice(slice)->id == id)
			return slice;
		if (tcp_slice(slice)->id > id)
			break;
	}
	return NULL;
}

static struct tei_slice *find_slice(const struct tei_list *list, uint64_t id)
{
	return find_from(list->next, list, id);
}

/* The READ of @id; it comes behind those that the burst before it is about. */
static struct tei_slice *find_read(const struct tcp_lane *lane, uint64_t id)
{
	const struct tei_list *list = &lane->sent_reads, *from = list->next;
	const struct tcp_payload *payload;

	if (lane->in && lane->in->n) {
		payload = &lane->in->payload[lane->in->n - 1];
		if (payload->stream == TCP_STREAM_SLICE &&
		    tcp_slice(payload->slice)->id <= id)
			from = &payload->slice->link;
	}
	return find_from(from, list, id);
}

/* Find the WRITE of @id if it is announced in part: only the first can be. */
static struct tei_slice *find_begun(const struct tcp_lane *lane, uint64_t id)
{
	struct tei_slice *slice;

	if (tei_list_empty(&lane->writes))
		return NULL;
	slice = tei_list_entry(lane->writes.next, struct tei_slice, link);
	return tcp_slice(slice)->id == id ? slice : NULL;
}

/* The peer has answered one more request. False: one too many. */
static bool count_answer(struct tcp_lane *lane)
{
	if (!lane->n_unanswered)
		return false;
	lane->n_unanswered--;
	return true;
}

/* A refusal may overtake the payload that it is about. */
static void take_refusal(struct tcp_lane *lane, uint64_t id, int err)
{
	struct tei_slice *slice = find_slice(&lane->sent_writes, id);

	if (!slice)
		slice = find_slice(&lane->sent_reads, id);
	if (!slice)
		slice = find_begun(lane, id);
	if (slice)
		tei_tcp_slice_answered(slice, err);
	else if (lane->abort_id == id)
		lane->abort_id = 0;
}

static void take_success(struct tcp_lane *lane, uint64_t id)
{
	struct tei_slice *slice = find_slice(&lane->sent_writes, id);

	if (slice && tcp_slice(slice)->passed.at == slice->length)
		tei_tcp_slice_answered(slice, 0);
	else if (slice || find_begun(lane, id) ||
		 find_slice(&lane->sent_reads, id))
		tei_tcp_lane_bad(lane, "answer before the end");
}

static void take_answer(struct tcp_lane *lane, const struct tcp_frame *f)
{
	int err = tei_status_to_errno(f->status);
	uint64_t id;

	for (id = f->id; id < f->id + f->length && lane->fd >= 0; id++) {
		if (id >= lane->next_id || !count_answer(lane))
			tei_tcp_lane_bad(lane, "answer to nothing");
		else if (err)
			take_refusal(lane, id, err);
		else
			take_success(lane, id);
	}
}

/* ---- frames with payload, and READs ---- */

/* NULL: the lane is closed. */
static struct tcp_payload *add_payload(struct tcp_lane *lane,
				       const struct tcp_frame *f)
{
	struct tcp_burst *in = lane->in;
	struct tcp_payload *payload;

	if (!in) {
		in = lane->in = tei_malloc(sizeof(*in));
		if (!in) {
			tei_tcp_lane_fail(lane, -ENOMEM);
			return NULL;
		}
		in->at = in->n = 0;
	}
	if (in->n == TCP_BURST_MAX) {
		tei_tcp_lane_bad(lane, "burst too long");
		return NULL;
	}
	payload = &in->payload[in->n++];
	*payload = (struct tcp_payload){.id = f->id,
					.left = f->length,
					.last = f->flags & TCP_LAST,
					.data = f->op == TCP_DATA};
	lane->headers_end = !(f->flags & TCP_MORE);
	lane->read_on =
		f->length < TCP_BULK_LEN ? READ_ON : in->n * TCP_HEAD_LEN;
	return payload;
}

static void take_write(struct tcp_lane *lane, const struct tcp_frame *f)
{
	struct tcp_payload *payload = add_payload(lane, f);

	if (!payload)
		return;
	payload->stream = TCP_STREAM_REGION;
	payload->key = f->key;
	payload->address = f->address;
	payload->staged = NULL;
	if (f->epoch != lane->ep->base->epoch)
		payload->err = -ESTALE;
}

/* Answers a WRITE of which nothing more comes. */
static void answer_write(struct tcp_lane *lane, uint64_t id, int err)
{
	if (!tei_tcp_copied_write_end(lane, id, err) &&
	    !tei_tcp_backlog_answer(lane, id, err))
		tei_tcp_lane_bad(lane, too_many);
}

static void take_abort(struct tcp_lane *lane, const struct tcp_frame *f)
{
	if (f->id != lane->refused_id)
		answer_write(lane, f->id, -ECANCELED);
}

/*
 * Checks whether a READ may have all that it asks for. Data that fits one frame
 * is checked only when it is sent, unless it may be a GPU's. Returns 0,
 * TEI_PIN_COPIED, or why not.
 */
static int check_read(const struct tcp_lane *lane, const struct tcp_frame *f)
{
	uint64_t key = htole64(f->key), pin;
	void *local;
	int rc;

	if (f->epoch != lane->ep->base->epoch)
		return -ESTALE;
	if (f->length <= tcp_config(lane->rail)->frame &&
	    !tei_region_any_copied(lane->ep->base))
		return 0;
	if (f->address + f->length < f->address)
		return -EFAULT;
	rc = tei_region_pin(lane->ep->base, &key, sizeof(key), f->address,
			    f->length, TE_ACCESS_REMOTE_READ, &local, &pin);
	if (rc >= 0)
		tei_region_unpin(lane->ep->base, pin);
	return rc;
}

static void take_read(struct tcp_lane *lane, const struct tcp_frame *f)
{
	int rc = check_read(lane, f);
	bool has_room;

	if (f->id <= lane->last_read) {
		tei_tcp_lane_bad(lane, "id that was used before");
		return;
	}
	lane->last_read = f->id;
	if (rc < 0) {
		lane->rail->base->refused_slices++;
		has_room = tei_tcp_backlog_answer(lane, f->id, rc);
	} else {
		has_room = tei_tcp_backlog_read(lane, f, rc == TEI_PIN_COPIED);
	}
	if (!has_room)
		tei_tcp_lane_bad(lane, too_many);
}

static bool was_asked_for(const struct tei_slice *slice,
			  const struct tcp_frame *f)
{
	uint64_t at = tcp_slice(slice)->announced.at;
	uint64_t left = slice->length - at;

	return f->offset == at && f->length <= left &&
	       (f->length == left) == !!(f->flags & TCP_LAST);
}

static void take_data(struct tcp_lane *lane, const struct tcp_frame *f)
{
	struct tei_slice *slice = find_read(lane, f->id);
	struct tcp_payload *payload = add_payload(lane, f);

	if (!payload)
		return;
	payload->stream = TCP_STREAM_ORPHAN;
	if (!slice)
		return;
	if (!was_asked_for(slice, f)) {
		tei_tcp_lane_bad(lane, "data that was not asked for");
		return;
	}
	payload->stream = TCP_STREAM_SLICE;
	payload->slice = slice;
	tcp_slice(slice)->announced.at += f->length;
}

static bool is_inside_burst(const struct tcp_lane *lane)
{
	return lane->in && lane->in->n && !lane->headers_end;
}

static void take_as_target(struct tcp_lane *lane, const struct tcp_frame *f)
{
	if (f->op == TCP_WRITE && !(f->flags & TCP_ABORT))
		take_write(lane, f);
	else if (is_inside_burst(lane))
		tei_tcp_lane_bad(lane, "burst with a gap");
	else if (f->op == TCP_WRITE)
		take_abort(lane, f);
	else if (f->op == TCP_READ)
		take_read(lane, f);
	else
		tei_tcp_lane_bad(lane, "frame of the wrong side");
}

static void take_as_initiator(struct tcp_lane *lane, const struct tcp_frame *f)
{
	if (f->id >= lane->next_id)
		tei_tcp_lane_bad(lane, "id that was never used");
	else if (f->op == TCP_DATA)
		take_data(lane, f);
	else if (is_inside_burst(lane))
		tei_tcp_lane_bad(lane, "burst with a gap");
	else if (f->op == TCP_ANSWER)
		take_answer(lane, f);
	else
		tei_tcp_lane_bad(lane, "frame of the wrong side");
}

/* A header has come. It may close the lane. */
static void take_frame(struct tcp_lane *lane, const uint8_t *head)
{
	struct tcp_frame f;

	if (!tei_tcp_frame_decode(head, &f))
		tei_tcp_lane_bad(lane, "malformed frame");
	else if (lane->ep->base->target)
		take_as_target(lane, &f);
	else
		take_as_initiator(lane, &f);
}

/* ---- payload that has come ---- */

/* Answer why not, as target, and let the payload pass by. */
static void refuse_payload(struct tcp_lane *lane, struct tcp_payload *payload,
			   int err)
{
	assert(!payload->staged);
	lane->rail->base->refused_slices++;
	lane->refused_id = payload->id;
	payload->stream = TCP_STREAM_ORPHAN;
	answer_write(lane, payload->id, err);
}

/* The first payload of the burst has passed wholly. It may close the lane. */
static void end_payload(struct tcp_lane *lane)
{
	struct tcp_burst *in = lane->in;
	const struct tcp_payload *payload = &in->payload[in->at++];

	if (in->at == in->n)
		in->at = in->n = 0;
	if (!payload->last)
		return;
	if (payload->stream == TCP_STREAM_REGION) {
		answer_write(lane, payload->id, 0);
	} else if (payload->data) {
		if (!count_answer(lane))
			tei_tcp_lane_bad(lane, "answer to nothing");
		else if (payload->stream == TCP_STREAM_SLICE)
			tei_tcp_slice_answered(payload->slice, 0);
	}
}

static void region_passed(struct tcp_lane *lane, struct tcp_payload *payload,
			  uint64_t n)
{
	payload->address += n;
	if (payload->staged)
		tei_tcp_staged_passed(lane, payload, n);
}

/* @n bytes of payload have reached their place, or scratch. */
static void payload_passed(struct tcp_lane *lane, uint64_t n)
{
	struct tcp_burst *in = lane->in;

	atomic_fetch_add_explicit(&lane->rail->base->received_bytes, n,
				  memory_order_relaxed);
	tei_endpoint_moved(lane->ep->base);
	while (n && lane->fd >= 0) {
		struct tcp_payload *payload = &in->payload[in->at];
		uint64_t part = payload->left < n ? payload->left : n;

		if (payload->stream == TCP_STREAM_SLICE)
			tei_tcp_pass(payload->slice, part);
		else if (payload->stream == TCP_STREAM_REGION)
			region_passed(lane, payload, part);
		payload->left -= part;
		n -= part;
		if (!payload->left)
			end_payload(lane);
	}
}

/* The kernel could not write where the first payload goes: it is unmapped. */
static void end_unmapped(struct tcp_lane *lane)
{
	struct tcp_payload *payload = &lane->in->payload[lane->in->at];
	const struct tcp_pin *pin;

	if (payload->stream == TCP_STREAM_SLICE) {
		tei_tcp_slice_unmapped(payload->slice);
		return;
	}
	pin = tei_tcp_find_pin(lane->rail, payload, TE_ACCESS_REMOTE_WRITE);
	if (pin)
		tei_region_doubt(lane->ep->base, pin->id);
	refuse_payload(lane, payload, -EFAULT);
}

/* ---- where it goes ---- */

/* A payload is to be filled next; else a header is to come. */
static bool in_payload(const struct tcp_lane *lane)
{
	return lane->in && lane->in->n && lane->headers_end;
}

/* Takes memory for what goes to a GPU's at *@local: *@local is that then. */
static int place_staged(struct tcp_lane *lane, struct tcp_payload *payload,
			void **local)
{
	int rc;

	rc = tei_tcp_stage_payload(
		lane, payload,
		tei_tcp_find_pin(lane->rail, payload, TE_ACCESS_REMOTE_WRITE),
		*local);
	if (!rc)
		*local = payload->staged->memory;
	return rc;
}

/*
 * Returns where payload[i] of a target goes. NULL: it is refused, and to be
 * drained; or no more can be pinned now (then it is still of a region); or the
 * lane closed.
 */
static void *place_of(struct tcp_lane *lane, uint32_t i)
{
	struct tcp_burst *in = lane->in;
	struct tcp_payload *payload = &in->payload[i];
	void *local = NULL;
	int rc;

	if (payload->id == lane->refused_id) {
		payload->stream = TCP_STREAM_ORPHAN;
		return NULL;
	}
	rc = payload->err ? payload->err
			  : tei_tcp_pin(lane, payload, in->n - i,
					TE_ACCESS_REMOTE_WRITE, &local);
	if (rc == TEI_PIN_COPIED)
		rc = place_staged(lane, payload, &local);
	if (!rc)
		return local;
	if (rc != -EAGAIN && lane->fd >= 0)
		refuse_payload(lane, payload, rc);
	return NULL;
}

/* Does place_of() for the first payload, which cannot wait for pins. */
static void *place_of_first(struct tcp_lane *lane)
{
	struct tcp_payload *payload = &lane->in->payload[lane->in->at];
	void *local = place_of(lane, lane->in->at);

	if (local || lane->fd < 0 || payload->stream != TCP_STREAM_REGION)
		return local;
	tei_tcp_pins_release(lane);
	return place_of(lane, lane->in->at);
}

/* Gives back memory of stages that nothing was read to. */
static void release_staged(struct tcp_lane *lane)
{
	if (lane->rail->n_staged)
		tei_tcp_staged_release(lane);
}

struct tcp_reading {
	struct iovec iov[PIECES_MAX + 1];
	uint32_t n_iov;
	uint64_t most;           /* no more payloads once iov covers these */
	uint64_t in_place;       /* bytes of payload that iov covers */
	uint64_t asked;          /* in_place, and what follows */
	struct tei_slice *slice; /* whose memory the cursor walks */
	struct tcp_cursor cursor;
};

/* False: iov has no room for all of it. */
static bool place_slice(struct tcp_reading *r,
			const struct tcp_payload *payload)
{
	uint64_t covered;
	uint32_t n;

	if (payload->slice != r->slice) {
		r->slice = payload->slice;
		r->cursor = tcp_slice(payload->slice)->passed;
	}
	covered = tei_tcp_gather(payload->slice, &r->cursor, payload->left,
				 r->iov + r->n_iov, PIECES_MAX - r->n_iov, &n);
	r->n_iov += n;
	r->in_place += covered;
	return covered == payload->left;
}

static bool place_region(struct tcp_lane *lane, struct tcp_reading *r,
			 uint32_t i)
{
	const struct tcp_payload *payload = &lane->in->payload[i];
	uint64_t len = payload->left;
	void *local;

	local = r->n_iov ? place_of(lane, i) : place_of_first(lane);
	if (!local)
		return false;
	if (payload->staged && payload->staged->length < len)
		len = payload->staged->length;
	r->iov[r->n_iov++] = (struct iovec){local, len};
	r->in_place += len;
	return len == payload->left;
}

/* Checksums are taken while the cache has what came: reading stops in time. */
static bool is_enough(const struct tcp_reading *r,
		      const struct tcp_payload *payload)
{
	return payload->stream == TCP_STREAM_SLICE && payload->slice->crc_len &&
	       r->in_place && r->in_place + payload->left > TCP_CRC_LEN;
}

/* True: there is no room for the first payload, which is not refused. */
static bool lacks_room(const struct tcp_lane *lane)
{
	const struct tcp_burst *in = lane->in;

	return lane->fd >= 0 && in->payload[in->at].stream == TCP_STREAM_REGION;
}

/* Place the burst's payload. True: all of it, what follows may be read too. */
static bool place_payload(struct tcp_lane *lane, struct tcp_reading *r)
{
	const struct tcp_burst *in = lane->in;

	for (uint32_t i = in->at; i < in->n; i++) {
		const struct tcp_payload *payload = &in->payload[i];

		if (r->n_iov == PIECES_MAX || r->in_place >= r->most ||
		    is_enough(r, payload) ||
		    (lane->rail->n_staged && r->in_place >= STAGED_MAX))
			return false;
		if (payload->stream == TCP_STREAM_REGION &&
		    !place_region(lane, r, i))
			return false;
		if (payload->stream == TCP_STREAM_SLICE &&
		    !place_slice(r, payload))
			return false;
		if (payload->stream == TCP_STREAM_ORPHAN)
			return false;
	}
	return true;
}

static void reading_init(struct tcp_reading *r, uint64_t most)
{
	r->n_iov = 0;
	r->most = most;
	r->in_place = 0;
	r->slice = NULL;
}

/* ---- what has come into scratch ---- */

/* Leave out of iov what goes beyond @len bytes of payload. */
static void trim_reading(struct tcp_reading *r, uint64_t len)
{
	while (r->in_place > len) {
		struct iovec *last = &r->iov[r->n_iov - 1];
		uint64_t over = r->in_place - len;

		if (over >= last->iov_len) {
			over = last->iov_len;
			r->n_iov--;
		}
		last->iov_len -= over;
		r->in_place -= over;
	}
}

/*
 * Payload that came with other bytes; returns how many of @len it was. The
 * kernel copies it, for it says so where the memory is not mapped.
 */
static size_t payload_from(struct tcp_lane *lane, size_t at, size_t len)
{
	const struct tcp_burst *in = lane->in;
	struct tcp_reading r;
	ssize_t n;

	reading_init(&r, len);
	(void)place_payload(lane, &r);
	if (lane->fd < 0)
		return 0;
	trim_reading(&r, len);
	if (!r.n_iov && lacks_room(lane)) /* it is here and cannot wait */
		refuse_payload(lane, &lane->in->payload[in->at], -EAGAIN);
	if (lane->fd < 0)
		return 0;
	if (r.n_iov) {
		n = preadv(lane->rail->scratch_fd, r.iov, (int)r.n_iov,
			   (off_t)at);
	} else {
		const struct tcp_payload *payload =
			&in->payload[in->at]; /* drained */

		n = (ssize_t)(payload->left < len ? payload->left : len);
	}
	if (n <= 0)
		end_unmapped(lane);
	else
		payload_passed(lane, (uint64_t)n);
	release_staged(lane);
	return n <= 0 ? 0 : (size_t)n;
}

/* Everything in scratch is used up, or the lane is closed. */
static void parse_scratch(struct tcp_lane *lane, size_t len)
{
	const uint8_t *scratch = lane->rail->scratch;
	size_t at = 0, n;

	for (; at < len && lane->fd >= 0; at += n) {
		n = TCP_HEAD_LEN - lane->head_have;
		if (in_payload(lane)) {
			n = payload_from(lane, at, len - at);
		} else if (!lane->head_have && len - at >= TCP_HEAD_LEN) {
			take_frame(lane, scratch + at);
		} else {
			if (n > len - at)
				n = len - at;
			memcpy(lane->head + lane->head_have, scratch + at, n);
			lane->head_have += (uint32_t)n;
			if (lane->head_have == TCP_HEAD_LEN) {
				lane->head_have = 0;
				take_frame(lane, lane->head);
			}
		}
	}
}

/* ---- reading ---- */

ssize_t tei_tcp_readv(const struct tcp_lane *lane, const struct iovec *iov,
		      uint32_t n)
{
	ssize_t got;

	if (tei_fault_check(TEI_FAULT_IO))
		return -ECONNRESET;
	do
		got = n == 1 ? recv(lane->fd, iov->iov_base, iov->iov_len, 0)
			     : readv(lane->fd, iov, (int)n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/* Returns room for as many of the headers to come as the last burst had. */
static size_t room_for_headers(const struct tcp_lane *lane)
{
	size_t have = lane->head_have;
	size_t want = lane->read_on ? lane->read_on : READ_ON;

	if (lane->in && lane->in->n && !lane->headers_end)
		have += lane->in->n * (size_t)TCP_HEAD_LEN;
	return want > have ? want - have : TCP_HEAD_LEN - lane->head_have;
}

static void place_next(struct tcp_lane *lane, struct tcp_reading *r)
{
	size_t room;

	reading_init(r, UINT64_MAX);
	if (!in_payload(lane))
		room = room_for_headers(lane);
	else if (place_payload(lane, r))
		room = lane->read_on;
	else if (r->n_iov || lacks_room(lane))
		room = 0;
	else
		room = TCP_SCRATCH_LEN; /* to be drained */
	if (room)
		r->iov[r->n_iov++] = (struct iovec){lane->rail->scratch, room};
	r->asked = r->in_place + room;
}

/* Something in iov is not mapped: read the first alone, and blame it if so. */
static ssize_t read_first(struct tcp_lane *lane, struct tcp_reading *r)
{
	ssize_t n;

	r->n_iov = 1;
	r->asked = r->in_place = r->iov[0].iov_len;
	n = tei_tcp_readv(lane, r->iov, 1);
	if (n != -EFAULT)
		return n;
	end_unmapped(lane);
	return -EAGAIN;
}

/* Make one system call. Returns how much came; 0: nothing more for now. */
static size_t receive_once(struct tcp_lane *lane, bool *more)
{
	struct tcp_reading r;
	uint64_t here;
	ssize_t n;

	place_next(lane, &r);
	if (lane->fd < 0)
		return 0;
	if (!r.n_iov) {
		tei_tcp_pause(lane);
		return 0;
	}
	n = tei_tcp_readv(lane, r.iov, r.n_iov);
	if (n == -EFAULT && r.in_place)
		n = read_first(lane, &r);
	if (n <= 0)
		release_staged(lane);
	if (n == -EAGAIN)
		return 0;
	if (n <= 0) {
		tei_tcp_lane_fail(lane, n ? (int)n : -ECONNRESET);
		return 0;
	}
	here = r.in_place < (size_t)n ? r.in_place : (size_t)n;
	if (here)
		payload_passed(lane, here);
	release_staged(lane);
	parse_scratch(lane, (size_t)n - here);
	*more = (size_t)n == r.asked;
	return (size_t)n;
}

size_t tei_tcp_receive(struct tcp_lane *lane)
{
	size_t total = 0;
	bool more = true;

	for (int i = 0; i < READS_MAX && total < BYTES_MAX && more; i++) {
		more = false;
		total += receive_once(lane, &more);
		release_staged(lane);
		more = more && lane->fd >= 0;
	}
	if (lane->backlog)
		tei_tcp_pins_release(lane);
	if (total && lane->fd >= 0 && lane->ep && lane->ep->base->target)
		lane->rail->base->read_fd = lane->fd;
	if (total)
		lane->polls_left = POLLS_MAX;
	else if (lane->polls_left)
		lane->polls_left--;
	if (total && lane->fd >= 0 && !(lane->interest & EPOLLOUT))
		tei_tcp_send(lane);
	return total;
}
