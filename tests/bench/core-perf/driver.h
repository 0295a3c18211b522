/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - a core with simulated clients
 *
 * Session 1 owns a segment, session 2 writes and reads, in batches of keys of
 * 64 bytes. No bytes are moved: what is measured is the master's logic alone.
 */
#ifndef PERF_CORE_PERF_DRIVER_H
#define PERF_CORE_PERF_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "store/core/core.h"

#define OWNER  1
#define WRITER 2
#define BATCH  128
#define KEY    64

struct batch {
	char text[BATCH][KEY];
	struct tes_core_key key[BATCH];
	uint64_t generation[BATCH];
};

struct driver {
	struct tes_core *core;
	struct tei_arena arena;
	struct tes_actions out;
	uint64_t now_ms;
	uint64_t busy_ns, worst_ns; /* CPU time of all steps; of the longest */
};

/* CPU time of this thread: others may be busy here too. */
uint64_t driver_cpu_ns(void);
/* Put key @i of the benchmark as key @at of @b. */
void batch_name(struct batch *b, size_t at, uint64_t i);

/* A pool of @bytes. -ENOMEM. */
int driver_init(struct driver *d, uint64_t bytes);
void driver_fini(struct driver *d);
/* One step; its reply, or NULL: it has none. Ends the program on an error. */
const struct tes_action *driver_step(struct driver *d, struct tes_event *ev);
/* Start and end a batch; how many were put. */
size_t driver_put(struct driver *d, struct batch *b, uint64_t size);
/* An event about the batch's keys; how many were there. */
size_t driver_ask(struct driver *d, struct batch *b, enum tes_event_type type);
/* Put keys @from .. @to - 1, all but the last batch full. */
size_t driver_fill(struct driver *d, uint64_t from, uint64_t to, uint64_t size,
		   const char *what);
/* Bytes in the pool of an object of @size. */
uint64_t driver_room(uint64_t size);
struct tes_core_figures driver_figures(const struct driver *d);

#endif
