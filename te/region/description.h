/* SPDX-License-Identifier: Apache-2.0 */
/*
 * description.h - a peer's description of itself: rails, regions and keys
 *
 * A snapshot is never changed once made, only replaced by the next one, so it
 * may be read by any thread that holds a reference.
 */
#ifndef TE_REGION_DESCRIPTION_H
#define TE_REGION_DESCRIPTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "te/backend.h"
#include "te/core/config.h"
#include "te/region/group.h"

#define TEI_REMOTE_CONTROL_MAX 8

struct te_engine;
struct Te__Description;

struct tei_blob {
	const uint8_t *bytes; /* NULL: none */
	size_t len;
};

struct tei_remote_rail {
	uint32_t index; /* the peer's number for it */
	char backend[16];
	uint64_t speed_bps;
	uint32_t match_len;
	uint8_t match[TEI_BLOB_MAX]; /* as its rail_describe() */
};

struct tei_remote_region {
	uint64_t id, addr, length;
	uint32_t access;
	uint64_t near; /* rails that are near it, a bit each; 0: unknown */
	char location[32];
	const struct tei_blob *key; /* key[n_rails] */
};

struct tei_remote {
	_Atomic uint32_t refs;
	/* Any thread writes refs, each worker its own of held. */
	char apart[TEI_CACHE_LINE];
	/* Holds of each worker's requests, under one reference. Token. */
	struct {
		uint32_t n;
		char apart[TEI_CACHE_LINE];
	} held[TEI_WORKERS_MAX];
	uint64_t version;
	bool epoch_ending; /* the next one is to come */
	uint32_t n_rails, n_control;
	size_t n_regions;
	/* Addresses of its control port, beside its name. */
	struct tei_address control[TEI_REMOTE_CONTROL_MAX];
	struct tei_remote_rail *rails;     /* rails[n_rails] */
	struct tei_remote_region *regions; /* by address, not overlapping */
	struct tei_blob *keys;
	uint8_t *bytes; /* what keys point to */
};

TEI_APART(struct tei_remote, refs, held); /* any thread; a worker each */

/*
 * Check and copy what came from outside; one reference. -EPROTO: columns of
 * different lengths, empty or overlapping regions, keys too long, addresses
 * that are none. -ENOMEM.
 */
int tei_remote_make(const struct Te__Description *from,
		    struct tei_remote **out);
struct tei_remote *tei_remote_get(struct tei_remote *remote);
void tei_remote_put(struct tei_remote *remote); /* NULL is fine */

/* Holds for requests, which come and go too fast for an atomic each. Token. */
static inline struct tei_remote *tei_remote_hold(struct tei_remote *remote,
						 uint32_t worker)
{
	if (!remote->held[worker].n++)
		tei_remote_get(remote);
	return remote;
}

static inline void tei_remote_release(struct tei_remote *remote,
				      uint32_t worker)
{
	if (remote && !--remote->held[worker].n)
		tei_remote_put(remote);
}

/* Tells whether the peer has a rail of @backend, reached or not. */
bool tei_remote_has_backend(const struct tei_remote *remote,
			    const char *backend);
/* The region that holds the whole range, or NULL. */
const struct tei_remote_region *tei_remote_find(const struct tei_remote *remote,
						uint64_t addr, uint64_t length);

/* ---- our own ---- */

/*
 * Describes the regions that a peer with the groups in @mask may see, in
 * @arena. Any thread. -ENOMEM.
 */
int tei_describe(struct te_engine *engine, tei_group_mask mask,
		 struct tei_arena *arena, struct Te__Description *out);
/* Describes this engine as a peer with all groups sees it. NULL: no memory. */
struct tei_remote *tei_describe_self(struct te_engine *engine);

#endif
