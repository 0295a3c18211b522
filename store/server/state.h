/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h - what the files of the master's shell share; not for others
 *
 * A link is one connection. It starts as a stranger; Hello makes it the main
 * or the heartbeat connection of a session. A session is one life of a client
 * as the core knows it: it outlives its connections until the core closes it.
 *
 * Everything here belongs to the loop's thread.
 */
#ifndef STORE_SERVER_STATE_H
#define STORE_SERVER_STATE_H

#include "base/arena.h"
#include "base/frame.h"
#include "base/hash.h"
#include "base/http.h"
#include "base/list.h"
#include "base/loop.h"
#include "store/core/core.h"
#include "store/proto/protocol.h"
#include "store/server/events.h"
#include "store/server/settings.h"
#include "store/server/timing.h"

/* What a client may leave unread of our answers before it is dropped. */
#define TEI_SERVER_BACKLOG_MAX  (32u << 20)
#define TEI_SERVER_LINKS_MAX    4096u
#define TEI_SERVER_SESSIONS_MAX 8192u
#define TEI_SERVER_HELLO_MS     2000u

enum tei_server_role {
	TEI_SERVER_STRANGER,
	TEI_SERVER_MAIN,
	TEI_SERVER_HEART,
};

struct tei_server_drained;
struct tei_server_removal;
struct tei_server_session;

struct tei_server_link {
	struct tei_list link; /* server's links */
	struct tei_server *server;
	struct tei_frame_conn *conn;
	enum tei_server_role role;
	struct tei_server_session *session; /* not for strangers */
	struct tei_list laters; /* requests whose reply comes later */
	bool lazy;              /* pushes may wait in it */
};

struct tei_server_session {
	struct tei_hash_node by_id, by_client;
	tei_session_id id;
	uint8_t client_id[TEI_CORE_ID_LEN];
	uint8_t incarnation[TEI_CORE_ID_LEN];
	bool named;   /* is in by_client */
	char *engine; /* its name; NULL: there was no memory for it */
	struct tei_server_link *main;  /* or NULL */
	struct tei_server_link *heart; /* or NULL */
};

/* Counted per operation; names as Mooncake's metrics. */
enum tei_server_op {
	TEI_SERVER_OP_MOUNT,
	TEI_SERVER_OP_UNMOUNT,
	TEI_SERVER_OP_PUT_START,
	TEI_SERVER_OP_PUT_END,
	TEI_SERVER_OP_PUT_REVOKE,
	TEI_SERVER_OP_LOOKUP,
	TEI_SERVER_OP_EXIST,
	TEI_SERVER_OP_SIZE,
	TEI_SERVER_OP_REMOVE,
	TEI_SERVER_OP_REMOVE_ALL,
	TEI_SERVER_OP_REMOVE_BY_REGEX,
	TEI_SERVER_OP_REPLICA_CLEAR,
	TEI_SERVER_OP_CREATE_COPY,
	TEI_SERVER_OP_CREATE_MOVE,
	TEI_SERVER_OP_QUERY_TASK,
	TEI_SERVER_OP_UPDATE_TASK,
	TEI_SERVER_OP_PING,
	TEI_SERVER_OPS,
};

struct tei_server_op_count {
	uint64_t requests, failures; /* calls of one key */
	uint64_t batches, batch_failures, batch_partial;
	uint64_t items, items_failed; /* of batches */
};

struct tei_server_counters {
	struct tei_server_op_count op[TEI_SERVER_OPS];
	uint64_t refused[TEI_FRAME_FAULTS]; /* at the RPC port */
	uint64_t refused_version, refused_slow, refused_unknown;
	uint64_t refused_http[TEI_HTTP_REFUSALS];
	uint64_t lookup_keys, lookup_hits, lookup_hit_bytes;
	uint64_t steps_failed; /* the core had no memory */
};

/* Of the counters, to tell rates by. */
struct tei_server_sample {
	uint64_t ms;
	struct tei_server_op_count op[TEI_SERVER_OPS];
};

/* The request that the core is working on. */
struct tei_server_call {
	struct tei_server_link *link; /* NULL once the connection is gone */
	const struct tei_frame *frame;
	const struct tei_event *event;
};

struct tei_server {
	struct tei_loop *loop;
	struct tei_server_settings settings; /* shallow: strings not owned */
	struct tei_core *core;
	struct tei_frame_server *port;
	uint16_t rpc_port, http_port, metadata_port;
	struct tei_http *http;
	struct tei_metadata_server *metadata; /* NULL: not enabled */
	struct tei_events *events;            /* NULL: not published */
	struct tei_server_removal *removal;   /* of all keys, or NULL */
	struct tei_server_drained *drained;   /* who asks the core, or NULL */
	struct tei_timer *timer;
	struct tei_alarm hurry; /* set: background work goes on */
	struct tei_alarm room;  /* set: there is to be room for the next puts */
	size_t n_started;       /* keys since there was */
	bool skip_tick;         /* the last one was not */
	bool stepping;          /* the core is at work */
	bool replied;           /* to the call */
	bool lazy;              /* some link is */
	bool tenants_told;      /* that they mean nothing here */
	uint64_t started_ms;

	uint64_t epoch; /* of this life: wall clock in us at the start */
	uint64_t digest_seed, hash_seed;
	uint8_t group[TEI_STORE_GROUP_LEN];
	uint32_t heartbeat_ms;

	struct tei_list links;
	struct tei_hash by_id, by_client; /* sessions */
	struct tei_hash laters;           /* by cookie */
	tei_session_id last_session;
	unsigned int n_links;

	struct tei_arena in, out;
	struct tei_server_call call;
	struct tei_list walks; /* of remove_all.c */
	uint64_t cookie;       /* of the call */
	struct tei_server_counters counters;
	struct tei_server_sample samples[2]; /* the last one, the one before */
	struct tei_timer *reporter;
	struct tei_server_timing timing;
};

/* server.c */
/*
 * Put @ev to the core and carry out what it says. @link and @frame: whom to
 * answer, or NULL. On return @link may be gone. 0, or -ENOMEM, after which a
 * request has been answered with an error.
 */
int tei_server_step(struct tei_server *s, struct tei_event *ev,
		    struct tei_server_link *link,
		    const struct tei_frame *frame);

/* admin_tenants.c: quotas from their file; @error names the setting */
int tei_server_tenants_start(struct tei_server *s,
			     char error[TEI_CONF_ERROR_LEN]);

/* listen.c; on error @error is one line that names the setting */
int tei_server_open_rpc(struct tei_server *s, char error[TEI_CONF_ERROR_LEN]);
int tei_server_open_http(struct tei_server *s, char error[TEI_CONF_ERROR_LEN]);
/* Unless it is not enabled, which is fine. */
int tei_server_open_metadata(struct tei_server *s,
			     char error[TEI_CONF_ERROR_LEN]);

/* Background work for half a ms, when there is any; the rest of it later. */
void tei_server_hurry(struct tei_server *s);

/* remove_all.c */
void tei_server_on_remove_all(struct tei_server_link *link,
			      const struct tei_frame *f);
void tei_server_remove_all_done(struct tei_server *s,
				const struct tei_action *action);
/*
 * The main connection of @session has gone: what is left to match is let be,
 * removes of everything go on, and no answer is sent.
 */
void tei_server_remove_all_left(struct tei_server *s, tei_session_id session);
void tei_server_remove_all_free(struct tei_server *s);

/* sessions.c */
extern const struct tei_frame_ops tei_server_link_ops;
/* A new connection: make it a stranger's link, or refuse it. */
void tei_server_accepted(struct tei_frame_conn *conn, void *server);
struct tei_server_session *tei_server_session_find(const struct tei_server *s,
						   tei_session_id id);
/* The core has ended it: close its connections and forget it. */
void tei_server_session_end(struct tei_server *s, tei_session_id id);
/* Everything, at the end; tells the core nothing. */
void tei_server_sessions_free(struct tei_server *s);
/* Owners: connected sessions with something mounted. */
uint64_t tei_server_owners(const struct tei_server *s);
/* Close a connection for its peer's fault, and let the core know. */
void tei_server_link_drop(struct tei_server_link *link);

/* hello.c */
void tei_server_on_hello(struct tei_server_link *link,
			 const struct tei_frame *f);
/* The core's answer to a join. */
void tei_server_hello_done(struct tei_server *s, struct tei_server_link *link,
			   const struct tei_frame *f, int32_t code);

/* reply.c */
/* Turn the core's reply to @s->call into a message and send it. */
void tei_server_reply(struct tei_server *s, const struct tei_action *action);
/* Answer the call with @code for every key. */
void tei_server_reply_code(struct tei_server *s, int32_t code);
void tei_server_reply_pool(struct tei_server_link *link,
			   const struct tei_frame *f);

/* As wall clock time, in ms, what is @ms on ours. */
uint64_t tei_server_wall_ms(uint64_t ms);

/* later.c */
/* The call is answered with a later step. */
void tei_server_later(struct tei_server *s);
/* The core's reply to a call of an earlier step. */
void tei_server_reply_later(struct tei_server *s,
			    const struct tei_action *action);
/* Nobody is left to answer. */
void tei_server_laters_drop(struct tei_server_link *link);

/* push.c */
/* Pushes of no hurry that nothing has followed. */
void tei_server_push_waiting(struct tei_server *s);
void tei_server_push_fence(struct tei_server *s,
			   const struct tei_action *action);
void tei_server_push_bury(struct tei_server *s,
			  const struct tei_action *action);
void tei_server_push_probe(struct tei_server *s,
			   const struct tei_action *action);
void tei_server_push_task(struct tei_server *s,
			  const struct tei_action *action);
void tei_server_push_committed(struct tei_server *s,
			       const struct tei_action *action);

/* news.c */
/* The call was a mount that is done; @kept: it was there. */
void tei_server_tell_mount(const struct tei_server *s, bool kept);
void tei_server_tell_owner(const struct tei_action *action);

/* count.c */
/* Count @ev and its outcome: status[n], or @code when it is not 0. */
void tei_server_count(struct tei_server *s, const struct tei_event *ev,
		      int32_t code, const int32_t *status, size_t n);

#endif
