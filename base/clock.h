/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - monotonic time; wall clocks are only for logs and epochs
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#define TEI_NS_PER_MS 1000000ull
#define TEI_NS_PER_US 1000ull
#define TEI_NS_PER_S  1000000000ull

/* CLOCK_MONOTONIC in nanoseconds, milliseconds; or a simulated clock's. */
uint64_t tei_now_ns(void);
uint64_t tei_now_ms(void);
/* CPU time of this thread, of the system's in any case; a system call. */
uint64_t tei_thread_cpu_ns(void);
/* Microseconds since 1970 by CLOCK_REALTIME: epochs and logs, no decisions. */
uint64_t tei_wall_us(void);

/*
 * A simulated clock: hours pass in milliseconds, and always in the same way.
 *
 * Under one, a process has a single thread. Loops get none of their own
 * (tei_loops_turn() does what they have to do), engines are created with
 * worker_thread off, and whoever would sleep calls idle() instead: in a
 * condition (tei_cond_wait()), or as the driver of an engine's rails.
 */
struct tei_clock {
	/* ns, > 0. Only idle() moves it, and only forward. Relaxed. */
	_Atomic uint64_t now;
	/*
	 * Called when a thread has nothing to do before @until (UINT64_MAX:
	 * ever): does something for others, or lets time pass, but not beyond
	 * @until, and returns. May be called again from inside what it calls.
	 * No lock is held.
	 */
	void (*idle)(struct tei_clock *clock, uint64_t until);
};

/*
 * Makes @clock, which is borrowed, count from now on; NULL: the system's again.
 * Set-up only: there is no loop and no engine.
 */
void tei_clock_set(struct tei_clock *clock);
/* The simulated one, or NULL. Any thread. */
struct tei_clock *tei_clock_simulated(void);

#endif
