/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.h - who drives the rails, and how everybody sleeps
 *
 * A worker owns rails and everything that hangs on them. Whoever holds its
 * drive token drives: the worker's own thread, or a thread that waits for a
 * batch; only the latter when the setting worker_thread is off. One round takes the queue, fires what is due, pumps peers, lets the
 * rails progress, closes what broke and publishes completions.
 *
 *            +-- outer epoll --+          the worker's thread sleeps here
 *            |  kick eventfd   |
 *            |  inner epoll ---+--> wake eventfd, every rail's wait_fd
 *            +-----------------+          a waiting driver sleeps here
 *
 * While a waiter drives, the inner fd is disarmed in the outer one, so that
 * what arrives does not wake the worker's thread too; it is armed again when
 * the waiter lets go. `idle` is 1 while nobody is sure to look at the queue:
 * who pushes and finds 1 must wake the driver.
 *
 * Threads: a function says "token" when its caller must hold it.
 */
#ifndef TE_WORKER_H
#define TE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/mpsc.h"
#include "base/slab.h"
#include "base/thread.h"
#include "te/backend.h"
#include "te/breaker.h"

struct te_engine;
struct te_config;
struct tei_peer;

#define TEI_TIERS_MAX 8

/* Something to do at a point in time (monotonic ns); embed it. Token. */
struct tei_due {
	struct tei_heap_node node;
	void (*fn)(struct tei_due *due);
};

/* An open device, and what the core keeps about it. */
struct tei_rail_box {
	char name[64];         /* "tcp/0" */
	void *config;          /* values of ops->settings; owned */
	struct tei_slab works; /* struct tei_work with ops->slice_size. Token */
	struct tei_list links; /* with an open endpoint, by of_rail. Token */
	uint32_t n_posted;     /* slices at the backend. Token */
	uint32_t n_busy;       /* links with any of these. Token */
	uint32_t tier;         /* of its backend, 0: preferred. Fixed */
	int fd;                /* wait_fd(), -1: none */
	bool dead;             /* progress() failed for good. Token */
	bool down;             /* it has no link just now. Token */
	/* See health.h. Token. */
	struct tei_breaker breaker;
	uint64_t good_at, blamed_at; /* ns */
	const struct tei_peer *blamed_by;
	uint32_t n_blamed;
	struct tei_rail rail; /* ops->rail_size bytes follow */
};

struct tei_worker {
	struct te_engine *engine;
	struct tei_rail_box **rails; /* rails[n_rails]; fixed once started */
	uint32_t n_rails;
	uint64_t tiers[TEI_TIERS_MAX]; /* rails of a backend, a bit each */
	uint32_t n_tiers;
	pthread_t thread;
	bool started;
	int inner, outer, wake, kick; /* fds; -1: not open */

	_Atomic uint32_t token;  /* 1: held. acquire / release */
	_Atomic uint32_t idle;   /* see above */
	_Atomic uint32_t wanted; /* waiters that would like the token */
	_Atomic uint32_t missed; /* the thread sleeps until the token is free */
	_Atomic bool stop;
	_Atomic uint64_t sleep_until; /* ns, of the worker's thread */
	struct tei_mpsc queue;        /* of struct tei_call */

	/* Token. */
	bool armed; /* inner is watched by outer */
	uint64_t now;
	struct tei_heap dues;
	struct tei_list runnable; /* peers with something to post */
	struct tei_list broken;   /* links to be closed */
	struct tei_list dirty;    /* batches with completions to publish */
	uint64_t next_number;     /* of the next endpoint */
	uint64_t chance;          /* state of what is left to chance */
};

/* Open the rails of every wanted backend. -ENODEV: none at all; others. */
int tei_worker_open(struct tei_worker *w, struct te_engine *engine,
		    const struct te_config *config);
/* The thread, if the settings want one. */
int tei_worker_start(struct tei_worker *w);
/* The thread has ended; the token is free for the caller. */
void tei_worker_stop(struct tei_worker *w);
/* After stop(): every endpoint is closed, every region removed by now. */
void tei_worker_close(struct tei_worker *w);

/* Run @call's function with the token held, soon. Any thread. */
void tei_worker_post(struct tei_worker *w, struct tei_call *call);
/* As post(), and drive a round right here when nobody else does. */
void tei_worker_submit(struct tei_worker *w, struct tei_call *call);
/* One round by the caller, when nobody else drives. True: it did something. */
bool tei_worker_poke(struct tei_worker *w);
/*
 * Drive until done(arg) or @deadline (ns). False: somebody else drives and
 * did not let go within a short spin; nothing was done.
 */
bool tei_worker_drive(struct tei_worker *w, bool (*done)(void *), void *arg,
		      uint64_t deadline);
/*
 * Drive until something was done or @deadline (ns). 1: something was, 0:
 * nothing, -EBUSY: somebody else drives.
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

#endif
