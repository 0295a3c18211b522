/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_choice.h - cold memory is copied by the kernel that is fastest here
 *
 * Which kernel that is depends on processor, memory and mapping, so each
 * process finds it with its first large copies: pieces of real work go by all
 * kernels in turn (base/fastest.h). As long as nothing is chosen, others go by
 * the plain order; later every 256th piece is timed again. A piece counts if no
 * other thread took the core and no page was touched for the first time
 * meanwhile.
 */
#ifndef BASE_COPY_CHOICE_H
#define BASE_COPY_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/copy.h"
#include "base/fastest.h"

/*
 * Classes differ in mapping, length of a run and of a piece, and in whether
 * that is summed.
 */
#define TEI_COPY_CLASSES 16u

/* Kinds of pieces, which are compared with their like. */
enum tei_copy_of {
	TEI_COPY_OF_HUGE = 4,  /* memory that is, or may be, in huge pages */
	TEI_COPY_OF_SHORT = 8, /* a run that the caches have room for */
};

/* Bytes copied in a row from which a run is a long one. */
#define TEI_COPY_LONG_RUN ((uint64_t)1 << 20)

/* State of copies of one thread at a time, as of a rail. Zeroed at first. */
struct tei_copy_use {
	const struct tei_copier *named; /* of a setting; NULL: by measurement */
	struct {
		uint32_t untimed, gap; /* pieces until the next timed one */
	} class[TEI_COPY_CLASSES];
};

/*
 * Copies one piece, up to about 64 KiB, of memory that is not in the caches to
 * @to; as tei_copy_fn. @of: enum tei_copy_of, several or 0.
 */
void tei_copy_cold(struct tei_copy_use *use, unsigned int of, void *to,
		   const void *from, size_t len);

/*
 * Tells whether tei_copy_cold_summed() may fold checksums out of what it
 * stores: the kernel that is named does, or one of those to choose from.
 */
bool tei_copy_cold_folds(const struct tei_copy_use *use);

/* The same with a checksum, as tei_copier_sum(). @keep: keep[len], not NULL. */
uint32_t tei_copy_cold_summed(struct tei_copy_use *use, unsigned int of,
			      uint32_t crc, void *to, void *keep,
			      const void *from, size_t len);

struct tei_copy_choice {
	const char *stat;     /* name of the figure; static */
	const char *copier;   /* name of the kernel; static */
	uint64_t bytes_per_s; /* median of its pieces */
};

/*
 * Tells what is chosen for @class, < TEI_COPY_CLASSES, in this process. False:
 * nothing is yet. Any thread.
 */
bool tei_copy_choice(unsigned int class, struct tei_copy_choice *out);

struct tei_copy_result {
	const struct tei_copier *best;
	double best_gb_per_s, memcpy_gb_per_s; /* medians; 0: none was clean */
};

/*
 * Times all kernels by turns on pieces of @piece bytes of @len bytes of memory,
 * for tools. @evict: takes each out of the caches first. best: the plain order
 * where the host was too busy to tell. Blocks for about as long as 350 copies.
 */
void tei_copy_compare(void *to, const void *from, size_t len, size_t piece,
		      bool evict, struct tei_copy_result *out);

#endif
