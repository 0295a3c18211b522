/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_keys.c - the admin pages about single keys
 *
 * Nobody gets a lease and nothing is counted as read.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "store/server/admin.h"
#include "store/server/admin_reply.h"
#include "store/server/state.h"

#define PLACES_MAX (TES_CORE_REPLICAS_MAX * 64)
#define KEYS_MAX   1024 /* of one batch_query_keys */
/* A piece of an answer about many: until this is full, or so many are told. */
#define PIECE      (32u << 10)
#define PIECE_KEYS 128

static json_t *places_json(const struct tes_core_place *places, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		const struct tes_core_place *p = &places[i];
		json_t *place = json_pack(
			"{s:I,s:I,s:s,s:o,s:o,s:i}", "size_",
			(json_int_t)p->length, "buffer_address_",
			(json_int_t)p->address, "protocol_", "tcp",
			"transport_endpoint_",
			tes_server_admin_string(p->engine), "segment_",
			tes_server_admin_string(p->segment), "replica_",
			(int)p->replica);

		if (json_array_append_new(list, place)) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* Where @tenant's @key is, as JSON; NULL with *code 0: out of memory. */
static json_t *query(const struct tes_server *s, const char *tenant,
		     const char *key, size_t len, int32_t *code)
{
	struct tes_core_place *places =
		tei_malloc(PLACES_MAX * sizeof(*places));
	const struct tes_core_key k = {key, len};
	json_t *list = NULL;
	uint64_t size;
	size_t n;

	*code = 0;
	if (!places)
		return NULL;
	*code = tes_core_key_query(s->core, tenant, &k, places, PLACES_MAX, &n,
				   &size);
	if (!*code)
		list = places_json(places, n);
	tei_free(places);
	return list;
}

int tes_server_admin_query_key(const struct tei_http_request *request,
			       struct tei_http_reply *reply, void *arg)
{
	const char *key, *tenant;
	json_t *places;
	int32_t code;
	size_t len;
	int status;

	tenant = tes_server_admin_tenant(arg, request, reply, &status);
	if (status)
		return status;
	key = tei_http_query(request, "key", &len);
	if (!key || !len)
		return tes_server_admin_wrong(reply,
					      "parameter key is missing");
	places = query(arg, tenant, key, len, &code);
	if (code)
		return tes_server_admin_code(reply, code);
	return tes_server_admin_json(
		reply, 200,
		places ? json_pack("{s:b,s:o}", "success", 1, "data", places)
		       : NULL);
}

/* {"ok":true,"values":[..],...} or {"ok":false,"error":".."} */
static json_t *key_json(const struct tes_server *s, const char *tenant,
			const char *key)
{
	int32_t code;
	json_t *places = query(s, tenant, key, strlen(key), &code);

	if (code)
		return json_pack("{s:b,s:i,s:s}", "ok", 0, "error_code", code,
				 "error", tes_server_code_name(code));
	if (!places)
		return NULL;
	return json_pack("{s:b,s:o,s:[],s:[],s:[]}", "ok", 1, "values", places,
			 "disk_values", "local_disk_values", "nof_values");
}

/* ---- many keys ---- */

/* Told in pieces, one a turn of the loop: a key may be in very many places. */
struct queries {
	const struct tes_server *server;
	char tenant[TES_CORE_TENANT_MAX + 1];
	char *text;      /* what the keys point into */
	const char **at; /* at[n], sorted, no two alike */
	size_t n, told;
};

static void queries_free(void *state)
{
	struct queries *q = state;

	tei_free(q->text);
	tei_free(q->at);
	tei_free(q);
}

static struct queries *queries_new(const struct tes_server *s,
				   const char *tenant, const char *text)
{
	struct queries *q = tei_calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->server = s;
	if (tenant) /* one that is there, so it fits */
		snprintf(q->tenant, sizeof(q->tenant), "%s", tenant);
	q->text = tei_strdup(text);
	q->at = tei_calloc(KEYS_MAX, sizeof(*q->at));
	if (q->text && q->at)
		return q;
	queries_free(q);
	return NULL;
}

static int by_text(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

static void sort(struct queries *q)
{
	size_t n = 0;

	qsort(q->at, q->n, sizeof(*q->at), by_text);
	for (size_t i = 0; i < q->n; i++)
		if (!n || strcmp(q->at[n - 1], q->at[i]) != 0)
			q->at[n++] = q->at[i];
	q->n = n;
}

/* Cut "a,b,c" into keys; NULL, or what is wrong. */
static const char *split(struct queries *q)
{
	for (char *at = q->text, *stop; at; at = stop) {
		stop = strchr(at, ',');
		if (stop)
			*stop++ = '\0';
		if (!*at || q->n == KEYS_MAX)
			return "keys is a list of up to 1024 keys: a,b,c";
		if (!tei_utf8_is_text(at, strlen(at)))
			return "a key is not UTF-8, see /query_key";
		q->at[q->n++] = at;
	}
	sort(q);
	return NULL;
}

/* "key":{..} */
static int add_query(const struct queries *q, const char *key,
		     struct evbuffer *out)
{
	if (tes_server_admin_print(out, json_string(key)))
		return -ENOMEM;
	evbuffer_add(out, ":", 1);
	return tes_server_admin_print(out, key_json(q->server, q->tenant, key));
}

static int more_queries(struct evbuffer *out, void *state)
{
	struct queries *q = state;

	for (int i = 0; i < PIECE_KEYS && q->told < q->n &&
			evbuffer_get_length(out) < PIECE;
	     i++) {
		if (q->told)
			evbuffer_add(out, ",", 1);
		if (add_query(q, q->at[q->told++], out))
			return -ENOMEM;
	}
	if (q->told < q->n)
		return 1;
	evbuffer_add_printf(out, "}}\n");
	return 0;
}

int tes_server_admin_query_keys(const struct tei_http_request *request,
				struct tei_http_reply *reply, void *arg)
{
	const char *keys, *tenant, *why;
	struct queries *q;
	int status;

	tenant = tes_server_admin_tenant(arg, request, reply, &status);
	if (status)
		return status;
	keys = tes_server_admin_text(request, "keys", reply);
	if (!keys)
		return 400;
	q = queries_new(arg, tenant, keys);
	if (!q)
		return 500;
	why = split(q);
	if (why) {
		queries_free(q);
		return tes_server_admin_wrong(reply, "%s", why);
	}
	reply->type = "application/json";
	evbuffer_add_printf(reply->body, "{\"success\":true,\"data\":{");
	reply->more = more_queries;
	reply->done = queries_free;
	reply->state = q;
	return 200;
}
