/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drive.h - what the files of a worker share: token, rounds, fds
 *
 *   drive.c   the token and one round
 *   worker.c  who waits or submits drives
 *   thread.c  the worker's own thread drives what nobody waits for
 *
 * No wake-up is lost because both sides exchange `idle`: a driver that goes
 * to sleep or lets go writes 1 and then looks at the queue; who pushes writes
 * 0 after pushing. Whichever exchange comes second sees the other's work.
 */
#ifndef TE_WORKER_DRIVE_H
#define TE_WORKER_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "te/worker/worker.h"

#define TEI_NEVER UINT64_MAX

/* Values of `token`. */
enum tei_holder {
	TEI_FREE = 0,
	TEI_SOON = 1,   /* who lets go within a round when others want it */
	TEI_WAITER = 2, /* who drives until it has what it waits for */
};

static inline void tei_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

bool tei_drive_take(struct tei_worker *w, uint32_t holder);
/*
 * Somebody must know what is left to do: the next who waits, the thread, or
 * @patient, a caller that will come back for it at once.
 */
void tei_drive_let_go(struct tei_worker *w, bool patient);

/* What a round does for others beside posting and progress. */
enum tei_drive_with {
	TEI_WITH_NEXT_TO_NOTHING, /* of who comes back to wait at once */
	TEI_WITH_A_LITTLE,        /* short copies: of who only submits */
	TEI_WITH_ALL,             /* any copies, and callbacks */
};

bool tei_worker_has_thread(const struct tei_worker *w);
/* Token. True: something happened. */
bool tei_drive_round(struct tei_worker *w, enum tei_drive_with with);
/* Flush and close what is broken, until no rail has a link. Token, for good. */
void tei_drive_until_closed(struct tei_worker *w);
/* Token: there is work that no fd announces. */
bool tei_drive_must_go_on(const struct tei_worker *w);
/* The inner fd is about to be relied on. Token. */
void tei_drive_doze(struct tei_worker *w);
/* Whether the inner fd wakes the thread. Token. */
void tei_drive_watch(struct tei_worker *w, bool on);
/* Empty the wake eventfd if it has been rung, after @ms at most. Token. */
void tei_drive_look(struct tei_worker *w, int ms);
/* For epoll: rounded up, at most a minute; -1 for TEI_NEVER. */
int tei_drive_ms_until(uint64_t at, uint64_t now);
void tei_drive_ring(int fd);
void tei_drive_unring(int fd);

/*
 * Once more round without work, @since ns after the last one with some. False:
 * others need this core, spinning would only keep them from it. Token.
 */
bool tei_spin_once(struct tei_worker *w, uint64_t since);

#endif
