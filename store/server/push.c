/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push.c - messages that the master pushes to owners: fences, burials, commits,
 * probes, tasks
 *
 * They go to the heartbeat connection. A push that is lost there is sent again:
 * the core waits for answers, or resynchronises the owner when it reconnects.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "store/proto/keys.h"
#include "store/proto/store.pb-c.h"
#include "store/server/state.h"

static struct tes_server_link *link_to(const struct tes_server *s,
				       tes_session_id id)
{
	struct tes_server_session *session = tes_server_session_find(s, id);

	if (!session)
		return NULL;
	return session->heart ? session->heart : session->main;
}

static bool has_room(const struct tes_server_link *link)
{
	return tei_frame_backlog(link->conn) <= TES_SERVER_BACKLOG_MAX;
}

/* Closes the connection; the client reconnects and is resynchronised. */
static void lost(struct tes_server_link *link)
{
	tei_frame_refuse_for_now(link->conn, "a push was lost");
}

static void push(const struct tes_server *s, tes_session_id to, uint16_t type,
		 const ProtobufCMessage *m)
{
	struct tes_server_link *link = link_to(s, to);

	if (link &&
	    (!has_room(link) || tei_frame_send(link->conn, type, 0, 0, m)))
		lost(link);
}

/* With the next push, or the next tick. */
static void push_lazily(struct tes_server *s, tes_session_id to, uint16_t type,
			const ProtobufCMessage *m)
{
	struct tes_server_link *link = link_to(s, to);

	if (!link)
		return;
	if (!has_room(link) || tei_frame_send_lazily(link->conn, type, m)) {
		lost(link);
		return;
	}
	s->lazy = link->lazy = true;
}

void tes_server_push_waiting(struct tes_server *s)
{
	if (!s->lazy)
		return;
	s->lazy = false;
	tei_list_for_each_safe (node, tmp, &s->links) {
		struct tes_server_link *link =
			tei_list_entry(node, struct tes_server_link, link);

		if (!link->lazy)
			continue;
		link->lazy = false;
		tei_frame_hurry(link->conn);
	}
}

void tes_server_push_fence(struct tes_server *s,
			   const struct tes_action *action)
{
	Store__Fence m = STORE__FENCE__INIT;

	m.fence = action->u.fence.fence;
	m.writer.data = (uint8_t *)(uintptr_t)action->u.fence.writer;
	m.writer.len = TES_CORE_ID_LEN;
	push(s, action->session, STORE__STORE_TYPE__STORE_FENCE, &m.base);
}

void tes_server_push_bury(struct tes_server *s, const struct tes_action *action)
{
	Store__Bury m = STORE__BURY__INIT;

	m.burial = action->u.bury.burial;
	m.n_address = m.n_generation = m.n_gen_epoch = action->u.bury.n;
	m.address = action->u.bury.address;
	m.generation = action->u.bury.generation;
	m.gen_epoch = action->u.bury.gen_epoch;
	if (m.burial)
		push(s, action->session, STORE__STORE_TYPE__STORE_BURY,
		     &m.base);
	else /* evicted: nobody waits */
		push_lazily(s, action->session, STORE__STORE_TYPE__STORE_BURY,
			    &m.base);
}

void tes_server_push_probe(struct tes_server *s,
			   const struct tes_action *action)
{
	Store__Probe m = STORE__PROBE__INIT;

	m.n = action->u.probe;
	push(s, action->session, STORE__STORE_TYPE__STORE_PROBE, &m.base);
}

static protobuf_c_boolean *booleans(struct tei_arena *arena, const bool *from,
				    size_t n)
{
	protobuf_c_boolean *to = tei_arena_alloc(arena, n * sizeof(*to));

	for (size_t i = 0; to && i < n; i++)
		to[i] = from[i];
	return to;
}

static bool are_all_0(const uint32_t *column, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (column[i])
			return false;
	return true;
}

/* The names as strings, each once where it comes several times in a row. */
static int fill_groups(Store__Objects *m, const struct tes_core_objects *c,
		       struct tei_arena *arena)
{
	const void *last = NULL;

	m->group = tei_arena_calloc(arena, c->n, sizeof(m->group[0]));
	m->groups = tei_arena_alloc(arena, c->n * sizeof(m->groups[0]));
	if (!m->group || !m->groups)
		return -1;
	for (size_t i = 0; i < c->n; i++) {
		const struct tes_core_key *name = &c->groups[i];
		char *copy;

		if (!name->len)
			continue;
		if (name->bytes != last) {
			copy = tei_arena_calloc(arena, name->len + 1, 1);
			if (!copy)
				return -1;
			memcpy(copy, name->bytes, name->len);
			m->groups[m->n_groups++] = copy;
			last = name->bytes;
		}
		m->group[i] = (uint32_t)m->n_groups;
	}
	m->n_group = m->n_groups ? c->n : 0;
	return 0;
}

static int fill(Store__Objects *m, const struct tes_core_objects *c,
		struct tei_arena *arena)
{
	struct tes_key_column column;
	size_t bytes = 0;

	for (size_t i = 0; i < c->n; i++)
		bytes += c->keys[i].len;
	if (tes_key_column_init(&column, arena, c->n, bytes))
		return -1;
	for (size_t i = 0; i < c->n; i++)
		tes_key_column_add(&column, c->keys[i].bytes, c->keys[i].len);
	m->keys = column.bytes;
	m->key_lens = column.lens;
	m->n_key_lens = m->n_generation = m->n_gen_epoch = m->n_size =
		m->n_extents = m->n_no_crc = c->n;
	m->n_address = m->n_length = m->n_crc = c->n_entries;
	m->generation = c->generation;
	m->gen_epoch = c->gen_epoch;
	m->size = c->size;
	m->extents = c->extents;
	m->address = c->address;
	m->length = c->length;
	m->crc = c->crc;
	m->no_crc = booleans(arena, c->no_crc, c->n);
	m->attributes = c->attributes;
	m->n_attributes = are_all_0(c->attributes, c->n) ? 0 : c->n;
	m->soft_pin_ms = c->pin_ms;
	m->n_soft_pin_ms = c->pin_ms ? c->n : 0;
	if (c->groups && fill_groups(m, c, arena))
		return -1;
	if (c->n_tenants) {
		m->n_tenant = c->n;
		m->tenant = c->tenant;
		m->n_tenants = c->n_tenants;
		m->tenants = (char **)(uintptr_t)c->tenants; /* only read */
	}
	return m->no_crc ? 0 : -1;
}

void tes_server_push_task(struct tes_server *s, const struct tes_action *action)
{
	struct tes_server_link *link = link_to(s, action->session);
	Store__Task m = STORE__TASK__INIT;
	Store__Objects source = STORE__OBJECTS__INIT;
	Store__Segment target = STORE__SEGMENT__INIT;

	if (!link)
		return;
	if (fill(&source, &action->u.task.source, &s->out)) {
		LOG_ERROR("master: out of memory for a task");
		tei_frame_refuse_for_now(link->conn, "out of memory");
		return;
	}
	m.id.data = (uint8_t *)(uintptr_t)action->u.task.id;
	m.id.len = TES_CORE_ID_LEN;
	m.source = &source;
	target.engine = (char *)(uintptr_t)action->u.task.target.engine;
	target.incarnation.data =
		(uint8_t *)(uintptr_t)action->u.task.target.incarnation;
	target.incarnation.len = TES_CORE_ID_LEN;
	m.target = &target;
	m.n_address = m.n_length = action->u.task.n;
	m.address = action->u.task.address;
	m.length = action->u.task.length;
	m.epoch = s->epoch;
	m.timeout_ms = action->u.task.timeout_ms;
	push(s, action->session, STORE__STORE_TYPE__STORE_TASK, &m.base);
}

void tes_server_push_committed(struct tes_server *s,
			       const struct tes_action *action)
{
	struct tes_server_link *link = link_to(s, action->session);
	Store__Committed m = STORE__COMMITTED__INIT;
	Store__Objects objects = STORE__OBJECTS__INIT;
	const uint8_t *segment = action->u.committed.segment;

	if (!link)
		return;
	if (fill(&objects, &action->u.committed.objects, &s->out)) {
		LOG_ERROR("master: out of memory to tell an owner");
		tei_frame_refuse_for_now(link->conn, "out of memory");
		return;
	}
	m.objects = &objects;
	if (segment) {
		m.segment.data = (uint8_t *)(uintptr_t)segment;
		m.segment.len = TES_CORE_ID_LEN;
	}
	m.begins = action->u.committed.begins;
	m.ends = action->u.committed.ends;
	push(s, action->session, STORE__STORE_TYPE__STORE_COMMITTED, &m.base);
}

/* news.c - a line of the log for what operators want to know of owners */

#define MIB (1024.0 * 1024)

void tes_server_tell_mount(const struct tes_server *s, bool kept)
{
	const struct tes_event *ev = s->call.event;
	const struct tes_server_link *link = s->call.link;
	const char *engine =
		link && link->session ? link->session->engine : NULL;

	LOG_INFO("master: owner %s lends %.1f MiB%s", engine ? engine : "?",
		 (double)ev->u.mount.size / MIB, kept ? ", as before" : "");
}

void tes_server_tell_owner(const struct tes_action *action)
{
	const char *engine = action->u.owner.engine;
	double s = (double)action->u.owner.silent_ms / 1000;

	switch (action->u.owner.news) {
	case TES_OWNER_SILENT:
		if (action->u.owner.left)
			LOG_WARN("master: the connection of owner %s ended: "
				 "its objects are misses until it is back",
				 engine);
		else
			LOG_WARN("master: owner %s is silent for %.1f s: its "
				 "objects are misses until it is back",
				 engine, s);
		break;
	case TES_OWNER_BACK:
		LOG_INFO("master: owner %s is back, with its objects", engine);
		break;
	case TES_OWNER_GONE:
		LOG_WARN("master: owner %s is given up after %.1f s: its "
			 "objects are gone",
			 engine, s);
		break;
	}
}

/*
 * later.c - requests whose reply comes with a later step
 *
 * The core answers some only when owners have confirmed something. Of those
 * the frame's id and the columns' length are kept, by the event's cookie, as
 * long as the connection is there.
 */

struct later {
	struct tei_hash_node node; /* server's laters */
	struct tei_list link;      /* the link's */
	struct tes_server_link *from;
	uint64_t cookie;
	struct tei_frame frame;
	struct tes_event event;
};

/* Marks a finished put end that was more than a revoke, for the counters. */
static const uint32_t some_written = 1;

static void forget(struct tes_server *s, struct later *later)
{
	tei_hash_remove(&s->laters, &later->node);
	tei_list_del(&later->link);
	tei_free(later);
}

void tes_server_later(struct tes_server *s)
{
	struct tes_server_call *call = &s->call;
	struct later *later = tei_calloc(1, sizeof(*later));

	if (!later) {
		LOG_ERROR("master: out of memory for a reply");
		tei_frame_refuse_for_now(call->link->conn, "out of memory");
		return;
	}
	later->from = call->link;
	later->cookie = s->cookie;
	later->frame.type = call->frame->type;
	later->frame.id = call->frame->id;
	later->event.type = call->event->type;
	later->event.n = call->event->n;
	if (later->event.type == TES_EVENT_PUT_END)
		later->event.u.put_end.written = &some_written;
	tei_hash_insert(&s->laters, &later->node, later->cookie);
	tei_list_add_tail(&call->link->laters, &later->link);
}

void tes_server_reply_later(struct tes_server *s,
			    const struct tes_action *action)
{
	struct tes_server_call call = s->call;
	struct tei_hash_node *node = tei_hash_first(&s->laters, action->cookie);
	struct later *later;

	if (!node)
		return; /* the connection has gone */
	later = TEI_CONTAINER(node, struct later, node);
	s->call = (struct tes_server_call){
		later->from,
		&later->frame,
		&later->event,
	};
	tes_server_reply(s, action);
	s->call = call;
	forget(s, later);
}

void tes_server_laters_drop(struct tes_server_link *link)
{
	while (!tei_list_empty(&link->laters))
		forget(link->server,
		       tei_list_entry(link->laters.next, struct later, link));
}
