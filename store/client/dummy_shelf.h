/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dummy_shelf.h - values that lie in memory of the daemon's, mapped read-only
 *
 * A shelf belongs to a session; buffers of one that is over keep it until the
 * last is freed. What is freed waits on the shelf and is told with the next
 * call that reads into it, so that freeing never waits for anybody. Ids are
 * never used twice: telling one again does no harm.
 *
 * A call that was given up may be answered yet: its connection is kept, late,
 * and what that answer hands out goes back.
 */
#ifndef STORE_CLIENT_DUMMY_SHELF_H
#define STORE_CLIENT_DUMMY_SHELF_H

#include "store/client/dummy.h"

struct tei_shelf {
	struct tei_dummy *dummy;            /* not owned */
	uint8_t token[TEI_AGENT_TOKEN_LEN]; /* of its session */
	const uint8_t *base;                /* NULL: this session has none */
	uint64_t length;
	unsigned int refs;     /* guarded by dummy->mu: the dummy, buffers */
	struct tei_list freed; /* guarded by dummy->mu: buffers to be told */
};

/*
 * That of @conn's session, asked for when it is the first call of one; a
 * reference. NULL: the daemon lends none.
 */
struct tei_shelf *tei_shelf_get(struct tei_dummy *dummy,
				const struct tei_dummy_conn *conn,
				uint64_t deadline_ns);
void tei_shelf_put(struct tei_shelf *shelf);
/*
 * A buffer of @length bytes at @offset, freed by tei_buffer_destroy(). NULL:
 * not inside, or out of memory: then it is given back.
 */
struct te_store_buffer *tei_shelf_buffer(struct tei_shelf *shelf,
					 uint64_t offset, uint64_t length,
					 uint64_t id);

/* Take up to @max of those that wait to be told. Returns how many. */
size_t tei_shelf_take_freed(struct tei_shelf *shelf, struct tei_list *out,
			    uint64_t *ids, size_t max);
/* They have been told, or are to be told again. */
void tei_shelf_told(struct tei_shelf *shelf, struct tei_list *taken, bool told);

/*
 * @conn's call on the shelf was given up. True: there is its answer, whose
 * buffers go back, or none will come.
 */
bool tei_shelf_late(struct tei_dummy *dummy, struct tei_dummy_conn *conn)
	TEI_REQUIRES(dummy->mu);

#endif
