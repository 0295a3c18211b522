/* SPDX-License-Identifier: Apache-2.0 */
/* evict.h - which object goes when space is short */
#ifndef STORE_CORE_EVICT_H
#define STORE_CORE_EVICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tei_core;
struct tei_object;
struct tei_tenant;
struct tei_wish;

/* A -200 that a fence or another writer may cure: when to ask again. */
#define TEI_CORE_RETRY_MS 20
/* What the starts of one event may spend on evicting, times step_objects. */
#define TEI_CORE_EFFORT 64

/* Before the starts of an event: they share an effort. */
void tei_core_evict_begin(struct tei_core *core);
/* As place(), evicting until there is room, nothing can go or effort is out. */
bool tei_core_place_or_evict(struct tei_core *core, struct tei_wish *wish,
			     struct tei_object *o);
/*
 * Make sure that @t may have @bytes more, evicting what it has. CODE_QUOTA: it
 * may not; CODE_FULL: the step has done its share.
 */
int32_t tei_core_afford(struct tei_core *core, struct tei_tenant *t,
			uint64_t bytes);
/* After place_or_evict() failed: in how many ms to try again; 0: never. */
uint32_t tei_core_retry_ms(const struct tei_core *core);
void tei_core_evict_tick(struct tei_core *core, unsigned int *budget);
/* As the tick, for about twice as many objects as were started: @n. */
void tei_core_make_room(struct tei_core *core, size_t n);
bool tei_core_evict_busy(const struct tei_core *core);

#endif
