/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_all.c - the admin pages about all keys: their list, and their removal
 *
 * Done in pieces, one a turn of the loop, so that the pool's clients do not
 * wait for it.
 */
#include <stdio.h>

#include <event2/buffer.h>

#include "base/conf.h"
#include "base/mem.h"
#include "store/core/codes.h"
#include "store/server/admin.h"
#include "store/server/admin_body.h"
#include "store/server/admin_reply.h"
#include "store/server/state.h"

/*
 * A piece: until this is full, some 250 keys, or so many buckets are seen. Each
 * key costs several cache misses, up to 2 us with millions of objects.
 */
#define PIECE        (16u << 10)
#define WALK_BUCKETS 2u
#define WALKS_MAX    32

/* ---- all keys ---- */

struct listing {
	const struct tes_server *server;
	char tenant[TES_CORE_TENANT_MAX + 1];
	size_t cursor;
};

/* Keys may hold any bytes; those that are no text are written %XX. */
static void add_key(const struct tes_core_key *key, void *arg)
{
	static const char digits[] = "0123456789ABCDEF";
	const unsigned char *from = key->bytes;
	char line[3 * TES_CORE_KEY_MAX + 1], *to = line;
	struct evbuffer *out = arg;

	for (size_t i = 0; i < key->len; i++) {
		if (from[i] >= ' ' && from[i] != 0x7f) {
			*to++ = (char)from[i];
			continue;
		}
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

	for (int i = 0; i < WALKS_MAX && evbuffer_get_length(out) < PIECE; i++)
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

/* One at a time, so that what the core answers is known to be its. */
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

/* Its slices go with ticks: hurry, somebody waits, but not for owners. */
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
