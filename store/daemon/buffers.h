/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffers.h - memory of the daemon's that one dummy reads values from
 *
 * A memfd, sealed so that nobody but us, who have mapped it before, can ever
 * write to it. The dummy maps it read-only. Pieces are cut as low as they fit
 * and named by ids that are never used twice, so that a dummy may give back the
 * same one again. Pages that were written stay until the session ends: what is
 * charged to the daemon's bound is the highest byte that was ever cut.
 *
 * Threads: any, but for create and destroy.
 */
#ifndef STORE_DAEMON_BUFFERS_H
#define STORE_DAEMON_BUFFERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <te/store.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/thread.h"

#define TES_AGENT_BUFFERS_MAX 16384u /* pieces at a time */

/* Budget of all dummies together. */
struct tes_agent_budget {
	uint64_t max; /* 0: there are no buffers */
	_Atomic uint64_t used;
};

struct tes_agent_buffers {
	struct te_store *store;          /* not owned */
	struct tes_agent_budget *budget; /* not owned */
	int fd;
	uint8_t *base;
	uint64_t length;
	struct tei_mutex mu;    /* lock 37 */
	struct tei_list pieces; /* guarded by mu; by offset */
	struct tei_hash by_id;  /* guarded by mu */
	size_t n;               /* guarded by mu */
	uint64_t last_id;       /* guarded by mu */
	uint64_t charged;       /* guarded by mu: from the bottom */
};

struct tes_agent_buffer {
	uint64_t id;
	uint64_t offset;
	uint8_t *data;
};

/* -EOPNOTSUPP: none by the budget, or by the kernel; -ENOMEM, -EMFILE. */
int tes_agent_buffers_create(struct te_store *store,
			     struct tes_agent_budget *budget,
			     struct tes_agent_buffers **out);
/* Nobody uses a piece any more. NULL is fine. */
void tes_agent_buffers_destroy(struct tes_agent_buffers *buffers);

/* False: no room. */
bool tes_agent_buffer_cut(struct tes_agent_buffers *buffers, uint64_t length,
			  struct tes_agent_buffer *out);
/* Unknown ids are fine. */
void tes_agent_buffers_give_back(struct tes_agent_buffers *buffers,
				 const uint64_t *ids, size_t n);

#endif
