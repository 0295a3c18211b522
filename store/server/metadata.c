/* SPDX-License-Identifier: Apache-2.0 */
/* metadata.c - what a metadata server keeps: values by key, in memory */
#include "store/server/metadata.h"

#include <errno.h>
#include <string.h>

#include <xxhash.h>

#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/mem.h"
#include "store/server/random.h"

#define EXPIRE_AT_ONCE 64 /* entries that one call looks after */

struct entry {
	struct tei_hash_node node;
	struct tei_heap_node expiry; /* in no heap: stays */
	size_t key_len, value_len, life_len;
	char bytes[]; /* key, value, life */
};

struct tes_metadata {
	struct tes_metadata_limits limits;
	struct tei_hash by_key;
	struct tei_heap expiry;
	uint64_t seed, bytes;
};

static const char *value_of(const struct entry *e)
{
	return e->bytes + e->key_len;
}

static const char *life_of(const struct entry *e)
{
	return e->bytes + e->key_len + e->value_len;
}

static uint64_t cost_of(size_t key, size_t value, size_t life)
{
	return sizeof(struct entry) + key + value + life;
}

static bool is_written_by(const struct entry *e, const char *life, size_t len)
{
	return e->life_len == len && (!len || !memcmp(life_of(e), life, len));
}

/* ---- the table ---- */

int tes_metadata_create(const struct tes_metadata_limits *limits,
			struct tes_metadata **out)
{
	struct tes_metadata *m = tei_calloc(1, sizeof(*m));
	int rc = -ENOMEM;

	if (!m)
		return rc;
	m->limits = *limits;
	tei_heap_init(&m->expiry);
	if (!tei_hash_init(&m->by_key)) {
		rc = tes_server_random(&m->seed, sizeof(m->seed));
		if (!rc) {
			*out = m;
			return 0;
		}
		tei_hash_fini(&m->by_key);
	}
	tei_free(m);
	return rc;
}

static void drop(struct tes_metadata *m, struct entry *e)
{
	tei_hash_remove(&m->by_key, &e->node);
	tei_heap_remove(&m->expiry, &e->expiry);
	m->bytes -= cost_of(e->key_len, e->value_len, e->life_len);
	tei_free(e);
}

static void drop_node(struct tei_hash_node *node, void *arg)
{
	drop(arg, TEI_CONTAINER(node, struct entry, node));
}

void tes_metadata_destroy(struct tes_metadata *m)
{
	size_t cursor = 0;

	if (!m)
		return;
	/* Removing joins buckets, so that a walk may miss some. */
	while (m->by_key.n_nodes) {
		if (!tei_hash_walk(&m->by_key, &cursor, 64, drop_node, m))
			cursor = 0;
	}
	tei_hash_fini(&m->by_key);
	tei_heap_fini(&m->expiry);
	tei_free(m);
}

static uint64_t hash(const struct tes_metadata *m, const char *key, size_t len)
{
	return XXH3_64bits_withSeed(key, len, m->seed);
}

static void expire(struct tes_metadata *m, uint64_t now, size_t most)
{
	struct tei_heap_node *top;

	while (most-- && (top = tei_heap_top(&m->expiry)) && top->at <= now)
		drop(m, TEI_CONTAINER(top, struct entry, expiry));
}

static struct entry *find(struct tes_metadata *m, const char *key, size_t len,
			  uint64_t now)
{
	struct tei_hash_node *node;

	expire(m, now, EXPIRE_AT_ONCE);
	for (node = tei_hash_first(&m->by_key, hash(m, key, len)); node;
	     node = tei_hash_next(&m->by_key, node)) {
		struct entry *e = TEI_CONTAINER(node, struct entry, node);

		if (e->key_len != len || memcmp(e->bytes, key, len) != 0)
			continue;
		if (!tei_heap_has(&e->expiry) || e->expiry.at > now)
			return e;
		drop(m, e);
		return NULL;
	}
	return NULL;
}

bool tes_metadata_get(struct tes_metadata *m, const char *key, size_t len,
		      uint64_t now_ms, const char **value, size_t *value_len)
{
	const struct entry *e = find(m, key, len, now_ms);

	if (!e)
		return false;
	*value = value_of(e);
	*value_len = e->value_len;
	return true;
}

int tes_metadata_remove(struct tes_metadata *m, const char *key, size_t len,
			const char *life, size_t life_len, uint64_t now_ms)
{
	struct entry *e = find(m, key, len, now_ms);

	if (!e)
		return -ENOENT;
	if (life && !is_written_by(e, life, life_len))
		return -EEXIST;
	drop(m, e);
	return 0;
}

size_t tes_metadata_count(const struct tes_metadata *m)
{
	return m->by_key.n_nodes;
}

uint64_t tes_metadata_bytes(const struct tes_metadata *m)
{
	return m->bytes;
}

/* ---- writing ---- */

static bool holds(const struct tes_metadata_put *put, const struct entry *old)
{
	switch (put->condition) {
	case TES_METADATA_IF_ABSENT:
		return !old;
	case TES_METADATA_IF_LIFE:
		return old && is_written_by(old, put->if_life, put->if_len);
	case TES_METADATA_ALWAYS:
		break;
	}
	return true;
}

/*
 * Whether an engine that lives may have written it: what is refreshed and has
 * not expired. Of what stays for ever nobody can tell, so that whoever starts
 * again under his name is not refused.
 */
static bool is_anothers(const struct tes_metadata_put *put,
			const struct entry *old)
{
	static const char word[] = "rpc_meta";

	return old->life_len && tei_heap_has(&old->expiry) &&
	       put->condition != TES_METADATA_IF_LIFE &&
	       !is_written_by(old, put->life, put->life_len) &&
	       memmem(old->bytes, old->key_len, word, sizeof(word) - 1);
}

static bool is_same(const struct tes_metadata_put *put, const struct entry *old)
{
	return old->value_len == put->value_len &&
	       is_written_by(old, put->life, put->life_len) &&
	       (!put->value_len ||
		!memcmp(value_of(old), put->value, put->value_len));
}

/* There is room for the node: adding one cannot fail. */
static void set_expiry(struct tes_metadata *m, struct entry *e, uint64_t ttl,
		       uint64_t now)
{
	tei_heap_remove(&m->expiry, &e->expiry);
	if (ttl)
		(void)tei_heap_add(&m->expiry, &e->expiry, now + ttl);
}

static struct entry *make(const struct tes_metadata_put *put)
{
	size_t len = put->key_len + put->value_len + put->life_len;
	struct entry *e = tei_malloc(sizeof(*e) + len);
	char *at;

	if (!e)
		return NULL;
	*e = (struct entry){.key_len = put->key_len,
			    .value_len = put->value_len,
			    .life_len = put->life_len};
	at = mempcpy(e->bytes, put->key, put->key_len);
	if (put->value_len)
		at = mempcpy(at, put->value, put->value_len);
	if (put->life_len)
		memcpy(at, put->life, put->life_len);
	return e;
}

static bool has_room(const struct tes_metadata *m, const struct entry *old,
		     uint64_t cost)
{
	uint64_t freed =
		old ? cost_of(old->key_len, old->value_len, old->life_len) : 0;

	return m->bytes - freed + cost <= m->limits.bytes &&
	       (old || m->by_key.n_nodes < m->limits.entries);
}

static enum tes_metadata_result write_value(struct tes_metadata *m,
					    const struct tes_metadata_put *put,
					    struct entry *old, uint64_t now)
{
	uint64_t cost = cost_of(put->key_len, put->value_len, put->life_len);
	struct entry *e;

	if (!has_room(m, old, cost) ||
	    tei_heap_reserve(&m->expiry, m->by_key.n_nodes + 1))
		return TES_METADATA_FULL;
	e = make(put);
	if (!e)
		return TES_METADATA_FULL;
	if (old)
		drop(m, old);
	tei_hash_insert(&m->by_key, &e->node, hash(m, put->key, put->key_len));
	set_expiry(m, e, put->ttl_ms, now);
	m->bytes += cost;
	return TES_METADATA_UPDATED;
}

enum tes_metadata_result tes_metadata_put(struct tes_metadata *m,
					  const struct tes_metadata_put *put,
					  uint64_t now_ms)
{
	struct entry *old;

	if (put->key_len > TES_METADATA_KEY_MAX ||
	    put->life_len > TES_METADATA_LIFE_MAX ||
	    put->value_len > m->limits.value)
		return TES_METADATA_TOO_LONG;
	old = find(m, put->key, put->key_len, now_ms);
	if (!holds(put, old))
		return TES_METADATA_CONFLICT;
	if (old && is_anothers(put, old))
		return TES_METADATA_TAKEN;
	if (!old || !is_same(put, old))
		return write_value(m, put, old, now_ms);
	if (tei_heap_reserve(&m->expiry, m->by_key.n_nodes))
		return TES_METADATA_FULL;
	set_expiry(m, old, put->ttl_ms, now_ms);
	return TES_METADATA_UNCHANGED;
}
