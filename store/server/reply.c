/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply.c - the core's actions to messages
 *
 * A reply to a batch has every column as long as the request's keys, also when
 * the call failed as a whole: then the status says so for each key and the
 * rest is zero. So readers need one check only.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/core/codes.h"
#include "store/proto/store.pb-c.h"
#include "store/server/state.h"

/* Columns that a reply is encoded from. */
struct columns {
	struct tes_server *server;
	const struct tes_action *action;
	size_t n;
	int32_t *status;
	bool failed; /* out of memory on the way */
};

static void send_reply(struct tes_server *s, const ProtobufCMessage *m)
{
	struct tes_server_link *link = s->call.link;
	int rc;

	if (!link)
		return;
	rc = tei_frame_reply(link->conn, s->call.frame, m);
	if (rc < 0)
		LOG_WARN("master: a reply was lost: %s", strerror(-rc));
}

static void *zeros(struct columns *c, size_t item)
{
	void *p = tei_arena_calloc(&c->server->out, c->n, item);

	if (!p)
		c->failed = true;
	return p;
}

/* The core's column, or zeros where it gave none. */
static uint64_t *u64s(struct columns *c, uint64_t *column)
{
	return column ? column : zeros(c, sizeof(*column));
}

static uint32_t *u32s(struct columns *c, uint32_t *column)
{
	return column ? column : zeros(c, sizeof(*column));
}

/* NULL stays NULL. */
static protobuf_c_boolean *booleans(struct columns *c, const bool *column)
{
	protobuf_c_boolean *b = column ? zeros(c, sizeof(*b)) : NULL;

	for (size_t i = 0; b && i < c->n; i++)
		b[i] = column[i];
	return b;
}

static void columns_init(struct columns *c, struct tes_server *s,
			 const struct tes_action *action)
{
	*c = (struct columns){.server = s, .action = action};
	c->n = s->call.event->n;
	c->status = action->u.reply.status;
	if (c->status || !c->n)
		return;
	c->status = zeros(c, sizeof(*c->status));
	for (size_t i = 0; c->status && i < c->n; i++)
		c->status[i] = action->u.reply.code;
}

static Store__Segment **segments(struct columns *c, size_t *n)
{
	const struct tes_core_segment_name *from = c->action->u.reply.segments;
	size_t count = c->action->u.reply.n_segments;
	struct tei_arena *arena = &c->server->out;
	Store__Segment **list, *at;

	*n = 0;
	if (!count)
		return NULL;
	list = tei_arena_calloc(arena, count, sizeof(*list));
	at = tei_arena_calloc(arena, count, sizeof(*at));
	if (!list || !at) {
		c->failed = true;
		return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		store__segment__init(&at[i]);
		/* protobuf-c's fields are not const; packing only reads. */
		at[i].engine = (char *)(uintptr_t)from[i].engine;
		at[i].incarnation.data =
			(uint8_t *)(uintptr_t)from[i].incarnation;
		at[i].incarnation.len = TES_CORE_ID_LEN;
		list[i] = &at[i];
	}
	*n = count;
	return list;
}

static void finish(struct columns *c, const ProtobufCMessage *m)
{
	if (!c->failed) {
		send_reply(c->server, m);
		return;
	}
	/* Nothing that a client could read: let it time out on a new one. */
	LOG_ERROR("master: out of memory for a reply");
	if (c->server->call.link)
		tei_frame_refuse_for_now(c->server->call.link->conn,
					 "out of memory");
}

/* Entries when keys have several, else one a key. */
static size_t n_entries(const struct columns *c)
{
	return c->action->u.reply.extents ? c->action->u.reply.n_entries : c->n;
}

static void reply_put_start(struct columns *c)
{
	Store__PutStartReply m = STORE__PUT_START_REPLY__INIT;

	m.n_status = m.n_generation = c->n;
	m.n_segment = m.n_address = n_entries(c);
	m.status = c->status;
	m.extents = c->action->u.reply.extents;
	m.replica = c->action->u.reply.replica;
	m.length = c->action->u.reply.length;
	if (m.extents) {
		m.n_extents = c->n;
		m.n_replica = m.n_length = m.n_segment;
	}
	m.segment = u32s(c, c->action->u.reply.segment);
	m.address = u64s(c, c->action->u.reply.address);
	m.generation = u64s(c, c->action->u.reply.generation);
	m.epoch = c->server->epoch;
	m.segments = segments(c, &m.n_segments);
	m.retry_ms = c->action->u.reply.retry_ms;
	finish(c, &m.base);
}

static void reply_put_end(struct columns *c)
{
	Store__PutEndReply m = STORE__PUT_END_REPLY__INIT;

	m.n_status = c->n;
	m.status = c->status;
	finish(c, &m.base);
}

static void reply_lookup(struct columns *c)
{
	Store__LookupReply m = STORE__LOOKUP_REPLY__INIT;

	m.n_status = m.n_size = m.n_generation = m.n_gen_epoch = c->n;
	m.n_segment = m.n_address = m.n_crc = n_entries(c);
	m.status = c->status;
	m.extents = c->action->u.reply.extents;
	m.replica = c->action->u.reply.replica;
	m.length = c->action->u.reply.length;
	if (m.extents) {
		m.n_extents = c->n;
		m.n_replica = m.n_length = m.n_segment;
	}
	m.no_crc = booleans(c, c->action->u.reply.no_crc);
	m.n_no_crc = m.no_crc ? c->n : 0;
	m.unverified = booleans(c, c->action->u.reply.unverified);
	m.n_unverified = m.unverified ? c->n : 0;
	m.size = u64s(c, c->action->u.reply.size);
	m.segment = u32s(c, c->action->u.reply.segment);
	m.address = u64s(c, c->action->u.reply.address);
	m.generation = u64s(c, c->action->u.reply.generation);
	m.gen_epoch = u64s(c, c->action->u.reply.gen_epoch);
	m.crc = u32s(c, c->action->u.reply.crc);
	m.segments = segments(c, &m.n_segments);
	m.lease_ms = c->action->u.reply.lease_ms;
	finish(c, &m.base);
}

static void reply_keys(struct columns *c, bool sizes)
{
	Store__KeysReply m = STORE__KEYS_REPLY__INIT;

	m.n_status = c->n;
	m.status = c->status;
	if (sizes) {
		m.n_size = c->n;
		m.size = u64s(c, c->action->u.reply.size);
	}
	finish(c, &m.base);
}

static void reply_offer(struct columns *c)
{
	Store__OfferReply m = STORE__OFFER_REPLY__INIT;

	m.status = c->action->u.reply.code;
	m.n_object = c->n;
	m.object = c->status;
	finish(c, &m.base);
}

static void reply_status(struct tes_server *s, const struct tes_action *action)
{
	Store__Status m = STORE__STATUS__INIT;

	m.status = action->u.reply.code;
	m.kept = action->u.reply.kept;
	send_reply(s, &m.base);
}

static void reply_task_create(struct tes_server *s,
			      const struct tes_action *action)
{
	Store__TaskCreateReply m = STORE__TASK_CREATE_REPLY__INIT;

	m.status = action->u.reply.code;
	if (!m.status) {
		m.id.data = action->u.reply.task->id;
		m.id.len = TES_CORE_ID_LEN;
	}
	send_reply(s, &m.base);
}

uint64_t tes_server_wall_ms(uint64_t ms)
{
	uint64_t ago = tei_now_ms() - ms;

	return tei_wall_us() / 1000 - ago;
}

static void reply_task_query(struct tes_server *s,
			     const struct tes_action *action)
{
	Store__TaskQueryReply m = STORE__TASK_QUERY_REPLY__INIT;
	struct tes_core_task *task = action->u.reply.task;

	m.status = action->u.reply.code;
	if (!m.status) {
		m.type = task->move ? STORE__TASK_TYPE__TASK_MOVE
				    : STORE__TASK_TYPE__TASK_COPY;
		m.task_status = task->state; /* the same numbers */
		m.created_ms = tes_server_wall_ms(task->created_ms);
		m.updated_ms = tes_server_wall_ms(task->updated_ms);
		m.assigned_client.data = task->client;
		m.assigned_client.len = task->assigned ? TES_CORE_ID_LEN : 0;
		m.message = task->message;
	}
	send_reply(s, &m.base);
}

static void log_drain(const struct tes_server *s,
		      const struct tes_core_drain *d)
{
	const struct tes_server_link *link = s->call.link;
	const char *engine =
		link && link->session ? link->session->engine : NULL;

	LOG_INFO("master: %s leaves: %llu of %llu replicas moved to others, "
		 "%llu left%s%s",
		 engine ? engine : "an owner", (unsigned long long)d->moved,
		 (unsigned long long)d->total, (unsigned long long)d->left,
		 *d->message ? ": " : "", d->message);
}

static void reply_drain(struct tes_server *s, const struct tes_action *action)
{
	Store__DrainReply m = STORE__DRAIN_REPLY__INIT;
	struct tes_core_drain *d = action->u.reply.drain;

	m.status = action->u.reply.code;
	if (!m.status) {
		m.status = d->code;
		m.why = d->message;
		m.total = d->total;
		m.moved = d->moved;
		m.moved_bytes = d->moved_bytes;
		m.left = d->left;
		log_drain(s, d);
	}
	send_reply(s, &m.base);
}

/* @hits and their bytes, for the hit ratio that people watch. */
static void note_lookup(struct tes_server *s, const struct columns *c)
{
	const uint64_t *size = c->action->u.reply.size;

	s->counters.lookup_keys += c->n;
	for (size_t i = 0; c->status && i < c->n; i++) {
		if (c->status[i])
			continue;
		s->counters.lookup_hits++;
		s->counters.lookup_hit_bytes += size ? size[i] : 0;
	}
}

void tes_server_reply(struct tes_server *s, const struct tes_action *action)
{
	const struct tes_event *ev = s->call.event;
	int32_t code = action->u.reply.code;
	struct columns c;

	s->replied = true;
	columns_init(&c, s, action);
	tes_server_count(s, ev, code, action->u.reply.status, c.n);
	switch (ev->type) {
	case TES_EVENT_JOIN:
		tes_server_hello_done(s, s->call.link, s->call.frame, code);
		break;
	case TES_EVENT_MOUNT:
		if (!code)
			tes_server_tell_mount(s, action->u.reply.kept);
		reply_status(s, action);
		break;
	case TES_EVENT_UNMOUNT:
		reply_status(s, action);
		break;
	case TES_EVENT_PUT_START:
		reply_put_start(&c);
		break;
	case TES_EVENT_PUT_END:
		reply_put_end(&c);
		break;
	case TES_EVENT_LOOKUP:
		note_lookup(s, &c);
		reply_lookup(&c);
		break;
	case TES_EVENT_EXIST:
	case TES_EVENT_SIZE:
	case TES_EVENT_REMOVE:
	case TES_EVENT_REPLICA_CLEAR:
		reply_keys(&c, ev->type == TES_EVENT_SIZE);
		break;
	case TES_EVENT_OFFER:
		reply_offer(&c);
		break;
	case TES_EVENT_TASK_CREATE:
		reply_task_create(s, action);
		break;
	case TES_EVENT_TASK_QUERY:
		reply_task_query(s, action);
		break;
	case TES_EVENT_DRAIN_LEAVE:
		reply_drain(s, action);
		break;
	default: /* the others get none */
		break;
	}
}

void tes_server_reply_code(struct tes_server *s, int32_t code)
{
	struct tes_action action = {.type = TES_ACTION_REPLY};

	action.u.reply.of = s->call.event->type;
	action.u.reply.code = code;
	tes_server_reply(s, &action);
}

void tes_server_reply_pool(struct tes_server_link *link,
			   const struct tei_frame *f)
{
	struct tes_server *s = link->server;
	struct tes_core_figures figures;
	Store__PoolReply m = STORE__POOL_REPLY__INIT;

	tes_core_figures(s->core, &figures);
	m.capacity_bytes = figures.capacity_bytes;
	m.used_bytes = figures.used_bytes;
	m.objects = figures.objects;
	m.owners = tes_server_owners(s);
	m.clients = figures.sessions - figures.suspects;
	m.evicted_objects = figures.evicted_objects_total;
	m.evicted_bytes = figures.evicted_bytes_total;
	m.metadata_bytes = figures.metadata_bytes;
	m.key_bytes = figures.key_bytes;
	tei_frame_reply(link->conn, f, &m.base);
}
