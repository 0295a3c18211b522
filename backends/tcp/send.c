/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send.c - one vectored write of a lane: planned, sent, accounted for
 *
 * A plan holds, in this order: headers that are half sent, payload that was
 * announced before, and one new block: headers without payload, headers of a
 * new burst, the burst's payload. Planning changes nothing but the plan, and
 * whether payload is lent; it is up to the kernel how much of it becomes true.
 * Payload that the kernel borrows goes alone.
 *
 * As soon as one byte of the new block is on its way the whole block is true:
 * the rest of its headers is kept by the lane, and its payload is announced and
 * must follow.
 *
 * A target sends answers, and data for READs. They wait in two rings of
 * TCP_WINDOW places, the backlog, which together bound what a peer may have
 * unanswered.
 */
#include "backends/tcp/tcp.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mapped.h"
#include "base/mem.h"
#include <te/te.h>

#define CACHE_LINE 64

/* ---- the backlog of a target ---- */

static struct tcp_answer *answer_at(struct tcp_backlog *b, uint32_t i)
{
	return &b->answers[(b->first_answer + i) % TCP_WINDOW];
}

static bool is_full(const struct tcp_backlog *b)
{
	return b->n_ids + b->n_reads >= TCP_WINDOW;
}

bool tei_tcp_backlog_answer(struct tcp_lane *lane, uint64_t id, int err)
{
	struct tcp_backlog *b = lane->backlog;
	uint16_t status = (uint16_t)tei_status_from_errno(err);
	struct tcp_answer *last;

	if (is_full(b))
		return false;
	b->n_ids++;
	/* Neighbouring ids that end alike share one answer. */
	if (b->n_answers) {
		last = answer_at(b, b->n_answers - 1);
		if (last->status == status && last->id + last->count == id) {
			last->count++;
			return true;
		}
	}
	*answer_at(b, b->n_answers++) =
		(struct tcp_answer){.id = id, .count = 1, .status = status};
	return true;
}

bool tei_tcp_backlog_read(struct tcp_lane *lane, const struct tcp_frame *ask,
			  bool copied)
{
	struct tcp_backlog *b = lane->backlog;

	if (is_full(b))
		return false;
	*tei_tcp_served_at(b, b->n_reads++) = (struct tcp_served){
		.id = ask->id,
		.key = ask->key,
		.address = ask->address,
		.length = ask->length,
		.copied = copied,
	};
	lane->any_copied |= copied;
	return true;
}

void tei_tcp_backlog_fail_read(struct tcp_lane *lane, uint64_t id, int err)
{
	assert(lane->backlog); /* a lane that is served has them */
	for (uint32_t i = 0; i < lane->backlog->n_reads; i++) {
		struct tcp_served *served = tei_tcp_served_at(lane->backlog, i);

		if (served->id == id && !served->err) {
			served->err = err;
			return;
		}
	}
}

/* The first @n answers are on their way. */
static void answers_sent(struct tcp_backlog *b, uint32_t n)
{
	for (; n; n--) {
		b->n_ids -= answer_at(b, 0)->count;
		b->first_answer = (b->first_answer + 1) % TCP_WINDOW;
		b->n_answers--;
	}
}

static void pop_read(struct tcp_backlog *b)
{
	b->first_read = (b->first_read + 1) % TCP_WINDOW;
	b->n_reads--;
}

/* @length bytes more of the first READ have been announced. */
static void read_sent(struct tcp_backlog *b, uint64_t length)
{
	struct tcp_served *served = tei_tcp_served_at(b, 0);

	served->sent += length;
	if (served->sent == served->length)
		pop_read(b);
}

/* READs that were refused when their turn came become answers. */
static void answer_refused_reads(struct tcp_lane *lane)
{
	struct tcp_backlog *b = lane->backlog;

	while (b && b->n_reads && tei_tcp_served_at(b, 0)->err) {
		struct tcp_served served = *tei_tcp_served_at(b, 0);

		pop_read(b);
		if (served.copied)
			tei_tcp_fetches_drop(lane, served.id);
		lane->rail->base->refused_slices++;
		(void)tei_tcp_backlog_answer(lane, served.id, served.err);
	}
}

/* ---- the plan: payload ---- */

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

struct tcp_layout {
	const struct tcp_burst *burst;
	bool is_new;
	struct tei_slice *slice; /* whose memory the cursor walks */
	struct tcp_cursor cursor;
	uint32_t whole; /* index of the first payload not wholly in iov */
	bool begun;     /* a part of that one is */
	int err;        /* why its memory cannot be had */
};

/*
 * Bring memory into the cache that the kernel is about to copy, and the
 * checksum to read after that: more loads are under way at a time like this.
 */
static void prefetch(const struct iovec *runs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *bytes = runs[i].iov_base;

		for (size_t at = 0; at < runs[i].iov_len; at += CACHE_LINE)
			__builtin_prefetch(bytes + at);
	}
}

/* False: it does not fit, or not wholly. */
static bool lay_slice(struct tcp_plan *p, struct tcp_layout *l,
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
		prefetch(p->iov + p->n_iov, n);
	p->n_iov += n;
	p->bytes += covered;
	l->begun = covered;
	return covered == payload->left;
}

static bool lay_region(struct tcp_lane *lane, struct tcp_plan *p,
		       struct tcp_layout *l, const struct tcp_payload *payload)
{
	uint32_t n = l->burst->n - l->whole;
	void *local;
	int rc;

	rc = tei_tcp_pin(lane, payload, n, TE_ACCESS_REMOTE_READ, &local);
	if (rc) {
		l->err = rc == -EAGAIN ? 0 : rc < 0 ? rc : -EFAULT;
		return false;
	}
	plan_memory(p, local, payload->left);
	return true;
}

static bool lay_payload(struct tcp_lane *lane, struct tcp_plan *p,
			struct tcp_layout *l)
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
	case TCP_STREAM_FETCHED:
		plan_memory(p, payload->bytes + payload->fetch_at,
			    payload->left);
		return true;
	default:
		plan_memory(p, payload->copy + payload->copy_at, payload->left);
		return true;
	}
}

static void lay_out(struct tcp_lane *lane, struct tcp_plan *p,
		    struct tcp_layout *l)
{
	for (l->whole = l->burst->at; l->whole < l->burst->n; l->whole++) {
		if (!lay_payload(lane, p, l))
			return;
	}
	l->begun = false;
}

/* ---- the plan: headers without payload ---- */

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
static uint64_t plan_reads(const struct tcp_lane *lane, struct tcp_plan *p)
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

/* ---- the plan: the new burst ---- */

struct tcp_loading {
	uint32_t room;  /* payloads */
	uint64_t bytes; /* that may still be added, about */
	uint64_t frame; /* most payload of one */
};

static bool is_loaded(const struct tcp_plan *p, const struct tcp_loading *load)
{
	return p->burst.n >= load->room || !load->bytes;
}

/* Cut @f to one frame of what it stands for; the payload to go with it. */
static struct tcp_payload *
load_payload(struct tcp_plan *p, struct tcp_loading *load, struct tcp_frame *f)
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
			struct tcp_loading *load, uint64_t id)
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

/* Loads the rest of a READ. False: there is no room for all of it. */
static bool load_read(struct tcp_plan *p, struct tcp_loading *load,
		      const struct tcp_served *served)
{
	struct tcp_frame f = {
		.op = TCP_DATA, .id = served->id, .offset = served->sent};

	for (; f.offset < served->length; f.offset += f.length) {
		struct tcp_payload *payload;

		if (is_loaded(p, load))
			return false;
		f.length = served->length - f.offset;
		payload = load_payload(p, load, &f);
		payload->stream = TCP_STREAM_REGION;
		payload->key = served->key;
		payload->address = served->address + f.offset;
	}
	return true;
}

/* The same for a GPU's memory, as far as it is copied; *@last: of the READs. */
static bool load_copied(const struct tcp_lane *lane, struct tcp_plan *p,
			struct tcp_loading *load,
			const struct tcp_served *served,
			struct tcp_fetch **last)
{
	struct tcp_frame f = {
		.op = TCP_DATA, .id = served->id, .offset = served->sent};

	for (; f.offset < served->length; f.offset += f.length) {
		struct tcp_loading piece = *load;
		struct tcp_payload *payload;
		const uint8_t *bytes;

		if (is_loaded(p, load))
			return false;
		*last = tei_tcp_next_fetch(lane, *last, f.id);
		if (!*last)
			return false;
		bytes = tei_tcp_fetch_memory(*last, &piece.frame);
		f.length = served->length - f.offset;
		payload = load_payload(p, &piece, &f);
		assert(payload->left == piece.frame);
		load->bytes = piece.bytes;
		payload->stream = TCP_STREAM_FETCHED;
		payload->fetch = *last;
		payload->bytes = bytes;
		payload->fetch_at = 0;
	}
	return true;
}

static void load_served(const struct tcp_lane *lane, struct tcp_plan *p,
			struct tcp_loading *load)
{
	struct tcp_fetch *last = NULL;
	bool more = true;

	for (uint32_t i = 0; i < lane->backlog->n_reads && more; i++) {
		const struct tcp_served *served =
			tei_tcp_served_at(lane->backlog, i);

		more = !served->err &&
		       (served->copied
				? load_copied(lane, p, load, served, &last)
				: load_read(p, load, served));
	}
}

/* Payload first, for it decides how long the burst can be. */
static void plan_burst(struct tcp_lane *lane, struct tcp_plan *p)
{
	struct tcp_layout l = {.burst = &p->burst, .is_new = true};
	uint32_t n_iov = p->n_iov;
	size_t bytes = p->bytes;

	lay_out(lane, p, &l);
	if (l.err)
		tei_tcp_backlog_fail_read(lane, p->burst.payload[l.whole].id,
					  l.err);
	p->burst.n = l.whole + l.begun;
	if (tei_tcp_choose_lending(lane, p)) {
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

/* Returns about how much is handed to the kernel at once. */
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
	struct tcp_loading load = {.frame = config->frame,
				   .room = TCP_BURST_MAX};
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
		load_writes(lane, p, &load, plan_reads(lane, p));
	}
	plan_burst(lane, p);
	p->iov[headers].iov_base = p->headers;
	p->iov[headers].iov_len = p->n_headers * (size_t)TCP_HEAD_LEN;
	p->bytes += p->iov[headers].iov_len;
}

/* Fill rail->plan; changes nothing else. < 0: what is half sent cannot end. */
static int plan_write(struct tcp_lane *lane)
{
	struct tcp_plan *p = lane->rail->plan;
	struct tcp_layout old = {.burst = lane->out};
	bool lends;

	p->n_iov = p->n_answers = p->n_asked = p->n_headers = 0;
	p->burst.at = p->burst.n = 0;
	p->bytes = p->abort_id = 0;
	p->headless = p->lends = false;
	p->lendable = 0;
	lends = lane->out && lane->zerocopy && lane->zerocopy->chosen &&
		tei_tcp_lendable(lane, lane->out);
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

/* False: the first READ waits for a copy. */
static bool can_serve(const struct tcp_lane *lane)
{
	const struct tcp_served *first = tei_tcp_served_at(lane->backlog, 0);

	return !first->copied || first->err ||
	       tei_tcp_next_fetch(lane, NULL, first->id);
}

static bool has_more(const struct tcp_lane *lane)
{
	const struct tcp_backlog *b = lane->backlog;

	return lane->headers_len || (lane->out && lane->out->n) ||
	       lane->abort_id || !tei_list_empty(&lane->reads) ||
	       !tei_list_empty(&lane->writes) ||
	       (b && (b->n_answers || (b->n_reads && can_serve(lane))));
}

/* ---- payload that was sent ---- */

static void orphan_sent(struct tcp_lane *lane, struct tcp_payload *payload)
{
	if (payload->left)
		return;
	tei_free(payload->copy);
	lane->n_owed--;
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
	case TCP_STREAM_FETCHED:
		payload->fetch_at += n;
		if (!payload->left)
			tei_tcp_fetch_sent(payload->fetch);
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
	if (lane->n_owed)
		lane->stalled_ms = tei_now_ms();
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

static void move_to_sent(struct tei_list *list, struct tei_slice *slice)
{
	tcp_slice(slice)->sent = true;
	tei_list_del(&slice->link);
	tei_list_add_tail(list, &slice->link);
}

static void commit_reads(struct tcp_lane *lane, uint32_t n)
{
	for (; n; n--) {
		struct tei_slice *slice = tei_list_entry(
			lane->reads.next, struct tei_slice, link);

		tcp_slice(slice)->id = lane->next_id++;
		move_to_sent(&lane->sent_reads, slice);
	}
}

static void skip_bytes(const struct tei_slice *slice, struct tcp_cursor *c,
		       uint64_t len)
{
	struct iovec run;
	uint32_t n;

	while (len)
		len -= tei_tcp_gather(slice, c, len, &run, 1, &n);
}

static void announce_payload(struct tcp_lane *lane,
			     const struct tcp_payload *payload)
{
	struct tcp_slice *s;

	if (payload->stream == TCP_STREAM_FETCHED)
		tei_tcp_fetch_announced(payload->fetch);
	if (payload->stream == TCP_STREAM_FETCHED ||
	    payload->stream == TCP_STREAM_REGION) {
		read_sent(lane->backlog, payload->left);
		return;
	}
	s = tcp_slice(payload->slice);
	if (!s->id)
		lane->next_id = payload->id + 1;
	s->id = payload->id;
	skip_bytes(payload->slice, &s->announced, payload->left);
	if (s->announced.at == payload->slice->length)
		move_to_sent(&lane->sent_writes, payload->slice);
}

static void append_burst(struct tcp_burst *out, const struct tcp_burst *burst)
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

static void commit_plan(struct tcp_lane *lane, const struct tcp_plan *p)
{
	if (p->abort_id)
		lane->abort_id = 0;
	if (p->n_answers)
		answers_sent(lane->backlog, p->n_answers);
	commit_reads(lane, p->n_asked);
	for (uint32_t i = 0; i < p->burst.n; i++)
		announce_payload(lane, &p->burst.payload[i]);
	if (p->burst.n)
		append_burst(lane->out, &p->burst);
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
static int account_sent(struct tcp_lane *lane, const struct tcp_plan *p,
			size_t n)
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
	commit_plan(lane, p);
	part = smaller(n, headers);
	bytes_sent(lane, n - part);
	if (part == headers)
		return 0;
	return keep_headers(lane, (const uint8_t *)p->headers + part,
			    headers - part);
}

/* ---- memory that is unmapped ---- */

static bool is_slice_mapped(const struct tei_slice *slice)
{
	for (uint32_t i = 0; i < slice->n_iov; i++) {
		const struct iovec *piece = &slice->iov[i];

		if (piece->iov_len && !tei_is_usable((uintptr_t)piece->iov_base,
						     piece->iov_len, false))
			return false;
	}
	return true;
}

/* Ends slices whose memory is unmapped; returns how many. A slice is over with
 * the first of its payloads that is found. */
static uint32_t give_up_slices(struct tcp_lane *lane,
			       const struct tcp_burst *burst)
{
	uint32_t found = 0;

	for (uint32_t i = burst->at; i < burst->n; i++) {
		const struct tcp_payload *payload = &burst->payload[i];

		if (payload->stream != TCP_STREAM_SLICE ||
		    tcp_slice(payload->slice)->lane != lane ||
		    is_slice_mapped(payload->slice) ||
		    !tei_tcp_is_quiet(payload->slice))
			continue;
		tei_tcp_slice_unmapped(payload->slice);
		found++;
	}
	return found;
}

/* Tells the engine of regions whose memory seems unmapped; returns how many. */
static uint32_t doubt_regions(struct tcp_lane *lane,
			      const struct tcp_burst *burst)
{
	uint32_t found = 0;

	for (uint32_t i = burst->at; i < burst->n; i++) {
		const struct tcp_payload *payload = &burst->payload[i];
		const struct tcp_pin *pin;

		if (payload->stream != TCP_STREAM_REGION ||
		    tei_is_usable(payload->address, payload->left, false))
			continue;
		pin = tei_tcp_find_pin(lane->rail, payload,
				       TE_ACCESS_REMOTE_READ);
		if (!pin)
			continue;
		tei_region_doubt(lane->ep->base, pin->id);
		found++;
	}
	return found;
}

/*
 * The kernel could not read something of the plan and does not say what. Nobody
 * may unmap memory of a region or of a request in flight, but who does loses
 * that request only, and nobody gets a signal: slices whose memory is unmapped
 * end, and the others go on. -EFAULT: the lane cannot go on.
 */
static int end_unmapped(struct tcp_lane *lane)
{
	const struct tcp_burst *planned = &lane->rail->plan->burst;
	const struct tcp_burst *out = lane->out;
	uint32_t found;

	/* Data of a READ that was announced cannot be taken back. */
	if (out && doubt_regions(lane, out))
		return -EFAULT;
	found = doubt_regions(lane, planned);
	if (out)
		found += give_up_slices(lane, out);
	found += give_up_slices(lane, planned);
	return found ? 0 : -EFAULT;
}

/* ---- sending ---- */

/* sendmsg() by which the kernel borrows. As sendmsg(), with errno. */
static ssize_t lend_payload(struct tcp_lane *lane, const struct msghdr *msg)
{
	struct tcp_zerocopy *z = lane->zerocopy;
	int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
	ssize_t n;

	n = sendmsg(lane->fd, msg, flags | MSG_ZEROCOPY);
	if (n < 0 && errno == ENOBUFS) /* of its own book-keeping */
		return sendmsg(lane->fd, msg, flags);
	if (n > 0) {
		z->next++;
		z->sending = true;
	}
	return n;
}

static ssize_t transmit_plan(struct tcp_lane *lane, const struct tcp_plan *p)
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
		n = p->lends ? lend_payload(lane, &msg)
			     : sendmsg(lane->fd, &msg, flags);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return n;
	return errno == EAGAIN ? 0 : -errno;
}

/* Room for what the plan is about to announce. */
static int alloc_burst(struct tcp_lane *lane, const struct tcp_plan *p)
{
	if (!p->burst.n || lane->out)
		return 0;
	lane->out = tei_malloc(sizeof(*lane->out));
	if (!lane->out)
		return -ENOMEM;
	lane->out->at = lane->out->n = 0;
	return 0;
}

/* Sets *@n to what the kernel took: all of plan->bytes, unless it is full. */
static int send_plan(struct tcp_lane *lane, ssize_t *n)
{
	struct tcp_plan *p = lane->rail->plan;
	int rc;

	rc = plan_write(lane);
	if (!rc)
		rc = alloc_burst(lane, p);
	*n = !rc && p->bytes ? transmit_plan(lane, p) : 0;
	if (*n == -EFAULT) {
		rc = end_unmapped(lane);
		*n = 0;
	}
	if (lane->backlog)
		tei_tcp_pins_release(lane);
	if (rc < 0 || *n < 0)
		return rc < 0 ? rc : (int)*n;
	rc = account_sent(lane, p, (size_t)*n);
	if (lane->zerocopy)
		lane->zerocopy->sending = false;
	return rc;
}

static int send_once(struct tcp_lane *lane, ssize_t *n)
{
	struct tcp_plan *p = lane->rail->plan;
	uint64_t from = lane->zerocopy ? tei_now_ns() : 0, bytes;
	int rc = send_plan(lane, n);

	bytes = p->lendable;
	if (!rc && p->headless && !lane->headers_len)
		rc = send_plan(lane, n);
	if (!rc && bytes && *n > 0)
		tei_tcp_lending_learn(lane, bytes, (uint64_t)*n,
				      tei_now_ns() - from);
	return rc;
}

/*
 * A slice with a checksum goes in pieces. Some of them in a row cost less than
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
		 sent < chunk && has_more(lane));
	return rc;
}

/* Copies ahead what is to be sent next. */
static void fetch_some(struct tcp_lane *lane)
{
	const struct tcp_backlog *b = lane->backlog;

	if (b && b->n_reads && lane->any_copied)
		tei_tcp_fetch(lane);
}

void tei_tcp_send(struct tcp_lane *lane)
{
	uint32_t in = lane->interest & EPOLLIN;
	int rc;

	answer_refused_reads(lane);
	fetch_some(lane);
	if (has_more(lane)) {
		rc = send_pieces(lane);
		if (rc < 0) {
			tei_tcp_lane_fail(lane, rc);
			return;
		}
		fetch_some(lane);
	}
	tei_tcp_lane_watch(lane, in | (has_more(lane) ? EPOLLOUT : 0));
}
