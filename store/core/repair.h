/* SPDX-License-Identifier: Apache-2.0 */
/* repair.h - replicas that were lost with their mount are made again */
#ifndef STORE_CORE_REPAIR_H
#define STORE_CORE_REPAIR_H

#include <stdint.h>

struct tes_core;
struct tes_object;

/* @o has lost a replica and has others. */
void tes_core_repair(struct tes_core *core, struct tes_object *o);
void tes_core_repair_over(struct tes_core *core, int32_t code);
/* Queue some of those that found no place in the queue. */
void tes_core_repair_some(struct tes_core *core, unsigned int *budget);

#endif
