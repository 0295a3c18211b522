/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inbox.h - takes the notifications that an engine receives, and frees them
 */
#ifndef PERF_TE_PERF_INBOX_H
#define PERF_TE_PERF_INBOX_H

#include <pthread.h>
#include <te/te.h>

struct inbox {
	struct te_engine *engine; /* not owned; NULL: it is not open */
	pthread_t thread;
	int end; /* eventfd: the thread is to end */
};

/* Starts a thread that takes all that come. -errno. */
int inbox_open(struct inbox *in, struct te_engine *engine);
/* Ends the thread, before the engine is destroyed. @in may be all zero. */
void inbox_close(struct inbox *in);

#endif
