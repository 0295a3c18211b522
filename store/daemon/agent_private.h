/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_private.h - the inside of the agent, as its files share it
 *
 *   dummy --> greeting (door.c) --> session with memory (session.c)
 *                                      |  frames: jobs
 *                                      v
 *             reply <-- loop <-- worker (session.c, serve.c) --> te_store
 *
 * The loop owns sessions, connections and jobs; a job is its worker's while it
 * runs. A session whose dummy has gone lives on until its last job is over:
 * only then is its memory unmapped.
 */
#ifndef STORE_DAEMON_AGENT_PRIVATE_H
#define STORE_DAEMON_AGENT_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <event2/event_struct.h>

#include "base/arena.h"
#include "base/frame.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/peer.h"
#include "base/thread.h"
#include "store/daemon/agent.h"
#include "store/daemon/buffers.h"
#include "store/proto/agent.h"
#include "store/proto/agent.pb-c.h"
#include "store/proto/strings.h"

#define TES_AGENT_SESSIONS_MAX 64
#define TES_AGENT_THREADS_MAX  64
#define TES_AGENT_TYPES        16
#define TES_AGENT_JOBS_MAX     4 /* of a connection, at a time */
/* Bodies that wait, of a session and of all. */
#define TES_AGENT_QUEUE_MAX     (16u << 20)
#define TES_AGENT_QUEUE_ALL_MAX (128u << 20)

/* A dummy's memory, as we have mapped it. */
struct tes_agent_memory {
	uint64_t id; /* never used twice */
	uint8_t *base;
	uint64_t length;
};

struct tes_agent_session {
	struct tes_agent *agent;
	struct tei_list link; /* in agent->sessions */
	uint64_t id;
	uint8_t token[TES_AGENT_TOKEN_LEN];
	struct tes_agent_memory memory;
	/* Made by the loop when they are asked for, never changed; NULL. */
	struct tes_agent_buffers *buffers;
	uid_t uid;
	pid_t pid; /* 0: of another name space, not seen from here */
	int pidfd; /* -1: none */
	struct event died;
	struct tei_list conns;
	unsigned int n_conns, n_jobs;
	uint64_t used_ns;     /* when its last call or connection came */
	size_t queued_bytes;  /* of its jobs' bodies */
	bool leaving;         /* takes no new calls; ends with its last */
	bool chosen;          /* to make way, if that gives enough room */
	bool ended;           /* nobody is there any more */
	struct tei_call post; /* memory is unmapped: back to the loop */

	struct tei_list queue; /* guarded by agent->mu: jobs */
	struct tei_list turn;  /* guarded by agent->mu: in agent->turns, gone */
	unsigned int n_running; /* guarded by agent->mu */
};

struct tes_agent_conn {
	struct tes_agent_session *session;
	struct tei_list link; /* in session->conns */
	struct tei_frame_conn *frames;
	struct tei_list jobs;
	unsigned int n_jobs;
};

struct tes_agent_job {
	struct tes_agent_session *session;
	struct tes_agent_conn *conn; /* the loop's; NULL: has gone */
	struct tei_list of_conn;     /* the loop's: in conn->jobs */
	struct tei_list of_queue;    /* guarded by agent->mu */
	struct tei_call post;        /* back to the loop */
	struct tei_frame frame;      /* type and id of the request */
	uint64_t since_ns;           /* when it came */
	struct tei_arena arena;      /* of request and answer */
	const ProtobufCMessage *answer;
	uint8_t *body;
	size_t len;
	struct tes_agent_buffers *buffers; /* the session's, when it came */
	const uint64_t *cut; /* cut[n_cut]: buffers that the answer hands out */
	size_t n_cut;
};

struct tes_agent_stats {
	_Atomic uint64_t calls[TES_AGENT_TYPES]; /* relaxed, as all of these */
	_Atomic uint64_t keys, failed_keys, put_bytes, got_bytes, late;
	uint64_t sessions_total, died, silent, made_way,
		refused[TES_GREETING_STATUSES]; /* the loop's */
	uint64_t faults[TEI_FRAME_FAULTS];      /* the loop's */
};

struct tei_http;
struct ucred;

struct tes_agent {
	struct tei_loop *loop;
	struct te_store *store;
	char path[TES_AGENT_PATH_MAX];
	dev_t path_dev;            /* of the socket that we have made there */
	ino_t path_ino;            /* 0: none */
	struct tei_peer_rule rule; /* insecure or not: of this host alone */
	gid_t group;
	bool has_group;
	int listener;
	struct event acceptable;
	struct tei_alarm again; /* accept once more, after a shortage */
	struct tei_frame_server *port_server;
	uint16_t port;
	struct tei_list askers;
	struct tei_list greeters;
	unsigned int n_greeters;
	struct tei_list sessions;
	unsigned int n_sessions, n_leaving; /* leaving: to be unmapped yet */
	uint64_t last_session, last_memory;
	uint64_t memory_bytes, leaving_bytes, memory_max, memory_each_max;
	struct tes_agent_budget budget; /* of buffers */
	size_t queued_bytes;
	struct tei_http *http;
	uint64_t http_refused[8];
	struct tes_agent_stats stats;
	struct tei_log_limit refusals, made_way; /* lines about them */

	pthread_t threads[TES_AGENT_THREADS_MAX];
	unsigned int n_threads;
	struct tei_mutex mu;    /* lock 38 */
	struct tei_cond work;   /* of turns, stopping */
	struct tei_list turns;  /* guarded by mu: sessions with jobs */
	struct tei_list gone;   /* guarded by mu: sessions to be unmapped */
	bool walking;           /* guarded by mu: a job walks the whole table */
	unsigned int n_running; /* guarded by mu */
	bool stopping;          /* guarded by mu */
};

/* ---- door.c: who comes, and the greeting ---- */

/* Loop thread. 0 or -errno, logged. */
int tes_door_open(struct tes_agent *agent);
void tes_door_close(struct tes_agent *agent);

/* ---- door.c: where its socket lies ---- */

/* Path and group, from the configuration. 0 or -errno, logged. */
int tes_door_find(struct tes_agent *agent,
		  const struct tes_agent_config *config);

/* ---- door.c: where dummies are served, asked over TCP ---- */

/* Loop thread. 0 or -errno, logged. */
int tes_where_open(struct tes_agent *agent,
		   const struct tes_agent_config *config);
void tes_where_close(struct tes_agent *agent);

/* ---- session.c: memory of a dummy ---- */

/* The place, or NULL: not wholly within. */
void *tes_agent_memory_at(const struct tes_agent_memory *memory,
			  uint64_t offset, uint64_t length);

/* ---- session.c; the loop's ---- */

/*
 * Status of a greeting. @fd is memory, stays the caller's; a pid of 0 is not
 * known. Where there is no room, the session of another may make way. On
 * TES_GREETED the session waits for its first connection.
 */
enum tes_greeting_status tes_session_open(struct tes_agent *agent, int fd,
					  uint64_t length,
					  const struct ucred *cred,
					  struct tes_agent_session **out);
enum tes_greeting_status tes_session_find(struct tes_agent *agent,
					  const struct tes_greeting *g,
					  pid_t pid,
					  struct tes_agent_session **out);
/* Adds a connection; takes @socket. A session without any is ended. */
void tes_session_connect(struct tes_agent_session *session, int socket);
/* The dummy is gone: what waits is dropped, what runs is waited for. */
void tes_session_end(struct tes_agent_session *session);
/*
 * Has a session make way for want of descriptors. False: none has many, or one
 * has made way and gives its own back when the calls that run are over.
 */
bool tes_session_make_way(struct tes_agent *agent);
/* Frees sessions that nobody will unmap any more: workers have ended. */
void tes_sessions_clear(struct tes_agent *agent);

/* ---- session.c; workers ---- */

/* 0, -EAGAIN, -ENOMEM. */
int tes_workers_start(struct tes_agent *agent, unsigned int n);
/* Lets no new job begin. False: some still run at @deadline_ns. */
bool tes_workers_quiet(struct tes_agent *agent, uint64_t deadline_ns);
/* All are quiet. */
void tes_workers_join(struct tes_agent *agent);

/* ---- serve.c ---- */

/* Do what @job asks; its answer lies in its arena, NULL: out of memory. */
void tes_agent_serve(struct tes_agent *agent, struct tes_agent_job *job);

#endif
