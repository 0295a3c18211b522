/* SPDX-License-Identifier: Apache-2.0 */
/* wait.c - wait on a condition with a deadline */
#include "tests/lib/wait.h"

#include <poll.h>
#include <stddef.h>
#include <time.h>

#include "base/clock.h"

bool test_wait_until(bool (*cond)(void *), void *arg, unsigned int timeout_ms)
{
	const struct timespec tick = {.tv_nsec = 1000000};
	uint64_t end = tei_now_ms() + timeout_ms;
	bool late;

	for (;;) {
		late = tei_now_ms() > end; /* before it is asked once more */
		if (cond(arg))
			return true;
		if (late)
			return false;
		ppoll(NULL, 0, &tick, NULL);
	}
}
