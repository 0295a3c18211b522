/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get_read.c - reads of a round: replica after replica until one verifies
 *
 * The nearest replica is read first; among equals reads rotate. Owners that
 * failed a read lately come last, and are read only once they answer again.
 * Every replica gets a share of the time that is left, so that a dead owner
 * leaves some for the others.
 *
 * A run is one batch of requests. While some of its keys have further replicas,
 * a run does not wait for silent owners; a key whose last replica was silent is
 * read once more, in a run that waits.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/net.h"
#include "store/client/buffers.h"
#include "store/client/get.h"
#include "store/client/ranges.h"
#include "store/proto/extent.h"

/* ---- requests for one replica, and checks of the result ---- */

/*
 * A whole value is read with the headers in front of its extents, and its CRC
 * proves that all bytes are of one object. Where there is no CRC to compare (a
 * range, or an object that has none), the headers are read after the data: a
 * writer that reuses the space writes its header first, so a header that still
 * matches proves that the data did. This holds until the lease ends: later the
 * space may be divided anew, with other headers in other places.
 */

static const struct tes_extent_at *chosen(const struct tes_get_entry *entry)
{
	return &entry->layout.extents[entry->first];
}

/* False: the range is not inside the object and has its result. */
static bool is_inside(const struct tes_get_ranges *r, uint32_t i)
{
	return r->results[r->order[i]] != TE_STORE_INVALID_PARAMS;
}

static uint32_t count_ranges(const struct tes_get_round *round,
			     const struct tes_get_entry *entry)
{
	const struct tes_get_ranges *r = round->chunk->ranges;
	uint32_t n = 0, i, k;
	uint64_t from;

	for (i = r->starts[entry->item]; i < r->starts[entry->item + 1]; i++)
		for (k = 0; k < entry->n && is_inside(r, i); k++)
			n += tes_range_common(&r->all[r->order[i]],
					      &chosen(entry)[k], &from) > 0;
	return n;
}

/* Requests for the chosen replica; headers read later reuse them. */
static uint32_t count_requests(const struct tes_get_round *round,
			       const struct tes_get_entry *entry)
{
	uint32_t n = round->chunk->ranges && !entry->hot
			     ? count_ranges(round, entry)
			     : entry->n;

	return n > entry->n ? n : entry->n;
}

/* ---- requests ---- */

static void set_target(struct tes_get_round *round, struct te_request *req,
		       const struct tes_extent_at *x, uint64_t skip,
		       uint32_t timeout_ms)
{
	req->flags |= TE_FAIL_FAST | (round->fail_silent ? TE_FAIL_SILENT : 0);
	req->segment = round->places.at[x->place].owner->segment;
	req->remote = x->address + skip;
	req->timeout_ms = timeout_ms;
}

static int plan_range(struct tes_get_round *round,
		      const struct te_store_range *range,
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
			round->chunk->work, TE_READ,
			(uint8_t *)range->addr + (from - range->offset), len);
		if (!req)
			return -ENOMEM;
		set_target(round, req, x,
			   TES_EXTENT_HEADER_LEN + from - x->offset,
			   timeout_ms);
	}
	return 0;
}

static int plan_ranges(struct tes_get_round *round, struct tes_get_entry *entry,
		       uint32_t timeout_ms)
{
	const struct tes_get_ranges *r = round->chunk->ranges;
	uint32_t i;
	int rc = 0;

	for (i = r->starts[entry->item]; i < r->starts[entry->item + 1] && !rc;
	     i++)
		if (is_inside(r, i))
			rc = plan_range(round, &r->all[r->order[i]], entry,
					timeout_ms);
	return rc;
}

static int plan_whole(struct tes_get_round *round, struct tes_get_entry *entry,
		      const struct te_store_value *value, uint32_t timeout_ms)
{
	struct te_request *req;
	uint32_t k;

	for (k = 0; k < entry->n; k++) {
		const struct tes_extent_at *x = &chosen(entry)[k];

		req = tes_work_add(round->chunk->work, TE_READ, value,
				   x->offset, x->length);
		if (!req)
			return -ENOMEM;
		set_target(round, req, x, 0, timeout_ms);
	}
	return 0;
}

static int plan_buffer(struct tes_get_round *round, struct tes_get_entry *entry,
		       uint32_t timeout_ms)
{
	struct te_store_buffer *buffer = round->chunk->buffers[entry->item];
	const struct iovec piece = {buffer->data, (size_t)buffer->length};
	const struct te_store_value value = {.pieces = &piece, .n_pieces = 1};

	return plan_whole(round, entry, &value, timeout_ms);
}

static int plan_replica(struct tes_get_round *round,
			struct tes_get_entry *entry, uint32_t timeout_ms)
{
	int rc;

	entry->request = round->chunk->work->n;
	if (round->chunk->ranges)
		rc = plan_ranges(round, entry, timeout_ms);
	else if (round->chunk->buffers)
		rc = plan_buffer(round, entry, timeout_ms);
	else
		rc = plan_whole(round, entry,
				&round->chunk->values[entry->item], timeout_ms);
	entry->n_requests = round->chunk->work->n - entry->request;
	return rc;
}

static int plan_headers(struct tes_get_round *round,
			struct tes_get_entry *entry, uint32_t timeout_ms)
{
	struct te_request *req;
	uint32_t k;

	entry->request = round->chunk->work->n;
	for (k = 0; k < entry->n; k++) {
		req = tes_work_add_plain(
			round->chunk->work, TE_READ,
			round->chunk->work->headers[round->chunk->work->n],
			TES_EXTENT_HEADER_LEN);
		if (!req)
			return -ENOMEM;
		set_target(round, req, &chosen(entry)[k], 0, timeout_ms);
	}
	entry->n_requests = entry->n;
	return 0;
}

/* ---- checks of what was read ---- */

static bool header_holds(const struct tes_get_round *round,
			 const struct tes_get_entry *entry, uint32_t k)
{
	const struct tes_extent_at *x = &chosen(entry)[k];
	const struct tes_extent_header expected = {
		.gen_epoch = entry->gen_epoch,
		.generation = entry->generation,
		.object_size = entry->size,
		.offset = x->offset,
		.length = x->length,
		.index = x->index,
		.count = x->count,
	};
	struct tes_extent_header h;

	return !tes_extent_decode(
		       round->chunk->work->headers[entry->request + k], &h) &&
	       h.digest == entry->digest && tes_extent_same(&h, &expected);
}

static int request_error(struct tes_get_round *round,
			 const struct tes_get_entry *entry, uint32_t k,
			 struct te_completion *done)
{
	tes_work_result(round->chunk->work, entry->request + k, done);
	return done->error;
}

static int check_requests(struct tes_get_round *round,
			  const struct tes_get_entry *entry, bool headers,
			  bool checksums)
{
	struct te_completion done;
	int rc;

	for (uint32_t k = 0; k < entry->n_requests; k++) {
		rc = request_error(round, entry, k, &done);
		if (rc)
			return rc;
		if (headers && !header_holds(round, entry, k))
			return -EBADMSG;
		if (checksums && done.crc != chosen(entry)[k].crc)
			return -EBADMSG;
	}
	return 0;
}

static int check_values(struct tes_get_round *round,
			const struct tes_get_entry *entry)
{
	bool whole = !round->chunk->ranges;

	return check_requests(round, entry, whole, whole && !entry->no_crc);
}

/* 0: the extents are the object's; -EBADMSG: another's; or a request failed. */
static int check_headers(struct tes_get_round *round,
			 const struct tes_get_entry *entry)
{
	int rc = check_requests(round, entry, true, false);

	if (rc)
		return rc;
	return tei_now_ns() < entry->lease_until_ns ? 0 : -EBADMSG;
}

#define LOOKUPS 2    /* of one key in one call */
#define AVOIDED 4    /* added to a rank */
#define OPEN_MS 2000 /* limit of a first contact, with other replicas left */

/* Indices of entries that are open in this pass, and in the next one. */
struct pending {
	uint32_t *now, *next;
	size_t n_now, n_next;
};

/* ---- which replica ---- */

static bool on_this_host(const struct te_store *store, const char *name)
{
	char host[TEI_HOST_LEN_MAX + 1], own[TEI_HOST_LEN_MAX + 1];
	uint16_t port;

	return !tei_name_split(name, host, &port) &&
	       !tei_name_split(te_engine_name(store->engine), own, &port) &&
	       strcmp(host, own) == 0;
}

static uint8_t rank_of(const struct tes_get_round *round,
		       struct tes_place *place)
{
	const struct te_store *store = round->chunk->store;

	if (place->rank_known)
		return place->rank;
	place->rank_known = true;
	place->rank = 2;
	if (!place->incarnation)
		place->rank += AVOIDED;
	else if (!memcmp(place->incarnation, store->incarnation,
			 TE_INCARNATION_LEN))
		place->rank = 0;
	else if (on_this_host(store, place->name))
		place->rank = 1;
	if (place->incarnation &&
	    tes_owners_avoided(round->places.owners, place->name,
			       place->incarnation))
		place->rank += AVOIDED;
	return place->rank;
}

static uint32_t n_untried(const struct tes_get_entry *entry)
{
	uint32_t all =
		UINT32_MAX >> (TES_REPLICAS_MAX - entry->layout.n_replicas);

	return (uint32_t)__builtin_popcount(all & ~entry->tried);
}

/* Chooses a replica that has not been tried; at least one is left. */
static void choose_replica(struct tes_get_round *round,
			   struct tes_get_entry *entry)
{
	const struct tes_layout *layout = &entry->layout;
	uint32_t best = UINT32_MAX, turn, k;

	turn = layout->n_replicas > 1
		       ? atomic_fetch_add_explicit(&round->chunk->store->turn,
						   1, memory_order_relaxed)
		       : 0;
	for (k = 0; k < layout->n_extents; k += layout->extents[k].count) {
		const struct tes_extent_at *x = &layout->extents[k];
		uint32_t rank;

		if (entry->tried & 1u << x->replica)
			continue;
		rank = (uint32_t)rank_of(round, &round->places.at[x->place]) *
			       TES_REPLICAS_MAX +
		       (x->replica + turn) % layout->n_replicas;
		if (rank >= best)
			continue;
		best = rank;
		entry->first = k;
		entry->n = x->count;
	}
	entry->tried |= 1u << layout->extents[entry->first].replica;
}

/* Undoes choose_replica(). */
static void unchoose_replica(struct tes_get_entry *entry)
{
	entry->tried &= ~(1u << entry->layout.extents[entry->first].replica);
}

/* ---- results ---- */

static void set_found(struct tes_get_round *round, struct tes_get_entry *entry)
{
	const struct tes_get_ranges *r = round->chunk->ranges;
	uint32_t i;

	entry->open = false;
	round->chunk->results[entry->item] = (int64_t)entry->size;
	for (i = r ? r->starts[entry->item] : 0;
	     r && i < r->starts[entry->item + 1]; i++)
		if (r->results[r->order[i]] != TE_STORE_INVALID_PARAMS)
			r->results[r->order[i]] =
				(int64_t)r->all[r->order[i]].length;
}

static void succeed(struct tes_get_round *round, struct tes_get_entry *entry)
{
	struct tes_place *place =
		&round->places.at[entry->layout.extents[entry->first].place];

	set_found(round, entry);
	/* The whole object was read, and its CRC holds. */
	if (!round->chunk->ranges && !entry->no_crc)
		entry->unverified = false;
	tes_owner_answered(place->owner);
	if (entry->hot)
		tes_get_copy(round, entry);
	else if (rank_of(round, place))
		tes_get_keep(round, entry);
	if (entry->source == TES_GET_MASTER)
		tes_get_remember(round, entry);
	else
		atomic_fetch_add_explicit(
			&round->chunk->store->locations.n_hits, 1,
			memory_order_relaxed);
}

/*
 * The store's code for the last replica's failure; *@elsewhere: the master may
 * name another place. It knows none while the only owner does not answer.
 */
static int code_of(int error, uint32_t n_replicas, bool *elsewhere)
{
	*elsewhere = n_replicas > 1;
	switch (error) {
	case -ETIMEDOUT:
	case -EHOSTDOWN:
	case -ECANCELED:
	case -EIO:
		return TE_STORE_TRANSFER_FAIL;
	case -ENOMEM:
	case -EMFILE:
	case -EINVAL:
	case -ENOBUFS:
		*elsewhere = false;
		return TE_STORE_INTERNAL_ERROR;
	default:
		/* Another object, or the owner's memory has gone: a miss. */
		*elsewhere = true;
		return TE_STORE_OBJECT_NOT_FOUND;
	}
}

static void give_up(struct tes_get_round *round, struct tes_get_entry *entry,
		    int error)
{
	bool elsewhere, recalled = entry->source == TES_GET_LOCATION;

	entry->open = false;
	tes_get_set_code(round->chunk, entry->item,
			 code_of(error, entry->layout.n_replicas, &elsewhere));
	if (recalled)
		tes_get_forget(round, entry);
	/* After a cached location, the master is asked. */
	if ((recalled || elsewhere) &&
	    round->chunk->lookups[entry->item] < LOOKUPS)
		round->chunk->next[round->chunk->n_next++] = entry->item;
}

/* A request was sent and the owner did not answer it. */
static bool was_silent(const struct tes_get_entry *entry, int error)
{
	return error == -EHOSTDOWN && entry->n_requests;
}

static void note_owner(const struct tes_get_round *round,
		       const struct tes_get_entry *entry, int error)
{
	struct tes_place *place =
		&round->places.at[entry->layout.extents[entry->first].place];

	if (error == -ESTALE || error == -ENOENT)
		place->gone = true;
	if (place->owner && (error == -ETIMEDOUT || error == -ECONNREFUSED ||
			     error == -ECONNRESET || error == -EHOSTUNREACH ||
			     was_silent(entry, error))) {
		tes_owners_failed(round->places.owners, place->owner);
		place->rank_known = false;
	}
}

/* The caller's memory has gone meanwhile: no replica would do better. */
static bool is_local_fault(const struct tes_get_round *round,
			   const struct tes_get_entry *entry)
{
	struct te_completion done;

	for (uint32_t k = 0; k < entry->n_requests; k++) {
		uint32_t request = entry->request + k;

		tes_work_result(round->chunk->work, request, &done);
		if (tes_work_is_local_fault(round->chunk->work, request,
					    done.error))
			return true;
	}
	return false;
}

/*
 * Tries the next replica after one that failed, while there are any and time.
 */
static void try_next(struct tes_get_round *round, struct pending *p,
		     uint32_t at, int error)
{
	struct tes_get_entry *entry = &round->entries[at];

	entry->late = false;
	tes_get_cool(round, entry);
	if (error == -EFAULT && is_local_fault(round, entry)) {
		entry->open = false;
		tes_get_set_code(round->chunk, entry->item,
				 TE_STORE_INVALID_PARAMS);
		return;
	}
	note_owner(round, entry, error);
	if (was_silent(entry, error) && !n_untried(entry)) {
		unchoose_replica(entry);
		entry->again = true;
	}
	if (n_untried(entry) && tei_now_ns() < round->chunk->deadline_ns)
		p->next[p->n_next++] = at;
	else
		give_up(round, entry, error);
}

/* ---- a run ---- */

static uint32_t timeout_of(const struct tes_get_round *round,
			   const struct tes_get_entry *entry)
{
	uint64_t now = tei_now_ns(), ms;

	if (now >= round->chunk->deadline_ns)
		return 1;
	ms = (round->chunk->deadline_ns - now) / TEI_NS_PER_MS /
	     (n_untried(entry) + 1);
	if (ms > round->chunk->store->replica_timeout_ms)
		ms = round->chunk->store->replica_timeout_ms;
	return ms ? (uint32_t)ms : 1;
}

/* Opens the owner of the chosen replica. */
static int open_owner(struct tes_get_round *round,
		      const struct tes_get_entry *entry)
{
	uint32_t ms = timeout_of(round, entry);

	round->places.timeout_ms =
		n_untried(entry) && ms > OPEN_MS ? OPEN_MS : ms;
	return tes_places_open(&round->places,
			       entry->layout.extents[entry->first].place);
}

/* False: the owner failed lately, and it is not yet time to try it again. */
static bool may_try(struct tes_get_round *round,
		    const struct tes_get_entry *entry)
{
	const struct tes_place *place =
		&round->places.at[entry->layout.extents[entry->first].place];

	return entry->again ||
	       tes_owners_try(round->places.owners, place->owner,
			      timeout_of(round, entry));
}

static int plan_entry(struct tes_get_round *round, struct tes_get_entry *entry)
{
	int rc;

	entry->n_requests = 0;
	rc = open_owner(round, entry);
	if (!rc && !may_try(round, entry))
		rc = -EHOSTDOWN;
	if (rc)
		return rc;
	return entry->hot
		       ? plan_headers(round, entry, timeout_of(round, entry))
		       : plan_replica(round, entry, timeout_of(round, entry));
}

int tes_get_reach(struct tes_get_round *round, struct tes_get_entry *entry)
{
	while (n_untried(entry)) {
		choose_replica(round, entry);
		if (!open_owner(round, entry))
			return 0;
	}
	return -EHOSTUNREACH;
}

/* Posts as many entries from @from on as fit. Returns how many. */
static size_t start_run(struct tes_get_round *round, struct pending *p,
			size_t from)
{
	size_t n = 0, i;
	uint64_t more_ns;
	int rc;

	round->fail_silent = false;
	for (i = from; i < p->n_now; i++) {
		struct tes_get_entry *entry = &round->entries[p->now[i]];
		size_t more;

		choose_replica(round, entry);
		more = count_requests(round, entry);
		if (i > from && n + more > TES_WORK_MAX) {
			unchoose_replica(entry); /* goes into the next run */
			break;
		}
		n += more;
		round->fail_silent |= n_untried(entry) > 0;
	}
	rc = tes_work_next_run(round->chunk->work, n);
	for (n = from; n < i; n++) {
		struct tes_get_entry *entry = &round->entries[p->now[n]];
		int error = rc ? rc : plan_entry(round, entry);

		entry->late = !error && !entry->hot &&
			      (round->chunk->ranges || entry->no_crc);
		if (error) {
			entry->n_requests = 0;
			try_next(round, p, p->now[n], error);
			entry->n = 0;
		}
	}
	more_ns = tes_work_extend_timeouts(round->chunk->work);
	round->chunk->deadline_ns += more_ns;
	round->places.deadline_ns += more_ns;
	return i - from;
}

static void end_run(struct tes_get_round *round, struct pending *p, size_t from,
		    size_t n)
{
	int rc = tes_work_run(round->chunk->work, &round->places);
	size_t i;

	for (i = from; i < from + n; i++) {
		struct tes_get_entry *entry = &round->entries[p->now[i]];
		int error = rc;

		if (!entry->open || !entry->n)
			continue;
		if (!error)
			error = entry->hot ? check_headers(round, entry)
					   : check_values(round, entry);
		if (error)
			try_next(round, p, p->now[i], error);
		else if (!entry->late)
			succeed(round, entry);
	}
}

/* Reads the headers of what was read without a CRC to compare. */
static void check_late(struct tes_get_round *round, struct pending *p,
		       size_t from, size_t n)
{
	size_t n_headers = 0, i;
	int rc;

	for (i = from; i < from + n; i++)
		if (round->entries[p->now[i]].late)
			n_headers += round->entries[p->now[i]].n;
	if (!n_headers)
		return;
	rc = tes_work_next_run(round->chunk->work, n_headers);
	for (i = from; i < from + n && !rc; i++) {
		struct tes_get_entry *entry = &round->entries[p->now[i]];

		if (entry->late)
			rc = plan_headers(round, entry,
					  timeout_of(round, entry));
	}
	if (!rc)
		rc = tes_work_run(round->chunk->work, &round->places);
	for (i = from; i < from + n; i++) {
		struct tes_get_entry *entry = &round->entries[p->now[i]];
		int error = rc;

		if (!entry->late)
			continue;
		if (!error)
			error = check_headers(round, entry);
		if (error)
			try_next(round, p, p->now[i], error);
		else
			succeed(round, entry);
		entry->late = false;
	}
}

/* ---- the round ---- */

/* False: the object does not fit, and its result is set. */
static bool make_room(struct tes_get_round *round, struct tes_get_entry *entry)
{
	const struct tes_get_ranges *r = round->chunk->ranges;
	uint32_t i;

	if (round->chunk->values) {
		if (entry->size <=
		    tes_value_bytes(&round->chunk->values[entry->item]))
			return true;
		tes_get_set_code(round->chunk, entry->item,
				 TE_STORE_INVALID_PARAMS);
		return false;
	}
	if (round->chunk->buffers) {
		struct te_store_buffer **buffer =
			&round->chunk->buffers[entry->item];

		tes_buffer_destroy(*buffer);
		*buffer = tes_buffer_create(&round->chunk->store->buffers,
					    entry->size);
		if (*buffer)
			return true;
		tes_get_set_code(round->chunk, entry->item,
				 TE_STORE_INTERNAL_ERROR);
		return false;
	}
	for (i = r->starts[entry->item]; i < r->starts[entry->item + 1]; i++) {
		const struct te_store_range *range = &r->all[r->order[i]];

		if (range->offset > entry->size ||
		    range->length > entry->size - range->offset)
			r->results[r->order[i]] = TE_STORE_INVALID_PARAMS;
	}
	if (!entry->unverified || entry->no_crc || entry->hot)
		return true;
	tes_get_set_code(round->chunk, entry->item, TES_GET_WHOLE);
	return false;
}

/* True: the first replica is in this process; a cached copy gains nothing. */
static bool is_local(struct tes_get_round *round,
		     const struct tes_get_entry *entry)
{
	return !rank_of(round,
			&round->places.at[entry->layout.extents[0].place]);
}

/* Serves a cached value: the look-up named the very generation that it has. */
static void serve_hot(struct tes_get_round *round, struct tes_get_entry *entry)
{
	set_found(round, entry);
	tes_get_copy(round, entry);
	if (tes_locations_on(&round->chunk->store->locations) &&
	    !tes_get_reach(round, entry))
		tes_get_remember(round, entry);
}

static void read_pending(struct tes_get_round *round, struct pending *p)
{
	uint32_t *old;
	size_t from, n;

	while (p->n_now) {
		p->n_next = 0;
		for (from = 0; from < p->n_now; from += n) {
			n = start_run(round, p, from);
			end_run(round, p, from, n);
			check_late(round, p, from, n);
		}
		old = p->now;
		p->now = p->next;
		p->next = old;
		p->n_now = p->n_next;
	}
}

void tes_get_read(struct tes_get_round *round)
{
	struct tei_arena *arena = &round->chunk->work->round;
	struct pending p = {
		.now = tei_arena_alloc(arena, round->n * sizeof(uint32_t)),
		.next = tei_arena_alloc(arena, round->n * sizeof(uint32_t)),
	};
	size_t i;

	for (i = 0; i < round->n; i++) {
		struct tes_get_entry *entry = &round->entries[i];

		if (!entry->open)
			continue;
		if (!p.now || !p.next) {
			entry->open = false;
			tes_get_set_code(round->chunk, entry->item,
					 TE_STORE_INTERNAL_ERROR);
			continue;
		}
		if (!is_local(round, entry))
			tes_get_warm(round, entry);
		if (!make_room(round, entry)) {
			entry->open = false;
			tes_get_cool(round, entry);
		} else if (entry->hot && entry->source == TES_GET_MASTER) {
			serve_hot(round, entry);
		} else {
			p.now[p.n_now++] = (uint32_t)i;
		}
	}
	read_pending(round, &p);
}
