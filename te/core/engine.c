/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - what the calls of every room check first: fork child, callback */
#include "te/core/engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"

static _Atomic unsigned int forks;

_Thread_local bool tei_calling_back;

static void count_fork(void)
{
	atomic_fetch_add(&forks, 1);
}

static void register_fork_handler(void)
{
	if (pthread_atfork(NULL, NULL, count_fork))
		LOG_WARN("engine: no memory to detect children of fork()");
}

void tei_watch_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_fork_handler);
}

unsigned int tei_forks(void)
{
	return atomic_load_explicit(&forks, memory_order_relaxed);
}

void tei_count_failed(struct te_engine *engine, int error)
{
	switch (error) {
	case -ETIMEDOUT:
		TEI_COUNT(engine, failed_timeout);
		break;
	case -ECANCELED:
		TEI_COUNT(engine, failed_canceled);
		break;
	case -ESTALE:
		TEI_COUNT(engine, failed_stale);
		break;
	case -EACCES:
		TEI_COUNT(engine, failed_access);
		break;
	case -EFAULT:
		TEI_COUNT(engine, failed_range);
		break;
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -EHOSTUNREACH:
		TEI_COUNT(engine, failed_connection);
		break;
	case -EHOSTDOWN:
		TEI_COUNT(engine, failed_silent);
		break;
	default:
		TEI_COUNT(engine, failed_other);
	}
}
