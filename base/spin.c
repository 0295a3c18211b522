/* SPDX-License-Identifier: Apache-2.0 */
/* spin.c - how long to stay awake for what may come soon */
#include "base/spin.h"

#include <sched.h>

#define YIELD_LONG (5 * TEI_NS_PER_US)
#define CROWDED    TEI_NS_PER_MS

/*
 * Whoever we wait for may need this very core: schedulers like to wake it where
 * we have sent from. A yield that takes long tells so. One may be the doing of
 * a thread that just looks around; two in a row are not.
 */
bool tei_crowd_yield(struct tei_crowd *crowd, uint64_t *now)
{
	uint64_t from = *now;

	if (tei_crowd_is_there(crowd, from))
		return false;
	sched_yield();
	*now = tei_now_ns();
	if (*now - from < YIELD_LONG)
		crowd->n_long = 0;
	else if (++crowd->n_long > 1)
		crowd->until = *now + CROWDED;
	return true;
}
