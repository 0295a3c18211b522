/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_keys.c - the admin pages about keys
 *
 * Nobody gets a lease and nothing is counted as read. What concerns all keys is
 * done in pieces, one a turn of the loop, so that the pool's clients do not
 * wait for it.
 */
#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>

#include "base/conf.h"
#include "base/mem.h"
#include "store/server/admin.h"
#include "store/server/admin_reply.h"
#include "store/server/state.h"

#define PLACES_MAX (TEI_CORE_REPLICAS_MAX * 64)
#define KEYS_MAX   1024 /* of one batch_query_keys */
/* Of one piece: some 500 keys, each of which costs several cache misses. */
#define PIECE         (64u << 10)
#define WALK_BUCKETS  64u
#define WALKS_MAX     8
#define CODE_ARGUMENT (-600)
#define CODE_BUSY     (-1011)

/* ---- where keys are ---- */

static json_t *places_json(const struct tei_core_place *places, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		const struct tei_core_place *p = &places[i];
		json_t *place = json_pack(
			"{s:I,s:I,s:s,s:o,s:o,s:i}", "size_",
			(json_int_t)p->length, "buffer_address_",
			(json_int_t)p->address, "protocol_", "tcp",
			"transport_endpoint_",
			tei_server_admin_string(p->engine), "segment_",
			tei_server_admin_string(p->segment), "replica_",
			(int)p->replica);

		if (json_array_append_new(list, place)) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* Where @tenant's @key is, as JSON; NULL with *code 0: out of memory. */
static json_t *query(const struct tei_server *s, const char *tenant,
		     const char *key, size_t len, int32_t *code)
{
	struct tei_core_place *places =
		tei_malloc(PLACES_MAX * sizeof(*places));
	const struct tei_core_key k = {key, len};
	json_t *list = NULL;
	uint64_t size;
	size_t n;

	*code = 0;
	if (!places)
		return NULL;
	*code = tei_core_key_query(s->core, tenant, &k, places, PLACES_MAX, &n,
				   &size);
	if (!*code)
		list = places_json(places, n);
	tei_free(places);
	return list;
}

int tei_server_admin_query_key(const struct tei_http_request *request,
			       struct tei_http_reply *reply, void *arg)
{
	const char *key, *tenant;
	json_t *places;
	int32_t code;
	size_t len;
	int status;

	tenant = tei_server_admin_tenant(arg, request, reply, &status);
	if (status)
		return status;
	key = tei_http_query(request, "key", &len);
	if (!key || !len)
		return tei_server_admin_error(reply, 400, CODE_ARGUMENT,
					      "parameter key is missing");
	places = query(arg, tenant, key, len, &code);
	if (code)
		return tei_server_admin_code(reply, code);
	return tei_server_admin_json(
		reply, 200,
		places ? json_pack("{s:b,s:o}", "success", 1, "data", places)
		       : NULL);
}

/* {"ok":true,"values":[..],...} or {"ok":false,"error":".."} */
static json_t *key_json(const struct tei_server *s, const char *tenant,
			const char *key)
{
	int32_t code;
	json_t *places = query(s, tenant, key, strlen(key), &code);

	if (code)
		return json_pack("{s:b,s:i,s:s}", "ok", 0, "error_code", code,
				 "error", tei_server_code_name(code));
	if (!places)
		return NULL;
	return json_pack("{s:b,s:o,s:[],s:[],s:[]}", "ok", 1, "values", places,
			 "disk_values", "local_disk_values", "nof_values");
}

/* 0, or the status of an answer that has been made. */
static int add_keys(const struct tei_server *s, const char *tenant, char *keys,
		    json_t *all, struct tei_http_reply *reply)
{
	size_t n = 0;

	for (char *at = keys, *stop; at; at = stop) {
		json_t *key;

		stop = strchr(at, ',');
		if (stop)
			*stop++ = '\0';
		if (!*at || ++n > KEYS_MAX)
			return tei_server_admin_error(
				reply, 400, CODE_ARGUMENT,
				"keys is a list of up to 1024 keys: a,b,c");
		key = json_string(at); /* NULL also when it is no UTF-8 */
		if (!key)
			return tei_server_admin_error(
				reply, 400, CODE_ARGUMENT,
				"a key is not UTF-8, see /query_key");
		json_decref(key);
		if (json_object_set_new(all, at, key_json(s, tenant, at)))
			return 500;
	}
	return 0;
}

int tei_server_admin_query_keys(const struct tei_http_request *request,
				struct tei_http_reply *reply, void *arg)
{
	const char *keys, *tenant;
	json_t *all = NULL;
	char *copy;
	int status;

	tenant = tei_server_admin_tenant(arg, request, reply, &status);
	if (status)
		return status;
	keys = tei_server_admin_text(request, "keys", reply);
	if (!keys)
		return 400;
	copy = tei_strdup(keys);
	if (copy)
		all = json_object();
	status = all ? add_keys(arg, tenant, copy, all, reply) : 500;
	tei_free(copy);
	if (status) {
		json_decref(all);
		return status;
	}
	return tei_server_admin_json(
		reply, 200, json_pack("{s:b,s:o}", "success", 1, "data", all));
}

/* ---- all keys ---- */

struct listing {
	const struct tei_server *server;
	char tenant[TEI_CORE_TENANT_MAX + 1];
	size_t cursor;
};

/* Keys may hold any bytes; those that are no text are written %xx. */
static void add_key(const struct tei_core_key *key, void *arg)
{
	const unsigned char *at = key->bytes;
	struct evbuffer *out = arg;
	size_t from = 0;

	for (size_t i = 0; i < key->len; i++) {
		if (at[i] >= ' ' && at[i] != 0x7f)
			continue;
		evbuffer_add(out, at + from, i - from);
		evbuffer_add_printf(out, "%%%02X", at[i]);
		from = i + 1;
	}
	evbuffer_add(out, at + from, key->len - from);
	evbuffer_add(out, "\n", 1);
}

static int more_keys(struct evbuffer *out, void *state)
{
	struct listing *l = state;

	for (int i = 0; i < WALKS_MAX && evbuffer_get_length(out) < PIECE; i++)
		if (!tei_core_keys(l->server->core, l->tenant, &l->cursor,
				   WALK_BUCKETS, add_key, out))
			return 0;
	return 1;
}

int tei_server_admin_all_keys(const struct tei_http_request *request,
			      struct tei_http_reply *reply, void *arg)
{
	struct listing *l;
	const char *tenant;
	int status;

	tenant = tei_server_admin_tenant(arg, request, reply, &status);
	if (status)
		return status;
	l = tei_calloc(1, sizeof(*l));
	if (!l)
		return 500;
	l->server = arg;
	if (tenant) /* one that is there, so it fits */
		snprintf(l->tenant, sizeof(l->tenant), "%s", tenant);
	reply->more = more_keys;
	reply->done = tei_free;
	reply->state = l;
	return 200;
}

/* ---- remove all ---- */

/* One at a time, so that what the core answers is known to be its. */
struct tei_server_removal {
	struct tei_server *server;
	bool over;
	int32_t code;
	uint64_t removed;
};

void tei_server_admin_removed(struct tei_server *s,
			      const struct tei_action *action)
{
	struct tei_server_removal *r = s->removal;

	if (!r)
		return; /* whoever asked for it has gone */
	r->over = true;
	r->code = action->u.reply.code;
	r->removed = action->u.reply.removed;
}

/* Its slices go with ticks: hurry, somebody waits. */
static int more_removed(struct evbuffer *out, void *state)
{
	struct tei_event tick = {.type = TEI_EVENT_TICK};
	struct tei_server_removal *r = state;

	if (!r->over)
		tei_server_step(r->server, &tick, NULL, NULL);
	if (!r->over)
		return 1;
	evbuffer_add_printf(out, "{\"success\":%s,\"removed_count\":%llu}\n",
			    r->code ? "false" : "true",
			    (unsigned long long)r->removed);
	return 0;
}

static void removal_done(void *state)
{
	struct tei_server_removal *r = state;

	r->server->removal = NULL;
	tei_free(r);
}

static int start_removal(struct tei_server *s, const char *tenant, bool force)
{
	struct tei_event ev = {.type = TEI_EVENT_REMOVE_ALL};

	s->removal = tei_calloc(1, sizeof(*s->removal));
	if (!s->removal)
		return 500;
	s->removal->server = s;
	ev.u.remove_all.force = force;
	ev.u.remove_all.tenant = tenant;
	if (!tei_server_step(s, &ev, NULL, NULL) && !s->removal->code)
		return 200;
	tei_free(s->removal);
	s->removal = NULL;
	return 503;
}

int tei_server_admin_remove_all(const struct tei_http_request *request,
				struct tei_http_reply *reply, void *arg)
{
	struct tei_server *s = arg;
	bool force = false;
	const char *text, *tenant;
	size_t len;
	int status;

	tenant = tei_server_admin_tenant(s, request, reply, &status);
	if (status)
		return status;
	text = tei_http_query(request, "force", &len);
	if (text && len && tei_parse_bool(text, &force))
		return tei_server_admin_error(reply, 400, CODE_ARGUMENT,
					      "force is true or false");
	if (request->len)
		return tei_server_admin_error(reply, 400, CODE_ARGUMENT,
					      "no body is expected");
	s->counters.op[TEI_SERVER_OP_REMOVE_ALL].requests++;
	status = s->removal ? 503 : start_removal(s, tenant, force);
	if (status != 200)
		s->counters.op[TEI_SERVER_OP_REMOVE_ALL].failures++;
	if (status == 503)
		return tei_server_admin_error(reply, 503, CODE_BUSY,
					      "keys are being removed already");
	if (status != 200)
		return status;
	reply->type = "application/json";
	reply->more = more_removed;
	reply->done = removal_done;
	reply->state = s->removal;
	return 200;
}
