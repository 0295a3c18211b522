/* SPDX-License-Identifier: Apache-2.0 */
/*
 * addresses.h - memory that callers name by an address and a length
 *
 * The rule is the same for every call that is given such memory, whatever way
 * its bytes take: what begins in registered memory must end in the same
 * registration; all of it must be mapped so that the call may use it, or be
 * registered and a GPU's. A call that fails the check is refused with -600
 * before it changes anything.
 *
 * A check costs one system call for each registration that a call names, and
 * up to three for each stretch of other memory, however many pieces lie there.
 * The check looks at each piece in a registration that is not usable as a
 * whole.
 *
 * Memory may still be unmapped after the check. The check does not notice that
 * access was taken away from registered memory, or that a file was made shorter
 * between the ends of a stretch; before Linux 6.11 nor memory that may not be
 * written to, between the ends of a stretch that is read into.
 *
 * Threads: any; init and fini set-up only.
 */
#ifndef STORE_CLIENT_ADDRESSES_H
#define STORE_CLIENT_ADDRESSES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/store.h>

#include "base/thread.h"
#include "store/client/buffers.h"

/* Registered memory of the caller's. */
struct tes_registration {
	uint64_t begin, end;
	int protection; /* PROT_* of all of it, when it was registered */
	bool is_gpu;    /* no processor may touch it; the driver vouches */
	bool is_whole;  /* its registration is complete */
	te_region_id region;
	uint64_t found_by; /* the last check that found all of it usable */
};

struct tes_addresses {
	int maps;                    /* tei_maps_open(); fixed */
	struct tei_mutex mu;         /* lock 55 */
	struct tes_registration *at; /* at[n], by address; guarded by mu */
	size_t n, room;              /* guarded by mu */
	_Atomic uint64_t n_checks;   /* relaxed: names a check */
	_Atomic bool any_gpu; /* relaxed: some registration was a GPU's */
	/*
	 * Memory that a dummy shares with the daemon: the caller's up to
	 * @pool_end, the store's own up to @shared_end. Fixed; 0: none.
	 */
	uint64_t pool_begin, pool_end, shared_end;
	struct tes_buffers *pool; /* not owned: the caller's, cut; or NULL */
};

void tes_addresses_init(struct tes_addresses *a);
void tes_addresses_fini(struct tes_addresses *a);

/*
 * Begins a registration: nobody else gets the range. -EINVAL (it overlaps
 * another one), -ENOMEM. Then keep() or remove() it.
 */
int tes_addresses_add(struct tes_addresses *a, uint64_t addr, uint64_t length);
void tes_addresses_keep(struct tes_addresses *a, uint64_t addr,
			te_region_id region, bool is_gpu);
/* Tells whether the byte at @addr is registered, and a GPU's. */
bool tes_addresses_is_gpu(struct tes_addresses *a, const void *addr);
void tes_addresses_remove(struct tes_addresses *a, uint64_t addr);
/*
 * Takes out the registration that begins at @addr, if it is complete, or, with
 * @addr 0, any. False: there is none.
 */
bool tes_addresses_take(struct tes_addresses *a, uint64_t addr,
			te_region_id *region);
/*
 * Returns the bytes from @addr to the end of its registration, or of the piece
 * of a dummy's memory that the caller was given; 0: it is in neither.
 */
uint64_t tes_addresses_left(struct tes_addresses *a, uint64_t addr);

/* Memory that a call names: of values[n] or ranges[n]; the other is NULL. */
struct tes_named {
	const struct te_store_value *values;
	const struct te_store_range *ranges;
	const int64_t *skip; /* or NULL; not 0: the item is refused already */
	size_t n;
	bool writable; /* the call writes to it */
};

/*
 * Sets bad[i], which is false at first, for items whose memory is refused.
 * Values that are malformed (tes_value_bytes()) are passed over.
 */
void tes_addresses_check(struct tes_addresses *a, const struct tes_named *named,
			 bool *bad);

#endif
