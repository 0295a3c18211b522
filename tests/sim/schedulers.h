/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedulers.h - other planners behind the interface of te/transfer/schedule.h
 *
 * A test that is linked with schedulers.c runs the engine with the planner of
 * its choice; all else of the engine is the same.
 */
#ifndef TESTS_SIM_SCHEDULERS_H
#define TESTS_SIM_SCHEDULERS_H

enum scheduler {
	SCHEDULER_OURS,
	/* Slices of 64 KiB in turn to every rail, posted as they come. */
	SCHEDULER_ROUND_ROBIN,
	/*
	 * Slices of 64 KiB, posted as they come, to the rail of the lowest
	 * (bytes in flight + length) / measured rate; each hundredth to any.
	 */
	SCHEDULER_EWMA,
	N_SCHEDULERS,
};

/* Which one plans from now on; forgets what it knew. */
void scheduler_use(enum scheduler scheduler);
const char *scheduler_name(enum scheduler scheduler);

#endif
