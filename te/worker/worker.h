/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.h - who drives the rails, and how everybody sleeps
 *
 * A worker owns rails and everything that hangs on them. Whoever holds its
 * drive token drives: the worker's own thread, or a thread that waits for a
 * batch; only the latter when the setting worker_thread is off. One round takes
 * the queue, fires what is due, pumps peers, lets the rails progress, closes
 * what broke and publishes completions.
 *
 *            +-- outer epoll --+          the worker's thread sleeps here
 *            |  kick eventfd   |
 *            |  inner epoll ---+--> wake eventfd, every rail's wait_fd
 *            +-----------------+          a waiting driver sleeps here
 *
 * While a waiter drives, the inner fd is disarmed in the outer one, so that
 * what arrives does not wake the worker's thread too; it is armed again when
 * the waiter releases the token, unless a sleeper goes on (below) or the
 * thread waits idle (thread.c). `idle` is 1 while nobody is sure to look at the
 * queue: who pushes and finds 1 must wake the driver.
 *
 * Threads: a function says "token" when its caller must hold it.
 */
#ifndef TE_WORKER_WORKER_H
#define TE_WORKER_WORKER_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/follow.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/mpsc.h"
#include "base/slab.h"
#include "base/spin.h"
#include "base/thread.h"
#include "te/backend.h"
#include "te/core/config.h"
#include "te/core/stats.h"
#include "te/worker/breaker.h"

struct te_config;
struct te_engine;
struct tei_peer_work;
struct tei_worker;

/* ---- threads that wait while another thread drives: sleeper.c ---- */

/*
 * A driver that releases the token calls one of them, which drives on: so there
 * is one wake-up for each that has what it waits for, and no two threads fight
 * for the token. Threads: any; worker.mu guards the list.
 */

struct tei_sleeper {
	struct tei_list link; /* worker.sleepers */
	struct tei_cond cond; /* with worker.mu */
	_Atomic bool asleep;  /* seq_cst: pairs with what is waited for */
	bool called;          /* to drive; guarded by worker.mu */
};

void tei_sleeper_init(struct tei_sleeper *s);
void tei_sleeper_fini(struct tei_sleeper *s);
/*
 * Sleep until done(arg) and roused, the token is free, or @until (ns). True:
 * the caller must try to drive, others may rely on it.
 */
bool tei_sleeper_sleep(struct tei_worker *w, struct tei_sleeper *s,
		       bool (*done)(void *), void *arg, uint64_t until);
/* Signals @s; call it after the condition that @s waits for holds. */
void tei_sleeper_signal(struct tei_worker *w, struct tei_sleeper *s);
/* Wake one to drive, once the token is free. False: none sleeps. */
bool tei_sleeper_call_one(struct tei_worker *w);

/* ---- NICs that the user names, as each backend calls them ---- */

/*
 * The setting `devices` names them by any name that the machine has for them:
 * their RDMA device is for the backends of RDMA, their interface for the others
 * that reach other hosts. What te_config_set() says of a backend's own setting
 * counts before that.
 */

#define TEI_DEVICES_MAX 1024 /* bytes of a list of names */

struct tei_devices {
	bool chosen; /* by the setting; else the rest means nothing */
	char rdma[TEI_DEVICES_MAX], interfaces[TEI_DEVICES_MAX];
};

#define TEI_TIERS_MAX 8

/* Something to do at a point in time (monotonic ns); embed it. Token. */
struct tei_due {
	struct tei_heap_node node;
	void (*fn)(struct tei_due *due);
};

/* An open device, and what the core keeps about it. */
struct tei_rail_box {
	struct tei_worker *worker; /* that it belongs to; not owned. Fixed */
	char name[64];             /* "tcp/0" */
	void *config;              /* values of ops->settings; owned */
	uint32_t tier;             /* of its backend, 0: preferred. Fixed */
	int nic; /* in the engine's topo, -1: unknown. Fixed */
	int fd;  /* wait_fd(), -1: none */
	/* Written with the token, read by any thread; relaxed is enough. */
	_Atomic bool dead; /* progress() failed for good */
	_Atomic bool down; /* it has no link just now */
	_Atomic bool lost; /* control has not heard that it went down */
	_Atomic uint64_t held_until; /* ns: when a pause of it ends */
	_Atomic uint32_t shown; /* enum te_rail_state, for te_engine_rails() */
	char apart[TEI_CACHE_LINE]; /* what others read from the token's */
	struct tei_slab works; /* struct tei_work with ops->slice_size. Token */
	struct tei_list links; /* with an open endpoint, by of_rail. Token */
	uint32_t n_posted;     /* slices at the backend. Token */
	uint32_t n_busy;       /* links with any of these. Token */
	uint64_t posted_bytes; /* of them. Token */
	/* Peers that it reaches no rail of; written with the token. */
	_Atomic uint32_t n_unmatched;
	/* the first of them stands in the log. Token */
	bool unmatched_reported;
	/* Endpoints that are waited for, see te/transfer/link.h. Token. */
	struct tei_list waiting; /* pairs that may not open a link yet */
	struct tei_due turn;     /* then another link may be retired */
	uint32_t n_waiting;
	uint32_t n_out;      /* links of ours, as initiator */
	uint32_t n_retiring; /* of them */
	/* See health.h. Token. */
	struct tei_breaker breaker;
	uint64_t good_at, blamed_at; /* ns */
	const struct tei_peer_work *blamed_by;
	uint32_t n_blamed;
	char apart_too[TEI_CACHE_LINE];
	struct tei_rail rail; /* ops->rail_size bytes follow */
};

/*
 * Rooms above, as the worker calls them: it knows neither peers nor batches.
 * Whoever calls has the token, or is alone with the engine.
 */
struct tei_worker_ops {
	/* A rail's part of the transfer room, before it is opened. */
	void (*rail_init)(struct tei_rail_box *box);
	void (*rail_fini)(struct tei_rail_box *box);
	/* Post for those that are runnable. */
	void (*pump)(struct tei_worker *w);
	/* The rail's backend has completed something. */
	void (*rail_has_room)(struct tei_rail_box *box);
	/* The rail's device is gone for good, with @err. */
	void (*rail_died)(struct tei_rail_box *box, int err);
	/* The rail has lost its link; has it again. */
	void (*rail_down)(struct tei_rail_box *box);
	void (*rail_up)(struct tei_rail_box *box);
	/* Peers are to hear of it anew. Not with engine->mu held. */
	void (*rail_renewed)(struct te_engine *engine);
	/*
	 * Go on with copies to and from GPUs, while worker.n_copying says that
	 * there are some. True: one has ended.
	 */
	bool (*copies)(struct tei_worker *w);
	/* Close broken links. True: there was one. */
	bool (*close_broken)(struct tei_worker *w);
	/*
	 * Tell those who wait for batches that are dirty; those with callbacks
	 * only @with_callbacks. True: there was one.
	 */
	bool (*publish)(struct tei_worker *w, bool with_callbacks);
};

struct tei_worker {
	struct te_engine *engine;
	const struct tei_worker_ops *ops;
	const struct tei_backend_ops *const *backends; /* NULL at the end */
	uint32_t index; /* among the workers of the engine. Fixed */
	uint64_t mine;  /* rails of its own, a bit each. Fixed once started */
	int node;       /* that its thread stays at, -1: none; the same */
	/* Rails of all workers, rails[n_rails]. Fixed once started. */
	struct tei_rail_box **rails;
	struct tei_devices devices; /* fixed once the rails are made */
	struct tei_rail_box **own;  /* own[n_own], those in mine; the same */
	uint32_t n_own;
	uint32_t n_rails;
	uint64_t tiers[TEI_TIERS_MAX]; /* rails of a backend, a bit each */
	uint32_t n_tiers;
	uint64_t spreads; /* rails that may have a region in part, a bit each */
	pthread_t thread;
	bool started;
	int inner, outer, wake, kick; /* fds; -1: not open */

	char apart[TEI_CACHE_LINE]; /* what is fixed from what is written */
	_Atomic uint32_t token;     /* enum tei_holder. acquire / release */
	_Atomic uint32_t idle;      /* see above */
	_Atomic uint32_t wanted;    /* waiters that would like the token */
	/*
	 * Waiters that found another one driving: how many there have been,
	 * and how long such a waiter spins.
	 */
	_Atomic uint32_t n_second, awake_ns;
	_Atomic uint32_t missed; /* the thread sleeps until the token is free */
	_Atomic bool stop;
	_Atomic uint64_t sleep_until; /* ns, of the worker's thread */
	_Atomic bool idle_waiting;    /* by the thread; see thread.c */
	_Atomic bool idle_wait_asked; /* of it, by who waits or polls */
	/* Length of an idle wait; relaxed; written with the token. */
	_Atomic uint32_t idle_wait_ms;
	_Atomic bool armed;    /* inner is watched by outer; with the token */
	struct tei_mpsc queue; /* of struct tei_call */

	char apart_too[TEI_CACHE_LINE];

	struct tei_mutex mu; /* lock 11: sleepers */
	struct tei_list sleepers;
	_Atomic uint32_t n_sleepers; /* seq_cst: pairs with the token */

	char apart_three[TEI_CACHE_LINE];

	/* Token. */
	struct tei_stats stats; /* what TEI_COUNT_OWN() counts */
	/* Relaxed; read without the token by the thread in an idle wait. */
	_Atomic uint64_t rounds;
	uint64_t now;
	/* ns: end of the last wait, or last poll, and submitting since. */
	uint64_t let_go_at;
	uint64_t driven_ns;    /* length of that wait; 0: of a poll */
	uint64_t submitted_at; /* ns: end of the last submit that drove */
	uint32_t n_hot;        /* waits that came soon after another */
	uint32_t n_inbound;    /* endpoints of other engines towards us */
	uint32_t n_copying;    /* copies to and from GPUs under way */
	struct tei_spin spin_waiting, spin_tail, spin_thread, spin_copying;
	struct tei_contention contention;
	uint64_t yield_at; /* ns: to be tried by who spins */
	/* Both are the thread's alone; no token is needed. */
	bool woken; /* by the inner fd, since it last drove */
	struct tei_follow follow;
	struct tei_heap dues;
	struct tei_list runnable; /* peers with something to post */
	struct tei_list broken;   /* links to be closed */
	struct tei_list dirty;    /* batches with completions to publish */
	struct tei_list ended;    /* requests of batches of other workers */
	uint64_t next_number;     /* of the next endpoint */
	uint64_t chance;          /* state of what is left to chance */
	char apart_last[TEI_CACHE_LINE];
};

TEI_APART(struct tei_worker, kick, token);       /* fixed; any thread */
TEI_APART(struct tei_worker, queue, mu);         /* waiters */
TEI_APART(struct tei_worker, n_sleepers, stats); /* the driver */
TEI_APART(struct tei_rail_box, shown, works);    /* any thread; the token */
TEI_APART(struct tei_rail_box, n_blamed, rail);

/* Tells whether the rail belongs to the worker. */
static inline bool tei_worker_has(const struct tei_worker *w, uint32_t rail)
{
	return w->mine >> rail & 1;
}

/*
 * True: the backend's devices access memory themselves and reach other hosts.
 */
static inline bool tei_is_rdma(const struct tei_backend_ops *ops)
{
	return (ops->caps & TEI_CAP_REMOTE) && (ops->caps & TEI_CAP_ONE_SIDED);
}

/*
 * Opens the rails of every wanted backend, deals them out to workers, and sets
 * engine->n_workers; worker[0] has its tables. -ENODEV: none at all; others.
 */
int tei_workers_open(struct te_engine *engine, const struct te_config *config);
/* Starts their threads, if the settings want them. */
int tei_workers_start(struct te_engine *engine);
/* Ends the threads; the tokens are free for the caller. */
void tei_workers_stop(struct te_engine *engine);
/* Frees after stop(): every endpoint is closed, every region removed by now. */
void tei_workers_close(struct te_engine *engine);
/*
 * Drives all of them until none has a call in its queue. After stop(), for the
 * only thread that is left.
 */
void tei_workers_settle(struct te_engine *engine);

/* Shows the rail's new state to those who ask. Token. */
void tei_rail_show(struct tei_rail_box *box);
/* Tells whether it has no link, or is dead. Any thread. */
bool tei_rail_is_down(const struct tei_rail_box *box);
/*
 * Copies the rail's device as it is now. Any thread, not with engine->mu held.
 */
struct tei_device tei_rail_device(const struct tei_rail_box *box);

/* Run @call's function with the token held, soon. Any thread. */
void tei_worker_post(struct tei_worker *w, struct tei_call *call);
/*
 * Posts like post(), and drives a round right here when nobody else does, but
 * not in a callback where there are several. Long copies that only progress()
 * makes are left to the worker, or to a @patient caller, who will wait at once.
 */
void tei_worker_submit(struct tei_worker *w, struct tei_call *call,
		       bool patient);
/* The same, without a call. True: the round did something. */
bool tei_worker_poke(struct tei_worker *w);
/*
 * Drive until done(arg) or @deadline (ns). False: somebody else drives;
 * nothing was done: tei_sleeper_sleep().
 */
bool tei_worker_drive(struct tei_worker *w, bool (*done)(void *), void *arg,
		      uint64_t deadline);
/*
 * Drive until something was done or @deadline (ns). 1: something was, 0:
 * nothing, -EBUSY: somebody else drives, or as submit() does not.
 */
int tei_worker_turn(struct tei_worker *w, uint64_t deadline);
/*
 * tei_cond_wait() for what the worker brings about: where it has no thread,
 * drives meanwhile. @cond may be noticed a millisecond late then.
 */
bool tei_worker_await(struct tei_worker *w, struct tei_cond *cond,
		      struct tei_mutex *mu, uint64_t deadline)
	TEI_REQUIRES(*mu);
/* Token, or nobody drives: when the first deadline is; UINT64_MAX: none. */
uint64_t tei_worker_due(const struct tei_worker *w);
/* Token: (re)arm, disarm. add: -ENOMEM. */
int tei_due_set(struct tei_worker *w, struct tei_due *due, uint64_t at);
void tei_due_clear(struct tei_worker *w, struct tei_due *due);

/* ---- token, rounds, fds (drive.c) ---- */

/*
 * No wake-up is lost because both sides exchange `idle`: a driver that goes to
 * sleep or releases the token writes 1 and then looks at the queue; who pushes
 * writes 0 after pushing. Whichever exchange comes second sees the other's
 * work.
 */

#define TEI_NEVER UINT64_MAX

/* Values of `token`. */
enum tei_holder {
	TEI_FREE = 0,
	TEI_SOON = 1,   /* the driver releases within a round: others want it */
	TEI_WAITER = 2, /* who drives until it has what it waits for */
};

static inline void tei_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

bool tei_token_take(struct tei_worker *w, uint32_t holder);
/*
 * Gives the token back to someone who knows what is left to do: the next who
 * waits, the thread, or @patient, a caller that will come back for it at once.
 */
void tei_token_release(struct tei_worker *w, bool patient);

/* Work of a round for others, besides posting and progress. */
enum tei_drive_with {
	TEI_WITH_NEXT_TO_NOTHING, /* of who comes back to wait at once */
	TEI_WITH_A_LITTLE,        /* short copies: of who only submits */
	TEI_WITH_ALL,             /* any copies, and callbacks */
};

/* Flush and close what is broken, until no rail has a link. Token, for good. */
void tei_drive_until_closed(struct tei_worker *w);

#endif
