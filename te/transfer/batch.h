/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.h - requests that are submitted and awaited together
 *
 * The driver writes completions: the request itself, its index into order[],
 * and once a round the counter n_done (release), which the user's side reads
 * (acquire). `touching` is set while the driver may still look at the batch
 * after that, so that destroying it waits those few instructions.
 */
#ifndef TE_TRANSFER_BATCH_H
#define TE_TRANSFER_BATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <te/te.h>

#include "base/list.h"
#include "base/loop.h"
#include "te/transfer/cohort.h"
#include "te/transfer/request.h"

struct te_engine;
struct tei_worker;

struct te_batch {
	struct te_engine *engine;
	struct tei_list link; /* engine->batches, guarded by its mu */
	uint32_t capacity;
	struct tei_request *requests; /* requests[capacity] */
	struct tei_cohort
		*cohorts;       /* cohorts[capacity], by the first's index */
	struct iovec *merged;   /* merged[capacity]: pieces of merged works */
	uint32_t *order;        /* order[capacity]: as they ended */
	struct tei_list chunks; /* of piece lists; one submitter */
	uint32_t n_taken;       /* by poll; one thread at a time */

	_Atomic uint32_t n_submitted; /* release by submit */
	_Atomic uint32_t n_done;      /* seq_cst: pairs with sleeper, event */
	_Atomic bool touching;        /* release when the driver lets go */
	_Atomic int event;            /* eventfd, -1: none; seq_cst */

	/* Set while nothing is in flight; read by the driver. */
	te_done_fn *fn; /* NULL: completions are polled for */
	void *fn_arg;
	uint32_t n_called;    /* token: completions handed to fn */
	_Atomic bool closing; /* relaxed: takes no requests any more */

	_Atomic bool cancel_all, cancel_posted, cancel_running;
	struct tei_mpsc cancels; /* requests, by cancel_node */
	struct tei_call cancel;

	struct tei_sleeper sleeper; /* who waits; one at a time */
	_Atomic bool waited;        /* for the last submission; relaxed */

	/* Token. */
	uint32_t n_final;
	struct tei_list dirty;    /* worker.dirty */
	struct tei_list notifies; /* the first one to each segment */
	bool looking;             /* through notifies */
	/* The first n_well requests to that segment have ended well. */
	const struct tei_peer *well_peer; /* NULL: of none it is known */
	uint32_t well_life, n_well;
};

#endif
