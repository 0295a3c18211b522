/* SPDX-License-Identifier: Apache-2.0 */
/*
 * where.c - the daemon's TCP port: where on this host are dummies served?
 *
 * One question a connection, and nothing but the socket's path to be learned.
 * Whoever learns it is asked who he is when he comes there.
 */
#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "store/daemon/agent_private.h"

#define ASKERS_MAX 64
#define ASK_MS     2000
#define ASK_BYTES  64

struct asker {
	struct tes_agent *agent;
	struct tei_list link; /* in agent->askers */
	struct tei_frame_conn *conn;
};

static void leave(struct asker *asker)
{
	tei_list_del(&asker->link);
	tei_frame_close(asker->conn);
	tei_free(asker);
}

static void on_question(struct tei_frame_conn *conn, const struct tei_frame *f,
			void *arg)
{
	Agent__WhereReply reply = AGENT__WHERE_REPLY__INIT;
	struct asker *asker = arg;

	if (f->type != AGENT__AGENT_TYPE__AGENT_WHERE || f->flags || !f->id) {
		tei_frame_bad(conn, "only asked where dummies are served");
		return;
	}
	/* Relaxed: a number for people. */
	atomic_fetch_add_explicit(&asker->agent->stats.calls[f->type], 1,
				  memory_order_relaxed);
	reply.path = asker->agent->path;
	(void)tei_frame_reply(conn, f, &reply.base);
	leave(asker);
}

static void on_end(struct tei_frame_conn *conn, int err, const char *text,
		   void *arg)
{
	(void)conn;
	(void)err;
	(void)text;
	leave(arg);
}

static void on_fault(enum tei_frame_fault fault, void *arg)
{
	struct tes_agent *agent = arg;

	agent->stats.faults[fault]++;
}

static void on_asker_fault(enum tei_frame_fault fault, void *arg)
{
	const struct asker *asker = arg;

	on_fault(fault, asker->agent);
}

static const struct tei_frame_ops ask_ops = {
	.frame = on_question,
	.down = on_end,
	.fault = on_asker_fault,
};

/* Nobody stays who has not become an asker. */
static const struct tei_frame_ops port_ops = {.fault = on_fault};

static void on_accepted(struct tei_frame_conn *conn, void *arg)
{
	struct tes_agent *agent = arg;
	struct asker *asker = tei_calloc(1, sizeof(*asker));

	if (!asker) {
		tei_frame_refuse_for_now(conn, "out of memory");
		tei_frame_close(conn);
		return;
	}
	asker->agent = agent;
	asker->conn = conn;
	tei_list_add_tail(&agent->askers, &asker->link);
	tei_frame_set_ops(conn, &ask_ops, asker);
}

int tes_where_open(struct tes_agent *agent,
		   const struct tes_agent_config *config)
{
	const struct tei_frame_server_config server = {
		.protocol = &tes_agent_protocol,
		.host = config->host,
		.port = config->port,
		.insecure = config->insecure,
		.n_max = ASKERS_MAX,
		.hello_ms = ASK_MS,
		.hello_max = ASK_BYTES,
		.ops = &port_ops,
		.arg = agent,
		.accepted = on_accepted,
	};

	return tei_frame_listen(agent->loop, &server, &agent->port,
				&agent->port_server);
}

void tes_where_close(struct tes_agent *agent)
{
	if (!agent->port_server)
		return;
	tei_frame_server_close(agent->port_server);
	agent->port_server = NULL;
	while (!tei_list_empty(&agent->askers))
		leave(tei_list_entry(agent->askers.next, struct asker, link));
}
