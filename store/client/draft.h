/* SPDX-License-Identifier: Apache-2.0 */
/*
 * draft.h - objects that are being put in parts
 *
 * A draft has extents at owners, and a generation, but is no object yet: the
 * master waits for its end. Parts are written in any order; which bytes are
 * there is kept here, so that nothing with holes, in which another object's
 * bytes would be, is ever committed. A replica to which a write has failed gets
 * no more; one that is left suffices.
 *
 * Threads: any. One commit or abort of a draft at a time, and none while its
 * parts are written.
 */
#ifndef STORE_CLIENT_DRAFT_H
#define STORE_CLIENT_DRAFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/thread.h"
#include "store/client/layout.h"
#include "store/client/owners.h"

/* Place where an owner's extents of a draft are reached. */
struct tes_draft_place {
	struct tes_owner *owner; /* a reference */
	uint64_t epoch;          /* under which all is written */
};

/* Bytes from .. to - 1 are there. */
struct tes_draft_part {
	uint64_t from, to;
};

struct tes_draft {
	struct tei_hash_node node; /* hash: the key's, with seed 0 */
	uint8_t *key;              /* key[key_len] */
	uint32_t key_len;
	uint64_t generation, epoch, size;
	/* Extents' places are indices into places. */
	struct tes_layout layout;
	struct tes_draft_place *places; /* places[n_places] */
	uint32_t n_places;
	/* Guarded by drafts->mu. */
	unsigned int n_writers;
	uint32_t alive; /* mask of replicas that have got everything */
	uint32_t loud;  /* of those that something may still reach */
	bool no_crc;    /* some parts came out of order, or again */
	/* Bytes of each extent that its crc is of; crc_to[n_extents]. */
	uint64_t *crc_to;
	struct tes_draft_part *parts; /* parts[n_parts], apart, in order */
	size_t n_parts, room;
};

struct tes_drafts {
	struct tes_owners *owners; /* not owned */
	struct tei_mutex mu;       /* lock 48 */
	struct tei_hash table;     /* guarded by mu */
};

/* -ENOMEM. */
int tes_drafts_init(struct tes_drafts *drafts, struct tes_owners *owners);
void tes_drafts_fini(struct tes_drafts *drafts);

#endif
