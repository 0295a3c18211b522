/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c - what goes out next on a lane, put into one vectored write
 *
 * In this order: headers that are half sent, payload that was announced
 * before, and one new block: headers without payload, headers of a new burst,
 * the burst's payload. Nothing is changed here but the plan; it is up to the
 * kernel how much of it becomes true. The new block's headers go as a whole or
 * not at all (send.c keeps what is missing of them). Payload that the kernel
 * borrows goes alone.
 */
#include "backends/tcp/tcp.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include <te/te.h>

static void plan_memory(struct tcp_plan *p, const void *bytes, size_t len)
{
	p->iov[p->n_iov].iov_base = (void *)(uintptr_t)bytes;
	p->iov[p->n_iov].iov_len = len;
	p->n_iov++;
	p->bytes += len;
}

static void plan_header(struct tcp_plan *p, const struct tcp_frame *f)
{
	assert(p->n_headers < TCP_HEADERS_MAX);
	tei_tcp_frame_encode(f, p->headers[p->n_headers++]);
}

/* ---- payload ---- */

struct layout {
	const struct tcp_burst *burst;
	bool is_new;
	struct tei_slice *slice; /* whose memory the cursor walks */
	struct tcp_cursor cursor;
	uint32_t
		whole; /* index of the first payload that is not wholly in iov */
	bool begun;    /* a part of that one is */
	int err;       /* why its memory cannot be had */
};

/*
 * The kernel is about to copy this, and the checksum reads it behind that. Asked
 * for like this it comes faster, since more of it is under way at a time.
 */
static void fetch(const struct iovec *runs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *bytes = runs[i].iov_base;

		for (size_t at = 0; at < runs[i].iov_len; at += TCP_CACHE_LINE)
			__builtin_prefetch(bytes + at);
	}
}

/* False: it does not fit, or not wholly. */
static bool lay_slice(struct tcp_plan *p, struct layout *l,
		      const struct tcp_payload *payload)
{
	const struct tcp_slice *s = tcp_slice(payload->slice);
	uint64_t covered;
	uint32_t n;

	if (payload->slice != l->slice) {
		l->slice = payload->slice;
		l->cursor = l->is_new ? s->announced : s->passed;
	}
	covered = tei_tcp_gather(payload->slice, &l->cursor, payload->left,
				 p->iov + p->n_iov, TCP_IOV_MAX - p->n_iov, &n);
	if (l->is_new && payload->slice->crc_len >= TCP_BULK_LEN)
		fetch(p->iov + p->n_iov, n);
	p->n_iov += n;
	p->bytes += covered;
	l->begun = covered;
	return covered == payload->left;
}

static bool lay_region(struct tcp_lane *lane, struct tcp_plan *p,
		       struct layout *l, const struct tcp_payload *payload)
{
	uint32_t n = l->burst->n - l->whole;
	void *local;
	int rc;

	rc = tei_tcp_pin(lane, payload, n, TE_ACCESS_REMOTE_READ, &local);
	if (rc < 0) {
		l->err = rc == -EAGAIN ? 0 : rc;
		return false;
	}
	plan_memory(p, local, payload->left);
	return true;
}

static bool lay_payload(struct tcp_lane *lane, struct tcp_plan *p,
			struct layout *l)
{
	const struct tcp_payload *payload = &l->burst->payload[l->whole];

	l->begun = false;
	if (p->n_iov == TCP_IOV_MAX)
		return false;
	switch (payload->stream) {
	case TCP_STREAM_SLICE:
		return lay_slice(p, l, payload);
	case TCP_STREAM_REGION:
		return lay_region(lane, p, l, payload);
	default:
		plan_memory(p, payload->copy + payload->copy_at, payload->left);
		return true;
	}
}

static void lay_out(struct tcp_lane *lane, struct tcp_plan *p, struct layout *l)
{
	for (l->whole = l->burst->at; l->whole < l->burst->n; l->whole++) {
		if (!lay_payload(lane, p, l))
			return;
	}
	l->begun = false;
}

/* ---- headers without payload ---- */

static void plan_answers(struct tcp_lane *lane, struct tcp_plan *p)
{
	for (uint32_t i = 0; i < lane->backlog->n_answers; i++) {
		struct tcp_answer *a = answer_at(lane->backlog, i);
		struct tcp_frame f = {.op = TCP_ANSWER,
				      .status = (uint8_t)a->status,
				      .id = a->id,
				      .length = a->count};

		plan_header(p, &f);
		p->n_answers++;
	}
}

static void plan_abort(const struct tcp_lane *lane, struct tcp_plan *p)
{
	struct tcp_frame f = {
		.op = TCP_WRITE, .flags = TCP_ABORT, .id = lane->abort_id};

	if (!f.id)
		return;
	plan_header(p, &f);
	p->abort_id = f.id;
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

/* Returns the first id that is free behind them. */
static uint64_t plan_asks(const struct tcp_lane *lane, struct tcp_plan *p)
{
	uint64_t id = lane->next_id;
	struct tcp_frame f;

	tei_list_for_each (pos, &lane->reads) {
		frame_of(tei_list_entry(pos, struct tei_slice, link), TCP_READ,
			 0, &f);
		f.id = id++;
		plan_header(p, &f);
		p->n_asked++;
	}
	return id;
}

/* ---- the new burst ---- */

struct loading {
	uint32_t room;  /* payloads */
	uint64_t bytes; /* that may still be added, about */
	uint64_t frame; /* most payload of one */
};

static bool is_loaded(const struct tcp_plan *p, const struct loading *load)
{
	return p->burst.n >= load->room || !load->bytes;
}

/* Cut @f to one frame of what it stands for; the payload to go with it. */
static struct tcp_payload *
load_payload(struct tcp_plan *p, struct loading *load, struct tcp_frame *f)
{
	struct tcp_payload *payload = &p->burst.payload[p->burst.n];

	if (f->length <= load->frame)
		f->flags |= TCP_LAST;
	else
		f->length = load->frame;
	p->frames[p->burst.n++] = *f;
	load->bytes -= f->length < load->bytes ? f->length : load->bytes;
	*payload = (struct tcp_payload){.id = f->id, .left = f->length};
	return payload;
}

static void load_writes(const struct tcp_lane *lane, struct tcp_plan *p,
			struct loading *load, uint64_t id)
{
	tei_list_for_each (pos, &lane->writes) {
		struct tei_slice *slice =
			tei_list_entry(pos, struct tei_slice, link);
		uint64_t at = tcp_slice(slice)->announced.at;
		struct tcp_frame f;

		for (; at < slice->length; at += f.length) {
			struct tcp_payload *payload;

			if (is_loaded(p, load))
				return;
			frame_of(slice, TCP_WRITE, at, &f);
			if (!f.id)
				f.id = id;
			payload = load_payload(p, load, &f);
			payload->stream = TCP_STREAM_SLICE;
			payload->slice = slice;
		}
		if (!tcp_slice(slice)->id)
			id++;
	}
}

static void load_served(const struct tcp_lane *lane, struct tcp_plan *p,
			struct loading *load)
{
	for (uint32_t i = 0; i < lane->backlog->n_reads; i++) {
		struct tcp_served *served = read_at(lane->backlog, i);
		struct tcp_frame f = {.op = TCP_DATA, .id = served->id};

		if (served->err)
			return;
		f.offset = served->sent;
		for (; f.offset < served->length; f.offset += f.length) {
			struct tcp_payload *payload;

			if (is_loaded(p, load))
				return;
			f.length = served->length - f.offset;
			payload = load_payload(p, load, &f);
			payload->stream = TCP_STREAM_REGION;
			payload->key = served->key;
			payload->address = served->address + f.offset;
		}
	}
}

/* Memory of a READ cannot be had (any more): it will be answered with why. */
static void note_refused(struct tcp_lane *lane, uint64_t id, int err)
{
	assert(lane->backlog); /* a lane that is served has them */
	for (uint32_t i = 0; i < lane->backlog->n_reads; i++) {
		struct tcp_served *served = read_at(lane->backlog, i);

		if (served->id == id && !served->err) {
			served->err = err;
			return;
		}
	}
}

/* Payload first, for it decides how long the burst can be. */
static void plan_burst(struct tcp_lane *lane, struct tcp_plan *p)
{
	struct layout l = {.burst = &p->burst, .is_new = true};
	uint32_t n_iov = p->n_iov;
	size_t bytes = p->bytes;

	lay_out(lane, p, &l);
	if (l.err)
		note_refused(lane, p->burst.payload[l.whole].id, l.err);
	p->burst.n = l.whole + l.begun;
	if (p->burst.n && tei_tcp_may_lend(lane, &p->burst)) {
		p->n_iov = n_iov;
		p->bytes = bytes;
		p->headless = true;
	}
	for (uint32_t i = 0; i < p->burst.n; i++) {
		if (i + 1 < p->burst.n)
			p->frames[i].flags |= TCP_MORE;
		plan_header(p, &p->frames[i]);
	}
}

/* About how much is handed to the kernel at once. */
static uint64_t chunk_of(const struct tcp_lane *lane)
{
	uint64_t chunk = tcp_config(lane->rail)->send_chunk;
	const struct tei_slice *first;

	if (tei_list_empty(&lane->writes))
		return chunk;
	first = tei_list_entry(lane->writes.next, struct tei_slice, link);
	return first->crc_len && chunk > TCP_CRC_LEN ? TCP_CRC_LEN : chunk;
}

static void plan_block(struct tcp_lane *lane, struct tcp_plan *p)
{
	const struct tcp_config *config = tcp_config(lane->rail);
	const struct tcp_burst *out = lane->out;
	uint64_t chunk = chunk_of(lane);
	struct loading load = {.frame = config->frame, .room = TCP_BURST_MAX};
	uint32_t headers = p->n_iov++;

	if (out)
		load.room -= out->n - out->at;
	if (p->bytes < chunk)
		load.bytes = chunk - p->bytes;
	if (lane->backlog) {
		plan_answers(lane, p);
		load_served(lane, p, &load);
	} else {
		plan_abort(lane, p);
		load_writes(lane, p, &load, plan_asks(lane, p));
	}
	plan_burst(lane, p);
	p->iov[headers].iov_base = p->headers;
	p->iov[headers].iov_len = p->n_headers * (size_t)TCP_HEAD_LEN;
	p->bytes += p->iov[headers].iov_len;
}

int tei_tcp_plan(struct tcp_lane *lane)
{
	struct tcp_plan *p = lane->rail->plan;
	struct layout old = {.burst = lane->out};
	bool lends;

	p->n_iov = p->n_answers = p->n_asked = p->n_headers = 0;
	p->burst.at = p->burst.n = 0;
	p->bytes = p->abort_id = 0;
	p->headless = p->lends = false;
	lends = lane->out && tei_tcp_may_lend(lane, lane->out);
	if (lane->headers_len)
		plan_memory(p, lane->headers + lane->headers_at,
			    lane->headers_len);
	if (lends && lane->headers_len)
		p->headless = true;
	else if (lane->out)
		lay_out(lane, p, &old);
	p->old_bytes = p->bytes;
	if (old.err)
		return old.err;
	p->lends = lends && !p->headless;
	if (lends || (lane->out && old.whole < lane->out->n))
		return 0;
	if (p->n_iov + 2 <= TCP_IOV_MAX)
		plan_block(lane, p);
	return 0;
}

bool tei_tcp_has_more(const struct tcp_lane *lane)
{
	const struct tcp_backlog *d = lane->backlog;

	return lane->headers_len || (lane->out && lane->out->n) ||
	       lane->abort_id || !tei_list_empty(&lane->reads) ||
	       !tei_list_empty(&lane->writes) ||
	       (d && (d->n_answers || d->n_reads));
}
