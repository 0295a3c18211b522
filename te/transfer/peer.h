/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - a remote engine as we reach it, one per name
 *
 * A peer has a part that the control thread owns (c), one for each worker that
 * the holder of that worker's drive token owns (works), and one that control
 * announces to all threads (announced, guarded by the engine's mu). Control
 * changes announced, bumps `news` and posts; each worker takes it over before
 * it uses it. Workers count `n_want`, set `asks` and post; control reads them.
 *
 *   IDLE --wanted--> RESOLVING --> CONNECTING --> HELLO --> DESCRIBING --> UP
 *    ^                   |            |            |         |            |
 *    +--nobody wants-- BACKOFF <------+------------+---------+------------+
 *
 * A peer lives as long as its engine. `life` counts its incarnations: requests
 * and segments of an older one are stale.
 */
#ifndef TE_TRANSFER_PEER_H
#define TE_TRANSFER_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <te/te.h>

#include "base/frame.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/net.h"
#include "base/thread.h"
#include "te/region/description.h"
#include "te/region/group.h"
#include "te/transfer/health.h"
#include "te/transfer/link.h"
#include "te/transfer/schedule.h"
#include "te/worker/breaker.h"
#include "te/worker/worker.h"

struct tei_peer;
struct tei_peer_control;
struct tei_request;
struct tei_segment;

enum tei_peer_asks {
	TEI_ASK_DESCRIBE = 1 << 0, /* the description may be too old */
	TEI_ASK_PROBE = 1 << 1,    /* it owes us data and is silent */
};

struct tei_announced {
	uint32_t life; /* 0: never met */
	bool up;
	struct tei_remote *remote; /* NULL until described */
	uint64_t fresh;            /* the last question that remote answers */
	uint64_t epoch, epoch_since;
	/* Epoch that the owner says has ended; the next is not known yet. */
	uint64_t epoch_over;
	uint64_t fails; /* attempts that failed */
	int fail_err;
	uint64_t refusals; /* times that all its addresses refused us */
	uint64_t absences; /* of them, when they had for a while */
	bool fail_final;   /* trying again is no use, as far as one can tell */
	struct tei_address address; /* where the control connection leads */
	uint8_t incarnation[TE_INCARNATION_LEN];
};

/* A local rail towards this peer. Token. */
struct tei_pair {
	struct tei_peer_work *peer; /* not owned; while it is in a line */
	struct tei_list slot;  /* in the line for an endpoint; see link.h */
	struct tei_link *link; /* NULL: none */
	bool usable;           /* the peer has a matching rail */
	bool unmatched;        /* it has not, but others of the same backend */
	uint32_t remote_pos, remote_rail;
	int err; /* of the last link that failed; 0: none has */
	struct tei_breaker breaker;
	struct tei_meter meter;
	uint64_t slow_at; /* ns: when a link was last given up as slow */
	_Atomic uint64_t *held_until; /* of the peer's, this rail's; fixed */
};

#define TEI_PEER_GONE 16 /* links asked for, or reported gone, at a time */

/* A peer as one worker reaches it, by the rails of that worker. Token. */
struct tei_peer_work {
	struct tei_peer *of; /* not owned, as all up to name; fixed */
	struct te_engine *engine;
	struct tei_worker *worker;
	const char *name;
	/* Written by others: on a cache line of their own. */
	char apart[TEI_CACHE_LINE];
	_Atomic bool news_posted, stand_by_posted;
	struct tei_call news_call, gone_call, stand_by_call;
	uint64_t gone[TEI_PEER_GONE];    /* numbers of links; by mu */
	bool gone_wanted[TEI_PEER_GONE]; /* guarded by mu */
	uint32_t n_gone;                 /* guarded by mu */
	char apart_too[TEI_CACHE_LINE];

	bool self;     /* fixed */
	bool wants;    /* it is counted in n_want */
	uint64_t news; /* value of the peer's `news` that was taken over */
	uint32_t life;
	bool up, runnable;
	bool to_rematch; /* a pair that goes first where it can was paused */
	bool waits;      /* some requests have no rail here just now */
	struct tei_remote *remote;
	uint64_t fresh, epoch, epoch_over, fails, refusals, absences;
	uint64_t pause_until; /* ns: the owner has no room just now */
	struct tei_address address;
	struct tei_list active;   /* cohorts, by of_peer */
	struct tei_queue queue;   /* requests with something to post */
	struct tei_list parked;   /* requests that await a description */
	struct tei_list warmers;  /* struct tei_warmer */
	struct tei_list links;    /* every one not freed */
	struct tei_list run;      /* in worker.runnable */
	struct tei_list starving; /* in transfer.starving */
	struct tei_due retry;     /* open links again */
	struct tei_pair *pairs;   /* pairs[n_rails] */
	/*
	 * The last answer of tei_pairs_that_reach(), and for which region of
	 * `remote`; forgotten when `remote` or a pair changes.
	 */
	struct {
		const struct tei_remote_region *region; /* NULL: no answer */
		uint64_t reach, across, spread;
	} seen;
	const struct tei_backend_ops *choice; /* as logged; NULL: none */
	bool chosen;                          /* it was logged */
	/* Hints, which other workers read relaxed. */
	_Atomic uint32_t n_up;     /* links */
	_Atomic uint32_t n_owing;  /* links with slices at the backend */
	_Atomic uint64_t moved_at; /* ns: something last came of the owner */
	/* Rails of other workers that go with one of the peer's, a bit each. */
	uint64_t elsewhere;
	/*
	 * Rails of any worker that worked when all requests were last asked
	 * whether another one serves them; UINT64_MAX: ask them again.
	 */
	uint64_t asked_with;
	/* Another worker's rail has changed. Any thread sets it. */
	_Atomic bool to_match;
	char apart_last[TEI_CACHE_LINE]; /* from the next worker's part */
};

TEI_APART(struct tei_peer_work, name, news_posted); /* fixed; others */
TEI_APART(struct tei_peer_work, n_gone, self);      /* its worker */

struct tei_peer {
	struct tei_list link; /* engine->peers, guarded by mu */
	struct te_engine *engine;
	char name[TEI_NAME_LEN_MAX + 1];
	char host[TEI_HOST_LEN_MAX + 1];
	uint16_t port; /* 0: the name is the directory's */
	bool self;
	struct tei_peer_control *c;  /* control thread */
	struct tei_peer_work *works; /* works[engine->n_workers] */
	/*
	 * ns: until when rails are not to be counted on for the peer; for
	 * other workers to see, relaxed
	 */
	_Atomic uint64_t *held_until; /* held_until[n_rails] */

	char apart[TEI_CACHE_LINE];     /* what is fixed from what is written */
	struct tei_announced announced; /* guarded by engine->mu */
	struct tei_segment *segment;    /* guarded by engine->mu */
	_Atomic uint64_t news;          /* release after announced changed */
	_Atomic bool asks_posted;
	struct tei_call asks_call;
	uint64_t silent[TEI_PEER_GONE]; /* links to be asked for; by mu */
	uint32_t n_silent;              /* guarded by mu */
	_Atomic uint64_t questions; /* counts asks for a description; relaxed */
	_Atomic uint32_t n_want; /* workers that need the control connection */
	_Atomic uint32_t asks;   /* TEI_ASK_* */
	/* Workers that serve it best, a bit each; 0: unknown. Relaxed. */
	_Atomic uint64_t favored;
	/*
	 * Rails given up as silent, a bit each, since something last came of
	 * it: a hint. Relaxed.
	 */
	_Atomic uint64_t tried;
};

TEI_APART(struct tei_peer, held_until, announced); /* fixed; any thread */

/* Posts news after a change of `announced`. Any thread, not with mu held. */
void tei_peer_post_news(struct tei_peer *peer);
/*
 * Breaks the link of that number, whose other half has ended; none: nothing
 * happens. @wanted: the owner has ended it and nothing failed, so that another
 * one may be opened at once. Where more end at a time than are remembered, the
 * rest is asked for when it is silent. Any thread, not with mu held.
 */
void tei_peer_link_gone(struct tei_peer *peer, uint64_t number, bool wanted);
/*
 * Takes the numbers of silent links that the next probe asks for; returns how
 * many. Any thread, not with mu held.
 */
uint32_t tei_peer_take_silent(struct tei_peer *peer,
			      uint64_t numbers[TEI_PEER_GONE]);

/* The next one in no order, NULL: the first; NULL after the last. Takes mu. */
struct tei_peer *tei_peer_next(struct te_engine *engine, struct tei_peer *peer);

/* ---- token ---- */

/*
 * Makes the parts of all workers, once @peer is else filled in; -ENOMEM: none
 * is left. Any thread.
 */
int tei_peer_works_make(struct tei_peer *peer);
void tei_peer_works_free(struct tei_peer *peer);
/* Takes over `announced` into w. */
void tei_peer_sync(struct tei_peer_work *peer);
/* Self: describe our own regions again if they have changed. */
void tei_peer_sync_self(struct tei_peer_work *peer);
/* Something can be posted, or might be. */
void tei_peer_run(struct tei_peer_work *peer);
/* Has requests go another way, soon, than by the paused pair. Token. */
void tei_peer_detour(struct tei_peer_work *peer, uint32_t rail);
/* Looks which rails, and workers, its requests go by after that. Token. */
void tei_peer_rematch(struct tei_peer_work *peer);
/* Tell control whether its connection is needed. */
void tei_peer_update_want(struct tei_peer_work *peer);
void tei_peer_ask(struct tei_peer_work *peer, uint32_t asks);
/*
 * Probes the peer, and whether its half of the link @number is there. Who still
 * is silent after the answer asks again: there is room for some at a time.
 */
void tei_peer_ask_silent(struct tei_peer_work *peer, uint64_t number);
/* Calls @fn for each that has begun and is not final; it may end any. */
void tei_peer_each_active(struct tei_peer_work *peer,
			  void (*fn)(struct tei_request *r, int err), int err);
/* End all of its requests. */
void tei_peer_abort_all(struct tei_peer_work *peer, int err);
/*
 * Ends the peer's requests and breaks its links, with the engine, when no
 * thread is left to ask. Those that are still being flushed are closed by who
 * drives.
 */
void tei_peer_end_links(struct tei_peer_work *peer);
/* Requests with TE_FAIL_FAST that no endpoint carries end with @err. */
void tei_peer_fail_fast(struct tei_peer_work *peer, int err);
/*
 * The owner has refused work of @epoch as stale. Requests submitted from now
 * on belong to the next epoch and wait until it is known.
 */
void tei_peer_epoch_over(struct tei_peer_work *peer, uint64_t epoch);
/* Confirms the known epoch: the owner has answered a question asked since. */
void tei_peer_epoch_goes_on(struct tei_peer_work *peer);

/* ---- any thread, not with the token or mu; they wait for the worker ---- */

/* Returns how each rail of ours stands with the peer, in out[room]. -ESTALE. */
int tei_peer_links(struct tei_peer *peer, uint32_t life,
		   struct te_link_info *out, size_t room);
/*
 * Open links by which its regions are reached until @until (ns). *n_rails: how
 * many are up. -ESTALE, -ETIMEDOUT, -ENOMEM.
 */
int tei_peer_warm_up(struct tei_peer *peer, uint32_t life, uint64_t until,
		     uint32_t *n_rails);

/* ---- endpoints that are opened before the first request ---- */

/*
 * A thread that warms up waits on its own stack. The holder of the token opens
 * the links that requests would use and checks again whenever the peer is run,
 * which is when a link has come up or was closed.
 */

/* The peer is run: see how far those are that wait. Token. */
void tei_warm_look(struct tei_peer_work *peer);

#endif
