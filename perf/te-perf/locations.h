/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locations.h - locations of one side's memory, and where each byte of it lies
 *
 * A side has a part of the same length at each of its locations. Its bytes have
 * positions, from the first part's begin on to the last one's end.
 */
#ifndef PERF_TE_PERF_LOCATIONS_H
#define PERF_TE_PERF_LOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

#define LOCATIONS_MAX 16
#define LOCATION_LEN  16  /* of a name, with its end */
#define LOCATIONS_LEN 256 /* of a list, with its end */

struct locations {
	uint32_t n;
	char name[LOCATIONS_MAX][LOCATION_LEN]; /* each once */
};

/*
 * Reads a list as "cuda:0,cpu:1"; NULL is "*". Returns NULL, or static words
 * that tell what is wrong with it.
 */
const char *locations_parse(struct locations *out, const char *text);
/* Tells whether one of them, or one name, is of a GPU; else of the host. */
bool locations_have_gpu(const struct locations *l);
bool location_is_gpu(const char *name);
/* Writes the list as it is given to a target. */
void locations_text(const struct locations *l, char out[LOCATIONS_LEN]);

struct side {
	uint32_t n;
	uint64_t span;              /* bytes of a part, whole words */
	uint64_t at[LOCATIONS_MAX]; /* addresses of the parts */
};

/* Returns the bytes of each of @n parts, of @len together or a few more. */
static inline uint64_t side_span(uint64_t len, uint32_t n)
{
	return ((len + n - 1) / n + 7) & ~7ull;
}

/* Returns the address of the byte at a position. */
static inline uint64_t side_at(const struct side *s, uint64_t position)
{
	return s->at[position / s->span] + position % s->span;
}

/* Returns share @i of @n of a side: of each of its parts, in whole words. */
struct side side_share(const struct side *s, uint32_t i, uint32_t n);

/* Returns the bytes from a position on to the end of its part. */
static inline uint64_t side_left(const struct side *s, uint64_t position)
{
	return s->span - position % s->span;
}

/* Returns how many places of @stride bytes all parts have together. */
static inline uint64_t side_places(const struct side *s, uint64_t stride)
{
	return s->n * (s->span / stride);
}

/* Returns the position of a place; places take the parts by turns. */
static inline uint64_t side_place(const struct side *s, uint64_t stride,
				  uint64_t place)
{
	if (s->n == 1) /* saves two divisions a request */
		return place * stride;
	return place % s->n * s->span + place / s->n * stride;
}

#endif
