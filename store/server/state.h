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

/* Bytes of answers that a client may leave unread before it is disconnected. */
#define TES_SERVER_BACKLOG_MAX  (32u << 20)
#define TES_SERVER_LINKS_MAX    4096u
#define TES_SERVER_LINKS_EACH   4u /* two, and two that take their place */
#define TES_SERVER_SESSIONS_MAX 8192u
#define TES_SERVER_HELLO_MS     2000u
#define TES_SERVER_LONG         (16u << 10) /* bytes of a frame that is long */
/* Requests whose answers wait for owners: keys of a connection's; of all, which
 * is some 30 MB, and then each connection may have its share of as many. */
#define TES_SERVER_LATE_KEYS 16384u
#define TES_SERVER_LATERS    65536u
#define TES_SERVER_STRANGERS 64u /* shares of those without a session */

enum tes_server_role {
	TES_SERVER_UNKNOWN,
	TES_SERVER_MAIN,
	TES_SERVER_HEART,
};

struct tes_server_drained;
struct tes_server_job;
struct tes_server_removal;
struct tes_server_session;

/*
 * Share of the master's time: of a client with all its connections, or of the
 * strangers who come from where one number falls; turns.c.
 */
struct tes_server_share {
	struct tei_list link;  /* server's queue, while links has any */
	struct tei_list links; /* the client's own queue */
	uint64_t turn;         /* of the loop, when it was served last */
	uint64_t used_ns;      /* in that turn, and what it owes of before */
};

struct tes_server_link {
	struct tei_list link; /* server's links */
	struct tes_server *server;
	struct tei_frame_conn *conn;
	enum tes_server_role role;
	struct tes_server_session *session; /* not for strangers */
	struct tei_list laters;     /* requests whose reply comes later */
	size_t n_laters, late_keys; /* of them, and theirs */
	bool lazy;                  /* pushes may wait in it */
	/* turns.c: in the queue of a share, or in server's crowd; with a job,
	 * or with a frame that its connection keeps. */
	struct tei_list queued;
	struct tes_server_share *share; /* whose queue; NULL: none */
	struct tes_server_job *job;     /* NULL: none */
	bool large;                     /* its frame will be a job */
	bool let_in;                    /* there is room for that */
	bool stalled; /* its frame waits until it is owed less */
};

struct tes_server_session {
	struct tei_hash_node by_id, by_client;
	tes_session_id id;
	uint8_t client_id[TES_CORE_ID_LEN];
	uint8_t incarnation[TES_CORE_ID_LEN];
	struct tes_server_share share;
	bool named;         /* is in by_client */
	char *engine;       /* its name; NULL: there was no memory for it */
	uint64_t hold_told; /* over this heart; 0: none */
	struct tes_server_link *main;  /* or NULL */
	struct tes_server_link *heart; /* or NULL */
};

/* Counted per operation; names as Mooncake's metrics. */
enum tes_server_op {
	TES_SERVER_OP_MOUNT,
	TES_SERVER_OP_UNMOUNT,
	TES_SERVER_OP_PUT_START,
	TES_SERVER_OP_PUT_END,
	TES_SERVER_OP_PUT_REVOKE,
	TES_SERVER_OP_LOOKUP,
	TES_SERVER_OP_EXIST,
	TES_SERVER_OP_SIZE,
	TES_SERVER_OP_REMOVE,
	TES_SERVER_OP_REMOVE_ALL,
	TES_SERVER_OP_REMOVE_BY_REGEX,
	TES_SERVER_OP_REPLICA_CLEAR,
	TES_SERVER_OP_CREATE_COPY,
	TES_SERVER_OP_CREATE_MOVE,
	TES_SERVER_OP_QUERY_TASK,
	TES_SERVER_OP_UPDATE_TASK,
	TES_SERVER_OP_PING,
	TES_SERVER_OPS,
};

struct tes_server_op_count {
	uint64_t requests, failures; /* calls of one key */
	uint64_t batches, batch_failures, batch_partial;
	uint64_t items, items_failed; /* of batches */
};

struct tes_server_counters {
	struct tes_server_op_count op[TES_SERVER_OPS];
	uint64_t refused[TEI_FRAME_FAULTS]; /* at the RPC port */
	uint64_t refused_version, refused_slow, refused_unknown;
	uint64_t refused_epoch; /* no master can have had it */
	uint64_t refused_early; /* knows of an epoch that is yet to be taken */
	uint64_t refused_http[TEI_HTTP_REFUSALS];
	uint64_t lookup_keys, lookup_hits, lookup_hit_bytes;
	uint64_t steps_failed; /* the core had no memory */
};

/* Snapshot of counters, for rates. */
struct tes_server_sample {
	uint64_t ms;
	struct tes_server_op_count op[TES_SERVER_OPS];
};

/* The request that the core is working on. */
struct tes_server_call {
	struct tes_server_link *link; /* NULL once the connection is gone */
	const struct tei_frame *frame;
	const struct tes_event *event;
};

struct tes_server {
	struct tei_loop *loop;
	struct tes_server_settings settings; /* shallow: strings not owned */
	struct tes_core *core;
	struct tei_frame_server *port;
	uint16_t rpc_port, http_port, metadata_port;
	struct tei_http *http;
	struct tes_metadata_server *metadata; /* NULL: not enabled */
	struct tes_events *events;            /* NULL: not published */
	struct tes_server_removal *removal;   /* of all keys, or NULL */
	struct tes_server_drained *drained;   /* who asks the core, or NULL */
	struct tei_timer *timer;
	struct tei_alarm hurry; /* set: background work goes on */
	struct tei_alarm room;  /* set: there is to be room for the next puts */
	size_t n_started;       /* keys since there was */
	/* turns.c */
	const struct tes_server_steps *steps; /* not owned */
	struct tei_alarm turns;               /* set: the queue is served */
	struct tei_list queue;                /* shares, to be served in turn */
	struct tei_list crowd; /* links whose batch has to wait for room */
	struct tes_server_share strangers[TES_SERVER_STRANGERS];
	struct tes_server_share *served; /* in this turn, since served_ns */
	uint64_t turn, served_ns;
	unsigned int n_jobs, n_let_in; /* these will be jobs */
	size_t job_bytes;              /* memory of all jobs */
	bool skip_tick;                /* the last one was not */
	bool stepping;                 /* the core is at work */
	bool replied;                  /* to the call */
	bool lazy;                     /* some link is */
	bool tenants_told;             /* that they mean nothing here */
	uint64_t started_ms;

	/* Epoch of this life, and the one that it began with: wall clock in us
	 * at the start. */
	uint64_t epoch, first_epoch;
	uint8_t epoch_key[TES_STORE_EPOCH_KEY_LEN];
	uint8_t epoch_proof[TES_STORE_PROOF_LEN]; /* of epoch */
	uint64_t digest_seed, hash_seed;
	uint8_t group[TES_STORE_GROUP_LEN];
	uint32_t heartbeat_ms;

	struct tei_list links;
	struct tei_hash by_id, by_client; /* sessions */
	struct tei_hash laters;           /* by cookie */
	tes_session_id last_session;
	unsigned int n_links;

	struct tei_arena in, out;
	struct tes_server_call call;
	struct tei_list walks; /* removals of all, see admin_keys.c */
	uint64_t cookie;       /* of the call */
	struct tes_server_counters counters;
	struct tes_server_sample samples[2]; /* the last one, the one before */
	struct tei_timer *reporter;
	struct tes_server_timing timing;
};

/* server.c */
/*
 * Put @ev to the core and carry out what it says. @link and @frame: whom to
 * answer, or NULL. On return @link may be gone. 0, or -ENOMEM, after which a
 * request has been answered with an error.
 */
int tes_server_step(struct tes_server *s, struct tes_event *ev,
		    struct tes_server_link *link,
		    const struct tei_frame *frame);

/* The two halves around a call of tes_core_step(), for who calls it himself. */
struct tes_server_steps {
	void (*begin)(struct tes_server *s, struct tes_event *ev,
		      struct tes_server_link *link,
		      const struct tei_frame *frame);
	/* @keep: the first of @actions is a reply that is not finished, and
	 * stays there alone. */
	void (*end)(struct tes_server *s, int rc, struct tes_actions *actions,
		    bool keep);
};

/* turns.c */
/* @steps: what a job does around each of its steps; borrowed. */
void tes_server_turns_init(struct tes_server *s,
			   const struct tes_server_steps *steps);
/* Serves the queue in the next turn; from the tick, too, as this may fail. */
void tes_server_turns_go_on(struct tes_server *s);
/* The frame ops' ready(): whether it is the link's turn. */
bool tes_server_ready(struct tei_frame_conn *conn, const struct tei_frame *f,
		      void *link);
/* True: a batch that is handled in parts, as a job. */
bool tes_server_is_large(const struct tes_event *ev);
/* Takes the server's `in`, where @ev was decoded. */
void tes_server_job_begin(struct tes_server_link *link,
			  const struct tei_frame *f,
			  const struct tes_event *ev);
/* Goes on if it may: it has one later less. */
void tes_server_turns_answered(struct tes_server_link *link);
/* @link goes: so does what it waits for. */
void tes_server_turns_drop(struct tes_server_link *link);
void tes_server_share_init(struct tes_server_share *share);
/* Books what a long frame has cost on its client, which may have gone. */
void tes_server_turns_book(struct tes_server *s);

/* admin_tenants.c: quotas from their file; @error names the setting */
int tes_server_tenants_start(struct tes_server *s,
			     char error[TEI_CONF_ERROR_LEN]);

/* Background work for half a ms, when there is any; the rest of it later. */
void tes_server_hurry(struct tes_server *s);

/* admin_keys.c */
void tes_server_on_remove_all(struct tes_server_link *link,
			      const struct tei_frame *f);
void tes_server_remove_all_done(struct tes_server *s,
				const struct tes_action *action);
/*
 * The main connection of @session has gone: what is left to match is let be,
 * removes of everything go on, and no answer is sent.
 */
void tes_server_remove_all_left(struct tes_server *s, tes_session_id session);
void tes_server_remove_all_free(struct tes_server *s);

/* sessions.c */
extern const struct tei_frame_ops tes_server_link_ops;
/* A new connection: make it a stranger's link, or refuse it. */
void tes_server_accepted(struct tei_frame_conn *conn, void *server);
struct tes_server_session *tes_server_session_find(const struct tes_server *s,
						   tes_session_id id);
/* The core has ended it: close its connections and forget it. */
void tes_server_session_end(struct tes_server *s, tes_session_id id);
/* Everything, at the end; tells the core nothing. */
void tes_server_sessions_free(struct tes_server *s);
/* Owners: connected sessions with something mounted. */
uint64_t tes_server_owners(const struct tes_server *s);

/* The core's answer to a join. */
void tes_server_hello_done(struct tes_server *s, struct tes_server_link *link,
			   const struct tei_frame *f, int32_t code);

/* reply.c */
/* Turn the core's reply to @s->call into a message and send it. */
void tes_server_reply(struct tes_server *s, const struct tes_action *action);
/* Answer the call with @code for every key. */
void tes_server_reply_code(struct tes_server *s, int32_t code);
void tes_server_reply_pool(struct tes_server_link *link,
			   const struct tei_frame *f);

/* Converts @ms of our clock to wall clock time, in ms. */
uint64_t tes_server_wall_ms(uint64_t ms);

/* The call is answered with a later step. */
void tes_server_later(struct tes_server *s);
/* The core's reply to a call of an earlier step. */
void tes_server_reply_later(struct tes_server *s,
			    const struct tes_action *action);
/* Nobody is left to answer. */
void tes_server_laters_drop(struct tes_server_link *link);

/* Sends deferred pushes that no later push has taken along. */
void tes_server_push_waiting(struct tes_server *s);
void tes_server_push_fence(struct tes_server *s,
			   const struct tes_action *action);
void tes_server_push_bury(struct tes_server *s,
			  const struct tes_action *action);
void tes_server_push_probe(struct tes_server *s,
			   const struct tes_action *action);
void tes_server_push_task(struct tes_server *s,
			  const struct tes_action *action);
void tes_server_push_committed(struct tes_server *s,
			       const struct tes_action *action);

/* The call was a mount that is done; @kept: it was there. */
void tes_server_tell_owner(const struct tes_action *action);

/* metrics.c */
/* Count @ev and its outcome: status[n], or @code when it is not 0. */
void tes_server_count(struct tes_server *s, const struct tes_event *ev,
		      int32_t code, const int32_t *status, size_t n);

#endif
