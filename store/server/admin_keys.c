/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_keys.c - the admin pages about single keys
 *
 * Nobody gets a lease and nothing is counted as read.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/mem.h"
#include "base/text.h"
#include "store/core/codes.h"
#include "store/proto/store.pb-c.h"
#include "store/proto/strings.h"
#include "store/server/admin.h"
#include "store/server/admin_reply.h"
#include "store/server/match.h"
#include "store/server/state.h"

#define PLACES_MAX (TES_CORE_REPLICAS_MAX * 64)
#define KEYS_MAX   1024 /* of one batch_query_keys */
/* A piece of a long answer ends at so many bytes, or after so long. */
#define REPLY_PIECE (32u << 10)
#define PIECE_NS    (TEI_NS_PER_MS / 4)

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

/*
 * Returns where @tenant's @key is, as JSON; NULL with *code 0: out of memory.
 */
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
	size_t n, n_sent;
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

/* Cuts "a,b,c" into keys. Returns NULL, or what is wrong. */
static const char *split_query(struct queries *q)
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
	uint64_t since = tei_now_ns();

	while (q->n_sent < q->n && evbuffer_get_length(out) < REPLY_PIECE &&
	       tei_now_ns() - since < PIECE_NS) {
		if (q->n_sent)
			evbuffer_add(out, ",", 1);
		if (add_query(q, q->at[q->n_sent++], out))
			return -ENOMEM;
	}
	if (q->n_sent < q->n)
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
	why = split_query(q);
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

/*
 * The admin pages about all keys: their list, and their removal.
 *
 * Done in pieces, one a turn of the loop, so that the pool's clients do not
 * wait for it.
 */

/*
 * A piece: until this is full, some 250 keys, or its time is over. Each key
 * costs several cache misses, up to 2 us with millions of objects.
 */
#define WALK_PIECE   (16u << 10)
#define WALK_BUCKETS 2u

/* ---- all keys ---- */

struct listing {
	const struct tes_server *server;
	char tenant[TES_CORE_TENANT_MAX + 1];
	size_t cursor;
};

/*
 * Keys may hold any bytes; those that a line cannot show are written %XX, and
 * so is '%', so that each line stands for one key.
 */
static void add_key(const struct tes_core_key *key, void *arg)
{
	static const char digits[] = "0123456789ABCDEF";
	const unsigned char *from = key->bytes;
	char line[3 * TES_CORE_KEY_MAX + 1], *to = line;
	struct evbuffer *out = arg;
	size_t n;

	for (size_t i = 0; i < key->len; i += n) {
		n = tei_text_shown_len(from + i, key->len - i);
		if (n && from[i] != '%') {
			memcpy(to, from + i, n);
			to += n;
			continue;
		}
		n = 1;
		*to++ = '%';
		*to++ = digits[from[i] >> 4];
		*to++ = digits[from[i] & 15];
	}
	*to++ = '\n';
	evbuffer_add(out, line, (size_t)(to - line));
}

static int more_keys(struct evbuffer *out, void *state)
{
	struct listing *l = state;
	uint64_t since = tei_now_ns();

	while (evbuffer_get_length(out) < WALK_PIECE &&
	       tei_now_ns() - since < PIECE_NS)
		if (!tes_core_keys(l->server->core, l->tenant, &l->cursor,
				   WALK_BUCKETS, add_key, out))
			return 0;
	return 1;
}

int tes_server_admin_all_keys(const struct tei_http_request *request,
			      struct tei_http_reply *reply, void *arg)
{
	struct listing *l;
	const char *tenant;
	int status;

	tenant = tes_server_admin_tenant(arg, request, reply, &status);
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

/* A removal; one runs at a time, so that the core's answers belong to it. */
struct tes_server_removal {
	struct tes_server *server;
	bool over;
	int32_t code;
	uint64_t removed;
};

void tes_server_admin_removed(struct tes_server *s,
			      const struct tes_action *action)
{
	struct tes_server_removal *r = s->removal;

	if (!r)
		return; /* whoever asked for it has gone */
	r->over = true;
	r->code = action->u.reply.code;
	r->removed = action->u.reply.removed;
}

/*
 * Runs a slice of the walk now instead of with the next tick: a caller waits.
 */
static int more_removed(struct evbuffer *out, void *state)
{
	struct tes_server_removal *r = state;

	if (!r->over)
		tes_server_hurry(r->server);
	if (!r->over)
		return tes_core_busy(r->server->core) ? 1 : TEI_HTTP_NOT_YET;
	evbuffer_add_printf(out, "{\"success\":%s,\"removed_count\":%llu}\n",
			    r->code ? "false" : "true",
			    (unsigned long long)r->removed);
	return 0;
}

static void removal_done(void *state)
{
	struct tes_server_removal *r = state;

	r->server->removal = NULL;
	tei_free(r);
}

static int start_removal(struct tes_server *s, const char *tenant, bool force)
{
	struct tes_event ev = {.type = TES_EVENT_REMOVE_ALL};

	s->removal = tei_calloc(1, sizeof(*s->removal));
	if (!s->removal)
		return 500;
	s->removal->server = s;
	ev.u.remove_all.force = force;
	ev.u.remove_all.tenant = tenant;
	if (!tes_server_step(s, &ev, NULL, NULL) && !s->removal->code)
		return 200;
	tei_free(s->removal);
	s->removal = NULL;
	return 503;
}

int tes_server_admin_remove_all(const struct tei_http_request *request,
				struct tei_http_reply *reply, void *arg)
{
	static const char *const params[] = {"force", "tenant_id"};
	struct tes_server *s = arg;
	bool force = false;
	const char *text, *tenant;
	size_t len;
	int status;

	if (!tes_server_admin_params(request, params, 2, reply))
		return 400;
	tenant = tes_server_admin_tenant(s, request, reply, &status);
	if (status)
		return status;
	text = tei_http_query(request, "force", &len);
	if (text && len && tei_parse_bool(text, &force))
		return tes_server_admin_wrong(reply, "force is true or false");
	if (request->len)
		return tes_server_admin_wrong(reply, "no body is expected");
	s->counters.op[TES_SERVER_OP_REMOVE_ALL].requests++;
	status = s->removal ? 503 : start_removal(s, tenant, force);
	if (status != 200)
		s->counters.op[TES_SERVER_OP_REMOVE_ALL].failures++;
	if (status == 503)
		return tes_server_admin_error(reply, 503, CODE_MODE,
					      "keys are being removed already");
	if (status != 200)
		return status;
	reply->type = "application/json";
	reply->more = more_removed;
	reply->done = removal_done;
	reply->state = s->removal;
	return 200;
}

/*
 * Removes that look at the whole table.
 *
 * The core walks in ticks; its reply comes by the cookie of the event, and goes
 * to the client's main connection if that is still the same session.
 */

/* A walk that the core is at. */
struct walk {
	struct tei_list link; /* server's walks */
	uint64_t cookie, request;
	tes_session_id session;
	struct tes_server_match *match; /* NULL: all keys */
	bool left; /* nobody waits for the answer any more */
};

static void answer_walk(struct tes_server_link *link, uint64_t request,
			int32_t code, uint64_t removed, const char *why)
{
	Store__RemoveAllReply m = STORE__REMOVE_ALL_REPLY__INIT;

	m.status = code;
	m.removed = removed;
	m.why = (char *)(uintptr_t)why; /* only read by packing */
	tei_frame_send(link->conn, STORE__STORE_TYPE__STORE_REMOVE_ALL,
		       TEI_FRAME_REPLY, request, &m.base);
}

static void free_walk(struct walk *w)
{
	tei_list_del(&w->link);
	tes_server_match_destroy(w->match);
	tei_free(w);
}

static void begin_walk(struct tes_server_link *link, struct walk *w, bool force)
{
	struct tes_server *s = link->server;
	struct tes_event ev = {.type = TES_EVENT_REMOVE_ALL};

	ev.session = w->session = link->session->id;
	ev.u.remove_all.force = force;
	ev.u.remove_all.match = w->match ? tes_server_match : NULL;
	ev.u.remove_all.arg = w->match;
	w->cookie = s->cookie + 1; /* of the step */
	tei_list_add_tail(&s->walks, &w->link);
	if (tes_server_step(s, &ev, NULL, NULL)) {
		answer_walk(link, w->request, CODE_INTERNAL, 0,
			    "out of memory");
		free_walk(w);
		return;
	}
	tes_server_hurry(s); /* most pools are small */
}

void tes_server_on_remove_all(struct tes_server_link *link,
			      const struct tei_frame *f)
{
	struct tes_server *s = link->server;
	const Store__RemoveAll *m = store__remove_all__unpack(
		&s->in.pb, f->len, f->len ? f->body : (const uint8_t *)"");
	char why[TES_SERVER_MATCH_WHY_LEN];
	struct walk *w;
	int rc = 0;

	if (!m || !tes_strings_whole(&store__remove_all__descriptor, f->body,
				     f->len, 0)) {
		tei_frame_bad(link->conn, "remove all does not decode");
		return;
	}
	w = tei_calloc(1, sizeof(*w));
	if (!w) {
		answer_walk(link, f->id, CODE_INTERNAL, 0, "out of memory");
		return;
	}
	tei_list_init(&w->link);
	w->request = f->id;
	if (*m->pattern)
		rc = tes_server_match_create(m->pattern, &w->match, why);
	if (!rc) {
		begin_walk(link, w, m->force != 0);
		return;
	}
	answer_walk(link, f->id, rc == -EINVAL ? CODE_ARGUMENT : CODE_INTERNAL,
		    0, why);
	free_walk(w);
}

static void count_walk(struct tes_server *s, const struct walk *w, int32_t code)
{
	enum tes_server_op op = w->match ? TES_SERVER_OP_REMOVE_BY_REGEX
					 : TES_SERVER_OP_REMOVE_ALL;

	s->counters.op[op].requests++;
	s->counters.op[op].failures += code != 0;
}

static struct walk *find_walk(const struct tes_server *s, uint64_t cookie)
{
	tei_list_for_each (link, &s->walks) {
		struct walk *w = tei_list_entry(link, struct walk, link);

		if (w->cookie == cookie)
			return w;
	}
	return NULL;
}

void tes_server_remove_all_done(struct tes_server *s,
				const struct tes_action *action)
{
	struct walk *w = find_walk(s, action->cookie);
	struct tes_server_session *session;
	int32_t code = action->u.reply.code;
	const char *why = "";

	if (!w)
		return;
	if (code == CODE_ARGUMENT)
		why = "another one of this client is under way";
	if (w->match && tes_server_match_failed(w->match)) {
		code = CODE_ARGUMENT;
		why = "the pattern takes too long: above 10000 steps for a "
		      "key, or 1000 for each of many; anchor or simplify it";
	}
	count_walk(s, w, code);
	session = tes_server_session_find(s, w->session);
	if (session && session->main && !w->left)
		answer_walk(session->main, w->request, code,
			    action->u.reply.removed, why);
	free_walk(w);
}

void tes_server_remove_all_left(struct tes_server *s, tes_session_id session)
{
	tei_list_for_each (link, &s->walks) {
		struct walk *w = tei_list_entry(link, struct walk, link);

		if (w->session != session)
			continue;
		w->left = true;
		if (w->match)
			tes_server_match_stop(w->match);
	}
}

void tes_server_remove_all_free(struct tes_server *s)
{
	while (!tei_list_empty(&s->walks))
		free_walk(tei_list_entry(s->walks.next, struct walk, link));
}
