/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get_read.c - read what was found: one replica after the other
 *
 * The nearest first, of equals another one each time; owners that failed
 * somebody lately come last, and are read only once they answer again. Every
 * replica has its share of the time that is left, so that a dead owner leaves
 * some for the others.
 *
 * A run in which anybody could go elsewhere does not wait for owners that are
 * silent. Who has nowhere else to go asks his again, in a run without such
 * haste.
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
 * tells whether all bytes are of one object. Where there is no CRC to compare,
 * for ranges and for objects that have none, the headers are read after the
 * data has come: who uses the space anew writes the header first, so one that
 * is still right says that the data was. For as long as the lease: later the
 * space may be cut anew, and no header says what lies between.
 */

static const struct tes_extent_at *chosen(const struct tes_get_entry *entry)
{
	return &entry->layout.extents[entry->first];
}

/* ---- counting ---- */

/* Ranges that are not inside the object have their result and are left out. */
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

/* How many the chosen replica needs, headers that are read late included. */
static uint32_t get_count(const struct tes_get *get,
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

static int plan_replica(struct tes_get *get, struct tes_get_entry *entry,
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

/* Add them. -ENOMEM. */
static int get_plan_headers(struct tes_get *get, struct tes_get_entry *entry,
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

static int get_check(struct tes_get *get, const struct tes_get_entry *entry)
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

/*
 * 0: all of it is there and right, as far as can be told by now; -EBADMSG: it
 * is another object's; or why a request failed.
 */
static int get_check_headers(struct tes_get *get,
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

#define LOOKUPS 2    /* of one key */
#define SHUNNED 4    /* added to a rank */
#define MEET_MS 2000 /* to be met first, where there is another replica */

/* Entries that are open, and those that are so after this run. */
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

static uint8_t rank_of(const struct tes_get *get, struct tes_place *place)
{
	const struct te_store *store = get->store;

	if (place->rank_known)
		return place->rank;
	place->rank_known = true;
	place->rank = 2;
	if (!place->incarnation)
		place->rank += SHUNNED;
	else if (!memcmp(place->incarnation, store->incarnation,
			 TE_INCARNATION_LEN))
		place->rank = 0;
	else if (on_this_host(store, place->name))
		place->rank = 1;
	if (place->incarnation &&
	    tes_owners_shunned(get->places.owners, place->name,
			       place->incarnation))
		place->rank += SHUNNED;
	return place->rank;
}

static uint32_t n_untried(const struct tes_get_entry *entry)
{
	uint32_t all =
		UINT32_MAX >> (TES_REPLICAS_MAX - entry->layout.n_replicas);

	return (uint32_t)__builtin_popcount(all & ~entry->tried);
}

/* Chooses a replica that has not been tried; at least one is left. */
static void choose(struct tes_get *get, struct tes_get_entry *entry)
{
	const struct tes_layout *layout = &entry->layout;
	uint32_t best = UINT32_MAX, turn, k;

	turn = layout->n_replicas > 1
		       ? atomic_fetch_add_explicit(&get->store->turn, 1,
						   memory_order_relaxed)
		       : 0;
	for (k = 0; k < layout->n_extents; k += layout->extents[k].count) {
		const struct tes_extent_at *x = &layout->extents[k];
		uint32_t rank;

		if (entry->tried & 1u << x->replica)
			continue;
		rank = (uint32_t)rank_of(get, &get->places.at[x->place]) *
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

/* As if it had not been chosen. */
static void unchoose(struct tes_get_entry *entry)
{
	entry->tried &= ~(1u << entry->layout.extents[entry->first].replica);
}

/* ---- how it ended ---- */

static void set_found(struct tes_get *get, struct tes_get_entry *entry)
{
	const struct tes_get_ranges *r = get->ranges;
	uint32_t i;

	entry->open = false;
	get->results[entry->item] = (int64_t)entry->size;
	for (i = r ? r->starts[entry->item] : 0;
	     r && i < r->starts[entry->item + 1]; i++)
		if (r->results[r->order[i]] != TE_STORE_INVALID_PARAMS)
			r->results[r->order[i]] =
				(int64_t)r->all[r->order[i]].length;
}

static void done(struct tes_get *get, struct tes_get_entry *entry)
{
	struct tes_place *place =
		&get->places.at[entry->layout.extents[entry->first].place];

	set_found(get, entry);
	/* All of it was read, and its CRC holds. */
	if (!get->ranges && !entry->no_crc)
		entry->unverified = false;
	tes_owner_answered(place->owner);
	if (entry->hot)
		tes_get_copy(get, entry);
	else if (rank_of(get, place))
		tes_get_keep(get, entry);
	if (entry->source == TES_GET_MASTER)
		tes_get_remember(get, entry);
	else
		atomic_fetch_add_explicit(&get->store->locations.n_hits, 1,
					  memory_order_relaxed);
}

/*
 * The store's code for the last replica's failure; whether to ask again. Where
 * one owner does not answer the master knows of no better; of several it may.
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
		/* Not this object, or not there any more: at last a miss. */
		*elsewhere = true;
		return TE_STORE_OBJECT_NOT_FOUND;
	}
}

static void give_up(struct tes_get *get, struct tes_get_entry *entry, int error)
{
	bool elsewhere, recalled = entry->source == TES_GET_LOCATION;

	entry->open = false;
	tes_get_set_code(get, entry->item,
			 code_of(error, entry->layout.n_replicas, &elsewhere));
	if (recalled)
		tes_get_forget(get, entry);
	/* A cached location that failed is no reason to give up. */
	if ((recalled || elsewhere) && get->lookups[entry->item] < LOOKUPS)
		get->next[get->n_next++] = entry->item;
}

/* Asked in haste, not just shunned. */
static bool was_silent(const struct tes_get_entry *entry, int error)
{
	return error == -EHOSTDOWN && entry->n_requests;
}

static void note_owner(const struct tes_get *get,
		       const struct tes_get_entry *entry, int error)
{
	struct tes_place *place =
		&get->places.at[entry->layout.extents[entry->first].place];

	if (error == -ESTALE || error == -ENOENT)
		place->gone = true;
	if (place->owner && (error == -ETIMEDOUT || error == -ECONNREFUSED ||
			     error == -ECONNRESET || error == -EHOSTUNREACH ||
			     was_silent(entry, error))) {
		tes_owners_failed(get->places.owners, place->owner);
		place->rank_known = false;
	}
}

/* A replica failed: goes to the next one, if there is any and time for it. */
static void failed(struct tes_get *get, struct pending *p, uint32_t at,
		   int error)
{
	struct tes_get_entry *entry = &get->entries[at];

	entry->late = false;
	tes_get_cool(get, entry);
	note_owner(get, entry, error);
	if (was_silent(entry, error) && !n_untried(entry)) {
		unchoose(entry);
		entry->again = true;
	}
	if (n_untried(entry) && tei_now_ns() < get->deadline_ns)
		p->next[p->n_next++] = at;
	else
		give_up(get, entry, error);
}

/* ---- a run ---- */

static uint32_t timeout_of(const struct tes_get *get,
			   const struct tes_get_entry *entry)
{
	uint64_t now = tei_now_ns(), ms;

	if (now >= get->deadline_ns)
		return 1;
	ms = (get->deadline_ns - now) / TEI_NS_PER_MS / (n_untried(entry) + 1);
	if (ms > get->store->replica_timeout_ms)
		ms = get->store->replica_timeout_ms;
	return ms ? (uint32_t)ms : 1;
}

/* The owner of the replica that is chosen is open. */
static int meet(struct tes_get *get, const struct tes_get_entry *entry)
{
	uint32_t ms = timeout_of(get, entry);

	get->places.timeout_ms =
		n_untried(entry) && ms > MEET_MS ? MEET_MS : ms;
	return tes_places_open(&get->places,
			       entry->layout.extents[entry->first].place);
}

/* Whether to ask it now. */
static bool may_ask(struct tes_get *get, const struct tes_get_entry *entry)
{
	const struct tes_place *place =
		&get->places.at[entry->layout.extents[entry->first].place];

	return entry->again || tes_owners_try(get->places.owners, place->owner,
					      timeout_of(get, entry));
}

static int plan(struct tes_get *get, struct tes_get_entry *entry)
{
	int rc;

	entry->n_requests = 0;
	rc = meet(get, entry);
	if (!rc && !may_ask(get, entry))
		rc = -EHOSTDOWN;
	if (rc)
		return rc;
	return entry->hot ? get_plan_headers(get, entry, timeout_of(get, entry))
			  : plan_replica(get, entry, timeout_of(get, entry));
}

int tes_get_reach(struct tes_get *get, struct tes_get_entry *entry)
{
	while (n_untried(entry)) {
		choose(get, entry);
		if (!meet(get, entry))
			return 0;
	}
	return -EHOSTUNREACH;
}

/* As many as fit; those without a request have failed. Returns how many. */
static size_t start_run(struct tes_get *get, struct pending *p, size_t from)
{
	size_t n = 0, i;
	int rc;

	get->hurry = false;
	for (i = from; i < p->n_now; i++) {
		struct tes_get_entry *entry = &get->entries[p->now[i]];
		size_t more;

		choose(get, entry);
		more = get_count(get, entry);
		if (i > from && n + more > TES_WORK_MAX) {
			unchoose(entry); /* the next run's */
			break;
		}
		n += more;
		get->hurry |= n_untried(entry) > 0;
	}
	rc = tes_work_next_run(get->work, n);
	for (n = from; n < i; n++) {
		struct tes_get_entry *entry = &get->entries[p->now[n]];
		int error = rc ? rc : plan(get, entry);

		entry->late =
			!error && !entry->hot && (get->ranges || entry->no_crc);
		if (error) {
			entry->n_requests = 0;
			failed(get, p, p->now[n], error);
			entry->n = 0;
		}
	}
	return i - from;
}

static void end_run(struct tes_get *get, struct pending *p, size_t from,
		    size_t n)
{
	int rc = tes_work_run(get->work, &get->places);
	size_t i;

	for (i = from; i < from + n; i++) {
		struct tes_get_entry *entry = &get->entries[p->now[i]];
		int error = rc;

		if (!entry->open || !entry->n)
			continue;
		if (!error)
			error = entry->hot ? get_check_headers(get, entry)
					   : get_check(get, entry);
		if (error)
			failed(get, p, p->now[i], error);
		else if (!entry->late)
			done(get, entry);
	}
}

/* Headers of what was read without a CRC to compare. */
static void look_late(struct tes_get *get, struct pending *p, size_t from,
		      size_t n)
{
	size_t n_headers = 0, i;
	int rc;

	for (i = from; i < from + n; i++)
		if (get->entries[p->now[i]].late)
			n_headers += get->entries[p->now[i]].n;
	if (!n_headers)
		return;
	rc = tes_work_next_run(get->work, n_headers);
	for (i = from; i < from + n && !rc; i++) {
		struct tes_get_entry *entry = &get->entries[p->now[i]];

		if (entry->late)
			rc = get_plan_headers(get, entry,
					      timeout_of(get, entry));
	}
	if (!rc)
		rc = tes_work_run(get->work, &get->places);
	for (i = from; i < from + n; i++) {
		struct tes_get_entry *entry = &get->entries[p->now[i]];
		int error = rc;

		if (!entry->late)
			continue;
		if (!error)
			error = get_check_headers(get, entry);
		if (error)
			failed(get, p, p->now[i], error);
		else
			done(get, entry);
		entry->late = false;
	}
}

/* ---- all of it ---- */

/* Whether there is room for the object: else its result is set. */
static bool make_room(struct tes_get *get, struct tes_get_entry *entry)
{
	const struct tes_get_ranges *r = get->ranges;
	uint32_t i;

	if (get->values) {
		if (entry->size <= tes_value_bytes(&get->values[entry->item]))
			return true;
		tes_get_set_code(get, entry->item, TE_STORE_INVALID_PARAMS);
		return false;
	}
	if (get->buffers) {
		struct te_store_buffer **buffer = &get->buffers[entry->item];

		tes_buffer_destroy(*buffer);
		*buffer = tes_buffer_create(&get->store->buffers, entry->size);
		if (*buffer)
			return true;
		tes_get_set_code(get, entry->item, TE_STORE_INTERNAL_ERROR);
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
	tes_get_set_code(get, entry->item, TES_GET_WHOLE);
	return false;
}

/* Whether it was read from memory of ours: nobody else's is in it. */
static bool is_local(struct tes_get *get, const struct tes_get_entry *entry)
{
	return !rank_of(get, &get->places.at[entry->layout.extents[0].place]);
}

/* The master has just said which value it is, and we have that. */
static void serve_hot(struct tes_get *get, struct tes_get_entry *entry)
{
	set_found(get, entry);
	tes_get_copy(get, entry);
	if (tes_locations_on(&get->store->locations) &&
	    !tes_get_reach(get, entry))
		tes_get_remember(get, entry);
}

static void read_pending(struct tes_get *get, struct pending *p)
{
	uint32_t *old;
	size_t from, n;

	while (p->n_now) {
		p->n_next = 0;
		for (from = 0; from < p->n_now; from += n) {
			n = start_run(get, p, from);
			end_run(get, p, from, n);
			look_late(get, p, from, n);
		}
		old = p->now;
		p->now = p->next;
		p->next = old;
		p->n_now = p->n_next;
	}
}

void tes_get_read(struct tes_get *get)
{
	struct tei_arena *arena = &get->work->round;
	struct pending p = {
		.now = tei_arena_alloc(arena, get->n_todo * sizeof(uint32_t)),
		.next = tei_arena_alloc(arena, get->n_todo * sizeof(uint32_t)),
	};
	size_t i;

	for (i = 0; i < get->n_todo; i++) {
		struct tes_get_entry *entry = &get->entries[i];

		if (!entry->open)
			continue;
		if (!p.now || !p.next) {
			entry->open = false;
			tes_get_set_code(get, entry->item,
					 TE_STORE_INTERNAL_ERROR);
			continue;
		}
		if (!is_local(get, entry))
			tes_get_warm(get, entry);
		if (!make_room(get, entry)) {
			entry->open = false;
			tes_get_cool(get, entry);
		} else if (entry->hot && entry->source == TES_GET_MASTER) {
			serve_hot(get, entry);
		} else {
			p.now[p.n_now++] = (uint32_t)i;
		}
	}
	read_pending(get, &p);
}
