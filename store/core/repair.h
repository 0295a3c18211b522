/* SPDX-License-Identifier: Apache-2.0 */
/* repair.h - replicas that were lost with their mount are made again */
#ifndef STORE_CORE_REPAIR_H
#define STORE_CORE_REPAIR_H

#include <stdint.h>

struct tei_core;
struct tei_object;

/* @o has lost a replica and has others. */
void tei_core_repair(struct tei_core *core, struct tei_object *o);
void tei_core_repair_over(struct tei_core *core, int32_t code);
/* Queue some of those that found no place in the queue. */
void tei_core_repair_some(struct tei_core *core, unsigned int *budget);

#endif
