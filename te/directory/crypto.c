/* SPDX-License-Identifier: Apache-2.0 */
/* crypto.c - OpenSSL in threads that may outlive their engine */
#include "te/directory/crypto.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include <openssl/crypto.h>

/* Longer than any thread is inside; ends the wait of a child of fork() whose
 * parent had a thread inside. */
#define LEAVE_S 2

/* Lock 56. Taken for writing by exit(), which keeps it. */
static pthread_rwlock_t inside = PTHREAD_RWLOCK_INITIALIZER;
static int start_error;

static void close_entry(void)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LEAVE_S;
	(void)pthread_rwlock_timedwrlock(&inside, &until);
}

static void start(void)
{
	/*
	 * Functions of atexit() are called last first: ours, then OpenSSL's,
	 * which an initialization without options does not register.
	 */
	if (!OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CRYPTO_STRINGS, NULL) ||
	    atexit(close_entry))
		start_error = -ENOMEM;
}

int tei_dir_crypto_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, start);
	return start_error;
}

bool tei_dir_crypto_enter(void)
{
	return !pthread_rwlock_tryrdlock(&inside);
}

void tei_dir_crypto_leave(void)
{
	(void)pthread_rwlock_unlock(&inside);
}

void tei_dir_crypto_end_thread(void)
{
	if (!tei_dir_crypto_enter())
		return;
	OPENSSL_thread_stop();
	tei_dir_crypto_leave();
}
