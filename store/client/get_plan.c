/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get_plan.c - the requests for a replica, and what they must have brought
 *
 * A whole value is read with the headers in front of its extents, and its CRC
 * tells whether all bytes are of one object. Where there is no CRC to compare,
 * for ranges and for objects that have none, the headers are read after the
 * data has come: who uses the space anew writes the header first, so one that
 * is still right says that the data was. For as long as the lease: later the
 * space may be cut anew, and no header says what lies between.
 */
#include <errno.h>

#include "base/clock.h"
#include "store/client/buffers.h"
#include "store/client/get.h"
#include "store/client/ranges.h"
#include "store/proto/extent.h"

static const struct tes_extent_at *chosen(const struct tes_get_entry *entry)
{
	return &entry->layout.extents[entry->first];
}

/* ---- counting ---- */

/* Those that are not inside the object have their result and are left out. */
static bool wanted(const struct tes_get_ranges *r, uint32_t i)
{
	return r->results[r->order[i]] != TE_STORE_INVALID_PARAMS;
}

static uint32_t count_ranges(const struct tes_get *get,
			     const struct tes_get_entry *entry)
{
	const struct tes_get_ranges *r = get->ranges;
	uint32_t n = 0, i, k;
	uint64_t from;

	for (i = r->starts[entry->item]; i < r->starts[entry->item + 1]; i++)
		for (k = 0; k < entry->n && wanted(r, i); k++)
			n += tes_range_common(&r->all[r->order[i]],
					      &chosen(entry)[k], &from) > 0;
	return n;
}

uint32_t tes_get_count(const struct tes_get *get,
		       const struct tes_get_entry *entry)
{
	uint32_t n = get->ranges && !entry->hot ? count_ranges(get, entry)
						: entry->n;

	return n > entry->n ? n : entry->n;
}

/* ---- planning ---- */

static void aim(struct tes_get *get, struct te_request *req,
		const struct tes_extent_at *x, uint64_t skip,
		uint32_t timeout_ms)
{
	req->flags |= TE_FAIL_FAST | (get->hurry ? TE_FAIL_SILENT : 0);
	req->segment = get->places.at[x->place].owner->segment;
	req->remote = x->address + skip;
	req->timeout_ms = timeout_ms;
}

static int plan_range(struct tes_get *get, const struct te_store_range *range,
		      const struct tes_get_entry *entry, uint32_t timeout_ms)
{
	struct te_request *req;
	uint64_t from, len;
	uint32_t k;

	for (k = 0; k < entry->n; k++) {
		const struct tes_extent_at *x = &chosen(entry)[k];

		len = tes_range_common(range, x, &from);
		if (!len)
			continue;
		req = tes_work_add_plain(
			get->work, TE_READ,
			(uint8_t *)range->addr + (from - range->offset), len);
		if (!req)
			return -ENOMEM;
		aim(get, req, x, TES_EXTENT_HEADER_LEN + from - x->offset,
		    timeout_ms);
	}
	return 0;
}

static int plan_ranges(struct tes_get *get, struct tes_get_entry *entry,
		       uint32_t timeout_ms)
{
	const struct tes_get_ranges *r = get->ranges;
	uint32_t i;
	int rc = 0;

	for (i = r->starts[entry->item]; i < r->starts[entry->item + 1] && !rc;
	     i++)
		if (wanted(r, i))
			rc = plan_range(get, &r->all[r->order[i]], entry,
					timeout_ms);
	return rc;
}

static int plan_whole(struct tes_get *get, struct tes_get_entry *entry,
		      const struct te_store_value *value, uint32_t timeout_ms)
{
	struct te_request *req;
	uint32_t k;

	for (k = 0; k < entry->n; k++) {
		const struct tes_extent_at *x = &chosen(entry)[k];

		req = tes_work_add(get->work, TE_READ, value, x->offset,
				   x->length);
		if (!req)
			return -ENOMEM;
		aim(get, req, x, 0, timeout_ms);
	}
	return 0;
}

static int plan_buffer(struct tes_get *get, struct tes_get_entry *entry,
		       uint32_t timeout_ms)
{
	struct te_store_buffer *buffer = get->buffers[entry->item];
	const struct iovec piece = {buffer->data, (size_t)buffer->length};
	const struct te_store_value value = {.pieces = &piece, .n_pieces = 1};

	return plan_whole(get, entry, &value, timeout_ms);
}

int tes_get_plan(struct tes_get *get, struct tes_get_entry *entry,
		 uint32_t timeout_ms)
{
	int rc;

	entry->request = get->work->n;
	if (get->ranges)
		rc = plan_ranges(get, entry, timeout_ms);
	else if (get->buffers)
		rc = plan_buffer(get, entry, timeout_ms);
	else
		rc = plan_whole(get, entry, &get->values[entry->item],
				timeout_ms);
	entry->n_requests = get->work->n - entry->request;
	return rc;
}

int tes_get_plan_headers(struct tes_get *get, struct tes_get_entry *entry,
			 uint32_t timeout_ms)
{
	struct te_request *req;
	uint32_t k;

	entry->request = get->work->n;
	for (k = 0; k < entry->n; k++) {
		req = tes_work_add_plain(get->work, TE_READ,
					 get->work->headers[get->work->n],
					 TES_EXTENT_HEADER_LEN);
		if (!req)
			return -ENOMEM;
		aim(get, req, &chosen(entry)[k], 0, timeout_ms);
	}
	entry->n_requests = entry->n;
	return 0;
}

/* ---- checking ---- */

static bool header_holds(const struct tes_get *get,
			 const struct tes_get_entry *entry, uint32_t k)
{
	const struct tes_extent_at *x = &chosen(entry)[k];
	const struct tes_extent_header told = {
		.gen_epoch = entry->gen_epoch,
		.generation = entry->generation,
		.object_size = entry->size,
		.offset = x->offset,
		.length = x->length,
		.index = x->index,
		.count = x->count,
	};
	struct tes_extent_header h;

	return !tes_extent_decode(get->work->headers[entry->request + k], &h) &&
	       h.digest == entry->digest && tes_extent_same(&h, &told);
}

static int ended(struct tes_get *get, const struct tes_get_entry *entry,
		 uint32_t k, struct te_completion *done)
{
	tes_work_result(get->work, entry->request + k, done);
	return done->error;
}

int tes_get_check(struct tes_get *get, const struct tes_get_entry *entry)
{
	struct te_completion done;
	uint32_t k;
	int rc;

	for (k = 0; k < entry->n_requests; k++) {
		rc = ended(get, entry, k, &done);
		if (rc)
			return rc;
		if (get->ranges)
			continue;
		if (!header_holds(get, entry, k) ||
		    (!entry->no_crc && done.crc != chosen(entry)[k].crc))
			return -EBADMSG;
	}
	return 0;
}

int tes_get_check_headers(struct tes_get *get,
			  const struct tes_get_entry *entry)
{
	struct te_completion done;
	uint32_t k;
	int rc;

	for (k = 0; k < entry->n_requests; k++) {
		rc = ended(get, entry, k, &done);
		if (rc)
			return rc;
		if (!header_holds(get, entry, k))
			return -EBADMSG;
	}
	return tei_now_ns() < entry->lease_until_ns ? 0 : -EBADMSG;
}
