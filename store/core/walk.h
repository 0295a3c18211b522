/* SPDX-License-Identifier: Apache-2.0 */
/* walk.h - removes that look at the whole table */
#ifndef STORE_CORE_WALK_H
#define STORE_CORE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "store/core/core.h"

struct tei_tenant;
struct tei_waiter;

/* Of a walk, that are not confirmed: then it waits for the owners. They may
 * confirm all at once, which is some milliseconds of work. */
#define TEI_CORE_WALK_GRAVES 4096

/* A remove_all under way. */
struct tei_walk {
	struct tei_list link; /* core's walks */
	tei_session_id session;
	uint64_t cookie, removed;
	size_t cursor;
	struct tei_tenant *tenant;
	bool force, done;
	struct tei_waiter *waiter; /* counts what is to be buried */
	tei_core_match_fn *match;
	void *arg;
};

/* A walk begins, or is refused with a reply at once. -ENOMEM: of the arena. */
int tei_core_on_remove_all(struct tei_core *core, const struct tei_event *ev,
			   struct tei_actions *out);
void tei_core_walks_tick(struct tei_core *core, unsigned int *budget);
/* The replies of walks that are through. */
void tei_core_walks_flush(struct tei_core *core, struct tei_actions *out);
/* Whether there is one to go on with: others wait for owners. */
bool tei_core_walking(const struct tei_core *core);
void tei_core_walks_free(struct tei_core *core);

#endif
