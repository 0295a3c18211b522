/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_private.h - a connection, as the files of frame share it
 *
 *   CONNECTING --> UP --> REFUSING --> ENDED
 *        |          |                    ^
 *        +----------+--------------------+
 *
 * The state is that of the wire; the user's view goes beside it: err is set
 * when down() is due, reported when it was called, closed once the user has
 * closed it.
 * Callbacks may close the connection that they are called for: every entry
 * from the loop or the user is between enter() and leave(), and only the last
 * leave() of a closed, ended connection frees it.
 */
#ifndef BASE_FRAME_PRIVATE_H
#define BASE_FRAME_PRIVATE_H

#include <event2/event.h>
#include <event2/event_struct.h>

#include "base/frame.h"
#include "base/hash.h"
#include "base/loop.h"
#include "base/peer.h"

#define TEI_FRAME_TEXT_MAX  1000 /* bytes of a refusal's text */
#define TEI_FRAME_LINGER_MS 2000 /* most time to deliver a refusal */
/* Time for a frame from its first byte on: an answer, what is asked. */
#define TEI_FRAME_PART_MS  30000
#define TEI_FRAME_ASKED_MS 10000
/* Memory of input that waits for more or to be taken: of a port, a source. */
#define TEI_FRAME_INPUT_MAX  ((size_t)64 << 20)
#define TEI_FRAME_INPUT_EACH ((size_t)32 << 20)
/* Bytes that the kernel does not take, since peers do not read: the same. */
#define TEI_FRAME_OUTPUT_MAX  ((size_t)256 << 20)
#define TEI_FRAME_OUTPUT_EACH ((size_t)128 << 20)
/* Connections of one source that are spared while others can make way. */
#define TEI_FRAME_NEEDED_EACH 64
#define TEI_FRAME_NEVER       UINT64_MAX

enum tei_frame_state {
	TEI_FRAME_CONNECTING,
	TEI_FRAME_UP,
	TEI_FRAME_REFUSING, /* last words go out, what comes in is dropped */
	TEI_FRAME_ENDED,    /* no socket any more */
};

/* Memory that a peer can make a port keep for it; each has a budget. */
enum tei_frame_memory {
	TEI_FRAME_INPUT,  /* of bodies that have not been delivered */
	TEI_FRAME_OUTPUT, /* of frames that the peer does not read */
	TEI_FRAME_MEMORIES,
};

struct tei_frame_usage {
	struct tei_list link; /* of the port's for this memory, unless 0 */
	size_t bytes;
};

#define TEI_FRAME_RANKS      16
#define TEI_FRAME_SOURCE_LEN 16

/*
 * Lists by number of connections: list[0] up to 3, list[i] from 2^(i+1) on. In
 * each the idlest comes first.
 */
struct tei_frame_ranks {
	struct tei_list list[TEI_FRAME_RANKS];
};

/* Connections of a source that were given the same name, or none yet. */
struct tei_frame_holder {
	struct tei_list link;      /* source->holders, unless it has none */
	struct tei_hash_node node; /* peers->holders, unless it is nameless */
	struct tei_frame_source *source;
	uint8_t name[TEI_FRAME_NAME_LEN];
	struct tei_list conns; /* the idlest first */
	unsigned int n;        /* of conns */
	size_t bytes[TEI_FRAME_MEMORIES];
};

/*
 * Origin of connections: a user of this host where it is known, else an
 * address. Freed with the last of them.
 */
struct tei_frame_source {
	struct tei_hash_node node; /* peers->sources */
	struct tei_list link;      /* peers->ranks */
	uint8_t key[TEI_FRAME_SOURCE_LEN];
	unsigned int n;
	size_t bytes[TEI_FRAME_MEMORIES];
	struct tei_frame_ranks holders;
	struct tei_frame_holder nameless;
};

/* Accounts of the connections of a server; frame_peers.c. */
struct tei_frame_peers {
	struct tei_hash sources, holders;
	uint64_t seed;
	struct tei_frame_ranks ranks; /* of sources */
	/* Connections that use some of each memory, by when they began to. */
	struct tei_list users[TEI_FRAME_MEMORIES];
	size_t bytes[TEI_FRAME_MEMORIES];
	unsigned int n;         /* connections */
	unsigned int n_in_vain; /* looked at since one made way */
};

struct tei_frame_server {
	struct tei_loop *loop;
	struct tei_frame_server_config config;
	struct tei_peer_rule rule;
	int fd;
	struct event acceptable, resume;
	struct tei_list conns; /* all that count here */
	struct tei_frame_peers peers;
	unsigned int n_conns, n_refused;
	uint64_t turn;  /* of the loop, where it is measured: the last read */
	uint64_t round; /* in each all connections may read */
	bool late;      /* the round goes on: some could not in this turn */
	bool accepting, closed; /* inside on_acceptable(); closed in there */
};

/* A piece of the send queue: bytes[from .. to) are still to go. */
struct tei_frame_out {
	struct tei_frame_out *next;
	size_t from, to, room;
	uint8_t bytes[];
};

struct tei_frame_conn {
	struct tei_loop *loop;
	const struct tei_frame_protocol *protocol;
	const struct tei_frame_ops *ops;
	void *arg;
	struct tei_frame_server *server; /* that accepted it and lives */
	struct tei_list link;            /* in server->conns */
	struct tei_frame_holder *holder; /* NULL: of no server */
	struct tei_list of_holder;       /* holder->conns */
	struct tei_frame_usage usage[TEI_FRAME_MEMORIES];

	int fd;
	uint64_t round, read_ns; /* the server's; time of its reads in it */
	uint8_t state;
	bool outgoing;
	bool refused; /* counts in n_refused, not in n_conns, of server */
	bool closed, reported;
	bool corked;   /* send() only queues; receive() flushes after */
	bool paused;   /* not reading until the send queue is shorter */
	bool deferred; /* nor until resume(): body is whole, ready() said no */
	int broken;    /* errno of a failed send: receive the rest, end */
	unsigned int busy; /* enter()s on the stack */
	int err;
	char *text; /* what the peer said when it refused, or NULL */

	struct event readable, writable;
	struct tei_alarm tick;
	uint64_t tick_ms; /* when tick is due; TEI_FRAME_NEVER: not armed */
	uint64_t step_ms; /* when connect, expect() or linger is over */
	uint64_t part_ms; /* when the rest of a begun frame must be there */

	uint8_t head[TEI_FRAME_HEADER_LEN];
	size_t n_head;
	struct tei_frame in; /* header of the body that is being received */
	uint32_t hello_max;  /* of its body, before the first one; else 0 */
	uint8_t *body;       /* NULL: between bodies, unless in_body */
	size_t n_body, room_body; /* filled; granted, of what is allocated */
	uint8_t *lent; /* the body that is being delivered; NULL: taken */
	bool in_body;
	uint8_t *stash; /* read, but paused before it was looked at */
	size_t n_stash;

	struct tei_frame_out *oldest, *newest;
	size_t n_out;

	uint64_t last_id;
	struct tei_list calls; /* by id, which is by age */
	struct tei_heap due;

	struct tei_loop_orphan orphan;
	struct tei_address peer;
};

/* frame.c */
/* Takes @fd over, also on failure; events are not added yet. NULL: -ENOMEM. */
struct tei_frame_conn *
tei_frame_create(struct tei_loop *loop,
		 const struct tei_frame_protocol *protocol, int fd,
		 const struct tei_address *peer,
		 const struct tei_frame_ops *ops, void *arg);
/* Callbacks may close @conn between the two; the last leave() frees it then. */
void tei_frame_enter(struct tei_frame_conn *conn);
void tei_frame_leave(struct tei_frame_conn *conn);
/* Close the socket; when the user is still there, down(@err) follows. */
void tei_frame_end(struct tei_frame_conn *conn, int err);
/* Arm the timer for the earliest deadline. */
void tei_frame_rearm(struct tei_frame_conn *conn);
/*
 * Has the connection's tick run before the loop waits again, but not from
 * inside this call.
 */
void tei_frame_tick_now(struct tei_frame_conn *conn);
void tei_frame_count(struct tei_frame_conn *conn, enum tei_frame_fault fault);
/* The user may send and be called. */
static inline bool tei_frame_is_open(const struct tei_frame_conn *conn)
{
	return !conn->closed && !conn->err && conn->state <= TEI_FRAME_UP;
}
uint64_t tei_frame_due_ms(uint64_t timeout_ms);
/* Hand a reply to the call that awaits it. */
void tei_frame_answer(struct tei_frame_conn *conn, const struct tei_frame *f);

/* frame_listen.c */
/* @conn ends, or counts no more at the port that accepted it, if one did. */
void tei_frame_leave_server(struct tei_frame_conn *conn);
/*
 * Ends a connection that makes way for others; down() follows. The peer reads
 * why, unless it was sending at that very moment: that resets the connection.
 */
void tei_frame_make_way(struct tei_frame_conn *conn, enum tei_frame_fault fault,
			const char *text);

/* frame_peers.c */
int tei_frame_peers_init(struct tei_frame_peers *peers); /* -ENOMEM */
/* No connection is left. */
void tei_frame_peers_fini(struct tei_frame_peers *peers);
/* @uid: the user at the other end, or TEI_PEER_NO_UID. -ENOMEM. */
int tei_frame_peers_enter(struct tei_frame_peers *peers,
			  struct tei_frame_conn *conn, uint32_t uid);
void tei_frame_peers_leave(struct tei_frame_peers *peers,
			   struct tei_frame_conn *conn);
void tei_frame_peers_name(struct tei_frame_peers *peers,
			  struct tei_frame_conn *conn,
			  const uint8_t name[TEI_FRAME_NAME_LEN]);
/* A whole frame has come. */
void tei_frame_peers_note(struct tei_frame_peers *peers,
			  struct tei_frame_conn *conn);
/*
 * The connection that makes way for @comer, or, with NULL, for want of
 * descriptors. NULL: none does.
 */
struct tei_frame_conn *
tei_frame_peers_idlest(struct tei_frame_peers *peers,
		       const struct tei_frame_conn *comer);
/* The connection of @conn's name, but not @conn, that makes way for it. */
struct tei_frame_conn *tei_frame_peers_older(struct tei_frame_peers *peers,
					     const struct tei_frame_conn *conn);
/* @conn uses @bytes of that memory now. */
void tei_frame_peers_use(struct tei_frame_peers *peers,
			 struct tei_frame_conn *conn,
			 enum tei_frame_memory memory, size_t bytes);
/*
 * Returns the connection that must go, since the port uses more than the budget
 * of @memory, or @of's source does. NULL: neither does.
 */
struct tei_frame_conn *tei_frame_peers_heaviest(struct tei_frame_peers *peers,
						const struct tei_frame_conn *of,
						enum tei_frame_memory memory);

/* frame_io.c */
/* This turn has lasted so long that @conn is to read in the next one. */
bool tei_frame_is_late(const struct tei_frame_conn *conn);
/* Read what is there, within limits of fairness. */
bool tei_frame_receive(struct tei_frame_conn *conn);
void tei_frame_drop_input(struct tei_frame_conn *conn);
int tei_frame_queue(struct tei_frame_conn *conn, uint16_t type, uint16_t flags,
		    uint64_t id, const void *body, size_t len);
void tei_frame_flush(struct tei_frame_conn *conn);
void tei_frame_drop_output(struct tei_frame_conn *conn);

#endif
