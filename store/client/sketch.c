/* SPDX-License-Identifier: Apache-2.0 */
/* sketch.c - how often keys were asked for of late, in a fixed room */
#include "store/client/sketch.h"

#include <errno.h>
#include <stddef.h>

#include "base/mem.h"

#define ADDED_PER_WIDTH 10u

int tes_sketch_init(struct tes_sketch *sketch, uint64_t n)
{
	uint32_t width = TES_SKETCH_WIDTH_MIN;

	while (width < n && width < TES_SKETCH_WIDTH_MAX)
		width *= 2;
	sketch->counts = tei_calloc(TES_SKETCH_ROWS, width);
	sketch->mask = width - 1;
	sketch->n_added = 0;
	sketch->n_most = ADDED_PER_WIDTH * width;
	return sketch->counts ? 0 : -ENOMEM;
}

void tes_sketch_fini(struct tes_sketch *sketch)
{
	tei_free(sketch->counts);
	sketch->counts = NULL;
}

static size_t place(const struct tes_sketch *sketch, uint64_t digest,
		    uint32_t row)
{
	uint32_t step = (uint32_t)(digest >> 32) | 1;

	return (size_t)row * (sketch->mask + 1) +
	       (((uint32_t)digest + row * step) & sketch->mask);
}

static void halve(struct tes_sketch *sketch)
{
	size_t n = (size_t)TES_SKETCH_ROWS * (sketch->mask + 1), i;

	for (i = 0; i < n; i++)
		sketch->counts[i] /= 2;
	sketch->n_added /= 2;
}

unsigned int tes_sketch_count(const struct tes_sketch *sketch, uint64_t digest)
{
	unsigned int least = UINT8_MAX;

	for (uint32_t row = 0; row < TES_SKETCH_ROWS; row++) {
		unsigned int count = sketch->counts[place(sketch, digest, row)];

		if (count < least)
			least = count;
	}
	return least;
}

/* Only the least of its counts grow: what others have added stays theirs. */
void tes_sketch_add(struct tes_sketch *sketch, uint64_t digest)
{
	unsigned int least = tes_sketch_count(sketch, digest);

	for (uint32_t row = 0; row < TES_SKETCH_ROWS; row++) {
		uint8_t *count = &sketch->counts[place(sketch, digest, row)];

		if (*count == least && least < UINT8_MAX)
			++*count;
	}
	if (++sketch->n_added >= sketch->n_most)
		halve(sketch);
}
