/* SPDX-License-Identifier: Apache-2.0 */
/* work.c - what one put or get needs while it runs, kept for the next one */
#include "store/client/work.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mapped.h"
#include "base/mem.h"

#define IDLE_MAX     16
#define CAPACITY_MIN 64u
/* A batch of 4096 keys with pieces and messages is some 2 MiB a round. */
#define ARENA_CAP    (256u << 20)
#define PATIENCE_MS  250 /* without an end */
#define OVER_MS      50  /* how often over() is asked */
#define PROBE_MIN_MS 100
#define PROBE_MAX_MS 400
#define SILENT_MAX   4 /* probes; then the owner is given up */

void tes_works_init(struct tes_works *works, struct te_engine *engine,
		    struct tes_addresses *addresses)
{
	works->engine = engine;
	works->addresses = addresses;
	works->n_idle = 0;
	tei_mutex_init(&works->mu);
	tei_list_init(&works->idle);
}

static void give_room(struct tes_work *work)
{
	te_batch_destroy(work->batch);
	tei_free(work->requests);
	tei_free(work->headers);
	work->batch = NULL;
	work->requests = NULL;
	work->headers = NULL;
}

static void free_work(struct tes_work *work)
{
	give_room(work);
	tei_arena_fini(&work->round);
	tei_arena_fini(&work->call);
	tei_free(work);
}

void tes_works_fini(struct tes_works *works)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&works->idle)))
		free_work(tei_list_entry(node, struct tes_work, link));
	tei_mutex_fini(&works->mu);
}

static struct tes_work *take_idle(struct tes_works *works, size_t n)
	TEI_REQUIRES(works->mu)
{
	tei_list_for_each (node, &works->idle) {
		struct tes_work *work =
			tei_list_entry(node, struct tes_work, link);

		if (work->capacity < n)
			continue;
		tei_list_del(node);
		works->n_idle--;
		return work;
	}
	return NULL;
}

/* On error, free_work() releases what was taken until then. */
static int take_room(struct tes_work *work, struct te_engine *engine, size_t n)
{
	uint32_t capacity = CAPACITY_MIN;

	while (capacity < n)
		capacity *= 2;
	work->headers =
		tei_aligned_calloc(TES_EXTENT_HEADER_LEN,
				   (size_t)capacity * TES_EXTENT_HEADER_LEN);
	work->requests = tei_calloc(capacity, sizeof(*work->requests));
	if (!work->headers || !work->requests ||
	    te_batch_create(engine, capacity, &work->batch))
		return -ENOMEM;
	work->capacity = capacity;
	return 0;
}

static struct tes_work *create_work(const struct tes_works *works, size_t n)
{
	struct tes_work *work = tei_calloc(1, sizeof(*work));

	if (!work)
		return NULL;
	tei_list_init(&work->link);
	work->engine = works->engine;
	work->addresses = works->addresses;
	tei_arena_init(&work->call, ARENA_CAP);
	tei_arena_init(&work->round, ARENA_CAP);
	if (take_room(work, work->engine, n)) {
		free_work(work);
		return NULL;
	}
	return work;
}

struct tes_work *tes_work_get(struct tes_works *works, size_t n)
{
	struct tes_work *work;

	tei_mutex_lock(&works->mu);
	work = take_idle(works, n);
	tei_mutex_unlock(&works->mu);
	return work ? work : create_work(works, n);
}

void tes_work_put(struct tes_works *works, struct tes_work *work)
{
	struct tes_work *surplus = NULL;

	if (!work)
		return;
	tes_work_next_round(work);
	tei_arena_reset(&work->call);
	tei_mutex_lock(&works->mu);
	tei_list_add_head(&works->idle, &work->link);
	if (++works->n_idle > IDLE_MAX) {
		surplus =
			tei_list_entry(works->idle.prev, struct tes_work, link);
		tei_list_del(&surplus->link);
		works->n_idle--;
	}
	tei_mutex_unlock(&works->mu);
	if (surplus)
		free_work(surplus);
}

void tes_work_next_round(struct tes_work *work)
{
	tei_arena_reset(&work->round);
	work->n = 0;
}

int tes_work_next_run(struct tes_work *work, size_t n)
{
	struct tes_work bigger = {.engine = work->engine};

	work->n = 0;
	if (n <= work->capacity)
		return 0;
	if (take_room(&bigger, work->engine, n)) {
		give_room(&bigger);
		return -ENOMEM;
	}
	give_room(work);
	work->batch = bigger.batch;
	work->requests = bigger.requests;
	work->headers = bigger.headers;
	work->capacity = bigger.capacity;
	return 0;
}

/* Pieces of @value from @skip on, @bytes in all; returns how many. */
static uint32_t cut(struct iovec *out, const struct te_store_value *value,
		    uint64_t skip, uint64_t bytes)
{
	uint32_t i, n = 0;

	for (i = 0; i < value->n_pieces && bytes; i++) {
		const struct iovec *piece = &value->pieces[i];
		uint64_t len = piece->iov_len;

		if (skip >= len) {
			skip -= len;
			continue;
		}
		len -= skip;
		if (len > bytes)
			len = bytes;
		out[n].iov_base = (uint8_t *)piece->iov_base + skip;
		out[n++].iov_len = (size_t)len;
		bytes -= len;
		skip = 0;
	}
	assert(!bytes);
	return n;
}

struct te_request *tes_work_add(struct tes_work *work, uint32_t op,
				const struct te_store_value *value,
				uint64_t skip, uint64_t bytes)
{
	struct te_request *req = &work->requests[work->n];
	struct iovec *iov = tei_arena_alloc(
		&work->round, (value->n_pieces + 1) * sizeof(*iov));

	if (!iov)
		return NULL;
	iov[0].iov_base = work->headers[work->n];
	iov[0].iov_len = TES_EXTENT_HEADER_LEN;
	memset(req, 0, sizeof(*req));
	req->op = op;
	req->flags = TE_CRC;
	req->pieces = iov;
	req->n_pieces = 1 + cut(iov + 1, value, skip, bytes);
	req->crc_from = TES_EXTENT_HEADER_LEN;
	req->crc_len = bytes;
	req->user = work->n++;
	return req;
}

struct te_request *tes_work_add_plain(struct tes_work *work, uint32_t op,
				      void *local, uint64_t len)
{
	struct te_request *req = &work->requests[work->n];
	struct iovec *iov = tei_arena_alloc(&work->round, sizeof(*iov));

	if (!iov)
		return NULL;
	iov->iov_base = local;
	iov->iov_len = (size_t)len;
	memset(req, 0, sizeof(*req));
	req->op = op;
	req->pieces = iov;
	req->n_pieces = 1;
	req->user = work->n++;
	return req;
}

/* ---- time ---- */

static uint64_t all_bytes(const struct tes_work *work)
{
	uint64_t bytes = 0;
	uint32_t i, k;

	for (i = 0; i < work->n; i++)
		for (k = 0; k < work->requests[i].n_pieces; k++)
			bytes += work->requests[i].pieces[k].iov_len;
	return bytes;
}

uint64_t tes_work_extend_timeouts(struct tes_work *work)
{
	uint64_t more = all_bytes(work) / TES_RATE_MIN, ms;
	uint32_t i;

	for (i = 0; i < work->n && more; i++) {
		ms = work->requests[i].timeout_ms + more;
		work->requests[i].timeout_ms =
			ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
	}
	return more * TEI_NS_PER_MS;
}

/* ---- running ---- */

/* Tells whether some to @place have not ended; *@n_done: how many have. */
static bool in_flight(const struct tes_work *work,
		      const struct tes_place *place, uint32_t *n_done)
{
	struct te_completion done;
	bool any = false;
	uint32_t i;

	*n_done = 0;
	for (i = 0; i < work->n; i++) {
		if (work->requests[i].segment != place->owner->segment)
			continue;
		if (te_batch_result(work->batch, i, &done) == -EAGAIN)
			any = true;
		else
			++*n_done;
	}
	return any;
}

static void cancel_all(const struct tes_work *work,
		       const struct tes_place *place)
{
	struct te_completion done;
	uint32_t i;

	for (i = 0; i < work->n; i++)
		if (work->requests[i].segment == place->owner->segment &&
		    te_batch_result(work->batch, i, &done) == -EAGAIN)
			(void)te_request_cancel(work->batch, i);
}

/* @most_ms: of the pass, divided among the owners to be probed. */
static void probe(const struct tes_work *work, struct tes_owners *owners,
		  struct tes_place *place, uint32_t most_ms)
{
	uint32_t ms = (uint32_t)PROBE_MIN_MS << place->n_silent;

	if (ms > most_ms)
		ms = most_ms;
	if (!te_peer_probe(owners->engine, place->owner->name, ms, NULL)) {
		place->n_silent = 0;
		return;
	}
	tes_owners_report(owners, place->owner);
	if (++place->n_silent >= SILENT_MAX)
		cancel_all(work, place);
}

/* Marks the owners with requests under way of which none has ended since. */
static uint32_t find_silent(const struct tes_work *work,
			    struct tes_places *places)
{
	uint32_t n_done, n = 0;
	size_t i;

	for (i = 0; i < places->n; i++) {
		struct tes_place *place = &places->at[i];

		place->waits = place->owner && in_flight(work, place, &n_done);
		if (!place->waits)
			continue;
		place->waits = n_done == place->n_done;
		place->n_done = n_done;
		if (!place->waits)
			place->n_silent = 0;
		n += place->waits;
	}
	return n;
}

/*
 * A request to an owner that has died would be tried again until its deadline,
 * which is long where values are large, and keep its whole batch waiting. A
 * short read ends at its own deadline before probes could tell anything.
 */
static void look_for_silent(const struct tes_work *work,
			    struct tes_places *places)
{
	bool may_probe = tei_now_ns() >= places->probe_from_ns;
	uint32_t n = find_silent(work, places), most_ms = PROBE_MAX_MS;
	size_t i;

	if (n && most_ms / n >= PROBE_MIN_MS)
		most_ms /= n;
	else if (n)
		most_ms = PROBE_MIN_MS;
	for (i = 0; i < places->n; i++) {
		struct tes_place *place = &places->at[i];

		if (place->waits && may_probe)
			probe(work, places->owners, place, most_ms);
		else if (place->waits)
			tes_owners_report(places->owners, place->owner);
	}
}

static int submit(const struct tes_work *work, struct tes_places *places)
{
	size_t i;
	int rc = te_batch_reset(work->batch);

	for (i = 0; i < places->n; i++)
		places->at[i].n_done = 0;
	places->probe_from_ns =
		tei_now_ns() + places->report_only_ms * TEI_NS_PER_MS;
	return rc ? rc : te_batch_submit(work->batch, work->requests, work->n);
}

int tes_work_post(struct tes_work *work, struct tes_places *places)
{
	return work->n ? submit(work, places) : 0;
}

int tes_work_await(struct tes_work *work, struct tes_places *places)
{
	int rc = 0;

	if (!work->n)
		return 0;
	while ((rc = te_batch_wait(work->batch, PATIENCE_MS)) == -ETIMEDOUT)
		look_for_silent(work, places);
	return rc;
}

int tes_work_run(struct tes_work *work, struct tes_places *places)
{
	int rc = tes_work_post(work, places);

	return rc ? rc : tes_work_await(work, places);
}

int tes_work_run_until(struct tes_work *work, struct tes_places *places,
		       bool (*over)(void *arg), void *arg)
{
	int rc = work->n ? submit(work, places) : 0;
	uint32_t n = 0;
	size_t i;

	if (rc || !work->n)
		return rc;
	while ((rc = te_batch_wait(work->batch, OVER_MS)) == -ETIMEDOUT) {
		if (++n % (PATIENCE_MS / OVER_MS) == 0)
			look_for_silent(work, places);
		if (!over(arg))
			continue;
		for (i = 0; i < places->n; i++)
			if (places->at[i].owner)
				cancel_all(work, &places->at[i]);
	}
	return rc;
}

void tes_work_result(struct tes_work *work, uint32_t index,
		     struct te_completion *out)
{
	if (te_batch_result(work->batch, index, out)) {
		/* Still in flight, though all had ended: never. */
		memset(out, 0, sizeof(*out));
		out->error = -EIO;
	}
}

bool tes_work_is_local_fault(const struct tes_work *work, uint32_t index,
			     int error)
{
	const struct te_request *req = &work->requests[index];
	bool writable = req->op == TE_READ;

	if (error != -EFAULT)
		return false;
	for (uint32_t i = 0; i < req->n_pieces; i++) {
		const struct iovec *piece = &req->pieces[i];

		if (piece->iov_len &&
		    !tes_addresses_is_gpu(work->addresses, piece->iov_base) &&
		    !tei_is_usable((uintptr_t)piece->iov_base, piece->iov_len,
				   writable))
			return true;
	}
	return false;
}
