/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.c - the worker's own thread: it drives what nobody waits for
 *
 *   driving --nothing to do--> asleep: until an fd, a deadline or a kick
 *      ^                         |
 *      |                  asked to wait idle
 *      +--nobody drives--- idle wait: looks each time whether others drive
 *
 * While others drive again and again the thread waits idle, and they neither
 * arm the fds for it nor tell it of deadlines: at the end of an idle wait in
 * which nobody has driven, nor is at it, it takes over and is asleep as before.
 */
#include <poll.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/wakeup.h"
#include "te/core/engine.h"
#include "te/worker/drive.h"
#include "te/worker/topology.h"
#include "te/worker/worker.h"

/* The thread wakes that often by itself, so that few deadlines signal it. */
#define TICK (250 * TEI_NS_PER_MS)
/* Sleep before which there is time to measure wake-ups. */
#define LONG_SLEEP_MS 100

static bool is_wanted(struct tei_worker *w)
{
	return atomic_load_explicit(&w->wanted, memory_order_relaxed) ||
	       atomic_load_explicit(&w->stop, memory_order_relaxed);
}

/*
 * Drive until there was nothing to do for a while, or a waiter asks. Returns
 * since when there is nothing, after some work; else 0. What woke the thread
 * counts as work: a library of a rail may have served a peer in the round, and
 * said nothing of it.
 */
static uint64_t drive_while_busy(struct tei_worker *w)
{
	bool worked = tei_drive_round(w, TEI_WITH_ALL);
	uint64_t idle_since = 0;

	if (!worked)
		tei_drive_await_fds(w, w->now);
	worked |= w->woken;
	w->woken = false;
	while (!is_wanted(w)) {
		if (tei_drive_round(w, TEI_WITH_ALL)) {
			worked = true;
			idle_since = 0;
			continue;
		}
		if (!idle_since) /* rounds with work may have taken long */
			idle_since = w->now;
		if (tei_drive_must_go_on(w)) {
			tei_relax();
			continue;
		}
		if (worked && w->now - idle_since < w->spin_thread.now &&
		    tei_drive_spin_once(w, w->now - idle_since))
			continue;
		/* A waiter that has given up asking drives on by itself. */
		if (!w->n_copying || atomic_load(&w->n_sleepers) ||
		    !tei_drive_sleep(w, TEI_NEVER))
			break;
	}
	return worked ? idle_since : 0;
}

/* Sleeps on the outer fd, for @ms at most. True: it was woken. */
static bool sleep_on_outer(struct tei_worker *w, int ms)
{
	struct epoll_event events[2];
	int i, n = epoll_wait(w->outer, events, 2, ms);

	for (i = 0; i < n; i++) {
		if (events[i].data.fd == w->kick)
			tei_event_clear(w->kick);
		else
			w->woken = true;
	}
	return n > 0;
}

/*
 * Returns when to look again by itself; an engine without endpoints need not.
 */
static uint64_t next_look(const struct tei_worker *w)
{
	uint64_t due = tei_worker_due(w), tick = TEI_NEVER;
	uint32_t i;

	for (i = 0; i < w->n_own; i++) {
		if (!tei_list_empty(&w->own[i]->links))
			tick = w->now + TICK;
	}
	return due < tick ? due : tick;
}

/* Returns a socket from which one of the rails has read; -1: none. Token. */
static int take_read_fd(struct tei_worker *w)
{
	int fd = -1;

	for (uint32_t i = 0; i < w->n_own; i++) {
		if (w->own[i]->rail.read_fd >= 0)
			fd = w->own[i]->rail.read_fd;
		w->own[i]->rail.read_fd = -1;
	}
	return fd;
}

/*
 * Drives while there is something to do. Returns the core to which the thread
 * should move then, -1: it stays; *idle_since as drive_while_busy(). Token.
 */
static int drive_awake(struct tei_worker *w, uint64_t *idle_since)
{
	uint64_t begun = tei_now_ns();
	bool woken = w->woken;
	int fd;

	(void)take_read_fd(w); /* whoever drove before was not woken by it */
	*idle_since = drive_while_busy(w);
	fd = take_read_fd(w);
	if (!woken || fd < 0 || !tei_contention_lasts(&w->contention, w->now))
		return -1;
	return tei_follow_look(&w->follow, fd, w->now - begun, w->now);
}

static void drive(struct tei_worker *w)
{
	uint64_t idle_since, until, now;
	int ms, cpu = drive_awake(w, &idle_since);

	until = next_look(w);
	atomic_store(&w->sleep_until, until);
	tei_token_release(w, false);
	/* Without the token: a move may take long. */
	if (cpu >= 0 && !is_wanted(w) && !atomic_load(&w->n_sleepers))
		tei_follow_move(&w->follow, cpu);
	if (atomic_load(&w->idle_waiting))
		return;
	now = tei_now_ns();
	ms = tei_ms_until(until, now);
	if ((ms < 0 || ms >= LONG_SLEEP_MS) && !tei_wakeup_done()) {
		tei_wakeup_measure(w->outer);
		if (idle_since) /* measuring does not count as waiting */
			idle_since += tei_now_ns() - now;
		ms = tei_ms_until(until, tei_now_ns());
	}
	sleep_on_outer(w, ms);
	if (idle_since)
		tei_spin_learn(&w->spin_thread, tei_now_ns() - idle_since);
}

/* True: others drive. False: what there is to do falls to the thread. */
static bool wait_idle(struct tei_worker *w)
{
	uint64_t rounds =
		atomic_load_explicit(&w->rounds, memory_order_relaxed);
	uint32_t ms =
		atomic_load_explicit(&w->idle_wait_ms, memory_order_relaxed);

	atomic_store(&w->sleep_until, tei_now_ns() + ms * TEI_NS_PER_MS);
	if (sleep_on_outer(w, (int)ms))
		return false;
	if (atomic_load_explicit(&w->rounds, memory_order_relaxed) != rounds ||
	    (atomic_load(&w->token) && !atomic_load(&w->idle)))
		return true;
	atomic_store(&w->idle_waiting, false);
	return false;
}

/*
 * Sleeps on the kick alone while somebody else drives: the inner fd may be
 * ready all the while, and the kick is set when the driver releases the token.
 */
static void sleep_missed(struct tei_worker *w)
{
	struct pollfd fd = {.fd = w->kick, .events = POLLIN};

	atomic_exchange(&w->missed, 1);
	if (!atomic_load(&w->token) || atomic_load(&w->stop))
		return;
	poll(&fd, 1, -1);
	tei_event_clear(w->kick);
}

static void *drive_rails(void *arg)
{
	struct tei_worker *w = arg;

	if (w->node >= 0)
		tei_topology_stay_near(w->engine, w->node);
	while (!atomic_load(&w->stop)) {
		if (atomic_exchange(&w->idle_wait_asked, false))
			atomic_store(&w->idle_waiting, true);
		if (atomic_load(&w->idle_waiting) && wait_idle(w))
			continue;
		atomic_store(&w->sleep_until, TEI_NEVER);
		if (tei_token_take(w, TEI_SOON))
			drive(w);
		else
			sleep_missed(w);
	}
	return NULL;
}

static int start(struct tei_worker *w)
{
	int rc;

	w->started = true;
	rc = tei_thread_start(&w->thread, "te-worker", drive_rails, w);
	if (rc)
		w->started = false;
	return rc;
}

static void stop(struct tei_worker *w)
{
	if (!w->started)
		return;
	atomic_store(&w->stop, true);
	tei_event_signal(w->kick);
	pthread_join(w->thread, NULL);
	w->started = false;
}

int tei_workers_start(struct te_engine *engine)
{
	uint32_t i;
	int rc = 0;

	for (i = 0; !rc && i < engine->n_workers; i++)
		if (tei_worker_has_thread(&engine->worker[i]))
			rc = start(&engine->worker[i]);
	if (rc)
		tei_workers_stop(engine);
	return rc;
}

void tei_workers_stop(struct te_engine *engine)
{
	for (uint32_t i = 0; i < engine->n_workers; i++)
		stop(&engine->worker[i]);
}
