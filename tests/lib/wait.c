/* SPDX-License-Identifier: Apache-2.0 */
/* wait.c - wait on a condition with a deadline */
#include "tests/lib/wait.h"

#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define STRETCH_MAX 10.0

/* By its boot, of a virtual machine; in percent, see tests/lab/README.md. */
static double slowness(void)
{
	const char *slow = getenv("SLOW");

	return slow ? strtod(slow, NULL) / 100 : 1;
}

double test_stretch(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	double times = slowness(), load;

	if (n > 0 && getloadavg(&load, 1) == 1 && load > times * (double)n)
		times = load / (double)n;
	return times < 1 ? 1 : times < STRETCH_MAX ? times : STRETCH_MAX;
}

/* Whether the time is over; the load is asked for only when it may be. */
static bool is_over(uint64_t begun, unsigned int timeout_ms)
{
	uint64_t spent = tei_now_ms() - begun;

	return spent > timeout_ms &&
	       (double)spent > test_stretch() * (double)timeout_ms;
}

bool test_wait_until(bool (*cond)(void *), void *arg, unsigned int timeout_ms)
{
	const struct timespec tick = {.tv_nsec = 1000000};
	uint64_t begun = tei_now_ms();
	bool late;

	for (;;) {
		/* Before it is asked once more. */
		late = is_over(begun, timeout_ms);
		if (cond(arg))
			return true;
		if (late)
			return false;
		ppoll(NULL, 0, &tick, NULL);
	}
}
