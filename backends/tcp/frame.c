/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.c - what the frames that come in mean
 *
 * Nothing a peer says is used before it is checked. A frame that breaks the
 * protocol ends the endpoint; one that asks for what it may not have is
 * answered with why, once for each id, and its payload is drained.
 */
#include "backends/tcp/tcp.h"

#include <endian.h>
#include <errno.h>

#include "base/mem.h"
#include <te/te.h>

#define READ_ON (16u << 10) /* past small frames: copying is cheap */

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

/* The READ of @id; it comes behind what the burst before it is about. */
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

/* Only the first one can have been announced in part. */
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
static void refused(struct tcp_lane *lane, uint64_t id, int err)
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

static void written(struct tcp_lane *lane, uint64_t id)
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
			refused(lane, id, err);
		else
			written(lane, id);
	}
}

/* ---- bursts ---- */

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
	if (f->epoch != lane->ep->base->epoch)
		payload->err = -ESTALE;
}

static void take_abort(struct tcp_lane *lane, const struct tcp_frame *f)
{
	if (f->id != lane->refused_id &&
	    !tei_tcp_backlog_answer(lane, f->id, -ECANCELED))
		tei_tcp_lane_bad(lane, too_many);
}

/*
 * Whether a READ may have all that it asks for. When its data fits one frame
 * that is left to the moment in which it is sent.
 */
static int check_read(const struct tcp_lane *lane, const struct tcp_frame *f)
{
	uint64_t key = htole64(f->key), pin;
	void *local;
	int rc;

	if (f->epoch != lane->ep->base->epoch)
		return -ESTALE;
	if (f->length <= tcp_config(lane->rail)->frame)
		return 0;
	if (f->address + f->length < f->address)
		return -EFAULT;
	rc = tei_region_pin(lane->ep->base, &key, sizeof(key), f->address,
			    f->length, TE_ACCESS_REMOTE_READ, &local, &pin);
	if (!rc)
		tei_region_unpin(lane->ep->base, pin);
	return rc;
}

static void take_read(struct tcp_lane *lane, const struct tcp_frame *f)
{
	int rc = check_read(lane, f);
	bool has_room;

	if (rc < 0) {
		lane->rail->base->refused_slices++;
		has_room = tei_tcp_backlog_answer(lane, f->id, rc);
	} else {
		has_room = tei_tcp_backlog_read(lane, f);
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

void tei_tcp_take_frame(struct tcp_lane *lane, const uint8_t *head)
{
	struct tcp_frame f;

	if (!tei_tcp_frame_decode(head, &f))
		tei_tcp_lane_bad(lane, "malformed frame");
	else if (lane->ep->base->target)
		take_as_target(lane, &f);
	else
		take_as_initiator(lane, &f);
}

/* ---- payload ---- */

void tei_tcp_refuse(struct tcp_lane *lane, struct tcp_payload *payload, int err)
{
	lane->rail->base->refused_slices++;
	lane->refused_id = payload->id;
	payload->stream = TCP_STREAM_ORPHAN;
	if (!tei_tcp_backlog_answer(lane, payload->id, err))
		tei_tcp_lane_bad(lane, too_many);
}

void tei_tcp_payload_end(struct tcp_lane *lane)
{
	struct tcp_burst *in = lane->in;
	const struct tcp_payload *payload = &in->payload[in->at++];

	if (in->at == in->n)
		in->at = in->n = 0;
	if (!payload->last)
		return;
	if (payload->stream == TCP_STREAM_REGION) {
		if (!tei_tcp_backlog_answer(lane, payload->id, 0))
			tei_tcp_lane_bad(lane, too_many);
	} else if (payload->data) {
		if (!count_answer(lane))
			tei_tcp_lane_bad(lane, "answer to nothing");
		else if (payload->stream == TCP_STREAM_SLICE)
			tei_tcp_slice_end(payload->slice, 0,
					  payload->slice->length);
	}
}
