/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drive.h - rounds, and sleep between them, for who holds the drive token
 *
 * For drive.c, where callers submit and wait, and for the worker's thread.
 */
#ifndef TE_WORKER_DRIVE_H
#define TE_WORKER_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "te/core/engine.h"
#include "te/worker/worker.h"

static inline bool tei_worker_has_thread(const struct tei_worker *w)
{
	return w->engine->config.worker_thread;
}

/* Converts for epoll: rounded up, at most a minute; -1 for TEI_NEVER. */
int tei_ms_until(uint64_t at, uint64_t now);

/* Drives one round. Token. True: something happened. */
bool tei_drive_round(struct tei_worker *w, enum tei_drive_with with);
/* Tells whether there is work that no fd announces, but copies. Token. */
bool tei_drive_must_go_on(const struct tei_worker *w);
/*
 * Lets time pass after a round without work, @since ns after the last one with
 * some. Token. False: others need the core.
 */
bool tei_drive_spin_once(struct tei_worker *w, uint64_t since);
/*
 * Sleeps until @until, ns, or until an fd is ready; empties the wake eventfd if
 * it has been signalled. Token.
 */
void tei_drive_await_fds(struct tei_worker *w, uint64_t until);
/*
 * Sleeps with the token until something happens or @until, ns. False: not at
 * all, as there is work.
 */
bool tei_drive_sleep(struct tei_worker *w, uint64_t until);

#endif
