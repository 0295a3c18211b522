/* SPDX-License-Identifier: Apache-2.0 */
/* metadata_http.c - a metadata server's HTTP port */
#include "store/server/metadata_http.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/http.h"
#include "base/log.h"
#include "base/mem.h"

/* Many engines may start at once; shells give 1024 descriptors in all. */
#define CONNS_MAX 768

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

static int say(struct tei_http_reply *reply, int status, const char *words)
{
	evbuffer_add(reply->body, words, strlen(words));
	return status;
}

static int say_no_key(struct tei_http_reply *reply)
{
	return say(reply, 400, "metadata key is required");
}

/* NULL: there is none. */
static const char *key_of(const struct tei_http_request *request, size_t *len)
{
	const char *key = tei_http_query(request, "key", len);

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
		return say(reply, 404, "metadata not found");
	reply->type = "application/json";
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
		return say(reply, 200, "metadata updated");
	case TES_METADATA_UNCHANGED:
		return say(reply, 200, "metadata unchanged");
	case TES_METADATA_TAKEN:
		return say(reply, 400, "Duplicate rpc_meta key not allowed");
	case TES_METADATA_CONFLICT:
		return say(reply, 412, "incarnation does not match");
	case TES_METADATA_TOO_LONG:
		return say(reply, 413, "key, value or incarnation too long");
	case TES_METADATA_FULL:
		break;
	}
	return say(reply, 507, "no room for more metadata");
}

static int put_key(const struct tei_http_request *request,
		   struct tei_http_reply *reply, void *arg)
{
	struct tes_metadata_server *s = arg;
	struct tes_metadata_put p = {.value = request->body,
				     .value_len = request->len};
	enum tes_metadata_result result;

	p.key = key_of(request, &p.key_len);
	if (!p.key)
		return say_no_key(reply);
	if (!request->has_length)
		return say(reply, 411, "a value needs a Content-Length");
	if (!take_ttl(request, &p.ttl_ms))
		return say(reply, 400, "ttl_ms should be 0 .. 86400000");
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
	const char *key, *life;
	size_t key_len, life_len;
	int rc;

	key = key_of(request, &key_len);
	if (!key)
		return say_no_key(reply);
	life = tei_http_query(request, "if_incarnation", &life_len);
	rc = tes_metadata_remove(s->metadata, key, key_len, life, life_len,
				 tei_now_ms());
	if (rc == -ENOENT)
		return say(reply, 404, "metadata not found");
	if (rc)
		return say_result(reply, TES_METADATA_CONFLICT);
	return say(reply, 200, "metadata deleted");
}

/* ---- what is counted ---- */

static int get(const struct tei_http_request *request,
	       struct tei_http_reply *reply, void *arg)
{
	struct tes_metadata_server *s = arg;
	int status = get_key(request, reply, arg);

	s->n[status == 200 ? GOT : status == 404 ? NOT_FOUND : REFUSED]++;
	return status;
}

static int put(const struct tei_http_request *request,
	       struct tei_http_reply *reply, void *arg)
{
	struct tes_metadata_server *s = arg;
	int status = put_key(request, reply, arg);

	if (status != 200)
		s->n[REFUSED]++;
	return status;
}

static int delete_key(const struct tei_http_request *request,
		      struct tei_http_reply *reply, void *arg)
{
	struct tes_metadata_server *s = arg;
	int status = remove_key(request, reply, arg);

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
	const struct tes_metadata_server *s = arg;

	(void)request;
	reply->type = "text/plain; version=0.0.4; charset=utf-8";
	evbuffer_add_printf(reply->body,
			    "# TYPE te_metadata_entries gauge\n"
			    "te_metadata_entries %zu\n"
			    "# TYPE te_metadata_bytes gauge\n"
			    "te_metadata_bytes %" PRIu64 "\n"
			    "# TYPE te_metadata_requests_total counter\n",
			    tes_metadata_count(s->metadata),
			    tes_metadata_bytes(s->metadata));
	for (int i = 0; i < REQUESTS; i++)
		evbuffer_add_printf(reply->body,
				    "te_metadata_requests_total{result=\"%s\"}"
				    " %" PRIu64 "\n",
				    names[i], s->n[i]);
	return 200;
}

static int health(const struct tei_http_request *request,
		  struct tei_http_reply *reply, void *arg)
{
	(void)request;
	(void)arg;
	return say(reply, 200, "OK");
}

static const struct tei_http_route routes[] = {
	{TEI_HTTP_GET, "/metadata", get},
	{TEI_HTTP_PUT, "/metadata", put},
	{TEI_HTTP_DELETE, "/metadata", delete_key},
	{TEI_HTTP_GET, "/health", health},
	{TEI_HTTP_GET, "/metrics", metrics},
};

/* ---- start and end ---- */

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
		.allow_host = config->allow_host,
		.routes = routes,
		.n_routes = sizeof(routes) / sizeof(routes[0]),
		.arg = s,
		.body_max = config->limits.value,
		.conns_max = CONNS_MAX,
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

/* Those of its successor stay. */
static void forget_key(struct tes_metadata *m, const char *key, size_t len,
		       const char *life)
{
	if (tes_metadata_remove(m, key, len, life, strlen(life),
				tei_now_ms()) == -EEXIST)
		(void)tes_metadata_remove(m, key, len, "", 0, tei_now_ms());
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
