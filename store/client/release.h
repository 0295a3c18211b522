/* SPDX-License-Identifier: Apache-2.0 */
/*
 * release.h - tells the master which reads are over, so that leases end early
 */
#ifndef STORE_CLIENT_RELEASE_H
#define STORE_CLIENT_RELEASE_H

#include "store/client/client.h"
#include "store/proto/keys.h"
#include "store/proto/store.pb-c.h"

struct tes_release {
	Store__Release msg;
	struct tes_key_column column;
};

/* Makes room for @n objects with @bytes bytes of keys, in @arena. -ENOMEM. */
int tes_release_init(struct tes_release *release, struct tei_arena *arena,
		     size_t n, size_t bytes);

/* The reads of one object are over. Copies the key. */
void tes_release_add(struct tes_release *release,
		     const struct te_store_key *key, uint64_t generation,
		     uint64_t gen_epoch);

/*
 * Tells the master, if there is anything to tell and a connection to tell it
 * by: leases that nobody gives back end by time. Threads: any. Does not block.
 */
void tes_release_tell(struct tes_release *release, struct te_store *store,
		      struct tei_arena *arena);

/*
 * The same for a get of @bytes, after which another request is likely to come.
 * A release of one small object then goes with that request, see
 * tes_channel_tell_later(). Until it goes the object cannot be evicted, so
 * others go at once.
 */
void tes_release_tell_later(struct tes_release *release, struct te_store *store,
			    struct tei_arena *arena, uint64_t bytes);

#endif
