/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ofi.h - what the files of the ofi backend share
 *
 * config.c    settings; absent.c: the backend in builds without libfabric
 * provider.h  the calls of libfabric, as a table; module.c: the real ones
 * ofi.c       the provider, loaded when the settings want one; probe; the table
 * kinds.c     what is known of providers beyond what they tell
 * nic.c       domains of providers: found, opened, limits
 * wire.c      blobs for peers, and which rails of two hosts go together
 * regions.c   registered memory
 * grants.c    keys that hold for one endpoint
 * rail.c      the rail: opened, driven, closed; events of connections
 * endpoint.c  endpoints: open, connect, drop, flush, close
 * socket.c    connections that end before the provider closes them
 * post.c      slices to operations, completions to slices, causes of errors
 *
 * An endpoint is one connection (FI_EP_MSG), or has a provider's endpoint of
 * its own on either side (FI_EP_RDM), each of which knows the other's address.
 * Closing it ends all that it had posted and all that a peer had begun by it,
 * so flush() and drop() close. Where closing waits for what is posted, flush()
 * is over when that has come back.
 *
 * All belongs to the holder of the rail's drive token, but for regions.
 */
#ifndef OFI_OFI_H
#define OFI_OFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/ofi/nic.h"
#include "backends/ofi/regions.h"
#include "backends/ofi/wire.h"
#include "backends/rdma/local.h"
#include "base/list.h"
#include "te/backend.h"

#define OFI_POLL_MAX  64  /* completions of one look */
#define OFI_QUEUE_MAX 256 /* slices taken and not posted, of one endpoint */

/* A posted operation. */
struct ofi_work {
	struct fi_context2 context; /* first; the provider's while posted */
	struct ofi_window *window;  /* not owned */
	struct ofi_work *next;      /* of the free ones */
	struct tei_slice *slice;    /* not owned */
	struct rdma_uses uses;
	struct rdma_block block;
	uint32_t length; /* of the block's */
	uint64_t number; /* operations are posted in its order */
};

/*
 * Operations of one initiator. When its endpoint is closed, what has not come
 * back belongs to no slice any more; the window is freed once the completion
 * queue was seen empty since.
 */
struct ofi_window {
	struct tei_list lost;    /* rail.lost, when its endpoint is closed */
	struct ofi_endpoint *ep; /* NULL: closed; completions are of no slice */
	uint32_t room;           /* lost: completions that it has reserved */
	struct ofi_work *free;
	uint32_t n_posted;
	uint64_t n_ever; /* posted, or tried to */
	struct ofi_work works[];
};

/*
 *   MADE --> CONNECTING --> UP --> BROKEN
 *     |          |           |        |
 *     +----------+-----------+--------+--> CLOSED
 *
 * A target is CONNECTING until an initiator has come with its token and both
 * have agreed. BROKEN: down() is due, flush() follows.
 */
enum ofi_state {
	OFI_MADE,
	OFI_CONNECTING,
	OFI_UP,
	OFI_BROKEN,
	OFI_CLOSED,
};

struct ofi_endpoint {
	struct tei_endpoint *base; /* not owned */
	struct tei_list of_rail;   /* rail.endpoints */
	/* rail.waiting: has slices to post; rail.broken; rail.stuck. */
	struct tei_list link;
	struct fid_ep *fid; /* NULL: not made yet, or closed */
	/*
	 * Addresses of FI_EP_RDM: the other half's only, `to`. Some providers
	 * bind a vector to one endpoint, or know an address once in it.
	 */
	struct fid_av *av; /* NULL: as fid */
	fi_addr_t to;
	/*
	 * A target's: the peer may touch memory whose key has ended, until it
	 * is closed. Counted by regions.
	 */
	bool outlives_keys;
	/* Keys of a target's half, where they are bound to endpoints. */
	struct ofi_inbound inbound;
	enum ofi_state state;
	int err;      /* why it is broken, or what flush() says to all */
	bool flushed; /* flush() was called */
	bool dropped; /* drop() waits: the provider refuses to close it */
	uint64_t stuck_since; /* ns: when it was to be closed; 0: not yet */
	bool has_done;        /* a slice went well */
	bool lost;            /* a post met its end: progress() finds out why */
	uint8_t token[OFI_TOKEN_LEN]; /* of the target's half */
	struct ofi_window *window;    /* NULL at a target */
	struct tei_list queue; /* slices taken, whose rest is to be posted */
	struct tei_list held;  /* ended with an error that flush() reports */
	uint32_t n_queue;
	uint32_t room; /* completions reserved */
};

struct ofi_slice {
	uint64_t at;               /* bytes cut into operations */
	struct rdma_cursor cursor; /* where that is in the local pieces */
	uint32_t n_works;          /* posted and not done */
	struct ofi_key key;        /* of the target's region, decoded */
	int err;                   /* of what failed first */
	bool queued;   /* in the endpoint's queue: there is more to post */
	bool waits;    /* failed with an error that flush() reports */
	bool canceled; /* ended as soon as nothing of it is posted */
};

/* A slice by what it asks for, whatever became of it. */
struct ofi_suspect {
	uint64_t remote, length; /* length 0: none */
	uint32_t op;
};

struct ofi_rail {
	struct tei_rail *base; /* not owned */
	struct ofi_nic nic;
	struct fid_cq *cq;
	/*
	 * Events of connections; of FI_EP_RDM only errors of no operation,
	 * which end the process where an endpoint of efa has no queue for them.
	 */
	struct fid_eq *eq;
	struct fid_pep *listener;   /* NULL where endpoints are FI_EP_RDM */
	struct ofi_address address; /* of the listener */
	uint32_t room; /* completions that no endpoint has reserved */
	int epoll_fd, kick_fd;
	uint32_t n_quiet; /* rounds since events were looked at */
	bool cq_dead, eq_dead;
	bool polled;      /* no descriptor tells of completions */
	bool wants_block; /* all were in use when one was wanted */
	struct ofi_regions regions;
	uint64_t fence; /* the last one for which endpoints were closed */
	struct tei_list endpoints; /* all that are open */
	struct tei_list waiting, broken, stuck;
	struct tei_list refused; /* slices: done() is due */
	struct tei_list lost;    /* windows of closed endpoints */
	/* The oldest posted one of the last connection that a peer closed. */
	struct ofi_suspect suspect;
	struct tei_slice *watched; /* NULL once it has ended; for cancel() */
};

static inline struct ofi_rail *ofi_rail(const struct tei_rail *rail)
{
	return (struct ofi_rail *)(uintptr_t)rail->priv;
}

static inline struct ofi_endpoint *ofi_endpoint(const struct tei_endpoint *ep)
{
	return (struct ofi_endpoint *)(uintptr_t)ep->priv;
}

static inline struct ofi_slice *ofi_slice(const struct tei_slice *slice)
{
	return (struct ofi_slice *)(uintptr_t)slice->priv;
}

static inline struct ofi_rail *ofi_rail_of(const struct ofi_endpoint *ep)
{
	return ofi_rail(ep->base->rail);
}

/* ---- rail.c ---- */

int tei_ofi_rail_open(struct tei_rail *rail);
void tei_ofi_rail_close(struct tei_rail *rail);
int tei_ofi_progress(struct tei_rail *rail, int budget);
int tei_ofi_wait_fd(struct tei_rail *rail);
void tei_ofi_arm(struct tei_rail *rail);
/* Has progress() called soon. Any thread. */
void tei_ofi_kick(const struct ofi_rail *rail);
/* The same some time from now, where no descriptor tells. Token. */
void tei_ofi_kick_later(const struct ofi_rail *rail);
void tei_ofi_kick_after(const struct ofi_rail *rail, uint64_t ms);

/* ---- ofi.c ---- */

/*
 * Sets the provider that rails and probes use; NULL: the module's, when it is
 * needed.
 */
void tei_ofi_use(const struct ofi_provider *api);
const struct ofi_provider *tei_ofi_in_use(void);

/* ---- endpoint.c ---- */

int tei_ofi_endpoint_open(struct tei_endpoint *ep, void *addr, size_t *len);
int tei_ofi_endpoint_connect(struct tei_endpoint *ep, const void *addr,
			     size_t len);
void tei_ofi_endpoint_way(const struct tei_endpoint *ep, char *out,
			  size_t room);
void tei_ofi_endpoint_close(struct tei_endpoint *ep);
int tei_ofi_flush(struct tei_endpoint *ep, int err);
int tei_ofi_drop(struct tei_endpoint *ep);
/* Breaks an endpoint: down(@err) follows from progress(). Token. */
void tei_ofi_break(struct ofi_endpoint *ep, int err);
/*
 * Handles an event of a connection; takes @info of an initiator that has come,
 * with data[len] that it says. From inside progress() only.
 */
void tei_ofi_came(struct ofi_rail *rail, struct fi_info *info, const void *data,
		  size_t len);
void tei_ofi_connected(struct ofi_rail *rail, const struct fid *fid);
/* @err: 0: in order; else a negative errno. */
void tei_ofi_ended(struct ofi_rail *rail, const struct fid *fid, int err);
/*
 * Closes all by which peers may touch memory whose key has ended. False: the
 * provider keeps some; to be tried again. From inside progress().
 */
bool tei_ofi_close_targets(struct ofi_rail *rail);
/* Tries once more to close what the provider refused to. Same. */
void tei_ofi_retry_stuck(struct ofi_rail *rail);
/* Frees a window of which nothing comes back any more. */
void tei_ofi_window_free(struct ofi_window *window);
/* Frees all windows of closed endpoints. Token. */
void tei_ofi_windows_free(struct ofi_rail *rail);

/* ---- socket.c ---- */

/*
 * Ends the connection of an endpoint that is about to be closed, where the
 * provider must not close it with reads under way. Handles completions; all
 * that was posted comes back. May look at every descriptor. Token.
 */
void tei_ofi_shut_socket(struct ofi_endpoint *ep);

/* ---- post.c ---- */

int tei_ofi_post(struct tei_endpoint *ep, struct tei_slice *const slices[],
		 int n);
void tei_ofi_cancel(struct tei_endpoint *ep, struct tei_slice *slice);
/* Posts as much of the queue as there is room for. Token. */
void tei_ofi_pump(struct ofi_endpoint *ep);
/* Handles at most @budget completions. How many; -EIO: the queue is dead. */
int tei_ofi_poll(struct ofi_rail *rail, int budget);
/*
 * Breaks an endpoint whose other end has closed the connection. Where that says
 * that an operation was refused, its slice fails.
 */
void tei_ofi_lose(struct ofi_endpoint *ep);
/* done(): it is in no list, and nothing of it is posted. */
void tei_ofi_slice_end(struct tei_slice *slice, int err);
/*
 * Ends all that a closed endpoint has posted and that has not come back. Its
 * window and the room that it has reserved are kept for what is still in the
 * completion queue.
 */
void tei_ofi_give_up(struct ofi_endpoint *ep);

#endif
