/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.h - mutex, condition and thread with names and lock annotations
 *
 * The annotations are checked by clang -Wthread-safety (function form only;
 * see docs/locking.md for the order of locks).
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/select.h> /* sigset_t */

#if defined(__clang__)
#define TEI_ATTR(x) __attribute__((x))
#else
#define TEI_ATTR(x)
#endif
#define TEI_CAPABILITY  TEI_ATTR(capability("mutex"))
#define TEI_ACQUIRES(m) TEI_ATTR(acquire_capability(m))
#define TEI_RELEASES(m) TEI_ATTR(release_capability(m))
#define TEI_REQUIRES(m) TEI_ATTR(requires_capability(m))
#define TEI_NO_ANALYSIS TEI_ATTR(no_thread_safety_analysis)

struct TEI_CAPABILITY tei_mutex {
	pthread_mutex_t m;
};

struct tei_cond {
	pthread_cond_t c; /* on CLOCK_MONOTONIC */
};

/* Neither call can fail on Linux with these attributes; they assert. */
void tei_mutex_init(struct tei_mutex *mu);
void tei_mutex_fini(struct tei_mutex *mu);
void tei_mutex_lock(struct tei_mutex *mu) TEI_ACQUIRES(*mu);
void tei_mutex_unlock(struct tei_mutex *mu) TEI_RELEASES(*mu);

void tei_cond_init(struct tei_cond *cond);
void tei_cond_fini(struct tei_cond *cond);
void tei_cond_signal(struct tei_cond *cond);
void tei_cond_broadcast(struct tei_cond *cond);
/*
 * Wait until signalled or tei_now_ns() reaches @deadline_ns (UINT64_MAX: no
 * limit). May wake without a signal. Returns false when the deadline passed.
 * Under a simulated clock its idle() is called in place of sleeping.
 */
bool tei_cond_wait(struct tei_cond *cond, struct tei_mutex *mu,
		   uint64_t deadline_ns) TEI_REQUIRES(*mu);

/*
 * Start a joinable thread with all signals blocked but those of faults. @name:
 * at most 15 bytes, shown by ps and gdb. -EAGAIN, -ENOMEM.
 */
int tei_thread_start(pthread_t *out, const char *name, void *(*fn)(void *),
		     void *arg);

/* Asserts in Debug builds; compiled to nothing in release. */
#ifdef TE_DEBUG
#include <assert.h>
#define TEI_DEBUG_ASSERT(x) assert(x)
#else
#define TEI_DEBUG_ASSERT(x) ((void)sizeof(x))
#endif

/* Block SIGINT and SIGTERM in this thread, which then waits for *out. */
void tei_end_signals_block(sigset_t *out);

#endif
