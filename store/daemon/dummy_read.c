/* SPDX-License-Identifier: Apache-2.0 */
/* dummy_read.c - reading into memory of the client's, and parts of values */
#include <string.h>

#include "base/mem.h"
#include "store/client/client.h"
#include "store/client/ranges.h"
#include "store/daemon/dummy_batch.h"

/* ---- into memory of the client's ---- */

#define TRIES 3 /* of a value that grows under our hands */

/* The keys that are still to be read, in columns of their own. */
struct reading {
	struct te_store_key *keys;
	struct te_store_value *values;
	struct iovec *pieces;
	int64_t *results;
	uint32_t *which; /* index into the call's keys */
	size_t n;
};

static bool reading_init(struct reading *r, size_t n)
{
	memset(r, 0, sizeof(*r));
	r->keys = tei_calloc(n + 1, sizeof(*r->keys));
	r->values = tei_calloc(n + 1, sizeof(*r->values));
	r->pieces = tei_calloc(n + 1, sizeof(*r->pieces));
	r->results = tei_calloc(n + 1, sizeof(*r->results));
	r->which = tei_calloc(n + 1, sizeof(*r->which));
	return r->keys && r->values && r->pieces && r->results && r->which;
}

static void reading_fini(struct reading *r)
{
	tei_free(r->keys);
	tei_free(r->values);
	tei_free(r->pieces);
	tei_free(r->results);
	tei_free(r->which);
}

/* A buffer for each key whose size is known; others leave the reading. */
static void make_room(struct te_store *store, struct reading *r,
		      struct te_store_buffer **out, int64_t *results)
{
	size_t n = r->n, i;

	r->n = 0;
	for (i = 0; i < n; i++) {
		uint32_t k = r->which[i];
		struct te_store_buffer *buffer = NULL;

		results[k] = r->results[i];
		if (results[k] < 0)
			continue;
		if (results[k] > 0)
			buffer = tes_buffer_create(&store->dummy->user,
						   (uint64_t)results[k]);
		results[k] = TE_STORE_INTERNAL_ERROR;
		if (!buffer)
			continue;
		out[k] = buffer;
		r->pieces[r->n].iov_base = buffer->data;
		r->pieces[r->n].iov_len = buffer->length;
		r->values[r->n].pieces = &r->pieces[r->n];
		r->values[r->n].n_pieces = 1;
		r->keys[r->n] = r->keys[i];
		r->which[r->n++] = k;
	}
}

/* What has been read leaves the reading; what has grown stays. */
static void take_results(struct reading *r, struct te_store_buffer **out,
			 int64_t *results)
{
	size_t n = r->n, i;

	r->n = 0;
	for (i = 0; i < n; i++) {
		uint32_t k = r->which[i];

		results[k] = r->results[i];
		if (results[k] >= 0) {
			out[k]->length = (uint64_t)results[k];
			continue;
		}
		tes_buffer_destroy(out[k]);
		out[k] = NULL;
		if (results[k] != TE_STORE_INVALID_PARAMS)
			continue;
		r->keys[r->n] = r->keys[i];
		r->which[r->n++] = k;
	}
}

static void read_all(struct te_store *store, struct reading *r,
		     struct te_store_buffer **out, int64_t *results)
{
	for (int i = 0; i < TRIES && r->n; i++) {
		(void)tes_dummy_size(store, r->keys, r->n, r->results);
		make_room(store, r, out, results);
		(void)tes_dummy_get(store, r->keys, r->values, r->n,
				    r->results);
		take_results(r, out, results);
	}
}

void tes_dummy_read_own(struct te_store *store, const struct te_store_key *keys,
			size_t n, struct te_store_buffer **out,
			int64_t *results)
{
	struct reading r;
	size_t i;

	for (i = 0; i < n; i++)
		results[i] = TE_STORE_INTERNAL_ERROR;
	if (reading_init(&r, n)) {
		for (i = 0; i < n; i++) {
			r.keys[i] = keys[i];
			r.which[i] = (uint32_t)i;
		}
		r.n = n;
		read_all(store, &r, out, results);
	}
	reading_fini(&r);
}

/* ---- parts of values ---- */

struct ranges {
	struct tes_dummy *dummy;
	const struct te_store_key *keys;
	const struct te_store_range *all;
	struct tes_sorted sorted;
	struct iovec *pieces; /* pieces[i] of range i */
	int64_t *by_key;
	int64_t *results;
};

/* Ranges of keys[k], as indices into all. */
static const uint32_t *of_key(const struct ranges *r, size_t k, size_t *n)
{
	*n = r->sorted.starts[k + 1] - r->sorted.starts[k];
	return r->sorted.order + r->sorted.starts[k];
}

/* Items of the batch's keys; *order: which range each is. */
static int add_ranges(struct tes_dummy_batch *b, const struct ranges *r,
		      size_t from, size_t room, uint32_t *order)
{
	size_t n_keys = b->n, n;

	b->msg.range_key = tei_arena_alloc(b->arena, (room + 1) * 4);
	b->msg.range_offset = tei_arena_alloc(b->arena, (room + 1) * 8);
	if (tes_batch_add_items(b, room, room) || !b->msg.range_key ||
	    !b->msg.range_offset)
		return TE_STORE_INTERNAL_ERROR;
	b->n = 0;
	for (size_t i = 0; i < n_keys; i++) {
		const uint32_t *of = of_key(r, from + b->which[i], &n);

		for (size_t k = 0; k < n; k++) {
			const struct te_store_range *range = &r->all[of[k]];

			order[b->n] = of[k];
			b->msg.range_key[b->n] = (uint32_t)i;
			b->msg.range_offset[b->n++] = range->offset;
			tes_batch_add_item(b, &r->pieces[of[k]], 1,
					   range->length);
		}
	}
	b->msg.n_range_key = b->msg.n_range_offset = b->n;
	return 0;
}

static int64_t settle_range(struct tes_dummy_batch *b, const struct ranges *r,
			    size_t i, uint32_t range)
{
	int64_t answer = b->answers[i];

	if (answer < 0)
		return answer;
	if ((uint64_t)answer > r->all[range].length)
		return TE_STORE_INTERNAL_ERROR;
	if (tes_loan_is_lost(&b->loan, i))
		return TE_STORE_TRANSFER_FAIL;
	tes_loan_copy_back(&b->loan, i, (uint64_t)answer);
	return answer;
}

/* Keys [from, from + n), which have @room ranges. */
static void read_ranges(struct ranges *r, size_t from, size_t n, size_t room)
{
	struct tei_arena arena;
	struct tes_dummy_batch b = {
		.dummy = r->dummy,
		.type = AGENT__AGENT_TYPE__AGENT_RANGES,
		.arena = &arena,
		.loan = {.dummy = r->dummy},
	};
	uint32_t *order;
	int code;

	tei_arena_init(&arena, TES_BATCH_ARENA_MAX);
	order = tei_arena_alloc(&arena, (room + 1) * sizeof(*order));
	code = order ? tes_batch_add_keys(&b, r->keys + from, n, NULL,
					  r->by_key + from)
		     : TE_STORE_INTERNAL_ERROR;
	if (!code)
		code = add_ranges(&b, r, from, room, order);
	if (code)
		for (size_t i = 0; i < n; i++)
			r->by_key[from + i] = code;
	else if (b.n)
		code = tes_batch_ask(&b);
	/* Ranges of keys that were not sent have their key's result. */
	for (size_t k = from; k < from + n; k++) {
		size_t n_of;
		const uint32_t *of = of_key(r, k, &n_of);

		for (size_t i = 0; i < n_of; i++)
			r->results[of[i]] = r->by_key[k];
	}
	for (size_t i = 0; b.loan.items && i < b.n; i++)
		r->results[order[i]] =
			code ? code : settle_range(&b, r, i, order[i]);
	tes_loan_end(&b.loan);
	tei_arena_fini(&arena);
}

/* How many keys from @from on make a batch; *room: the ranges they have. */
static size_t cut(const struct ranges *r, size_t from, size_t n, size_t *room)
{
	size_t len = tes_chunk(r->keys, from, n), i, n_of;
	uint64_t copied = 0;

	*room = 0;
	for (i = 0; i < len; i++) {
		const uint32_t *of = of_key(r, from + i, &n_of);

		for (size_t k = 0; k < n_of; k++)
			if (!tes_loan_is_shared(r->dummy, &r->pieces[of[k]], 1))
				copied += r->all[of[k]].length;
		if (i && copied > TES_BATCH_COPY_BYTES)
			break;
		*room += n_of;
	}
	return i;
}

static int read_sorted(struct ranges *r, size_t n_keys, size_t n_ranges)
{
	size_t from, len, room, i;
	int n_read = 0;

	for (i = 0; i < n_ranges; i++) {
		r->pieces[i].iov_base = r->all[i].addr;
		r->pieces[i].iov_len = r->all[i].length;
	}
	for (from = 0; from < n_keys; from += len) {
		len = cut(r, from, n_keys, &room);
		read_ranges(r, from, len, room);
	}
	for (i = 0; i < n_ranges; i++)
		n_read += r->results[i] > 0;
	return n_read;
}

int tes_dummy_get_ranges(struct te_store *store,
			 const struct te_store_key *keys, size_t n_keys,
			 const struct te_store_range *ranges, size_t n_ranges,
			 int64_t *results)
{
	struct ranges r = {
		.dummy = store->dummy,
		.keys = keys,
		.all = ranges,
		.results = results,
	};
	int code = TE_STORE_INTERNAL_ERROR;

	if (!tes_keys_given(store, keys, n_keys, keys) ||
	    (n_ranges && (!ranges || !results)) ||
	    n_ranges > TE_STORE_RANGES_MAX)
		return TE_STORE_INVALID_PARAMS;
	r.by_key = tei_calloc(n_keys + 1, sizeof(*r.by_key));
	r.pieces = tei_calloc(n_ranges + 1, sizeof(*r.pieces));
	if (r.by_key && r.pieces &&
	    !tes_ranges_sort(ranges, n_ranges, n_keys, results, &r.sorted)) {
		code = read_sorted(&r, n_keys, n_ranges);
		tes_ranges_free(&r.sorted);
	}
	tei_free(r.by_key);
	tei_free(r.pieces);
	return code;
}
