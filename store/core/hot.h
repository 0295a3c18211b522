/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hot.h - dynamic replication: hot objects get further replicas
 *
 * Look-ups are counted per object in a table of fixed size, in windows of time.
 * An object that is looked up as often as the threshold says is proposed; when
 * replicas are to be made (ENFORCE) a tick makes a task of it, as long as the
 * pool has room. Objects that the table has no place for are not seen: those
 * that are looked up least go first.
 *
 * A replica that was made so and is no longer asked for is given back when the
 * pool fills; eviction comes later, and takes objects as a whole.
 */
#ifndef STORE_CORE_HOT_H
#define STORE_CORE_HOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tes_core;
struct tes_object;

#define TES_HOT_WAYS  4u
#define TES_HOT_SETS  16384u
#define TES_HOT_QUEUE 8192u  /* proposals that wait */
#define TES_HOT_MADE  65536u /* replicas that are remembered */

/* Look-ups of one object. */
struct tes_hot_slot {
	uint32_t tag;         /* from its hash; 0 count and tag: free */
	uint32_t quiet_s;     /* no proposal before, in s of the core's clock */
	uint16_t window;      /* the window of `count` */
	uint16_t count, last; /* last: in the window before */
};

/* An object that may be gone by now. */
struct tes_hot_object {
	uint64_t hash, generation;
};

/* Object that got a replica. */
struct tes_hot_made {
	struct tes_hot_object name;
	uint64_t until_ms; /* replica is not given back before */
};

struct tes_hot_keys {
	struct tes_hot_slot *slots; /* NULL: off */
	uint16_t threshold;         /* look-ups of a window */
	uint16_t window;            /* current window */
	uint64_t window_end_ms;
	struct tes_hot_object *queue; /* queue[TES_HOT_QUEUE], circular */
	size_t first, n;
	struct tes_hot_made *made; /* made[n_made], in no order */
	size_t n_made, cursor;
};

/* Allocates as the configuration says. -ENOMEM. */
int tes_core_hot_init(struct tes_core *core);
void tes_core_hot_fini(struct tes_core *core);

/* @o was looked up; only when there are slots. */
void tes_core_hot_touch(struct tes_core *core, const struct tes_object *o);
void tes_core_hot_tick(struct tes_core *core);
/* Called when a task has ended, whose cookie is the generation. @o: or NULL. */
void tes_core_hot_over(struct tes_core *core, const struct tes_object *o,
		       int32_t code);

#endif
