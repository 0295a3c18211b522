/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rig.h - a core with a clock and an arena, and one line per event
 *
 * Each call is one step at r->now; the actions of the last step stay in
 * r->out until the next one.
 */
#ifndef TESTS_UNIT_STORE_CORE_RIG_H
#define TESTS_UNIT_STORE_CORE_RIG_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/fault.h"
#include "store/core/core.h"

#define MAYBE __attribute__((unused))
#define EPOCH 77u

struct rig {
	struct tes_core *core;
	struct tei_arena arena;
	struct tes_actions out;
	uint64_t now;
	uint64_t cookie;
	uint64_t late[64]; /* cookies of replies to events of earlier steps */
	size_t n_late;
};

static const struct tes_core_config rig_config = {
	.epoch = EPOCH,
	.hash_seed = 1,
	.lease_ttl_ms = 5000,
	.client_ttl_ms = 10000,
	.suspect_ms = 3000,
	.put_discard_ms = 30000,
	.fence_timeout_ms = 2000,
	.high_watermark = 1,
	.eviction_ratio = 0.05,
	.seed = 1,
};

/* Of the next joins and mounts: host (one byte) and name; NULL: as usual. */
static MAYBE const char *rig_host, *rig_name;
/* Of all joins: whether they keep a directory, and bury. */
static MAYBE bool rig_buries;
/* And whether they answer probes. */
static MAYBE bool rig_probes;
/* And execute tasks. */
static MAYBE bool rig_executes;
/* Where the next ones come from. */
static MAYBE uint64_t rig_source;
/* Of the next joins: the epoch that they know of, and whether they are believed.
 */
static MAYBE uint64_t rig_epoch;
static MAYBE bool rig_believed;
/* Of the next joins: whose keys they mean; NULL: `default`. */
static MAYBE const char *rig_tenant;

static MAYBE void rig_init(struct rig *r, const struct tes_core_config *c)
{
	*r = (struct rig){.now = 1000};
	tei_arena_init(&r->arena, (size_t)64 << 20);
	r->out.arena = &r->arena;
	assert_int_equal(tes_core_create(c ? c : &rig_config, &r->core), 0);
}

static MAYBE void rig_fini(struct rig *r)
{
	tes_core_destroy(r->core);
	tei_arena_fini(&r->arena);
}

static MAYBE int rig_try(struct rig *r, struct tes_event *ev)
{
	int rc;

	tei_arena_reset(&r->arena);
	r->out = (struct tes_actions){.arena = &r->arena};
	ev->cookie = ++r->cookie;
	rc = tes_core_step(r->core, ev, r->now, &r->out);
	for (size_t i = 0; i < r->out.n; i++)
		if (r->out.at[i].type == TES_ACTION_REPLY &&
		    r->out.at[i].cookie != r->cookie && r->n_late < 64)
			r->late[r->n_late++] = r->out.at[i].cookie;
	return rc;
}

/* The reply of the step; NULL when the event has none. */
static MAYBE const struct tes_action *rig_step(struct rig *r,
					       struct tes_event *ev)
{
	assert_int_equal(rig_try(r, ev), 0);
	if (!r->out.n || r->out.at[0].type != TES_ACTION_REPLY ||
	    r->out.at[0].cookie != r->cookie)
		return NULL;
	assert_int_equal(r->out.at[0].cookie, r->cookie);
	assert_int_equal(r->out.at[0].session, ev->session);
	assert_int_equal(r->out.at[0].u.reply.of, ev->type);
	return &r->out.at[0];
}

static MAYBE const struct tes_action *rig_find(const struct rig *r,
					       enum tes_action_type type)
{
	for (size_t i = 0; i < r->out.n; i++)
		if (r->out.at[i].type == type)
			return &r->out.at[i];
	return NULL;
}

struct rig_burial {
	tes_session_id owner;
	uint64_t number;
};

/* Burials of the last step that want an answer, at most @room. */
static MAYBE size_t rig_burials(const struct rig *r, struct rig_burial *out,
				size_t room)
{
	size_t n = 0;

	for (size_t i = 0; i < r->out.n && n < room; i++) {
		const struct tes_action *a = &r->out.at[i];

		if (a->type == TES_ACTION_BURY && a->u.bury.burial)
			out[n++] = (struct rig_burial){a->session,
						       a->u.bury.burial};
	}
	return n;
}

static MAYBE void rig_buried(struct rig *r, tes_session_id s, uint64_t burial)
{
	struct tes_event ev = {.type = TES_EVENT_FENCED, .session = s};

	ev.u.fenced.fence = burial;
	ev.u.fenced.confirmed = ev.u.fenced.burial = true;
	assert_int_equal(rig_try(r, &ev), 0);
}

/*
 * Owners do what the last step wanted buried. A reply of that step, or of one
 * of theirs; NULL: none.
 */
static MAYBE const struct tes_action *rig_bury(struct rig *r)
{
	struct rig_burial burials[16];
	size_t n = rig_burials(r, burials, 16);
	const struct tes_action *reply = rig_find(r, TES_ACTION_REPLY);

	for (size_t i = 0; i < n && !reply; i++) {
		rig_buried(r, burials[i].owner, burials[i].number);
		reply = rig_find(r, TES_ACTION_REPLY);
	}
	return reply;
}

/* The same where owners may have to bury something first, and do. */
static MAYBE const struct tes_action *rig_settle(struct rig *r,
						 struct tes_event *ev)
{
	const struct tes_action *reply = rig_step(r, ev);
	uint64_t cookie = r->cookie;

	if (reply)
		return reply;
	reply = rig_bury(r);
	assert_non_null(reply);
	assert_int_equal(reply->cookie, cookie);
	return reply;
}

/* Client and incarnation are 16 bytes of the given letters. */
static MAYBE int rig_join(struct rig *r, tes_session_id s, char client,
			  char incarnation)
{
	uint8_t id[TES_CORE_ID_LEN], life[TES_CORE_ID_LEN];
	char engine[] = "x:1";
	struct tes_event ev = {.type = TES_EVENT_JOIN, .session = s};

	memset(id, client, sizeof(id));
	memset(life, incarnation, sizeof(life));
	engine[0] = client;
	ev.u.join.client_id = id;
	ev.u.join.incarnation = life;
	ev.u.join.engine = engine;
	ev.u.join.buries = rig_buries;
	ev.u.join.probes = rig_probes;
	ev.u.join.executes = rig_executes;
	ev.u.join.tenant = rig_tenant;
	ev.u.join.epoch = rig_epoch;
	ev.u.join.believed = rig_believed;
	ev.u.join.source = rig_source;
	ev.u.join.host = rig_host;
	ev.u.join.host_len = rig_host ? 1 : 0;
	return rig_step(r, &ev)->u.reply.code;
}

/* Each owner has its own, of which the first is "name". */
static MAYBE const char *rig_usual_name(tes_session_id s)
{
	static char name[32];

	if (s == 1)
		return "name";
	snprintf(name, sizeof(name), "name-%u", (unsigned int)s);
	return name;
}

static MAYBE int rig_mount_as(struct rig *r, tes_session_id s, char id,
			      uint64_t base, uint64_t size, bool offering)
{
	uint8_t segment[TES_CORE_ID_LEN];
	struct tes_event ev = {.type = TES_EVENT_MOUNT, .session = s};

	memset(segment, id, sizeof(segment));
	ev.u.mount.segment = segment;
	ev.u.mount.name = rig_name ? rig_name : rig_usual_name(s);
	ev.u.mount.base = base;
	ev.u.mount.size = size;
	ev.u.mount.offering = offering;
	return rig_step(r, &ev)->u.reply.code;
}

static MAYBE int rig_mount(struct rig *r, tes_session_id s, char id,
			   uint64_t base, uint64_t size)
{
	return rig_mount_as(r, s, id, base, size, false);
}

/* 64 KiB that are offered to the master with what lies there. */
static MAYBE void rig_mount_offering(struct rig *r, tes_session_id s, char id,
				     uint64_t base)
{
	assert_int_equal(rig_mount_as(r, s, id, base, 0x10000, true), 0);
}

/* An offer, the @last one or not; the code, or the first object's status. */
static MAYBE int rig_offer(struct rig *r, tes_session_id s, char id,
			   const struct tes_core_objects *objects, bool last)
{
	uint8_t segment[TES_CORE_ID_LEN];
	struct tes_event ev = {.type = TES_EVENT_OFFER,
			       .session = s,
			       .n = objects->n,
			       .keys = objects->keys};
	const struct tes_action *a;

	memset(segment, id, sizeof(segment));
	ev.u.offer.segment = segment;
	ev.u.offer.objects = objects;
	ev.u.offer.last = last;
	a = rig_step(r, &ev);
	assert_non_null(a);
	return a->u.reply.code || !objects->n ? a->u.reply.code
					      : a->u.reply.status[0];
}

static MAYBE int rig_unmount_later(struct rig *r, tes_session_id s, char id,
				   uint64_t grace_ms)
{
	uint8_t segment[TES_CORE_ID_LEN];
	struct tes_event ev = {.type = TES_EVENT_UNMOUNT, .session = s};

	memset(segment, id, sizeof(segment));
	ev.u.mount.segment = segment;
	ev.u.mount.grace_ms = grace_ms;
	return rig_step(r, &ev)->u.reply.code;
}

static MAYBE int rig_unmount(struct rig *r, tes_session_id s, char id)
{
	return rig_unmount_later(r, s, id, 0);
}

static MAYBE void rig_plain(struct rig *r, enum tes_event_type type,
			    tes_session_id s)
{
	struct tes_event ev = {.type = type, .session = s};

	assert_null(rig_step(r, &ev));
}

static MAYBE void rig_tick(struct rig *r)
{
	rig_plain(r, TES_EVENT_TICK, 0);
}

/* Let @ms pass in ticks of 100 ms; the listed sessions send heartbeats. */
static MAYBE void rig_pass(struct rig *r, uint64_t ms, const char *alive)
{
	for (uint64_t end = r->now + ms; r->now < end;) {
		r->now += end - r->now < 100 ? end - r->now : 100;
		for (const char *s = alive; *s; s++)
			rig_plain(r, TES_EVENT_HEARTBEAT,
				  (tes_session_id)(*s - '0'));
		rig_tick(r);
	}
}

struct grant {
	int status;
	uint64_t address, generation, size;
	uint32_t crc, retry_ms;
};

static MAYBE struct tes_core_key rig_key(const char *key)
{
	return (struct tes_core_key){.bytes = key, .len = strlen(key)};
}

static MAYBE struct grant rig_start_as(struct rig *r, tes_session_id s,
				       const char *key, uint64_t size,
				       const struct tes_core_replicate *how,
				       const char *group, bool upsert)
{
	struct tes_core_key k = rig_key(key);
	struct tes_event ev = {
		.type = TES_EVENT_PUT_START, .session = s, .n = 1, .keys = &k};
	const struct tes_action *a;
	uint32_t first = 1;

	ev.u.put_start.sizes = &size;
	ev.u.put_start.how = how;
	ev.u.put_start.upsert = upsert;
	if (group) {
		ev.u.put_start.groups = &group;
		ev.u.put_start.n_groups = 1;
		ev.u.put_start.group = &first;
	}
	a = rig_step(r, &ev);
	if (a->u.reply.code)
		return (struct grant){.status = a->u.reply.code};
	return (struct grant){
		.status = a->u.reply.status[0],
		.address = a->u.reply.address[0],
		.generation = a->u.reply.generation[0],
		.retry_ms = a->u.reply.retry_ms,
	};
}

static MAYBE struct grant rig_start(struct rig *r, tes_session_id s,
				    const char *key, uint64_t size)
{
	return rig_start_as(r, s, key, size, NULL, NULL, false);
}

/* The end of @n entries, without checksums; the others are not quiet. */
static MAYBE int rig_end_all(struct rig *r, tes_session_id s, const char *key,
			     uint64_t generation, uint32_t n, uint32_t written)
{
	struct tes_core_key k = rig_key(key);
	struct tes_event ev = {
		.type = TES_EVENT_PUT_END, .session = s, .n = 1, .keys = &k};
	uint32_t quiet = 0;

	ev.u.put_end.generations = &generation;
	ev.u.put_end.extents = &n;
	ev.u.put_end.written = &written;
	ev.u.put_end.quiet = &quiet;
	ev.u.put_end.epoch = EPOCH;
	return rig_step(r, &ev)->u.reply.status[0];
}

static MAYBE int rig_end_as(struct rig *r, tes_session_id s, const char *key,
			    uint64_t generation, uint64_t epoch,
			    uint32_t written)
{
	struct tes_core_key k = rig_key(key);
	uint32_t crc = (uint32_t)generation * 3;
	struct tes_event ev = {
		.type = TES_EVENT_PUT_END, .session = s, .n = 1, .keys = &k};
	const struct tes_action *a;

	ev.u.put_end.generations = &generation;
	ev.u.put_end.crcs = &crc;
	ev.u.put_end.written = &written;
	ev.u.put_end.epoch = epoch;
	a = rig_settle(r, &ev);
	return a->u.reply.code ? a->u.reply.code : a->u.reply.status[0];
}

static MAYBE int rig_end(struct rig *r, tes_session_id s, const char *key,
			 uint64_t generation)
{
	return rig_end_as(r, s, key, generation, EPOCH, true);
}

static MAYBE struct grant rig_put(struct rig *r, tes_session_id s,
				  const char *key, uint64_t size)
{
	struct grant g = rig_start(r, s, key, size);

	if (!g.status)
		g.status = rig_end(r, s, key, g.generation);
	return g;
}

static MAYBE const struct tes_action *rig_ask(struct rig *r,
					      enum tes_event_type type,
					      tes_session_id s, const char *key,
					      bool force)
{
	struct tes_core_key k = rig_key(key);
	struct tes_event ev = {.type = type, .session = s, .n = 1, .keys = &k};

	if (type == TES_EVENT_REMOVE)
		ev.u.remove.force = force;
	return rig_settle(r, &ev);
}

static MAYBE struct grant rig_lookup(struct rig *r, tes_session_id s,
				     const char *key)
{
	const struct tes_action *a =
		rig_ask(r, TES_EVENT_LOOKUP, s, key, false);

	if (a->u.reply.code)
		return (struct grant){.status = a->u.reply.code};
	return (struct grant){
		.status = a->u.reply.status[0],
		.address = a->u.reply.address[0],
		.generation = a->u.reply.generation[0],
		.size = a->u.reply.size[0],
		.crc = a->u.reply.crc[0],
	};
}

static MAYBE int rig_exist(struct rig *r, tes_session_id s, const char *key)
{
	const struct tes_action *a = rig_ask(r, TES_EVENT_EXIST, s, key, false);

	return a->u.reply.code ? a->u.reply.code : a->u.reply.status[0];
}

static MAYBE int rig_remove(struct rig *r, tes_session_id s, const char *key,
			    bool force)
{
	const struct tes_action *a =
		rig_ask(r, TES_EVENT_REMOVE, s, key, force);

	return a->u.reply.code ? a->u.reply.code : a->u.reply.status[0];
}

/* @epoch: NULL: of a client that names none. */
static MAYBE void rig_release_of(struct rig *r, tes_session_id s,
				 const char *key, uint64_t generation,
				 const uint64_t *epoch)
{
	struct tes_core_key k = rig_key(key);
	struct tes_event ev = {
		.type = TES_EVENT_RELEASE, .session = s, .n = 1, .keys = &k};

	ev.u.release.generations = &generation;
	ev.u.release.gen_epochs = epoch;
	ev.u.release.n_gen_epochs = epoch ? 1 : 0;
	assert_null(rig_step(r, &ev));
}

static MAYBE void rig_release(struct rig *r, tes_session_id s, const char *key,
			      uint64_t generation)
{
	rig_release_of(r, s, key, generation, NULL);
}

static MAYBE void rig_fenced(struct rig *r, tes_session_id s, uint64_t fence,
			     bool confirmed)
{
	struct tes_event ev = {.type = TES_EVENT_FENCED, .session = s};

	ev.u.fenced.fence = fence;
	ev.u.fenced.confirmed = confirmed;
	assert_null(rig_step(r, &ev));
}

static MAYBE struct tes_core_figures rig_figures(const struct rig *r)
{
	struct tes_core_figures f;

	tes_core_figures(r->core, &f);
	return f;
}

/* An owner (session 1) with 64 KiB and a writer without memory (session 2). */
static MAYBE void rig_pair(struct rig *r)
{
	assert_int_equal(rig_join(r, 1, 'o', 'O'), 0);
	rig_plain(r, TES_EVENT_HEARTBEAT, 1);
	assert_int_equal(rig_mount(r, 1, 'm', 0x10000, 0x10000), 0);
	assert_int_equal(rig_join(r, 2, 'w', 'W'), 0);
	rig_plain(r, TES_EVENT_HEARTBEAT, 2);
}

#endif
