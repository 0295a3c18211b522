/* SPDX-License-Identifier: Apache-2.0 */
/* metadata.c - what a metadata server keeps: values by key, in memory */
#include "store/server/metadata.h"

#include <errno.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/http.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/server/metadata_http.h"
#include "store/server/random.h"

#define EXPIRE_AT_ONCE 64 /* entries that one call looks after */

struct entry {
	struct tei_hash_node node;
	struct tei_heap_node expiry; /* in no heap: stays */
	size_t key_len, value_len, life_len, digest_len;
	char bytes[]; /* key, value, life, digest */
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

static uint64_t cost_of(const struct entry *e)
{
	return sizeof(*e) + e->key_len + e->value_len + e->life_len +
	       e->digest_len;
}

/* Tells whether it was written without a token, or with that one. */
static bool is_open_to(const struct entry *e, const uint8_t *digest)
{
	return !e->digest_len ||
	       (digest && !CRYPTO_memcmp(life_of(e) + e->life_len, digest,
					 e->digest_len));
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
	m->bytes -= cost_of(e);
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

static struct entry *find_entry(struct tes_metadata *m, const char *key,
				size_t len, uint64_t now)
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
	const struct entry *e = find_entry(m, key, len, now_ms);

	if (!e)
		return false;
	*value = value_of(e);
	*value_len = e->value_len;
	return true;
}

int tes_metadata_remove(struct tes_metadata *m,
			const struct tes_metadata_removal *removal,
			uint64_t now_ms)
{
	struct entry *e = find_entry(m, removal->key, removal->key_len, now_ms);

	if (!e)
		return -ENOENT;
	if (removal->if_life &&
	    !is_written_by(e, removal->if_life, removal->if_len))
		return -EEXIST;
	if (!is_open_to(e, removal->digest))
		return -EACCES;
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
 * Tells whether an engine that lives may have written it: what is refreshed and
 * has not expired. Nobody can tell of what stays for ever, so whoever starts
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
	       (old->digest_len != 0) == (put->digest != NULL) &&
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

static struct entry *make_entry(const struct tes_metadata_put *put)
{
	struct entry head = {.key_len = put->key_len,
			     .value_len = put->value_len,
			     .life_len = put->life_len,
			     .digest_len =
				     put->digest ? TES_METADATA_DIGEST_LEN : 0};
	struct entry *e = tei_malloc(cost_of(&head));
	char *at;

	if (!e)
		return NULL;
	*e = head;
	at = mempcpy(e->bytes, put->key, put->key_len);
	if (put->value_len)
		at = mempcpy(at, put->value, put->value_len);
	if (put->life_len)
		at = mempcpy(at, put->life, put->life_len);
	if (put->digest)
		memcpy(at, put->digest, TES_METADATA_DIGEST_LEN);
	return e;
}

static bool has_room(const struct tes_metadata *m, const struct entry *old,
		     uint64_t cost)
{
	uint64_t freed = old ? cost_of(old) : 0;

	return m->bytes - freed + cost <= m->limits.bytes &&
	       (old || m->by_key.n_nodes < m->limits.entries);
}

static enum tes_metadata_result write_value(struct tes_metadata *m,
					    const struct tes_metadata_put *put,
					    struct entry *old, uint64_t now)
{
	struct entry *e = make_entry(put);

	if (!e)
		return TES_METADATA_FULL;
	if (!has_room(m, old, cost_of(e)) ||
	    tei_heap_reserve(&m->expiry, m->by_key.n_nodes + 1)) {
		tei_free(e);
		return TES_METADATA_FULL;
	}
	if (old)
		drop(m, old);
	tei_hash_insert(&m->by_key, &e->node, hash(m, put->key, put->key_len));
	set_expiry(m, e, put->ttl_ms, now);
	m->bytes += cost_of(e);
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
	old = find_entry(m, put->key, put->key_len, now_ms);
	if (!holds(put, old))
		return TES_METADATA_CONFLICT;
	if (old && is_anothers(put, old))
		return TES_METADATA_TAKEN;
	if (old && !is_open_to(old, put->digest))
		return TES_METADATA_SECURED;
	if (!old || !is_same(put, old))
		return write_value(m, put, old, now_ms);
	if (tei_heap_reserve(&m->expiry, m->by_key.n_nodes))
		return TES_METADATA_FULL;
	set_expiry(m, old, put->ttl_ms, now_ms);
	return TES_METADATA_UNCHANGED;
}

/* A metadata server's HTTP port. */

/* Many engines may start at once; shells give 1024 descriptors in all. */
#define CONNS_MAX 768
#define TOKEN_MIN 16 /* bytes */

enum request {
	GOT,
	NOT_FOUND,
	UPDATED,
	UNCHANGED,
	DELETED,
	REFUSED, /* in words; what HTTP refuses is not here */
	REQUESTS,
};

struct tes_metadata_server {
	struct tes_metadata *metadata;
	struct tei_http *http;
	uint64_t n[REQUESTS];
	uint64_t refused[TEI_HTTP_REFUSALS];
};

static int reply_text(struct tei_http_reply *reply, int status,
		      const char *words)
{
	evbuffer_add(reply->body, words, strlen(words));
	return status;
}

static int say_no_key(struct tei_http_reply *reply)
{
	return reply_text(reply, 400, "metadata key is required");
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Without the blanks around it. NULL: there is none. */
static const char *key_of(const struct tei_http_request *request, size_t *len)
{
	const char *key = tei_http_query(request, "key", len);

	while (key && *len && is_blank(key[*len - 1]))
		(*len)--;
	while (key && *len && is_blank(*key)) {
		key++;
		(*len)--;
	}
	return key && *len ? key : NULL;
}

static int get_key(const struct tei_http_request *request,
		   struct tei_http_reply *reply, void *arg)
{
	struct tes_metadata_server *s = arg;
	const char *key, *value;
	size_t key_len, len;

	key = key_of(request, &key_len);
	if (!key)
		return say_no_key(reply);
	if (!tes_metadata_get(s->metadata, key, key_len, tei_now_ms(), &value,
			      &len))
		return reply_text(reply, 404, "metadata not found");
	evbuffer_add(reply->body, value, len);
	return 200;
}

/* ---- writing ---- */

/* False: it is no number of milliseconds within the limit. */
static bool take_ttl(const struct tei_http_request *request, uint64_t *out)
{
	size_t len;
	const char *text = tei_http_query(request, "ttl_ms", &len);

	*out = 0;
	return !text || (strlen(text) == len && !tei_parse_uint(text, out) &&
			 *out <= TES_METADATA_TTL_MAX);
}

/* False: a token that is none. *out_digest: NULL without, else @digest. */
static bool take_token(const struct tei_http_request *request,
		       uint8_t digest[TES_METADATA_DIGEST_LEN],
		       const uint8_t **out_digest)
{
	size_t len = request->bearer ? strlen(request->bearer) : 0;

	*out_digest = request->bearer ? digest : NULL;
	return !request->bearer ||
	       (len >= TOKEN_MIN && EVP_Digest(request->bearer, len, digest,
					       NULL, EVP_sha256(), NULL));
}

static int say_token(struct tei_http_reply *reply)
{
	return reply_text(reply, 400, "a token should have 16 .. 128 bytes");
}

static void take_condition(const struct tei_http_request *request,
			   struct tes_metadata_put *put)
{
	put->if_life = tei_http_query(request, "if_incarnation", &put->if_len);
	if (!put->if_life)
		put->condition = TES_METADATA_ALWAYS;
	else if (put->if_len == 4 && memcmp(put->if_life, "none", 4) == 0)
		put->condition = TES_METADATA_IF_ABSENT;
	else
		put->condition = TES_METADATA_IF_LIFE;
}

static int say_result(struct tei_http_reply *reply,
		      enum tes_metadata_result result)
{
	switch (result) {
	case TES_METADATA_UPDATED:
		return reply_text(reply, 200, "metadata updated");
	case TES_METADATA_UNCHANGED:
		return reply_text(reply, 200, "metadata unchanged");
	case TES_METADATA_TAKEN:
		return reply_text(reply, 400,
				  "Duplicate rpc_meta key not allowed");
	case TES_METADATA_CONFLICT:
		return reply_text(reply, 412, "incarnation does not match");
	case TES_METADATA_SECURED:
		return reply_text(reply, 412, "token does not match");
	case TES_METADATA_TOO_LONG:
		return reply_text(reply, 413,
				  "key, value or incarnation too long");
	case TES_METADATA_FULL:
		break;
	}
	return reply_text(reply, 507, "no room for more metadata");
}

static int put_key(const struct tei_http_request *request,
		   struct tei_http_reply *reply, void *arg)
{
	struct tes_metadata_server *s = arg;
	struct tes_metadata_put p = {.value = request->body,
				     .value_len = request->len};
	uint8_t digest[TES_METADATA_DIGEST_LEN];
	enum tes_metadata_result result;

	p.key = key_of(request, &p.key_len);
	if (!p.key)
		return say_no_key(reply);
	if (!request->has_length)
		return reply_text(reply, 411, "a value needs a Content-Length");
	if (!take_ttl(request, &p.ttl_ms))
		return reply_text(reply, 400, "ttl_ms should be 0 .. 3600000");
	if (!take_token(request, digest, &p.digest))
		return say_token(reply);
	/* What nobody refreshes is nobody's: it must not shut others out. */
	if (p.digest && !p.ttl_ms)
		return reply_text(reply, 400, "a token needs ttl_ms");
	p.life = tei_http_query(request, "incarnation", &p.life_len);
	if (!p.life)
		p.life_len = 0;
	take_condition(request, &p);
	result = tes_metadata_put(s->metadata, &p, tei_now_ms());
	if (result == TES_METADATA_UPDATED)
		s->n[UPDATED]++;
	else if (result == TES_METADATA_UNCHANGED)
		s->n[UNCHANGED]++;
	return say_result(reply, result);
}

static int remove_key(const struct tei_http_request *request,
		      struct tei_http_reply *reply, void *arg)
{
	struct tes_metadata_server *s = arg;
	struct tes_metadata_removal r = {.key = NULL};
	uint8_t digest[TES_METADATA_DIGEST_LEN];
	int rc;

	r.key = key_of(request, &r.key_len);
	if (!r.key)
		return say_no_key(reply);
	if (!take_token(request, digest, &r.digest))
		return say_token(reply);
	r.if_life = tei_http_query(request, "if_incarnation", &r.if_len);
	rc = tes_metadata_remove(s->metadata, &r, tei_now_ms());
	if (rc == -ENOENT)
		return reply_text(reply, 404, "metadata not found");
	if (rc)
		return say_result(reply, rc == -EACCES ? TES_METADATA_SECURED
						       : TES_METADATA_CONFLICT);
	return reply_text(reply, 200, "metadata deleted");
}

/* ---- what is counted; words are JSON, too, as with Mooncake ---- */

static int get_entry(const struct tei_http_request *request,
		     struct tei_http_reply *reply, void *arg)
{
	struct tes_metadata_server *s = arg;
	int status;

	reply->type = "application/json";
	status = get_key(request, reply, arg);
	s->n[status == 200 ? GOT : status == 404 ? NOT_FOUND : REFUSED]++;
	return status;
}

static int put_entry(const struct tei_http_request *request,
		     struct tei_http_reply *reply, void *arg)
{
	struct tes_metadata_server *s = arg;
	int status;

	reply->type = "application/json";
	status = put_key(request, reply, arg);
	if (status != 200)
		s->n[REFUSED]++;
	return status;
}

static int delete_key(const struct tei_http_request *request,
		      struct tei_http_reply *reply, void *arg)
{
	struct tes_metadata_server *s = arg;
	int status;

	reply->type = "application/json";
	status = remove_key(request, reply, arg);
	s->n[status == 200 ? DELETED : status == 404 ? NOT_FOUND : REFUSED]++;
	return status;
}

static int metrics(const struct tei_http_request *request,
		   struct tei_http_reply *reply, void *arg)
{
	static const char *const names[REQUESTS] = {
		[GOT] = "found",       [NOT_FOUND] = "not_found",
		[UPDATED] = "updated", [UNCHANGED] = "unchanged",
		[DELETED] = "deleted", [REFUSED] = "refused",
	};
	static const char name[] = "te_metadata_requests_total";
	const struct tes_metadata_server *s = arg;

	(void)request;
	reply->type = TEI_HTTP_METRICS_TYPE;
	tei_http_metric(reply->body, "te_metadata_entries", "gauge",
			"entries that are kept",
			tes_metadata_count(s->metadata));
	tei_http_metric(reply->body, "te_metadata_bytes", "gauge",
			"memory of all entries",
			tes_metadata_bytes(s->metadata));
	tei_http_metric_head(reply->body, name, "counter",
			     "requests for entries, by what came of them");
	for (int i = 0; i < REQUESTS; i++)
		(void)evbuffer_add_printf(reply->body,
					  "%s{result=\"%s\"} %" PRIu64 "\n",
					  name, names[i], s->n[i]);
	return 200;
}

static int health(const struct tei_http_request *request,
		  struct tei_http_reply *reply, void *arg)
{
	(void)request;
	(void)arg;
	return reply_text(reply, 200, "OK");
}

static const struct tei_http_route routes[] = {
	{TEI_HTTP_GET, "/metadata", get_entry},
	{TEI_HTTP_PUT, "/metadata", put_entry},
	{TEI_HTTP_DELETE, "/metadata", delete_key},
	{TEI_HTTP_GET, "/health", health},
	{TEI_HTTP_GET, "/metrics", metrics},
};

/* ---- start and end ---- */

/* What no handler sees is answered in the type of all others, too. */
static void refusal(int status, const char *words, struct tei_http_reply *reply)
{
	(void)status;
	reply->type = "application/json";
	(void)evbuffer_add_printf(reply->body, "%s\n", words);
}

int tes_metadata_server_start(struct tei_loop *loop,
			      const struct tes_metadata_config *config,
			      uint16_t *out_port,
			      struct tes_metadata_server **out)
{
	struct tes_metadata_server *s = tei_calloc(1, sizeof(*s));
	struct tei_http_config http = {
		.what = "metadata port",
		.host = config->host,
		.port = config->port,
		.insecure = config->insecure,
		.allow_uids = config->allow_uids,
		.allow_host = config->allow_host,
		.routes = routes,
		.n_routes = sizeof(routes) / sizeof(routes[0]),
		.arg = s,
		.body_max = config->limits.value,
		.conns_max = CONNS_MAX,
		.refusal = refusal,
	};
	int rc;

	if (!s)
		return -ENOMEM;
	http.refused = s->refused;
	rc = tes_metadata_create(&config->limits, &s->metadata);
	if (!rc)
		rc = tei_http_start(loop, &http, out_port, &s->http);
	if (rc) {
		tes_metadata_server_stop(s);
		return rc;
	}
	*out = s;
	return 0;
}

void tes_metadata_server_stop(struct tes_metadata_server *server)
{
	if (!server)
		return;
	tei_http_stop(server->http);
	tes_metadata_destroy(server->metadata);
	tei_free(server);
}

/* Removes the keys of one incarnation; those of its successor stay. */
static void forget_key(struct tes_metadata *m, const char *key, size_t len,
		       const char *life)
{
	struct tes_metadata_removal r = {.key = key,
					 .key_len = len,
					 .if_life = life,
					 .if_len = strlen(life)};

	if (tes_metadata_remove(m, &r, tei_now_ms()) != -EEXIST)
		return;
	r.if_len = 0;
	(void)tes_metadata_remove(m, &r, tei_now_ms());
}

void tes_metadata_server_forget(struct tes_metadata_server *server,
				const char *name, const uint8_t incarnation[16])
{
	static const char *const kinds[] = {"ram", "rpc_meta"};
	char key[TES_METADATA_KEY_MAX], life[33];

	if (!server)
		return;
	for (size_t i = 0; i < 16; i++)
		(void)snprintf(life + 2 * i, 3, "%02x", incarnation[i]);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		int n = snprintf(key, sizeof(key), "mooncake/%s/%s", kinds[i],
				 name);

		if (n > 0 && (size_t)n < sizeof(key))
			forget_key(server->metadata, key, (size_t)n, life);
	}
}
