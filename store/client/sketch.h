/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sketch.h - how often keys were asked for of late, in a fixed room
 *
 * A count-min sketch of bytes: a count may be too high, never too low, but for
 * the ageing: all counts are halved when as many were added as there is room
 * for. Threads: none of its own.
 */
#ifndef STORE_CLIENT_SKETCH_H
#define STORE_CLIENT_SKETCH_H

#include <stdint.h>

struct tes_sketch {
	uint8_t *counts; /* TES_SKETCH_ROWS of mask + 1 */
	uint32_t mask;
	uint32_t n_added, n_most; /* since they were halved; then they are */
};

#define TES_SKETCH_ROWS      4u
#define TES_SKETCH_WIDTH_MIN 1024u
#define TES_SKETCH_WIDTH_MAX 65536u

/* Makes a sketch for about @n keys. -ENOMEM. */
int tes_sketch_init(struct tes_sketch *sketch, uint64_t n);
void tes_sketch_fini(struct tes_sketch *sketch);
void tes_sketch_add(struct tes_sketch *sketch, uint64_t digest);
/* 0 .. 255 */
unsigned int tes_sketch_count(const struct tes_sketch *sketch, uint64_t digest);

#endif
