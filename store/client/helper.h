/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper.h - a thread for what blocks: jobs, one after the other
 *
 * Threads: add from any thread; init and fini set-up only.
 */
#ifndef STORE_CLIENT_HELPER_H
#define STORE_CLIENT_HELPER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/thread.h"

struct tes_job {
	struct tei_list link;
	/*
	 * Called once, on the helper's thread, and then the job is its
	 * callee's. While @stopping it must only free what it owns.
	 */
	void (*run)(struct tes_job *job, bool stopping);
};

struct tes_helper {
	pthread_t thread;
	bool started;
	atomic_bool stopping; /* long jobs look at it between steps */
	struct tei_mutex mu;  /* lock 41 */
	struct tei_cond more;
	struct tei_list jobs; /* guarded by mu */
};

/* -EAGAIN, -ENOMEM (no thread). */
int tes_helper_init(struct tes_helper *h);
/* Ends the job that runs at its next step and drops those that wait. */
void tes_helper_fini(struct tes_helper *h);
/* Adds a job; not after fini(). */
void tes_helper_add(struct tes_helper *h, struct tes_job *job);

#endif
