/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.c - a thread with a libevent base
 *
 * Only the loop's thread touches the base, so libevent runs without locks;
 * others push closures on a queue and write to an eventfd. Closing the queue
 * must neither lose a closure that post() has accepted nor run one later: a
 * poster announces itself in n_posting before it looks at `closed`, and the
 * loop sets `closed` before it drains until nobody is announced.
 *
 *   open --stop()--> stopping --thread drains--> closed --destroy()
 */
#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/thread.h"

struct tei_loop {
	struct event_base *base;
	struct event wake;
	int wake_fd;
	struct tei_mpsc calls;
	_Atomic unsigned int n_posting;
	_Atomic bool stopping, closed;
	_Atomic unsigned long owner; /* pthread_t; 0: no thread any more */
	bool has_thread;             /* to be joined by stop() */
	pthread_t thread;
	struct tei_list orphans;
};

static void run_calls(struct tei_loop *loop)
{
	struct tei_mpsc_node *node, *next;

	for (node = tei_mpsc_take_all(&loop->calls); node; node = next) {
		struct tei_call *call;

		call = TEI_CONTAINER(node, struct tei_call, node);
		next = node->next; /* fn may free or reuse the call */
		call->fn(call);
	}
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct tei_loop *loop = arg;
	uint64_t n;

	(void)what;
	if (read((int)fd, &n, sizeof(n)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
	run_calls(loop);
	if (atomic_load(&loop->stopping))
		event_base_loopbreak(loop->base);
}

static void wake(struct tei_loop *loop)
{
	uint64_t one = 1;

	/* Full (EAGAIN) means that a wake-up is pending anyway. */
	if (write(loop->wake_fd, &one, sizeof(one)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
}

static struct event_base *new_base(void)
{
	struct event_config *config;
	struct event_base *base;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return NULL;
	config = event_config_new();
	if (!config)
		return NULL;
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK |
					      EVENT_BASE_FLAG_IGNORE_ENV);
	base = event_base_new_with_config(config);
	event_config_free(config);
	return base;
}

static int open_wake(struct tei_loop *loop)
{
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->wake_fd < 0)
		return -errno;
	if (event_assign(&loop->wake, loop->base, loop->wake_fd,
			 EV_READ | EV_PERSIST, on_wake, loop) ||
	    event_add(&loop->wake, NULL)) {
		close(loop->wake_fd);
		return -ENOMEM;
	}
	return 0;
}

static unsigned long self(void)
{
	return (unsigned long)pthread_self();
}

int tei_loop_create_bare(struct tei_loop **out)
{
	struct tei_loop *loop;
	int rc;

	loop = tei_calloc(1, sizeof(*loop));
	if (!loop)
		return -ENOMEM;
	tei_mpsc_init(&loop->calls);
	tei_list_init(&loop->orphans);
	atomic_store(&loop->owner, self());
	errno = 0;
	loop->base = new_base();
	if (!loop->base) { /* libevent does not say; epoll_create() may */
		rc = errno == ENOMEM ? -ENOMEM : -EMFILE;
		goto free_loop;
	}
	rc = open_wake(loop);
	if (rc)
		goto free_base;
	*out = loop;
	return 0;

free_base:
	event_base_free(loop->base);
free_loop:
	tei_free(loop);
	assert(rc < 0);
	return rc;
}

/* No closure is accepted any more; those accepted are run. */
static void drain(struct tei_loop *loop)
{
	atomic_store(&loop->closed, true);
	while (atomic_load(&loop->n_posting)) {
		run_calls(loop);
		sched_yield();
	}
	run_calls(loop);
}

int tei_loop_run(struct tei_loop *loop)
{
	sigset_t pipe_only;
	int rc;

	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_only, NULL);
	atomic_store(&loop->owner, self());
	rc = 0;
	/* A stop() before run() has written to the eventfd, too. */
	if (event_base_loop(loop->base, EVLOOP_NO_EXIT_ON_EMPTY) < 0)
		rc = -EIO;
	drain(loop);
	return rc;
}

static void *thread_main(void *arg)
{
	struct tei_loop *loop = arg;

	tei_loop_run(loop);
	atomic_store(&loop->owner, 0);
	return NULL;
}

int tei_loop_create(const char *name, struct tei_loop **out)
{
	struct tei_loop *loop;
	int rc;

	rc = tei_loop_create_bare(&loop);
	if (rc)
		return rc;
	atomic_store(&loop->owner, 0); /* nobody's until the thread runs */
	rc = tei_thread_start(&loop->thread, name, thread_main, loop);
	if (rc) {
		tei_loop_destroy(loop);
		return rc;
	}
	loop->has_thread = true;
	*out = loop;
	return 0;
}

void tei_loop_stop(struct tei_loop *loop)
{
	atomic_store(&loop->stopping, true);
	wake(loop);
	if (!loop->has_thread)
		return;
	assert(!tei_loop_is_mine(loop));
	pthread_join(loop->thread, NULL);
	loop->has_thread = false;
}

void tei_loop_destroy(struct tei_loop *loop)
{
	struct tei_list *node;

	if (!loop)
		return;
	tei_loop_stop(loop);
	drain(loop); /* of a bare loop that never ran */
	while ((node = tei_list_pop(&loop->orphans))) {
		struct tei_loop_orphan *orphan;

		orphan = TEI_CONTAINER(node, struct tei_loop_orphan, link);
		orphan->fn(orphan);
	}
	event_del(&loop->wake);
	close(loop->wake_fd);
	event_base_free(loop->base);
	tei_free(loop);
}

bool tei_loop_post(struct tei_loop *loop, struct tei_call *call)
{
	bool taken;

	atomic_fetch_add(&loop->n_posting, 1);
	taken = !atomic_load(&loop->closed);
	if (taken && tei_mpsc_push(&loop->calls, &call->node))
		wake(loop);
	atomic_fetch_sub(&loop->n_posting, 1);
	return taken;
}

struct wait {
	struct tei_call call;
	void (*fn)(void *);
	void *arg;
	struct tei_mutex mu;
	struct tei_cond cond;
	bool done; /* guarded by mu */
};

static void run_wait(struct tei_call *call)
{
	struct wait *w = TEI_CONTAINER(call, struct wait, call);

	w->fn(w->arg);
	tei_mutex_lock(&w->mu);
	w->done = true;
	tei_cond_signal(&w->cond); /* under the lock: *w ends right after */
	tei_mutex_unlock(&w->mu);
}

bool tei_loop_do(struct tei_loop *loop, void (*fn)(void *), void *arg)
{
	struct wait w = {.call.fn = run_wait, .fn = fn, .arg = arg};
	bool taken;

	if (tei_loop_is_mine(loop)) {
		fn(arg);
		return true;
	}
	tei_mutex_init(&w.mu);
	tei_cond_init(&w.cond);
	taken = tei_loop_post(loop, &w.call);
	tei_mutex_lock(&w.mu);
	while (taken && !w.done)
		tei_cond_wait(&w.cond, &w.mu, UINT64_MAX);
	tei_mutex_unlock(&w.mu);
	tei_cond_fini(&w.cond);
	tei_mutex_fini(&w.mu);
	return taken;
}

bool tei_loop_is_mine(const struct tei_loop *loop)
{
	return atomic_load_explicit(&loop->owner, memory_order_relaxed) ==
	       self();
}

struct event_base *tei_loop_base(struct tei_loop *loop)
{
	return loop->base;
}

void tei_loop_adopt(struct tei_loop *loop, struct tei_loop_orphan *orphan)
{
	tei_list_add_tail(&loop->orphans, &orphan->link);
}

struct tei_timer {
	struct event event;
	void (*fn)(void *);
	void *arg;
};

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct tei_timer *timer = arg;

	(void)fd;
	(void)what;
	timer->fn(timer->arg); /* may stop and so free the timer */
}

struct tei_timer *tei_timer_start(struct tei_loop *loop, uint64_t ms,
				  bool repeat, void (*fn)(void *), void *arg)
{
	struct timeval tv = {.tv_sec = (time_t)(ms / 1000),
			     .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
	struct tei_timer *timer;

	timer = tei_calloc(1, sizeof(*timer));
	if (!timer)
		return NULL;
	timer->fn = fn;
	timer->arg = arg;
	if (event_assign(&timer->event, loop->base, -1, repeat ? EV_PERSIST : 0,
			 on_timer, timer) ||
	    event_add(&timer->event, &tv)) {
		tei_free(timer);
		return NULL;
	}
	return timer;
}

void tei_timer_stop(struct tei_timer *timer)
{
	if (!timer)
		return;
	event_del(&timer->event);
	tei_free(timer);
}
