/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage.h - memory of the host that stands in for a GPU's
 *
 * Bytes that no device of a rail reaches are copied by way of the host: a stage
 * has memory that is pinned for that and the two orders of copies, out and in,
 * of one context of a GPU. It is opened for the first region of it and closed
 * with the last, and the last part that uses it.
 *
 *   submitted --> waiting --launched--> under way --mark reached--> done()
 *
 * Copies that wait are begun together, in bunches of 256 KiB, so that the
 * first bytes can go on while the next are copied.
 *
 * Threads: get and put any, others the token. tei_gpus.mu (lock 18) guards the
 * list of stages and is held while one is opened.
 */
#ifndef TE_DEVICE_STAGE_H
#define TE_DEVICE_STAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "te/device/device.h"

#define TEI_STAGE_BLOCK      (16u << 10)    /* bytes: unit of its memory */
#define TEI_STAGE_COPIES_MAX TEI_COPIES_MAX /* of a job */

/* Copies of one user, which keeps it and the copies until done(). */
struct tei_stage_job {
	struct tei_list link; /* the stage's */
	enum tei_copy_way way;
	const struct tei_copy *copies; /* copies[n] */
	uint32_t n;                    /* 1 to TEI_STAGE_COPIES_MAX */
	uint64_t length;               /* of all */
	/*
	 * Ends the job, called by turn(). @err: 0 or -EIO; no byte is touched
	 * any more.
	 */
	void (*done)(struct tei_stage_job *job, int err);
};

/* Jobs that were begun together. */
struct tei_stage_bunch {
	struct tei_list jobs;
};

struct tei_stage_way {
	struct tei_list waiting; /* jobs */
	uint32_t n_alone; /* of those, at the front, to be begun one by one */
	/* Bunches under way: bunches[first % TEI_COPY_MARKS] on, n of them. */
	uint32_t first, n;
	struct tei_stage_bunch bunches[TEI_COPY_MARKS];
};

struct tei_stage {
	struct tei_list link; /* tei_gpus.stages */
	_Atomic uint32_t refs;
	_Atomic uint32_t n_regions; /* of its context that there are */
	const struct tei_runtime_ops *ops;
	struct tei_runtime *runtime;
	int gpu;
	uintptr_t context;
	struct tei_gpu_copier *copier;
	uint8_t *memory; /* memory[length] */
	uint64_t length;
	bool flushes; /* NICs' writes are to be flushed for work that runs */

	/* Token. */
	struct tei_list active; /* of who turns it, while it has jobs */
	uint32_t n_jobs;
	struct tei_stage_way ways[TEI_COPY_WAYS];
	_Atomic bool broken; /* its context is dead: all jobs fail; relaxed */
	uint64_t *used;      /* a bit for each block */
	uint32_t n_blocks, n_free;
	uint32_t n_asked; /* blocks used for TEI_STAGE_ASKED */
};

/*
 * Finds the stage of a GPU's memory, or opens one. Returns 0, and *out is the
 * caller's to put; or @why says why and: -EOPNOTSUPP, -ENOMEM, -EIO, as
 * copier_open(). Blocks.
 */
int tei_stage_get(struct te_engine *engine,
		  const struct tei_memory_found *found, struct tei_stage **out,
		  char why[TEI_RUNTIME_WHY_LEN]);
static inline struct tei_stage *tei_stage_hold(struct tei_stage *stage)
{
	atomic_fetch_add_explicit(&stage->refs, 1, memory_order_relaxed);
	return stage;
}
/* Closes it when it was the last; it has no job then. NULL: nothing. */
void tei_stage_put(struct te_engine *engine, struct tei_stage *stage);

/*
 * Whom the memory is for, and so how much of it must stay free: those below it
 * here may need that before those above it can go on. What comes in is copied
 * at once; what a peer asked for waits for the peer to take it, and parts of
 * requests wait for both of another engine, which may wait for us.
 */
enum tei_stage_use {
	TEI_STAGE_PART,  /* a quarter stays free */
	TEI_STAGE_ASKED, /* an eighth does; half of the stage at most */
	TEI_STAGE_IN,
};

/* Takes memory for @length bytes, together. NULL: there is no room now. */
void *tei_stage_take(struct tei_stage *stage, enum tei_stage_use use,
		     uint64_t length);
/*
 * Takes memory for fewer bytes where there is none for *@length together: some
 * whenever a block is free for that use.
 */
void *tei_stage_take_some(struct tei_stage *stage, enum tei_stage_use use,
			  uint64_t *length);
/* Gives back what was taken, as it was. */
void tei_stage_give(struct tei_stage *stage, enum tei_stage_use use,
		    void *memory, uint64_t length);

/* Tells whether there is no job of that way. */
static inline bool tei_stage_is_still(const struct tei_stage *stage,
				      enum tei_copy_way way)
{
	return tei_list_empty(&stage->ways[way].waiting) && !stage->ways[way].n;
}
/* Tells whether its context has died. Any thread. */
static inline bool tei_stage_is_broken(const struct tei_stage *stage)
{
	return atomic_load_explicit(&stage->broken, memory_order_relaxed);
}

/*
 * Makes what NICs have written to the GPU visible to work of it that runs
 * already. Any thread. Blocks: for the driver.
 */
void tei_stage_flush(struct tei_stage *stage);

/* Has turn() begin the job. */
void tei_stage_submit(struct tei_stage *stage, struct tei_stage_job *job);
/* Begins what waits, and ends what has been copied. True: something ended. */
bool tei_stage_turn(struct tei_stage *stage);

#endif
