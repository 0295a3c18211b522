/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - what callers give us, checked; batches cut for the master */
#include "store/client/client.h"

/* Bytes of keys in one call: it never keeps the master's thread for long. */
#define CHUNK_KEY_BYTES (1u << 20)

bool tei_keys_given(const struct te_store *store,
		    const struct te_store_key *keys, size_t n,
		    const void *results)
{
	return store && (!n || (keys && results));
}

bool tei_key_holds(const struct te_store_key *key)
{
	return key->bytes && key->len >= 1 && key->len <= TE_STORE_KEY_MAX &&
	       !key->reserved;
}

size_t tei_keys_bytes(const struct te_store_key *keys, size_t n)
{
	size_t bytes = 0, i;

	for (i = 0; i < n; i++)
		bytes += tei_key_holds(&keys[i]) ? keys[i].len : 0;
	return bytes;
}

uint64_t tei_value_bytes(const struct te_store_value *value)
{
	uint64_t sum = 0;
	uint32_t i;

	if (!value->pieces || !value->n_pieces ||
	    value->n_pieces > TE_PIECES_MAX - 1 || value->reserved)
		return 0;
	for (i = 0; i < value->n_pieces; i++) {
		const struct iovec *piece = &value->pieces[i];

		if (piece->iov_len > TE_STORE_VALUE_MAX - sum)
			return 0;
		if (piece->iov_len && !piece->iov_base)
			return 0;
		sum += piece->iov_len;
	}
	return sum;
}

size_t tei_chunk(const struct te_store_key *keys, size_t from, size_t n)
{
	size_t bytes = 0, i;

	for (i = from; i < n && i - from < TE_STORE_BATCH_MAX; i++) {
		/* One that does not hold is not sent at all. */
		bytes += tei_key_holds(&keys[i]) ? keys[i].len : 0;
		if (bytes > CHUNK_KEY_BYTES && i > from)
			break;
	}
	return i - from;
}
