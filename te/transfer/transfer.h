/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.h - the state of this room, and the messages that it sends to
 * control
 *
 * Everything in te/transfer/ runs with the worker's drive token, but for what
 * says otherwise at its declaration.
 */
#ifndef TE_TRANSFER_TRANSFER_H
#define TE_TRANSFER_TRANSFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "te/worker/worker.h"

struct tei_stage;

/*
 * Handlers of calls that are posted to the control thread, which answers by a
 * call to the worker. Set when the engine is made.
 */
struct tei_transfer_messages {
	/* link.out.ask: ask the owner for its half of a link, or to drop it. */
	void (*connect)(struct tei_call *ask);
	void (*drop)(struct tei_call *ask);
	/* notify.ask, notify.withdraw. */
	void (*notify)(struct tei_call *ask);
	void (*withdraw)(struct tei_call *withdraw);
};

/* The region of local memory that was found last. */
struct tei_near_seen {
	uint64_t changes; /* of the region table, then */
	uint64_t addr, length;
	uint64_t near;
	uint64_t takes; /* tei_region_takers() */
	bool staged;    /* it has a stage */
	bool spread;    /* tei_region_is_spread() */
};

struct tei_transfer {
	const struct tei_transfer_messages *messages;
	/* Our access epoch to ourselves, written by control. */
	const _Atomic uint64_t *own_epoch;
	/* All read what is above; each worker writes its own of near. */
	char apart[TEI_CACHE_LINE];
	/* Memory that each worker has looked up. Token. */
	struct {
		struct tei_near_seen seen;
		char apart[TEI_CACHE_LINE];
	} near[TEI_WORKERS_MAX];
	struct tei_list stages;   /* with copies, by active; held. Token */
	struct tei_list starving; /* peers that await their room. Token */
	struct tei_list own_ends; /* struct tei_own_end. Token */
	struct tei_list windows;  /* struct tei_gpu_window. Token */
	_Atomic uint32_t n_windows;
};

TEI_APART(struct tei_transfer, own_epoch, near); /* all read; a worker each */

/*
 * Closes windows of peers' GPUs that were opened in the stage's context, whose
 * last region is removed. Any thread but one that drives; waits.
 */
void tei_gpu_windows_leave(struct te_engine *engine, struct tei_stage *stage);

/* Waits for the links of this engine to itself that are being closed. */
struct tei_own_end {
	struct tei_list link; /* of transfer.own_ends; or in none */
	struct tei_call done; /* posted to control */
};

/* ---- as the worker calls this room, see struct tei_worker_ops ---- */

void tei_transfer_rail_init(struct tei_rail_box *box);
void tei_transfer_rail_fini(struct tei_rail_box *box);
void tei_transfer_pump(struct tei_worker *w);
void tei_transfer_rail_has_room(struct tei_rail_box *box);
/* Break every link that uses it. */
void tei_transfer_rail_lost(struct tei_rail_box *box, int err);
void tei_transfer_rail_up(struct tei_rail_box *box);

#endif
