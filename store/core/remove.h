/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remove.h - walks of remove_all, which take many steps
 */
#ifndef STORE_CORE_REMOVE_H
#define STORE_CORE_REMOVE_H

#include <stdbool.h>

struct tes_actions;
struct tes_core;

/*
 * Unconfirmed burials of one walk before it waits for owners. They may confirm
 * all at once, which is some milliseconds of work.
 */
#define TES_CORE_WALK_GRAVES 4096

void tes_core_walks_tick(struct tes_core *core, unsigned int *budget);
/* Append the replies of walks that have ended. */
void tes_core_walks_flush(struct tes_core *core, struct tes_actions *out);
/* True: some walk can go on; the others wait for owners. */
bool tes_core_walking(const struct tes_core *core);
void tes_core_walks_free(struct tes_core *core);

#endif
