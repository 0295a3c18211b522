/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crypto.h - OpenSSL in threads that may outlive their engine
 *
 * Nobody joins the threads of publishers and look-ups, since a call of theirs
 * may hang. A process that exits meanwhile has OpenSSL free its locks, so such
 * a thread is inside OpenSSL only between enter() and leave(): exiting waits
 * for those that are, and lets none in.
 */
#ifndef TE_DIRECTORY_CRYPTO_H
#define TE_DIRECTORY_CRYPTO_H

#include <stdbool.h>

/*
 * Makes exiting wait. Before the first enter() of the process; any thread, any
 * number of times. -ENOMEM.
 */
int tei_dir_crypto_start(void);

/* False: the process exits, and OpenSSL must not be called. Any thread. */
bool tei_dir_crypto_enter(void);
void tei_dir_crypto_leave(void);

/*
 * Frees what OpenSSL keeps for the calling thread, which calls it last: the
 * thread's end would free it outside enter() and leave().
 */
void tei_dir_crypto_end_thread(void);

#endif
