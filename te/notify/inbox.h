/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inbox.h - notifications that have come and wait to be taken
 *
 * The inbox has one list of messages in the order they came, and an account for
 * each sender. An accepted message is dropped only with the engine.
 *
 * Threads: any, under mu.
 */
#ifndef TE_NOTIFY_INBOX_H
#define TE_NOTIFY_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/te.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/thread.h"

struct te_engine;
struct tei_inbound_peer;
struct tei_inbox;

/* ---- who has how much in the inbox, and whose turn it is ---- */

/*
 * Each sender may have so many messages and bytes of its own; all senders share
 * the inbox's memory. A sender without room of its own is notified once enough
 * of its messages were taken. A sender that finds no memory stands in a queue,
 * and so does each later one: in that order each is promised enough for a
 * frame, is notified, and has the time of a control exchange (connect_timeout)
 * to use it.
 *
 *   IDLE --none of its own--> FULL --some taken--> READY --notified--> IDLE
 *   IDLE --no memory--> WAITING --notified--> TURN --used or late--> IDLE
 *
 * A sender that does not wait for its notice is served if there is room.
 *
 * Threads: any, under inbox.mu; made, left and notified by the control thread.
 */

enum tei_account_state {
	TEI_ACCOUNT_IDLE,
	TEI_ACCOUNT_FULL,
	TEI_ACCOUNT_READY,   /* in turns.ready */
	TEI_ACCOUNT_WAITING, /* in turns.waiting */
	TEI_ACCOUNT_TURN,    /* in turns.given */
};

struct tei_account {
	struct tei_list link; /* see the states */
	/* NULL: has been forgotten. Control */
	struct tei_inbound_peer *inbound;
	uint32_t refs;      /* the inbound peer's, and one a message; mu */
	uint32_t n;         /* messages not taken; mu, as all below */
	uint64_t bytes;     /* of them */
	uint64_t wish;      /* bytes that have found it full */
	uint64_t promise;   /* memory kept for its turn */
	uint64_t turn_ends; /* ns */
	uint8_t state;
	uint8_t incarnation[TE_INCARNATION_LEN];
};

/* Queues of accounts of an inbox; guarded by its mu. */
struct tei_turns {
	struct tei_list ready, waiting, given; /* accounts, first come first */
	uint64_t promised;                     /* memory, of those given */
	bool posted;
	struct tei_call call;    /* to control: a sender is to be notified */
	bool closed;             /* no sender is notified any more; control */
	struct tei_timer *timer; /* of turns given; control. NULL: none */
};

/* ---- control thread ---- */

/* Makes an account without messages. NULL: out of memory. */
struct tei_account *
tei_account_make(struct tei_inbound_peer *inbound,
		 const uint8_t incarnation[TE_INCARNATION_LEN]);
/* The inbound peer is forgotten; NULL is fine. */
void tei_account_leave(struct tei_inbox *inbox, struct tei_account *account);
/* Ends the account's turn, if it has one: it has no more to send just now. */
void tei_account_rest(struct tei_inbox *inbox, struct tei_account *account);
/* Ends the wait for room: the sender is not connected, and sends again when it
 * comes back. */
void tei_account_give_up(struct tei_inbox *inbox, struct tei_account *account);
/* Ends all notifications of senders. */
void tei_turns_close(struct tei_turns *turns);

/* ---- with inbox.mu held ---- */

/*
 * Bytes of memory that one message takes at most, with all that belongs to it.
 */
#define TEI_MESSAGE_MEMORY (TE_NOTIFY_MAX + 1024u)

struct tei_inbox {
	struct te_engine *engine;
	/* Control: messages of @inbound peer may be accepted again. */
	void (*room)(struct te_engine *engine,
		     struct tei_inbound_peer *inbound);
	struct tei_mutex mu;      /* lock 13 */
	struct tei_list messages; /* guarded by mu, as all below */
	uint64_t memory;          /* of them */
	int event;                /* eventfd, -1: none */
	struct tei_turns turns;
};

void tei_inbox_init(struct tei_inbox *inbox, struct te_engine *engine);
/*
 * Frees the inbox with the engine: both threads have ended, every inbound peer
 * is freed.
 */
void tei_inbox_fini(struct tei_inbox *inbox);

/* ---- control thread ---- */

/*
 * Accept a message, copied, of a sender that gives itself the name @from.
 * -EAGAIN: no room; room() will be called for the account's inbound peer.
 * -ENOMEM.
 */
int tei_inbox_put(struct tei_inbox *inbox, struct tei_account *account,
		  const char *from, const void *bytes, size_t len);

#endif
