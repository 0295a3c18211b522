/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - the control port: accepts connections, pushes new versions */
#include "te/control/control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "te/control/inbound.h"
#include "te/control/peer.h"
#include "te/core/control.pb-c.h"
#include "te/core/engine.h"
#include "te/directory/entry.h"
#include "te/directory/publish.h"
#include "te/notify/inbox.h"
#include "te/region/description.h"
#include "te/region/region.h"
#include "te/worker/worker.h"

#define INBOUND_CONNS_MAX  4096u
#define INBOUND_CONNS_EACH 16u /* one, and those whose network is gone */
#define HELLO_MAX          16384u
#define PROVE_MAX          8192u
#define SMALL_MAX          1024u
#define DESCRIPTION_MAX    (16u << 20)
#define NOTIFY_MAX         (72u << 10)
#define PUSH_AGAIN_MS      100u
#define ARENA_MAX          ((size_t)64 << 20)

const struct tei_frame_protocol tei_control_protocol = {
	.name = "control",
	.request =
		{
			[TE__CONTROL_TYPE__CONTROL_HELLO] = HELLO_MAX,
			[TE__CONTROL_TYPE__CONTROL_PROVE] = PROVE_MAX,
			[TE__CONTROL_TYPE__CONTROL_DESCRIBE] = SMALL_MAX,
			[TE__CONTROL_TYPE__CONTROL_CONNECT] = SMALL_MAX,
			[TE__CONTROL_TYPE__CONTROL_DROP] = SMALL_MAX,
			[TE__CONTROL_TYPE__CONTROL_PROBE] = SMALL_MAX,
			[TE__CONTROL_TYPE__CONTROL_NOTIFY] = NOTIFY_MAX,
		},
	.reply =
		{
			[TE__CONTROL_TYPE__CONTROL_HELLO] = HELLO_MAX,
			[TE__CONTROL_TYPE__CONTROL_PROVE] = SMALL_MAX,
			[TE__CONTROL_TYPE__CONTROL_DESCRIBE] = DESCRIPTION_MAX,
			[TE__CONTROL_TYPE__CONTROL_CONNECT] = SMALL_MAX,
			[TE__CONTROL_TYPE__CONTROL_DROP] = SMALL_MAX,
			[TE__CONTROL_TYPE__CONTROL_PROBE] = SMALL_MAX,
			[TE__CONTROL_TYPE__CONTROL_REGIONS] = DESCRIPTION_MAX,
			[TE__CONTROL_TYPE__CONTROL_REVOKED] = SMALL_MAX,
			[TE__CONTROL_TYPE__CONTROL_NOTIFY] = SMALL_MAX,
			[TE__CONTROL_TYPE__CONTROL_ROOM] = SMALL_MAX,
			[TE__CONTROL_TYPE__CONTROL_GONE] = SMALL_MAX,
		},
};

/* ---- listening ---- */

static void accepted(struct tei_frame_conn *conn, void *arg)
{
	struct te_engine *engine = arg;

	if (!tei_inbound_conn_came(engine, conn))
		return;
	tei_frame_refuse_for_now(conn, "out of memory");
	tei_frame_close(conn);
}

static void stray_fault(enum tei_frame_fault fault, void *arg)
{
	tei_control_count_fault(arg, fault);
}

/* Operations of connections that do not become inbound connections. */
static const struct tei_frame_ops stray_ops = {.fault = stray_fault};

struct listening {
	struct te_engine *engine;
	struct tei_frame_server_config config;
	int rc;
};

static void listen_now(void *arg)
{
	struct listening *l = arg;
	struct te_engine *engine = l->engine;
	uint16_t port = 0;

	l->rc = tei_frame_listen(engine->loop, &l->config, &port,
				 &engine->control->server);
	engine->port = port;
	if (l->rc) /* named before an inbound connection asks */
		return;
	if (engine->is_bare)
		memcpy(engine->name, engine->host, strlen(engine->host) + 1);
	else
		tei_name_join(engine->host, port, engine->name);
}

int tei_control_listen(struct te_engine *engine, uint16_t port)
{
	struct listening l = {
		.engine = engine,
		.config =
			{
				.protocol = &tei_control_protocol,
				.host = engine->config.bind,
				.port = port,
				.insecure = engine->config.insecure,
				.allow_uids = engine->config.allow_uids,
				.n_max = INBOUND_CONNS_MAX,
				.n_each = INBOUND_CONNS_EACH,
				.hello_ms = 2 * engine->config.connect_timeout,
				.hello_max = HELLO_MAX,
				.ops = &stray_ops,
				.arg = engine,
				.accepted = accepted,
			},
	};

	tei_loop_do(engine->loop, listen_now, &l);
	return l.rc;
}

void tei_control_close(struct te_engine *engine)
{
	struct tei_list *conns = &engine->control->inbound.conns;

	if (engine->control->server)
		tei_frame_server_close(engine->control->server);
	engine->control->server = NULL;
	tei_timer_stop(engine->control->inbound.push_timer);
	engine->control->inbound.push_timer = NULL;
	tei_turns_close(&engine->inbox->turns);
	while (!tei_list_empty(conns))
		tei_inbound_conn_leave(tei_list_entry(
			conns->next, struct tei_inbound_conn, link));
	tei_inbound_peers_stop_waiting(engine);
}

void tei_control_count_fault(struct te_engine *engine,
			     enum tei_frame_fault fault)
{
	switch (fault) {
	case TEI_FRAME_BAD_TYPE:
		TEI_COUNT(engine, bad_type);
		break;
	case TEI_FRAME_TOO_LONG:
		TEI_COUNT(engine, too_long);
		break;
	case TEI_FRAME_BAD_BODY:
		TEI_COUNT(engine, bad_body);
		break;
	case TEI_FRAME_TIMEOUT:
		TEI_COUNT(engine, late);
		break;
	case TEI_FRAME_PROTECTED:
		TEI_COUNT(engine, stranger);
		break;
	case TEI_FRAME_FULL:
		TEI_COUNT(engine, crowd);
		break;
	case TEI_FRAME_IDLE:
		TEI_COUNT(engine, idle);
		break;
	case TEI_FRAME_UNFINISHED:
		TEI_COUNT(engine, unfinished);
		break;
	case TEI_FRAME_UNREAD:
		TEI_COUNT(engine, unread);
		break;
	case TEI_FRAME_FAULTS:
		break;
	}
}

/* ---- what is said of our regions ---- */

static void push_now(struct te_engine *engine);

static void push_again(void *arg)
{
	struct te_engine *engine = arg;

	tei_timer_stop(engine->control->inbound.push_timer);
	engine->control->inbound.push_timer = NULL;
	push_now(engine);
}

/*
 * Pushes the version to all; connections with an unread push follow by timer.
 */
static void push_now(struct te_engine *engine)
{
	struct tei_inbound_peers *g = &engine->control->inbound;
	bool behind = false;

	tei_list_for_each_safe (node, tmp, &g->conns) {
		if (!tei_inbound_conn_push(tei_list_entry(
			    node, struct tei_inbound_conn, link)))
			behind = true;
	}
	/* Without a timer peers learn of it with the next change. */
	if (behind && !g->push_timer)
		g->push_timer = tei_timer_start(engine->loop, PUSH_AGAIN_MS,
						false, push_again, engine);
}

/* Pushes once for all changes that come before it runs. */
static void push_all(struct tei_call *call)
{
	struct tei_inbound_peers *g =
		TEI_CONTAINER(call, struct tei_inbound_peers, push_call);

	atomic_store(&g->push_posted, false);
	push_now(TEI_CONTAINER(g, struct tei_control, inbound)->engine);
}

void tei_control_push_regions(struct te_engine *engine)
{
	struct tei_inbound_peers *g = &engine->control->inbound;

	if (!atomic_exchange(&g->push_posted, true))
		tei_loop_post(engine->loop, &g->push_call);
}

void tei_control_init(struct te_engine *engine)
{
	struct tei_control *control = engine->control;

	control->engine = engine;
	tei_arena_init(&control->arena, ARENA_MAX);
	tei_names_init(&control->names);
	tei_reroute_init(engine);
	engine->inbox->room = tei_notify_room;
	control->inbound.push_call.fn = push_all;
}

void tei_control_fini(struct te_engine *engine)
{
	tei_arena_fini(&engine->control->arena);
}

/* ---- proofs ---- */

static int fill_proof(struct te_engine *engine, const struct tei_group *group,
		      const struct tei_group_challenge *challenge, char side,
		      Te__GroupProof **out)
{
	struct tei_arena *arena = &engine->control->arena;
	Te__GroupProof *m = tei_arena_alloc(arena, sizeof(*m));
	uint8_t *tag = tei_arena_alloc(arena, TEI_GROUP_TAG_LEN);
	uint8_t *proof = tei_arena_alloc(arena, TEI_GROUP_PROOF_LEN);

	if (!m || !tag || !proof)
		return -ENOMEM;
	te__group_proof__init(m);
	memcpy(tag, group->tag, TEI_GROUP_TAG_LEN);
	m->tag.data = tag;
	m->tag.len = TEI_GROUP_TAG_LEN;
	m->proof.data = proof;
	m->proof.len = TEI_GROUP_PROOF_LEN;
	*out = m;
	return tei_group_prove(group, challenge, side, proof);
}

int tei_control_proofs(struct te_engine *engine,
		       const struct tei_group_set *set,
		       const struct tei_group_challenge *challenge, char side,
		       Te__GroupProof ***out)
{
	unsigned int i;
	int rc, n = 0;

	*out = tei_arena_calloc(&engine->control->arena, set->n + 1ul,
				sizeof(**out));
	if (!*out)
		return -ENOMEM;
	for (i = 0; i < set->n; i++) {
		if (!set->group[i].refs)
			continue;
		rc = fill_proof(engine, &set->group[i], challenge, side,
				&(*out)[n]);
		if (rc)
			return rc;
		n++;
	}
	return n;
}

/* ---- what we let a directory say of us ---- */

/*
 * A name host:port says itself where it leads. A name of the directory leads to
 * the addresses of our rails, or to the one that we are bound to.
 */

static bool is_there(const struct tei_entry *entry, const char *text)
{
	for (uint32_t i = 0; i < entry->n; i++) {
		if (!strcmp(entry->address[i], text))
			return true;
	}
	return false;
}

static void add_address(struct tei_entry *entry,
			const struct tei_address *address)
{
	char text[INET6_ADDRSTRLEN];
	uint8_t bytes[16];
	size_t len = tei_address_bytes(address, bytes);

	if (!len || entry->n == TEI_ENTRY_ADDRESSES ||
	    !inet_ntop(len == 4 ? AF_INET : AF_INET6, bytes, text,
		       sizeof(text)) ||
	    is_there(entry, text))
		return;
	memcpy(entry->address[entry->n++], text, sizeof(text));
}

static void add_rails(const struct te_engine *engine, struct tei_entry *out)
{
	struct tei_address loopback;

	for (uint32_t i = 0; i < engine->worker->n_rails; i++) {
		struct tei_device device =
			tei_rail_device(engine->worker->rails[i]);

		add_address(out, &device.address);
	}
	if (!out->n && !tei_resolve_numeric("127.0.0.1", 0, &loopback))
		add_address(out, &loopback);
}

void tei_advertise(const struct te_engine *engine, struct tei_entry *out)
{
	const char *bind = engine->config.bind;
	struct tei_address address;

	*out = (struct tei_entry){.port = engine->port};
	tei_entry_life(engine->incarnation, out->life);
	if (!engine->is_bare) {
		memcpy(out->host, engine->host, sizeof(out->host));
		return;
	}
	if (!bind)
		add_rails(engine, out);
	else if (!tei_resolve_numeric(bind, 0, &address))
		add_address(out, &address);
	(void)snprintf(out->host, sizeof(out->host), "%s",
		       out->n ? out->address[0] : bind);
}

void tei_advertise_again(struct te_engine *engine)
{
	struct tei_publisher *publisher;
	struct tei_entry entry;

	tei_mutex_lock(&engine->mu);
	publisher = engine->publisher;
	tei_mutex_unlock(&engine->mu);
	if (!publisher)
		return;
	tei_advertise(engine, &entry);
	tei_publisher_renew(publisher, &entry);
}
