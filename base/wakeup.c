/* SPDX-License-Identifier: Apache-2.0 */
/* wakeup.c - how long it takes until a thread that is woken runs */
#include "base/wakeup.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/median.h"

#define SLEEP       (500 * TEI_NS_PER_US)
#define SLEEPS_MOST 64u   /* whole ones, whether they count or not */
#define TRIES_MOST  4096u /* begun ones */

_Static_assert(TEI_WAKEUP_SAMPLES <= TEI_MEDIAN_MOST, "a median takes them");

static struct {
	atomic_ullong median; /* ns; 0: not known. Read relaxed: a hint */
	atomic_bool done;     /* known, or given up */
	/*
	 * Process whose thread measures, 0: none does. That thread alone uses
	 * what follows; the exchange and the store hand it to the next one. A
	 * child takes over from a thread of its parent.
	 */
	atomic_int measuring;
	uint32_t n_tries, n_sleeps;
	struct tei_wakeup seen;
} state;

uint64_t tei_wakeup_count(struct tei_wakeup *w, uint64_t late)
{
	uint64_t median;

	if (late <= TEI_WAKEUP_MOST && w->n_samples < TEI_WAKEUP_SAMPLES)
		w->late[w->n_samples++] = (uint32_t)late;
	if (w->n_samples < TEI_WAKEUP_SAMPLES)
		return 0;
	median = tei_median_of(w->late, TEI_WAKEUP_SAMPLES);
	return median ? median : 1;
}

/* Returns whether the full time passed; *late: how much later it ran, ns. */
static bool sleep_once(int fd, uint64_t *late)
{
	const struct timespec time = {.tv_nsec = SLEEP};
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	uint64_t from = tei_now_ns(), took;
	int rc = ppoll(&wait, 1, &time, NULL);

	took = tei_now_ns() - from;
	*late = took > SLEEP ? took - SLEEP : 0;
	return rc == 0;
}

static bool is_given_up(void)
{
	return state.n_sleeps >= SLEEPS_MOST || state.n_tries >= TRIES_MOST;
}

/* Until enough is known, @fd is readable, or threads of others run for long. */
static void take_samples(int fd)
{
	uint64_t late = 0, median = 0;

	while (!median && late <= TEI_WAKEUP_MOST && !is_given_up()) {
		state.n_tries++;
		if (!sleep_once(fd, &late))
			break;
		state.n_sleeps++;
		median = tei_wakeup_count(&state.seen, late);
	}
	if (median)
		atomic_store(&state.median, median);
	if (median || is_given_up())
		atomic_store(&state.done, true);
}

/* Timers of a thread are late by its slack, to save energy: 50 us usually. */
static void take_exact_samples(int fd)
{
	int slack = prctl(PR_GET_TIMERSLACK, 0ul, 0ul, 0ul, 0ul);

	if (slack < 0 || prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul)) {
		atomic_store(&state.done, true);
		return;
	}
	take_samples(fd);
	(void)prctl(PR_SET_TIMERSLACK, (unsigned long)slack, 0ul, 0ul, 0ul);
}

/* Returns whether this thread may measure, and no other one then. */
static bool begin(void)
{
	int own = getpid(), by = atomic_load(&state.measuring);

	return by != own &&
	       atomic_compare_exchange_strong(&state.measuring, &by, own);
}

bool tei_wakeup_measure(int fd)
{
	if (tei_wakeup_done() || tei_clock_simulated())
		return true;
	if (!begin())
		return false;
	if (!tei_wakeup_done()) /* another thread may have done it meanwhile */
		take_exact_samples(fd);
	atomic_store(&state.measuring, 0);
	return tei_wakeup_done();
}

bool tei_wakeup_done(void)
{
	return atomic_load(&state.done);
}

uint64_t tei_wakeup_ns(void)
{
	return atomic_load_explicit(&state.median, memory_order_relaxed);
}
