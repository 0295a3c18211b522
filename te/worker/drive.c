/* SPDX-License-Identifier: Apache-2.0 */
/* drive.c - the drive token and one round of driving */
#include "te/worker/worker.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/log.h"
#include "te/core/engine.h"
#include "te/worker/drive.h"

#define BUDGET     256
#define LITTLE     (16u << 10) /* bytes to copy inside a submit */
#define SPIN_ALONE (10 * TEI_NS_PER_US)

#define YIELD_EVERY TEI_NS_PER_MS
/* No fd tells when copies of GPUs end: whoever sleeps looks again so soon. */
#define COPY_LOOK (20 * TEI_NS_PER_US)

/* ---- fds ---- */

/* Arms the rails, before a thread sleeps on the inner fd. Token. */
static void arm_rails(struct tei_worker *w)
{
	for (uint32_t i = 0; i < w->n_own; i++) {
		struct tei_rail_box *box = w->own[i];

		if (!box->dead && box->rail.ops->arm)
			box->rail.ops->arm(&box->rail);
	}
}

/* Sets whether the inner fd wakes the thread. Token. */
static void watch_inner_fd(struct tei_worker *w, bool on)
{
	struct epoll_event event = {.events = on ? EPOLLIN : 0};

	if (!tei_worker_has_thread(w) ||
	    atomic_load_explicit(&w->armed, memory_order_relaxed) == on)
		return;
	event.data.fd = w->inner;
	if (epoll_ctl(w->outer, EPOLL_CTL_MOD, w->inner, &event))
		LOG_ERROR("worker: epoll_ctl: %s", strerror(errno));
	atomic_store(&w->armed, on);
}

int tei_ms_until(uint64_t at, uint64_t now)
{
	uint64_t ms;

	if (at == TEI_NEVER)
		return -1;
	if (at <= now)
		return 0;
	ms = (at - now + TEI_NS_PER_MS - 1) / TEI_NS_PER_MS;
	return ms > 60000 ? 60000 : (int)ms;
}

static void wake_rail(struct tei_worker *w, int fd)
{
	for (uint32_t i = 0; i < w->n_own; i++) {
		if (w->own[i]->fd == fd)
			w->own[i]->rail.woken = true;
	}
}

/* Waits for an fd of the inner one for @ns, which epoll_wait() rounds up. */
static void await_inner_fd(struct tei_worker *w, uint64_t ns)
{
	struct timespec time = {.tv_nsec = (long)ns};
	struct pollfd fd = {.fd = w->inner, .events = POLLIN};

	(void)ppoll(&fd, 1, &time, NULL);
}

void tei_drive_await_fds(struct tei_worker *w, uint64_t until)
{
	struct epoll_event events[8];
	int i, n, ms = tei_ms_until(until, w->now);

	if (until > w->now && until - w->now < TEI_NS_PER_MS) {
		await_inner_fd(w, until - w->now);
		ms = 0;
	}
	n = epoll_wait(w->inner, events, 8, ms);
	for (i = 0; i < n; i++) {
		if (events[i].data.fd == w->wake)
			tei_event_clear(w->wake);
		else
			wake_rail(w, events[i].data.fd);
	}
}

/*
 * A yield costs little where nobody else is there. So there is one soon after
 * idleness, then one a millisecond, and all the time once what we wait for is
 * late. One that has taken long is soon followed by another: two tell.
 */
bool tei_drive_spin_once(struct tei_worker *w, uint64_t since)
{
	uint64_t now = w->now;

	if (tei_contention_lasts(&w->contention, now))
		return false;
	if (since <= SPIN_ALONE && now < w->yield_at) {
		tei_relax();
		return true;
	}
	now = tei_now_ns();
	(void)tei_contention_yield(&w->contention, &now);
	if (!w->contention.n_long)
		w->yield_at = now + YIELD_EVERY;
	return true;
}

/* ---- token ---- */

bool tei_token_take(struct tei_worker *w, uint32_t holder)
{
	uint32_t nobody = TEI_FREE;

	if (atomic_load_explicit(&w->token, memory_order_relaxed))
		return false;
	if (!atomic_compare_exchange_strong(&w->token, &nobody, holder))
		return false;
	atomic_exchange(&w->idle, 0);
	return true;
}

/* Returns when the first timer of a rail is over. */
static uint64_t first_timer(const struct tei_worker *w)
{
	uint64_t first = TEI_NEVER;

	for (uint32_t i = 0; i < w->n_own; i++) {
		uint64_t at = w->own[i]->rail.timer_ns;

		if (at && at < first)
			first = at;
	}
	return first;
}

uint64_t tei_worker_due(const struct tei_worker *w)
{
	const struct tei_heap_node *top = tei_heap_top(&w->dues);
	uint64_t timer = first_timer(w);

	return top && top->at < timer ? top->at : timer;
}

/* Tells whether nothing would wake a sleeper for what this rail has to do. */
static bool is_polled(const struct tei_rail_box *box)
{
	return box->rail.busy || (box->fd < 0 && box->n_posted);
}

bool tei_drive_must_go_on(const struct tei_worker *w)
{
	uint32_t i;

	if (!tei_list_empty(&w->runnable))
		return true;
	/* The driver's copies take real time. */
	if (w->n_copying && tei_clock_simulated())
		return true;
	for (i = 0; i < w->n_own; i++) {
		if (is_polled(w->own[i]))
			return true;
	}
	return false;
}

/* Work that is left when a driver releases the token. */
struct left {
	bool any;     /* at backends, that some fd may announce */
	bool polled;  /* that none will, or to be posted yet */
	uint64_t due; /* ns: and then */
};

static struct left look_what_is_left(const struct tei_worker *w)
{
	struct left left = {.polled = !tei_list_empty(&w->runnable) ||
				      !tei_list_empty(&w->dirty) ||
				      w->n_copying,
			    .due = tei_worker_due(w)};
	uint32_t i;

	for (i = 0; i < w->n_own; i++) {
		left.any |= w->own[i]->n_posted != 0;
		left.polled |= is_polled(w->own[i]);
	}
	return left;
}

/*
 * The thread must look, for nobody else will. A sleeper drives on by itself;
 * where there was one that is not asleep any more, no fd is watched.
 */
static bool falls_to_thread(struct tei_worker *w, const struct left *left,
			    bool sleepers, bool comes_back)
{
	if (sleepers)
		return !tei_sleeper_call_one(w);
	if (left->polled && !comes_back)
		return true;
	return left->due < atomic_load(&w->sleep_until);
}

void tei_token_release(struct tei_worker *w, bool patient)
{
	struct left left = look_what_is_left(w);
	bool sleepers = atomic_load(&w->n_sleepers) != 0;
	bool waits_idle = atomic_load(&w->idle_waiting);
	bool kick;

	/*
	 * A peer that wants something of us shall not wait for an idle wait's
	 * end.
	 */
	if (!sleepers &&
	    (!waits_idle || w->n_inbound || (left.any && !patient))) {
		arm_rails(w);
		watch_inner_fd(w, true);
	}
	atomic_store(&w->token, TEI_FREE);
	/*
	 * `idle` stays 1 even if the queue is not empty: whoever has taken the
	 * token since may be about to sleep, and who pushes wakes it only if it
	 * finds 1.
	 */
	atomic_exchange(&w->idle, 1);
	kick = !tei_mpsc_empty(&w->queue);
	/*
	 * A thread that has gone to sleep meanwhile has seen the token taken.
	 */
	sleepers |= atomic_load(&w->n_sleepers) != 0;
	if (falls_to_thread(w, &left, sleepers, patient && waits_idle))
		kick = true;
	if (atomic_load(&w->missed) && atomic_exchange(&w->missed, 0))
		kick = true;
	if (kick && tei_worker_has_thread(w))
		tei_event_signal(w->kick);
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

static bool end_timers(struct tei_worker *w)
{
	bool any = false;

	for (uint32_t i = 0; i < w->n_own; i++) {
		struct tei_rail *rail = &w->own[i]->rail;

		if (!rail->timer_ns || rail->timer_ns > w->now)
			continue;
		rail->timer_ns = 0;
		rail->timed_out = any = true;
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
	return end_timers(w) || any;
}

/* A device that is gone takes its links with it, not the engine. */
static void rail_died(struct tei_worker *w, struct tei_rail_box *box, int err)
{
	LOG_ERROR("rail %s: %s", box->name, strerror(-err));
	box->dead = true;
	tei_rail_show(box);
	box->rail.busy = false;
	w->ops->rail_died(box, err);
}

/* Removes the fd of a dead device, which may stay readable for ever. */
static void forget_fd(struct tei_worker *w, struct tei_rail_box *box)
{
	if (box->fd >= 0)
		epoll_ctl(w->inner, EPOLL_CTL_DEL, box->fd, NULL);
	box->fd = -1;
}

/* Copies that take no longer than waking somebody for them. */
static bool is_little(const struct tei_worker *w)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < w->n_own; i++) {
		if (is_polled(w->own[i]))
			bytes += w->own[i]->posted_bytes;
	}
	return bytes <= LITTLE;
}

static bool may_progress(const struct tei_worker *w,
			 const struct tei_rail_box *box,
			 enum tei_drive_with with)
{
	if (box->dead)
		return !tei_list_empty(&box->links); /* they are flushed */
	if (box->rail.timed_out)
		return true;
	if (!is_polled(box))
		return with != TEI_WITH_NEXT_TO_NOTHING;
	return with == TEI_WITH_ALL || is_little(w);
}

static bool progress_rails(struct tei_worker *w, enum tei_drive_with with)
{
	bool any = false;
	uint32_t i;

	for (i = 0; i < w->n_own; i++) {
		struct tei_rail_box *box = w->own[i];
		int n;

		if (box->dead && tei_list_empty(&box->links))
			forget_fd(w, box);
		if (!may_progress(w, box, with))
			continue;
		n = box->rail.ops->progress(&box->rail, BUDGET);
		if (n > 0)
			w->ops->rail_has_room(box);
		else if (n < 0 && !box->dead)
			rail_died(w, box, n);
		else
			continue;
		any = true;
	}
	return any;
}

static bool has_links(const struct tei_worker *w)
{
	uint32_t i = 0;

	while (i < w->n_own && tei_list_empty(&w->own[i]->links))
		i++;
	return i < w->n_own;
}

/* Returns when to look again, @until at the latest. */
static uint64_t first_look(const struct tei_worker *w, uint64_t until)
{
	return w->n_copying && w->now + COPY_LOOK < until ? w->now + COPY_LOOK
							  : until;
}

void tei_drive_until_closed(struct tei_worker *w)
{
	for (uint32_t i = 0; i < w->n_own; i++)
		w->own[i]->rail.closing = true;
	while (has_links(w) || w->n_copying) {
		bool any;

		w->now = tei_now_ns();
		any = end_timers(w);
		any |= progress_rails(w, TEI_WITH_ALL);
		if (w->n_copying)
			any |= w->ops->copies(w);
		any |= w->ops->close_broken(w);
		if (!any) {
			arm_rails(w);
			tei_drive_await_fds(w, first_look(w, first_timer(w)));
		}
	}
}

bool tei_drive_round(struct tei_worker *w, enum tei_drive_with with)
{
	bool any;

	w->now = tei_now_ns();
	atomic_store_explicit(
		&w->rounds,
		atomic_load_explicit(&w->rounds, memory_order_relaxed) + 1,
		memory_order_relaxed);
	any = run_queue(w);
	any |= run_dues(w);
	if (!tei_list_empty(&w->runnable)) {
		w->ops->pump(w);
		any = true;
	}
	any |= progress_rails(w, with);
	if (w->n_copying)
		any |= w->ops->copies(w);
	any |= w->ops->close_broken(w);
	/*
	 * Also what an earlier round has left: a waiter looks before it sleeps.
	 */
	any |= w->ops->publish(w, with == TEI_WITH_ALL);
	return any;
}

/* ---- driving by those who submit and those who wait ---- */

#define SPIN_WAIT    1000 /* tries to get the token before sleeping */
#define AWAKE_NS     (10u * TEI_NS_PER_US) /* while a waiter drives, at most */
#define AWAKE_AGAIN  32u
#define ROUNDS_MAX   4 /* of who submits, for others that submit */
#define TAIL_MOST    (2u << 20)
#define HOT_GAP      (200 * TEI_NS_PER_US)
#define HOT_IN_A_ROW 8u
/* Of the thread; and where others need the cores. */
#define IDLE_MS      1
#define IDLE_BUSY_MS 8

bool tei_drive_sleep(struct tei_worker *w, uint64_t until)
{
	struct tei_clock *clock = tei_clock_simulated();
	uint64_t due = tei_worker_due(w);

	if (tei_drive_must_go_on(w))
		return false;
	if (due < until)
		until = due;
	until = first_look(w, until);
	arm_rails(w);
	atomic_exchange(&w->idle, 1);
	if (!tei_mpsc_empty(&w->queue))
		; /* not yet */
	else if (clock)
		clock->idle(clock, until);
	else
		tei_drive_await_fds(w, until);
	atomic_exchange(&w->idle, 0);
	w->now = tei_now_ns();
	return true;
}

/*
 * Returns how long to stay awake while another waiter drives. Where copies are
 * what it does it is soon done; where it waits for a peer, staying awake is in
 * the way. So it is worth what it was worth of late, and tried again now and
 * then.
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
		mine = tei_token_take(w, TEI_WAITER);
		is_done = !mine && done(arg);
	}
	learn_awake(w, ns, mine || is_done);
	return mine;
}

/* Ask whoever drives to release the token. */
static bool take_patiently(struct tei_worker *w, bool (*done)(void *),
			   void *arg)
{
	bool mine = tei_token_take(w, TEI_WAITER);
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
		mine = tei_token_take(w, TEI_WAITER);
	}
	atomic_fetch_sub(&w->wanted, 1);
	return mine;
}

/*
 * Tells whether this wait follows the last one closely: by the clock; or, with
 * nothing in flight meanwhile, after less than a millisecond and than that one
 * took.
 */
static bool is_hot(const struct tei_worker *w)
{
	uint64_t gap = w->now - w->let_go_at;

	return gap < HOT_GAP ||
	       (gap < IDLE_MS * TEI_NS_PER_MS && gap < w->driven_ns &&
		w->now - w->submitted_at < HOT_GAP);
}

/*
 * Where others need the cores the thread's looks give them away: each time it
 * wakes the scheduler may take whoever is behind, and a waiter that takes turns
 * with a peer is soon ahead of its share. After a pause it looks soon again,
 * for what is in flight may be left to it.
 */
static void set_idle_wait(struct tei_worker *w)
{
	bool is_busy =
		is_hot(w) && tei_contention_lasts(&w->contention, w->now);
	uint32_t ms = is_busy ? IDLE_BUSY_MS : IDLE_MS;

	if (atomic_load_explicit(&w->idle_wait_ms, memory_order_relaxed) != ms)
		atomic_store_explicit(&w->idle_wait_ms, ms,
				      memory_order_relaxed);
}

/*
 * Asks the thread to wait idle when waits follow each other closely: then
 * releasing the token needs no system call, no fd to arm and nobody to tell
 * what is left.
 */
static void ask_for_idle_wait(struct tei_worker *w)
{
	set_idle_wait(w);
	if (atomic_load(&w->idle_waiting) || !tei_worker_has_thread(w))
		return;
	w->n_hot = is_hot(w) ? w->n_hot + 1 : 0;
	if (w->n_hot < HOT_IN_A_ROW)
		return;
	w->n_hot = 0;
	atomic_store(&w->idle_wait_asked, true);
	tei_event_signal(w->kick);
}

/*
 * Completions that are due soon are waited for awake: at a few GB/s the last
 * megabytes take a fraction of a millisecond, and so does the wake-up of an
 * idle peer; the own wake-up would come on top. Ahead of the last megabytes the
 * kernel's buffers bridge a sleep.
 */
static struct tei_spin *spin_of(struct tei_worker *w)
{
	uint64_t owed = 0;

	if (w->n_copying)
		return &w->spin_copying;
	for (uint32_t i = 0; i < w->n_own; i++)
		owed += w->own[i]->posted_bytes;
	return owed <= TAIL_MOST ? &w->spin_tail : &w->spin_waiting;
}

bool tei_worker_drive(struct tei_worker *w, bool (*done)(void *), void *arg,
		      uint64_t deadline)
{
	uint64_t begun, idle_since = 0; /* 0: it is not */
	struct tei_spin *spin;

	if (!take_patiently(w, done, arg))
		return false;
	watch_inner_fd(w, false);
	w->now = begun = tei_now_ns();
	ask_for_idle_wait(w);
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
		    tei_drive_spin_once(w, w->now - idle_since))
			continue;
		if (tei_drive_sleep(w, deadline))
			tei_spin_learn(spin, w->now - idle_since);
		if (!w->n_copying) /* after a look at them: not awake again */
			idle_since = 0;
	}
	w->let_go_at = tei_now_ns();
	w->driven_ns = w->let_go_at - begun;
	tei_token_release(w, false);
	return true;
}

bool tei_worker_poke(struct tei_worker *w)
{
	bool any;

	if (tei_must_not_drive(w->engine) || !tei_token_take(w, TEI_SOON))
		return false;
	any = tei_drive_round(w, TEI_WITH_ALL);
	ask_for_idle_wait(w);
	w->let_go_at = w->now;
	w->driven_ns = 0; /* a look is no wait: others come between looks */
	tei_token_release(w, true);
	return any;
}

int tei_worker_turn(struct tei_worker *w, uint64_t deadline)
{
	bool any = false;

	if (tei_must_not_drive(w->engine) || !tei_token_take(w, TEI_WAITER))
		return -EBUSY;
	watch_inner_fd(w, false);
	for (;;) {
		any = tei_drive_round(w, TEI_WITH_ALL);
		if (any || w->now >= deadline)
			break;
		tei_drive_sleep(w, deadline);
	}
	tei_token_release(w, false);
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
		tei_event_signal(w->wake);
	else
		tei_event_signal(w->kick);
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
	if (!tei_must_not_drive(w->engine) && tei_token_take(w, TEI_SOON)) {
		tei_drive_round(w, with);
		from = w->now; /* when that round began */
		while (!tei_mpsc_empty(&w->queue) && ++i < ROUNDS_MAX)
			tei_drive_round(w, with);
		w->submitted_at = tei_now_ns();
		if (patient) /* sending is no gap between waits */
			w->let_go_at += w->submitted_at - from;
		tei_token_release(w, patient);
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
