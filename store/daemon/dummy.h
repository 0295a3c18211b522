/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dummy.h - a client without an engine: the daemon of this host does the work
 *
 * A dummy has no thread. A call takes one of a few connections to the daemon,
 * lends it the memory that values lie in, sends a batch and waits. Values that
 * lie in memory which the two share are lent as they are; others are copied
 * through a part of it that is kept for that.
 *
 * Lent memory stays lent until the daemon has answered or has closed its end of
 * the connection, which it does only when no call of this dummy is under way. A
 * daemon that stopped does neither: then the call ends at its deadline, and the
 * daemon keeps the pages that were lent: copies take their place at the
 * caller's addresses (dummy_memory.c), so that late writes of the daemon touch
 * nobody.
 */
#ifndef STORE_DAEMON_DUMMY_H
#define STORE_DAEMON_DUMMY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include <te/store.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/net.h"
#include "base/thread.h"
#include "store/client/addresses.h"
#include "store/client/buffers.h"
#include "store/client/ops.h"
#include "store/client/pins.h"
#include "store/proto/agent.h"
#include "store/proto/agent.pb-c.h"

struct tes_shelf;

#define TES_DUMMY_CONNS_MAX 32 /* calls at a time */
#define TES_DUMMY_PAGE      4096u

struct tes_dummy_conn {
	struct tei_list link; /* in dummy->idle or late */
	int fd;
	uint64_t region; /* what our memory is called on it */
	uint64_t last_id;
	/* Token of the session; ids begin anew in the next daemon. */
	uint8_t token[TES_AGENT_TOKEN_LEN];
	struct te_store_buffer *lent; /* late: until the daemon lets go */
	struct tes_shelf *shelf;      /* late: what it may yet hand out */
};

/* The session that the daemon has given this process. */
struct tes_dummy_session {
	bool known;
	uint64_t id, region;
	uint8_t token[TES_AGENT_TOKEN_LEN];
};

struct tes_dummy {
	uint64_t call_ms, replica_ms;
	pid_t pid;     /* who set it up: a forked child has no part in it */
	char *path;    /* of the daemon's socket, or NULL */
	uint16_t port; /* then its port, which the path is made of */
	struct tei_address at; /* and where it can be asked for it */
	/*
	 * Path that the daemon's port last answered, or empty. Connecting
	 * thread.
	 */
	char announced[TES_AGENT_PATH_MAX];
	char hostname[TEI_NAME_LEN_MAX + 1]; /* of the daemon's engine */

	/* Shared: memory[0, user_bytes) for users, then what is copied. */
	int memfd;
	uint8_t *memory;
	uint64_t bytes, user_bytes;
	struct tes_buffers user, copies;
	struct tes_addresses *addresses; /* not owned: the store's */

	struct tei_mutex mu;              /* lock 39 */
	struct tei_cond freed;            /* a connection, or of copies */
	struct tei_list idle, late;       /* guarded by mu: connections */
	unsigned int n_conns;             /* guarded by mu: also in use */
	bool connecting;                  /* guarded by mu: somebody is */
	struct tes_dummy_session session; /* guarded by mu */
	struct tes_shelf *shelf;          /* guarded by mu: or NULL */
	uint8_t *replaced;                /* guarded by mu: a bit a page */
	_Atomic uint64_t n_replaced;      /* pages; relaxed, only grows */
	struct tes_pins pins;
	atomic_bool pinned; /* all of memory; who clears it unpins */
};

/* ---- dummy.c ---- */

int tes_dummy_setup(const struct te_store_config *config,
		    struct te_store **out);
extern const struct tes_store_ops tes_dummy_ops;

/* ---- dummy_conn.c ---- */

/*
 * Takes a free connection to the daemon, or makes one; to be released by
 * tes_dummy_release(). 0, -900 (nobody there, or refused), -901 (none was free
 * by @deadline_ns), -1.
 */
int tes_dummy_connect(struct tes_dummy *dummy, uint64_t deadline_ns,
		      struct tes_dummy_conn **out);
/*
 * Sends @msg (NULL: empty) and awaits the answer, whose body lies in @arena. 0,
 * -900 (the connection broke: the daemon uses none of our memory any more),
 * -901 (no answer by @deadline_ns: it may still use it), -1 (nothing was sent).
 */
int tes_dummy_exchange(struct tes_dummy_conn *conn, uint16_t type,
		       const ProtobufCMessage *msg, struct tei_arena *arena,
		       uint64_t deadline_ns, const uint8_t **body, size_t *len);
/* Receives the answer to the last call, like exchange(); a negative errno. */
int tes_dummy_receive(struct tes_dummy_conn *conn, uint16_t type,
		      struct tei_arena *arena, uint64_t deadline_ns,
		      const uint8_t **body, size_t *len);
/*
 * Releases a connection. @code: what exchange() returned. @lent: memory that
 * has to stay lent after -901, which is taken over then.
 */
void tes_dummy_release(struct tes_dummy *dummy, struct tes_dummy_conn *conn,
		       int code, struct te_store_buffer *lent);
/* Frees what was lent to calls whose late answer has come meanwhile. */
void tes_dummy_sweep(struct tes_dummy *dummy) TEI_REQUIRES(dummy->mu);
/*
 * Waits until a connection or room is released. The end of a late call signals
 * nobody, so it returns now and then. False: @deadline_ns has passed.
 */
bool tes_dummy_wait_freed(struct tes_dummy *dummy, uint64_t deadline_ns)
	TEI_REQUIRES(dummy->mu);
/* Closes all connections; no call is under way. */
void tes_dummy_disconnect(struct tes_dummy *dummy);

/* ---- dummy_conn.c: where the daemon serves ---- */

/*
 * A socket that is connected to the daemon's, wherever that is. Or -errno, of
 * the last place that was tried; -EPERM: somebody else serves there.
 */
int tes_dummy_find(struct tes_dummy *dummy, uint64_t deadline_ns);
/* Wait for @events on @fd. 0, -ETIMEDOUT. */
int tes_dummy_await(int fd, short events, uint64_t deadline_ns);

/* ---- dummy_memory.c: memory lent to the daemon for a call ---- */

/* A value, or part of one, that is lent for a call. */
struct tes_loan_item {
	const struct iovec *pieces;
	uint32_t n_pieces;
	uint64_t bytes;  /* of all pieces */
	uint64_t offset; /* copied: where, in the memory */
	bool copied;
};
struct tes_loan {
	struct tes_dummy *dummy;
	struct tes_loan_item *items; /* items[n] */
	size_t n;
	struct te_store_buffer *room; /* of copied items; NULL: none are */
};

/*
 * Tells whether all pieces lie in shared memory, which the daemon may use as it
 * is.
 */
bool tes_loan_is_shared(struct tes_dummy *dummy, const struct iovec *pieces,
			uint32_t n);
/*
 * Find room for the items with `copied` set, and copy them there if @put. 0,
 * -600 (larger than all room there is; @put: -200), -901 (no room by
 * @deadline_ns).
 */
int tes_loan_make(struct tes_loan *loan, bool put, uint64_t deadline_ns);
/* Copy the first @bytes of item @i back to where they belong. */
void tes_loan_copy_back(const struct tes_loan *loan, size_t i, uint64_t bytes);
/* Tells whether item @i went into memory that was given up meanwhile. */
bool tes_loan_is_lost(const struct tes_loan *loan, size_t i);
/*
 * Unpins the memory, if it is pinned: GPUs would go on with pages that are not
 * there any more. Blocks: for the driver.
 */
void tes_dummy_unpin(struct tes_dummy *dummy);
/* Gives up memory that the daemon may still use: it becomes the daemon's. */
void tes_loan_give_up(struct tes_loan *loan);
/* Ends a loan after the daemon's answer: the memory may be used again. */
void tes_loan_end(struct tes_loan *loan);

/* ---- the verbs (dummy_calls.c) ---- */

#define TES_PROTOTYPE(name, parameters, arguments) \
	int tes_dummy_##name parameters;
TES_VERBS_OF_BOTH(TES_PROTOTYPE)
#undef TES_PROTOTYPE

#endif
