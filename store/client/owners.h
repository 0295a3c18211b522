/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owners.h - engines that we have open, by name and incarnation
 *
 * The master names the owner of an extent by its engine's name and the
 * incarnation that mounted it; only that very life has the bytes. Opening is
 * done once and kept. An owner that could not be reached is not tried again
 * for a moment, and then for a while only shortly, so that one dead owner costs
 * its timeout once. Whoever is found silent is told of: see silent.
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
	atomic_ullong shun_until_ns; /* it failed us; 0: it did not */
	atomic_ullong ask_ns;        /* shunned: not asked before */
	atomic_ullong told_ns;       /* silent() was called */
};

struct tes_owner_failure {
	struct tei_list link;
	char *name;
	uint64_t until_ns; /* it is not tried before, */
	uint64_t doubt_ns; /* nor with patience before */
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
/* Nobody holds an owner any more. */
void tes_owners_fini(struct tes_owners *owners);

/*
 * The open segment of that life of that engine; give it back with put().
 * Blocks: for the first contact, @timeout_ms at most. -ESTALE: another life
 * answers under the name; -ENOMEM and the errors of te_segment_open().
 */
int tes_owners_get(struct tes_owners *owners, const char *name,
		   const uint8_t incarnation[TE_INCARNATION_LEN],
		   uint32_t timeout_ms, struct tes_owner **out);
void tes_owners_put(struct tes_owners *owners, struct tes_owner *owner);
/* Takes one more reference to an owner that the caller holds. */
void tes_owners_ref(struct tes_owners *owners, struct tes_owner *owner);

/*
 * A breaker for readers: one that did not answer is shunned for a while, or
 * until it answers somebody.
 */
void tes_owners_failed(struct tes_owners *owners, struct tes_owner *owner);
void tes_owner_answered(struct tes_owner *owner);
/* Reports that @owner owes data and none comes: calls silent() now and then. */
void tes_owners_tell(struct tes_owners *owners, struct tes_owner *owner);
/*
 * Whether to read from it. Of a shunned one now and then somebody finds out,
 * which blocks for @timeout_ms at most, and for 100 ms; to all others it is no.
 */
bool tes_owners_try(struct tes_owners *owners, struct tes_owner *owner,
		    uint32_t timeout_ms);
/* Whether that life of that engine is shunned, or could not be opened. */
bool tes_owners_shunned(struct tes_owners *owners, const char *name,
			const uint8_t incarnation[TE_INCARNATION_LEN]);

#endif
