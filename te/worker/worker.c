/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - driving by those who submit and those who wait */
#include "te/worker/worker.h"

#include <errno.h>

#include "base/clock.h"
#include "te/common/engine.h"
#include "te/worker/drive.h"

#define SPIN_WAIT    1000 /* tries to get the token before sleeping */
#define AWAKE_NS     (10u * TEI_NS_PER_US) /* while a waiter drives, at most */
#define AWAKE_AGAIN  32u
#define ROUNDS_MAX   4 /* of who submits, for others that submit */
#define TAIL_MOST    (2u << 20)
#define HOT_GAP      (200 * TEI_NS_PER_US)
#define HOT_IN_A_ROW 8u

/* Sleep as the driver until something happens or @until. False: not at all. */
static bool sleep_driving(struct tei_worker *w, uint64_t until)
{
	struct tei_clock *clock = tei_clock_simulated();
	uint64_t due = tei_worker_due(w);

	if (tei_drive_must_go_on(w))
		return false;
	if (due < until)
		until = due;
	tei_drive_doze(w);
	atomic_exchange(&w->idle, 1);
	if (!tei_mpsc_empty(&w->queue))
		; /* not yet */
	else if (clock)
		clock->idle(clock, until);
	else
		tei_drive_look(w, tei_drive_ms_until(until, w->now));
	atomic_exchange(&w->idle, 0);
	w->now = tei_now_ns();
	return true;
}

/*
 * How long to stay awake while another waiter drives. Where copies are what it
 * does it is soon done; where it waits for a peer, staying awake is in the way. So
 * it is worth what it was worth of late, and tried again now and then.
 */
static uint64_t awake_ns(struct tei_worker *w)
{
	/* Relaxed, as in learn_awake(): hints. */
	uint32_t n = atomic_fetch_add_explicit(&w->n_second, 1,
					       memory_order_relaxed);

	return n % AWAKE_AGAIN ? atomic_load_explicit(&w->awake_ns,
						      memory_order_relaxed)
			       : AWAKE_NS;
}

static void learn_awake(struct tei_worker *w, uint64_t ns, bool worth_it)
{
	atomic_store_explicit(&w->awake_ns,
			      worth_it ? AWAKE_NS : (uint32_t)ns / 2,
			      memory_order_relaxed);
}

/*
 * Another waiter drives, until its own batch is done, and does ours as well.
 * True: the token is ours. False: ours is done, or it is better to sleep.
 */
static bool take_second(struct tei_worker *w, bool (*done)(void *), void *arg)
{
	uint64_t ns = awake_ns(w), from = tei_now_ns();
	bool mine = false, is_done = false;
	int i;

	for (i = 0; i < SPIN_WAIT && !mine && !is_done; i++) {
		if (tei_now_ns() - from >= ns)
			break;
		tei_relax();
		mine = tei_drive_take(w, TEI_WAITER);
		is_done = !mine && done(arg);
	}
	learn_awake(w, ns, mine || is_done);
	return mine;
}

/* Ask whoever drives to let go. */
static bool take_patiently(struct tei_worker *w, bool (*done)(void *),
			   void *arg)
{
	bool mine = tei_drive_take(w, TEI_WAITER);
	int i;

	if (mine)
		return true;
	atomic_fetch_add(&w->wanted, 1);
	for (i = 0; i < SPIN_WAIT && !mine && !done(arg); i++) {
		if (atomic_load_explicit(&w->token, memory_order_relaxed) ==
		    TEI_WAITER) {
			mine = take_second(w, done, arg);
			break;
		}
		tei_relax();
		mine = tei_drive_take(w, TEI_WAITER);
	}
	atomic_fetch_sub(&w->wanted, 1);
	return mine;
}

/*
 * When waits follow each other closely, ask the thread to nap: then letting go
 * needs no system call, no fd to arm and nobody to tell what is left.
 */
static void ask_for_naps(struct tei_worker *w)
{
	if (atomic_load(&w->napping) || !tei_worker_has_thread(w))
		return;
	w->n_hot = w->now - w->let_go_at < HOT_GAP ? w->n_hot + 1 : 0;
	if (w->n_hot < HOT_IN_A_ROW)
		return;
	w->n_hot = 0;
	atomic_store(&w->nap_asked, true);
	tei_drive_ring(w->kick);
}

/*
 * What is owed soon is waited for awake: at a few GB/s the last megabytes take
 * a fraction of a millisecond, and so does waking up a peer that has been idle;
 * our own waking up would come on top. Ahead of the last megabytes the kernel's
 * buffers bridge our sleep.
 */
static struct tei_spin *spin_of(struct tei_worker *w)
{
	uint64_t owed = 0;

	for (uint32_t i = 0; i < w->n_rails; i++)
		owed += w->rails[i]->posted_bytes;
	return owed <= TAIL_MOST ? &w->spin_tail : &w->spin_waiting;
}

bool tei_worker_drive(struct tei_worker *w, bool (*done)(void *), void *arg,
		      uint64_t deadline)
{
	uint64_t idle_since = 0; /* 0: it is not */
	struct tei_spin *spin;

	if (!take_patiently(w, done, arg))
		return false;
	tei_drive_watch(w, false);
	w->now = tei_now_ns();
	ask_for_naps(w);
	while (!done(arg)) {
		bool any = tei_drive_round(w, TEI_WITH_ALL);

		if (w->now >= deadline)
			break;
		if (any) {
			idle_since = 0;
			continue;
		}
		if (!idle_since) /* rounds with work may have taken long */
			idle_since = w->now;
		spin = spin_of(w);
		if (w->now - idle_since < spin->now &&
		    tei_spin_once(w, w->now - idle_since))
			continue;
		if (sleep_driving(w, deadline))
			tei_spin_learn(spin, w->now - idle_since);
		idle_since = 0;
	}
	w->let_go_at = tei_now_ns();
	tei_drive_let_go(w, false);
	return true;
}

bool tei_worker_poke(struct tei_worker *w)
{
	bool any;

	if (!tei_drive_take(w, TEI_SOON))
		return false;
	any = tei_drive_round(w, TEI_WITH_ALL);
	ask_for_naps(w);
	w->let_go_at = w->now;
	tei_drive_let_go(w, true);
	return any;
}

int tei_worker_turn(struct tei_worker *w, uint64_t deadline)
{
	bool any = false;

	if (!tei_drive_take(w, TEI_WAITER))
		return -EBUSY;
	tei_drive_watch(w, false);
	for (;;) {
		any = tei_drive_round(w, TEI_WITH_ALL);
		if (any || w->now >= deadline)
			break;
		sleep_driving(w, deadline);
	}
	tei_drive_let_go(w, false);
	return any;
}

bool tei_worker_await(struct tei_worker *w, struct tei_cond *cond,
		      struct tei_mutex *mu, uint64_t deadline)
{
	uint64_t until;
	int rc;

	if (tei_worker_has_thread(w) || tei_clock_simulated())
		return tei_cond_wait(cond, mu, deadline);
	tei_mutex_unlock(mu);
	until = tei_now_ns() + TEI_NS_PER_MS;
	if (until > deadline)
		until = deadline;
	rc = tei_worker_turn(w, until);
	tei_mutex_lock(mu);
	if (rc == -EBUSY) /* who drives now may leave at any time */
		tei_cond_wait(cond, mu, until);
	return tei_now_ns() < deadline;
}

/* ---- queue ---- */

/* `idle` was 1: the driver sleeps, or there is none. */
static void wake(struct tei_worker *w)
{
	if (atomic_load(&w->armed) || atomic_load(&w->token))
		tei_drive_ring(w->wake);
	else
		tei_drive_ring(w->kick);
}

void tei_worker_post(struct tei_worker *w, struct tei_call *call)
{
	tei_mpsc_push(&w->queue, &call->node);
	if (atomic_exchange(&w->idle, 0))
		wake(w);
}

void tei_worker_submit(struct tei_worker *w, struct tei_call *call,
		       bool patient)
{
	enum tei_drive_with with =
		patient ? TEI_WITH_NEXT_TO_NOTHING : TEI_WITH_A_LITTLE;
	uint64_t from;
	int i = 0;

	tei_mpsc_push(&w->queue, &call->node);
	if (tei_drive_take(w, TEI_SOON)) {
		from = tei_now_ns();
		do {
			tei_drive_round(w, with);
		} while (!tei_mpsc_empty(&w->queue) && ++i < ROUNDS_MAX);
		if (patient) /* sending is no gap between waits */
			w->let_go_at += tei_now_ns() - from;
		tei_drive_let_go(w, patient);
		return;
	}
	if (atomic_exchange(&w->idle, 0))
		wake(w);
}

int tei_due_set(struct tei_worker *w, struct tei_due *due, uint64_t at)
{
	tei_heap_remove(&w->dues, &due->node);
	return tei_heap_add(&w->dues, &due->node, at);
}

void tei_due_clear(struct tei_worker *w, struct tei_due *due)
{
	tei_heap_remove(&w->dues, &due->node);
}
