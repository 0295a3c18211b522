/* SPDX-License-Identifier: Apache-2.0 */
/* loop_private.h - what the files of the loop share */
#ifndef BASE_LOOP_PRIVATE_H
#define BASE_LOOP_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/loop.h"
#include "base/spin.h"

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
	struct tei_spin spin;   /* max 0: sleeps at once */
	struct tei_crowd crowd; /* while it spins */
	/* Under a simulated clock. */
	struct tei_list turned; /* in turned_loops */
	struct tei_list alarms; /* struct tei_alarm that are set */
	bool turning;           /* further down on the stack */
	uint64_t n_noted;       /* closures, frames and alarms so far */
};

#endif
