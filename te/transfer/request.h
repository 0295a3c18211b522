/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - one request on its way, and its parts at the backends
 *
 *   submitted --> parked (no description yet, or asked afresh)
 *        |           |
 *        +-----------+--> queued --> all planned --> final
 *                           ^            |
 *                           +-- redo ----+   a part came back undone
 *
 * A request is final once nothing of it is at a backend, or copied. Works that
 * came back undone from a broken endpoint are in limbo (writes, until the owner
 * has confirmed) or wait in redo.
 *
 * Threads: filled by submit, then the token; final fields by anybody who has
 * seen `final` or the batch's counter with acquire.
 */
#ifndef TE_TRANSFER_REQUEST_H
#define TE_TRANSFER_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <te/te.h>

#include "base/list.h"
#include "base/loop.h"
#include "te/backend.h"
#include "te/worker/worker.h"

struct te_batch;
struct te_engine;
struct tei_cohort;
struct tei_gated;
struct tei_link;
struct tei_notify;
struct tei_peer_work;
struct tei_remote;
struct tei_remote_region;
struct tei_request;
struct tei_worker;

enum tei_work_state {
	TEI_WORK_COPYING, /* by the host; see staging.h */
	TEI_WORK_READY,   /* on a link, not taken by the backend */
	TEI_WORK_POSTED,  /* at the backend */
	TEI_WORK_LIMBO,   /* of a broken link */
	TEI_WORK_REDO,    /* to be posted again */
};

/* A part of a request: what is posted to one endpoint at once. */
struct tei_work {
	struct tei_list of_request; /* request.works */
	struct tei_list of_link;    /* link.out.copying, ready, posted, limbo */
	struct tei_request *request; /* request[n] when merged */
	/* NULL in redo, while copied in, and if it broke while copied out. */
	struct tei_link *link;
	struct tei_staged *staged; /* NULL: moves the request's memory */
	struct tei_rail_box *rail; /* whose slab it is from */
	uint64_t offset;           /* in the request */
	uint64_t posted_at;        /* ns */
	uint64_t late_at;          /* ns: what to expect of it is long over */
	uint32_t n, n_live; /* requests, see parts.h; 1 for a part of one */
	uint8_t state;
	bool canceled;
	bool lone;              /* nothing else was posted to the link */
	struct tei_slice slice; /* ops->slice_size bytes follow */
};

struct tei_request {
	/* Filled by submit. */
	struct tei_call call; /* of the first of a submission */
	uint32_t n_following; /* requests after this one, same submission */
	uint32_t index;
	struct te_batch *batch;
	/*
	 * Written by submit, then by the worker that has it, which may make it
	 * another one's: release. Others read it: acquire.
	 */
	_Atomic(struct tei_cohort *) cohort;
	struct tei_peer *to;
	struct tei_peer_work *peer; /* its part: of the worker that has it */
	uint32_t life;              /* of the peer */
	uint32_t flags;             /* enum te_request_flags */
	uint32_t op;
	uint32_t priority; /* enum te_priority */
	uint32_t n_pieces;
	const struct iovec *pieces; /* pieces[n_pieces] */
	struct iovec one;           /* for a request of one piece */
	uint64_t remote, length, epoch, deadline, crc_from, crc_len, user;

	/* Token. */
	struct tei_list queue; /* peer->queue or parked */
	struct tei_list works;
	struct tei_work *merged; /* with others, instead of works */
	uint32_t n_out;          /* works copied, ready, posted or in limbo */
	uint32_t n_redo;         /* works in redo */
	struct tei_remote *held; /* keeps the region and its keys */
	union {
		const struct tei_remote_region *region;
		struct tei_notify *notify; /* of a TE_NOTIFY */
	};
	uint64_t cursor;       /* bytes planned */
	uint32_t cursor_piece; /* where the cursor is */
	uint64_t cursor_skip;
	uint64_t question; /* to the peer, that it was parked for; 0: none */
	bool begun, parked;
	bool doubting; /* the owner has refused a part; wait for the others */
	bool doubted;  /* after that it has been asked; not another time */
	int refusal;   /* the owner's word that was doubted */
	bool loud;     /* something of it might still land */
	bool alone;    /* not to be merged */
	bool staged;   /* no rail of reach takes its local memory */
	bool direct;   /* some of that is a GPU's, and those of reach take it */
	bool spread;   /* some rails of reach have its region in part */
	uint64_t reach; /* rails that have a key for its region, a bit each */
	uint64_t near;  /* rails that are near its memory; 0: all alike */
	uint64_t avoid; /* rails that do not reach its region, a bit each */

	uint64_t bytes;
	uint32_t crc, retries, rail;
	int32_t error,
		provider_code; /* also by submit: it ends when it begins */
	_Atomic bool final;    /* release: all of the above */
	_Atomic bool canceled; /* in batch.cancels, once */
	struct tei_mpsc_node cancel_node; /* batch.cancels */
};

static inline struct tei_cohort *tei_cohort_of(const struct tei_request *r)
{
	return atomic_load_explicit(&r->cohort, memory_order_acquire);
}

/* Token; for other threads `final` is to be read with acquire. */
static inline bool tei_request_is_final(const struct tei_request *r)
{
	return atomic_load_explicit(&r->final, memory_order_relaxed);
}

/* Handler of a submission's call. Token. */
void tei_request_submitted(struct tei_call *call);
/*
 * End it with @err: what was not posted is dropped, what was is taken back.
 * Final once nothing is at a backend. No-op for a final request.
 */
void tei_request_abort(struct tei_request *r, int err);
/* Ends a request like abort, but posted works come back by themselves. */
void tei_request_refuse(struct tei_request *r, int err);
/*
 * Rails of ours go with others of the peer's than before: for those its
 * description of the region may have no key. @err: unused. Token.
 */
void tei_request_rematch(struct tei_request *r, int err);
/*
 * Takes the region of a queued request, of which nothing is out, as its owner
 * describes it now. False: no rail of ours reaches that; all is as before.
 */
bool tei_request_renew(struct tei_request *r);
/* List of the peer's queue that the request belongs to. */
struct tei_list *tei_request_class(const struct tei_request *r);
/* Look (again) whether and where the request may go: queue, park or end it. */
void tei_request_admit(struct tei_request *r);

/* ---- requests of one submission that begin and time out together ---- */

/*
 * Requests that stand side by side in a batch, are one worker's, and go to the
 * same life and epoch of one peer with one deadline, and all or none with
 * TE_FAIL_SILENT. What every request would otherwise pay for, an entry in the
 * heap of deadlines and one in the peer's list, is paid once for all of them.
 * Where several workers are a notification is a cohort of its own.
 *
 * A cohort is active from its begin until the last of its requests is final;
 * the batch, and with it the cohort, stays until then and to the end of that
 * round. Threads: filled by submit, then the token.
 */

struct tei_cohort {
	struct tei_request *first; /* first[n] */
	uint32_t n, n_live;        /* n_live: not final yet */
	uint64_t begun_at;         /* ns; at the first worker that had it */
	uint64_t doubted_at;       /* ns: its peer was first seen silent */
	struct tei_due due;        /* the deadline, or a look before it */
	struct tei_call arrive;    /* at another worker */
	/*
	 * Index of the worker that has it, or to which it is on its way.
	 * Written by the one before, read by cancellation: seq_cst.
	 */
	_Atomic uint32_t at;
	uint64_t moves_since;    /* ns */
	uint32_t n_moves;        /* to another worker, since then */
	struct tei_list of_peer; /* peer->active */
};

/*
 * Returns the part of the peer of a worker that serves the request better than
 * the one that has it; NULL: there is none. Token.
 */
struct tei_peer_work *tei_request_better_part(struct tei_request *r);
/* Tells whether no rail is left for it, neither here nor elsewhere. Token. */
bool tei_request_is_out_of_rails(struct tei_request *r);
/*
 * Sends a request of which nothing is out to another worker, if that has rails
 * that serve it better, and with it those beside it in its cohort of which
 * nothing is out either. True: it has gone. Token.
 */
bool tei_request_may_leave(struct tei_request *r);
/*
 * Sends all requests of which nothing is out, and that other workers serve
 * better, to these. Token.
 */
void tei_cohorts_leave(struct tei_peer_work *peer);

/* ---- parts of a cohort (cohort.c). Token, as all of it ---- */

/* Tells whether nothing of it is at a backend, in limbo or being copied. */
static inline bool tei_request_rests(const struct tei_request *r)
{
	return !r->n_out && !r->error;
}

/* Calls @fn for requests that have begun and are not final; it may end them. */
void tei_cohort_each(struct tei_cohort *cohort,
		     void (*fn)(struct tei_request *r, int err), int err);
/* Returns the first request that is not final and rests; NULL: none does. */
struct tei_request *tei_cohort_resting(const struct tei_cohort *cohort);
/* Tells whether all requests that are not final rest. */
bool tei_cohort_is_at_rest(const struct tei_cohort *cohort);
/*
 * Makes its requests from the @n-th on a cohort of their own, and returns that:
 * it is in no list, and has no deadline set.
 */
struct tei_cohort *tei_cohort_cut(struct tei_cohort *cohort, uint32_t n);

/*
 * Tells whether it may go to another worker, not too often a second;
 * count_move() notes that it goes. @now: ns.
 */
bool tei_cohort_may_move(const struct tei_cohort *cohort, uint64_t now);
void tei_cohort_count_move(struct tei_cohort *cohort, uint64_t now);

/*
 * Tells whether its requests, with TE_FAIL_SILENT, end because nothing has come
 * of their peer for long. It is to be looked at again after a while.
 */
bool tei_cohort_is_silent(struct tei_cohort *cohort, uint64_t now);
/* Returns when to look at its deadline, or its silence, next, in ns. */
uint64_t tei_cohort_next_look(const struct tei_cohort *cohort);

/* ---- requests that are submitted and awaited together ---- */

/*
 * The driver writes completions: the request itself, its index into order[],
 * and once a round the counter n_done (release), which the user's side reads
 * (acquire). `touching` is set while the driver may still look at the batch
 * after that, so that destroying it waits those few instructions.
 */

/* Has a worker cancel what it has of a batch that is another one's. */
struct tei_sweep {
	struct tei_call call;
	struct te_batch *batch;
	uint32_t worker;
	/* seq_cst: posted is cleared after running was set */
	_Atomic bool posted, running;
};

struct te_batch {
	struct te_engine *engine;
	/*
	 * The worker whose token guards it, and whose requests most of its own
	 * are. Written by submit while nothing is in flight; relaxed.
	 */
	_Atomic(struct tei_worker *) home;
	struct tei_list link; /* engine->batches, guarded by its mu */
	uint32_t capacity;
	struct tei_request *requests; /* requests[capacity] */
	struct tei_cohort
		*cohorts;       /* cohorts[capacity], by the first's index */
	struct iovec *merged;   /* merged[capacity]: pieces of merged works */
	uint32_t *order;        /* order[capacity]: as they ended */
	struct tei_list chunks; /* of piece lists; one submitter */
	uint32_t n_taken;       /* by poll; one thread at a time */

	_Atomic uint32_t n_submitted; /* release by submit */
	_Atomic uint32_t n_done;      /* seq_cst: pairs with sleeper, event */
	/* release when the driver releases the token */
	_Atomic bool touching;
	_Atomic int event; /* eventfd, -1: none; seq_cst */

	/* Set while nothing is in flight; read by the driver. */
	te_done_fn *fn; /* NULL: completions are polled for */
	void *fn_arg;
	uint32_t n_called;    /* token: completions handed to fn */
	_Atomic bool closing; /* relaxed: takes no requests any more */

	_Atomic bool cancel_all, cancel_posted, cancel_running;
	/* Requests below it are canceled, also those that have not begun. */
	_Atomic uint32_t n_canceled;
	_Atomic uint64_t used;    /* workers beside home that have had some */
	struct tei_sweep *sweeps; /* sweeps[n_workers] */
	struct tei_mpsc cancels;  /* requests, by cancel_node */
	struct tei_call cancel;

	/* Made by the first submission on a stream; te/api/stream.h. */
	_Atomic(struct tei_gated *) gated;

	struct tei_sleeper sleeper; /* who waits; one at a time */
	_Atomic bool waited;        /* for the last submission; relaxed */

	/* Token. */
	uint32_t n_final;
	struct tei_list dirty;    /* worker.dirty */
	struct tei_list notifies; /* the first one to each segment */
	bool looking;             /* through notifies */
	/* The first n_well requests to that segment have ended well. */
	const struct tei_peer *well_peer; /* NULL: of none it is known */
	uint32_t well_life, n_well;
};

static inline struct tei_worker *tei_batch_home(const struct te_batch *batch)
{
	return atomic_load_explicit(&batch->home, memory_order_relaxed);
}

/* Ends, in its batch, a request that another worker had. Token, of the home. */
void tei_request_ended(struct tei_call *call);

#endif
