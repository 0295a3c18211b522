/* SPDX-License-Identifier: Apache-2.0 */
/* thread.c - mutex, condition and thread */
#include "base/thread.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault.h"

/* Errors of these calls are misuse, and asserts stay on in every build. */
static void must(int rc)
{
	assert(rc == 0);
	(void)rc;
}

void tei_mutex_init(struct tei_mutex *mu)
{
	must(pthread_mutex_init(&mu->m, NULL));
}

void tei_mutex_fini(struct tei_mutex *mu)
{
	must(pthread_mutex_destroy(&mu->m));
}

void tei_mutex_lock(struct tei_mutex *mu) TEI_NO_ANALYSIS
{
	must(pthread_mutex_lock(&mu->m));
}

void tei_mutex_unlock(struct tei_mutex *mu) TEI_NO_ANALYSIS
{
	must(pthread_mutex_unlock(&mu->m));
}

void tei_cond_init(struct tei_cond *cond)
{
	pthread_condattr_t attr;

	must(pthread_condattr_init(&attr));
	must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	must(pthread_cond_init(&cond->c, &attr));
	must(pthread_condattr_destroy(&attr));
}

void tei_cond_fini(struct tei_cond *cond)
{
	must(pthread_cond_destroy(&cond->c));
}

void tei_cond_signal(struct tei_cond *cond)
{
	must(pthread_cond_signal(&cond->c));
}

void tei_cond_broadcast(struct tei_cond *cond)
{
	must(pthread_cond_broadcast(&cond->c));
}

static bool idle(struct tei_clock *clock, struct tei_mutex *mu,
		 uint64_t deadline_ns) TEI_REQUIRES(*mu)
{
	tei_mutex_unlock(mu);
	clock->idle(clock, deadline_ns);
	tei_mutex_lock(mu);
	return tei_now_ns() < deadline_ns;
}

bool tei_cond_wait(struct tei_cond *cond, struct tei_mutex *mu,
		   uint64_t deadline_ns)
{
	struct tei_clock *clock = tei_clock_simulated();
	struct timespec ts;
	int rc;

	if (clock)
		return idle(clock, mu, deadline_ns);
	if (deadline_ns == UINT64_MAX) {
		must(pthread_cond_wait(&cond->c, &mu->m));
		return true;
	}
	ts.tv_sec = (time_t)(deadline_ns / TEI_NS_PER_S);
	ts.tv_nsec = (long)(deadline_ns % TEI_NS_PER_S);
	rc = pthread_cond_timedwait(&cond->c, &mu->m, &ts);
	if (rc == ETIMEDOUT)
		return false;
	must(rc);
	return true;
}

/* All but those that a thread causes itself: blocked ones of these kill. */
static void all_but_faults(sigset_t *set)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
	size_t i;

	sigfillset(set);
	for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(set, faults[i]);
}

int tei_thread_start(pthread_t *out, const char *name, void *(*fn)(void *),
		     void *arg)
{
	sigset_t all, old;
	int rc;

	if (tei_fault_check(TEI_FAULT_THREAD))
		return -EAGAIN;
	/* The thread inherits the mask; the host's handlers stay the host's. */
	all_but_faults(&all);
	must(pthread_sigmask(SIG_SETMASK, &all, &old));
	rc = pthread_create(out, NULL, fn, arg);
	must(pthread_sigmask(SIG_SETMASK, &old, NULL));
	if (rc)
		return -rc;
	pthread_setname_np(*out, name); /* too long a name: none */
	return 0;
}

void tei_end_signals_block(sigset_t *out)
{
	sigemptyset(out);
	sigaddset(out, SIGINT);
	sigaddset(out, SIGTERM);
	pthread_sigmask(SIG_BLOCK, out, NULL);
}
