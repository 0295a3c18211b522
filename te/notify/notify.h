/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.h - messages to peers, which follow the data of their batch
 *
 *   WAITING --all before it ended well--> QUEUED --in a frame--> SENT --> ended
 *      |                                    |  withdrawn
 *      +------- one of them failed ---------+----------> ended
 *
 * A request of the op TE_NOTIFY waits, with the token, for the requests before
 * it in its batch that go to the same segment, other notifications included.
 * So for each segment only the first one has to look; the others follow it.
 * Then its bytes are copied and handed to control, which sends.
 *
 * Control sends one frame at a time, with as many messages as fit. Once sent,
 * a message keeps its number until the peer has said what became of it, over
 * however many connections: what is sent again is always the same, and the
 * peer takes each number once.
 */
#ifndef TE_NOTIFY_NOTIFY_H
#define TE_NOTIFY_NOTIFY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "base/list.h"
#include "base/loop.h"

#define TEI_NOTIFY_FRAME_MAX 256u /* messages in a frame */

struct te_batch;
struct te_engine;
struct tei_peer;
struct tei_request;

enum tei_notify_state {
	TEI_NOTIFY_WAITING,
	TEI_NOTIFY_QUEUED, /* control's to send, the token's to withdraw */
	TEI_NOTIFY_WITHDRAWN,
	TEI_NOTIFY_SENT,
	TEI_NOTIFY_LEFT, /* sent, and nobody waits for the answer any more */
};

struct tei_notify {
	/* The request's, control's, and one of a withdrawal. */
	_Atomic uint32_t refs;
	/* Who takes it out of QUEUED decides; sequentially consistent. */
	_Atomic uint8_t state;
	struct tei_peer *peer;

	/* Token. */
	struct tei_request *request; /* NULL: has ended */
	struct tei_list of_batch;    /* batch.notifies, or a followers */
	struct tei_list followers;   /* later ones to the same segment */
	uint32_t cursor; /* what is before it in the batch ended well */
	bool answered;

	/* Control, from ask to answer. */
	struct tei_call ask, withdraw, answer;
	struct tei_list link; /* peer->c.notify: queue or doubt */
	uint32_t life;
	uint64_t epoch;
	int err;
	bool loud; /* with err: it may have arrived all the same */
	uint32_t length;
	uint8_t bytes[];
};

/* A peer's part of control's. */
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

/* ---- token (notify.c) ---- */

/* The request has begun. */
void tei_notify_begin(struct tei_request *r);
/* The request becomes final; says whether the message may still arrive. */
void tei_notify_ended(struct tei_request *r);
/* Something in the batch is final: look whether a notification may go. */
void tei_notify_look(struct te_batch *batch);
/* It needs the control connection. */
static inline bool tei_notify_is_going(const struct tei_notify *n)
{
	return atomic_load(&n->state) != TEI_NOTIFY_WAITING;
}

/* ---- control thread (notify_talk.c) ---- */

void tei_notify_out_init(struct tei_notify_out *out);
/* Handlers of ask and withdraw. */
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
/* With the engine. */
void tei_notify_close(struct tei_peer *peer);
void tei_notify_put(struct tei_notify *n);

#endif
