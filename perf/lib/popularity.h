/* SPDX-License-Identifier: Apache-2.0 */
/*
 * popularity.h - which of n things is asked for next
 *
 * Uniform, or by Zipf's law: thing i is asked for in proportion to
 * 1 / (i + 1)^theta. The same seed gives the same numbers everywhere.
 *
 * Threads: a popularity is constant; each thread draws with a state of its own.
 */
#ifndef PERF_LIB_POPULARITY_H
#define PERF_LIB_POPULARITY_H

#include <stdint.h>

struct tei_popularity {
	uint64_t n;
	double theta;
	double low, high; /* between these lies what is drawn from */
	double near;      /* so far above its middle a thing is always taken */
};

/* @n things, at least 1. @theta: 0 is uniform. */
void tei_popularity_init(struct tei_popularity *p, uint64_t n, double theta);
/* 0 .. n - 1, the most popular first. *@state: see tei_chance(). */
uint64_t tei_popularity_draw(const struct tei_popularity *p, uint64_t *state);

#endif
