/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owners.h - engines that we have open, by name and incarnation
 *
 * The master names the owner of an extent by its engine's name and the
 * incarnation that mounted it; only that very life has the bytes. Opening is
 * done once and kept. An owner that could not be reached is not tried again
 * for a moment, so that one dead owner costs its timeout once.
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

struct tei_owner {
	struct tei_list link; /* in owners->list; in none once replaced */
	char *name;
	uint8_t incarnation[TE_INCARNATION_LEN];
	te_segment_id segment;
	unsigned int refs; /* guarded by owners->mu; the list has one */
	atomic_ullong shun_until_ns; /* it failed us; 0: it did not */
};

struct tei_owner_failure {
	struct tei_list link;
	char *name;
	uint64_t until_ns;
	int error;
};

struct tei_owners {
	struct te_engine *engine; /* not owned */
	struct tei_mutex mu;      /* lock 43 */
	struct tei_list list;     /* guarded by mu; most recently used first */
	struct tei_list failures; /* guarded by mu */
	unsigned int n, n_failures; /* guarded by mu */
};

void tei_owners_init(struct tei_owners *owners, struct te_engine *engine);
/* Nobody holds an owner any more. */
void tei_owners_fini(struct tei_owners *owners);

/*
 * The open segment of that life of that engine; give it back with put().
 * Blocks: for the first contact, @timeout_ms at most. -ESTALE: another life
 * answers under the name; -ENOMEM and the errors of te_segment_open().
 */
int tei_owners_get(struct tei_owners *owners, const char *name,
		   const uint8_t incarnation[TE_INCARNATION_LEN],
		   uint32_t timeout_ms, struct tei_owner **out);
void tei_owners_put(struct tei_owners *owners, struct tei_owner *owner);
/* One more reference to an owner that the caller holds. */
void tei_owners_ref(struct tei_owners *owners, struct tei_owner *owner);
/* It turned out to be gone: the next get() opens anew. */
void tei_owners_drop(struct tei_owners *owners, struct tei_owner *owner);

/*
 * A breaker for readers, who have a choice: one that did not answer is shunned
 * for a while, or until it answers somebody.
 */
void tei_owner_failed(struct tei_owner *owner);
void tei_owner_answered(struct tei_owner *owner);
/* Whether that life of that engine is shunned, or could not be opened. */
bool tei_owners_shunned(struct tei_owners *owners, const char *name,
			const uint8_t incarnation[TE_INCARNATION_LEN]);

#endif
