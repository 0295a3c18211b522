/* SPDX-License-Identifier: Apache-2.0 */
/* copy_choice.c - pieces are timed, disturbed ones dropped, kernels chosen */
#include "base/copy_choice.h"

#include <sys/resource.h>

#include "base/clock.h"
#include "base/copy_sum.h"

#define LONG_LEAST  TEI_COPY_GROUP /* four pages fit side by side */
#define TIMED_LEAST 4096u          /* what is less tells nothing */
#define AGAIN       256u /* pieces from one that is timed to the next */
#define TRIES       2u   /* times the samples that a comparison needs */

_Static_assert(TEI_COPY_KERNELS_MAX <= TEI_FASTEST_WAYS, "all take turns");

/* Bits of a class, beside those of enum tei_copy_of. */
#define CLASS_LONG 1u
#define CLASS_SUM  2u

static const char *const stats[TEI_COPY_CLASSES] = {
	"te_copy_short_bytes_per_second",
	"te_copy_long_bytes_per_second",
	"te_copy_summed_short_bytes_per_second",
	"te_copy_summed_long_bytes_per_second",
	"te_copy_huge_short_bytes_per_second",
	"te_copy_huge_long_bytes_per_second",
	"te_copy_huge_summed_short_bytes_per_second",
	"te_copy_huge_summed_long_bytes_per_second",
	"te_copy_run_short_bytes_per_second",
	"te_copy_run_long_bytes_per_second",
	"te_copy_run_summed_short_bytes_per_second",
	"te_copy_run_summed_long_bytes_per_second",
	"te_copy_run_huge_short_bytes_per_second",
	"te_copy_run_huge_long_bytes_per_second",
	"te_copy_run_huge_summed_short_bytes_per_second",
	"te_copy_run_huge_summed_long_bytes_per_second",
};

/*
 * The choices are the process's, not a rail's: what one rail has learned about
 * this processor holds for the others.
 */
static struct tei_fastest choices[TEI_COPY_CLASSES];

struct stopwatch {
	uint64_t start_ns;
	long n_disturbed; /* cores lost and pages touched until then */
};

static long count_disturbed(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage))
		return 0;
	return usage.ru_nivcsw + usage.ru_minflt + usage.ru_majflt;
}

static struct stopwatch stopwatch_start(void)
{
	long n_disturbed = count_disturbed();

	return (struct stopwatch){tei_now_ns(), n_disturbed};
}

/* Stops it; returns whether nothing has disturbed the work. */
static bool stopwatch_stop(const struct stopwatch *watch, uint64_t *ns)
{
	*ns = tei_now_ns() - watch->start_ns;
	return count_disturbed() == watch->n_disturbed;
}

struct piece {
	void *to;
	const void *from;
	size_t len;
	bool is_summed;
	void *keep;   /* keep[len], where it is summed */
	uint32_t crc; /* before it; then after it */
};

static void copy_by(const struct tei_copier *copier, struct piece *p)
{
	if (p->is_summed)
		p->crc = tei_copier_sum(copier, p->crc, p->to, p->keep, p->from,
					p->len);
	else
		copier->copy(p->to, p->from, p->len);
}

/* Copies a piece by the way whose turn it is. Returns whether it counted. */
static bool copy_timed(struct tei_fastest *fastest, unsigned int way,
		       struct piece *piece)
{
	struct stopwatch watch = stopwatch_start();
	uint64_t ns;
	bool clean;

	copy_by(tei_copier_at(way), piece);
	clean = stopwatch_stop(&watch, &ns);
	return tei_fastest_end(fastest, way, tei_copiers(), piece->len, ns,
			       clean);
}

/*
 * The gap until the next piece that is timed: none while kernels are compared
 * first, unless pieces are disturbed, as those of fresh memory all are.
 */
static uint32_t next_gap(const struct tei_fastest *fastest, bool counted,
			 uint32_t gap)
{
	if (tei_fastest_speed(fastest))
		return AGAIN;
	if (counted)
		return 0;
	gap = gap ? gap * 2 : 1;
	return gap < AGAIN ? gap : AGAIN;
}

/* Returns the way to be timed, or -1. */
static int take_turn(struct tei_copy_use *use, unsigned int class, size_t len)
{
	if (len < TIMED_LEAST)
		return -1;
	if (use->class[class].untimed) {
		use->class[class].untimed--;
		return -1;
	}
	return tei_fastest_begin(&choices[class], tei_copiers());
}

static unsigned int class_of(unsigned int of, const struct piece *piece)
{
	return of | (piece->is_summed ? CLASS_SUM : 0) |
	       (piece->len >= LONG_LEAST ? CLASS_LONG : 0);
}

static const struct tei_copier *chosen_copier(const struct tei_fastest *fastest)
{
	return tei_fastest_speed(fastest)
		       ? tei_copier_at(tei_fastest_chosen(fastest))
		       : tei_copier_plain();
}

static void copy_piece(struct tei_copy_use *use, unsigned int of,
		       struct piece *piece)
{
	unsigned int class = class_of(of, piece);
	struct tei_fastest *fastest = &choices[class];
	int way = use->named ? -1 : take_turn(use, class, piece->len);
	bool counted;

	if (use->named) {
		copy_by(use->named, piece);
	} else if (way < 0) {
		copy_by(chosen_copier(fastest), piece);
	} else {
		counted = copy_timed(fastest, (unsigned int)way, piece);
		use->class[class].gap =
			next_gap(fastest, counted, use->class[class].gap);
		use->class[class].untimed = use->class[class].gap;
	}
}

void tei_copy_cold(struct tei_copy_use *use, unsigned int of, void *to,
		   const void *from, size_t len)
{
	struct piece piece = {.to = to, .from = from, .len = len};

	copy_piece(use, of, &piece);
}

bool tei_copy_cold_folds(const struct tei_copy_use *use)
{
	return tei_copier_folds(use->named ? use->named : tei_copier_plain());
}

uint32_t tei_copy_cold_summed(struct tei_copy_use *use, unsigned int of,
			      uint32_t crc, void *to, void *keep,
			      const void *from, size_t len)
{
	struct piece piece = {to, from, len, true, keep, crc};

	copy_piece(use, of, &piece);
	return piece.crc;
}

bool tei_copy_choice(unsigned int class, struct tei_copy_choice *out)
{
	const struct tei_fastest *fastest = &choices[class];
	uint64_t speed = tei_fastest_speed(fastest);

	if (!speed)
		return false;
	*out = (struct tei_copy_choice){
		.stat = stats[class],
		.copier = tei_copier_at(tei_fastest_chosen(fastest))->name,
		.bytes_per_s = speed,
	};
	return true;
}

void tei_copy_compare(void *to, const void *from, size_t len, size_t piece,
		      bool evict, struct tei_copy_result *out)
{
	unsigned int n = tei_copiers();
	unsigned int tries = n * TEI_FASTEST_SAMPLES * TRIES;
	struct tei_fastest fastest = {0};
	size_t at = 0;

	for (; tries && !tei_fastest_speed(&fastest); tries--) {
		int way = tei_fastest_begin(&fastest, n);

		if (evict) {
			tei_copy_evict((const char *)from + at, piece);
			tei_copy_evict((const char *)to + at, piece);
		}
		(void)copy_timed(
			&fastest, (unsigned int)way,
			&(struct piece){.to = (char *)to + at,
					.from = (const char *)from + at,
					.len = piece});
		at = at + 2 * piece <= len ? at + piece : 0;
	}
	tei_copy_fence();
	*out = (struct tei_copy_result){
		.best = chosen_copier(&fastest),
		.best_gb_per_s = (double)tei_fastest_speed(&fastest) / 1e9,
		.memcpy_gb_per_s =
			(double)tei_fastest_speed_of(&fastest, 0) / 1e9,
	};
}
