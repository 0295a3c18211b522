/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - a remote engine as we reach it, one per name
 *
 * Three parts: what the control thread owns (c), what the holder of the drive
 * token owns (w), and what control tells everybody (told, guarded by the
 * engine's mu). Control changes told, bumps `news` and posts; the worker takes
 * over what is new before it uses it. The worker sets `want` and `asks` and
 * posts; control looks what is wanted.
 *
 *   IDLE --wanted--> RESOLVING --> CONNECTING --> HELLO --> DESCRIBING --> UP
 *    ^                   |            |            |         |            |
 *    +--nobody wants-- BACKOFF <------+------------+---------+------------+
 *
 * A peer lives as long as its engine. `life` counts its incarnations: requests
 * and segments of an older one are stale.
 */
#ifndef TE_CONTROL_PEER_H
#define TE_CONTROL_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <te/te.h>

#include "base/frame.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/net.h"
#include "base/thread.h"
#include "te/control/remote.h"
#include "te/notify/notify.h"
#include "te/region/group.h"
#include "te/transfer/breaker.h"
#include "te/transfer/link.h"
#include "te/transfer/meter.h"
#include "te/transfer/queue.h"
#include "te/worker/worker.h"

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

enum tei_peer_asks {
	TEI_ASK_DESCRIBE = 1 << 0, /* the description may be too old */
	TEI_ASK_PROBE = 1 << 1,    /* it owes us data and is silent */
};

struct tei_lookup;

struct tei_told {
	uint32_t life; /* 0: never met */
	bool up;
	struct tei_remote *remote; /* NULL until described */
	uint64_t fresh;            /* the last question that remote answers */
	uint64_t epoch, epoch_since;
	/* That epoch has ended, the owner says; the next is not known yet. */
	uint64_t epoch_over;
	uint64_t fails; /* attempts that failed */
	int fail_err;
	uint64_t refusals; /* times that all its addresses refused us */
	uint64_t absences; /* of them, when they had for a while */
	bool fail_final;   /* trying again is no use, as far as one can tell */
	struct tei_address address; /* where the control connection leads */
	uint8_t incarnation[TE_INCARNATION_LEN];
};

/* Control thread. */
struct tei_peer_control {
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
	uint32_t tried;        /* of told.remote->control, see reroute.c */
	bool elsewhere;        /* at is one of those, not of the name */
	struct tei_group_challenge challenge;
	uint64_t hello_epoch;
	struct tei_list openers; /* struct tei_opener */
	struct tei_list drops;   /* links to be dropped, by out.asked */
	struct tei_frame_call hello, prove, describe, probe;
	struct tei_notify_out notify;
	uint64_t hello_taken, hello_losses; /* for tei_notify_greeted() */
	uint64_t question;  /* the last one before describe was sent */
	uint64_t probed_at; /* ns */
	bool describing, describe_again, proving, prove_again, probing;
};

/* A local rail towards this peer. Token. */
struct tei_pair {
	struct tei_peer *peer; /* not owned; while it is in a line */
	struct tei_list slot;  /* in the line for an endpoint; see slots.h */
	struct tei_link *link; /* NULL: none */
	bool usable;           /* the peer has a matching rail */
	bool unmatched;        /* it has not, but others of the same backend */
	uint32_t remote_pos, remote_rail;
	int err; /* of the last link that failed; 0: none has */
	struct tei_breaker breaker;
	struct tei_meter meter;
	uint64_t slow_at; /* ns: when a link was last given up as slow */
};

/* Token. */
struct tei_peer_work {
	uint64_t news; /* value of `news` that was taken over */
	uint32_t life;
	bool up, runnable;
	struct tei_remote *remote;
	uint64_t fresh, epoch, epoch_over, fails, refusals, absences;
	uint64_t pause_until; /* ns: the owner has no room just now */
	uint64_t moved_at;    /* ns: something last came of the owner */
	struct tei_address address;
	struct tei_list active;  /* cohorts, by of_peer */
	struct tei_queue queue;  /* requests with something to post */
	struct tei_list parked;  /* requests that await a description */
	struct tei_list warmers; /* struct tei_warmer */
	struct tei_list links;   /* every one not freed */
	struct tei_list run;     /* in worker.runnable */
	struct tei_due retry;    /* open links again */
	struct tei_pair *pairs;  /* pairs[n_rails] */
	const struct tei_backend_ops *choice; /* as was told; NULL: none */
	bool chosen;                          /* it was told */
	uint32_t n_up;                        /* links */
};

struct tei_peer {
	struct tei_list link; /* engine->peers, guarded by mu */
	struct te_engine *engine;
	char name[TEI_NAME_LEN_MAX + 1];
	char host[TEI_HOST_LEN_MAX + 1];
	uint16_t port; /* 0: the name is the directory's */
	bool self;

	struct tei_told told;        /* guarded by engine->mu */
	struct tei_segment *segment; /* of this life; guarded by engine->mu */
	_Atomic uint64_t news;       /* release after told changed */
	_Atomic bool news_posted, asks_posted;
	struct tei_call news_call, asks_call;
	_Atomic uint64_t questions; /* by tei_peer_ask_again(); relaxed */
	_Atomic bool want;     /* the worker needs the control connection */
	_Atomic uint32_t asks; /* TEI_ASK_* */

	struct tei_peer_control c;
	struct tei_peer_work w;
};

/* One who waits for a peer to be up, or to answer; on the caller's stack. */
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

/*
 * Until the peer is up, or has answered a probe; @opener is zeroed but for
 * peer and probe. Errors as te_segment_open() or te_peer_probe(). Blocks
 * (segment.c).
 */
int tei_peer_await(struct tei_opener *opener, uint64_t timeout_ms);
/* The peer of that name, made if new. -EINVAL, -ENOMEM. Takes mu. */
int tei_peer_get(struct te_engine *engine, const char *name,
		 struct tei_peer **out);
/* The first (NULL) or the next one, without a lock held; NULL: none. */
struct tei_peer *tei_peer_next(struct te_engine *engine, struct tei_peer *peer);
/* Both threads have ended and every link is freed. */
void tei_peer_free(struct tei_peer *peer);

/* ---- control thread (peer.c, peer_talk.c) ---- */

void tei_peer_move(struct tei_peer *peer, enum tei_peer_state to);
/* In state RESOLVING: go to that address. */
void tei_peer_connect(struct tei_peer *peer, const struct tei_address *to);
/* Go on towards what is wanted: connect, send what waits. */
void tei_peer_kick(struct tei_peer *peer);
void tei_peer_open(struct tei_opener *opener);
/* A step failed: forget the connection, tell, and try again if wanted. */
void tei_peer_failed(struct tei_peer *peer, int err, bool for_good);
void tei_peer_close(struct tei_peer *peer); /* before the loop stops */
/* Say hello on the new connection, and all that follows it. */
void tei_peer_hello(struct tei_peer *peer);
void tei_peer_prove(struct tei_peer *peer);
void tei_peer_describe(struct tei_peer *peer);
/* Connected and described. */
void tei_peer_is_up(struct tei_peer *peer);
/* The owner's word on our access epoch; ignored unless newer. */
void tei_peer_tell_epoch(struct tei_peer *peer, uint64_t epoch);
extern const struct tei_frame_ops tei_peer_frame_ops;
/* peer_link.c: Connect, Drop and Probe for the worker's links. */
void tei_peer_send_drops(struct tei_peer *peer);
/* Give up those in which nobody is interested any more. */
void tei_peer_prune_drops(struct tei_peer *peer);
void tei_peer_probe(struct tei_peer *peer);

/* ---- control thread (opener.c) ---- */

void tei_opener_end(struct tei_opener *opener, int err);
void tei_openers_end(struct tei_peer *peer, int err);
/* The peer is up: those end who only wanted that, and the others probe it. */
void tei_openers_serve(struct tei_peer *peer);
/* Who opens waits for a peer that is not there yet; a probe wants its no. */
void tei_openers_refuse(struct tei_peer *peer);
/* An attempt has failed: what they end with when their time is over. With mu. */
void tei_openers_told(struct tei_peer *peer, int err);
void tei_peer_probed(struct tei_peer *peer, uint64_t rtt_ns);

/* `told` has changed. Any thread, not with mu held. */
void tei_peer_post_news(struct tei_peer *peer);

/* ---- token (peer_work.c) ---- */

void tei_peer_work_init(struct tei_peer *peer);
/* Take over what control has told. */
void tei_peer_sync(struct tei_peer *peer);
/* Rails of ours have come to reach others than before. */
void tei_peer_rematch(struct tei_peer *peer);
/* Self: describe our own regions again if they have changed. */
void tei_peer_sync_self(struct tei_peer *peer);
/* What we would tell a peer with all groups; any thread. NULL: no memory. */
struct tei_remote *tei_self_describe(struct te_engine *engine);
/* Something can be posted, or might be. */
void tei_peer_run(struct tei_peer *peer);
/*
 * Open links and post what the queue has, about @quantum bytes of it. True:
 * there may be more.
 */
bool tei_peer_pump(struct tei_peer *peer, uint64_t quantum);
/* Tell control whether its connection is needed. */
void tei_peer_update_want(struct tei_peer *peer);
void tei_peer_ask(struct tei_peer *peer, uint32_t asks);
/* End all of its requests. */
void tei_peer_abort_all(struct tei_peer *peer, int err);
/*
 * With the engine, when no thread is left to ask: end its requests and break its
 * links. Those that are still being flushed are closed by who drives.
 */
void tei_peer_end_links(struct tei_peer *peer);
/* Requests with TE_FAIL_FAST that no endpoint carries end with @err. */
void tei_peer_fail_fast(struct tei_peer *peer, int err);
/*
 * The owner has refused work of @epoch as stale. Requests submitted from now
 * on belong to the next epoch and wait until it is known.
 */
void tei_peer_epoch_over(struct tei_peer *peer, uint64_t epoch);
/* It has been asked since: the one that is known holds. */
void tei_peer_epoch_goes_on(struct tei_peer *peer);

#endif
