/* SPDX-License-Identifier: Apache-2.0 */
/* drive.c - the drive token and one round of driving */
#include "te/worker/drive.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "te/common/engine.h"

#define BUDGET     256
#define LITTLE     (16u << 10) /* bytes to copy inside a submit */
#define SPIN_ALONE (10 * TEI_NS_PER_US)

#define YIELD_EVERY TEI_NS_PER_MS

bool tei_worker_has_thread(const struct tei_worker *w)
{
	return w->engine->config.worker_thread;
}

/* ---- fds ---- */

void tei_drive_ring(int fd)
{
	uint64_t one = 1;
	ssize_t n = write(fd, &one, sizeof(one));

	(void)n; /* EAGAIN: it is readable already */
}

void tei_drive_unring(int fd)
{
	uint64_t count;
	ssize_t n = read(fd, &count, sizeof(count));

	(void)n;
}

void tei_drive_doze(struct tei_worker *w)
{
	uint32_t i;

	for (i = 0; i < w->n_rails; i++) {
		struct tei_rail_box *box = w->rails[i];

		if (!box->dead && box->rail.ops->doze)
			box->rail.ops->doze(&box->rail);
	}
}

void tei_drive_watch(struct tei_worker *w, bool on)
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

int tei_drive_ms_until(uint64_t at, uint64_t now)
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
	uint32_t i;

	for (i = 0; i < w->n_rails; i++) {
		if (w->rails[i]->fd == fd)
			w->rails[i]->rail.woken = true;
	}
}

void tei_drive_look(struct tei_worker *w, int ms)
{
	struct epoll_event events[8];
	int i, n = epoll_wait(w->inner, events, 8, ms);

	for (i = 0; i < n; i++) {
		if (events[i].data.fd == w->wake)
			tei_drive_unring(w->wake);
		else
			wake_rail(w, events[i].data.fd);
	}
}

/*
 * A yield costs little where nobody else is there. So there is one soon after
 * idleness, then one a millisecond, and all the time once what we wait for is
 * late. One that has taken long is soon followed by another: two tell.
 */
bool tei_spin_once(struct tei_worker *w, uint64_t since)
{
	uint64_t now = w->now;

	if (tei_crowd_is_there(&w->crowd, now))
		return false;
	if (since <= SPIN_ALONE && now < w->yield_at) {
		tei_relax();
		return true;
	}
	now = tei_now_ns();
	(void)tei_crowd_yield(&w->crowd, &now);
	if (!w->crowd.n_long)
		w->yield_at = now + YIELD_EVERY;
	return true;
}

/* ---- token ---- */

bool tei_drive_take(struct tei_worker *w, uint32_t holder)
{
	uint32_t nobody = TEI_FREE;

	if (atomic_load_explicit(&w->token, memory_order_relaxed))
		return false;
	if (!atomic_compare_exchange_strong(&w->token, &nobody, holder))
		return false;
	atomic_exchange(&w->idle, 0);
	return true;
}

uint64_t tei_worker_due(const struct tei_worker *w)
{
	const struct tei_heap_node *top = tei_heap_top(&w->dues);

	return top ? top->at : TEI_NEVER;
}

/* Nothing would wake a sleeper for what this rail has to do. */
static bool is_polled(const struct tei_rail_box *box)
{
	return box->rail.busy || (box->fd < 0 && box->n_posted);
}

bool tei_drive_must_go_on(const struct tei_worker *w)
{
	uint32_t i;

	if (!tei_list_empty(&w->runnable))
		return true;
	for (i = 0; i < w->n_rails; i++) {
		if (is_polled(w->rails[i]))
			return true;
	}
	return false;
}

/* What there is to do when a driver lets go. */
struct left {
	bool any;     /* at backends, that some fd may announce */
	bool polled;  /* that none will, or to be posted yet */
	uint64_t due; /* ns: and then */
};

static struct left look_what_is_left(const struct tei_worker *w)
{
	struct left left = {.polled = !tei_list_empty(&w->runnable) ||
				      !tei_list_empty(&w->dirty),
			    .due = tei_worker_due(w)};
	uint32_t i;

	for (i = 0; i < w->n_rails; i++) {
		left.any |= w->rails[i]->n_posted != 0;
		left.polled |= is_polled(w->rails[i]);
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

void tei_drive_let_go(struct tei_worker *w, bool patient)
{
	struct left left = look_what_is_left(w);
	bool sleepers = atomic_load(&w->n_sleepers) != 0;
	bool naps = atomic_load(&w->napping);
	bool kick = false;

	/* A peer that wants something of us shall not wait for a nap's end. */
	if (!sleepers && (!naps || w->n_guests || (left.any && !patient))) {
		tei_drive_doze(w);
		tei_drive_watch(w, true);
	}
	atomic_store(&w->token, TEI_FREE);
	atomic_exchange(&w->idle, 1);
	if (!tei_mpsc_empty(&w->queue)) {
		atomic_exchange(&w->idle, 0);
		kick = true;
	}
	/* Who has gone to sleep meanwhile has seen the token taken. */
	sleepers |= atomic_load(&w->n_sleepers) != 0;
	if (falls_to_thread(w, &left, sleepers, patient && naps))
		kick = true;
	if (atomic_load(&w->missed) && atomic_exchange(&w->missed, 0))
		kick = true;
	if (kick && tei_worker_has_thread(w))
		tei_drive_ring(w->kick);
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

/* A device that is gone takes its links with it, not the engine. */
static void rail_died(struct tei_worker *w, struct tei_rail_box *box, int err)
{
	LOG_ERROR("rail %s: %s", box->name, strerror(-err));
	box->dead = true;
	tei_rail_show(box);
	box->rail.busy = false;
	w->ops->rail_died(box, err);
}

/* Of a device that is gone: it may stay readable for ever. */
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

	for (i = 0; i < w->n_rails; i++) {
		if (is_polled(w->rails[i]))
			bytes += w->rails[i]->posted_bytes;
	}
	return bytes <= LITTLE;
}

static bool may_progress(const struct tei_worker *w,
			 const struct tei_rail_box *box,
			 enum tei_drive_with with)
{
	if (box->dead)
		return !tei_list_empty(&box->links); /* they are flushed */
	if (!is_polled(box))
		return with != TEI_WITH_NEXT_TO_NOTHING;
	return with == TEI_WITH_ALL || is_little(w);
}

static bool progress_rails(struct tei_worker *w, enum tei_drive_with with)
{
	bool any = false;
	uint32_t i;

	for (i = 0; i < w->n_rails; i++) {
		struct tei_rail_box *box = w->rails[i];
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

	while (i < w->n_rails && tei_list_empty(&w->rails[i]->links))
		i++;
	return i < w->n_rails;
}

void tei_drive_until_closed(struct tei_worker *w)
{
	for (uint32_t i = 0; i < w->n_rails; i++)
		w->rails[i]->rail.closing = true;
	while (has_links(w)) {
		bool any;

		w->now = tei_now_ns();
		any = progress_rails(w, TEI_WITH_ALL);
		any |= w->ops->close_broken(w);
		if (!any) {
			tei_drive_doze(w);
			tei_drive_look(w, -1);
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
	any |= w->ops->close_broken(w);
	/* Also what an earlier round has left: a waiter looks before it sleeps. */
	any |= w->ops->publish(w, with == TEI_WITH_ALL);
	return any;
}
