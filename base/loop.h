/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h - a thread with a libevent base: control connections live here
 *
 * Everything on a loop is touched only by its thread. Other threads hand it
 * closures with tei_loop_post(). Stop order: stop() (no new closures run after
 * it returns and the thread has ended), free what lives on it, destroy().
 * SIGPIPE is blocked in the thread that runs a loop.
 *
 * A loop measures wake-ups (base/wakeup.h) before its first sleeps, until they
 * are known. A timer that becomes due meanwhile runs up to 6 ms late, on busy
 * hosts a time slice more.
 *
 * Under a simulated clock (base/clock.h) tei_loop_create() starts no thread:
 * the loop belongs to the one thread that there is, which turns all loops by
 * tei_loops_turn(), and timers are due by that clock.
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include <event2/event_struct.h>

#include "base/list.h"
#include "base/mpsc.h"

struct event_base;
struct tei_loop;

/* A closure: embed it; owned by the loop from post() until fn is called. */
struct tei_call {
	struct tei_mpsc_node node;
	void (*fn)(struct tei_call *call);
};

/* @name: of the thread, at most 15 bytes. -ENOMEM, -EAGAIN, -EMFILE. */
int tei_loop_create(const char *name, struct tei_loop **out);
/* Creates a loop without a thread: the caller runs it by tei_loop_run(). */
int tei_loop_create_bare(struct tei_loop **out);
/*
 * Lets the loop spin for up to @ns after work, or for up to four wake-ups where
 * these take longer (base/wakeup.h), as long as more tends to come within that
 * and nobody else needs the core. To be set before it runs.
 */
void tei_loop_spin(struct tei_loop *loop, uint64_t ns);
/*
 * Calls @measured with CPU times of the loop's thread, ns: no turn (what one
 * wake-up of the loop brings) takes longer than the time it is told with. Short
 * turns that follow within READ_NS are told together. To be set before it runs.
 */
#define TEI_LOOP_READ_NS 100000u
void tei_loop_measure(struct tei_loop *loop,
		      void (*measured)(uint64_t cpu_ns, void *arg), void *arg);
/*
 * Time of this turn, ns, from the first call in it on; 0 for a loop that is not
 * measured.
 */
uint64_t tei_loop_turn_ns(struct tei_loop *loop);
/* Number of this turn; 0 for a loop that is not measured. */
uint64_t tei_loop_turn(const struct tei_loop *loop);
/*
 * Notes that the connected socket @fd is being read. A loop that spins may then
 * move to the core of the sender (base/follow.h). Loop thread only.
 */
void tei_loop_reads(struct tei_loop *loop, int fd);
/* Runs until tei_loop_stop(); for programs whose main thread is the loop. */
int tei_loop_run(struct tei_loop *loop);
/*
 * End the thread (or make run() return). Closures still queued are called
 * first. Safe to call twice; not from the loop's own thread, except for bare
 * loops, where it only asks run() to return.
 */
void tei_loop_stop(struct tei_loop *loop);
void tei_loop_destroy(struct tei_loop *loop); /* NULL is fine */

/* Any thread. False: the loop has stopped and the closure was not taken. */
bool tei_loop_post(struct tei_loop *loop, struct tei_call *call);
/* Run @fn(@arg) on the loop and wait for it; at once when already on it.
 * False: the loop has stopped, @fn was not called. */
bool tei_loop_do(struct tei_loop *loop, void (*fn)(void *), void *arg);
bool tei_loop_is_mine(const struct tei_loop *loop);
/* Something came in: what tei_loops_turn() reports. Loop thread only. */
void tei_loop_note(struct tei_loop *loop);
/*
 * Turns each loop once under a simulated clock, never blocking. False: all
 * idle.
 */
bool tei_loops_turn(void);
/*
 * Returns when the first of their timers is due, ns; UINT64_MAX: none is set.
 */
uint64_t tei_loops_due(void);
/*
 * Returns the base for events and bufferevents on this loop; loop thread only.
 */
struct event_base *tei_loop_base(struct tei_loop *loop);

/*
 * Something that lives on the loop without a user, as a socket that still
 * delivers its last words: fn frees it in destroy(). Loop thread only.
 */
struct tei_loop_orphan {
	struct tei_list link;
	void (*fn)(struct tei_loop_orphan *orphan);
};
void tei_loop_adopt(struct tei_loop *loop, struct tei_loop_orphan *orphan);

/*
 * A timer in the caller's storage. Loop thread only, all of it. Fires once for
 * each set(); fn may set it again.
 */
struct tei_alarm {
	struct tei_loop *loop;
	void (*fn)(void *);
	void *arg;
	struct event event;
	struct tei_list link; /* under a simulated clock: set */
	uint64_t at;          /* then: ns */
};
void tei_alarm_init(struct tei_alarm *alarm, struct tei_loop *loop,
		    void (*fn)(void *), void *arg);
/* Sets the alarm to @ms from now, whatever it was set to before. -ENOMEM. */
int tei_alarm_set(struct tei_alarm *alarm, uint64_t ms);
/*
 * Runs the alarm as soon as the loop turns again; the time it was set to stays.
 */
void tei_alarm_now(struct tei_alarm *alarm);
void tei_alarm_clear(struct tei_alarm *alarm);

/* Timers: loop thread only. */
struct tei_timer;
/* Calls @fn after @ms, then every @ms when @repeat. NULL: out of memory. */
struct tei_timer *tei_timer_start(struct tei_loop *loop, uint64_t ms,
				  bool repeat, void (*fn)(void *), void *arg);
/* Frees it; NULL is fine. Needed for a timer that has fired once, too. */
void tei_timer_stop(struct tei_timer *timer);

#endif
