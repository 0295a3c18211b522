/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule.c - when the calls of a load with a given rate begin: an open loop
 */
#include "perf/lib/schedule.h"

#include <assert.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "perf/lib/sleep.h"

#define LOOK_NS (100 * TEI_NS_PER_MS) /* between two looks at *ended */

void tei_schedule_init(struct tei_schedule *s, uint64_t rate, uint64_t thread,
		       uint64_t n_threads, uint64_t start_ns)
{
	assert(rate <= TEI_SCHEDULE_RATE_MAX);
	assert(thread < n_threads);
	*s = (struct tei_schedule){
		.start_ns = start_ns,
		.rate = rate,
		.next = thread,
		.n_threads = n_threads,
	};
}

uint64_t tei_schedule_due(const struct tei_schedule *s)
{
	if (!s->rate)
		return 0;
	/* Whole seconds apart: neither product leaves 64 bits, none drifts. */
	return s->start_ns + s->next / s->rate * TEI_NS_PER_S +
	       s->next % s->rate * TEI_NS_PER_S / s->rate;
}

uint64_t tei_schedule_behind(const struct tei_schedule *s, uint64_t now_ns)
{
	uint64_t after, due;

	if (!s->rate || now_ns < s->start_ns)
		return 0;
	/* Calls of all threads that are due before the next nanosecond. */
	after = now_ns - s->start_ns + 1;
	due = after / TEI_NS_PER_S * s->rate +
	      (after % TEI_NS_PER_S * s->rate + TEI_NS_PER_S - 1) /
		      TEI_NS_PER_S;
	if (due <= s->next)
		return 0;
	return (due - s->next + s->n_threads - 1) / s->n_threads;
}

uint64_t tei_schedule_take(struct tei_schedule *s, uint64_t now_ns)
{
	uint64_t due = tei_schedule_due(s);

	s->next += s->n_threads;
	return s->rate ? due : now_ns;
}

static bool is_ended(const _Atomic bool *ended)
{
	return ended && atomic_load_explicit(ended, memory_order_relaxed);
}

bool tei_schedule_await(struct tei_schedule *s, uint64_t end_ns,
			const _Atomic bool *ended)
{
	uint64_t due = tei_schedule_due(s), now = tei_now_ns();

	if (now >= end_ns || due >= end_ns)
		return false;
	/* Else the kernel would be free to wake the thread 50 us late. */
	if (!s->precise && now < due)
		s->precise = !prctl(PR_SET_TIMERSLACK, 1ul);
	while (now < due && !is_ended(ended)) {
		tei_sleep_until(due - now < LOOK_NS ? due : now + LOOK_NS);
		now = tei_now_ns();
	}
	return !is_ended(ended);
}
