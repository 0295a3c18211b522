/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - what callers give us, checked; batches cut for the master */
#include <string.h>

#include "base/net.h"
#include "store/client/client.h"

/* Bytes of keys in one call: it never keeps the master's thread for long. */
#define CHUNK_KEY_BYTES (1u << 20)

bool tes_keys_given(const struct te_store *store,
		    const struct te_store_key *keys, size_t n,
		    const void *results)
{
	return store && (!n || (keys && results));
}

bool tes_key_holds(const struct te_store_key *key)
{
	return key->bytes && key->len >= 1 && key->len <= TE_STORE_KEY_MAX &&
	       !key->reserved;
}

size_t tes_keys_bytes(const struct te_store_key *keys, size_t n)
{
	size_t bytes = 0, i;

	for (i = 0; i < n; i++)
		bytes += tes_key_holds(&keys[i]) ? keys[i].len : 0;
	return bytes;
}

uint64_t tes_value_bytes(const struct te_store_value *value)
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

/* The master takes names that fit a line of a list. */
static bool name_holds(const char *name)
{
	size_t i;

	for (i = 0; name[i]; i++)
		if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f ||
		    i >= TEI_NAME_LEN_MAX)
			return false;
	return true;
}

static bool names_hold(const char *const *names, size_t n, bool may_lack)
{
	size_t i;

	if (n && !names)
		return false;
	for (i = 0; i < n; i++) {
		if (!names[i] || !*names[i]) {
			if (!may_lack)
				return false;
		} else if (!name_holds(names[i])) {
			return false;
		}
	}
	return true;
}

bool tes_replicate_holds(const struct te_store_replicate *how, size_t n)
{
	size_t i;

	if (!how)
		return true;
	if (how->size != sizeof(*how) || !how->replica_num ||
	    how->replica_num > TE_STORE_REPLICAS_MAX ||
	    how->soft_pin_action > TE_STORE_SOFT_PIN_DISABLE ||
	    how->soft_pin_ttl_ms > TE_STORE_SOFT_PIN_MAX_MS ||
	    how->data_type > TE_STORE_DATA_GENERAL ||
	    (how->flags & ~(uint64_t)TE_STORE_REPLICATE_FLAGS) ||
	    how->n_preferred_segments > TE_STORE_PREFERRED_MAX ||
	    (how->n_group_ids && how->n_group_ids != n))
		return false;
	for (i = 0; i < sizeof(how->reserved) / sizeof(how->reserved[0]); i++)
		if (how->reserved[i])
			return false;
	return names_hold(how->preferred_segments, how->n_preferred_segments,
			  false) &&
	       names_hold(how->group_ids, how->n_group_ids, true);
}

size_t tes_chunk(const struct te_store_key *keys, size_t from, size_t n)
{
	size_t bytes = 0, i;

	for (i = from; i < n && i - from < TE_STORE_BATCH_MAX; i++) {
		/* One that does not hold is not sent at all. */
		bytes += tes_key_holds(&keys[i]) ? keys[i].len : 0;
		if (bytes > CHUNK_KEY_BYTES && i > from)
			break;
	}
	return i - from;
}
