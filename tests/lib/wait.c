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

/* How much longer things take here than on a quiet machine, as of now. */
static double stretch(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	double load;

	if (n < 1 || getloadavg(&load, 1) != 1 || load <= (double)n)
		return 1;
	load /= (double)n;
	return load < STRETCH_MAX ? load : STRETCH_MAX;
}

/* Whether the time is over; the load is asked for only when it may be. */
static bool is_over(uint64_t begun, unsigned int timeout_ms)
{
	uint64_t spent = tei_now_ms() - begun;

	return spent > timeout_ms &&
	       (double)spent > stretch() * (double)timeout_ms;
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
