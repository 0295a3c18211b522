/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply.c - messages made of the core's actions: replies, and pushes to owners
 *
 * A reply to a batch has every column as long as the request's keys, also when
 * the call failed as a whole: then the status says so for each key and the
 * rest is zero. So readers need one check only.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/core/codes.h"
#include "store/proto/keys.h"
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

/* Owners may come and go by the dozen at once, and each is to be seen. */
#define OWNERS_PER_MINUTE 60

static void no_memory_for(const char *what)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_allowed(&limit))
		LOG_ERROR("master: out of memory for %s", what);
}

static void send_reply(struct tes_server *s, const ProtobufCMessage *m)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct tes_server_link *link = s->call.link;
	int rc;

	if (!link)
		return;
	rc = tei_frame_reply(link->conn, s->call.frame, m);
	if (rc < 0 && tei_log_allowed(&limit))
		LOG_WARN("master: reply not sent: %s", strerror(-rc));
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

static void send_columns(struct columns *c, const ProtobufCMessage *m)
{
	if (!c->failed) {
		send_reply(c->server, m);
		return;
	}
	/* Nothing that a client could read: let it time out on a new one. */
	no_memory_for("a reply");
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
	m.epoch = c->action->u.reply.epoch;
	m.segments = segments(c, &m.n_segments);
	m.retry_ms = c->action->u.reply.retry_ms;
	send_columns(c, &m.base);
}

static void reply_put_end(struct columns *c)
{
	Store__PutEndReply m = STORE__PUT_END_REPLY__INIT;

	m.n_status = c->n;
	m.status = c->status;
	send_columns(c, &m.base);
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
	send_columns(c, &m.base);
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
	send_columns(c, &m.base);
}

static void reply_offer(struct columns *c)
{
	Store__OfferReply m = STORE__OFFER_REPLY__INIT;

	m.status = c->action->u.reply.code;
	m.n_object = c->n;
	m.object = c->status;
	send_columns(c, &m.base);
}

static void reply_status(struct tes_server *s, const struct tes_action *action)
{
	Store__Status m = STORE__STATUS__INIT;

	m.status = action->u.reply.code;
	m.kept = action->u.reply.kept;
	if (action->u.reply.why)
		m.why = (char *)(uintptr_t)action->u.reply.why; /* only read */
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
	static struct tei_log_limit limit = {.per_minute = OWNERS_PER_MINUTE};
	const struct tes_server_link *link = s->call.link;
	const char *engine =
		link && link->session ? link->session->engine : NULL;

	if (!tei_log_info_allowed(&limit))
		return;
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

static void server_tell_mount(const struct tes_server *s, bool kept);

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
			server_tell_mount(s, action->u.reply.kept);
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

/*
 * Messages that the master pushes to owners: fences, burials, commits, probes,
 * tasks.
 *
 * They go to the heartbeat connection. A push that is lost there is sent again:
 * the core waits for answers, or resynchronises the owner when it reconnects.
 */

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

/*
 * Pads @m, otherwise complete, to TES_STORE_PADDED bytes with its header:
 * owners may leave shorter pushes unread for a moment.
 */
static void pad(const ProtobufCMessage *m, ProtobufCBinaryData *padding)
{
	static uint8_t zeros[TES_STORE_PADDED];
	size_t len =
		TEI_FRAME_HEADER_LEN + protobuf_c_message_get_packed_size(m);

	if (len >= sizeof(zeros))
		return;
	padding->data = zeros; /* only read */
	padding->len = sizeof(zeros) - len;
}

/* Queues a push, which leaves with the next one or with the next tick. */
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
	pad(&m.base, &m.padding);
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
	if (!m.burial) { /* evicted: nobody waits */
		push_lazily(s, action->session, STORE__STORE_TYPE__STORE_BURY,
			    &m.base);
		return;
	}
	pad(&m.base, &m.padding);
	push(s, action->session, STORE__STORE_TYPE__STORE_BURY, &m.base);
}

void tes_server_push_probe(struct tes_server *s,
			   const struct tes_action *action)
{
	Store__Probe m = STORE__PROBE__INIT;

	m.n = action->u.probe;
	pad(&m.base, &m.padding);
	push(s, action->session, STORE__STORE_TYPE__STORE_PROBE, &m.base);
}

static protobuf_c_boolean *push_booleans(struct tei_arena *arena,
					 const bool *from, size_t n)
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

static int fill_objects(Store__Objects *m, const struct tes_core_objects *c,
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
	m->no_crc = push_booleans(arena, c->no_crc, c->n);
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
	if (fill_objects(&source, &action->u.task.source, &s->out)) {
		no_memory_for("a task");
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
	if (fill_objects(&objects, &action->u.committed.objects, &s->out)) {
		no_memory_for("a notice to an owner");
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
	/* Whoever has objects of an epoch can prove it to the next master. */
	if (s->epoch != s->first_epoch) {
		m.epoch = s->epoch;
		m.epoch_proof.data = s->epoch_proof;
		m.epoch_proof.len = sizeof(s->epoch_proof);
	}
	push(s, action->session, STORE__STORE_TYPE__STORE_COMMITTED, &m.base);
}

/* A line of the log for what operators want to know of owners. */

#define MIB (1024.0 * 1024)

static void server_tell_mount(const struct tes_server *s, bool kept)
{
	static struct tei_log_limit limit = {.per_minute = OWNERS_PER_MINUTE};
	const struct tes_event *ev = s->call.event;
	const struct tes_server_link *link = s->call.link;
	const char *engine =
		link && link->session ? link->session->engine : NULL;

	if (!tei_log_info_allowed(&limit))
		return;
	LOG_INFO("master: owner %s lends %.1f MiB%s", engine ? engine : "?",
		 (double)ev->u.mount.size / MIB, kept ? ", as before" : "");
}

static void tell_silent(const struct tes_action *action)
{
	const char *engine = action->u.owner.engine;

	if (action->u.owner.left)
		LOG_WARN("master: the connection of owner %s ended: its "
			 "objects are misses until it is back",
			 engine);
	else
		LOG_WARN("master: owner %s has been silent for %.1f s: gets "
			 "of its objects miss until it is back",
			 engine, (double)action->u.owner.silent_ms / 1000);
}

void tes_server_tell_owner(const struct tes_action *action)
{
	static struct tei_log_limit silent = {.per_minute = OWNERS_PER_MINUTE},
				    back = {.per_minute = OWNERS_PER_MINUTE},
				    gone = {.per_minute = OWNERS_PER_MINUTE},
				    displaced = {.per_minute = 6};
	const char *engine = action->u.owner.engine;

	switch (action->u.owner.news) {
	case TES_OWNER_SILENT:
		if (tei_log_allowed(&silent))
			tell_silent(action);
		break;
	case TES_OWNER_BACK:
		if (tei_log_info_allowed(&back))
			LOG_INFO("master: owner %s is back, with its objects",
				 engine);
		break;
	case TES_OWNER_GONE:
		if (tei_log_allowed(&gone))
			LOG_WARN("master: owner %s is given up after %.1f s: "
				 "its objects are gone",
				 engine,
				 (double)action->u.owner.silent_ms / 1000);
		break;
	case TES_OWNER_DISPLACED:
		if (tei_log_allowed(&displaced))
			LOG_WARN("master: %s lent memory under the name of an "
				 "owner that is back: it is dropped with what "
				 "was put there",
				 engine);
		break;
	}
}

/*
 * Requests whose reply comes with a later step.
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

static void forget_later(struct tes_server *s, struct later *later)
{
	struct tes_server_link *link = later->from;

	tei_hash_remove(&s->laters, &later->node);
	tei_list_del(&later->link);
	link->late_keys -= later->event.n;
	link->n_laters--;
	tei_free(later);
	tes_server_turns_answered(link);
}

void tes_server_later(struct tes_server *s)
{
	struct tes_server_call *call = &s->call;
	struct later *later = tei_calloc(1, sizeof(*later));

	if (!later) {
		no_memory_for("a reply");
		tei_frame_refuse_for_now(call->link->conn, "out of memory");
		return;
	}
	later->from = call->link;
	later->cookie = call->event->cookie;
	later->frame.type = call->frame->type;
	later->frame.id = call->frame->id;
	later->event.type = call->event->type;
	later->event.n = call->event->n;
	if (later->event.type == TES_EVENT_PUT_END)
		later->event.u.put_end.written = &some_written;
	tei_hash_insert(&s->laters, &later->node, later->cookie);
	tei_list_add_tail(&call->link->laters, &later->link);
	call->link->late_keys += later->event.n;
	call->link->n_laters++;
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
	forget_later(s, later);
}

void tes_server_laters_drop(struct tes_server_link *link)
{
	while (!tei_list_empty(&link->laters))
		forget_later(link->server, tei_list_entry(link->laters.next,
							  struct later, link));
}
