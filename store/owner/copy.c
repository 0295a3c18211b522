/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c - carry one object from our memory to extents of another owner
 *
 * The headers in our memory say before and after that what was read is the
 * object; its bytes are summed as they pass, and have to be those that its
 * checksum is of. How it is cut into extents may differ at the two ends.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mapped.h"
#include "store/client/client.h"
#include "store/owner/executor.h"
#include "store/proto/extent.h"

#define FOR_EVER_MS (600u * 1000) /* where the master says nothing */

/* ---- what the master says ---- */

static bool sizes_hold(const uint64_t *length, size_t n, uint64_t size)
{
	uint64_t left = size;
	size_t i;

	if (!n || n > TES_COPY_EXTENTS)
		return false;
	for (i = 0; i < n; i++) {
		if (!length[i] || length[i] > left)
			return false;
		left -= length[i];
	}
	return !left;
}

bool tes_copy_holds(const Store__Task *task)
{
	const Store__Objects *o = task->source;

	return task->id.len == 16 && o && o->n_key_lens == 1 &&
	       o->keys.len == o->key_lens[0] && o->n_generation == 1 &&
	       o->n_gen_epoch == 1 && o->n_size == 1 &&
	       o->size[0] <= TE_STORE_VALUE_MAX && o->n_no_crc <= 1 &&
	       o->n_length == o->n_address && o->n_crc == o->n_address &&
	       sizes_hold(o->length, o->n_length, o->size[0]) &&
	       task->n_address == task->n_length && task->target &&
	       task->target->incarnation.len == TE_INCARNATION_LEN &&
	       sizes_hold(task->length, task->n_length, o->size[0]);
}

static bool has_crc(const Store__Objects *o)
{
	return !o->n_no_crc || !o->no_crc[0];
}

/* ---- what lies here ---- */

static uint8_t *at_address(uint64_t address)
{
	return (uint8_t *)(uintptr_t)address;
}

static bool is_here(const Store__Objects *o)
{
	uint8_t bytes[TES_EXTENT_HEADER_LEN];
	struct tes_extent_header h;
	uint64_t offset = 0;
	size_t i;

	for (i = 0; i < o->n_address; i++) {
		const struct tes_extent_header told = {
			.gen_epoch = o->gen_epoch[0],
			.generation = o->generation[0],
			.object_size = o->size[0],
			.offset = offset,
			.length = o->length[i],
			.index = (uint16_t)i,
			.count = (uint16_t)o->n_address,
		};

		/* Of a file that is shorter now touching it is a signal. */
		if (!tei_is_there(o->address[i],
				  TES_EXTENT_HEADER_LEN + o->length[i], false))
			return false;
		memcpy(bytes, at_address(o->address[i]), sizeof(bytes));
		if (tes_extent_decode(bytes, &h) || !tes_extent_same(&h, &told))
			return false;
		offset += h.length;
	}
	return true;
}

/* ---- the way there ---- */

struct trip {
	struct tes_copy *copy;
	const Store__Task *task;
	const Store__Objects *source;
	struct tes_work *work;
	struct tes_places places;
	struct iovec pieces[TES_COPY_EXTENTS];
	struct te_store_value value; /* of the pieces */
	uint64_t deadline_ns;
};

static void fail(struct trip *trip, int32_t status, bool quiet,
		 const char *message)
{
	struct tes_copy_answer *a = &trip->copy->answer;

	a->status = status;
	a->quiet = quiet;
	a->message = message;
}

static int add_extent(struct trip *trip, size_t i, uint64_t offset)
{
	const Store__Objects *o = trip->source;
	const struct tes_place *place = &trip->places.at[0];
	const struct tes_extent_header header = {
		.gen_epoch = o->gen_epoch[0],
		.generation = o->generation[0],
		.digest = tes_key_digest(o->keys.data, o->keys.len,
					 trip->copy->digest_seed),
		.object_size = o->size[0],
		.offset = offset,
		.length = trip->task->length[i],
		.index = (uint16_t)i,
		.count = (uint16_t)trip->task->n_length,
	};
	uint8_t *room = trip->work->headers[trip->work->n];
	struct te_request *req = tes_work_add(
		trip->work, TE_WRITE, &trip->value, offset, header.length);

	if (!req)
		return -ENOMEM;
	tes_extent_encode(&header, room);
	req->segment = place->owner->segment;
	req->remote = trip->task->address[i];
	req->epoch = place->epoch;
	return 0;
}

/*
 * Our access may have been ended, in order to give the space to others, since
 * the master asked: then it must not be used under the next epoch.
 */
static bool is_late(const struct trip *trip)
{
	const struct tes_place *place = &trip->places.at[0];

	return place->since_ns > trip->copy->begun_ns && place->epoch != 1;
}

/* False, with an answer: nothing was sent. */
static bool plan(struct trip *trip)
{
	Store__Segment *target = trip->task->target;
	uint64_t offset = 0;
	size_t i;
	int rc;

	tes_places_init(&trip->places, &trip->copy->store->owners, trip->work,
			(uint32_t)trip->copy->store->replica_timeout_ms,
			trip->deadline_ns);
	rc = tes_places_add(&trip->places, &target, 1);
	if (!rc && tes_places_open(&trip->places, 0)) {
		fail(trip, TE_STORE_TRANSFER_FAIL, true,
		     "the target cannot be reached");
		return false;
	}
	if (!rc && is_late(trip)) {
		fail(trip, TE_STORE_TRANSFER_FAIL, true,
		     "the target has ended our access");
		return false;
	}
	for (i = 0; i < trip->task->n_length && !rc; i++) {
		rc = add_extent(trip, i, offset);
		offset += trip->task->length[i];
	}
	if (rc)
		fail(trip, TE_STORE_INTERNAL_ERROR, true, "no memory");
	return !rc;
}

/* @crcs[n] of parts of @lengths, as one. */
static uint32_t join(const uint32_t *crcs, const uint64_t *lengths, size_t n)
{
	uint32_t crc = 0;
	size_t i;

	for (i = 0; i < n; i++)
		crc = te_crc32c_combine(crc, crcs[i], lengths[i]);
	return crc;
}

static void judge(struct trip *trip)
{
	struct tes_copy_answer *a = &trip->copy->answer;
	const Store__Objects *o = trip->source;
	struct te_completion done;
	bool quiet = true;
	int error = 0;
	uint32_t i;

	a->n_crcs = trip->work->n;
	for (i = 0; i < trip->work->n; i++) {
		tes_work_result(trip->work, i, &done);
		a->crcs[i] = done.crc;
		if (!done.error)
			continue;
		error = done.error;
		quiet &= (done.flags & TE_REMOTE_QUIET) != 0;
		trip->places.at[0].gone |= error == -ENOENT;
	}
	if (error) {
		fail(trip, tes_store_code(error), quiet, te_strerror(error));
	} else if (!is_here(o)) {
		fail(trip, TE_STORE_REPLICA_NOT_FOUND, true,
		     "the object went while it was read");
	} else if (has_crc(o) && join(a->crcs, trip->task->length, i) !=
					 join(o->crc, o->length, o->n_length)) {
		fail(trip, TE_STORE_CHECKSUM_MISMATCH, true,
		     "its bytes are not those of its checksum");
	} else {
		fail(trip, 0, true, "");
		a->no_crc = !has_crc(o);
	}
}

static bool is_over(void *arg)
{
	const struct trip *trip = arg;

	return atomic_load(&trip->copy->cancelled) ||
	       tei_now_ns() > trip->deadline_ns;
}

static void go(struct trip *trip)
{
	int rc;

	if (!plan(trip))
		return;
	rc = tes_work_run_until(trip->work, &trip->places, is_over, trip);
	if (rc)
		fail(trip, tes_store_code(rc), true, te_strerror(rc));
	else
		judge(trip);
}

static void set_value(struct trip *trip)
{
	const Store__Objects *o = trip->source;
	size_t i;

	for (i = 0; i < o->n_address; i++) {
		trip->pieces[i].iov_base =
			at_address(o->address[i] + TES_EXTENT_HEADER_LEN);
		trip->pieces[i].iov_len = (size_t)o->length[i];
	}
	trip->value.pieces = trip->pieces;
	trip->value.n_pieces = (uint32_t)o->n_address;
}

void tes_copy_run(struct tes_copy *copy)
{
	const Store__Task *task = copy->task;
	uint64_t ms = task->timeout_ms ? task->timeout_ms : FOR_EVER_MS;
	struct trip trip = {
		.copy = copy,
		.task = task,
		.source = task->source,
	};

	if (ms > FOR_EVER_MS)
		ms = FOR_EVER_MS;
	trip.deadline_ns = copy->begun_ns + ms * TEI_NS_PER_MS;
	if (!is_here(task->source)) {
		fail(&trip, TE_STORE_REPLICA_NOT_FOUND, true,
		     "the object is not there");
		return;
	}
	trip.work = tes_work_get(&copy->store->works, task->n_length);
	if (!trip.work) {
		fail(&trip, TE_STORE_INTERNAL_ERROR, true, "no memory");
		return;
	}
	set_value(&trip);
	go(&trip);
	tes_places_fini(&trip.places);
	tes_work_put(&copy->store->works, trip.work);
}
