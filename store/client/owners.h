/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owners.h - engines of owners that this client has open
 *
 * The master names the owner of an extent by its engine's name and the
 * incarnation that mounted it: only that very process has the bytes. An owner
 * is opened once and kept. One that could not be reached is not tried again for
 * a moment, and then for a while with a short timeout, so that a dead owner
 * costs its full timeout once. Silent owners are reported: see silent.
 *
 * Threads: any.
 */
#ifndef STORE_CLIENT_OWNERS_H
#define STORE_CLIENT_OWNERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <te/te.h>

#include "base/list.h"
#include "base/thread.h"

struct tes_owner {
	struct tei_list link; /* in owners->list; in none once replaced */
	char *name;
	uint8_t incarnation[TE_INCARNATION_LEN];
	te_segment_id segment;
	unsigned int refs; /* guarded by owners->mu; the list has one */
	atomic_ullong avoid_until_ns; /* a request failed; 0: none did */
	atomic_ullong probe_ns;       /* avoided: not probed before */
	atomic_ullong reported_ns;    /* when silent() is next due */
};

struct tes_owner_failure {
	struct tei_list link;
	char *name;
	uint64_t until_ns; /* not tried before */
	uint64_t doubt_ns; /* tried with a short timeout before */
	int error;
};

struct tes_owners {
	struct te_engine *engine; /* not owned */
	/*
	 * Reports that the engine of this incarnation does not answer. Called a
	 * few times a second at most, in any thread, without locks. May be
	 * NULL.
	 */
	void (*silent)(void *arg,
		       const uint8_t incarnation[TE_INCARNATION_LEN]);
	void *silent_arg;
	struct tei_mutex mu;      /* lock 43 */
	struct tei_list list;     /* guarded by mu; most recently used first */
	struct tei_list failures; /* guarded by mu */
	unsigned int n, n_failures; /* guarded by mu */
};

void tes_owners_init(struct tes_owners *owners, struct te_engine *engine);
/* Every owner has been put back. */
void tes_owners_fini(struct tes_owners *owners);

/*
 * Opens the segment of that incarnation; give it back with put().
 * Blocks: for the first contact, @timeout_ms at most. -ESTALE: another
 * incarnation answers under the name; -ENOMEM; errors of te_segment_open().
 */
int tes_owners_get(struct tes_owners *owners, const char *name,
		   const uint8_t incarnation[TE_INCARNATION_LEN],
		   uint32_t timeout_ms, struct tes_owner **out);
void tes_owners_put(struct tes_owners *owners, struct tes_owner *owner);
/* Takes one more reference to an owner that the caller holds. */
void tes_owners_ref(struct tes_owners *owners, struct tes_owner *owner);

/*
 * A breaker for readers: an owner that did not answer is avoided for 2 s, or
 * until it answers any request of this client.
 */
void tes_owners_failed(struct tes_owners *owners, struct tes_owner *owner);
void tes_owner_answered(struct tes_owner *owner);
/* Reports that @owner owes data and sends none; calls silent() if it is due. */
void tes_owners_report(struct tes_owners *owners, struct tes_owner *owner);
/*
 * Tells whether to read from @owner. One caller in 250 ms probes an avoided
 * one: that blocks for @timeout_ms and 100 ms at most; the others get false.
 */
bool tes_owners_try(struct tes_owners *owners, struct tes_owner *owner,
		    uint32_t timeout_ms);
/* Tells whether that incarnation is avoided, or could not be opened lately. */
bool tes_owners_avoided(struct tes_owners *owners, const char *name,
			const uint8_t incarnation[TE_INCARNATION_LEN]);

#endif
