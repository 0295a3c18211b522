/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.h - calls over the main connection, driven by who waits for them
 *
 * Once the master has greeted us, the loop hands the socket of the main
 * connection over to this. A caller writes its own frame. Of those who wait
 * for an answer one drives: it receives for all, wakes whose answer has come,
 * and when it has its own it calls another one to drive on. So a call costs
 * one system call to ask and one to hear, no other thread is woken for a
 * caller that is alone, and many callers share what is read at once. Who
 * writes while another one does so leaves its frame to that one.
 *
 * The loop opens and closes it, and watches for the other side's end while
 * nobody waits.
 */
#ifndef STORE_CLIENT_CHANNEL_H
#define STORE_CLIENT_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/frame.h"
#include "base/list.h"
#include "base/spin.h"
#include "base/thread.h"

#define TES_CHANNEL_WHY_LEN 120

struct ProtobufCMessage;

/* Bytes at[from .. to) that have to go out. */
struct tes_channel_out {
	uint8_t *at;
	size_t from, to, room;
};

struct tes_channel {
	/*
	 * The connection is of no use any more: said once for each open(), in
	 * any thread, with the lock held.
	 */
	void (*broke)(struct tes_channel *channel);

	struct tei_mutex mu;  /* lock 45; guards what follows */
	struct tei_cond left; /* the driver or the sender has, while closing */
	int fd;               /* -1: not open */
	int kick;             /* eventfd: a driver that polls shall look up */
	uint64_t generation;  /* as open() was given */
	uint64_t digest_seed; /* of the master at the other end */
	uint64_t last_id;
	uint64_t told_ns; /* when what can wait was told last; 0: not yet */
	struct tei_list calls; /* unanswered, by id */
	bool mute;             /* no more can be sent: its end will be read */
	bool broken, closing;
	bool for_good; /* broken: refused in words, and not for now */
	char why[TES_CHANNEL_WHY_LEN];

	bool driving;                 /* somebody receives */
	bool watching;                /* and polls for room to send as well */
	bool sending;                 /* somebody sends */
	struct tes_channel_out out;   /* of those who came meanwhile */
	struct tes_channel_out going; /* the sender's; stays when it leaves */

	struct tei_spin spin;        /* the driver's */
	struct tei_contention crowd; /* the driver's */
	uint8_t *in; /* the driver's: in[n_in], a frame begins at 0 */
	size_t n_in, room_in;
	uint64_t part_ns; /* a frame began to come then; 0: none has */
};

/* Answer to a call. The body lies in the caller's arena. */
struct tes_reply {
	const uint8_t *body;
	size_t len;
	uint64_t digest_seed; /* of the master that answered */
};

/* A call under way, in its caller's memory. */
struct tes_channel_call {
	/* The caller's, before it begins. */
	struct tei_arena *arena; /* for the reply */
	uint64_t deadline_ns;

	/* The channel's. */
	struct tei_list link; /* in its calls */
	struct tei_cond cond; /* with its mu */
	uint64_t id;
	struct tes_reply reply;
	bool asleep, done;
	int code;
};

void tes_channel_init(struct tes_channel *channel,
		      void (*broke)(struct tes_channel *channel));
/* Closed before. */
void tes_channel_fini(struct tes_channel *channel);

/* Takes @fd, a connected socket. Loop thread. -ENOMEM, -EMFILE: closed. */
int tes_channel_open(struct tes_channel *channel, int fd, uint64_t generation,
		     uint64_t digest_seed);
/* Fails all calls. Loop thread; a moment at most. Not open: fine. */
void tes_channel_close(struct tes_channel *channel);
/* The other side may have hung up: see, unless somebody does so anyway. */
void tes_channel_look(struct tes_channel *channel);

#define TES_CHANNEL_SHUT 1 /* not open, or broken: nothing was sent */

/*
 * Ask, and do something else meanwhile: until await() has returned @call, its
 * arena included, is the channel's. @generation: only on that connection; 0: on
 * any. Returns 0, or nothing was asked, and there is nothing to await:
 * TES_CHANNEL_SHUT, -1 (no memory). Threads: any.
 */
int tes_channel_begin(struct tes_channel *channel, uint64_t generation,
		      uint16_t type, const struct ProtobufCMessage *msg,
		      struct tes_channel_call *call);
/*
 * Wait for the answer to what has begun. Returns 0, -900 (it broke), -901 (no
 * answer in time), -1 (no memory). Threads: any, one a call.
 */
int tes_channel_await(struct tes_channel *channel,
		      struct tes_channel_call *call, struct tes_reply *out);
/* Ask and wait: what begin() and await() return. Threads: any. */
int tes_channel_call(struct tes_channel *channel, uint64_t generation,
		     uint16_t type, const struct ProtobufCMessage *msg,
		     struct tei_arena *arena, uint64_t deadline_ns,
		     struct tes_reply *out);
/* Say what is not answered, if it can be said. Threads: any. */
void tes_channel_tell(struct tes_channel *channel, uint16_t type,
		      const struct ProtobufCMessage *msg,
		      struct tei_arena *arena);
/*
 * Says what is not answered and can wait. Where the one before was told less
 * than 10 ms ago, on the same connection, it goes out with the next call or
 * tell(), in one segment, and the master is woken once for both. If none
 * follows, it goes out when the kernel's timer for MSG_MORE ends, 200 ms on a
 * fast network, or earlier, when the master acknowledges what went before
 * (tcp(7)). Else it goes out at once. Threads: any. Does not block.
 */
void tes_channel_tell_later(struct tes_channel *channel, uint16_t type,
			    const struct ProtobufCMessage *msg,
			    struct tei_arena *arena);

#endif
