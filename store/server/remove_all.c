/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remove_all.c - removes that look at the whole table
 *
 * The core walks in ticks; its reply comes by the cookie of the event, and goes
 * to the client's main connection if that is still the same session.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/core/codes.h"
#include "store/proto/store.pb-c.h"
#include "store/proto/strings.h"
#include "store/server/match.h"
#include "store/server/state.h"

/* One that the core is at. */
struct walk {
	struct tei_list link; /* server's walks */
	uint64_t cookie, request;
	tes_session_id session;
	struct tes_server_match *match; /* NULL: all keys */
	bool left; /* nobody waits for the answer any more */
};

static void answer(struct tes_server_link *link, uint64_t request, int32_t code,
		   uint64_t removed, const char *why)
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

static void begin(struct tes_server_link *link, struct walk *w, bool force)
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
		answer(link, w->request, CODE_INTERNAL, 0, "out of memory");
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
				     f->len)) {
		tei_frame_bad(link->conn, "remove all does not decode");
		return;
	}
	w = tei_calloc(1, sizeof(*w));
	if (!w) {
		answer(link, f->id, CODE_INTERNAL, 0, "out of memory");
		return;
	}
	tei_list_init(&w->link);
	w->request = f->id;
	if (*m->pattern)
		rc = tes_server_match_create(m->pattern, &w->match, why);
	if (!rc) {
		begin(link, w, m->force != 0);
		return;
	}
	answer(link, f->id, rc == -EINVAL ? CODE_ARGUMENT : CODE_INTERNAL, 0,
	       why);
	free_walk(w);
}

static void count(struct tes_server *s, const struct walk *w, int32_t code)
{
	enum tes_server_op op = w->match ? TES_SERVER_OP_REMOVE_BY_REGEX
					 : TES_SERVER_OP_REMOVE_ALL;

	s->counters.op[op].requests++;
	s->counters.op[op].failures += code != 0;
}

static struct walk *find(const struct tes_server *s, uint64_t cookie)
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
	struct walk *w = find(s, action->cookie);
	struct tes_server_session *session;
	int32_t code = action->u.reply.code;
	const char *why = "";

	if (!w)
		return;
	if (code == CODE_ARGUMENT)
		why = "another one of this client is under way";
	if (w->match && tes_server_match_failed(w->match)) {
		code = CODE_ARGUMENT;
		why = "the pattern takes too long";
	}
	count(s, w, code);
	session = tes_server_session_find(s, w->session);
	if (session && session->main && !w->left)
		answer(session->main, w->request, code, action->u.reply.removed,
		       why);
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
