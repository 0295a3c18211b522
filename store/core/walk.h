/* SPDX-License-Identifier: Apache-2.0 */
/* walk.h - removes that look at the whole table */
#ifndef STORE_CORE_WALK_H
#define STORE_CORE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "store/core/core.h"

struct tes_tenant;
struct tes_waiter;

/* Of a walk, that are not confirmed: then it waits for the owners. They may
 * confirm all at once, which is some milliseconds of work. */
#define TES_CORE_WALK_GRAVES 4096

/* A remove_all under way. */
struct tes_walk {
	struct tei_list link; /* core's walks */
	tes_session_id session;
	uint64_t cookie, removed;
	size_t cursor;
	struct tes_tenant *tenant;
	bool force, done;
	struct tes_waiter *waiter; /* counts what is to be buried */
	tes_core_match_fn *match;
	void *arg;
};

/* A walk begins, or is refused with a reply at once. -ENOMEM: of the arena. */
int tes_core_on_remove_all(struct tes_core *core, const struct tes_event *ev,
			   struct tes_actions *out);
void tes_core_walks_tick(struct tes_core *core, unsigned int *budget);
/* The replies of walks that are through. */
void tes_core_walks_flush(struct tes_core *core, struct tes_actions *out);
/* Whether there is one to go on with: others wait for owners. */
bool tes_core_walking(const struct tes_core *core);
void tes_core_walks_free(struct tes_core *core);

#endif
