/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - control connections to peers, as control has them
 *
 *   IDLE --wanted--> RESOLVING --> CONNECTING --> HELLO --> DESCRIBING --> UP
 *    ^                   |            |            |         |            |
 *    +--nobody wants-- BACKOFF <------+------------+---------+------------+
 *
 * Threads: control, unless said otherwise.
 */
#ifndef TE_CONTROL_PEER_H
#define TE_CONTROL_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <te/te.h>

#include "base/frame.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/net.h"
#include "base/thread.h"
#include "te/notify/notify.h"
#include "te/region/group.h"
#include "te/transfer/peer.h"

struct te_engine;
struct tei_lookup;
struct tei_peer;
struct tei_rail_box;

/* ---- one life of a peer, opened and counted ---- */

struct tei_segment {
	te_segment_id id;
	struct tei_peer *peer; /* not owned */
	/* All guarded by engine->mu. */
	uint32_t
		life; /* 0: the peer was never met, its first life it will be */
	uint32_t opens;
	uint8_t incarnation[TE_INCARNATION_LEN];
};

/* Frees, with the engine, the segments that were never closed. */
void tei_segments_free(struct te_engine *engine);

#define TEI_PEER_ADDRESSES 4

enum tei_peer_state {
	TEI_PEER_IDLE,
	TEI_PEER_RESOLVING, /* its name */
	TEI_PEER_CONNECTING,
	TEI_PEER_HELLO,
	TEI_PEER_DESCRIBING,
	TEI_PEER_UP,
	TEI_PEER_BACKOFF,
};

/* Notifications to a peer. */
struct tei_notify_out {
	struct tei_list queue; /* not sent yet */
	struct tei_list doubt; /* sent, as numbers from `taken` + 1 on */
	uint32_t n_doubt;
	uint32_t life;   /* of the peer that these numbers are for */
	uint64_t taken;  /* last number that the peer has accepted */
	uint64_t losses; /* how often the owner has forgotten such numbers */
	bool asked;      /* the frame awaits its answer */
	bool full;       /* the peer has no room, and will say when it has */
	struct tei_frame_call call;
};

/* Control thread. */
struct tei_peer_control {
	struct tei_peer *peer;
	uint8_t state;
	struct tei_frame_conn *conn;
	struct tei_timer *timer; /* backoff */
	struct tei_lookup *lookup;
	struct tei_list of_names; /* waiting for a look-up */
	uint32_t attempts;        /* in a row that failed */
	int n_refused;            /* in a row, by the name's addresses */
	uint64_t refused_at;      /* ns: the first of all in a row; 0: none */
	struct tei_address address[TEI_PEER_ADDRESSES];
	int n_address, next_address;
	struct tei_address at; /* where the last attempt went to */
	uint32_t tried; /* of announced.remote->control: tei_reroute_*() */
	bool elsewhere; /* at is one of those, not of the name */
	struct tei_group_challenge challenge;
	uint64_t hello_epoch;
	struct tei_list openers; /* struct tei_opener */
	struct tei_list drops;   /* links to be dropped, by out.asked: until
				  * that is answered, or the peer restarts */
	struct tei_frame_call hello, prove, describe, probe;
	struct tei_notify_out notify;
	uint64_t hello_taken, hello_losses; /* for tei_notify_greeted() */
	uint64_t question;  /* the last one before describe was sent */
	uint64_t probed_at; /* ns */
	bool describing, describe_again, proving, prove_again, probing;
};

/* Waiter for a peer to be up, or to answer; on the caller's stack. */
struct tei_opener {
	struct tei_list link; /* peer->c.openers */
	struct tei_call call;
	struct tei_peer *peer;
	bool probe;
	int n_refused;   /* addresses, since it waits; control thread */
	uint64_t rtt_ns; /* guarded by mu, as all below */
	bool done;
	int err;
	struct tei_cond cond;
};

/* The peer of that name, made if new. -EINVAL, -ENOMEM. Takes mu. */
int tei_peer_get(struct te_engine *engine, const char *name,
		 struct tei_peer **out);
/* Frees a peer; both threads have ended and every link is freed. */
void tei_peer_free(struct tei_peer *peer);

/* ---- control thread (peer.c, peer_calls.c) ---- */

void tei_peer_move(struct tei_peer *peer, enum tei_peer_state to);
/* Go on towards what is wanted: connect, send what waits. */
void tei_peer_kick(struct tei_peer *peer);
void tei_peer_open(struct tei_opener *opener);
/* The owner has sent what makes no sense: says so, and the peer has failed. */
void tei_peer_not_understood(struct tei_peer *peer, const char *what);
/* A step failed: forget the connection, tell, and try again if wanted. */
void tei_peer_failed(struct tei_peer *peer, int err, bool for_good);
void tei_peer_close(struct tei_peer *peer); /* before the loop stops */
/* Say hello on the new connection, and all that follows it. */
void tei_peer_prove(struct tei_peer *peer);
void tei_peer_describe(struct tei_peer *peer);
/* Connected and described. */
void tei_peer_is_up(struct tei_peer *peer);
/* The owner's word on our access epoch; ignored unless newer. */
void tei_peer_tell_epoch(struct tei_peer *peer, uint64_t epoch);
extern const struct tei_frame_ops tei_peer_frame_ops;
/* peer_calls.c: Connect, Drop and Probe for the worker's links. */
void tei_peer_send_drops(struct tei_peer *peer);
void tei_peer_probe(struct tei_peer *peer);

/* The peer has answered a probe: ends the openers that asked for it. */
void tei_peer_probed(struct tei_peer *peer, uint64_t rtt_ns);

/* ---- control thread : notifications ---- */

void tei_notify_out_init(struct tei_notify_out *out);
/* Handlers of the messages of that name. */
void tei_notify_asked(struct tei_call *call);
void tei_notify_withdrawn(struct tei_call *call);
/* Something waits for the connection. */
bool tei_notify_wants(const struct tei_peer *peer);
/*
 * A connection is up to where the owner has accepted @taken messages of us and
 * has forgotten such numbers @losses times.
 */
void tei_notify_greeted(struct tei_peer *peer, uint64_t taken, uint64_t losses);
/* Send the next frame, if none is under way. */
void tei_notify_send(struct tei_peer *peer);
/* The connection has ended. */
void tei_notify_lost(struct tei_peer *peer);
/* Ends the peer's notifications, with the engine. */
void tei_notify_close(struct tei_peer *peer);

/* ---- the look-ups that an engine has under way ---- */

/*
 * Few at once: a thread each, which a resolver may hold for long. Who comes
 * when all are taken waits for one to end. Control thread.
 */

#define TEI_NAMES_AT_ONCE 8u

struct tei_names {
	unsigned int n;          /* look-ups that were started */
	struct tei_list waiting; /* peers, by c.of_names */
};

void tei_names_init(struct tei_names *names);

/* ---- control connections that go on by another network ---- */

void tei_reroute_init(struct te_engine *engine);
/* The device of @box has lost its link. Token. */
void tei_reroute_rail_lost(struct tei_rail_box *box);

/* ---- control thread ---- */

/* ms that a step or an answer may take before another way is tried. */
uint64_t tei_reroute_timeout_ms(const struct tei_peer *peer);
/* The peer has answered on this way. */
void tei_reroute_answered(struct tei_peer *peer);

/* Binds a segment to the incarnation that its peer has now. Called with mu. */
static inline void tei_segment_meet(struct tei_segment *segment)
{
	const struct tei_announced *announced = &segment->peer->announced;

	segment->life = announced->life;
	memcpy(segment->incarnation, announced->incarnation,
	       TE_INCARNATION_LEN);
}

#endif
