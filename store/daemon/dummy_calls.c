/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dummy_calls.c - calls with many keys, cut into batches for the daemon
 *
 * A batch is bounded in keys, in pieces, and in bytes that have to be copied.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/client/client.h"
#include "store/client/ranges.h"
#include "store/client/work.h"
#include "store/daemon/dummy_batch.h"
#include "store/daemon/dummy_shelf.h"
#include "store/proto/keys.h"

/*
 * Time of a put besides its calls to the master: space, connecting, transfer.
 */
#define PUT_MS 37000
/* Time in which a client finds out that owners are silent. */
#define PROBES_MS 3000

static uint64_t bytes_of(const struct tes_dummy_batch *b)
{
	uint64_t bytes = 0;
	size_t i;

	for (i = 0; i < b->loan.n; i++)
		bytes += b->loan.items[i].bytes;
	return bytes;
}

/* Returns how long a daemon may read @bytes, and probe owners. */
static uint64_t read_ms(const struct tes_dummy *dummy, uint64_t bytes)
{
	return dummy->replica_ms + bytes / TES_RATE_MIN + PROBES_MS;
}

/* Returns how long the daemon may take for it, once begun. */
static uint64_t service_ms(const struct tes_dummy_batch *b)
{
	uint64_t ms = b->dummy->call_ms + TES_DUMMY_SLACK_MS;

	switch (b->type) {
	case AGENT__AGENT_TYPE__AGENT_PUT:
	case AGENT__AGENT_TYPE__AGENT_UPSERT:
		return ms + b->dummy->call_ms + PUT_MS + (bytes_of(b) >> 20);
	case AGENT__AGENT_TYPE__AGENT_GET:
	case AGENT__AGENT_TYPE__AGENT_RANGES:
		return ms + read_ms(b->dummy, bytes_of(b));
	default:
		return ms;
	}
}

static int take_answer(struct tes_dummy_batch *b, const uint8_t *body,
		       size_t len)
{
	Agent__Results *results =
		agent__results__unpack(&b->arena->pb, len, body);

	if (!results)
		return tes_bad_reply("daemon");
	if (results->code)
		return results->code < 0 ? results->code
					 : tes_bad_reply("daemon");
	if (results->n_result != b->n)
		return tes_bad_reply("daemon");
	b->answers = results->result;
	return 0;
}

static int exchange_batch(struct tes_dummy_batch *b,
			  struct tes_dummy_conn *conn)
{
	uint64_t ms = b->dummy->call_ms + service_ms(b);
	const uint8_t *body;
	size_t len;
	int code;

	b->msg.region = conn->region;
	b->msg.wait_ms = (uint32_t)b->dummy->call_ms;
	code = tes_dummy_exchange(conn, b->type, &b->msg.base, b->arena,
				  tei_now_ns() + ms * TEI_NS_PER_MS, &body,
				  &len);
	if (code == TE_STORE_RPC_TIMEOUT) {
		tes_loan_give_up(&b->loan);
		tes_dummy_release(b->dummy, conn, code, b->loan.room);
		b->loan.room = NULL;
		return code;
	}
	tes_dummy_release(b->dummy, conn, code, NULL);
	return code ? code : take_answer(b, body, len);
}

static uint64_t patience(const struct tes_dummy *dummy)
{
	return tei_now_ns() + dummy->call_ms * TEI_NS_PER_MS;
}

/*
 * Lend the items, ask, await the answers. 0 or the code of all; the loan is
 * the caller's to end in any case.
 */
static int batch_ask(struct tes_dummy_batch *b)
{
	bool put = b->type == AGENT__AGENT_TYPE__AGENT_PUT ||
		   b->type == AGENT__AGENT_TYPE__AGENT_UPSERT;
	struct tes_dummy_conn *conn;
	int code = tes_loan_make(&b->loan, put, patience(b->dummy));
	size_t at = 0;

	for (size_t i = 0; !code && i < b->loan.n; i++) {
		const struct tes_loan_item *item = &b->loan.items[i];

		if (item->copied) {
			b->msg.offset[at] = item->offset;
			b->msg.length[at++] = item->bytes;
		}
		for (uint32_t k = 0; !item->copied && k < item->n_pieces; k++) {
			b->msg.offset[at] =
				(uint64_t)((uint8_t *)item->pieces[k].iov_base -
					   b->dummy->memory);
			b->msg.length[at++] = item->pieces[k].iov_len;
		}
		if (b->msg.n_pieces)
			b->msg.n_pieces[i] = item->copied ? 1 : item->n_pieces;
	}
	b->msg.n_offset = b->msg.n_length = at;
	if (!code)
		code = tes_dummy_connect(b->dummy, patience(b->dummy), &conn);
	return code ? code : exchange_batch(b, conn);
}

/* ---- columns ---- */

int tes_dummy_batch_add_keys(struct tes_dummy_batch *b,
			     const struct te_store_key *keys, size_t n,
			     const struct te_store_value *values,
			     int64_t *results)
{
	const struct tes_named named = {
		.values = values,
		.n = values ? n : 0,
		.writable = b->type == AGENT__AGENT_TYPE__AGENT_GET,
	};
	struct tes_key_column column;
	bool *bad;

	agent__batch__init(&b->msg);
	bad = tei_arena_calloc(b->arena, n + 1, sizeof(*bad));
	b->which = tei_arena_alloc(b->arena, (n + 1) * sizeof(*b->which));
	if (!bad || !b->which ||
	    tes_key_column_init(&column, b->arena, n + 1,
				tes_keys_bytes(keys, n) + 1)) {
		b->which = NULL; /* no key has a result */
		return TE_STORE_INTERNAL_ERROR;
	}
	tes_addresses_check(b->dummy->addresses, &named, bad);
	for (size_t i = 0; i < n; i++) {
		results[i] = TE_STORE_INVALID_PARAMS;
		if (!tes_key_holds(&keys[i]) || bad[i] ||
		    (values && !tes_value_bytes(&values[i])))
			continue;
		b->which[b->n++] = (uint32_t)i;
		tes_key_column_add(&column, keys[i].bytes, keys[i].len);
	}
	b->msg.keys = column.bytes;
	b->msg.key_lens = column.lens;
	b->msg.n_key_lens = column.n;
	return 0;
}

/* Room for @n items of @n_pieces in all. 0, -1. */
static int batch_add_items(struct tes_dummy_batch *b, size_t n, size_t n_pieces)
{
	b->loan.dummy = b->dummy;
	b->loan.items =
		tei_arena_calloc(b->arena, n + 1, sizeof(b->loan.items[0]));
	b->msg.offset =
		tei_arena_alloc(b->arena, (n_pieces + 1) * sizeof(uint64_t));
	b->msg.length =
		tei_arena_alloc(b->arena, (n_pieces + 1) * sizeof(uint64_t));
	return b->loan.items && b->msg.offset && b->msg.length
		       ? 0
		       : TE_STORE_INTERNAL_ERROR;
}

static void batch_add_item(struct tes_dummy_batch *b,
			   const struct iovec *pieces, uint32_t n,
			   uint64_t bytes)
{
	struct tes_loan_item *item = &b->loan.items[b->loan.n++];

	item->pieces = pieces;
	item->n_pieces = n;
	item->bytes = bytes;
	item->copied = !tes_loan_is_shared(b->dummy, pieces, n);
}

static int add_values(struct tes_dummy_batch *b,
		      const struct te_store_value *values)
{
	size_t n_pieces = 0, i;

	for (i = 0; i < b->n; i++)
		n_pieces += values[b->which[i]].n_pieces;
	b->msg.n_pieces =
		tei_arena_alloc(b->arena, (b->n + 1) * sizeof(uint32_t));
	if (batch_add_items(b, b->n, n_pieces) || !b->msg.n_pieces)
		return TE_STORE_INTERNAL_ERROR;
	b->msg.n_n_pieces = b->n;
	for (i = 0; i < b->n; i++) {
		const struct te_store_value *v = &values[b->which[i]];

		batch_add_item(b, v->pieces, v->n_pieces, tes_value_bytes(v));
	}
	return 0;
}

static char *text(const char *from)
{
	/* The message is only read from. */
	return (char *)(uintptr_t)(from ? from : "");
}

static int add_keeping(struct tes_dummy_batch *b,
		       const struct te_store_replicate *how, size_t from)
{
	Agent__Keeping *k = tei_arena_alloc(b->arena, sizeof(*k));
	size_t i;

	if (!k)
		return TE_STORE_INTERNAL_ERROR;
	agent__keeping__init(k);
	k->replica_num = how->replica_num;
	k->soft_pin_action = how->soft_pin_action;
	k->data_type = how->data_type;
	k->flags = how->flags;
	k->soft_pin_ttl_ms = how->soft_pin_ttl_ms;
	k->n_preferred = how->n_preferred_segments;
	k->preferred = tei_arena_alloc(b->arena,
				       (k->n_preferred + 1) * sizeof(char *));
	k->groups = tei_arena_alloc(b->arena, (b->n + 1) * sizeof(char *));
	if (!k->preferred || !k->groups)
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < k->n_preferred; i++)
		k->preferred[i] = text(how->preferred_segments[i]);
	for (i = 0; how->n_group_ids && i < b->n; i++)
		k->groups[k->n_groups++] =
			text(how->group_ids[from + b->which[i]]);
	b->msg.keeping = k;
	return 0;
}

/* ---- one batch ---- */

struct call {
	struct tes_dummy *dummy;
	uint16_t type;
	int force;
	const struct te_store_key *keys;
	const struct te_store_value *values; /* put and get, else NULL */
	const struct te_store_replicate *how;
	int64_t *results;
};

static int call_range(struct tes_dummy_batch *b, const struct call *call,
		      size_t from, size_t n)
{
	const struct te_store_value *values =
		call->values ? call->values + from : NULL;
	int code = tes_dummy_batch_add_keys(b, call->keys + from, n, values,
					    call->results + from);

	b->msg.force = call->force;
	if (!code && values)
		code = add_values(b, values);
	if (!code && call->how)
		code = add_keeping(b, call->how, from);
	if (code || !b->n)
		return code;
	return batch_ask(b);
}

/*
 * The answers of a read are there. Returns gone[loan.n]: items that cannot be
 * copied back, since their memory was unmapped meanwhile; NULL: no memory.
 */
static bool *find_gone(const struct tes_dummy_batch *b)
{
	size_t n = b->loan.n;
	struct te_store_value *values =
		tei_arena_calloc(b->arena, n + 1, sizeof(*values));
	const struct tes_named named = {
		.values = values, .n = n, .writable = true};
	bool *gone = tei_arena_calloc(b->arena, n + 1, sizeof(*gone));

	if (!values || !gone)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		const struct tes_loan_item *item = &b->loan.items[i];

		values[i].pieces = item->pieces;
		values[i].n_pieces = item->copied ? item->n_pieces : 0;
	}
	tes_addresses_check(b->dummy->addresses, &named, gone);
	return gone;
}

static int64_t settle_read(const struct tes_dummy_batch *b, const bool *gone,
			   size_t i)
{
	int64_t answer = b->answers[i];

	if (answer < 0)
		return answer;
	if ((uint64_t)answer > b->loan.items[i].bytes)
		return tes_bad_reply("daemon");
	if (!gone)
		return TE_STORE_INTERNAL_ERROR;
	if (gone[i])
		return TE_STORE_INVALID_PARAMS;
	if (tes_loan_is_lost(&b->loan, i))
		return TE_STORE_TRANSFER_FAIL;
	tes_loan_copy_back(&b->loan, i, (uint64_t)answer);
	return answer;
}

static void settle_results(const struct tes_dummy_batch *b, int64_t *results)
{
	bool reads = b->type == AGENT__AGENT_TYPE__AGENT_GET;
	const bool *gone = reads ? find_gone(b) : NULL;

	for (size_t i = 0; i < b->n; i++)
		results[b->which[i]] =
			reads ? settle_read(b, gone, i) : b->answers[i];
}

static void run_batch(const struct call *call, size_t from, size_t n)
{
	struct tei_arena arena;
	struct tes_dummy_batch b = {
		.dummy = call->dummy,
		.type = call->type,
		.arena = &arena,
		.loan = {.dummy = call->dummy},
	};
	int64_t *results = call->results + from;
	int code;
	size_t i;

	tei_arena_init(&arena, TES_BATCH_ARENA_MAX);
	code = call_range(&b, call, from, n);
	if (!b.which)
		for (i = 0; i < n; i++)
			results[i] = code;
	for (i = 0; code && b.which && i < b.n; i++)
		results[b.which[i]] = code;
	if (!code && b.n)
		settle_results(&b, results);
	tes_loan_end(&b.loan);
	tei_arena_fini(&arena);
}

/* Returns how many keys from @from on make a batch. */
static size_t cut_batch(const struct call *call, size_t from, size_t n)
{
	size_t len = tes_chunk(call->keys, from, n), pieces = 0, i;
	uint64_t copied = 0;

	for (i = 0; call->values && i < len; i++) {
		const struct te_store_value *v = &call->values[from + i];
		uint64_t bytes = tes_value_bytes(v);

		if (!bytes)
			continue;
		pieces += v->n_pieces;
		if (!tes_loan_is_shared(call->dummy, v->pieces, v->n_pieces))
			copied += bytes;
		if (i && (pieces > TES_AGENT_PIECES_MAX ||
			  copied > TES_BATCH_COPY_BYTES))
			return i;
	}
	return len;
}

static void run_call(const struct call *call, size_t n)
{
	size_t from, len;

	for (from = 0; from < n; from += len) {
		len = cut_batch(call, from, n);
		run_batch(call, from, len);
	}
}

/* Runs @call, for functions whose results are ints. */
static int run_ints(struct call *call, size_t n, int *results)
{
	int64_t *wide = tei_calloc(n + 1, sizeof(*wide));
	int first = 0;
	size_t i;

	call->results = wide;
	if (wide)
		run_call(call, n);
	for (i = 0; i < n; i++) {
		results[i] = wide ? (int)wide[i] : TE_STORE_INTERNAL_ERROR;
		if (!first && results[i] < 0)
			first = results[i];
	}
	tei_free(wide);
	return first;
}

/* ---- the functions ---- */

static int put_values(struct te_store *store, uint16_t type,
		      const struct te_store_key *keys,
		      const struct te_store_value *values, size_t n,
		      const struct te_store_replicate *how, int *results)
{
	struct call call = {
		.dummy = store->dummy,
		.type = type,
		.keys = keys,
		.values = values,
		.how = how,
	};

	if (!tes_keys_given(store, keys, n, results) || (n && !values) ||
	    !tes_replicate_holds(how, n))
		return TE_STORE_INVALID_PARAMS;
	return run_ints(&call, n, results);
}

int tes_dummy_put(struct te_store *store, const struct te_store_key *keys,
		  const struct te_store_value *values, size_t n,
		  const struct te_store_replicate *how, int *results)
{
	return put_values(store, AGENT__AGENT_TYPE__AGENT_PUT, keys, values, n,
			  how, results);
}

int tes_dummy_upsert(struct te_store *store, const struct te_store_key *keys,
		     const struct te_store_value *values, size_t n,
		     const struct te_store_replicate *how, int *results)
{
	return put_values(store, AGENT__AGENT_TYPE__AGENT_UPSERT, keys, values,
			  n, how, results);
}

int tes_dummy_get(struct te_store *store, const struct te_store_key *keys,
		  const struct te_store_value *values, size_t n,
		  int64_t *results)
{
	struct call call = {
		.dummy = store->dummy,
		.type = AGENT__AGENT_TYPE__AGENT_GET,
		.keys = keys,
		.values = values,
		.results = results,
	};
	int n_found = 0;
	size_t i;

	if (!tes_keys_given(store, keys, n, results) || (n && !values))
		return TE_STORE_INVALID_PARAMS;
	run_call(&call, n);
	for (i = 0; i < n; i++)
		n_found += results[i] >= 0;
	return n_found;
}

int tes_dummy_exist(struct te_store *store, const struct te_store_key *keys,
		    size_t n, int *results)
{
	struct call call = {
		.dummy = store->dummy,
		.type = AGENT__AGENT_TYPE__AGENT_EXIST,
		.keys = keys,
	};

	if (!tes_keys_given(store, keys, n, results))
		return TE_STORE_INVALID_PARAMS;
	return run_ints(&call, n, results);
}

int tes_dummy_size(struct te_store *store, const struct te_store_key *keys,
		   size_t n, int64_t *results)
{
	struct call call = {
		.dummy = store->dummy,
		.type = AGENT__AGENT_TYPE__AGENT_SIZE,
		.keys = keys,
		.results = results,
	};
	size_t i;

	if (!tes_keys_given(store, keys, n, results))
		return TE_STORE_INVALID_PARAMS;
	run_call(&call, n);
	for (i = 0; i < n; i++)
		if (results[i] < 0)
			return (int)results[i];
	return 0;
}

int tes_dummy_remove(struct te_store *store, const struct te_store_key *keys,
		     size_t n, int force, int *results)
{
	struct call call = {
		.dummy = store->dummy,
		.type = AGENT__AGENT_TYPE__AGENT_REMOVE,
		.force = force,
		.keys = keys,
	};

	if (!tes_keys_given(store, keys, n, results))
		return TE_STORE_INVALID_PARAMS;
	return run_ints(&call, n, results);
}

/* ---- reads into the client's memory, and parts of values ---- */

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

/* Takes values that were read out of the list; those that have grown stay. */
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

static void dummy_read_own(struct te_store *store,
			   const struct te_store_key *keys, size_t n,
			   struct te_store_buffer **out, int64_t *results)
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
	if (batch_add_items(b, room, room) || !b->msg.range_key ||
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
			batch_add_item(b, &r->pieces[of[k]], 1, range->length);
		}
	}
	b->msg.n_range_key = b->msg.n_range_offset = b->n;
	return 0;
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
	const bool *gone = NULL;
	uint32_t *order;
	int code;

	tei_arena_init(&arena, TES_BATCH_ARENA_MAX);
	order = tei_arena_alloc(&arena, (room + 1) * sizeof(*order));
	code = order ? tes_dummy_batch_add_keys(&b, r->keys + from, n, NULL,
						r->by_key + from)
		     : TE_STORE_INTERNAL_ERROR;
	if (!code)
		code = add_ranges(&b, r, from, room, order);
	if (code)
		for (size_t i = 0; i < n; i++)
			r->by_key[from + i] = code;
	else if (b.n)
		code = batch_ask(&b);
	/* Ranges of keys that were not sent have their key's result. */
	for (size_t k = from; k < from + n; k++) {
		size_t n_of;
		const uint32_t *of = of_key(r, k, &n_of);

		for (size_t i = 0; i < n_of; i++)
			r->results[of[i]] = r->by_key[k];
	}
	if (!code && b.n)
		gone = find_gone(&b);
	for (size_t i = 0; b.loan.items && i < b.n; i++)
		r->results[order[i]] = code ? code : settle_read(&b, gone, i);
	tes_loan_end(&b.loan);
	tei_arena_fini(&arena);
}

/*
 * Returns how many keys from @from on make a batch; *room: the ranges they
 * have.
 */
static size_t cut_ranges(const struct ranges *r, size_t from, size_t n,
			 size_t *room)
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
		len = cut_ranges(r, from, n_keys, &room);
		read_ranges(r, from, len, room);
	}
	for (i = 0; i < n_ranges; i++)
		n_read += r->results[i] >= 0;
	return n_read;
}

int tes_dummy_get_ranges(struct te_store *store,
			 const struct te_store_key *keys, size_t n_keys,
			 const struct te_store_range *ranges, size_t n_ranges,
			 int64_t *results)
{
	const struct tes_ranges_given given = {ranges, n_ranges, n_keys, true};
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
	    !tes_ranges_sort(&store->addresses, &given, results, &r.sorted)) {
		code = read_sorted(&r, n_keys, n_ranges);
		tes_ranges_free(&r.sorted);
	}
	tei_free(r.by_key);
	tei_free(r.pieces);
	return code;
}

/* ---- values in memory that the pool provides ---- */

/*
 * The daemon reads them into its own, where we only look. For those that it has
 * no room for, and where it lends none, they are read into ours.
 */

struct borrowing {
	struct tes_dummy_batch batch;
	struct tes_dummy_conn *conn;
	struct tes_shelf *shelf;
	struct tei_list reported; /* freed ones that the message names */
	struct te_store_buffer **out;
	int64_t *results;
};

static void take_value(struct borrowing *b, const Agent__BuffersReply *reply,
		       size_t i)
{
	uint32_t k = b->batch.which[i];
	int64_t result = reply->result[i];

	b->results[k] = result;
	if (result <= 0)
		return;
	b->out[k] = tes_shelf_buffer(b->shelf, reply->offset[i],
				     (uint64_t)result, reply->id[i]);
	if (!b->out[k])
		b->results[k] = TE_STORE_INTERNAL_ERROR;
}

static int take_values(struct borrowing *b, const uint8_t *body, size_t len)
{
	size_t n = b->batch.n;
	Agent__BuffersReply *reply =
		agent__buffers_reply__unpack(&b->batch.arena->pb, len, body);

	if (!reply || reply->code > 0)
		return tes_bad_reply("daemon");
	if (reply->code)
		return reply->code;
	if (reply->n_result != n || reply->n_offset != n || reply->n_id != n)
		return tes_bad_reply("daemon");
	for (size_t i = 0; i < n; i++)
		take_value(b, reply, i);
	return 0;
}

static int exchange_buffers(struct borrowing *b)
{
	struct tes_dummy *dummy = b->batch.dummy;
	/* Sizes are not known yet; all of it has to fit into the shelf. */
	uint64_t ms = 3 * dummy->call_ms + TES_DUMMY_SLACK_MS +
		      read_ms(dummy, b->shelf->length);
	struct tes_shelf *late = NULL;
	const uint8_t *body;
	size_t len;
	int code;

	b->batch.msg.wait_ms = (uint32_t)dummy->call_ms;
	code = tes_dummy_exchange(
		b->conn, AGENT__AGENT_TYPE__AGENT_BUFFERS, &b->batch.msg.base,
		b->batch.arena, tei_now_ns() + ms * TEI_NS_PER_MS, &body, &len);
	if (code == TE_STORE_RPC_TIMEOUT) {
		late = b->shelf; /* with its reference */
		b->shelf = NULL;
	}
	tes_shelf_reported(late ? late : b->shelf, &b->reported, !code);
	b->conn->shelf = late;
	tes_dummy_release(dummy, b->conn, code, NULL);
	return code ? code : take_values(b, body, len);
}

static int ask_buffers(struct borrowing *b)
{
	uint64_t *ids = tei_arena_alloc(b->batch.arena,
					TES_AGENT_KEYS_MAX * sizeof(*ids));

	if (!ids) {
		tes_dummy_release(b->batch.dummy, b->conn, 0, NULL);
		return TE_STORE_INTERNAL_ERROR;
	}
	b->batch.msg.freed = ids;
	b->batch.msg.n_freed = tes_shelf_take_freed(b->shelf, &b->reported, ids,
						    TES_AGENT_KEYS_MAX);
	return exchange_buffers(b);
}

/* False: the daemon lends no memory; then results are as before. */
static bool borrow(struct tes_dummy *dummy, const struct te_store_key *keys,
		   size_t n, struct te_store_buffer **out, int64_t *results)
{
	uint64_t deadline = tei_now_ns() + dummy->call_ms * TEI_NS_PER_MS;
	struct tei_arena arena;
	struct borrowing b = {
		.batch = {.dummy = dummy, .arena = &arena},
		.out = out,
		.results = results,
	};
	bool lends = true;
	int code;

	tei_arena_init(&arena, TES_BATCH_ARENA_MAX);
	tei_list_init(&b.reported);
	code = tes_dummy_batch_add_keys(&b.batch, keys, n, NULL, results);
	if (!code && b.batch.n)
		code = tes_dummy_connect(dummy, deadline, &b.conn);
	if (!code && b.batch.n) {
		b.shelf = tes_shelf_get(dummy, b.conn, deadline);
		lends = b.shelf != NULL;
		if (lends)
			code = ask_buffers(&b);
		else
			tes_dummy_release(dummy, b.conn, 0, NULL);
	}
	if (!b.batch.which)
		for (size_t i = 0; i < n; i++)
			results[i] = code;
	for (size_t i = 0; code && b.batch.which && i < b.batch.n; i++)
		results[b.batch.which[i]] = code;
	tes_shelf_put(b.shelf);
	tei_arena_fini(&arena);
	return lends;
}

/* Reads the keys whose values did not fit into the daemon's buffers. */
static void read_rest(struct te_store *store, const struct te_store_key *keys,
		      size_t n, bool all, struct te_store_buffer **out,
		      int64_t *results)
{
	size_t i, len;

	for (i = 0; i < n; i += len) {
		bool wanted = all || results[i] == TE_STORE_BUFFER_OVERFLOW;

		for (len = 1; i + len < n; len++)
			if (wanted != (all || results[i + len] ==
						      TE_STORE_BUFFER_OVERFLOW))
				break;
		if (wanted)
			dummy_read_own(store, keys + i, len, out + i,
				       results + i);
	}
}

int tes_dummy_get_buffers(struct te_store *store,
			  const struct te_store_key *keys, size_t n,
			  struct te_store_buffer **out, int64_t *results)
{
	size_t from, len, i;
	int n_found = 0;
	bool lends = true;

	if (!tes_keys_given(store, keys, n, results) || (n && !out))
		return TE_STORE_INVALID_PARAMS;
	for (i = 0; i < n; i++) {
		out[i] = NULL;
		results[i] = TE_STORE_INTERNAL_ERROR;
	}
	for (from = 0; from < n; from += len) {
		len = lends ? tes_chunk(keys, from, n) : n - from;
		if (lends)
			lends = borrow(store->dummy, keys + from, len,
				       out + from, results + from);
		read_rest(store, keys + from, len, !lends, out + from,
			  results + from);
	}
	for (i = 0; i < n; i++)
		n_found += results[i] >= 0;
	return n_found;
}
