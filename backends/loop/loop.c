/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.c - the reference backend: memory to memory inside one engine
 *
 * The backend shows the contract of te/backend.h with nothing in the way. Both
 * halves of an endpoint live in the same rail and find each other by number;
 * post() queues, progress() copies, a step at a time, so that a huge slice can
 * be cancelled and a region in use is never pinned for long.
 */
#include "backends/loop/loop.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/copy_sum.h"
#include "base/mapped.h"
#include <te/te.h>

#define KEY_LEN    8
#define STEP_LEN   (1u << 20)  /* copied between two looks at the world */
#define QUEUE_MAX  1024        /* slices taken and not done */
#define LARGE      (64u << 10) /* memory that only passes through caches */
#define STREAM_LEN ((uint64_t)64 << 10) /* part of it that fits one */

static int loop_probe(const struct tei_search *search)
{
	static const struct tei_device self = {.name = "0", .numa_node = -1};

	return search->found(&self, search->arg);
}

static int loop_rail_open(struct tei_rail *rail)
{
	tei_list_init(&loop_rail(rail)->halves);
	tei_list_init(&loop_rail(rail)->queue);
	tei_list_init(&loop_rail(rail)->copying);
	tei_list_init(&loop_rail(rail)->awaiting_room);
	loop_rail(rail)->maps = tei_maps_open();
	loop_rail(rail)->copies.named = rail->copier;
	return 0;
}

static void loop_rail_close(struct tei_rail *rail)
{
	if (loop_rail(rail)->maps >= 0)
		(void)close(loop_rail(rail)->maps);
}

static int write_id(uint64_t id, void *out, size_t *len)
{
	struct tei_writer w;

	tei_writer_init(&w, out, *len);
	tei_write_u64(&w, id);
	if (w.bad)
		return -ENOBUFS;
	*len = KEY_LEN;
	return 0;
}

static int loop_region_add(struct tei_rail *rail, uint64_t id, void *addr,
			   uint64_t length, uint32_t access, void *key,
			   size_t *len)
{
	(void)rail;
	(void)addr;
	(void)length;
	(void)access;
	return write_id(id, key, len);
}

static void loop_region_remove(struct tei_rail *rail, uint64_t id)
{
	(void)rail;
	(void)id;
}

/* ---- endpoints ---- */

static int loop_endpoint_open(struct tei_endpoint *ep, void *addr, size_t *len)
{
	struct loop_rail *rail = loop_rail(ep->rail);
	struct loop_half *half = loop_half(ep);
	int rc;

	rc = write_id(rail->last_id + 1, addr, len);
	if (rc < 0)
		return rc;
	half->base = ep;
	half->id = ++rail->last_id;
	tei_list_add_tail(&rail->halves, &half->link);
	return 0;
}

/* The target waits; the initiator, which connects last, joins the two. */
static int loop_endpoint_connect(struct tei_endpoint *ep, const void *addr,
				 size_t len)
{
	struct loop_half *half = loop_half(ep);
	struct tei_reader r;
	uint64_t id;

	tei_reader_init(&r, addr, len);
	id = tei_read_u64(&r);
	if (!tei_reader_done(&r))
		return -EPROTO;
	if (ep->target)
		return 0;
	tei_list_for_each (pos, &loop_rail(ep->rail)->halves) {
		struct loop_half *other =
			tei_list_entry(pos, struct loop_half, link);

		if (other->id != id || !other->base->target || other->other ||
		    other->broken)
			continue;
		other->other = half;
		half->other = other;
		return 0;
	}
	return -ECONNREFUSED;
}

/* The other half finds out in progress() or at its next post(). */
static void break_halves(struct loop_half *half)
{
	half->broken = true;
	if (!half->other)
		return;
	half->other->broken = true;
	half->other->other = NULL;
	half->other = NULL;
}

static void loop_endpoint_close(struct tei_endpoint *ep)
{
	break_halves(loop_half(ep));
	tei_list_del(&loop_half(ep)->link);
}

static int loop_drop(struct tei_endpoint *ep)
{
	struct loop_half *half = loop_half(ep);

	break_halves(half);
	half->reported = true;
	half->dropping = half->n_copies > 0;
	return half->dropping ? -EINPROGRESS : 0;
}

/* ---- slices ---- */

static int loop_post(struct tei_endpoint *ep, struct tei_slice *const slices[],
		     int n)
{
	struct loop_rail *rail = loop_rail(ep->rail);
	int taken;

	if (loop_half(ep)->broken)
		return -ECONNRESET;
	for (taken = 0; taken < n && rail->n_queued < QUEUE_MAX; taken++) {
		struct loop_slice *s = loop_slice(slices[taken]);

		*s = (struct loop_slice){.offset = slices[taken]->skip};
		tei_list_add_tail(&rail->queue, &slices[taken]->link);
		rail->n_queued++;
	}
	return taken;
}

static void end(struct tei_slice *slice, int err)
{
	struct loop_rail *rail = loop_rail(slice->ep->rail);

	tei_loop_forget_copy(slice);
	tei_list_del(&slice->link);
	rail->n_queued--;
	if (err)
		slice->provider_code = -err;
	tei_slice_done(slice, err, err ? 0 : slice->length);
}

static void loop_cancel(struct tei_endpoint *ep, struct tei_slice *slice)
{
	(void)ep;
	end(slice, -ECANCELED);
}

static void end_slices_of(struct tei_list *slices,
			  const struct tei_endpoint *ep, int err)
{
	tei_list_for_each_safe (pos, tmp, slices) {
		struct tei_slice *slice =
			tei_list_entry(pos, struct tei_slice, link);

		if (slice->ep == ep)
			end(slice, err);
	}
}

static int loop_flush(struct tei_endpoint *ep, int err)
{
	struct loop_rail *rail = loop_rail(ep->rail);
	struct loop_half *half = loop_half(ep);

	break_halves(half);
	half->reported = true;
	end_slices_of(&rail->queue, ep, err);
	end_slices_of(&rail->copying, ep, err);
	end_slices_of(&rail->awaiting_room, ep, err);
	half->dropping = false;
	half->flushing = half->n_copies > 0;
	return half->flushing ? -EINPROGRESS : 0;
}

/* Returns tei_slice_summed() of the next @n bytes. */
static uint64_t next_summed(const struct tei_slice *slice, uint64_t n,
			    uint64_t *from)
{
	return tei_slice_summed(slice, loop_slice(slice)->at, n, from);
}

static void take_crc(struct tei_slice *slice, const uint8_t *bytes, uint64_t n)
{
	uint64_t from, len = next_summed(slice, n, &from);

	if (len)
		slice->crc = tei_crc32c_raw(slice->crc, bytes + from, len);
}

static bool is_there(const struct tei_slice *slice, const void *addr,
		     uint64_t n, bool writable)
{
	int maps = loop_rail(slice->ep->rail)->maps;

	return (n >= LARGE &&
		tei_is_resident(maps, (uintptr_t)addr, n, writable)) ||
	       tei_is_there((uintptr_t)addr, n, writable);
}

static void pass(struct tei_slice *slice, uint64_t n)
{
	loop_slice(slice)->offset += n;
	loop_slice(slice)->at += n;
}

/* A first part that ends at a line makes the others whole groups. */
static uint64_t first_part(const uint8_t *to, uint64_t most, uint64_t n)
{
	uint64_t part = most + (-(uintptr_t)to & (TEI_COPY_LINE - 1));

	return part < n ? part : n;
}

/*
 * Checksum and copy by turns. The checksum comes first: it fetches a part as
 * fast as memory gives it, so that the copy finds it in the cache.
 */
static void write_in_parts(struct tei_slice *slice, uint8_t *to,
			   const uint8_t *from, uint64_t n)
{
	struct loop_rail *rail = loop_rail(slice->ep->rail);
	uint64_t part = first_part(to, STREAM_LEN, n);

	for (; n; n -= part, part = n < STREAM_LEN ? n : STREAM_LEN) {
		take_crc(slice, from, part);
		tei_copy_cold(&rail->copies, 0, to, from, part);
		pass(slice, part);
		to += part;
		from += part;
	}
}

/* Copies each group in one pass with its checksum, where that can be. */
static void write_in_one_pass(struct tei_slice *slice, uint8_t *to,
			      const uint8_t *from, uint64_t n)
{
	struct loop_rail *rail = loop_rail(slice->ep->rail);
	uint64_t part = -(uintptr_t)to & (TEI_COPY_LINE - 1);
	tei_sum_group_fn *sum = tei_copy_summing(to, from);

	for (; n; part = n < TEI_COPY_GROUP ? n : TEI_COPY_GROUP) {
		if (sum && part == TEI_COPY_GROUP) {
			slice->crc = sum(slice->crc, to, from);
		} else {
			tei_copy_cold(&rail->copies, 0, to, from, part);
			take_crc(slice, from, part);
		}
		pass(slice, part);
		to += part;
		from += part;
		n -= part;
	}
}

/* Copies by the faster of two ways to sum what does not change meanwhile. */
static void write_summed(struct tei_slice *slice, uint8_t *to,
			 const uint8_t *from, uint64_t n)
{
	struct loop_rail *rail = loop_rail(slice->ep->rail);
	bool one_pass = tei_faster_second(&rail->summing);
	uint64_t start_ns = tei_now_ns();

	if (one_pass)
		write_in_one_pass(slice, to, from, n);
	else
		write_in_parts(slice, to, from, n);
	tei_copy_fence();
	tei_faster_learn(&rail->summing, one_pass, 1, n,
			 tei_now_ns() - start_ns);
}

/* The checksum is that of the bytes that are stored. */
static void copy_part(struct tei_slice *slice, uint8_t *to, const uint8_t *from,
		      uint64_t part)
{
	struct loop_rail *rail = loop_rail(slice->ep->rail);
	uint64_t at, n_summed = next_summed(slice, part, &at);

	if (!n_summed) {
		tei_copy_cold(&rail->copies, 0, to, from, part);
	} else if (n_summed == part) {
		slice->crc = tei_copy_cold_summed(&rail->copies, 0, slice->crc,
						  to, rail->bounce, from, part);
	} else {
		tei_copy_snapshot(rail->bounce, from, part);
		take_crc(slice, rail->bounce, part);
		memcpy(to, rail->bounce, part);
	}
}

/* Copies past the caches, which large memory would only pass through. */
static void stream_parts(struct tei_slice *slice, uint8_t *to,
			 const uint8_t *from, uint64_t n)
{
	const uint64_t most = slice->crc_len ? TEI_COPY_GROUP : STREAM_LEN;
	uint64_t part = first_part(to, most, n);

	for (; n; n -= part, part = n < most ? n : most) {
		copy_part(slice, to, from, part);
		pass(slice, part);
		to += part;
		from += part;
	}
	tei_copy_fence();
}

/*
 * Copies a large piece of a write. Its source does not change meanwhile, so
 * where no kernel sums what it stores, write_summed() takes the sum of the
 * source instead of copying twice. The source of a read may change, since its
 * space may get another value.
 */
static void stream_write(struct tei_slice *slice, uint8_t *to,
			 const uint8_t *from, uint64_t n)
{
	const struct tei_copy_use *use = &loop_rail(slice->ep->rail)->copies;
	uint64_t at;

	if (!tei_copy_cold_folds(use) && next_summed(slice, n, &at) == n)
		write_summed(slice, to, from, n);
	else
		stream_parts(slice, to, from, n);
}

static bool are_apart(const uint8_t *a, const uint8_t *b, uint64_t n)
{
	return a < b ? (uint64_t)(b - a) >= n : (uint64_t)(a - b) >= n;
}

/* Copies @n bytes of one piece. */
static void copy_piece(struct tei_slice *slice, uint8_t *local, uint8_t *remote,
		       uint64_t n)
{
	bool writes = slice->op == TEI_WRITE;

	if (n >= LARGE && are_apart(local, remote, n)) {
		if (writes)
			stream_write(slice, remote, local, n);
		else
			stream_parts(slice, local, remote, n);
		return;
	}
	/* Both may be in one region, so they may overlap. */
	if (writes)
		memmove(remote, local, n);
	else
		memmove(local, remote, n);
	take_crc(slice, local, n);
	pass(slice, n);
}

int tei_loop_copy(struct tei_slice *slice, uint8_t *remote, uint64_t n)
{
	struct loop_slice *s = loop_slice(slice);
	bool writes = slice->op == TEI_WRITE;
	uint64_t part;

	if (n && !is_there(slice, remote, n, writes))
		return -EFAULT;
	for (; n; n -= part) {
		const struct iovec *piece = &slice->iov[s->piece];
		uint8_t *local;

		if (s->offset >= piece->iov_len) {
			s->offset -= piece->iov_len;
			s->piece++;
			part = 0;
			continue;
		}
		local = (uint8_t *)piece->iov_base + s->offset;
		part = piece->iov_len - s->offset;
		if (part > n)
			part = n;
		if (!is_there(slice, local, part, !writes))
			return -EFAULT;
		copy_piece(slice, local, remote, part);
		remote += part;
	}
	return 0;
}

static void count_moved(struct tei_rail *rail, uint64_t n)
{
	atomic_fetch_add_explicit(&rail->sent_bytes, n, memory_order_relaxed);
	atomic_fetch_add_explicit(&rail->received_bytes, n,
				  memory_order_relaxed);
}

static int pin_next(const struct tei_slice *slice, struct tei_endpoint *target,
		    uint64_t n, void **remote, uint64_t *pin)
{
	if (slice->remote + slice->length < slice->remote)
		return -EFAULT;
	return tei_region_pin(target, slice->key, slice->key_len,
			      slice->remote + loop_slice(slice)->at, n,
			      slice->op == TEI_WRITE ? TE_ACCESS_REMOTE_WRITE
						     : TE_ACCESS_REMOTE_READ,
			      remote, pin);
}

/* Moves the next bytes, or begins to. @moved: how many have passed. */
static int move_next(struct tei_slice *slice, uint64_t *moved)
{
	struct loop_slice *s = loop_slice(slice);
	struct tei_endpoint *target = loop_half(slice->ep)->other->base;
	uint64_t n = slice->length - s->at, pin;
	void *remote;
	int rc;

	if (n > STEP_LEN)
		n = STEP_LEN;
	rc = pin_next(slice, target, n, &remote, &pin);
	if (rc < 0) {
		slice->ep->rail->refused_slices++;
		return rc;
	}
	if (rc == TEI_PIN_COPIED) {
		rc = tei_loop_begin_copy(slice, target, pin, remote, n);
	} else {
		rc = tei_loop_copy(slice, remote, n);
		*moved = rc ? 0 : n;
	}
	tei_region_unpin(target, pin);
	return rc;
}

/* Moves the first slice in the queue one step on. False: it awaits room. */
static bool step_slice(struct tei_slice *slice)
{
	struct loop_slice *s = loop_slice(slice);
	uint64_t moved = 0;
	int rc;

	rc = s->copy ? tei_loop_end_copy(slice, &moved)
		     : move_next(slice, &moved);
	if (rc == -EAGAIN)
		return false;
	count_moved(slice->ep->rail, moved);
	if (rc || (s->at == slice->length && !s->copy))
		end(slice, rc);
	return true;
}

/* Reports to the core, if it waits for that, that a half has no copies. */
static int report_quiet(struct loop_half *half)
{
	bool flushing = half->flushing, dropping = half->dropping;

	half->flushing = half->dropping = false;
	if (flushing)
		tei_endpoint_flushed(half->base);
	else if (dropping)
		tei_endpoint_down(half->base, -ESTALE);
	return flushing || dropping;
}

static int report_broken(struct loop_rail *rail)
{
	int n = 0;

	tei_list_for_each (pos, &rail->halves) {
		struct loop_half *half =
			tei_list_entry(pos, struct loop_half, link);

		if (!half->n_copies)
			n += report_quiet(half);
		if (!half->broken || half->reported)
			continue;
		half->reported = true;
		tei_endpoint_down(half->base, -ECONNRESET);
		n++;
	}
	return n;
}

/* Has slices that await room go before those that came later. */
static void try_again(struct loop_rail *rail)
{
	tei_list_splice_tail(&rail->awaiting_room, &rail->queue);
	tei_list_splice_tail(&rail->queue, &rail->awaiting_room);
}

static int loop_progress(struct tei_rail *base, int budget)
{
	struct loop_rail *rail = loop_rail(base);
	int n;

	base->busy = false;
	n = report_broken(rail);
	if (base->timed_out || rail->room_came)
		try_again(rail);
	base->timed_out = rail->room_came = false;
	while (n < budget && !tei_list_empty(&rail->queue)) {
		struct tei_slice *slice = tei_list_entry(
			rail->queue.next, struct tei_slice, link);

		if (loop_half(slice->ep)->broken)
			break; /* flush() comes */
		n += step_slice(slice);
	}
	return n;
}

static int loop_wait_fd(struct tei_rail *rail)
{
	(void)rail;
	return -1;
}

extern const struct tei_backend_ops tei_backend_loop;
const struct tei_backend_ops tei_backend_loop = {
	.name = "loop",
	.abi = TEI_BACKEND_ABI,
	.caps = TEI_CAP_SELF | TEI_CAP_COPIES,
	.rail_size = sizeof(struct loop_rail),
	.endpoint_size = sizeof(struct loop_half),
	.slice_size = sizeof(struct loop_slice),
	.probe = loop_probe,
	.rail_open = loop_rail_open,
	.rail_close = loop_rail_close,
	.region_add = loop_region_add,
	.region_remove = loop_region_remove,
	.endpoint_open = loop_endpoint_open,
	.endpoint_connect = loop_endpoint_connect,
	.endpoint_close = loop_endpoint_close,
	.post = loop_post,
	.cancel = loop_cancel,
	.flush = loop_flush,
	.drop = loop_drop,
	.progress = loop_progress,
	.wait_fd = loop_wait_fd,
};
