/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts.h - what te-core-perf measures; each adds its figures. -ENOMEM.
 */
#ifndef PERF_CORE_PERF_PARTS_H
#define PERF_CORE_PERF_PARTS_H

#include "tests/bench/core-perf/figures.h"
#include "tests/bench/core-perf/options.h"

/* Puts into room and at a full pool, questions, memory, all of one pool. */
int measure_objects(const struct options *o, struct figures *f);
/* How long the steps are while an owner's objects go. */
int measure_expiry(const struct options *o, struct figures *f);
/* How long the steps of walks through all objects are. */
int measure_walks(const struct options *o, struct figures *f);
/* The policy's touch. */
int measure_touch(const struct options *o, struct figures *f);
/* The allocator alone. */
int measure_space(const struct options *o, struct figures *f);

#endif
