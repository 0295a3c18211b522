/* SPDX-License-Identifier: Apache-2.0 */
/*
 * causes.h - what a work completion's status means, and whose fault it is
 *
 * Three things can be at fault: this device, the way between two rails, the
 * peer. A request that is wrong in itself, or that was taken along when its
 * queue pair ended, accuses none of them.
 */
#ifndef VERBS_CAUSES_H
#define VERBS_CAUSES_H

#include <infiniband/verbs.h>

enum verbs_fault {
	VERBS_FAULT_NONE,    /* flushed: something else came first */
	VERBS_FAULT_REQUEST, /* its memory, its range, its key */
	VERBS_FAULT_DEVICE,
	VERBS_FAULT_PATH, /* this pair of rails */
	VERBS_FAULT_PEER,
};

struct verbs_cause {
	int slice;    /* what the slice ends with */
	int endpoint; /* what its endpoint goes down with */
	enum verbs_fault fault;
	const char *text; /* lower case, for logs */
};

/* Never NULL; @status may be one that nobody knows. Pure. */
const struct verbs_cause *tei_verbs_cause(enum ibv_wc_status status);
const char *tei_verbs_fault_name(enum verbs_fault fault);

#endif
