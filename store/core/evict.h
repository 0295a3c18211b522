/* SPDX-License-Identifier: Apache-2.0 */
/* evict.h - which object goes when space is short */
#ifndef STORE_CORE_EVICT_H
#define STORE_CORE_EVICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tes_core;
struct tes_object;
struct tes_tenant;
struct tes_wish;

/* A -200 that a fence or another writer may cure: when to ask again. */
#define TES_CORE_RETRY_MS 20
/* What the starts of one event may spend on evicting, times step_objects. */
#define TES_CORE_EFFORT 64

/* Before the starts of an event: they share an effort. */
void tes_core_evict_begin(struct tes_core *core);
/* As place(), evicting until there is room, nothing can go or effort is out. */
bool tes_core_place_or_evict(struct tes_core *core, struct tes_wish *wish,
			     struct tes_object *o);
/*
 * Make sure that @t may have @bytes more, evicting what it has. CODE_QUOTA: it
 * may not; CODE_FULL: the step has done its share.
 */
int32_t tes_core_afford(struct tes_core *core, struct tes_tenant *t,
			uint64_t bytes);
/* After place_or_evict() failed: in how many ms to try again; 0: never. */
uint32_t tes_core_retry_ms(const struct tes_core *core);
void tes_core_evict_tick(struct tes_core *core, unsigned int *budget);
/* As the tick, for about twice as many objects as were started: @n. */
void tes_core_make_room(struct tes_core *core, size_t n);
bool tes_core_evict_busy(const struct tes_core *core);

#endif
