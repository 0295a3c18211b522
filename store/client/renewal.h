/* SPDX-License-Identifier: Apache-2.0 */
/*
 * renewal.h - leases of open keys are asked for again before they end
 *
 *   open --ask--> alarm (loop, every third of a lease) --job--> look-up
 *
 * Keys that have less than two thirds of their lease left are looked up, so
 * that each has a third to spare when a call fails. A look-up counts this
 * client as one more reader and a release undoes that, which leaves the reader
 * that the open has been since. A key that has moved is left to the next read,
 * which looks it up; so is one whose lease is over, as after an absence of the
 * master.
 */
#ifndef STORE_CLIENT_RENEWAL_H
#define STORE_CLIENT_RENEWAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "store/client/helper.h"

struct te_store;

struct tes_renewal {
	struct tei_call begin;
	struct tei_alarm alarm; /* the loop's, since init */
	bool ended;             /* the loop's */
	struct tes_job job;
	atomic_bool asked;    /* begin is under way, or the alarm is set */
	atomic_bool busy;     /* the helper has the job */
	atomic_uint lease_ms; /* as the master said last */
};

/* Loop thread: before the first open; when nothing is to begin any more. */
void tes_renewal_start(struct te_store *store);
void tes_renewal_stop(struct te_store *store);

#endif
