/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.c - the worker's own thread: it drives what nobody waits for
 *
 *   driving --nothing to do--> asleep: until an fd, a deadline or a kick
 *      ^                         |
 *      |                  asked to nap
 *      +--nobody drove---- napping: looks once a nap whether others drive
 *
 * While others drive again and again the thread naps, and they neither arm
 * the fds for it nor tell it of deadlines: at the end of a nap in which nobody
 * has driven it takes over and is asleep as before.
 */
#include <poll.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "te/common/engine.h"
#include "te/worker/drive.h"

#define NAP_MS 1
/* It looks that often by itself, so that few deadlines need a kick. */
#define TICK (250 * TEI_NS_PER_MS)

static bool is_wanted(struct tei_worker *w)
{
	return atomic_load_explicit(&w->wanted, memory_order_relaxed) ||
	       atomic_load_explicit(&w->stop, memory_order_relaxed);
}

/*
 * Drive until there was nothing to do for a while, or a waiter asks. Returns
 * since when there is nothing, after some work; else 0.
 */
static uint64_t drive_while_busy(struct tei_worker *w)
{
	bool worked = tei_drive_round(w, TEI_WITH_ALL);
	uint64_t idle_since = 0;

	if (!worked)
		tei_drive_look(w, 0);
	while (!is_wanted(w)) {
		if (tei_drive_round(w, TEI_WITH_ALL)) {
			worked = true;
			idle_since = 0;
			continue;
		}
		if (!idle_since) /* rounds with work may have taken long */
			idle_since = w->now;
		if (tei_drive_must_go_on(w))
			tei_relax();
		else if (!worked || w->now - idle_since >= w->spin_thread.now ||
			 !tei_spin_once(w, w->now - idle_since))
			break;
	}
	return worked ? idle_since : 0;
}

/* On the outer fd, @ms at most. True: it was woken. */
static bool sleep_on_outer(struct tei_worker *w, int ms)
{
	struct epoll_event events[2];
	int i, n = epoll_wait(w->outer, events, 2, ms);

	for (i = 0; i < n; i++) {
		if (events[i].data.fd == w->kick)
			tei_drive_unring(w->kick);
	}
	return n > 0;
}

/* When to look again by itself; an engine without endpoints need not. */
static uint64_t next_look(const struct tei_worker *w)
{
	uint64_t due = tei_worker_due(w), tick = TEI_NEVER;
	uint32_t i;

	for (i = 0; i < w->n_rails; i++) {
		if (!tei_list_empty(&w->rails[i]->links))
			tick = w->now + TICK;
	}
	return due < tick ? due : tick;
}

static void drive(struct tei_worker *w)
{
	uint64_t idle_since = drive_while_busy(w), until, now;

	until = next_look(w);
	atomic_store(&w->sleep_until, until);
	tei_drive_let_go(w, false);
	if (atomic_load(&w->napping))
		return;
	now = tei_now_ns();
	sleep_on_outer(w, tei_drive_ms_until(until, now));
	if (idle_since)
		tei_spin_learn(&w->spin_thread, tei_now_ns() - idle_since);
}

/* True: others drive. False: what there is to do falls to the thread. */
static bool nap(struct tei_worker *w)
{
	uint64_t rounds =
		atomic_load_explicit(&w->rounds, memory_order_relaxed);

	atomic_store(&w->sleep_until, tei_now_ns() + NAP_MS * TEI_NS_PER_MS);
	if (sleep_on_outer(w, NAP_MS))
		return false;
	if (atomic_load_explicit(&w->rounds, memory_order_relaxed) != rounds)
		return true;
	atomic_store(&w->napping, false);
	return false;
}

/*
 * Somebody else drives. The inner fd may be ready all the while, so sleep on
 * the kick alone, which rings when the driver lets go.
 */
static void sleep_missed(struct tei_worker *w)
{
	struct pollfd fd = {.fd = w->kick, .events = POLLIN};

	atomic_exchange(&w->missed, 1);
	if (!atomic_load(&w->token) || atomic_load(&w->stop))
		return;
	poll(&fd, 1, -1);
	tei_drive_unring(w->kick);
}

static void *run(void *arg)
{
	struct tei_worker *w = arg;

	while (!atomic_load(&w->stop)) {
		if (atomic_exchange(&w->nap_asked, false))
			atomic_store(&w->napping, true);
		if (atomic_load(&w->napping) && nap(w))
			continue;
		atomic_store(&w->sleep_until, TEI_NEVER);
		if (tei_drive_take(w, TEI_SOON))
			drive(w);
		else
			sleep_missed(w);
	}
	return NULL;
}

int tei_worker_start(struct tei_worker *w)
{
	int rc;

	if (!tei_worker_has_thread(w))
		return 0;
	w->started = true;
	rc = tei_thread_start(&w->thread, "te-worker", run, w);
	if (rc)
		w->started = false;
	return rc;
}

void tei_worker_stop(struct tei_worker *w)
{
	if (!w->started)
		return;
	atomic_store(&w->stop, true);
	tei_drive_ring(w->kick);
	pthread_join(w->thread, NULL);
	w->started = false;
}
