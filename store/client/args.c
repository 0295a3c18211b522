/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - what callers give us, checked; batches cut for the master */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"
#include "base/text.h"
#include "store/client/buffers.h"
#include "store/client/client.h"
#include "store/client/get.h"
#include "store/client/ranges.h"

/* Bytes of keys in one call: it never keeps the master's thread for long. */
#define CHUNK_KEY_BYTES (1u << 20)
#define TIMEOUT_MAX_MS  (24u * 3600 * 1000)

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
	return strnlen(name, TEI_NAME_LEN_MAX + 1) <= TEI_NAME_LEN_MAX &&
	       !strchr(name, ' ') && tei_text_is_shown(name);
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
	    (how->soft_pin_ttl_ms &&
	     how->soft_pin_action != TE_STORE_SOFT_PIN_ENABLE) ||
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
		/* An invalid key is not sent at all. */
		bytes += tes_key_holds(&keys[i]) ? keys[i].len : 0;
		if (bytes > CHUNK_KEY_BYTES && i > from)
			break;
	}
	return i - from;
}

/* ---- parts of values: check, and sort by key ---- */

uint64_t tes_range_common(const struct te_store_range *range,
			  const struct tes_extent_at *x, uint64_t *from)
{
	uint64_t end = range->offset + range->length;

	*from = range->offset > x->offset ? range->offset : x->offset;
	if (end > x->offset + x->length)
		end = x->offset + x->length;
	return *from < end ? end - *from : 0;
}

static bool range_holds(const struct te_store_range *range, size_t n_keys)
{
	return range->key < n_keys && !range->reserved &&
	       (range->addr || !range->length) &&
	       range->length <= TE_STORE_VALUE_MAX &&
	       range->offset <= TE_STORE_VALUE_MAX;
}

static int refuse_ranges(struct tes_addresses *addresses,
			 const struct tes_ranges_given *given, int64_t *results)
{
	const struct tes_named named = {
		.ranges = given->ranges,
		.skip = results,
		.n = given->n,
		.writable = given->writable,
	};
	bool *bad = tei_calloc(given->n + 1, sizeof(*bad));
	size_t i;

	if (!bad)
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < given->n; i++)
		results[i] = range_holds(&given->ranges[i], given->n_keys)
				     ? 0
				     : TE_STORE_INVALID_PARAMS;
	tes_addresses_check(addresses, &named, bad);
	for (i = 0; i < given->n; i++)
		if (bad[i])
			results[i] = TE_STORE_INVALID_PARAMS;
	tei_free(bad);
	return 0;
}

int tes_ranges_sort(struct tes_addresses *addresses,
		    const struct tes_ranges_given *given, int64_t *results,
		    struct tes_sorted *out)
{
	const struct te_store_range *ranges = given->ranges;
	size_t n_keys = given->n_keys, i;
	uint32_t *place;

	out->starts = tei_calloc(n_keys + 2, sizeof(uint32_t));
	out->order = tei_malloc((given->n + 1) * sizeof(uint32_t));
	if (!out->starts || !out->order ||
	    refuse_ranges(addresses, given, results)) {
		tes_ranges_free(out);
		return TE_STORE_INTERNAL_ERROR;
	}
	for (i = 0; i < given->n; i++)
		if (!results[i])
			out->starts[ranges[i].key + 2]++;
	/* Shifted by one, so that filling moves each start to its own end. */
	for (i = 2; i < n_keys + 2; i++)
		out->starts[i] += out->starts[i - 1];
	place = out->starts + 1;
	for (i = 0; i < given->n; i++)
		if (!results[i])
			out->order[place[ranges[i].key]++] = (uint32_t)i;
	return 0;
}

void tes_ranges_free(struct tes_sorted *sorted)
{
	tei_free(sorted->starts);
	tei_free(sorted->order);
	sorted->starts = sorted->order = NULL;
}

/* Copies a range of a value; returns its length, or a code. */
static int64_t copy_range(struct te_store *store,
			  const struct te_store_buffer *buffer,
			  const struct te_store_range *range)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (range->offset > buffer->length ||
	    range->length > buffer->length - range->offset)
		return TE_STORE_INVALID_PARAMS;
	if (tes_addresses_is_gpu(&store->addresses, range->addr)) {
		if (tei_log_allowed(&limit))
			LOG_WARN("store: parts of a value that its owner has "
				 "not verified yet cannot be read into a GPU's "
				 "memory: get all of it first");
		return TE_STORE_TRANSFER_FAIL;
	}
	memcpy(range->addr, buffer->data + range->offset, range->length);
	return (int64_t)range->length;
}

/* Key @key in memory of ours, and the ranges from there. */
static void get_whole(struct te_store *store, const struct te_store_key *keys,
		      size_t key, const struct te_store_range *ranges,
		      const struct tes_sorted *sorted, int64_t *results)
{
	struct te_store_buffer *buffer;
	int64_t size;
	uint32_t i;

	(void)tes_direct_get_buffers(store, &keys[key], 1, &buffer, &size);
	for (i = sorted->starts[key]; i < sorted->starts[key + 1]; i++) {
		const struct te_store_range *range = &ranges[sorted->order[i]];

		results[sorted->order[i]] =
			buffer ? copy_range(store, buffer, range) : size;
	}
	tes_buffer_destroy(buffer);
}

static void get_ranges(struct te_store *store, const struct te_store_key *keys,
		       size_t n_keys, const struct te_store_range *ranges,
		       const struct tes_sorted *sorted, int64_t *by_key,
		       int64_t *results)
{
	size_t from, len;

	for (from = 0; from < n_keys; from += len) {
		const struct tes_get_ranges part = {
			.all = ranges,
			.order = sorted->order,
			.starts = sorted->starts + from,
			.results = results,
		};
		struct tes_get_chunk chunk = {
			.store = store,
			.keys = keys + from,
			.results = by_key + from,
			.ranges = &part,
			.n = tes_chunk(keys, from, n_keys),
		};

		len = chunk.n;
		tes_get_chunk_run(&chunk);
	}
}

int tes_direct_get_ranges(struct te_store *store,
			  const struct te_store_key *keys, size_t n_keys,
			  const struct te_store_range *ranges, size_t n_ranges,
			  int64_t *results)
{
	const struct tes_ranges_given given = {ranges, n_ranges, n_keys, true};
	struct tes_sorted sorted;
	int64_t *by_key;
	int n_read = 0;
	size_t i;

	if (!tes_keys_given(store, keys, n_keys, keys) ||
	    (n_ranges && (!ranges || !results)) ||
	    n_ranges > TE_STORE_RANGES_MAX)
		return TE_STORE_INVALID_PARAMS;
	by_key = tei_calloc(n_keys + 1, sizeof(*by_key));
	if (!by_key)
		return TE_STORE_INTERNAL_ERROR;
	if (tes_ranges_sort(&store->addresses, &given, results, &sorted)) {
		tei_free(by_key);
		return TE_STORE_INTERNAL_ERROR;
	}
	get_ranges(store, keys, n_keys, ranges, &sorted, by_key, results);
	for (i = 0; i < n_keys; i++)
		if (by_key[i] == TES_GET_WHOLE)
			get_whole(store, keys, i, ranges, &sorted, results);
	tes_ranges_free(&sorted);
	tei_free(by_key);
	for (i = 0; i < n_ranges; i++)
		n_read += results[i] >= 0;
	return n_read;
}

/* ---- configuration of a store ---- */

static bool master_holds(const char *master)
{
	char host[TEI_HOST_LEN_MAX + 1];
	uint16_t port;

	return !tei_name_split(master, host, &port) && port;
}

bool tes_tenant_holds(const char *name)
{
	size_t len = 0;

	for (; name[len]; len++)
		if ((unsigned char)name[len] < ' ' || name[len] == 0x7f ||
		    len == TES_STORE_TENANT_MAX)
			return false;
	return *name != '_';
}

bool tes_config_holds(const struct te_store_config *c)
{
	if (c->size != sizeof(*c) || c->call_timeout_ms > TIMEOUT_MAX_MS ||
	    c->replica_timeout_ms > TIMEOUT_MAX_MS ||
	    (c->setup_timeout_ms > TIMEOUT_MAX_MS &&
	     c->setup_timeout_ms != TE_STORE_NO_WAIT) ||
	    c->segment_bytes > TE_LENGTH_MAX ||
	    c->local_buffer_bytes > TE_LENGTH_MAX ||
	    c->location_cache_entries > TE_STORE_LOCATIONS_MAX ||
	    c->hot_cache_bytes > TE_LENGTH_MAX ||
	    c->hot_cache_threshold > 255 ||
	    c->drain_timeout_ms > TES_DRAIN_MAX_MS)
		return false;
	if (c->tenant && !tes_tenant_holds(c->tenant))
		return false;
	return !c->master || master_holds(c->master);
}
