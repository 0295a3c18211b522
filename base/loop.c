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
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/follow.h"
#include "base/mem.h"
#include "base/spin.h"
#include "base/thread.h"

struct tei_loop {
	struct event_base *base;
	struct event signalled;
	int event_fd;
	struct tei_mpsc calls;
	_Atomic unsigned int n_posting;
	_Atomic bool stopping, closed;
	_Atomic unsigned long owner; /* pthread_t; 0: no thread any more */
	bool has_thread;             /* to be joined by stop() */
	pthread_t thread;
	struct tei_list orphans;
	struct tei_spin spin;             /* max 0: sleeps at once */
	struct tei_contention contention; /* while it spins */
	struct tei_follow follow;
	/* A turn that began asleep, as others need the cores. */
	bool sleeps;
	int read_fd;      /* the first socket that was read in it; -1: none */
	uint64_t read_at; /* ns: then */
	/* Measured: whom to tell, and when the clocks were read. */
	void (*measured)(uint64_t cpu_ns, void *arg);
	void *measured_arg;
	uint64_t read_ns, read_cpu_ns;
	uint64_t turn_ns; /* when this turn began; 0: not known yet */
	uint64_t n_turns;
	bool in_turn;
	/* Under a simulated clock. */
	struct tei_list turned; /* in turned_loops */
	struct tei_list alarms; /* struct tei_alarm that are set */
	bool turning;           /* further down on the stack */
	uint64_t n_noted;       /* closures, frames and alarms so far */
};

#define BASE_FDS 4 /* of an event_base, and one more */

/* Loops of the only thread that there is under a simulated clock. */
static struct tei_list turned_loops = {&turned_loops, &turned_loops};

static void run_calls(struct tei_loop *loop)
{
	struct tei_mpsc_node *node, *next;

	for (node = tei_mpsc_take_all(&loop->calls); node; node = next) {
		struct tei_call *call;

		call = TEI_CONTAINER(node, struct tei_call, node);
		next = node->next; /* fn may free or reuse the call */
		loop->n_noted++;
		call->fn(call);
	}
}

static void on_signalled(evutil_socket_t fd, short what, void *arg)
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

static void signal_loop(struct tei_loop *loop)
{
	uint64_t one = 1;

	/* Full (EAGAIN) means that a signal is pending anyway. */
	if (write(loop->event_fd, &one, sizeof(one)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
}

static bool has_descriptors(void)
{
	int fds[BASE_FDS], n = 0;
	bool enough;

	while (n < BASE_FDS && (fds[n] = eventfd(0, EFD_CLOEXEC)) >= 0)
		n++;
	enough = n == BASE_FDS;
	while (n)
		close(fds[--n]);
	return enough;
}

/*
 * libevent ends the process when it gets an epoll but no pair of sockets for
 * signals, so the descriptors must be seen to be there. That somebody else
 * takes them in between is left to chance.
 */
static struct event_base *new_base(void)
{
	static struct tei_mutex mu = {PTHREAD_MUTEX_INITIALIZER}; /* 51 */
	struct event_config *config;
	struct event_base *base = NULL;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return NULL;
	config = event_config_new();
	if (!config)
		return NULL;
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK |
					      EVENT_BASE_FLAG_IGNORE_ENV);
	tei_mutex_lock(&mu);
	if (has_descriptors())
		base = event_base_new_with_config(config);
	tei_mutex_unlock(&mu);
	event_config_free(config);
	return base;
}

static int open_eventfd(struct tei_loop *loop)
{
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	loop->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->event_fd < 0)
		return -errno;
	if (event_assign(&loop->signalled, loop->base, loop->event_fd,
			 EV_READ | EV_PERSIST, on_signalled, loop) ||
	    event_add(&loop->signalled, NULL)) {
		close(loop->event_fd);
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
	tei_list_init(&loop->turned);
	tei_list_init(&loop->alarms);
	atomic_store(&loop->owner, self());
	errno = 0;
	loop->base = new_base();
	if (!loop->base) { /* libevent does not say; epoll_create() may */
		rc = errno == ENOMEM ? -ENOMEM : -EMFILE;
		goto free_loop;
	}
	rc = open_eventfd(loop);
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

static void block_sigpipe(void)
{
	sigset_t pipe_only;

	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_only, NULL);
}

void tei_loop_spin(struct tei_loop *loop, uint64_t ns)
{
	loop->spin = (struct tei_spin){.max = ns, .wakes = true};
}

/* ---- turns ---- */

void tei_loop_measure(struct tei_loop *loop,
		      void (*measured)(uint64_t cpu_ns, void *arg), void *arg)
{
	loop->measured = measured;
	loop->measured_arg = arg;
}

uint64_t tei_loop_turn_ns(struct tei_loop *loop)
{
	uint64_t now;

	if (!loop->in_turn)
		return 0;
	now = tei_now_ns();
	if (!loop->turn_ns)
		loop->turn_ns = now;
	return now - loop->turn_ns;
}

uint64_t tei_loop_turn(const struct tei_loop *loop)
{
	return loop->n_turns;
}

/* Reading the CPU clock is a system call, so not every turn gets one. */
static void tell_turn(struct tei_loop *loop)
{
	uint64_t now = tei_now_ns(), cpu;

	if (now - loop->read_ns < TEI_LOOP_READ_NS)
		return;
	cpu = tei_thread_cpu_ns();
	loop->measured(cpu - loop->read_cpu_ns, loop->measured_arg);
	loop->read_ns = now;
	loop->read_cpu_ns = cpu;
}

static int run_turn(struct tei_loop *loop, int flags)
{
	int rc;

	if (!loop->measured)
		return event_base_loop(loop->base, flags);
	loop->turn_ns = 0;
	loop->n_turns++;
	loop->in_turn = true;
	rc = event_base_loop(loop->base, flags);
	loop->in_turn = false;
	if (loop->measured) /* not taken back meanwhile */
		tell_turn(loop);
	return rc;
}

/* With NONBLOCK alone libevent makes turns as long as anything happens. */
#define POLL  (EVLOOP_NONBLOCK | EVLOOP_ONCE)
#define SLEEP (EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY)

/*
 * Without spinning the loop sleeps without polling first. Until wake-ups are
 * measured it polls, since measuring delays what is pending.
 */
static int first_turn(const struct tei_loop *loop, uint64_t now)
{
	if (!tei_wakeup_done())
		return POLL;
	return loop->spin.now && !tei_contention_lasts(&loop->contention, now)
		       ? POLL
		       : SLEEP;
}

void tei_loop_reads(struct tei_loop *loop, int fd)
{
	if (!loop->sleeps || loop->read_fd >= 0)
		return;
	loop->read_fd = fd;
	loop->read_at = tei_now_ns();
}

/* After a turn: moves to the core of who asked, if that is worth it. */
static void follow(struct tei_loop *loop)
{
	uint64_t now;
	int cpu;

	if (!loop->sleeps || loop->read_fd < 0)
		return;
	now = tei_now_ns();
	cpu = tei_follow_look(&loop->follow, loop->read_fd, now - loop->read_at,
			      now);
	if (cpu >= 0)
		tei_follow_move(&loop->follow, cpu);
}

/* -1, or 0: something may have happened. */
static int poll_or_sleep(struct tei_loop *loop)
{
	uint64_t noted = loop->n_noted, since, now, begun;
	int flags;

	follow(loop);
	since = now = tei_now_ns();
	flags = first_turn(loop, now);
	loop->sleeps = tei_contention_lasts(&loop->contention, now);
	loop->read_fd = -1;
	for (;;) {
		if (flags == SLEEP && !tei_wakeup_done()) {
			begun = tei_now_ns();
			tei_wakeup_measure(loop->event_fd);
			/* Measuring does not count as waiting. */
			since += tei_now_ns() - begun;
		}
		if (run_turn(loop, flags) != 0)
			return -1;
		if (flags == POLL && loop->n_noted == noted &&
		    !event_base_got_break(loop->base)) {
			if (now - since >= loop->spin.now ||
			    !tei_contention_yield(&loop->contention, &now))
				flags = SLEEP;
			continue;
		}
		if (flags != POLL)
			now = tei_now_ns();
		tei_spin_learn(&loop->spin, now - since);
		return 0;
	}
}

static int run_turns(struct tei_loop *loop)
{
	loop->read_ns = tei_now_ns();
	loop->read_cpu_ns = tei_thread_cpu_ns();
	do {
		if (poll_or_sleep(loop) < 0)
			return -1;
	} while (!event_base_got_break(loop->base));
	return 0;
}

int tei_loop_run(struct tei_loop *loop)
{
	int rc;

	block_sigpipe();
	atomic_store(&loop->owner, self());
	/* A stop() before run() has written to the eventfd, too. */
	rc = run_turns(loop);
	drain(loop);
	return rc < 0 ? -EIO : 0;
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
	if (tei_clock_simulated()) {
		block_sigpipe();
		tei_list_add_tail(&turned_loops, &loop->turned);
		*out = loop;
		return 0;
	}
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
	signal_loop(loop);
	if (!tei_list_empty(&loop->turned))
		drain(loop); /* as its thread would */
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
	tei_list_del(&loop->turned);
	drain(loop); /* of a bare loop that never ran */
	while ((node = tei_list_pop(&loop->orphans))) {
		struct tei_loop_orphan *orphan;

		orphan = TEI_CONTAINER(node, struct tei_loop_orphan, link);
		orphan->fn(orphan);
	}
	event_del(&loop->signalled);
	close(loop->event_fd);
	event_base_free(loop->base);
	tei_free(loop);
}

bool tei_loop_post(struct tei_loop *loop, struct tei_call *call)
{
	bool taken;

	atomic_fetch_add(&loop->n_posting, 1);
	taken = !atomic_load(&loop->closed);
	if (taken && tei_mpsc_push(&loop->calls, &call->node))
		signal_loop(loop);
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
		/* Behind what was posted before, as with a thread. */
		if (!tei_list_empty(&loop->turned) && !loop->turning)
			run_calls(loop);
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

/* ---- loops without a thread ---- */

void tei_loop_note(struct tei_loop *loop)
{
	loop->n_noted++;
}

static struct tei_alarm *next_alarm(const struct tei_loop *loop)
{
	struct tei_alarm *first = NULL;

	tei_list_for_each (node, &loop->alarms) {
		struct tei_alarm *alarm =
			tei_list_entry(node, struct tei_alarm, link);

		if (!first || alarm->at < first->at)
			first = alarm;
	}
	return first;
}

static void fire_alarms(struct tei_loop *loop)
{
	uint64_t now = tei_now_ns();
	struct tei_alarm *alarm;

	while ((alarm = next_alarm(loop)) && alarm->at <= now) {
		tei_list_del(&alarm->link);
		loop->n_noted++;
		alarm->fn(alarm->arg);
	}
}

static bool turn(struct tei_loop *loop)
{
	uint64_t before = loop->n_noted;

	if (loop->turning)
		return false;
	loop->turning = true;
	event_base_loop(loop->base, EVLOOP_NONBLOCK);
	fire_alarms(loop);
	loop->turning = false;
	return loop->n_noted != before;
}

bool tei_loops_turn(void)
{
	bool any = false;

	tei_list_for_each (node, &turned_loops)
		any |= turn(tei_list_entry(node, struct tei_loop, turned));
	return any;
}

uint64_t tei_loops_due(void)
{
	uint64_t due = UINT64_MAX;

	tei_list_for_each (node, &turned_loops) {
		const struct tei_alarm *alarm = next_alarm(
			tei_list_entry(node, struct tei_loop, turned));

		if (alarm && alarm->at < due)
			due = alarm->at;
	}
	return due;
}

/* ---- alarms and timers ---- */

static void on_alarm(evutil_socket_t fd, short what, void *arg)
{
	struct tei_alarm *alarm = arg;

	(void)fd;
	(void)what;
	tei_loop_note(alarm->loop);
	alarm->fn(alarm->arg); /* may free it */
}

void tei_alarm_init(struct tei_alarm *alarm, struct tei_loop *loop,
		    void (*fn)(void *), void *arg)
{
	*alarm = (struct tei_alarm){.loop = loop, .fn = fn, .arg = arg};
	tei_list_init(&alarm->link);
	/* Fails only for a base that the loop never makes. */
	event_assign(&alarm->event, loop->base, -1, 0, on_alarm, alarm);
}

int tei_alarm_set(struct tei_alarm *alarm, uint64_t ms)
{
	struct timeval tv = {.tv_sec = (time_t)(ms / 1000),
			     .tv_usec = (suseconds_t)(ms % 1000 * 1000)};

	if (!tei_clock_simulated())
		return event_add(&alarm->event, &tv) ? -ENOMEM : 0;
	alarm->at = tei_now_ns() + ms * TEI_NS_PER_MS;
	tei_list_del(&alarm->link);
	tei_list_add_tail(&alarm->loop->alarms, &alarm->link);
	return 0;
}

void tei_alarm_now(struct tei_alarm *alarm)
{
	event_active(&alarm->event, EV_TIMEOUT, 1);
}

void tei_alarm_clear(struct tei_alarm *alarm)
{
	event_del(&alarm->event);
	tei_list_del(&alarm->link);
}

struct tei_timer {
	struct tei_alarm alarm;
	uint64_t every_ms; /* 0: once */
	void (*fn)(void *);
	void *arg;
};

static void on_timer(void *arg)
{
	struct tei_timer *timer = arg;

	/* Cannot fail: it was set before. */
	if (timer->every_ms)
		(void)tei_alarm_set(&timer->alarm, timer->every_ms);
	timer->fn(timer->arg); /* may stop and so free the timer */
}

struct tei_timer *tei_timer_start(struct tei_loop *loop, uint64_t ms,
				  bool repeat, void (*fn)(void *), void *arg)
{
	struct tei_timer *timer;

	timer = tei_calloc(1, sizeof(*timer));
	if (!timer)
		return NULL;
	timer->fn = fn;
	timer->arg = arg;
	timer->every_ms = repeat ? ms : 0;
	tei_alarm_init(&timer->alarm, loop, on_timer, timer);
	if (tei_alarm_set(&timer->alarm, ms)) {
		tei_free(timer);
		return NULL;
	}
	return timer;
}

void tei_timer_stop(struct tei_timer *timer)
{
	if (!timer)
		return;
	tei_alarm_clear(&timer->alarm);
	tei_free(timer);
}
