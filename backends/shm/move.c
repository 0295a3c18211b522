/* SPDX-License-Identifier: Apache-2.0 */
/*
 * move.c - slices: queued, copied chunk by chunk, done
 *
 * A copy moves one marked chunk at a time: some slices, or a part of one.
 * Endpoints take turns after each chunk, so that a peer with much to do does
 * not delay others. Urgent slices go before the others of their endpoint,
 * except in one turn of 16.
 */
#include <errno.h>
#include <string.h>

#include <te/te.h>

#include "backends/shm/shm.h"
#include "base/copy_sum.h"

#define SLICE_COST   4096 /* bytes of a turn that the smallest one counts for */
#define FAIR_TURNS   16
#define STREAM_LEAST 4096 /* bytes of a slice; what is less is soon read */

static bool has_work(const struct shm_endpoint *ep)
{
	return !tei_list_empty(&ep->urgent) || !tei_list_empty(&ep->queue);
}

static void activate(struct shm_endpoint *ep)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);

	if (ep->broken || !has_work(ep) || !tei_list_empty(&ep->active))
		return;
	tei_list_add_tail(&rail->active, &ep->active);
	rail->base->busy = true;
}

static void enqueue(struct shm_endpoint *ep, struct tei_slice *slice)
{
	if (shm_slice(slice)->view->window) {
		tei_shm_gpu_enqueue(ep, slice);
		return;
	}
	tei_list_add_tail(slice->priority == TE_PRIORITY_URGENT ? &ep->urgent
								: &ep->queue,
			  &slice->link);
}

/* ---- ops ---- */

static void refuse_slice(struct shm_endpoint *ep, struct tei_slice *slice,
			 int err)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);

	tei_shm_slice_init(slice, NULL);
	shm_slice(slice)->err = err;
	tei_list_add_tail(&rail->refused, &slice->link);
	tei_shm_kick(rail);
}

static void take_slice(struct shm_endpoint *ep, struct tei_slice *slice)
{
	struct shm_view *view;
	int err;

	ep->n_slices++;
	view = tei_shm_view_get(ep, slice, &err);
	if (!view) {
		refuse_slice(ep, slice, err);
		return;
	}
	tei_shm_slice_init(slice, view);
	if (view->state == SHM_VIEW_READY)
		enqueue(ep, slice);
	else
		tei_list_add_tail(&view->waiting, &slice->link);
}

int tei_shm_post(struct tei_endpoint *base, struct tei_slice *const slices[],
		 int n)
{
	struct shm_endpoint *ep = shm_endpoint(base);
	int taken;

	if (ep->broken)
		return ep->broken;
	for (taken = 0; taken < n && ep->n_slices < SHM_QUEUE_MAX; taken++)
		take_slice(ep, slices[taken]);
	activate(ep);
	return taken;
}

void tei_shm_slice_end(struct tei_slice *slice, int err)
{
	struct shm_endpoint *ep = shm_endpoint(slice->ep);
	struct shm_view *view = shm_slice(slice)->view;

	ep->n_slices--;
	if (view)
		tei_shm_view_put(ep, view);
	if (err)
		slice->provider_code = -err;
	tei_slice_done(slice, err, err ? 0 : slice->length);
}

void tei_shm_cancel(struct tei_endpoint *base, struct tei_slice *slice)
{
	struct shm_endpoint *ep = shm_endpoint(base);
	struct shm_rail *rail = shm_rail(base->rail);

	if (shm_slice(slice)->bursting) { /* ended by progress() */
		shm_slice(slice)->err = -ECANCELED;
		return;
	}
	tei_list_del(&slice->link);
	if (!has_work(ep))
		tei_list_del(&ep->active);
	base->rail->busy = tei_shm_is_busy(rail);
	tei_shm_slice_end(slice, -ECANCELED);
}

int tei_shm_verdict(const struct shm_view *view)
{
	if (view->state == SHM_VIEW_BARRED)
		return -EOPNOTSUPP;
	return view->refused ? view->refused : -EFAULT;
}

void tei_shm_view_settled(struct shm_endpoint *ep, struct shm_view *view)
{
	struct tei_list *node;

	view->n_slices++; /* ending the last one would free it */
	while ((node = tei_list_pop(&view->waiting))) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);

		if (view->state == SHM_VIEW_READY)
			enqueue(ep, slice);
		else
			tei_shm_slice_end(slice, tei_shm_verdict(view));
	}
	tei_shm_view_put(ep, view);
	activate(ep);
}

/* ---- copying ---- */

/* Many slices that wait together are as one that is long. */
static uint64_t run_of(const struct tei_slice *slice)
{
	const struct shm_endpoint *ep = shm_endpoint(slice->ep);

	return slice->length >= STREAM_LEAST ? slice->length * ep->n_slices
					     : slice->length;
}

/* Returns what pieces of the slice are of: enum tei_copy_of. */
static unsigned int copied_of(const struct tei_slice *slice)
{
	return (shm_slice(slice)->view->huge ? TEI_COPY_OF_HUGE : 0) |
	       (run_of(slice) < TEI_COPY_LONG_RUN ? TEI_COPY_OF_SHORT : 0);
}

static void take_crc(struct tei_slice *slice, const uint8_t *bytes, uint64_t n)
{
	uint64_t from, len = tei_shm_slice_crc(slice, n, &from);

	if (len)
		slice->crc = tei_crc32c_raw(slice->crc, bytes + from, len);
}

static void copy_by_bounce(struct shm_rail *rail, struct tei_slice *slice,
			   uint8_t *to, const uint8_t *from, uint64_t n)
{
	tei_copy_snapshot(rail->bounce, from, n);
	take_crc(slice, rail->bounce, n);
	memcpy(to, rail->bounce, n);
}

/*
 * The checksum is that of the bytes that are stored, also when the owner
 * changes them meanwhile: they are looked at here, not at either end. A first
 * part that ends at a line makes the others whole groups.
 */
static void copy_checked(struct shm_rail *rail, struct tei_slice *slice,
			 bool streaming, uint8_t *to, const uint8_t *from,
			 uint64_t n)
{
	unsigned int of = copied_of(slice);
	uint64_t part = TEI_COPY_GROUP + (-(uintptr_t)to & (TEI_COPY_LINE - 1));
	uint64_t at, n_summed;

	for (; n; n -= part, part = TEI_COPY_GROUP) {
		if (part > n)
			part = n;
		n_summed = tei_shm_slice_crc(slice, part, &at);
		if (streaming && !n_summed)
			tei_copy_cold(&rail->copies, of, to, from, part);
		else if (streaming && n_summed == part)
			slice->crc = tei_copy_cold_summed(
				&rail->copies, of, slice->crc, to, rail->bounce,
				from, part);
		else
			copy_by_bounce(rail, slice, to, from, part);
		tei_shm_slice_pass(slice, part);
		to += part;
		from += part;
	}
}

/*
 * Tells whether the @n bytes at @to were written a moment ago, and so still lie
 * in the caches; what goes on where the last copy ended is like that one.
 */
static bool is_hot(struct shm_rail *rail, const uint8_t *to, uint64_t n)
{
	uint64_t place = (uintptr_t)to >> SHM_RECENT_BITS;
	struct shm_recent *h = &rail->recent;
	struct shm_recent_place *w = &h->at[place % SHM_RECENT_LEN];

	if (w->place != place)
		w->hot = false;
	else if (w->end != to)
		w->hot = h->clock - w->written < shm_config(rail)->hot;
	h->clock += n;
	w->place = place;
	w->written = h->clock;
	w->end = to + n;
	return w->hot;
}

/* Copies at most @most bytes of one piece. Returns how many. */
static uint64_t copy_piece(struct shm_rail *rail, struct tei_slice *slice,
			   uint64_t most)
{
	struct shm_slice *s = shm_slice(slice);
	uint8_t *remote =
		s->view->base + (slice->remote - s->view->key.addr) + s->at;
	bool write = slice->op == TEI_WRITE, streaming;
	uint64_t n, skip;
	uint8_t *local = tei_shm_slice_at(slice, &n);
	uint8_t *to = write ? remote : local, *from = write ? local : remote;

	if (n > most)
		n = most;
	streaming = run_of(slice) >= shm_config(rail)->stream_from &&
		    !is_hot(rail, to, n);
	rail->unfenced |= streaming;
	if (tei_shm_slice_crc(slice, n, &skip)) {
		copy_checked(rail, slice, streaming, to, from, n);
		return n;
	}
	if (streaming)
		tei_copy_cold(&rail->copies, copied_of(slice), to, from, n);
	else
		memcpy(to, from, n);
	tei_shm_slice_pass(slice, n);
	return n;
}

/* ---- chunks ---- */

/*
 * Ends slices that may not be copied (any more); copies @room bytes of others.
 */
static uint64_t copy_some(struct shm_endpoint *ep, struct tei_list *queue,
			  struct tei_list *ended, uint64_t room)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);
	uint64_t moved = 0, n;
	int i;

	for (i = 0; i < SHM_BATCH_MAX && !tei_list_empty(queue); i++) {
		struct tei_slice *slice =
			tei_list_entry(queue->next, struct tei_slice, link);
		struct shm_slice *s = shm_slice(slice);

		if (s->view->state != SHM_VIEW_READY ||
		    !tei_shm_is_granted(ep->pages, s->view->slot,
					s->view->generation)) {
			tei_shm_to_ended(ended, slice,
					 tei_shm_verdict(s->view));
			continue;
		}
		if (!s->view->base)
			break;
		for (; moved < room && s->at < slice->length; moved += n)
			n = copy_piece(rail, slice, room - moved);
		if (s->at < slice->length)
			break;
		tei_shm_to_ended(ended, slice, 0);
	}
	return moved;
}

static int move_arena(struct shm_endpoint *ep, struct tei_list *queue,
		      struct tei_list *ended, uint64_t *moved)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);
	int rc = 0;

	tei_shm_touch_begin(&ep->pages->mark, &ep->mark);
	if (tei_shm_is_fenced(ep->pages))
		rc = -ESTALE;
	else
		*moved = copy_some(ep, queue, ended, shm_config(rail)->chunk);
	if (rail->unfenced)
		tei_copy_fence();
	rail->unfenced = false;
	tei_shm_touch_end(&ep->pages->mark, &ep->mark);
	return rc;
}

static bool is_foreign(const struct tei_list *queue)
{
	const struct tei_slice *slice =
		tei_list_entry(queue->next, struct tei_slice, link);
	const struct shm_view *view = shm_slice(slice)->view;

	return view->state == SHM_VIEW_READY && !view->base;
}

static struct tei_list *choose(struct shm_endpoint *ep)
{
	bool fair = ++ep->n_turns % FAIR_TURNS == 0;

	if (tei_list_empty(&ep->urgent) ||
	    (fair && !tei_list_empty(&ep->queue)))
		return &ep->queue;
	return &ep->urgent;
}

/* Ends slices after the chunk: nobody is held up by what the core does now. */
static int end_all(struct shm_endpoint *ep, struct tei_list *ended)
{
	struct tei_list *node;
	int n = 0;

	while ((node = tei_list_pop(ended))) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);
		struct shm_slice *s = shm_slice(slice);

		if (s->err == -EFAULT && s->view->state == SHM_VIEW_READY &&
		    !tei_shm_is_granted(ep->pages, s->view->slot,
					s->view->generation))
			tei_shm_view_forget(ep, s->view);
		tei_shm_slice_end(slice, s->err);
		n++;
	}
	return n;
}

/* Moves one chunk. Returns how many slices have ended. */
static int move_chunk(struct shm_endpoint *ep, uint64_t *moved)
{
	struct tei_list ended, *queue = choose(ep);
	int rc;

	tei_list_init(&ended);
	if (is_foreign(queue))
		rc = tei_shm_foreign_move(ep, queue, &ended, moved);
	else
		rc = move_arena(ep, queue, &ended, moved);
	if (rc)
		tei_shm_break(ep, rc);
	return end_all(ep, &ended);
}

int tei_shm_move(struct shm_rail *rail)
{
	uint64_t left = SHM_TURN;
	struct tei_list *node;
	int n = 0;

	while (left && (node = tei_list_pop(&rail->active))) {
		struct shm_endpoint *ep =
			tei_list_entry(node, struct shm_endpoint, active);
		uint64_t moved = 0, cost;
		int ended = move_chunk(ep, &moved);

		n += ended + (moved != 0);
		cost = (uint64_t)ended * SLICE_COST;
		if (cost < moved)
			cost = moved;
		left -= cost < left ? cost : left;
		activate(ep);
	}
	return n;
}
