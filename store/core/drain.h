/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.h - mounts are emptied: jobs of operators, and owners that leave
 *
 * Tasks move the replicas on the mounts of a drain to others, a few at a time.
 * They are found by walks over the mounts' extents, in ticks and when a task is
 * over:
 *
 *   CREATED --tick--> PLANNING --all counted--> RUNNING --nothing left-->
 *   SUCCEEDED; or only replicas that were given up --> FAILED; CANCELED by its
 *   user
 *
 * A replica that cannot be moved now is blocked, and the next walk looks again.
 * When for a lease's time there was nothing else to move, leases block nothing
 * more for one walk: an object that is read all the time has always one. A
 * drain ends without waiting for the copies that are under way: each ends as a
 * task does, and counts.
 *
 * When an owner leaves (`leaving`), leases and pins block nothing: its mount
 * goes, with every replica that is still there.
 */
#ifndef STORE_CORE_DRAIN_H
#define STORE_CORE_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct tes_core;
struct tes_core_drain;
struct tes_event;
struct tes_actions;
struct tes_mount;
struct tes_object;

/*
 * Jobs that are active at a time, and as many of owners that leave. One client
 * has its share of those; where all are taken, who has none may still have one.
 */
#define TES_DRAINS_MAX   256u
#define TES_DRAINS_EACH  16u
#define TES_DRAINS_ENDED 256u /* jobs that are remembered */
/* Limit of what an owner that leaves may wait for; clients ask for no more. */
#define TES_DRAIN_LEAVE_MAX_MS 600000u
#define TES_DRAIN_TRIES \
	4u /* attempts for a replica: the first, and three more */
/* Copied replicas of a job whose readers are waited for. */
#define TES_DRAIN_PARTING_MAX 1024u

/* Findings of the walk under way. */
struct tes_drain_pass {
	bool under_way;
	bool started, hurt; /* begun a task; one failed */
	bool impatient;     /* leases block nothing */
	size_t at;          /* index into sources */
	uint64_t left, blocked, failed;
};

struct tes_drain {
	struct tei_list link; /* in a list of tes_drains */
	uint64_t number;
	uint8_t state; /* enum tes_drain_state */
	bool leaving;
	bool lost;            /* a mount went before it was empty */
	int32_t code;         /* FAILED: why; before: of the last failure */
	uint64_t session;     /* leaving: whose; to be answered ... */
	uint64_t cookie;      /* ... with this ... */
	uint64_t deadline_ms; /* ... by then */
	unsigned int at_a_time;
	uint64_t created_ms, updated_ms; /* caller's clock */
	uint64_t total, moved, failed, blocked, active, left, moved_bytes;
	uint64_t parting; /* part of active: copied, only readers remain */
	struct tes_drain_pass pass;
	uint64_t next_ms;  /* the next walk starts then */
	uint64_t moved_ms; /* a task was begun last */
	size_t bytes;      /* allocated for all this */
	size_t n_sources, n_targets, n_names;
	uint64_t *sources; /* serials of mounts; these three are behind it */
	uint64_t *targets; /* if none, any mount */
	const char **names;
};

struct tes_drains {
	struct tei_list active;
	struct tei_list ended;    /* jobs, oldest first */
	struct tei_list answers;  /* leaving ones that have ended */
	size_t n_active, n_ended; /* n_active: with answers */
	size_t n_leaving;         /* of n_active: owners that leave */
	uint64_t number;          /* number of the last drain */
};

void tes_core_drains_free(struct tes_core *core);
/* Called when a task of a drain has made its copy, which waits for readers of
 * the source. Returns the task's new cookie. */
uint64_t tes_core_drain_copied(struct tes_core *core, uint64_t cookie);
/* Called when a task of a drain has ended; @object: NULL when it is no more. */
void tes_core_drain_over(struct tes_core *core, uint64_t cookie,
			 struct tes_object *object, int32_t code);
void tes_core_drains_tick(struct tes_core *core, unsigned int *budget);
bool tes_core_drains_busy(const struct tes_core *core);
/* Append the replies to owners that may go now. */
void tes_core_drains_flush(struct tes_core *core, struct tes_actions *out);

#endif
