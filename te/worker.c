/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.c - the drive token, rounds and sleeping
 *
 * No wake-up is lost because both sides exchange `idle`: a driver that goes
 * to sleep or lets go writes 1 and then looks at the queue; who pushes writes
 * 0 after pushing. Whichever exchange comes second sees the other's work.
 */
#include "te/worker.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "te/batch.h"
#include "te/engine.h"
#include "te/peer.h"

#define BUDGET    256
#define QUANTUM   (1u << 20) /* bytes that a peer posts before the next one */
#define SPIN_WAIT 2000       /* tries to get the token before sleeping */
#define NEVER     UINT64_MAX

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

static bool has_thread(const struct tei_worker *w)
{
	return w->engine->config.worker_thread;
}

/* ---- token ---- */

static bool take(struct tei_worker *w)
{
	if (atomic_load_explicit(&w->token, memory_order_relaxed))
		return false;
	if (atomic_exchange_explicit(&w->token, 1, memory_order_acquire))
		return false;
	atomic_exchange(&w->idle, 0);
	return true;
}

static void ring(int fd)
{
	uint64_t one = 1;
	ssize_t n = write(fd, &one, sizeof(one));

	(void)n; /* EAGAIN: it is readable already */
}

static void unring(int fd)
{
	uint64_t count;
	ssize_t n = read(fd, &count, sizeof(count));

	(void)n;
}

static void watch_inner(struct tei_worker *w, bool on)
{
	struct epoll_event event = {.events = on ? EPOLLIN : 0};

	if (w->armed == on)
		return;
	event.data.fd = w->inner;
	if (epoll_ctl(w->outer, EPOLL_CTL_MOD, w->inner, &event))
		LOG_ERROR("worker: epoll_ctl: %s", strerror(errno));
	w->armed = on;
}

uint64_t tei_worker_due(const struct tei_worker *w)
{
	const struct tei_heap_node *top = tei_heap_top(&w->dues);

	return top ? top->at : NEVER;
}

/* Work at a rail that nothing would wake a sleeper for. */
static bool must_poll(const struct tei_worker *w)
{
	uint32_t i;

	for (i = 0; i < w->n_rails; i++) {
		const struct tei_rail_box *box = w->rails[i];

		if (box->rail.busy || (box->fd < 0 && box->n_posted))
			return true;
	}
	return false;
}

/*
 * Let go. The worker's thread must be woken for what it does not know of: a
 * deadline before the one it sleeps towards, or work that no fd announces.
 */
static void let_go(struct tei_worker *w)
{
	uint64_t due = tei_worker_due(w);
	/* What the last round has brought to be posted counts as well. */
	bool more = must_poll(w) || !tei_list_empty(&w->runnable) ||
		    !tei_list_empty(&w->dirty);

	watch_inner(w, true);
	atomic_exchange(&w->idle, 1);
	atomic_store(&w->token, 0);
	if (!tei_mpsc_empty(&w->queue) && atomic_exchange(&w->idle, 0))
		ring(w->wake);
	if (has_thread(w) && (atomic_exchange(&w->missed, 0) || more ||
			      due < atomic_load(&w->sleep_until)))
		ring(w->kick);
}

/* ---- one round ---- */

static bool run_queue(struct tei_worker *w)
{
	struct tei_mpsc_node *node = tei_mpsc_take_all(&w->queue), *next;
	bool any = node != NULL;

	for (; node; node = next) {
		struct tei_call *call =
			TEI_CONTAINER(node, struct tei_call, node);

		next = node->next;
		call->fn(call);
	}
	return any;
}

static bool run_dues(struct tei_worker *w)
{
	struct tei_heap_node *top;
	bool any = false;

	while ((top = tei_heap_top(&w->dues)) && top->at <= w->now) {
		struct tei_due *due = TEI_CONTAINER(top, struct tei_due, node);

		tei_heap_remove(&w->dues, top);
		due->fn(due);
		any = true;
	}
	return any;
}

/* In turns, so that a peer with much to post does not hold up the others. */
static bool pump_peers(struct tei_worker *w)
{
	struct tei_list now, *node;
	bool more;

	if (tei_list_empty(&w->runnable))
		return false;
	tei_list_init(&now);
	tei_list_splice_tail(&now, &w->runnable);
	while ((node = tei_list_pop(&now))) {
		struct tei_peer *peer =
			tei_list_entry(node, struct tei_peer, w.run);

		peer->w.runnable = false;
		more = tei_peer_pump(peer, tei_list_empty(&now) ? UINT64_MAX
								: QUANTUM);
		if (more && !peer->w.runnable) {
			peer->w.runnable = true;
			tei_list_add_tail(&now, &peer->w.run);
		}
	}
	return true;
}

/* A device that is gone takes its links with it, not the engine. */
static void rail_died(struct tei_worker *w, struct tei_rail_box *box, int err)
{
	LOG_ERROR("rail %s: %s", box->name, strerror(-err));
	box->dead = true;
	box->rail.busy = false;
	if (box->fd >= 0) /* it may stay readable for ever */
		epoll_ctl(w->inner, EPOLL_CTL_DEL, box->fd, NULL);
	tei_list_for_each (node, &box->links) {
		tei_link_break(tei_list_entry(node, struct tei_link, of_rail),
			       err);
	}
}

static void links_have_room(struct tei_rail_box *box)
{
	tei_list_for_each (node, &box->links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, of_rail);

		if (link->ep.target || !link->out.full)
			continue;
		link->out.full = false;
		tei_peer_run(link->out.peer);
	}
}

static bool progress_rails(struct tei_worker *w, bool with_polled)
{
	bool any = false;
	uint32_t i;

	for (i = 0; i < w->n_rails; i++) {
		struct tei_rail_box *box = w->rails[i];
		int n;

		if (box->dead ||
		    ((box->fd < 0 || box->rail.busy) && !with_polled))
			continue;
		n = box->rail.ops->progress(&box->rail, BUDGET);
		if (n < 0)
			rail_died(w, box, n);
		else if (n > 0)
			links_have_room(box);
		any |= n != 0;
	}
	return any;
}

/*
 * @by_waiter: of one who expects to work for others; copies that progress()
 * makes and callbacks are not for a thread that only submits.
 */
static bool round_once(struct tei_worker *w, bool by_waiter)
{
	bool any;

	w->now = tei_now_ns();
	any = run_queue(w);
	any |= run_dues(w);
	any |= pump_peers(w);
	any |= progress_rails(w, by_waiter);
	any |= tei_links_close_broken(w);
	tei_batch_publish_dirty(w, by_waiter);
	return any;
}

/* ---- sleeping ---- */

static int ms_until(uint64_t at, uint64_t now)
{
	uint64_t ms;

	if (at == NEVER)
		return -1;
	if (at <= now)
		return 0;
	ms = (at - now + TEI_NS_PER_MS - 1) / TEI_NS_PER_MS;
	return ms > 60000 ? 60000 : (int)ms;
}

/* Empty the wake eventfd if it has been rung. */
static void look_inner(struct tei_worker *w, int ms)
{
	struct epoll_event events[8];
	int i, n = epoll_wait(w->inner, events, 8, ms);

	for (i = 0; i < n; i++) {
		if (events[i].data.fd == w->wake)
			unring(w->wake);
	}
}

/* Sleep as the driver, token held, until something happens or @until. */
static void sleep_driving(struct tei_worker *w, uint64_t until)
{
	struct tei_clock *clock = tei_clock_simulated();
	uint64_t due = tei_worker_due(w);

	if (must_poll(w) || !tei_list_empty(&w->runnable))
		return;
	if (due < until)
		until = due;
	atomic_exchange(&w->idle, 1);
	if (!tei_mpsc_empty(&w->queue))
		; /* not yet */
	else if (clock)
		clock->idle(clock, until);
	else
		look_inner(w, ms_until(until, w->now));
	atomic_exchange(&w->idle, 0);
}

/* A clock that stands still while somebody is awake knows no spinning. */
static uint64_t spin_ns(const struct tei_worker *w)
{
	if (tei_clock_simulated())
		return 0;
	return w->engine->config.spin_us * TEI_NS_PER_US;
}

/* Ask whoever drives to let go; give up soon, or when it is done. */
static bool take_patiently(struct tei_worker *w, bool (*done)(void *),
			   void *arg)
{
	bool mine = take(w);
	int i;

	if (mine)
		return true;
	atomic_fetch_add(&w->wanted, 1);
	for (i = 0; i < SPIN_WAIT && !mine && !done(arg); i++) {
		relax();
		mine = take(w);
	}
	atomic_fetch_sub(&w->wanted, 1);
	return mine;
}

bool tei_worker_drive(struct tei_worker *w, bool (*done)(void *), void *arg,
		      uint64_t deadline)
{
	uint64_t spin = spin_ns(w), awake;

	if (!take_patiently(w, done, arg))
		return false;
	watch_inner(w, false);
	w->now = tei_now_ns();
	awake = w->now + spin;
	while (!done(arg)) {
		if (round_once(w, true))
			awake = w->now + spin;
		else if (w->now >= deadline)
			break;
		else if (w->now < awake)
			relax();
		else
			sleep_driving(w, deadline);
	}
	let_go(w);
	return true;
}

bool tei_worker_poke(struct tei_worker *w)
{
	bool any;

	if (!take(w))
		return false;
	any = round_once(w, true);
	let_go(w);
	return any;
}

int tei_worker_turn(struct tei_worker *w, uint64_t deadline)
{
	bool any = false;

	if (!take(w))
		return -EBUSY;
	watch_inner(w, false);
	for (;;) {
		any = round_once(w, true);
		if (any || w->now >= deadline)
			break;
		sleep_driving(w, deadline);
	}
	let_go(w);
	return any;
}

bool tei_worker_await(struct tei_worker *w, struct tei_cond *cond,
		      struct tei_mutex *mu, uint64_t deadline)
{
	uint64_t until;

	if (has_thread(w) || tei_clock_simulated())
		return tei_cond_wait(cond, mu, deadline);
	tei_mutex_unlock(mu);
	until = tei_now_ns() + TEI_NS_PER_MS;
	tei_worker_turn(w, until < deadline ? until : deadline);
	tei_mutex_lock(mu);
	return tei_now_ns() < deadline;
}

/* ---- queue ---- */

void tei_worker_post(struct tei_worker *w, struct tei_call *call)
{
	tei_mpsc_push(&w->queue, &call->node);
	if (atomic_exchange(&w->idle, 0))
		ring(w->wake);
}

/*
 * Copies that only progress() makes (rails that are busy or without an fd) are
 * left to the worker or to who waits: submitting must not take as long as
 * moving.
 */
void tei_worker_submit(struct tei_worker *w, struct tei_call *call)
{
	tei_mpsc_push(&w->queue, &call->node);
	if (take(w)) {
		round_once(w, false);
		let_go(w);
		return;
	}
	if (atomic_exchange(&w->idle, 0))
		ring(w->wake);
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

/* ---- the thread ---- */

/* Drive until there was nothing to do for a while, or a waiter asks. */
static void drive_while_busy(struct tei_worker *w)
{
	uint64_t spin = spin_ns(w);
	uint64_t awake = tei_now_ns() + spin;

	look_inner(w, 0);
	do {
		if (round_once(w, true))
			awake = w->now + spin;
		else
			relax();
	} while ((w->now < awake || must_poll(w) ||
		  !tei_list_empty(&w->runnable)) &&
		 !atomic_load_explicit(&w->wanted, memory_order_relaxed) &&
		 !atomic_load_explicit(&w->stop, memory_order_relaxed));
}

static void sleep_idle(struct tei_worker *w, uint64_t until)
{
	struct epoll_event events[2];
	int i, n = epoll_wait(w->outer, events, 2,
			      ms_until(until, tei_now_ns()));

	for (i = 0; i < n; i++) {
		if (events[i].data.fd == w->kick)
			unring(w->kick);
	}
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
	unring(w->kick);
}

static void *run(void *arg)
{
	struct tei_worker *w = arg;
	uint64_t until;

	while (!atomic_load(&w->stop)) {
		atomic_store(&w->sleep_until, NEVER);
		if (!take(w)) {
			sleep_missed(w);
			continue;
		}
		drive_while_busy(w);
		until = tei_worker_due(w);
		atomic_store(&w->sleep_until, until);
		let_go(w);
		sleep_idle(w, until);
	}
	return NULL;
}

int tei_worker_start(struct tei_worker *w)
{
	int rc;

	if (!has_thread(w))
		return 0;
	rc = tei_thread_start(&w->thread, "te-worker", run, w);
	if (!rc)
		w->started = true;
	return rc;
}

void tei_worker_stop(struct tei_worker *w)
{
	if (!w->started)
		return;
	atomic_store(&w->stop, true);
	ring(w->kick);
	pthread_join(w->thread, NULL);
	w->started = false;
}
