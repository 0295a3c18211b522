/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs.h - what the files of the verbs backend share
 *
 * config.c    settings; absent.c: the backend in builds without libibverbs
 * provider.h  the calls of libibverbs, as a table; module.c: the real ones
 * verbs.c     the provider, loaded when there are devices; probe; the table
 * port.c      ports: found, opened, limits; gid.c: which GID of a port
 * wire.c      blobs for peers; match.c: which rails of two hosts pair up
 * regions.c   registered memory, and blocks that stand in for other memory
 * rail.c      the rail: opened, driven, closed; its background threads and
 *             asynchronous events
 * endpoint.c  endpoints and their bundles of lanes: open, connect, drop, close
 * post.c      slices to work requests, completions to slices, causes of errors
 *
 * All belongs to the holder of the rail's drive token, except what belongs to a
 * background thread or is guarded by a lock.
 */
#ifndef VERBS_VERBS_H
#define VERBS_VERBS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/rdma/local.h"
#include "backends/verbs/match.h"
#include "backends/verbs/port.h"
#include "backends/verbs/regions.h"
#include "base/bounce.h"
#include "base/list.h"
#include "base/thread.h"
#include "te/backend.h"
#include <infiniband/verbs.h>
#include <sys/uio.h>

#define VERBS_CHAIN_MAX 64 /* work requests that are built before a doorbell */
#define VERBS_POLL_MAX  64 /* completions of one look */
#define VERBS_TAGS      8192
#define VERBS_QUEUE_MAX 256 /* slices taken and not posted, of one bundle */
#define VERBS_ENDERS    3   /* threads that destroy queue pairs, of a rail */

/* ---- lanes and bundles ---- */

/* A posted work request, until it or a later one of the lane is done. */
struct verbs_work {
	struct tei_slice *slice; /* not owned */
	struct rdma_uses uses;
	struct rdma_block block;
	uint32_t length;
	bool read;
};

/*
 * Meaning of a work completion's status, and whose fault it is.
 *
 * Three things can be at fault: this device, the path between two rails, the
 * peer. A request that is wrong in itself, or that was taken along when its
 * queue pair ended, accuses none of them.
 */
enum verbs_fault {
	VERBS_FAULT_NONE,    /* flushed: something else came first */
	VERBS_FAULT_REQUEST, /* its memory, its range, its key */
	VERBS_FAULT_DEVICE,
	VERBS_FAULT_PATH, /* this pair of rails */
	VERBS_FAULT_PEER,
};

struct verbs_cause {
	int slice;    /* what the slice ends with */
	int endpoint; /* what its endpoint goes down with */
	enum verbs_fault fault;
	const char *text; /* lower case, for logs */
};

/* Returns the cause of any @status, known or not; never NULL. Pure. */
const struct verbs_cause *tei_verbs_cause(enum ibv_wc_status status);
const char *tei_verbs_fault_name(enum verbs_fault fault);

/*
 * A lane is one queue pair. Its work requests that are posted and not done have
 * the numbers head .. tail - 1; number n is works[n & mask].
 */
struct verbs_lane {
	struct verbs_bundle *bundle; /* not owned */
	struct ibv_qp *qp;           /* NULL: destroyed */
	uint32_t psn;                /* of the first packet we send */
	uint32_t tag;                /* upper half of wr_id; 0: posts nothing */
	uint32_t head, tail, mask;
	uint32_t n_silent; /* posted since the last signalled one */
	uint32_t n_reads;
	uint64_t bytes;           /* posted and not done */
	struct verbs_work *works; /* works[mask + 1]; NULL at a target */
	/* Built and not posted: rail.chain[first] .. by next; NULL: none. */
	struct ibv_send_wr *first, *last;
};

/*
 *   MADE --> CONNECTING --> UP --> BROKEN
 *     |          |           |        |
 *     +----------+-----------+--------+--> ENDING: destroyed, then freed
 *
 * CONNECTING and ENDING belong to a background thread, which hands the bundle
 * back with the result. A bundle whose endpoint ends meanwhile is abandoned,
 * and ended at once. What an ENDING one has posted comes back as for any other;
 * what has not when it is destroyed never will.
 */
enum verbs_bundle_state {
	VERBS_BUNDLE_MADE,
	VERBS_BUNDLE_CONNECTING,
	VERBS_BUNDLE_UP,
	VERBS_BUNDLE_BROKEN, /* down() is due, flush() follows */
	VERBS_BUNDLE_ENDING,
};

/* The lanes of one endpoint: they are connected, break and end together. */
struct verbs_bundle {
	struct verbs_rail *rail; /* not owned */
	/* The endpoint that reports go to; NULL: none any more. Token. */
	struct tei_endpoint *ep;
	struct tei_list link; /* in a background queue, or rail.broken */
	/*
	 * rail.waiting: has slices to post; rail.flushing: flush() is not over;
	 * rail.drained: flushed() is due.
	 */
	struct tei_list waiting;
	enum verbs_bundle_state state;
	atomic_bool abandoned; /* set with the token, read by its thread */
	atomic_bool stuck;     /* the device refuses to end it; relaxed */
	bool target;
	bool confirm; /* down(-ESTALE) when it is destroyed */
	bool flushed; /* flush() was called, and says @err to all that waits */
	int err;      /* why it is broken, or was not connected */

	/* Offer that the other half was told; the port's may change later. */
	struct verbs_offer offer;
	/* Set by verbs_bundle_agree(), for the thread that connects. */
	struct ibv_qp_attr way; /* all but what differs from lane to lane */
	struct verbs_lane_name theirs[VERBS_LANES_MAX];
	uint32_t n_used;           /* lanes agreed on, <= n_lanes */
	uint32_t depth, reads_max; /* of a lane, that may be in flight */
	uint32_t inline_max;       /* bytes that its queue pairs take inline */
	uint32_t their_mtu;        /* bytes; way.path_mtu is the smaller one */

	struct tei_list queue; /* slices taken, whose rest is to be posted */
	struct tei_list held;  /* done but for the news, until flush() */
	uint32_t n_queue;
	uint32_t n_posted; /* work requests of all lanes */
	uint32_t room;     /* completions reserved */
	uint32_t n_lanes;
	struct verbs_lane lanes[VERBS_LANES_MAX];
};

struct verbs_endpoint {
	struct verbs_bundle *bundle; /* NULL: ended, or handed over */
};

struct verbs_slice {
	uint64_t at;               /* bytes cut into work requests */
	struct rdma_cursor cursor; /* where that is in the local pieces */
	uint32_t n_works;          /* posted and not done */
	struct verbs_key key;      /* of the target's region, decoded */
	int err;                   /* of what failed first */
	bool queued;               /* in bundle.queue: there is more to post */
	bool waits;                /* failed, and the news waits for flush() */
	bool canceled; /* ended as soon as nothing of it is posted */
};

/* ---- the rail ---- */

/*
 * Background threads of the rail, for calls that may take long. Each bundle
 * that is queued comes back in `done`, with a kick.
 */
struct verbs_background {
	const struct verbs_rail *rail; /* not owned */
	pthread_t threads[VERBS_ENDERS];
	uint32_t n_threads;
	struct tei_mutex mu; /* lock 16 */
	struct tei_cond work;
	struct tei_list queued; /* guarded by mu */
	struct tei_list again;  /* guarded by mu: refused; tried again */
	uint64_t again_at;      /* guarded by mu: when, in ns */
	struct tei_list done;   /* guarded by mu */
	bool stop;              /* guarded by mu */
};

struct verbs_rail {
	struct tei_rail *base; /* not owned */
	struct verbs_port port;
	struct tei_mutex mu; /* lock 17 */
	/*
	 * Address of the port when it was last usable; link 0: it never was.
	 * Written with the token and under mu, read with either.
	 */
	struct verbs_self self;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	uint32_t room; /* completions that no lane has reserved */
	int epoll_fd, kick_fd;
	int news_fd;      /* rtnetlink; -1: there is none */
	uint32_t n_quiet; /* rounds since the descriptors were looked at */
	uint32_t n_looks;
	uint32_t n_events; /* of the channel, not acknowledged */
	bool link_up;
	bool mtu_fell; /* since the link came up: pairs may use the old one */
	bool cq_dead;
	atomic_bool
		gone; /* token: the device said so; the ender looks; relaxed */
	struct verbs_regions regions;
	struct tei_bounce bounce;
	struct ibv_mr *bounce_mr; /* of all blocks; NULL: there are none */
	/* Apart, since a device may take for ever to destroy a queue pair. */
	struct verbs_background connector, ender;

	uint32_t next_tag;
	struct verbs_lane **tagged; /* tagged[VERBS_TAGS], by tag */
	struct tei_list waiting;    /* bundles with slices to post */
	struct tei_list broken;     /* bundles: down() is due */
	struct tei_list flushing;   /* bundles: flush() is not over */
	struct tei_list drained;    /* bundles: flushed() is due */
	struct tei_list refused;    /* slices: done() is due */
	uint32_t n_bundles;         /* not freed */
	uint32_t n_left;            /* queue pairs that were not destroyed */
	struct tei_slice *watched;  /* NULL once it has ended; for cancel() */

	struct ibv_wc wcs[VERBS_POLL_MAX];
	int n_wcs; /* polled by arm(), for the next progress() */

	/* Being built. */
	struct ibv_send_wr chain[VERBS_CHAIN_MAX];
	struct ibv_sge sges[VERBS_CHAIN_MAX][VERBS_SGE_MAX];
	uint32_t n_chain;
};

static inline struct verbs_rail *verbs_rail(const struct tei_rail *rail)
{
	return (struct verbs_rail *)(uintptr_t)rail->priv;
}

static inline struct verbs_endpoint *
verbs_endpoint(const struct tei_endpoint *ep)
{
	return (struct verbs_endpoint *)(uintptr_t)ep->priv;
}

static inline struct verbs_slice *verbs_slice(const struct tei_slice *slice)
{
	return (struct verbs_slice *)(uintptr_t)slice->priv;
}

/* ---- regions.c ---- */

/*
 * Makes as many blocks as the settings want, or none where they cannot be had,
 * which is logged: then only registered memory is carried.
 */
void tei_verbs_bounce_init(struct verbs_rail *rail);
/* Frees the blocks, all of which were given back. */
void tei_verbs_bounce_fini(struct verbs_rail *rail);

/* ---- rail.c ---- */

int tei_verbs_rail_open(struct tei_rail *rail);
void tei_verbs_rail_close(struct tei_rail *rail);
/*
 * Reports that the port can be used and announces its description to peers if
 * that has changed. Not while the core takes it for up. From inside progress()
 * only.
 */
int tei_verbs_rail_describe(struct tei_rail *rail, void *blob, size_t *len);
int tei_verbs_rail_match(struct tei_rail *rail, const struct tei_address *peer,
			 const void *blob, size_t len);
int tei_verbs_progress(struct tei_rail *rail, int budget);
int tei_verbs_wait_fd(struct tei_rail *rail);
void tei_verbs_arm(struct tei_rail *rail);
/*
 * Asks for the MTU that new queue pairs use. Where it has become smaller,
 * progress() has all others made anew: their packets would be lost. Returns 0
 * or why the device does not say. Token.
 */
int tei_verbs_rail_measure(struct verbs_rail *rail);
/* Has progress() called soon. Any thread. */
void tei_verbs_kick(const struct verbs_rail *rail);

/* ---- verbs.c ---- */

/*
 * Sets the provider that rails and probes use; NULL: the module's, when it is
 * needed.
 */
void tei_verbs_use(const struct verbs_provider *api);
const struct verbs_provider *tei_verbs_in_use(void);

/* Hands a bundle that is CONNECTING or ENDING to its background thread. */
void tei_verbs_hand_over(struct verbs_bundle *bundle);

/* Connects all lanes in use. 0 or why not. Threads: a background one. */
int tei_verbs_bundle_connect(struct verbs_bundle *bundle);
/*
 * Stops the queue pairs and destroys them: afterwards nothing of them touches
 * memory. May block for long. False: the device refuses; to be tried again.
 */
bool tei_verbs_bundle_destroy(struct verbs_bundle *bundle);
/*
 * Frees a bundle on which nothing is posted; queue pairs that it still has are
 * left to the kernel. Token.
 */
void tei_verbs_bundle_free(struct verbs_bundle *bundle);
/* Breaks a bundle: down(@err) follows from progress(). Token. */
void tei_verbs_bundle_break(struct verbs_bundle *bundle, int err);

/* ---- endpoint.c ---- */

int tei_verbs_endpoint_open(struct tei_endpoint *ep, void *addr, size_t *len);
int tei_verbs_endpoint_connect(struct tei_endpoint *ep, const void *addr,
			       size_t len);
void tei_verbs_endpoint_way(const struct tei_endpoint *ep, char *out,
			    size_t room);
void tei_verbs_endpoint_close(struct tei_endpoint *ep);
int tei_verbs_flush(struct tei_endpoint *ep, int err);
/* Reports that flush() is over. From inside progress() only. */
void tei_verbs_flushed(struct verbs_bundle *bundle);
/* Reports it for all whose queue pairs the device refuses to destroy. */
void tei_verbs_leave_stuck(struct verbs_rail *rail);
int tei_verbs_drop(struct tei_endpoint *ep);
/*
 * Goes on after the thread has handed the bundle back. From inside progress()
 * only.
 */
void tei_verbs_handed_back(struct verbs_bundle *bundle);

/* ---- post.c ---- */

int tei_verbs_post(struct tei_endpoint *ep, struct tei_slice *const slices[],
		   int n);
void tei_verbs_cancel(struct tei_endpoint *ep, struct tei_slice *slice);
/* Post as much of the queue as there is room for. Token. */
void tei_verbs_pump(struct verbs_bundle *bundle);

/* Handle at most @budget completions. How many, or -EIO: the queue is dead. */
int tei_verbs_poll(struct verbs_rail *rail, int budget);
/* done(): it is in no list, and nothing of it is posted. */
void tei_verbs_slice_end(struct tei_slice *slice, int err);
/*
 * Ends all that has not come back: queue pairs are destroyed or stuck. Token.
 */
void tei_verbs_give_up(struct verbs_bundle *bundle);

#endif
