/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work.h - what one put or get needs while it runs, kept for the next one
 *
 * An engine batch, room for extent headers, and two arenas, so that the usual
 * call takes no memory. One call of a thread uses one work at a time.
 */
#ifndef STORE_CLIENT_WORK_H
#define STORE_CLIENT_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/store.h>
#include <te/te.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/thread.h"
#include "store/client/addresses.h"
#include "store/client/places.h"
#include "store/proto/extent.h"

struct tes_work {
	struct tei_list link;            /* in works->idle, or in none */
	struct te_engine *engine;        /* not owned */
	struct tes_addresses *addresses; /* not owned: of the caller's memory */
	struct te_batch *batch;
	uint32_t capacity; /* of batch, headers, requests */
	uint32_t n;        /* requests of this round */
	uint8_t (*headers)[TES_EXTENT_HEADER_LEN];
	struct te_request *requests;
	struct tei_arena call;  /* lives as long as the call */
	struct tei_arena round; /* messages and pieces of one round */
};

#define TES_WORK_MAX 8192u /* requests at a time; more go in several runs */

struct tes_works {
	struct te_engine *engine; /* not owned, as the next */
	struct tes_addresses *addresses;
	struct tei_mutex mu;  /* lock 44 */
	struct tei_list idle; /* guarded by mu; most recently used first */
	unsigned int n_idle;  /* guarded by mu */
};

void tes_works_init(struct tes_works *works, struct te_engine *engine,
		    struct tes_addresses *addresses);
/* Frees all; to be called when every work has been put back. */
void tes_works_fini(struct tes_works *works);
/* Room for @n requests, 1 .. TES_WORK_MAX. NULL: out of memory. */
struct tes_work *tes_work_get(struct tes_works *works, size_t n);
void tes_work_put(struct tes_works *works, struct tes_work *work);
/* Drops all requests and frees the round's memory. */
void tes_work_next_round(struct tes_work *work);
/* Drops all requests, and makes room for @n. -ENOMEM: room is as before. */
int tes_work_next_run(struct tes_work *work, size_t n);

/*
 * Add a request for an extent: its header, then @bytes bytes of the value's
 * pieces from @skip on. The CRC of the data is taken. NULL: out of memory.
 */
struct te_request *tes_work_add(struct tes_work *work, uint32_t op,
				const struct te_store_value *value,
				uint64_t skip, uint64_t bytes);
/* The same without header and CRC, into or from @len bytes at @local. */
struct te_request *tes_work_add_plain(struct tes_work *work, uint32_t op,
				      void *local, uint64_t len);
/* Bytes that an owner moves at least in a ms: 64 MiB/s. */
#define TES_RATE_MIN (64u << 10)

/*
 * Extend the time limits of all requests by what their bytes take at
 * TES_RATE_MIN: they share one link. All by the same, as the engine deals with
 * requests of one deadline together. Returns by how long, in ns.
 */
uint64_t tes_work_extend_timeouts(struct tes_work *work);
/*
 * Submit all and wait until they have ended. A negative errno: none began.
 * Owners of whose requests none ends for a while are reported as silent, and
 * probed: those that do not answer lose their requests, long before these time
 * out. Probing begins when report_only_ms of @places have passed.
 */
int tes_work_run(struct tes_work *work, struct tes_places *places);
/* The same; once @over, asked now and then, says so, what has not ended is
 * cancelled. */
int tes_work_run_until(struct tes_work *work, struct tes_places *places,
		       bool (*over)(void *arg), void *arg);
/* The two halves of tes_work_run(): begin, and wait for all that has begun. */
int tes_work_post(struct tes_work *work, struct tes_places *places);
int tes_work_await(struct tes_work *work, struct tes_places *places);
/*
 * Tells whether a request failed since local memory that it names is not there
 * or protected: that is the caller's fault, and not the owner's. A GPU's is
 * there, and touched by nobody here. The request has ended with @error.
 */
bool tes_work_is_local_fault(const struct tes_work *work, uint32_t index,
			     int error);
/* Returns how request @index ended. */
void tes_work_result(struct tes_work *work, uint32_t index,
		     struct te_completion *out);

#endif
