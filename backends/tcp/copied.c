/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copied.c - a target's memory that is a GPU's, which the host copies
 *
 * Payload of a WRITE is read into memory of a stage and copied on from there;
 * its answer goes out when all of it has arrived. Data of a READ is copied out
 * piece by piece, a frame each, some of them ahead of what is being sent.
 *
 * Memory of the stage is taken for bytes that are here, or are just being read:
 * a peer that stops in the middle of a frame holds none. One that does not take
 * what it asked for holds AHEAD_MAX bytes until the lane's stall_timeout.
 *
 * Copies end between calls of progress(), which then goes on with lanes that
 * are due. A lane that finds no room waits for it: it is due again when a copy
 * has ended, and each millisecond, as others use the stage, too.
 */
#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>

#include "backends/tcp/tcp.h"
#include "base/clock.h"
#include "base/mem.h"
#include <te/te.h>

#define AHEAD_MAX (512u << 10)
#define RETRY_NS  TEI_NS_PER_MS

static const char too_many[] = "more requests than the window";

/* A WRITE whose bytes are being copied in; of its lane's copied_writes. */
struct tcp_copied_write {
	struct tei_list link;
	struct tcp_lane *lane; /* stays until its endpoint is flushed */
	uint64_t id;
	uint32_t n; /* copies that are open, or under way */
	bool ended; /* nothing more comes: answered when they have ended */
	int err;
};

/* ---- lanes to go on with ---- */

static void make_due(struct tcp_lane *lane)
{
	struct tcp_rail *rail = lane->rail;

	tei_list_del(&lane->awaiting_room);
	if (tei_list_empty(&lane->due))
		tei_list_add_tail(&rail->due, &lane->due);
	rail->base->busy = true;
}

void tei_tcp_room_came(struct tcp_rail *rail)
{
	while (!tei_list_empty(&rail->awaiting_room))
		make_due(tei_list_entry(rail->awaiting_room.next,
					struct tcp_lane, awaiting_room));
}

static void retry_soon(struct tcp_rail *rail)
{
	uint64_t at = tei_now_ns() + RETRY_NS;

	if (!rail->base->timer_ns || rail->base->timer_ns > at)
		rail->base->timer_ns = at;
}

static void await_room(struct tcp_lane *lane)
{
	if (tei_list_empty(&lane->awaiting_room) && tei_list_empty(&lane->due))
		tei_list_add_tail(&lane->rail->awaiting_room,
				  &lane->awaiting_room);
	retry_soon(lane->rail);
}

void tei_tcp_pause(struct tcp_lane *lane)
{
	await_room(lane);
	lane->paused = true;
	tei_tcp_lane_watch(lane, lane->interest & ~(uint32_t)EPOLLIN);
}

static void begin_copy(struct tcp_lane *lane, struct tei_region_copy *copy,
		       uint64_t length)
{
	lane->ep->n_copies++;
	tei_region_copy_begin(copy, length);
}

static void copy_ended(struct tcp_lane *lane)
{
	lane->ep->n_copies--;
	make_due(lane);
	tei_tcp_room_came(lane->rail);
}

/* ---- what comes in ---- */

/*
 * Finds the WRITE of @id, of which more may come. Memory is taken for a whole
 * burst before any of it has come, so those behind it may have one, too; ids of
 * honest peers rise.
 */
static struct tcp_copied_write *find_write(const struct tcp_lane *lane,
					   uint64_t id)
{
	const struct tei_list *pos = lane->copied_writes.prev;

	for (; pos != &lane->copied_writes; pos = pos->prev) {
		struct tcp_copied_write *write =
			tei_list_entry(pos, struct tcp_copied_write, link);

		if (write->id == id && !write->ended)
			return write;
		if (write->id <= id)
			break;
	}
	return NULL;
}

static struct tcp_copied_write *write_of(struct tcp_lane *lane, uint64_t id)
{
	struct tcp_copied_write *write = find_write(lane, id);

	if (write)
		return write;
	if (lane->n_copied_writes == TCP_WINDOW) {
		tei_tcp_lane_bad(lane, too_many);
		return NULL;
	}
	write = tei_calloc(1, sizeof(*write));
	if (!write)
		return NULL;
	lane->n_copied_writes++;
	write->lane = lane;
	write->id = id;
	tei_list_add_tail(&lane->copied_writes, &write->link);
	return write;
}

static void free_write(struct tcp_copied_write *write)
{
	write->lane->n_copied_writes--;
	tei_list_del(&write->link);
	tei_free(write);
}

static void answer(struct tcp_copied_write *write)
{
	struct tcp_lane *lane = write->lane;
	uint64_t id = write->id;
	int err = write->err;

	free_write(write);
	if (lane->fd < 0)
		return;
	if (!tei_tcp_backlog_answer(lane, id, err))
		tei_tcp_lane_bad(lane, too_many);
}

static void end_copy(struct tei_region_copy *copy)
{
	struct tcp_copied_write *write = copy->arg;

	tei_region_copy_end(copy);
	if (!--write->n && write->ended)
		answer(write);
}

static void written(struct tei_region_copy *copy, int err)
{
	struct tcp_copied_write *write = copy->arg;

	copy_ended(write->lane);
	if (!write->err)
		write->err = err;
	end_copy(copy);
}

int tei_tcp_stage_payload(struct tcp_lane *lane, struct tcp_payload *payload,
			  const struct tcp_pin *pin, void *local)
{
	struct tcp_copied_write *write = write_of(lane, payload->id);
	struct tei_region_copy *copy;
	int rc = -ENOMEM;

	if (write)
		rc = tei_region_copy_open(lane->ep->base, pin->id, local,
					  payload->left, true, &copy);
	if (rc)
		return rc;
	copy->done = written;
	copy->arg = write;
	payload->staged = copy;
	write->n++;
	lane->rail->n_staged++;
	return 0;
}

void tei_tcp_staged_passed(struct tcp_lane *lane, struct tcp_payload *payload,
			   uint64_t n)
{
	struct tei_region_copy *copy = payload->staged;

	payload->staged = NULL;
	lane->rail->n_staged--;
	begin_copy(lane, copy, n);
}

void tei_tcp_staged_release(struct tcp_lane *lane)
{
	struct tcp_burst *in = lane->in;

	assert(in); /* whose payload it is */
	for (uint32_t i = in->at; i < in->n && lane->rail->n_staged; i++) {
		struct tcp_payload *payload = &in->payload[i];

		if (payload->stream != TCP_STREAM_REGION || !payload->staged)
			continue;
		end_copy(payload->staged);
		payload->staged = NULL;
		lane->rail->n_staged--;
	}
}

bool tei_tcp_copied_write_end(struct tcp_lane *lane, uint64_t id, int err)
{
	struct tcp_copied_write *write = find_write(lane, id);

	if (!write)
		return false;
	write->ended = true;
	if (!write->err)
		write->err = err;
	if (!write->n)
		answer(write);
	return true;
}

/* ---- what is asked for ---- */

/* A piece of a READ, copied out or being; of its lane's fetches, in order. */
struct tcp_fetch {
	struct tei_list link; /* until it is announced */
	struct tcp_lane *lane;
	struct tei_region_copy *copy;
	uint64_t id, length;
	bool ended, dropped;
};

static void free_fetch(struct tcp_fetch *fetch)
{
	fetch->lane->fetching -= fetch->length;
	fetch->lane->n_owed--;
	tei_list_del(&fetch->link);
	tei_region_copy_end(fetch->copy);
	tei_free(fetch);
}

static void fetched(struct tei_region_copy *copy, int err)
{
	struct tcp_fetch *fetch = copy->arg;
	struct tcp_lane *lane = fetch->lane;

	fetch->ended = true;
	copy_ended(lane);
	if (fetch->dropped) {
		free_fetch(fetch);
		return;
	}
	if (err)
		tei_tcp_backlog_fail_read(lane, fetch->id, err);
}

void tei_tcp_fetches_drop(struct tcp_lane *lane, uint64_t id)
{
	tei_list_for_each_safe (node, tmp, &lane->fetches) {
		struct tcp_fetch *fetch =
			tei_list_entry(node, struct tcp_fetch, link);

		if (fetch->id != id)
			continue;
		tei_list_del(&fetch->link);
		fetch->dropped = true;
		if (fetch->ended)
			free_fetch(fetch);
	}
}

/* Opens the copy of the next @length bytes of the READ. As tei_tcp_pin(). */
static int open_copy(struct tcp_lane *lane, const struct tcp_served *served,
		     uint64_t length, struct tei_region_copy **out)
{
	const struct tcp_payload payload = {
		.stream = TCP_STREAM_REGION,
		.left = length,
		.key = served->key,
		.address = served->address + served->fetched,
	};
	const struct tcp_pin *pin;
	void *local;
	int rc;

	rc = tei_tcp_pin(lane, &payload, 1, TE_ACCESS_REMOTE_READ, &local);
	if (rc == -EAGAIN) {
		tei_tcp_pins_release(lane);
		rc = tei_tcp_pin(lane, &payload, 1, TE_ACCESS_REMOTE_READ,
				 &local);
	}
	if (rc != TEI_PIN_COPIED)
		return rc < 0 ? rc : -EFAULT;
	pin = tei_tcp_find_pin(lane->rail, &payload, TE_ACCESS_REMOTE_READ);
	return tei_region_copy_open(lane->ep->base, pin->id, local, length,
				    false, out);
}

static int begin_fetch(struct tcp_lane *lane, struct tcp_served *served,
		       uint64_t length)
{
	struct tcp_fetch *fetch = tei_calloc(1, sizeof(*fetch));
	int rc = -ENOMEM;

	if (fetch)
		rc = open_copy(lane, served, length, &fetch->copy);
	if (rc) {
		tei_free(fetch);
		return rc;
	}
	length = fetch->copy->length;
	fetch->lane = lane;
	fetch->id = served->id;
	fetch->length = length;
	fetch->copy->done = fetched;
	fetch->copy->arg = fetch;
	tei_list_add_tail(&lane->fetches, &fetch->link);
	lane->fetching += length;
	tei_tcp_lane_owes(lane);
	served->fetched += length;
	begin_copy(lane, fetch->copy, length);
	return 0;
}

/* Begins pieces of a READ, as many as may be ahead. As begin_fetch(). */
static int fetch_read(struct tcp_lane *lane, struct tcp_served *served)
{
	uint64_t frame = tcp_config(lane->rail)->frame;
	int rc = 0;

	while (!rc && served->fetched < served->length &&
	       lane->fetching < AHEAD_MAX) {
		uint64_t left = served->length - served->fetched;

		rc = begin_fetch(lane, served, left < frame ? left : frame);
	}
	return rc;
}

void tei_tcp_fetch(struct tcp_lane *lane)
{
	struct tcp_backlog *b = lane->backlog;
	int rc = 0;

	for (uint32_t i = 0;
	     i < b->n_reads && lane->fetching < AHEAD_MAX && rc != -EAGAIN;
	     i++) {
		struct tcp_served *served = tei_tcp_served_at(b, i);

		if (!served->copied || served->err)
			continue;
		rc = fetch_read(lane, served);
		if (rc && rc != -EAGAIN)
			served->err = rc;
	}
	tei_tcp_pins_release(lane);
	if (rc == -EAGAIN)
		await_room(lane);
}

struct tcp_fetch *tei_tcp_next_fetch(const struct tcp_lane *lane,
				     const struct tcp_fetch *last, uint64_t id)
{
	const struct tei_list *next =
		last ? last->link.next : lane->fetches.next;
	struct tcp_fetch *fetch;

	if (next == &lane->fetches)
		return NULL;
	fetch = tei_list_entry(next, struct tcp_fetch, link);
	return fetch->id == id && fetch->ended ? fetch : NULL;
}

void *tei_tcp_fetch_memory(const struct tcp_fetch *fetch, uint64_t *length)
{
	*length = fetch->length;
	return fetch->copy->memory;
}

void tei_tcp_fetch_announced(struct tcp_fetch *fetch)
{
	tei_list_del(&fetch->link);
}

void tei_tcp_fetch_sent(struct tcp_fetch *fetch)
{
	free_fetch(fetch);
}

/* ---- going on, and the end ---- */

static void resume(struct tcp_lane *lane)
{
	if (lane->paused) {
		lane->paused = false;
		tei_tcp_lane_watch(lane, lane->interest | EPOLLIN);
		if (lane->fd >= 0)
			(void)tei_tcp_receive(lane);
	}
	if (lane->fd >= 0)
		tei_tcp_send(lane);
}

static int report_quiet(struct tcp_rail *rail)
{
	int n = 0;

	tei_list_for_each_safe (node, tmp, &rail->quieting) {
		struct tcp_endpoint *ep =
			tei_list_entry(node, struct tcp_endpoint, quieting);

		if (ep->n_copies)
			continue;
		tei_list_del(&ep->quieting);
		if (ep->flushing)
			tei_endpoint_flushed(ep->base);
		else
			tei_endpoint_down(ep->base, -ESTALE);
		n++;
	}
	return n;
}

int tei_tcp_copied_progress(struct tcp_rail *rail)
{
	struct tei_list now, *node;
	int n = 0;

	rail->base->busy = false;
	tei_list_init(&now);
	tei_list_splice_tail(&now, &rail->due);
	while ((node = tei_list_pop(&now))) {
		struct tcp_lane *lane =
			tei_list_entry(node, struct tcp_lane, due);

		if (lane->fd >= 0)
			resume(lane);
		n++;
	}
	return n + report_quiet(rail);
}

bool tei_tcp_await_quiet(struct tcp_endpoint *ep, bool flushing)
{
	struct tcp_rail *rail = tcp_rail(ep->base->rail);

	tei_list_del(&ep->quieting);
	ep->flushing = flushing;
	if (!ep->n_copies)
		return false;
	tei_list_add_tail(&rail->quieting, &ep->quieting);
	return true;
}

void tei_tcp_copied_free(struct tcp_lane *lane)
{
	struct tei_list *node;

	tei_list_del(&lane->due);
	tei_list_del(&lane->awaiting_room);
	while ((node = tei_list_pop(&lane->copied_writes)))
		free_write(tei_list_entry(node, struct tcp_copied_write, link));
	while ((node = tei_list_pop(&lane->fetches)))
		free_fetch(tei_list_entry(node, struct tcp_fetch, link));
}
