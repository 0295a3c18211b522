/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dummy_batch.c - calls with many keys, cut into batches for the daemon
 *
 * A batch is bounded in keys, in pieces, and in bytes that have to be copied.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/client/client.h"
#include "store/daemon/dummy_batch.h"
#include "store/proto/keys.h"

#define SLACK_MS 500
/* What a put may take besides its calls: space, contact, transfer. */
#define PUT_MS 37000

/* How long the daemon may take for it, once begun. */
static uint64_t service_ms(const struct tes_dummy_batch *b)
{
	uint64_t ms = b->dummy->call_ms + SLACK_MS, bytes = 0;
	size_t i;

	switch (b->type) {
	case AGENT__AGENT_TYPE__AGENT_PUT:
	case AGENT__AGENT_TYPE__AGENT_UPSERT:
		for (i = 0; i < b->loan.n; i++)
			bytes += b->loan.items[i].bytes;
		return ms + b->dummy->call_ms + PUT_MS + (bytes >> 20);
	case AGENT__AGENT_TYPE__AGENT_GET:
	case AGENT__AGENT_TYPE__AGENT_RANGES:
		return ms + b->dummy->replica_ms;
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

static int exchange(struct tes_dummy_batch *b, struct tes_dummy_conn *conn)
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

int tes_batch_ask(struct tes_dummy_batch *b)
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
	return code ? code : exchange(b, conn);
}

/* ---- columns ---- */

int tes_batch_add_keys(struct tes_dummy_batch *b,
		       const struct te_store_key *keys, size_t n,
		       const struct te_store_value *values, int64_t *results)
{
	struct tes_key_column column;

	agent__batch__init(&b->msg);
	b->which = tei_arena_alloc(b->arena, (n + 1) * sizeof(*b->which));
	if (!b->which || tes_key_column_init(&column, b->arena, n + 1,
					     tes_keys_bytes(keys, n) + 1))
		return TE_STORE_INTERNAL_ERROR;
	for (size_t i = 0; i < n; i++) {
		results[i] = TE_STORE_INVALID_PARAMS;
		if (!tes_key_holds(&keys[i]) ||
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

int tes_batch_add_items(struct tes_dummy_batch *b, size_t n, size_t n_pieces)
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

void tes_batch_add_item(struct tes_dummy_batch *b, const struct iovec *pieces,
			uint32_t n, uint64_t bytes)
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
	if (tes_batch_add_items(b, b->n, n_pieces) || !b->msg.n_pieces)
		return TE_STORE_INTERNAL_ERROR;
	b->msg.n_n_pieces = b->n;
	for (i = 0; i < b->n; i++) {
		const struct te_store_value *v = &values[b->which[i]];

		tes_batch_add_item(b, v->pieces, v->n_pieces,
				   tes_value_bytes(v));
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

static int run(struct tes_dummy_batch *b, const struct call *call, size_t from,
	       size_t n)
{
	const struct te_store_value *values =
		call->values ? call->values + from : NULL;
	int code = tes_batch_add_keys(b, call->keys + from, n, values,
				      call->results + from);

	b->msg.force = call->force;
	if (!code && values)
		code = add_values(b, values);
	if (!code && call->how)
		code = add_keeping(b, call->how, from);
	if (code || !b->n)
		return code;
	return tes_batch_ask(b);
}

static int64_t settle(struct tes_dummy_batch *b, size_t i)
{
	int64_t answer = b->answers[i];

	if (b->type != AGENT__AGENT_TYPE__AGENT_GET || answer < 0)
		return answer;
	if ((uint64_t)answer > b->loan.items[i].bytes)
		return TE_STORE_INTERNAL_ERROR;
	if (tes_loan_is_lost(&b->loan, i))
		return TE_STORE_TRANSFER_FAIL;
	tes_loan_copy_back(&b->loan, i, (uint64_t)answer);
	return answer;
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
	code = run(&b, call, from, n);
	if (!b.which)
		for (i = 0; i < n; i++)
			results[i] = code;
	for (i = 0; b.which && i < b.n; i++)
		results[b.which[i]] = code ? code : settle(&b, i);
	tes_loan_end(&b.loan);
	tei_arena_fini(&arena);
}

/* How many keys from @from on make a batch. */
static size_t cut(const struct call *call, size_t from, size_t n)
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
		len = cut(call, from, n);
		run_batch(call, from, len);
	}
}

/* As @call, for functions whose results are ints. */
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

static int put(struct te_store *store, uint16_t type,
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
	return put(store, AGENT__AGENT_TYPE__AGENT_PUT, keys, values, n, how,
		   results);
}

int tes_dummy_upsert(struct te_store *store, const struct te_store_key *keys,
		     const struct te_store_value *values, size_t n,
		     const struct te_store_replicate *how, int *results)
{
	return put(store, AGENT__AGENT_TYPE__AGENT_UPSERT, keys, values, n, how,
		   results);
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
