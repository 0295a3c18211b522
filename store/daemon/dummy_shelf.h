/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dummy_shelf.h - values that lie in memory of the daemon's, mapped read-only
 *
 * A shelf belongs to a session; buffers of one that is over keep it until the
 * last is freed. Freed ones wait on the shelf and are reported with the next
 * call that reads into it, so that freeing never waits. Ids are never used
 * twice: a report that is repeated does no harm.
 *
 * A call that was given up may be answered yet: its connection is kept, late,
 * and what that answer hands out goes back.
 */
#ifndef STORE_DAEMON_DUMMY_SHELF_H
#define STORE_DAEMON_DUMMY_SHELF_H

#include "store/daemon/dummy.h"

struct tes_shelf {
	struct tes_dummy *dummy;            /* not owned */
	uint8_t token[TES_AGENT_TOKEN_LEN]; /* of its session */
	const uint8_t *base;                /* NULL: this session has none */
	uint64_t length;
	unsigned int refs; /* guarded by dummy->mu: the dummy, buffers */
	struct tei_list
		freed; /* guarded by dummy->mu: buffers to be reported */
};

/*
 * Returns a reference to the shelf of @conn's session, which the first call of
 * a session asks for. NULL: the daemon lends none.
 */
struct tes_shelf *tes_shelf_get(struct tes_dummy *dummy,
				const struct tes_dummy_conn *conn,
				uint64_t deadline_ns);
void tes_shelf_put(struct tes_shelf *shelf);
/*
 * A buffer of @length bytes at @offset, freed by tes_buffer_destroy(). NULL:
 * not inside, or out of memory: then it is given back.
 */
struct te_store_buffer *tes_shelf_buffer(struct tes_shelf *shelf,
					 uint64_t offset, uint64_t length,
					 uint64_t id);

/* Takes up to @max buffers that are to be reported. Returns how many. */
size_t tes_shelf_take_freed(struct tes_shelf *shelf, struct tei_list *out,
			    uint64_t *ids, size_t max);
/* Frees buffers that were reported; @done false: reports them again. */
void tes_shelf_reported(struct tes_shelf *shelf, struct tei_list *taken,
			bool done);

/*
 * @conn's call on the shelf was given up. True: there is its answer, whose
 * buffers go back, or none will come.
 */
bool tes_shelf_late(struct tes_dummy *dummy, struct tes_dummy_conn *conn)
	TEI_REQUIRES(dummy->mu);

#endif
