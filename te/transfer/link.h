/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - the core's side of an endpoint
 *
 * As initiator (link.c):
 *
 *   ASKING --answered--> CONNECTING --up--> UP
 *      |                     |               |  down, post failed, epoch over
 *      +---------------------+---------------+--> BROKEN: flushed, then closed
 *                                                    |
 *                        freed <--confirmed-- DROPPING: the owner is asked
 *
 * A device may take long to release memory: the backend then reports later
 * that it is flushed. Until then the link is BROKEN, its slices are at
 * the backend, and the pair has another link, or none.
 *
 * Slices of writes that were in flight on a broken link are in limbo: they
 * might still land. Once the owner has confirmed the drop they cannot, and are
 * posted again elsewhere.
 *
 * As target (link.c): control makes it and hands it to the
 * worker, which opens, connects, drops and closes; when it has closed it, it is
 * handed back and freed. Each of the calls below is in at most one queue at a
 * time.
 */
#ifndef TE_TRANSFER_LINK_H
#define TE_TRANSFER_LINK_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "base/list.h"
#include "base/loop.h"
#include "te/backend.h"
#include "te/region/group.h"
#include "te/worker/worker.h"

struct tei_own_end;
struct tei_inbound_peer;
struct tei_link;
struct tei_peer_work;
struct tei_rail_box;
struct tei_inbound_conn;

enum tei_link_state {
	TEI_LINK_ASKING,
	TEI_LINK_CONNECTING,
	TEI_LINK_UP,
	TEI_LINK_BROKEN,
	TEI_LINK_DROPPING,
};

/* Initiator's part. Token, but for what control reads while it is asked. */
struct tei_link_out {
	struct tei_peer_work *peer;
	struct tei_pair *pair; /* of the peer's; lives as long as it */
	struct tei_link *mate; /* self only: the target half */
	uint32_t life;         /* of the peer */
	uint32_t remote_pos;   /* place of its rail in the description */
	uint32_t remote_rail;  /* its own number */
	uint8_t state;
	bool full;       /* post() took less than offered */
	bool retiring;   /* gets nothing new, is closed when idle; see below */
	bool settled;    /* nothing of it can land: no limbo */
	int doomed;      /* break it with that when control answers */
	bool unanswered; /* Connect was: the owner may have a target half */
	bool accepted;   /* it has, or may have, one */
	bool was_up;
	bool overdue; /* it takes long to come up, which others are shown */
	struct tei_list copying;    /* works that are copied out first */
	struct tei_list ready;      /* works not taken by the backend yet */
	struct tei_list posted;     /* works at the backend */
	struct tei_list limbo;      /* works of writes that might still land */
	uint32_t n_ready, n_posted; /* n_ready: copying and ready */
	uint64_t bytes;             /* copying, ready and posted */
	uint64_t up_at;             /* ns: when it came up */
	uint64_t moved_at;   /* ns: opened; last sign of life, while it owes */
	uint64_t doubted_at; /* ns: when it was first seen silent */
	uint64_t late_since; /* ns: the same, slow; 0: it is not */
	uint64_t suspected_at; /* ns: when the peer was last probed for it */
	struct tei_due due;    /* connect time-out, then the watch */
	struct tei_due part;   /* a merged slice shall not wait longer */

	/* Handed to control by ask, back by answer. */
	struct tei_call ask, answer;
	struct tei_frame_call rpc;
	struct tei_list asked; /* in the peer's drops */
	uint64_t drop_until;   /* ns: so long control connects for it */
	bool in_rpc;           /* control's */
	int err;
	size_t address_len;
	uint8_t address[TEI_BLOB_MAX];
};

/* Target's part. Control thread, but for what goes with a call. */
struct tei_link_in {
	struct tei_inbound_peer *inbound;  /* NULL: ourselves */
	const _Atomic uint64_t *epoch_now; /* of whose half it is */
	struct tei_inbound_conn *conn;     /* who asked; NULL: has left */
	uint64_t connect_id;               /* of the Connect frame to answer */
	struct tei_link *self_of; /* the initiator's half, when it is ours */
	bool dropping;            /* drop has been posted */
	bool is_gone;
	_Atomic bool up; /* both halves have met; set with the token, relaxed */
	struct tei_list droppers;   /* struct tei_dropper: who awaits the end */
	struct tei_due due;         /* token: the other half never came */
	struct tei_call open, drop; /* to the worker */
	struct tei_call done, gone; /* back */
	struct tei_call late;       /* back: drop found it closed already */
	/* The worker's: a drop found it open. Handed over by gone. */
	_Atomic bool drop_ran;
	int err;
	size_t address_len;
	uint8_t address[TEI_BLOB_MAX]; /* the peer's, then ours */
};

struct tei_link {
	struct tei_list
		link; /* peer->links (token), inbound peer->links (control) */
	struct tei_list of_rail; /* while its endpoint is open. Token */
	struct tei_list broken;  /* in worker.broken. Token */
	bool flushing, flushed;  /* flush() was called; it is over. Token */
	struct te_engine *engine;
	struct tei_rail_box *rail;
	uint64_t number; /* the initiator's */
	bool open;       /* the endpoint is. Token */
	int why;         /* it broke */
	uint32_t n_pins; /* guarded by the pin lock of its rail's worker */
	_Atomic tei_group_mask groups; /* the peer has proven; relaxed */
	struct tei_link_out out;
	struct tei_link_in in;
	struct tei_endpoint ep; /* ops->endpoint_size bytes follow */
};

/* The peer or the way to it is gone: what TE_FAIL_FAST does not wait out. */
static inline bool tei_is_lost(int err)
{
	return err == -ECONNREFUSED || err == -ECONNRESET || err == -EPIPE ||
	       err == -EHOSTUNREACH || err == -ENETUNREACH || err == -EACCES;
}

/* Maps the error of a lost link to that of a request's completion. */
static inline int tei_lost_error(int err)
{
	switch (err) {
	case -EPIPE:
		return -ECONNRESET;
	case -ENETUNREACH:
		return -EHOSTUNREACH;
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -EHOSTUNREACH:
	case -EACCES:
	case -ESTALE:
	case -ETIMEDOUT:
	case -ECANCELED:
		return err;
	default:
		return -EIO;
	}
}

/* Numbers of links say which worker has them: its index is in the top byte. */
static inline uint32_t tei_link_worker(uint64_t number)
{
	return (uint32_t)(number >> 56);
}

/* The pin lock that guards what this link's endpoint pins. Any thread. */
struct tei_mutex *tei_link_pin_lock(const struct tei_link *link);
/* Zeroed but for the lists. NULL: out of memory. Any thread. */
struct tei_link *tei_link_make(struct te_engine *engine,
			       struct tei_rail_box *rail);
void tei_link_free(struct tei_link *link);

/* ---- token ---- */

/* Open a link to @peer over local rail @rail; errors are retried later. */
void tei_link_open(struct tei_peer_work *peer, uint32_t rail);
/* Mark it broken; it is closed at the end of the round. */
void tei_link_break(struct tei_link *link, int why);
/* Close what broke. True: there was something. */
bool tei_links_close_broken(struct tei_worker *w);
/*
 * Posts @end->done when no link of the engine to itself is being closed any
 * more: what it has copied has landed. Maybe at once.
 */
void tei_own_links_await(struct te_engine *engine, struct tei_own_end *end);
/* Give the backend the link's ready slices. */
void tei_link_post(struct tei_link *link);

/* health.c: when what is posted @now, behind what is in flight, is late. */
uint64_t tei_link_late(const struct tei_link *link, uint64_t now);
/* Counts a link that has something in flight (1), or nothing any more (-1). */
void tei_link_count_busy(struct tei_link *link, int by);
/* Begins to watch a link that has something in flight. */
void tei_link_watch(struct tei_link *link);
/* Another link to the peer is up, which is a reason to look more often. */
void tei_links_watch_again(struct tei_peer_work *peer);
void tei_link_due(struct tei_due *due);

/* Calls of the worker's queue. */
void tei_target_open(struct tei_call *call);
void tei_target_drop(struct tei_call *call);

/* ---- how many endpoints to peers a rail has, and which make room ---- */

/*
 * A rail opens at most as many endpoints as the setting `endpoints` says, each
 * when it is first needed. Beyond that the one unused for longest is retired:
 *
 *   UP --retired--> gets nothing new --idle--> closed --> another may open
 *
 * A link has a turn of a tenth of a second before that, and a busy one comes
 * after all that are idle, so that peers beyond the limit take turns.
 *
 * Threads: the token, everywhere.
 */

void tei_slots_init(struct tei_rail_box *box);
void tei_slots_fini(struct tei_rail_box *box);

/* Retires a link that is up: it gets nothing new and is closed when idle. */
void tei_slots_retire(struct tei_link *link);

/* Notes that an initiator's link is opened, up, idle or closed. */
void tei_slots_idle(struct tei_link *link);

#endif
