/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleeper.h - threads that wait while another thread drives
 *
 * A driver that lets go calls one of them, which drives on: so there is one
 * wake-up for each that has what it waits for, and no two threads fight for
 * the token. Threads: any; worker.mu guards the list.
 */
#ifndef TE_WORKER_SLEEPER_H
#define TE_WORKER_SLEEPER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/thread.h"

struct tei_worker;

struct tei_sleeper {
	struct tei_list link; /* worker.sleepers */
	struct tei_cond cond; /* with worker.mu */
	_Atomic bool asleep;  /* seq_cst: pairs with what is waited for */
	bool called;          /* to drive; guarded by worker.mu */
};

void tei_sleeper_init(struct tei_sleeper *s);
void tei_sleeper_fini(struct tei_sleeper *s);
/*
 * Sleep until done(arg) and roused, the token is free, or @until (ns). True:
 * the caller must try to drive, others may rely on it.
 */
bool tei_sleeper_sleep(struct tei_worker *w, struct tei_sleeper *s,
		       bool (*done)(void *), void *arg, uint64_t until);
/* What @s waits for has come about; call it after that. */
void tei_sleeper_rouse(struct tei_worker *w, struct tei_sleeper *s);
/* Somebody shall drive: after the token has been freed. False: none sleeps. */
bool tei_sleeper_call_one(struct tei_worker *w);

#endif
